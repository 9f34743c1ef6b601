"""What an ending means: every kind of ending, alone and mixed within a gang."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from scavenger_admitter.core.lifecycle.actions import DeleteJob, EndJob, ReleasePod
from scavenger_api.evictions import ANNOTATION_EVICTION_REASON
from scavenger_api.job import ConditionType, Phase
from scavenger_api.reasons import InterruptionReason as Cause
from scavenger_domain.pod_ends import ended_at, goes_on, over, own_exit, removal, succeeded
from scavenger_kube import kinds

from . import builders as b

RUNNING, COMPLETED, FAILED, INTERRUPTED = Phase.RUNNING, Phase.COMPLETED, Phase.FAILED, Phase.INTERRUPTED
NOW = 200
NEVER = -b.BASE.timestamp()


@dataclass(frozen=True)
class Row:
    name: str
    pods: tuple[kinds.Pod, ...]
    phase: Phase
    cause: Cause | None = None
    says: str = ""
    batch: kinds.Job | None = field(default_factory=b.batch)
    nodes: dict[str, kinds.Node | None] | None = None
    now: float = NOW


SHUT_DOWN, SCALED_DOWN = "node.cloudprovider.kubernetes.io/shutdown", "ToBeDeletedByClusterAutoscaler"
SPOT = "aws-node-termination-handler/spot-itn"
OVER_OWN_LIMIT = (
    'Usage of EmptyDir volume "scratch" exceeds the limit "1Gi". ',
    "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ",
    'Container main exceeded its local ephemeral storage limit "1Gi". ',
)


def killed(number: int = 0, *, asked: float = 100, ended: float = 101, code: int = 143, **more: Any) -> kinds.Pod:
    """Deleted from outside, ended in its grace period."""
    return b.pod(number, deleted=asked, ended=ended, code=code, **more)


def pressed(now: bool, since: float) -> kinds.Node:
    """A node that is, or was until then, short of memory."""
    return b.node(conditions=[kinds.NodeCondition("MemoryPressure", str(now), last_transition_time=b.stamp(since))])


OUT_OF_MEMORY = b.pod(ended=100, code=137, exit_reason="OOMKilled")

SINGLE = (
    Row("runs on", (b.pod(),), RUNNING),
    # --- by itself
    Row("succeeds", (b.pod(ended=100),), COMPLETED),
    Row(
        "fails",
        (b.pod(ended=100, code=3, exit_reason="Error"),),
        FAILED,
        says="container main of pod job-0 exited with code 3",
    ),
    Row("out of memory", (b.pod(ended=100, code=137, exit_reason="OOMKilled"),), FAILED, says="OOMKilled"),
    Row(
        "killed by its own supervisor",
        (b.pod(ended=100, code=137, exit_reason="Error"),),
        FAILED,
        says="code 137",
        now=220,
    ),
    # --- a signal may have come from a node that goes down: its fate is waited for
    *(
        Row(
            f"ends with {code}: {name}",
            (b.pod(ended=100, code=code, exit_reason="Error"),),
            phase,
            cause,
            nodes={"node-1": found},
            now=now,
        )
        for code in (137, 143)
        for name, found, now, phase, cause in (
            ("its node answers, for now", b.node(since=5), 219, RUNNING, None),
            ("its node answers, two minutes later", b.node(since=5), 220, FAILED, None),
            ("its node is silent", b.node(ready=False, since=140), 141, INTERRUPTED, Cause.NODE_LOST),
            ("its node was silent and is back", b.node(since=160), 161, INTERRUPTED, Cause.NODE_LOST),
            ("its node is back after a long time", b.node(since=900), 901, INTERRUPTED, Cause.NODE_LOST),
            ("its node is gone", None, 130, INTERRUPTED, Cause.NODE_LOST),
            ("its machine is off", b.node(taint=SHUT_DOWN), 101, INTERRUPTED, Cause.NODE_LOST),
            ("its machine is about to go", b.node(taint=SPOT), 101, INTERRUPTED, Cause.NODE_LOST),
            ("its machine may go", b.node(taint=SCALED_DOWN), 101, RUNNING, None),
            ("its machine may go, two minutes later", b.node(taint=SCALED_DOWN), 220, FAILED, None),
        )
    ),
    # --- its kubelet went down between the end of the container and that of the pod
    *(
        Row(
            f"has ended with {code}, and the phase is not written: {name}",
            (b.pod(ended=100, code=code, exit_reason="Error" if code else "", phase="Running"),),
            phase,
            cause,
            nodes={"node-1": found},
            now=200,
        )
        for code, name, found, phase, cause in (
            (143, "its node answers", b.node(since=5), RUNNING, None),
            (143, "its node is back", b.node(since=160), RUNNING, None),
            (143, "its node is silent", b.node(ready=False, since=140), INTERRUPTED, Cause.NODE_LOST),
            (3, "its node is silent", b.node(ready=False, since=140), INTERRUPTED, Cause.NODE_LOST),
            (143, "its node is gone", None, INTERRUPTED, Cause.NODE_LOST),
            (0, "its node is silent", b.node(ready=False, since=140), RUNNING, None),
        )
    ),
    # --- a node that is about to go: they are told while they can still save their state
    *(
        Row(
            f"runs on a node with {taint}",
            (b.pod(),),
            INTERRUPTED,
            Cause.NODE_DRAINED,
            nodes={"node-1": b.node(taint=taint)},
        )
        for taint in (SHUT_DOWN, "karpenter.sh/disrupted", SPOT)
    ),
    Row("runs on a node with a taint of somebody", (b.pod(),), RUNNING, nodes={"node-1": b.node(taint="team")}),
    Row(
        "fails by itself on a node that goes down later",
        (b.pod(ended=100, code=3, exit_reason="Error"),),
        FAILED,
        nodes={"node-1": b.node(ready=False, since=140)},
    ),
    Row(
        "out of memory on a node that goes down later",
        (b.pod(ended=100, code=137, exit_reason="OOMKilled"),),
        FAILED,
        nodes={"node-1": b.node(ready=False, since=140)},
    ),
    # --- killed for memory: a node that is short of it is at fault, and says so a little later
    *(
        Row(f"killed for memory: {name}", (OUT_OF_MEMORY,), phase, cause, nodes={"node-1": found}, now=now)
        for name, found, now, phase, cause in (
            ("its node has enough, for now", b.node(), 119, RUNNING, None),
            ("its node has enough", b.node(), 120, FAILED, None),
            ("its node is short of memory", pressed(True, 50), 101, INTERRUPTED, Cause.NODE_OUT_OF_MEMORY),
            ("its node says a little later that it is", pressed(True, 110), 119, INTERRUPTED, Cause.NODE_OUT_OF_MEMORY),
            (
                "its node was short and has ceased to be",
                pressed(False, 150),
                160,
                INTERRUPTED,
                Cause.NODE_OUT_OF_MEMORY,
            ),
            ("its node had been short before", pressed(False, 90), 120, FAILED, None),
        )
    ),
    Row(
        "fails by itself on a node that is short of memory",
        (b.pod(ended=100, code=3, exit_reason="Error"),),
        FAILED,
        nodes={"node-1": pressed(True, 50)},
    ),
    Row("container ended, phase not yet", (b.pod(ended=100, phase="Running"),), RUNNING),
    # --- removed, still alive: the evidence is enough
    Row("being deleted", (b.pod(deleted=100),), INTERRUPTED, Cause.DELETED),
    Row("being deleted with force", (b.pod(deleted=100, grace=0),), INTERRUPTED, Cause.DELETED),
    Row(
        "condemned, not deleted yet",
        (b.pod(conditions=[b.disrupted("PreemptionByScheduler", 100)]),),
        INTERRUPTED,
        Cause.PREEMPTED,
    ),
    # --- removed and ended, whatever the exit code
    Row("deleted, exits 0 on SIGTERM", (killed(code=0),), INTERRUPTED, Cause.DELETED),
    Row("deleted, exits 1 on SIGTERM", (killed(code=1),), INTERRUPTED, Cause.DELETED),
    Row(
        "deleted, killed after its grace period",
        (killed(code=137, ended=130),),
        INTERRUPTED,
        Cause.DELETED,
    ),
    Row("deleted and ended within one second", (killed(ended=100),), INTERRUPTED, Cause.DELETED),
    Row("deleted and exits 0 within one second", (killed(ended=100, code=0),), INTERRUPTED, Cause.DELETED),
    *(
        Row(
            f"{reason}, exits {code}",
            (killed(code=code, conditions=[b.disrupted(reason, 100)]),),
            INTERRUPTED,
            cause,
        )
        for code in (0, 1, 143)
        for reason, cause in (
            ("PreemptionByScheduler", Cause.PREEMPTED),
            ("EvictionByEvictionAPI", Cause.EVICTED),
            ("DeletionByTaintManager", Cause.NODE_DRAINED),
            ("DeletionByPodGC", Cause.NODE_LOST),
            ("SomethingNew", Cause.DELETED),
        )
    ),
    # --- ended by the kubelet: nothing was deleted
    *(
        Row(
            f"kubelet: {reason}{' without condition' if not conditions else ''}",
            (b.pod(ended=100, code=137, reason=reason, message="low", conditions=conditions),),
            INTERRUPTED,
            cause,
        )
        for conditions in ((), (b.disrupted("TerminationByKubelet", 102),))
        for reason, cause in (
            ("Evicted", Cause.KUBELET_EVICTED),
            ("Terminated", Cause.NODE_SHUTDOWN),
            ("NodeShutdown", Cause.NODE_SHUTDOWN),
            ("Preempting", Cause.PREEMPTED),
            ("NodeLost", Cause.NODE_LOST),
            ("SomethingNew", Cause.KUBELET_EVICTED),
        )
    ),
    # --- over its own limits: the kubelet says so without a condition (eviction_manager.go localStorageEviction)
    *(
        Row(
            f"over its own limit, exits {code}: {words}",
            (b.pod(ended=100, code=code, reason="Evicted", message=words),),
            FAILED,
            says=words.strip(),
        )
        for code in (0, 137)
        for words in OVER_OWN_LIMIT
    ),
    Row(
        "node pressure in the words of an own limit",
        (
            b.pod(
                ended=100,
                code=137,
                reason="Evicted",
                message=OVER_OWN_LIMIT[0],
                conditions=[b.disrupted("TerminationByKubelet", 102)],
            ),
        ),
        INTERRUPTED,
        Cause.KUBELET_EVICTED,
    ),
    *(
        Row(
            f"evicted by an old kubelet: {words}",
            (b.pod(ended=100, code=137, reason="Evicted", message=words),),
            INTERRUPTED,
            Cause.KUBELET_EVICTED,
        )
        for words in (
            "The node was low on resource: ephemeral-storage. Container main was using 9Gi, request is 0. ",
            "Pod The node had condition: [DiskPressure]. ",
        )
    ),
    Row(
        "pod GC without a container's end",
        (b.pod(phase="Failed", conditions=[b.disrupted("DeletionByPodGC", 100)], deleted=100, grace=0),),
        INTERRUPTED,
        Cause.NODE_LOST,
    ),
    Row(
        "node rebooted (containerd: Unknown)",
        (b.pod(ended=100, code=255, exit_reason="Unknown"),),
        INTERRUPTED,
        Cause.NODE_LOST,
    ),
    Row(
        "node rebooted (kubelet: ContainerStatusUnknown)",
        (b.pod(ended=100, code=137, exit_reason="ContainerStatusUnknown"),),
        INTERRUPTED,
        Cause.NODE_LOST,
    ),
    Row(
        "node rebooted, and a container beside main had failed before",
        (b.pod(ended=100, code=255, exit_reason="Unknown", beside=b.gone(60, code=85)),),
        INTERRUPTED,
        Cause.NODE_LOST,
    ),
    # --- ended first, removed afterwards
    Row("succeeds, is deleted a minute later", (b.pod(ended=100, final=160),), COMPLETED),
    Row("fails, is deleted a minute later", (b.pod(ended=100, code=1, final=160),), FAILED),
    Row(
        "succeeds, then its node is drained",
        (b.pod(ended=100, final=160, conditions=[b.disrupted("DeletionByTaintManager", 160)]),),
        COMPLETED,
    ),
    Row(
        "fails, then is evicted",
        (b.pod(ended=100, code=1, final=160, conditions=[b.disrupted("EvictionByEvictionAPI", 160)]),),
        FAILED,
    ),
    Row(
        "fails, deleted before its node had reported the end",
        (b.pod(ended=100, code=1, deleted=102),),
        FAILED,
    ),
    # --- the kubelet's final DELETE has overwritten the moment of the request
    Row(
        "removed, final DELETE, kubelet knew",
        (b.pod(ended=100, code=1, final=103, generations=(2, 2)),),
        INTERRUPTED,
        Cause.DELETED,
    ),
    Row(
        "removed, exits 0, final DELETE, kubelet knew",
        (b.pod(ended=100, final=103, generations=(2, 2)),),
        INTERRUPTED,
        Cause.DELETED,
    ),
    Row(
        "removed, slow final DELETE, kubelet knew",
        (b.pod(ended=100, final=190, generations=(2, 2)),),
        INTERRUPTED,
        Cause.DELETED,
    ),
    Row(
        "fails, deleted at once, kubelet did not know",
        (b.pod(ended=100, code=1, final=101, generations=(2, 1)),),
        FAILED,
    ),
    Row(
        "succeeds, deleted at once, kubelet did not know",
        (b.pod(ended=100, final=101, generations=(2, 1)),),
        COMPLETED,
    ),
    Row(
        "removed, final DELETE, old kubelet",
        (b.pod(ended=100, code=1, final=103),),
        INTERRUPTED,
        Cause.DELETED,
    ),
    Row(
        "removed, exits 0, final DELETE, old kubelet",
        (b.pod(ended=100, final=103),),
        INTERRUPTED,
        Cause.DELETED,
    ),
    # --- the Job
    Row("Job deleted, pods go with it", (b.pod(deleted=100),), INTERRUPTED, Cause.JOB_DELETED, batch=None),
    Row("Job deleted, pods orphaned", (b.pod(owner=None),), INTERRUPTED, Cause.JOB_DELETED, batch=None),
    Row("Job deleted, pods not seen", (), INTERRUPTED, Cause.JOB_DELETED, batch=None),
    Row(
        "Job being deleted in the foreground",
        (b.pod(),),
        INTERRUPTED,
        Cause.JOB_DELETED,
        batch=b.batch(deleted=100),
    ),
    Row("another's Job took its place", (), INTERRUPTED, Cause.JOB_DELETED, batch=b.batch(owner="other")),
    Row("succeeded before its Job was deleted", (b.pod(ended=90, final=160),), COMPLETED, batch=None),
    Row("failed before its Job was deleted", (b.pod(ended=90, code=1, final=160),), FAILED, batch=None),
    Row("pod gone without a trace", (), INTERRUPTED, Cause.DELETED),
    Row(
        "pod gone, Job complete",
        (),
        COMPLETED,
        batch=b.batch(conditions={"SuccessCriteriaMet": 90, "Complete": 91}),
    ),
)

EXIT = b.pod(0, ended=100, code=1, exit_reason="Error")
GANG = (
    Row("both run", (b.pod(0), b.pod(1)), RUNNING),
    Row("one has finished", (b.pod(0, ended=50), b.pod(1)), RUNNING),
    Row("both succeed", (b.pod(0, ended=50), b.pod(1, ended=60)), COMPLETED),
    Row("one fails, the other runs, for now", (EXIT, b.pod(1)), RUNNING, now=219),
    Row("one fails, the other runs two minutes later", (EXIT, b.pod(1)), FAILED, says="job-0", now=220),
    Row("one fails, the other has no node", (EXIT, b.pod(1, started=None, node="")), FAILED),
    Row("one fails, the other has been removed", (EXIT, killed(1, asked=101, ended=131)), FAILED, now=132),
    Row(
        "one fails, the Job controller removes the other, whose node falls silent",
        (EXIT, b.pod(1, deleted=101, node="node-2")),
        INTERRUPTED,
        Cause.NODE_LOST,
        nodes={"node-1": b.node(), "node-2": b.node("node-2", ready=False, since=140)},
        batch=b.batch(conditions={"FailureTarget": 100}),
        now=141,
    ),
    Row(
        "one fails, the other ended by a signal on a node that is silent now",
        (EXIT, b.pod(1, ended=105, code=143, node="node-2")),
        INTERRUPTED,
        Cause.NODE_LOST,
        nodes={"node-1": b.node(), "node-2": b.node("node-2", ready=False, since=140)},
        now=141,
    ),
    Row("one fails, the other has finished", (EXIT, b.pod(1, ended=60)), FAILED),
    Row(
        "one is over its own limit, and nobody saw when a reboot ended the other",
        (
            b.pod(0, ended=100, code=137, exit_reason="Error", reason="Evicted", message=OVER_OWN_LIMIT[0]),
            b.pod(1, started=NEVER, ended=NEVER, code=255, exit_reason="Unknown", taken=10, node="node-2"),
        ),
        INTERRUPTED,
        Cause.NODE_LOST,
        nodes={"node-1": b.node(), "node-2": b.node("node-2")},
    ),
    Row(
        "one was evicted by its node and ended with 0, the other has finished",
        (b.pod(0, ended=100, phase="Succeeded", reason="Evicted", message="low on memory"), b.pod(1, ended=90)),
        INTERRUPTED,
        Cause.KUBELET_EVICTED,
    ),
    Row(
        "both fail, the first one is named",
        (EXIT, b.pod(1, ended=99, code=7)),
        FAILED,
        says="pod job-1 exited with code 7",
    ),
    Row("one fails, the Job controller removes the other", (EXIT, b.pod(1, deleted=101)), RUNNING),
    Row("one fails, the removed other does not end", (EXIT, b.pod(1, deleted=101)), FAILED, now=220),
    Row("one fails, the removed other exits 1", (EXIT, killed(1, asked=101, ended=102, code=1)), FAILED),
    Row(
        "one fails, the other is evicted later",
        (EXIT, killed(1, asked=101, conditions=[b.disrupted("EvictionByEvictionAPI", 101)])),
        FAILED,
    ),
    Row(
        "one is removed, the other runs",
        (b.pod(0), b.pod(1, deleted=100)),
        INTERRUPTED,
        Cause.DELETED,
        says="job-1",
    ),
    Row(
        "one is removed, the other fails for want of it",
        (EXIT, b.pod(1, deleted=99)),
        INTERRUPTED,
        Cause.DELETED,
    ),
    Row(
        "one is removed, the other has finished",
        (b.pod(0, ended=50), killed(1)),
        INTERRUPTED,
        Cause.DELETED,
    ),
    Row(
        "one is removed, the other finishes afterwards",
        (b.pod(0, ended=110), killed(1)),
        INTERRUPTED,
        Cause.DELETED,
    ),
    Row(
        "both are removed: the first cause counts",
        (killed(0, asked=101), killed(1, conditions=[b.disrupted("PreemptionByScheduler", 100)])),
        INTERRUPTED,
        Cause.PREEMPTED,
    ),
    Row(
        "both finish, one is deleted afterwards",
        (b.pod(0, ended=50), b.pod(1, ended=60, final=160)),
        COMPLETED,
    ),
    Row(
        "one removed and exits 0, the other finished",
        (b.pod(0, ended=50), killed(1, code=0)),
        INTERRUPTED,
        Cause.DELETED,
    ),
    Row("one of two is gone", (b.pod(0),), INTERRUPTED, Cause.DELETED, says="gone"),
    # --- within one second
    Row(
        "same second, disrupted",
        (EXIT, b.pod(1, deleted=100, conditions=[b.disrupted("PreemptionByScheduler", 100)])),
        INTERRUPTED,
        Cause.PREEMPTED,
        batch=b.batch(conditions={"FailureTarget": 100}),
    ),
    Row(
        "same second, Job had failed",
        (EXIT, b.pod(1, deleted=100)),
        FAILED,
        now=220,
        batch=b.batch(conditions={"FailureTarget": 100}),
    ),
    Row(
        "same second, Job had failed for good",
        (EXIT, b.pod(1, deleted=100)),
        FAILED,
        now=220,
        batch=b.batch(conditions={"Failed": 100}),
    ),
    Row(
        "same second, Job failed later",
        (EXIT, b.pod(1, deleted=100)),
        INTERRUPTED,
        Cause.DELETED,
        batch=b.batch(conditions={"FailureTarget": 101}),
    ),
    Row("same second, Job says nothing", (EXIT, b.pod(1, deleted=100)), INTERRUPTED, Cause.DELETED),
    # --- the request may have been up to a grace period before the end
    Row(
        "removed with final DELETE, the other failed meanwhile",
        (b.pod(0, ended=95, code=1), b.pod(1, ended=100, code=1, final=102, generations=(2, 2))),
        INTERRUPTED,
        Cause.DELETED,
    ),
    # --- a silent node
    Row(
        "one fails, the other's node is silent",
        (EXIT, b.pod(1, node="node-2")),
        INTERRUPTED,
        Cause.NODE_LOST,
        nodes={"node-1": b.node(), "node-2": b.node("node-2", ready=False)},
    ),
    Row(
        "one fails, the other's node is gone",
        (EXIT, b.pod(1, node="node-2")),
        INTERRUPTED,
        Cause.NODE_LOST,
        nodes={"node-1": b.node(), "node-2": None},
    ),
    Row(
        "a silent node alone is no evidence",
        (b.pod(0), b.pod(1, node="node-2")),
        RUNNING,
        nodes={"node-1": b.node(), "node-2": b.node("node-2", ready=False)},
    ),
    Row("Job deleted, one had failed before", (EXIT, b.pod(1, deleted=150)), FAILED, batch=None, now=220),
    Row(
        "Job deleted, one failed afterwards",
        (EXIT, b.pod(1, deleted=99)),
        INTERRUPTED,
        Cause.JOB_DELETED,
        batch=None,
    ),
)


BESIDE = (
    Row("main runs", (b.pod(beside=b.RUNS_ON),), RUNNING),
    Row("main runs, the other has failed", (b.pod(beside=b.gone(50, 1)),), RUNNING),
    Row("main succeeds, the other runs on", (b.pod(ended=100, phase="Running", beside=b.RUNS_ON),), COMPLETED),
    Row(
        "main fails, the other runs on",
        (b.pod(ended=100, code=3, phase="Running", beside=b.RUNS_ON),),
        FAILED,
        says="container main of pod job-0 exited with code 3",
    ),
    Row("main succeeds, the other fails", (b.pod(ended=100, phase="Failed", beside=b.gone(150, 1)),), COMPLETED),
    Row("all have ended, phase not yet", (b.pod(ended=100, phase="Running", beside=b.gone(50)),), RUNNING),
    Row(
        "main succeeds, the pod is drained later",
        (b.pod(ended=100, phase="Running", deleted=160, beside=b.RUNS_ON),),
        COMPLETED,
    ),
    Row(
        "main succeeds, the pod is evicted later",
        (
            b.pod(
                ended=100,
                phase="Running",
                beside=b.RUNS_ON,
                deleted=160,
                conditions=[b.disrupted("EvictionByEvictionAPI", 160)],
            ),
        ),
        COMPLETED,
    ),
    Row(
        "main succeeds, the pod has been drained since",
        (b.pod(ended=100, phase="Failed", final=165, generations=(2, 2), beside=b.gone(165, 143)),),
        COMPLETED,
    ),
    Row(
        "main fails, the pod has been drained since",
        (b.pod(ended=100, code=3, final=165, generations=(2, 2), beside=b.gone(165, 143)),),
        FAILED,
        says="code 3",
    ),
    Row(
        "main succeeds, the node evicts what is left",
        (
            b.pod(
                ended=100,
                reason="Evicted",
                beside=b.gone(165, 143),
                conditions=[b.disrupted("TerminationByKubelet", 166)],
            ),
        ),
        COMPLETED,
    ),
    Row(
        "both end in their grace period",
        (b.pod(ended=100, phase="Failed", final=121, generations=(2, 2), beside=b.gone(120, 143)),),
        INTERRUPTED,
        Cause.DELETED,
    ),
    Row(
        "main ends as it is told to, the other takes its time",
        (b.pod(ended=101, phase="Running", deleted=100, beside=b.RUNS_ON),),
        INTERRUPTED,
        Cause.DELETED,
    ),
    Row(
        "the other is killed with main, by node pressure",
        (b.pod(ended=100, code=137, reason="Evicted", message="low", beside=b.gone(102, 143)),),
        INTERRUPTED,
        Cause.KUBELET_EVICTED,
    ),
)


def row_id(row: Row) -> str:
    return row.name


@pytest.mark.parametrize("row", SINGLE, ids=row_id)
def test_single_pod(row: Row) -> None:
    check(row, parallelism=1)


@pytest.mark.parametrize("row", BESIDE, ids=row_id)
def test_a_container_beside_main(row: Row) -> None:
    """The end of main is the end of its pod, whatever a mesh or a policy put beside it."""
    check(row, parallelism=1)


def test_over_its_own_limit_the_last_exit_code_saves_nothing() -> None:
    """A program that saves its state on SIGTERM would meet the same limit again, for ever."""
    pod = b.pod(ended=100, code=85, reason="Evicted", message=OVER_OWN_LIMIT[1])
    job = b.job(RUNNING, running=[10], spec={"checkpointExitCode": 85})
    status = b.decide(b.seen(job, NOW, b.batch(), pod)).status
    assert status.phase is FAILED
    assert status.message == (
        "container main of pod job-0 exited with code 85 "
        "(Evicted: Pod ephemeral local storage usage exceeds the total limit of containers 1Gi.)"
    )


@pytest.mark.parametrize(("at", "phase"), [(90, RUNNING), (120, INTERRUPTED)])
def test_a_node_that_rebooted_faster_than_kubernetes_looks(at: float, phase: Phase) -> None:
    """It never stops being ready in the API; its bootID is another one."""
    pod = b.pod(ended=100, code=143, exit_reason="Error")
    first = b.seen(b.job(RUNNING, running=[10]), 121, b.batch(), pod, reboots={"node-1": b.at(at)})
    outcome = b.decide(first)
    assert outcome.status.phase is phase
    assert outcome.figures.interruption == (Cause.NODE_LOST if phase is INTERRUPTED else None)


def test_an_end_that_is_left_open_costs_nothing_and_wakes_itself_up() -> None:
    """Nothing is computed meanwhile: no start-over makes it useful, and nobody looks before two minutes are over."""
    pod = b.pod(ended=100, code=143, exit_reason="Error")
    job = b.job(RUNNING, running=[10], spec={"interruptionAfter": "30s"})
    open_ = b.decide(b.seen(job, 101, b.batch(), pod))
    assert open_.status.useful_cpu_seconds == 0
    assert open_.requeue_after == 119
    failed = b.decide(b.seen(b.written(job, open_.status), 220, b.batch(), pod))
    assert failed.status.finished_timestamp == b.at(100)
    assert failed.status.useful_cpu_seconds + failed.status.lost_cpu_seconds == 180


def test_used_time_ends_with_main_and_what_runs_on_is_deleted() -> None:
    pod = b.pod(ended=110, phase="Running", beside=b.RUNS_ON)
    first = b.seen(b.job(RUNNING, running=[10]), 3600, b.batch(), pod)
    outcome = b.decide(first)
    assert outcome.status.finished_timestamp == b.at(110)
    assert outcome.figures.useful == 200.0
    assert set(outcome.actions) == {
        ReleasePod(pod.metadata.name, pod.metadata.uid),
        DeleteJob(b.BATCH, "the job is over and other containers of its pods run on"),
    }


@pytest.mark.parametrize(
    "first",
    [b.pod(0, ended=90, code=3), killed(0, asked=90, ended=110, final=90, generations=(2, 2))],
    ids=["fails by itself", "is deleted at once"],
)
def test_a_gang_computes_no_longer_than_its_first_member(first: kinds.Pod) -> None:
    """The last DELETE of the other's kubelet has moved the moment of its deletion, which may have been the first."""
    other = killed(1, asked=0, ended=110, final=111, generations=(2, 2))
    outcome = b.decide(b.seen(b.job(RUNNING, running=[10], spec=b.gang(2)), NOW, b.batch(), first, other))
    assert outcome.status.phase is INTERRUPTED
    assert outcome.status.ended_timestamp == b.at(90)
    assert outcome.status.lost_cpu_seconds == 2 * 2 * 80


