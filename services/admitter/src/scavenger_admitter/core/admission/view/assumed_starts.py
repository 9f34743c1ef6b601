"""Starts under way: the room of a gang is held from the moment it is started until its pods are bound."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field

from scavenger_api.names import DEFAULT_QUEUE

from scavenger_admitter.core.admission.shape import Shape
from scavenger_admitter.core.admission.snapshot import Reservation
from scavenger_admitter.core.admission.view.object_facts import PodFacts


@dataclass(slots=True)
class _AssumedStart:
    """A start of ours whose pods are not all bound yet."""

    run: str
    shape: Shape
    parallelism: int
    queue: str
    nodes: list[str]
    # Pods of this run that need no reservation any more: bound, ended or deleted. By uid, and never taken back: a pod
    # that was bound and then deleted has given its room back, it does not get a second reservation.
    released: set[str] = field(default_factory=set)

    @property
    def remaining(self) -> int:
        return self.parallelism - len(self.released)

    def release(self, pod: PodFacts) -> None:
        if pod.uid in self.released:
            return
        self.released.add(pod.uid)
        if pod.node in self.nodes:
            self.nodes.remove(pod.node)
        elif len(self.nodes) > self.remaining:
            self.nodes.pop()


class AssumedStarts:
    """The starts of ours whose pods are not all bound yet.

    Args:
        pods: all scavenger pods by job and key; a live view of somebody else's.
        unbound: those of them that have no node yet and are to get one, in the same way.
    """

    def __init__(
        self, pods: Mapping[str, Mapping[str, PodFacts]], unbound: Mapping[str, Mapping[str, PodFacts]]
    ) -> None:
        self._pods = pods
        self._unbound = unbound
        self._assumed: dict[str, _AssumedStart] = {}

    def assume(
        self,
        key: str,
        run: str,
        shape: Shape,
        parallelism: int,
        *,
        queue: str = DEFAULT_QUEUE,
        nodes: Iterable[str] = (),
    ) -> None:
        """We start a job: hold its room until its pods are bound, whatever the informers show so far.

        The room of each pod of the run is held until that pod is bound, has ended or is deleted, and after
        the last one the assumption is over. Call it before the Job is created, and for a Job found with pods
        missing after a restart. Assuming a key again replaces what was assumed before.

        Args:
            key: namespace/name of the job.
            run: identity of the run, as its pods carry it (annotation `scavenger.dev/run`, else the Job's
                name).
            shape: of each pod.
            parallelism: pods in the gang.
            queue: of the job.
            nodes: where the plan put the pods (`Start.nodes`); without, the next cycle looks for places.
        """
        assumed = self._assumed[key] = _AssumedStart(run, shape, parallelism, queue, list(nodes)[:parallelism])
        for pod in list(self._pods.get(key, {}).values()):
            if pod.node or pod.ended:
                self.release(pod)
        if assumed.remaining <= 0:
            self._assumed.pop(key, None)

    def forget(self, key: str) -> None:
        """The start of a job was undone, or is over: hold nothing for it beyond the pods that exist."""
        self._assumed.pop(key, None)

    @property
    def runs(self) -> Mapping[str, str]:
        """Runs of the starts that room is held for, by job."""
        return {key: start.run for key, start in self._assumed.items()}

    def release(self, pod: PodFacts) -> None:
        """A pod of a start needs no reservation any more: it is bound, has ended or is gone."""
        start = self._assumed.get(pod.job)
        if start is not None and start.run == pod.run:
            start.release(pod)
            if start.remaining <= 0:
                del self._assumed[pod.job]

    def reservations(self) -> list[tuple[str, Reservation]]:
        """Starts under way as (queue, reservation), by job: assumed ones, and unbound pods nobody assumed."""
        found: list[tuple[str, Reservation]] = []
        for key in sorted(self._assumed.keys() | self._unbound.keys()):
            start = self._assumed.get(key)
            if start is not None:
                nodes = tuple(start.nodes)
                found.append((start.queue, Reservation(key, start.shape, start.remaining, nodes)))
            for _, pod in sorted(self._unbound.get(key, {}).items()):
                if pod.shape is not None and (start is None or start.run != pod.run):
                    found.append((pod.queue, Reservation(key, pod.shape, 1)))
        return found

    def keys(self) -> Set[str]:
        """The jobs that room is held for."""
        return self._assumed.keys()
