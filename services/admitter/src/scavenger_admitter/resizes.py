"""Notes on pods what their programs requested before they were resized in place (`scavenger_domain.sizes`).

A resize is seen as a change of a pod. What was resized while no admitter led, is found when one begins to: it counts
from then on. A note is written once for each resize, and the books of a run read it when they are settled.
"""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from scavenger_api import names
from scavenger_api.job import ScavengerJobSpec
from scavenger_api.quantity import QuantityError, amount
from scavenger_api.times import micros
from scavenger_domain.requests import program_cpu
from scavenger_domain.sizes import Sizes, format_sizes, parse_sizes, resized
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import ApiError, Conflict, Forbidden, NotFound
from scavenger_kube.kinds import Pod
from scavenger_kube.resources import PODS
from scavenger_runtime.cache import Change
from scavenger_runtime.clock import Clock
from scavenger_runtime.logging import get_logger
from scavenger_runtime.write_budget import Urgency, WriteBudget

from scavenger_admitter.facts import job_key
from scavenger_admitter.informers import Informers

AGAIN_SECONDS: Final = 5.0
"""Until a note is written again that could not be written."""

log = get_logger(__name__)


class _Note(NamedTuple):
    """What is to stand on a pod."""

    uid: str
    sizes: Sizes


class Resizes:
    """Keeps the notes of all pods while this process leads.

    Args:
        client: to write with.
        clock: by which a resize is dated when it is seen.
        budget: of writes.
        informers: the pods and their jobs.
    """

    def __init__(self, client: ApiClient, clock: Clock, budget: WriteBudget, informers: Informers) -> None:
        self._client = client
        self._clock = clock
        self._budget = budget
        self._informers = informers
        self._leads = False
        self._due = asyncio.Event()
        self._notes: dict[str, _Note] = {}
        """By key of the pod: those that its informer does not show yet."""
        self._unwritten: dict[str, None] = {}

    def saw(self, change: Change[Pod]) -> None:
        """A pod was added or changed, or is gone."""
        old, new, known = change.old, change.new, self._notes.get(change.key)
        if known is not None and (new is None or new.metadata.uid != known.uid or _noted(new) == known.sizes):
            del self._notes[change.key]
            self._unwritten.pop(change.key, None)
        if not self._leads or new is None or old is None or not job_key(new):
            return
        if old.metadata.uid == new.metadata.uid:
            self._compare(new, program_cpu(old, old.program))

    async def run(self) -> None:
        """Find what was resized before, and write notes, until cancelled."""
        self._leads = True
        for pod in self._informers.pods.items():
            for key in job_key(pod):
                job = self._informers.job(key)
                created = _created_with(job.spec, pod.program) if job is not None and _may_differ(pod) else None
                self._compare(pod, created)
        while True:
            await self._due.wait()
            self._due.clear()
            while self._unwritten:
                written = [await self._write(key) for key in tuple(self._unwritten)]
                if not all(written):
                    await self._clock.sleep(AGAIN_SECONDS)

    def _compare(self, pod: Pod, before: int | None) -> None:
        """Note what a pod requests now, where that is another amount than was known. before: what it requested, where
        nothing is noted."""
        known = self._notes[pod.metadata.key].sizes if pod.metadata.key in self._notes else _noted(pod)
        before = known[-1][1] if known else before
        if before is None or pod.ended or (cpu := program_cpu(pod, pod.program)) is None or cpu == before:
            return
        key, now = pod.metadata.key, micros(self._clock.now())
        self._notes[key] = _Note(pod.metadata.uid, resized(known, before, now, cpu))
        self._unwritten[key] = None
        self._due.set()
        log.info("pod resized", pod=key, millicores=cpu, before=before)

    async def _write(self, key: str) -> bool:
        """Write a note; False where that is to be tried again."""
        await self._budget.take(Urgency.COUNT)
        note = self._notes.get(key)
        self._unwritten.pop(key, None)
        if note is None:  # the pod went meanwhile
            return True
        annotations = {names.ANNOTATION_REQUESTED_CPU: format_sizes(note.sizes)}
        namespace, _, name = key.partition("/")
        try:
            patch = {"metadata": {"uid": note.uid, "annotations": annotations}}
            await self._client.merge_patch(PODS, namespace, name, patch)
        except (Conflict, NotFound):  # another pod of this name, or none
            self._notes.pop(key, None)
        except ApiError as error:
            log.warning("what a pod requested could not be noted", pod=key, error=str(error))
            if isinstance(error, Forbidden):  # by the policies of an older version, which go on to
                self._notes.pop(key, None)
            elif key in self._notes:
                self._unwritten[key] = None
                return False
        return True


def _noted(pod: Pod) -> Sizes:
    return parse_sizes(pod.metadata.annotations.get(names.ANNOTATION_REQUESTED_CPU))


def _may_differ(pod: Pod) -> bool:
    """Whether the spec of a pod has changed since it was created. An API server without generations of pods (before
    Kubernetes 1.34) says 0."""
    return pod.metadata.generation != 1


def _created_with(spec: ScavengerJobSpec, program: str) -> int | None:
    """Millicores that the program of a pod of this job was created with; None where its job does not say."""
    if spec.template is None:
        return spec.requests.get("cpu")
    own = next((one.resources for one in spec.template.spec.containers if one.name == program), None)
    if own is None:
        return None
    written = {**own.limits, **own.requests}.get("cpu")
    try:
        return None if written is None else amount("cpu", written)
    except QuantityError:
        return None