def test_a_pod_whose_job_is_gone_computed_until_its_container_ended_though_no_phase_says_so() -> None:
    pod = b.pod(ended=50, code=143, phase="Running")
    outcome = b.decide(b.seen(b.job(RUNNING, running=[10]), NOW, None, pod))
    assert outcome.status.phase is INTERRUPTED
    assert outcome.status.ended_timestamp == b.at(50)


def test_one_member_waits_for_the_other_with_a_container_beside_it() -> None:
    """Deleting the pod of a member that is through would fail the Job, and end the others."""
    over, on = b.pod(0, ended=50, phase="Running", beside=b.RUNS_ON), b.pod(1, beside=b.RUNS_ON)
    outcome = b.decide(b.seen(b.job(RUNNING, running=[10], spec=b.gang(2)), NOW, b.batch(), over, on))
    assert outcome.status.phase is RUNNING
    assert outcome.actions == ()


@pytest.mark.parametrize("row", GANG, ids=row_id)
def test_gang(row: Row) -> None:
    check(row, parallelism=2)


@pytest.mark.parametrize("row", [r for r in SINGLE if r.pods and r.batch], ids=row_id)
def test_ending_missed_while_the_admitter_was_down(row: Row) -> None:
    """The same verdict when the job was never seen running, and the run is on record all the same."""
    job = b.job(Phase.WAITING)
    outcome = b.decide(b.seen(job, row.now, row.batch, *row.pods, nodes=row.nodes))
    assert outcome.status.phase is row.phase
    assert outcome.figures.interruption == row.cause
    assert outcome.status.running_timestamps == (b.at(10),)
    assert outcome.figures.waited_seconds == 10


