"""What there has been of jobs on a real control plane, as watches have shown it."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scavenger_admitter.writer import SCAVENGERJOBS
from scavenger_api import names
from scavenger_cluster.kwok import RUN_SECONDS
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import ApiError, NotFound
from scavenger_kube.kinds import Job, ObjectMeta, Pod, Struct
from scavenger_kube.resources import JOBS, PODS, Resource
from scavenger_runtime.cache import Change
from scavenger_runtime.informer import Informer
from scavenger_testing.waiting import TIMEOUT


@dataclass(frozen=True)
class Created:
    """A batch/v1 Job that there has been.

    revision: of the API server's store, at which it was created. A watch first shows every object as it was created;
    one that was found in a list, after somebody had changed it, does not tell: 0.
    """

    uid: str
    run: str
    at: str
    revision: int


class LeaseSpec(Struct, frozen=True, gc=False, rename="camel"):
    """Who leads."""

    holder_identity: str | None = None


class Lease(Struct, frozen=True, gc=False, rename="camel"):
    """coordination.k8s.io/v1 Lease, with its holder."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()


LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", True, Lease)


class Recorder:
    """Remembers every Job and pod of scavenger jobs that there has ever been, and has pods end where it is told to.

    holders: who has held the admitter's Lease, one after the other, and from which revision on; empty for nobody.
    run_seconds: by namespace, for how long each pod runs. ScavengerJobs cannot annotate their pods, so that what kwok
    is to do is written on the pods themselves.
    """

    def __init__(self, kubeconfig: Path) -> None:
        self.jobs: dict[str, dict[str, Created]] = defaultdict(dict)
        self.pods: dict[str, set[str]] = defaultdict(set)
        self.phases: dict[str, list[str]] = defaultdict(list)
        self.holders: list[tuple[int, str]] = []
        self.run_seconds: dict[str, str] = {}
        self._kubeconfig = str(kubeconfig)
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(TIMEOUT), "the recorder has seen nothing"

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._main.cancel)
        self._thread.join(30)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._main = self._loop.create_task(self._follow())
        try:
            self._loop.run_until_complete(self._main)
        except asyncio.CancelledError:
            pass
        finally:
            self._loop.close()

    async def _follow(self) -> None:
        async with await ApiClient.connect(kubeconfig=self._kubeconfig, user_agent="recorder") as client:
            self._client = client
            self._patches: set[asyncio.Task[None]] = set()
            informers: list[Informer[Any]] = [
                Informer(client, SCAVENGERJOBS),
                Informer(client, JOBS, label_selector=names.LABEL_JOB),
                Informer(client, PODS, label_selector=names.LABEL_JOB),
                Informer(
                    client,
                    LEASES,
                    namespace=names.SYSTEM_NAMESPACE,
                    field_selector=f"metadata.name={names.ADMITTER}",
                ),
            ]
            informers[0].add_handler(self._on_owner)
            informers[1].add_handler(self._on_job)
            informers[2].add_handler(self._on_pod)
            informers[3].add_handler(self._on_lease)
            async with asyncio.TaskGroup() as group:
                for informer in informers:
                    group.create_task(informer.run())
                for informer in informers:
                    await informer.wait_synced()
                self._ready.set()

    def _on_owner(self, change: Change[Any]) -> None:
        phase = change.new.status.phase if change.new is not None else None
        if phase and self.phases[change.key][-1:] != [phase]:
            self.phases[change.key].append(str(phase))

    def _on_job(self, change: Change[Job]) -> None:
        meta = change.obj.metadata
        run = meta.annotations.get(names.ANNOTATION_RUN, "")
        # What the Job controller writes first has the startTime in it, and nobody else changes a Job.
        revision = int(meta.resource_version) if change.obj.status.start_time is None else 0
        self.jobs[change.key].setdefault(meta.uid, Created(meta.uid, run, meta.creation_timestamp or "", revision))

    def _on_lease(self, change: Change[Lease]) -> None:
        holder = (change.new.spec.holder_identity or "") if change.new is not None else ""
        if holder != (self.holders[-1][1] if self.holders else ""):
            self.holders.append((int(change.obj.metadata.resource_version), holder))

    def _on_pod(self, change: Change[Pod]) -> None:
        meta = change.obj.metadata
        key = f"{meta.namespace}/{meta.labels[names.LABEL_JOB]}"
        if meta.uid in self.pods[key]:
            return
        self.pods[key].add(meta.uid)
        seconds = self.run_seconds.get(meta.namespace)
        if seconds is not None:
            task = self._loop.create_task(self._end_after(meta.namespace, meta.name, seconds))
            self._patches.add(task)
            task.add_done_callback(self._patches.discard)

    async def _end_after(self, namespace: str, pod: str, seconds: str) -> None:
        patch = {"metadata": {"annotations": {RUN_SECONDS: seconds}}}
        while True:  # without it the pod would never end
            try:
                await self._client.merge_patch(PODS, namespace, pod, patch)
            except NotFound:
                return
            except ApiError as error:
                print(f"{namespace}/{pod} not annotated yet: {error}", flush=True)  # noqa: T201
                await asyncio.sleep(1)
            else:
                return
