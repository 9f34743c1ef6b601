"""Pods of earlier runs: whether they have surely ended, and what is to be done with them.

A job starts again only when nothing of its last run can still be computing (and writing to its volumes). A
pod that is asked to go away has not gone: its node may be out of reach and its containers running on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from scavenger_api.names import FINALIZER, GROUP, LABEL_KIND
from scavenger_domain.pod_ends import deleting, failed_unreported, held, moment
from scavenger_kube import kinds

from scavenger_admitter.core.lifecycle.actions import DeletePod, DisownPod, OfPod, ReleasePod

OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
"""An administrator's word that the node is shut down (KEP-2268); the kubelet on it can do nothing more."""

LEFTOVER_PATIENCE: Final = timedelta(seconds=15)
"""How long after its grace period a pod of an earlier run may still be there before `message` speaks of it."""

ABANDONED_AFTER: Final = timedelta(minutes=5)
"""After the grace period of a pod whose node is not ready. Kubernetes deletes it when the node has not been ready for
five minutes."""


@dataclass(frozen=True, slots=True)
class LeftoverPod:
    """A pod of an earlier run that may still be computing."""

    pod: kinds.Pod
    node: kinds.Node | None
    overdue: bool
    """Its grace period is over, or its node does not answer: this will not pass by itself."""
    until: datetime | None
    """When something about it changes by time alone: it becomes overdue, or is waited for no longer."""

    @property
    def message(self) -> str:
        """Which pod on which node, and what frees the job."""
        name, where = self.pod.metadata.name, self.pod.spec.node_name
        if not where:
            return f"held back by pod {name} of the last run, which is not deleted yet"
        state = "which has not ended it yet" if self.node is None or self.node.ready else "which is not ready"
        return (
            f"held back by pod {name} of the last run on node {where}, {state}: the job starts again when "
            "the node reports the end of the pod, or when an administrator who knows that it is off deletes "
            f"Node {where} or taints it {OUT_OF_SERVICE}"
        )


def surely_ended(pod: kinds.Pod, nodes: Mapping[str, kinds.Node | None]) -> bool:
    """Whether no container of the pod can run any more, now or later.

    A node that is missing in `nodes` is not known; one mapped to None is known not to exist.
    """
    name = pod.spec.node_name
    if pod.ended or (_stopped(pod) and name in nodes and out_of_reach(nodes[name])):
        return True
    if not deleting(pod):
        return False
    if not name:
        return True  # never placed, and the API refuses to bind a pod that is being deleted
    if name not in nodes:
        return False
    node = nodes[name]
    if node is None or any(taint.key == OUT_OF_SERVICE for taint in node.spec.taints):
        return True
    forced = pod.metadata.deletion_grace_period_seconds == 0 and pod.spec.termination_grace_period_seconds != 0
    return forced and not node.ready


def out_of_reach(node: kinds.Node | None) -> str:
    """Why the kubelet of a node reports nothing; empty where it does."""
    if node is None:
        return "is gone"
    return "" if node.ready else "is not ready"


def _stopped(pod: kinds.Pod) -> bool:
    """Whether it has failed, as its kubelet reported before it could write the phase: no pod of a job restarts any
    container. One with a sidecar that was not seen to end may still be computing."""
    return failed_unreported(pod) and all(one.state.terminated for one in pod.status.init_container_statuses)


def find_leftover_pods(
    pods: Iterable[kinds.Pod],
    nodes: Mapping[str, kinds.Node | None],
    now: datetime,
    *,
    harmless: bool,
) -> tuple[LeftoverPod, ...]:
    """The pods that may still be computing, most troublesome first.

    Args:
        pods: of earlier runs.
        nodes: those that the pods are on.
        now: the moment.
        harmless: two runs of this job share nothing. Its pods on a node that stays lost are waited for no longer than
            `ABANDONED_AFTER`.
    """
    alive = (pod for pod in pods if not surely_ended(pod, nodes))
    found = [_leftover(pod, nodes.get(pod.spec.node_name), now, harmless=harmless) for pod in alive]
    return tuple(sorted((f for f in found if f is not None), key=lambda r: (not r.overdue, r.pod.metadata.name)))