def check(row: Row, parallelism: int) -> None:
    job = b.job(RUNNING, running=[10], spec=b.gang(parallelism))
    outcome = b.decide(b.seen(job, row.now, row.batch, *row.pods, nodes=row.nodes))
    status = outcome.status
    assert status.phase is row.phase
    assert row.says in (status.message or "")
    assert outcome.figures.interruption == row.cause
    assert status.interrupted_count == (1 if row.phase is INTERRUPTED else 0)
    assert len(status.interrupted_timestamps) == status.interrupted_count
    assert (status.finished_timestamp is not None) == row.phase.finished
    assert (outcome.figures.finished is not None) == row.phase.finished
    released = {action.uid for action in outcome.actions if isinstance(action, ReleasePod)}
    if row.phase is INTERRUPTED:
        assert status.queued_timestamp == b.at(row.now)
        own = row.batch is not None and row.batch.metadata.owner_references[0].uid == b.UID
        going = row.batch is not None and row.batch.metadata.deletion_timestamp is not None
        assert any(isinstance(a, DeleteJob) for a in outcome.actions) == (own and not going)
        assert released >= {pod.metadata.uid for pod in row.pods if pod.ended}
        assert not outcome.start_failed
    elif row.phase.finished:
        assert released == {pod.metadata.uid for pod in row.pods}
        runs_on = any(not pod.ended and ended_at(pod) for pod in row.pods)
        going = any(pod.metadata.deletion_timestamp for pod in row.pods)
        assert any(isinstance(a, DeleteJob) for a in outcome.actions) == (runs_on and not going)
    else:  # clients are told what the verdict will be about
        assert {a.conditions for a in outcome.actions if isinstance(a, EndJob)} <= {("FailureTarget",)}
        assert all(isinstance(a, EndJob) for a in outcome.actions)


