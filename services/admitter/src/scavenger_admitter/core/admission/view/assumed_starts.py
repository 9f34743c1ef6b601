"""Starts under way: the capacity of a grant is held from the decision until its pods are bound."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field

from scavenger_api.names import DEFAULT_QUEUE

from scavenger_admitter.core.admission.snapshot import Grant, Reservation
from scavenger_admitter.core.admission.view.object_facts import PodFacts


@dataclass(slots=True)
class _AssumedStart:
    """A grant whose pods are not all bound yet."""

    grant: Grant
    queue: str
    nodes: list[str]
    # Pods of this grant that need no reservation any more: bound, ended or deleted. By uid, and never taken back: a pod
    # that was bound and then deleted has left its node, it does not get a second reservation. With the grant that
    # each is of, for `assert_sound`.
    released: dict[str, tuple[str, int]] = field(default_factory=dict)

    @property
    def remaining(self) -> int:
        return self.grant.pods - len(self.released)

    def release(self, pod: PodFacts) -> None:
        if pod.uid in self.released:
            return
        self.released[pod.uid] = (pod.run, pod.grant)
        if pod.node in self.nodes:
            self.nodes.remove(pod.node)
        elif len(self.nodes) > self.remaining:
            self.nodes.pop()


class AssumedStarts:
    """The grants whose pods are not all bound yet, by job and number.

    Args:
        pods: all scavenger pods by job and key; a live view of the owner's mapping.
        unbound: those of them that have no node yet and are to get one, in the same way.
    """

    def __init__(
        self, pods: Mapping[str, Mapping[str, PodFacts]], unbound: Mapping[str, Mapping[str, PodFacts]]
    ) -> None:
        self._pods = pods
        self._unbound = unbound
        self._assumed: dict[str, dict[int, _AssumedStart]] = {}

    def assume(self, key: str, grant: Grant, *, queue: str = DEFAULT_QUEUE) -> None:
        """A job, or tasks of an array, start: hold the capacity of the grant, whatever the informers show so far.

        The capacity of each pod of the grant is held until that pod is bound, has ended or is deleted. After the last
        one the assumption is over. Call it before the Job is created, and for a Job found with pods missing after a
        restart. What was assumed for the same number before is replaced: a job has one grant.

        Args:
            key: namespace/name of the job.
            grant: what was given.
            queue: of the job.
        """
        assumed = _AssumedStart(grant, queue, list(grant.nodes)[: grant.pods])
        self._assumed.setdefault(key, {})[grant.number] = assumed
        for pod in list(self._pods.get(key, {}).values()):
            if pod.node or pod.ended:
                self.release(pod)
        if assumed.remaining <= 0:
            self._end(key, grant.number)

    def forget(self, key: str) -> None:
        """The start of a job was undone, or is over: hold nothing for it beyond the pods that exist."""
        self._assumed.pop(key, None)

    def _end(self, key: str, number: int) -> None:
        starts = self._assumed.get(key, {})
        starts.pop(number, None)
        if not starts:
            self._assumed.pop(key, None)

    @property
    def runs(self) -> Mapping[str, str]:
        """Runs of the starts that capacity is held for, by job."""
        return {key: start.grant.run for key, starts in self._assumed.items() for start in starts.values()}

    def release(self, pod: PodFacts) -> None:
        """A pod of a start needs no reservation any more: it is bound, has ended or is gone."""
        start = self._start_of(pod)
        if start is not None:
            start.release(pod)
            if start.remaining <= 0:
                self._end(pod.job, start.grant.number)

    def _start_of(self, pod: PodFacts) -> _AssumedStart | None:
        """The start whose grant the pod is of; None where that is not assumed here."""
        start = self._assumed.get(pod.job, {}).get(pod.grant)
        return start if start is not None and start.grant.run == pod.run else None

    def reservations(self) -> list[Reservation]:
        """What is held by job: for grants, and for each unbound pod whose grant is not assumed here."""
        found: list[Reservation] = []
        for key in sorted(self._assumed.keys() | self._unbound.keys()):
            starts = self._assumed.get(key, {})
            found += [
                Reservation(
                    key, start.grant.shape, start.remaining, tuple(start.nodes), queue=start.queue, grant=start.grant
                )
                for _, start in sorted(starts.items())
            ]
            found += [
                Reservation(key, pod.shape, 1, queue=pod.queue, pod=pod.key)
                for _, pod in sorted(self._unbound.get(key, {}).items())
                if pod.shape is not None and self._start_of(pod) is None
            ]
        return found

    def keys(self) -> Set[str]:
        """The jobs that capacity is held for."""
        return self._assumed.keys()

    def released(self) -> Iterator[tuple[Grant, tuple[tuple[str, int], ...]]]:
        """Each grant, with the run and the grant's number of each pod that its capacity was released for."""
        for starts in self._assumed.values():
            for start in starts.values():
                yield start.grant, tuple(start.released.values())
