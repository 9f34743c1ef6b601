"""How programs ended, as it was seen first.

A kubelet that was started again may not find a container that has ended, and says then that it ended with 137 and the
reason ContainerStatusUnknown. The end that was seen before is the truth: what is finished does not run again. A process
keeps it for the pods that it has not counted, and it is lost with the process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Self

import msgspec
from scavenger_domain.pod_ends import held, main_status
from scavenger_domain.pod_reading import LOST_CONTAINER, START_ERRORS
from scavenger_kube import kinds

MOST_EXITS: Final = 1000
"""Of one job. Beyond so many an end that its kubelet takes back is an interruption."""


class SeenExit(NamedTuple):
    """The end of a main container.

    Attributes:
        ended: how it ended.
        observed: the generation of the pod that its kubelet knew.
    """

    ended: kinds.Terminated
    observed: int

    @classmethod
    def of(cls, pod: kinds.Pod) -> Self | None:
        """That of a pod; None where its program runs, never ran, or its end was not seen."""
        main = _main(pod)
        ended = main.state.terminated if main is not None else None
        if ended is None or ended.reason in LOST_CONTAINER or ended.reason in START_ERRORS:
            return None
        return cls(ended, pod.status.observed_generation)


def remembered(known: Mapping[str, SeenExit], pods: Iterable[kinds.Pod]) -> dict[str, SeenExit]:
    """What is known after another look, by UID. pods: all of the job; nothing is kept of those that are counted."""
    found = dict[str, SeenExit]()
    for pod in pods:
        uid = pod.metadata.uid
        one = known.get(uid) or SeenExit.of(pod)
        if one is not None and held(pod) and len(found) < MOST_EXITS:
            found[uid] = one
    return found


def restored(pod: kinds.Pod, known: Mapping[str, SeenExit]) -> kinds.Pod:
    """The pod with the end that was seen, where its kubelet does not know it any more."""
    found, main = known.get(pod.metadata.uid), _main(pod)
    ended = main.state.terminated if main is not None else None
    if found is None or main is None or ended is None or ended.reason not in LOST_CONTAINER:
        return pod
    seen = msgspec.structs.replace(main, state=kinds.ContainerState(terminated=found.ended))
    containers = tuple(seen if one is main else one for one in pod.status.container_statuses)
    ends = [one.state.terminated for one in containers]
    done = pod.ended and all(one is not None and not one.exit_code for one in ends)
    status = msgspec.structs.replace(
        pod.status,
        container_statuses=containers,
        observed_generation=found.observed,
        phase="Succeeded" if done else pod.status.phase,
    )
    return msgspec.structs.replace(pod, status=status)


def _main(pod: kinds.Pod) -> kinds.ContainerStatus | None:
    found = main_status(pod)
    return next((one for one in pod.status.container_statuses if one is found), None)