def test_the_removal_may_be_found_by_the_job_alone() -> None:
    """Accounting stops at the request, not at the end of the grace period, and not when somebody looked."""
    job = b.job(RUNNING, running=[10])
    outcome = b.decide(b.seen(job, 500, b.batch(), b.pod(deleted=110, ended=130, code=137)))
    assert outcome.status.interrupted_timestamps == (b.at(110),)
    assert outcome.figures.lost == 200.0


def test_the_last_twenty_interruptions_are_kept() -> None:
    before = tuple(b.at(t) for t in range(-20, 0))
    job = b.job(RUNNING, running=[10], interrupted_count=33, interrupted_timestamps=before)
    status = b.decide(b.seen(job, NOW, b.batch(), b.pod(deleted=100))).status
    assert status.interrupted_count == 34
    assert status.interrupted_timestamps == (*before[1:], b.at(100))


@pytest.mark.parametrize(
    ("note", "cause"),
    [
        ("AboveUpperLevel", Cause.ABOVE_UPPER_LEVEL),
        ("YieldAtCheckpoint", Cause.YIELD_AT_CHECKPOINT),
        ("NodeMemory", Cause.NODE_MEMORY),
        ("SomethingElse", Cause.EVICTED),
    ],
)
def test_an_eviction_by_the_regulator_has_its_own_cause(note: str, cause: Cause) -> None:
    gone = b.pod(deleted=100, conditions=[b.disrupted("EvictionByEvictionAPI", 100)])
    annotations = {**gone.metadata.annotations, ANNOTATION_EVICTION_REASON: f"{note} {b.stamp(99)}"}
    noted = msgspec.structs.replace(gone, metadata=msgspec.structs.replace(gone.metadata, annotations=annotations))
    outcome = b.decide(b.seen(b.job(Phase.RUNNING, running=[10]), 101, b.batch(), noted))
    assert outcome.figures.interruption is cause
    interrupted = outcome.status.condition(ConditionType.INTERRUPTED)
    assert interrupted is not None
    assert interrupted.reason == cause.value