def _leftover(pod: kinds.Pod, node: kinds.Node | None, now: datetime, *, harmless: bool) -> LeftoverPod | None:
    """None where the pod is waited for no longer."""
    due = moment(pod.metadata.deletion_timestamp)
    until = due + LEFTOVER_PATIENCE if due is not None else None
    late = until is not None and until <= now
    unreachable = node is not None and not node.ready
    if harmless and unreachable and due is not None:
        until = due + ABANDONED_AFTER
        if until <= now:
            return None
    return LeftoverPod(pod, node, late or unreachable, until)


def clear(
    pods: Iterable[kinds.Pod], nodes: Mapping[str, kinds.Node | None], *, job_uid: str | None, alone: bool = False
) -> tuple[OfPod, ...]:
    """What happens to pods of earlier runs: released when they have ended, deleted when no other controller will.

    `job_uid`: the Job that takes its pods with it when it is deleted. None where it is being deleted already: another
    client's finalizer may hold it, and the garbage collector leaves the pods of an owner that exists. `alone`: their
    Job stays, so those that have ended are deleted as well.
    """
    found = (_clear(pod, nodes, job_uid, alone=alone) for pod in pods)
    return tuple(action for action in found if action is not None)


def _clear(pod: kinds.Pod, nodes: Mapping[str, kinds.Node | None], job_uid: str | None, *, alone: bool) -> OfPod | None:
    owner = pod.metadata.controller
    if surely_ended(pod, nodes):
        if held(pod):
            return ReleasePod(pod.metadata.name, pod.metadata.uid)
        if deleting(pod) or (owner is not None and not alone):
            return None  # the garbage collector takes it when its Job is gone
    elif deleting(pod) or (owner is not None and owner.uid == job_uid):
        return None
    return DeletePod(pod.metadata.name, pod.metadata.uid)


def stop(pods: Iterable[kinds.Pod], intent: str = "") -> tuple[OfPod, ...]:
    """Delete every pod that has not ended and is not deleted yet. intent: as of `DeletePod`."""
    return tuple(
        DeletePod(pod.metadata.name, pod.metadata.uid, intent) for pod in pods if not pod.ended and not deleting(pod)
    )


def release(pods: Iterable[kinds.Pod]) -> tuple[OfPod, ...]:
    """Release every pod: no ending of theirs matters any more."""
    return tuple(ReleasePod(pod.metadata.name, pod.metadata.uid) for pod in pods if held(pod))


def _disown(pod: kinds.Pod) -> DisownPod:
    meta = pod.metadata
    ours = tuple(sorted(label for label in meta.labels if label.startswith(f"{GROUP}/")))
    rest = tuple(one for one in meta.finalizers if one != FINALIZER)
    return DisownPod(meta.name, meta.uid, meta.resource_version, ours, rest)


def clear_orphans(pods: Sequence[kinds.Pod]) -> tuple[OfPod, ...]:
    """What is to be done with pods whose ScavengerJob does not exist any more.

    Deleted when they are not deleted yet; released as soon as they are being deleted or have ended: no component reads
    the record any more. Pods of a Job that its user deleted without them are the user's.
    """
    actions: list[OfPod] = []
    for pod in pods:
        if LABEL_KIND in pod.metadata.labels and pod.metadata.controller is None and not deleting(pod):
            actions.append(_disown(pod))
        elif not deleting(pod) and not pod.ended:
            actions.append(DeletePod(pod.metadata.name, pod.metadata.uid))
        elif held(pod):
            actions.append(ReleasePod(pod.metadata.name, pod.metadata.uid))
        elif not deleting(pod):
            actions.append(DeletePod(pod.metadata.name, pod.metadata.uid))
    return tuple(actions)
