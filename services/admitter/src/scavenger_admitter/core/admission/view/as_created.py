"""What pods of jobs really ask for: the API server adds to what the admitter writes.

A mesh or a policy adds containers that request CPU and memory; others add tolerations, node selectors or the overhead
of a runtime. Capacity for such a pod is more, or is elsewhere, than its job says. So the pods of a run teach the next
start of the same kind in the same namespace; without any the job's own words hold.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from scavenger_domain.taints import PASSING
from scavenger_kube.kinds import Pod

from scavenger_admitter.core.admission.shape import Shape, requests_of
from scavenger_admitter.core.admission.snapshot import Candidate

KINDS: Final = 4096
"""Kinds that are remembered; those seen first are forgotten first."""


class ShapesAsCreated:
    """The shapes of pods that were seen, by namespace and kind of job."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, int], Shape] = {}

    def of(self, candidate: Candidate) -> Candidate:
        """The job, asking for what pods of its kind were seen to ask for, where its own volumes are."""
        seen = self._seen.get((candidate.namespace, candidate.kind), candidate.shape)
        shape = seen.where_volumes_are(candidate.volumes)
        return candidate if shape is candidate.shape else replace(candidate, shape=shape)

    def learn(self, written: Candidate, pod: Pod) -> bool:
        """Whether the pod of a job shows anything new about its kind.

        What is requested is never less than written: a pod that runs may have been resized. Tolerations that every pod
        gets (`PASSING`) say nothing about placement.

        Args:
            written: the job as its spec says.
            pod: any pod of its run, as the API server has it.

        Raises:
            QuantityError: when one of the pod's quantities is none.
        """
        shape, key = written.shape, (written.namespace, written.kind)
        seen = dict(requests_of(pod))
        seen.update((name, max(value, seen.get(name, 0))) for name, value in shape.requests)
        tolerations = [one for one in pod.spec.tolerations if one.key not in PASSING]
        tolerations += [one for one in shape.tolerations if one.key in PASSING]
        found = Shape.of(seen, pod.spec.node_selector, tolerations, shape.affinity, shape.apart)
        known = self._seen.pop(key, shape)
        if found != shape:
            self._seen[key] = found
            if len(self._seen) > KINDS:
                del self._seen[next(iter(self._seen))]
        return found != known