def cause_of(pod: kinds.Pod, noted: float) -> str:
    """Why the job of a pod was interrupted that the regulator had noted a reason on at that moment."""
    annotations = {**pod.metadata.annotations, ANNOTATION_EVICTION_REASON: f"AboveUpperLevel {b.stamp(noted)}"}
    changed = msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, annotations=annotations))
    outcome = b.decide(b.seen(b.job(Phase.RUNNING, running=[10]), NOW, b.batch(), changed))
    interrupted = outcome.status.condition(ConditionType.INTERRUPTED)
    assert interrupted is not None
    return interrupted.reason


@pytest.mark.parametrize(
    ("noted", "cause"),
    [
        (149, Cause.ABOVE_UPPER_LEVEL),
        (151, Cause.ABOVE_UPPER_LEVEL),  # their clocks differ
        (150 - 121, Cause.DELETED),  # kept by a budget then, and deleted by a user later
        (156, Cause.DELETED),
    ],
)
def test_a_deletion_by_the_regulator_has_its_own_cause(noted: float, cause: Cause) -> None:
    """Past a foreign budget it deletes, and a deletion leaves no condition: its note says who it was."""
    assert cause_of(b.pod(deleted=150), noted) == cause
    assert cause_of(killed(asked=150, ended=151), noted) == cause


