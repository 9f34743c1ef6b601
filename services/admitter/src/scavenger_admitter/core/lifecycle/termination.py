"""How a run ended: the gang's verdict out of what its members say.

The earliest cause in time decides, since every later one may be its consequence: the Job controller removes
the siblings of a member that failed, and members that lose a peer exit with an error of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from scavenger_api.reasons import InterruptionReason
from scavenger_api.removing import RemovalReason
from scavenger_domain.nodes import ends
from scavenger_domain.pod_ends import (
    Exit,
    Removal,
    deletion_requested,
    ended_at,
    failed_unreported,
    goes_on,
    last_report,
    moment,
    over,
    own_exit,
    removal,
    succeeded,
)
from scavenger_kube import kinds

from scavenger_admitter.core.lifecycle.leftover_pods import OUT_OF_SERVICE, out_of_reach
from scavenger_admitter.core.lifecycle.run import Run
from scavenger_admitter.core.lifecycle.success import BELIEVED, Evidence, Success
from scavenger_admitter.core.lifecycle.verdict import (
    Checkpointed,
    Completed,
    Failed,
    Removed,
    Termination,
    Undecided,
)

FATE_KNOWN_AFTER: Final = timedelta(minutes=2)
"""How long a failure is left open that a lost node may have caused. Kubernetes finds a node silent after 50 s (the
node-monitor-grace-period of kube-controller-manager), and peers of a lost member fail within seconds."""
PRESSURE_KNOWN_AFTER: Final = timedelta(seconds=20)
"""How long a kill for memory is left open. The kubelet looks for pressure every 10 s (monitoringInterval in
eviction_manager.go) and reports it within nodeStatusUpdateFrequency, 10 s."""
_BY_SIGNAL: Final = (128 + 9, 128 + 15)
_FOR_MEMORY: Final = "OOMKilled"


def find_termination(
    run: Run,
    nodes: Mapping[str, kinds.Node | None],
    now: datetime,
    reboots: Mapping[str, datetime],
    evidence: Evidence = BELIEVED,
) -> Termination | None:
    """How the run ended; None while it goes on.

    Deterministic: ties go by time, proof, own deletions, then pod name. A member that saved its state and left goes
    before those that fail in the same second, perhaps for want of it.
    """
    touched = [pod for pod in run.pods if not goes_on(pod)]
    removals = {
        pod.metadata.uid: found for pod in touched if (found := removal(pod, run.intents.get(pod.metadata.uid)))
    }
    rest = [pod for pod in touched if pod.metadata.uid not in removals]
    exits = [ended for pod in rest if (ended := own_exit(pod))]
    exits.sort(key=lambda e: (e.at, not run.saved(e), e.pod))
    done = [pod for pod in rest if succeeded(pod)]
    open_ = evidence.unproven(done)
    all_done = len(done) >= run.parallelism
    if not open_ and (all_done or (not removals and not exits and _job_condition(run.batch, "Complete"))):
        said = _job_condition(run.batch, "Complete") or run.gone_since(now)
        return Completed(max((ended_at(pod) or last_report(pod) for pod in done), default=said))
    # A pod that the admitter deleted because another one had failed has no part in how the run ended.
    told = (one for one in removals.values() if not exits or one.own is not RemovalReason.PEER_FAILED)
    causes = [
        *told,
        *_vanished(run, now),
        *_unreported(rest, nodes),
        *_unproven(run, open_, nodes, reboots, now, evidence),
    ]
    if sum(over(pod) for pod in rest) < run.parallelism:  # what ended by itself, no Job can lose any more
        causes += _job_removed(run, now)
    suspects = _suspects(run, exits)
    if exits:
        causes = [cause for cause in causes if not _consequence(cause, run.batch)]
        causes += _lost_nodes(suspects, nodes, reboots, exits[0].at)
        causes += _memory_kills(run, exits, nodes)
    first = min(causes, key=lambda r: (r.earliest, not r.disruption, r.own is None, r.pod), default=None)
    if first is not None and (not exits or first.earliest <= exits[0].at):
        unreported = (ended_at(pod) for pod in rest if failed_unreported(pod))
        ends = (*(one.at for one in causes), *(one.at for one in exits), *(at for at in unreported if at is not None))
        return Removed(first, min(*ends, run.computed_until(now)))
    proof_until = min((evidence.until(one, now) for one in open_), default=now)
    if not exits:
        last = max((one.at for one in open_), default=now)
        return Undecided(last, proof_until, failed=False, unproven=tuple(open_)) if open_ and all_done else None
    if run.saved(exits[0]):
        return Checkpointed(exits[0])
    # A member that ended with 0 just before may have been the first that its machine took down.
    until = max(min(exits[0].at, now) + _open_for(suspects, exits[0]), proof_until)
    return Undecided(exits[0].at, until, unproven=tuple(open_)) if now < until else Failed(exits[0])


def unproven(run: Run, evidence: Evidence) -> list[Success]:
    """The successes of the run that its end may depend on, and that nothing proves yet."""
    if not evidence.required:
        return []
    done = (pod for pod in run.pods if not goes_on(pod) and succeeded(pod))
    return evidence.unproven(pod for pod in done if removal(pod, run.intents.get(pod.metadata.uid)) is None)


def _unproven(
    run: Run,
    found: Sequence[Success],
    nodes: Mapping[str, kinds.Node | None],
    reboots: Mapping[str, datetime],
    now: datetime,
    evidence: Evidence,
) -> list[Removal]:
    """Successes that nothing will prove any more, as their node has gone or rebooted, or that nothing has proven in
    time."""
    names_of = {pod.metadata.uid: pod.metadata.name for pod in run.pods}
    causes = []
    for one in found:
        what = ""
        if one.node in nodes:
            what = "is gone" if nodes[one.node] is None else _rebooted(reboots.get(one.node), one.at)
        if not what and now >= evidence.until(one, now):
            what = "has shown no life since its program ended with 0"
        if what:
            pod, said = names_of[one.uid], f"node {one.node} {what}"
            causes.append(Removal(one.at, one.at, InterruptionReason.NODE_LOST, pod, False, said))
    return causes


def _rebooted(rebooted: datetime | None, at: datetime) -> str:
    """Whether a node has rebooted since, in words; empty where it has not."""
    return "has rebooted" if rebooted is not None and rebooted > at else ""


def _open_for(suspects: Sequence[kinds.Pod], first: Exit) -> timedelta:
    """How long the end of the first container may turn out to be the fault of a node."""
    if suspects:
        return FATE_KNOWN_AFTER
    return PRESSURE_KNOWN_AFTER if first.reason == _FOR_MEMORY else timedelta(0)


def _job_removed(run: Run, now: datetime) -> list[Removal]:
    """The Job is gone or going: its pods go with it, or are orphaned."""
    if run.batch is not None and run.batch.metadata.deletion_timestamp is None:
        return []
    at = moment(run.batch.metadata.deletion_timestamp) if run.batch is not None else None
    if at is None:
        # Pods that are left alone compute until they are found.
        here = now if any(not over(pod) for pod in run.pods) else run.gone_since(now)
        at = min((t for pod in run.pods if (t := deletion_requested(pod))), default=here)
    at = min(at, now)
    return [Removal(at, at, InterruptionReason.JOB_DELETED, "", False)]


def _vanished(run: Run, now: datetime) -> list[Removal]:
    """A member that had been there is not any more: a client removed its finalizer. When it went, its Job failed."""
    if run.batch is None or not run.began or len(run.pods) >= run.parallelism:
        return []
    if _job_condition(run.batch, "Complete"):
        return []
    at = min(_failed(run.batch) or run.gone_since(now), now)
    whose = "a pod of the gang" if run.parallelism > 1 else "its pod"
    return [Removal(at, at, InterruptionReason.DELETED, "", False, f"{whose} is gone without a trace")]


def _consequence(cause: Removal, batch: kinds.Job | None) -> bool:
    """A removal by the Job controller, after it declared the Job failed (job_controller.go deleteActivePods)."""
    if cause.disruption or batch is None:
        return False
    failed = _failed(batch)
    return failed is not None and failed <= cause.earliest


def _suspects(run: Run, exits: Sequence[Exit]) -> list[kinds.Pod]:
    """The members whose node may be what ended the run: those that have not ended, as their peers fail for want of
    them, and those that a signal ended, as a machine that goes down sends it to all processes. Of a run whose first
    member saved its state and left, none."""
    if not exits or run.saved(exits[0]):
        return []
    killed = {ended.pod for ended in exits if ended.code in _BY_SIGNAL and ended.reason in ("", "Error")}
    return [pod for pod in run.pods if pod.spec.node_name and (not over(pod) or pod.metadata.name in killed)]


def _lost_nodes(
    pods: Sequence[kinds.Pod], nodes: Mapping[str, kinds.Node | None], reboots: Mapping[str, datetime], at: datetime
) -> list[Removal]:
    """Members on nodes that were lost when a container failed, or fell silent since."""
    return [
        Removal(at, at, InterruptionReason.NODE_LOST, pod.metadata.name, False, f"node {name} {what}")
        for pod in pods
        if (name := pod.spec.node_name) in nodes and (what := _lost(nodes[name], reboots.get(name), at))
    ]


def _unreported(pods: Sequence[kinds.Pod], nodes: Mapping[str, kinds.Node | None]) -> list[Removal]:
    """Pods that have failed, on nodes whose kubelet went down before it wrote the phase, and so who ended them. A main
    container that succeeded may have done all its work: the kubelet is waited for."""
    return [
        Removal(at, at, InterruptionReason.NODE_LOST, pod.metadata.name, False, f"node {name} {what}")
        for pod in pods
        if failed_unreported(pod)
        and (name := pod.spec.node_name) in nodes
        and (at := ended_at(pod)) is not None
        and (what := out_of_reach(nodes[name]))
    ]


def _memory_kills(run: Run, exits: Sequence[Exit], nodes: Mapping[str, kinds.Node | None]) -> list[Removal]:
    """Containers that were killed for memory while their node was short of it, as far as conditions tell."""
    on = {pod.metadata.name: pod.spec.node_name for pod in run.pods}
    return [
        Removal(ended.at, ended.at, InterruptionReason.NODE_OUT_OF_MEMORY, ended.pod, False, f"node {name}")
        for ended in exits
        if ended.reason == _FOR_MEMORY and (node := nodes.get(name := on[ended.pod])) and _short_of_memory(node, ended)
    ]


def _short_of_memory(node: kinds.Node, ended: Exit) -> bool:
    """Whether the node reports pressure, or has ceased to since."""
    found = kinds.condition(node.status.conditions, "MemoryPressure")
    if found is None or found.status == "True":
        return found is not None
    since = moment(found.last_transition_time)
    return since is not None and since > ended.at


def _lost(node: kinds.Node | None, rebooted: datetime | None, at: datetime) -> str:
    """How the node was lost; empty when it was not."""
    if node is None or not node.ready:
        return out_of_reach(node)
    ready = kinds.condition(node.status.conditions, "Ready")
    if said := _rebooted(rebooted, at):
        return said
    since = moment(ready.last_transition_time) if ready is not None else None
    if since is not None and since > at:
        return "has not been ready meanwhile"
    out = any(taint.key == OUT_OF_SERVICE for taint in node.spec.taints)
    taint = OUT_OF_SERVICE if out else ends(node)  # a hint may be taken back, and proves nothing
    return f"has the taint {taint}" if taint else ""


def _failed(batch: kinds.Job) -> datetime | None:
    """Since when the Job controller holds the Job to have failed; None when it does not."""
    return _job_condition(batch, "FailureTarget") or _job_condition(batch, "Failed")


def _job_condition(batch: kinds.Job | None, kind: str) -> datetime | None:
    """Since when the Job has this condition; None when it has not."""
    found = kinds.condition(batch.status.conditions, kind) if batch else None
    return moment(found.last_transition_time) if found is not None and found.status == "True" else None