def test_a_deletion_by_the_regulator_is_known_though_its_moment_has_moved() -> None:
    """The kubelet's final DELETE moves the deletionTimestamp to when the containers had ended, 25 s later here."""
    moved = killed(asked=125, ended=150, final=150)
    assert cause_of(moved, 125) == Cause.ABOVE_UPPER_LEVEL
    assert cause_of(moved, 1) == Cause.ABOVE_UPPER_LEVEL, "asked for a grace period before the end, at the earliest"
    assert cause_of(moved, -1) == Cause.DELETED


# What kubelet v1.36.3 leaves of a pod it evicts for want of memory (pkg/kubelet/eviction/helpers.go evictionMessage,
# eviction_manager.go evictPod): the only words about it anywhere but in an Event.
LOW_ON_MEMORY = (
    "The node was low on resource: memory. Threshold quantity: 100Mi, available: 84392Ki. Container main was using "
    "817152Ki, request is 0, has larger consumption of memory. "
)


def test_what_the_kubelet_says_of_an_eviction_for_memory_is_told() -> None:
    """A pod on reclaimed capacity requests no memory and is the first to go."""
    running = b.pod()
    evicted = msgspec.convert(
        {
            **msgspec.to_builtins(running),
            "status": {
                "phase": "Failed",
                "reason": "Evicted",
                "message": LOW_ON_MEMORY,
                "startTime": b.stamp(5),
                "observedGeneration": 1,
                "qosClass": "Burstable",
                "conditions": [
                    {"type": "Ready", "status": "False", "reason": "PodFailed", "lastTransitionTime": b.stamp(131)},
                    {
                        "type": "DisruptionTarget",
                        "status": "True",
                        "reason": "TerminationByKubelet",
                        "message": LOW_ON_MEMORY,
                        "lastTransitionTime": b.stamp(131),
                    },
                ],
                "containerStatuses": [
                    {
                        "name": "main",
                        "ready": False,
                        "started": False,
                        "state": {
                            "terminated": {
                                "exitCode": 137,
                                "reason": "Error",
                                "startedAt": b.stamp(10),
                                "finishedAt": b.stamp(130),
                            }
                        },
                    }
                ],
            },
        },
        kinds.Pod,
    )
    job = b.job(RUNNING, running=[10], spec={"capacity": "Reclaimed"})
    outcome = b.decide(b.seen(job, NOW, b.batch(), evicted))
    assert outcome.status.phase is INTERRUPTED
    assert outcome.figures.interruption is Cause.KUBELET_EVICTED
    assert outcome.status.message is not None
    assert "pod job-0 was evicted by its node (The node was low on resource: memory. " in outcome.status.message
    assert "Container main was using 817152Ki, request is 0" in outcome.status.message
    (note,) = outcome.events
    assert "The node was low on resource: memory" in note.message


def test_what_a_program_says_as_it_ends_is_text_in_the_status() -> None:
    job = b.job(Phase.RUNNING, running=[10])
    outcome = b.decide(b.seen(job, 110, b.batch(), b.pod(ended=100, code=1, message="\x1b[2Jbye\u202e\x9b")))
    told = outcome.status.message or ""
    assert "\\u001b[2Jbye\\u202e\\u009b" in told
    assert told.isprintable()


@pytest.mark.parametrize("row", [r for r in (*SINGLE, *BESIDE, *GANG) if any(map(goes_on, r.pods))], ids=row_id)
def test_a_pod_that_goes_on_ends_no_run(row: Row) -> None:
    """A look at a gang of ten thousand passes over them."""
    for pod in filter(goes_on, row.pods):
        assert (removal(pod), own_exit(pod)) == (None, None)
        assert not over(pod)
        assert not succeeded(pod)
