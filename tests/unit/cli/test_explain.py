"""A table of situations, one for each cause: the word, the sentence, the figures in it, and what would help."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from scavenger_cli.explain import EXIT_CODES, explain
from scavenger_cli.facts import Cause, Explanation, Facts
from scavenger_cli.render import explanation, explanation_data
from scavenger_kube.kinds import PodSpec
from scavenger_testing import builders

from . import cases
from .cases import ago, facts, job, levels, nodes, queue


def full(count: int = 3, cpu: str = "7") -> list[Any]:
    """An ordinary pod on every node."""
    return [builders.pod(f"ordinary-{i}", node=f"node-{i}", cpu=cpu, phase="Running") for i in range(1, count + 1)]


OFFERS = {"scavenger.dev/reclaimed-cpu": "3000", "scavenger.dev/reclaimed-memory": "4096"}
OFFERING = nodes(allocatable={"cpu": "8", "memory": "32Gi", "pods": "110", **OFFERS})


def taken(count: int) -> list[Any]:
    """A pod on reclaimed capacity on some nodes: 2 cpu, 1Gi."""
    asked = {"cpu": "0", "scavenger.dev/reclaimed-cpu": "2000", "scavenger.dev/reclaimed-memory": "1024"}
    spec = {"containers": [{"resources": {"requests": asked}}]}
    made = [builders.pod(f"taker-{i}", node=f"node-{i}", phase="Running") for i in range(1, count + 1)]
    return [msgspec.structs.replace(pod, spec=_on(spec, pod.spec.node_name)) for pod in made]


def _on(spec: dict[str, Any], node: str) -> PodSpec:
    return msgspec.convert({**spec, "nodeName": node}, PodSpec)


@dataclass
class Case:
    facts: Facts
    cause: Cause
    says: str
    helps: str = ""
    figures: tuple[str, ...] = field(default=())


HELD = "held back by pod sim-0-x of the last run on node node-2, which is not ready: the job starts again when ..."
STUCK = builders.pod("sim-0-x", node="node-2", phase="Running", deleted=ago(100))
SHARE = {"allocated": {"cpu": "12"}, "deserved": {"cpu": "10"}}

CASES = {
    "not seen yet": Case(facts(job(phase=None)), Cause.NOT_SEEN_YET, "the admitter has not looked at it yet"),
    "no admitter": Case(
        facts(job(phase=None), admitter_seen=None), Cause.ADMITTER_SILENT, "no admitter runs", "helm install"
    ),
    "admitter silent": Case(
        facts(admitter_seen=cases.NOW - timedelta(minutes=4)), Cause.ADMITTER_SILENT, "no sign of life for 4m", "logs"
    ),
    "queue missing": Case(
        facts(job(queue="nigth")),
        Cause.QUEUE_MISSING,
        "there is no queue nigth",
        "kubectl sj move sim --queue default",
    ),
    "queue closed": Case(
        facts(job(queue="night"), queues=(queue(closed=True),)),
        Cause.QUEUE_CLOSED,
        "its queue night is closed",
        "kubectl sj queue open night",
    ),
    "queue releasing": Case(
        facts(job(queue="night"), queues=(queue(status={"state": "Releasing"}),)),
        Cause.QUEUE_RELEASING,
        "its queue night is being deleted",
    ),
    "dead node": Case(
        facts(
            job(
                phase="Interrupted",
                status={
                    "message": HELD,
                    "interruptedCount": 1,
                    "interruptedTimestamps": [ago(120)],
                    "conditions": [builders.condition("Interrupted", "True", "NodeLost")],
                },
            ),
            pods=(STUCK,),
        ),
        Cause.HELD_BACK,
        "held back by pod sim-0-x of the last run on node node-2",
        "kubectl delete node node-2",
        ("2m ago, for the 1st time: its node was lost",),
    ),
    "no node": Case(facts(cluster=[]), Cause.NO_NODE, "the cluster has no node", "add a node"),
    "selector": Case(
        facts(job(nodeSelector={"disk": "ssd"})),
        Cause.NO_SELECTOR_MATCH,
        "none of the 3 nodes has the labels of spec.nodeSelector (disk=ssd)",
        "kubectl label node NODE disk=ssd",
    ),
    "taint": Case(
        facts(cluster=nodes(taints=[{"key": "gpu", "value": "a100", "effect": "NoSchedule"}])),
        Cause.TAINT_NOT_TOLERATED,
        "a taint that it does not tolerate (gpu=a100:NoSchedule)",
        "spec.tolerations",
    ),
    "larger than any node": Case(
        facts(job(cpu="20")),
        Cause.LARGER_THAN_ANY_NODE,
        "a pod of it needs 20 cpu, 1Gi memory; the largest node has 8 cpu, 32Gi memory",
        "lower resources.requests",
    ),
    "larger than the cluster": Case(
        facts(job(cpu="6", parallelism=4)),
        Cause.LARGER_THAN_CLUSTER,
        "its 4 pods of 6 cpu, 1Gi memory each would not fit even if all nodes were empty; there is room for 3 pods",
        "parallelism 3 or less",
    ),
    "levels stale": Case(
        facts(levels=levels(observedAt=ago(100))),
        Cause.LEVELS_STALE,
        "observed 100 s ago, stale after 45 s",
        "deploy/scavenger-regulator",
    ),
    "blind": Case(
        facts(levels=levels(state="Blind", message="metrics.k8s.io does not answer")),
        Cause.BLIND,
        "metrics.k8s.io does not answer",
        "metrics API",
    ),
    "admit false": Case(
        facts(levels=levels(admit="false")), Cause.ADMIT_FALSE, "lets nothing new start", "kubectl sj levels"
    ),
    "start failed": Case(
        facts(job(status={"message": "the start did not come off: pod sim-0-x was refused by its node: OutOfcpu"})),
        Cause.START_FAILED,
        "its last start did not come off: pod sim-0-x was refused by its node: OutOfcpu",
        "tried again by itself",
    ),
    "quota": Case(
        facts(
            job(queue="night", cpu="4", parallelism=2),
            queues=(queue(quota={"cpu": "10"}, status={"allocated": {"cpu": "6"}}),),
        ),
        Cause.QUEUE_QUOTA,
        "it needs 8 cpu, and queue night uses 6 of its quota of 10",
        "larger quota",
    ),
    "nodes cordoned": Case(
        facts(cluster=nodes(unschedulable=True)),
        Cause.NODES_CLOSED,
        "each of the 3 nodes it may run on is not ready, cordoned",
        "kubectl uncordon",
    ),
    "node at its own level": Case(
        facts(cluster=nodes(1), levels=levels(closedNodes="node-1")),
        Cause.NODES_CLOSED,
        "the only node it may run on",
    ),
    "over the measured level": Case(
        facts(job(cpu="4"), levels=levels(load_cpu="70")),
        Cause.ADMISSION_LEVEL,
        "the cluster's cpu load would be 86.7 % with it, and new jobs start only below 80 %",
        "less than 2.4 cpu in all",
        ("70 % now, 86.7 % with this job; new jobs start below 80 %",),
    ),
    "over the level by what has just started": Case(
        facts(
            job(cpu="4"),
            levels=levels(load_cpu="50"),
            others=[
                builders.pod("new", node="node-1", cpu="6", phase="Running", labels={"scavenger.dev/job": "other"}),
            ],
        ),
        Cause.ADMISSION_LEVEL,
        "the cluster's cpu load would be 91.7 % with it",
        "",
        ("75 % now, 91.7 % with this job",),
    ),
    "over the fixed level": Case(
        facts(job(cpu="4"), levels=cases.NO_REGULATOR, others=full(cpu="5")),
        Cause.ADMISSION_LEVEL,
        "the cluster's cpu requests would be 79.2 % with it, and new jobs start only below 70 %",
        "less than 1.8 cpu in all",
    ),
    "no place": Case(
        facts(job(cpu="2"), others=full()),
        Cause.NO_PLACE,
        "no node has 2 cpu, 1Gi memory free; the largest free place is 1 cpu, 31Gi memory",
        "pods of 1 cpu, 31Gi memory or less would fit now",
        ("for no such pod on 3 nodes it may use",),
    ),
    "no reclaimed capacity offered": Case(
        facts(job(capacity="Reclaimed"), levels=levels(admit="false")),
        Cause.NO_RECLAIMED_CAPACITY,
        "no node offers reclaimed capacity, of the 3 nodes it may use",
        "the regulator publishes it when started with --reclaimed",
        ("lets nothing new start",),
    ),
    "not enough reclaimed capacity": Case(
        facts(job(capacity="Reclaimed", cpu="4"), cluster=OFFERING, others=full()),
        Cause.NO_RECLAIMED_CAPACITY,
        "no node offers enough reclaimed capacity: it needs 4 cpu, 1Gi memory, and the largest offer left is "
        "3 cpu, 4Gi memory",
        "pods of 3 cpu, 4Gi memory or less would fit now",
        ("3 cpu, 4Gi memory (node node-1)", "for no such pod on 3 nodes it may use"),
    ),
    "reclaimed capacity that others have taken": Case(
        facts(job(capacity="Reclaimed", cpu="2"), cluster=OFFERING, others=taken(3)),
        Cause.NO_RECLAIMED_CAPACITY,
        "the largest offer left is 1 cpu, 3Gi memory",
        "when more of what others have requested is idle",
    ),
    "reclaimed capacity for a part of a gang": Case(
        facts(job(capacity="Reclaimed", cpu="2", parallelism=3), cluster=OFFERING, others=taken(1)),
        Cause.NO_RECLAIMED_CAPACITY,
        "its 3 pods of 2 cpu, 1Gi memory each start together, and what is offered holds 2 now",
        "with parallelism 2 it would fit now",
    ),
    "a reclaimed job on nodes that are full for all others": Case(
        facts(job(capacity="Reclaimed", cpu="2"), cluster=OFFERING, others=full(cpu="8")),
        Cause.IN_LINE,
        "nothing is in its way",
    ),
    "a reclaimed job larger than any node": Case(
        facts(job(capacity="Reclaimed", cpu="20"), cluster=OFFERING),
        Cause.LARGER_THAN_ANY_NODE,
        "a pod of it needs 20 cpu, 1Gi memory; the largest node has 8 cpu, 32Gi memory",
    ),
    "reclaimed capacity under the level, as cpu": Case(
        facts(
            job(capacity="Reclaimed", cpu="2"), cluster=OFFERING, levels=cases.NO_REGULATOR, others=full(cpu="5500m")
        ),
        Cause.ADMISSION_LEVEL,
        "the cluster's cpu requests would be 77.1 % with it",
    ),
    "no place for a gang": Case(
        facts(
            job(cpu="2", parallelism=3),
            others=[*full(2), builders.pod("other", node="node-3", cpu="4", phase="Running")],
        ),
        Cause.NO_PLACE,
        "its 3 pods of 2 cpu, 1Gi memory each start together, and there is room for 2 now",
        "with parallelism 2 it would fit now",
    ),
    "over its share": Case(
        facts(job(queue="night"), queues=(queue(status=SHARE),)),
        Cause.OVER_SHARE,
        "with it, queue night would use 13 cpu, and it deserves 10: queues under their share go first",
        "kubectl sj queue list",
        ("uses 12 of 10 cpu (over its share)",),
    ),
    "just beyond its share": Case(
        facts(
            job(queue="night", cpu="2", parallelism=2),
            queues=(queue(status={"allocated": {"cpu": "7"}, "deserved": {"cpu": "10", "memory": "9Gi"}}),),
        ),
        Cause.OVER_SHARE,
        "would use 11 cpu, and it deserves 10",
        "",
        ("uses 7 of 10 cpu, 0 of 9Gi memory",),
    ),
    "room is being made": Case(
        facts(
            job(
                status={"message": "queue night has 2 cpu: this job starts as soon as the pods are gone whose room ..."}
            ),
            others=full(),
        ),
        Cause.MAKING_ROOM,
        "jobs of queues over their share are leaving for it (queue night has 2 cpu",
        "within their grace period",
    ),
    "the admitter knows more": Case(
        facts(job(status={"message": "room on node-1 is about to be taken by pod web-1"})),
        Cause.AS_THE_ADMITTER_SAYS,
        "room on node-1 is about to be taken by pod web-1",
    ),
    "in line": Case(
        facts(job(status={"message": "in line for admission"}), line=(3, 7)),
        Cause.IN_LINE,
        "2 jobs are before it in queue default",
        "kubectl sj wait sim --for=running",
        ("3rd of 7 in queue default",),
    ),
    "next in line": Case(facts(), Cause.IN_LINE, "nothing is in its way"),
    "nothing may be read": Case(
        facts(levels=None, queues=None, room=None, line=None, admitter_known=False, unreadable=("nodes",)),
        Cause.IN_LINE,
        "nothing is in its way",
        "ask an administrator",
        ("to read nodes",),
    ),
    "interrupted": Case(
        facts(
            job(
                phase="Interrupted",
                cpu="2",
                status={
                    "message": "pod sim-0-x was preempted (default-scheduler); in line to start again",
                    "interruptedCount": 2,
                    "interruptedTimestamps": [ago(4000), ago(300)],
                    "usefulCPUSeconds": 5400,
                    "lostCPUSeconds": 600,
                    "conditions": [builders.condition("Interrupted", "True", "Preempted")],
                },
            ),
            others=full(),
        ),
        Cause.NO_PLACE,
        "was interrupted and has been in line again for 5m",
        "",
        (
            "5m ago, for the 2nd time: the scheduler gave its room to an ordinary pod",
            "10.0 min of CPU time (10 %)",
        ),
    ),
    "starting": Case(
        facts(
            job(phase="Starting", parallelism=2),
            pods=(
                builders.pod(
                    "sim-0-x",
                    node="node-1",
                    container_statuses=[builders.waiting("ImagePullBackOff", "back-off pulling image")],
                ),
                builders.pod(
                    "sim-1-y", conditions=[builders.condition("PodScheduled", "False", "Unschedulable", "0/3 nodes")]
                ),
            ),
        ),
        Cause.STARTING,
        "it counts as Running when all 2 pods run",
        "taken back by itself",
        ("1 of 2 placed on nodes, 0 running", "ImagePullBackOff: back-off pulling image", "0/3 nodes"),
    ),
    "running": Case(
        facts(
            job(
                phase="Running",
                cpu="4",
                parallelism=2,
                status={
                    "runningTimestamps": [ago(1200)],
                    "priorityStartOverTimestamp": ago(1200),
                    "lastCheckpointTimestamp": ago(300),
                    "preemption": {"class": "preemptible"},
                },
            )
        ),
        Cause.RUNNING,
        "sim has been running for 20m",
        "",
        (
            "40.0 min of CPU time",
            "preemptible: among those that go first",
            "5m of work since the last; next within 25m",
        ),
    ),
    "suspended": Case(
        facts(job(phase="Suspended", suspend=True)), Cause.SUSPENDED, "is suspended", "kubectl sj resume sim"
    ),
    "resumed a moment ago": Case(facts(job(phase="Suspended")), Cause.SUSPENDED, "about to line up again"),
    "completed": Case(
        facts(job(phase="Completed", status={"finishedTimestamp": ago(60), "usefulCPUSeconds": 30})),
        Cause.COMPLETED,
        "sim completed 60s ago",
        "",
        ("30 s useful, 0 s lost to 0 interruptions",),
    ),
    "failed by exit": Case(
        facts(
            job(
                phase="Failed",
                status={
                    "finishedTimestamp": ago(60),
                    "runningTimestamps": [ago(100)],
                    "message": "container main of pod sim-0-x exited with code 127 (ContainerCannotRun)",
                },
            )
        ),
        Cause.FAILED_BY_EXIT,
        "exited with code 127",
        "kubectl sj logs sim",
        (EXIT_CODES[127],),
    ),
    "out of memory": Case(
        facts(
            job(phase="Failed", status={"message": "container main of pod sim-0-x exited with code 137 (OOMKilled)"})
        ),
        Cause.FAILED_BY_EXIT,
        "OOMKilled",
        "ask for more memory",
        ("it used more memory than it asked for",),
    ),
    "by a signal": Case(
        facts(job(phase="Failed", status={"message": "container main of pod sim-0-x exited with code 138"})),
        Cause.FAILED_BY_EXIT,
        "code 138",
        "",
        ("it ended on signal 10",),
    ),
    "missing claim": Case(
        facts(job(phase="Failed", status={"message": 'persistentvolumeclaim "state" not found'})),
        Cause.FAILED_TO_START,
        'persistentvolumeclaim "state" not found',
        "create what is missing",
    ),
    "being deleted": Case(
        facts(
            job(phase="Running", deleted=ago(5), finalizers=["x"]),
            pods=(builders.pod("sim-0-x", node="node-1", phase="Running"),),
        ),
        Cause.DELETING,
        "is being deleted, since 5s",
        "grace period",
        ("still there on node node-1",),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_explanation(case: Case) -> None:
    found = explain(case.facts)
    assert found.cause == case.cause
    assert case.says in found.headline
    assert case.helps in "\n".join(found.remedies)
    figures = "\n".join(finding.text for finding in found.findings)
    for figure in case.figures:
        assert figure in figures


def test_every_cause_has_a_case() -> None:
    assert {case.cause for case in CASES.values()} == set(Cause)


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_no_empty_words(case: Case) -> None:
    """Nothing is printed that says nothing, whatever the facts."""
    found = explain(case.facts)
    assert all(finding.label and finding.text for finding in found.findings)
    assert all(found.remedies)
    assert all(len(line) <= 80 for line in explanation(found, 80) if " " in line.strip())


def test_what_never_passes_comes_before_what_does() -> None:
    """A job that is too large and in a closed queue, in a full cluster, is told of the queue first, and of its size."""
    found = explain(facts(job(queue="night", cpu="20"), queues=(queue(closed=True),), others=full()))
    assert found.cause is Cause.QUEUE_CLOSED
    assert [f.text for f in found.findings if f.label == "also"] == [
        "a pod of it needs 20 cpu, 1Gi memory; the largest node has 8 cpu, 32Gi memory"
    ]


def test_a_load_at_the_level_leaves_nothing_to_ask_for() -> None:
    found = explain(facts(levels=levels(load_cpu="85")))
    assert found.cause is Cause.ADMISSION_LEVEL
    assert not any("less than" in remedy for remedy in found.remedies)


def test_rendering() -> None:
    found = explain(facts(job(cpu="2"), others=full()))
    assert explanation(found, 80) == [
        "sim has been waiting for 5m: no node has 2 cpu, 1Gi memory free; the largest",
        "free place is 1 cpu, 31Gi memory.",
        "",
        "  cpu load            50 % now, 58.3 % with this job; new jobs start below 80 %",
        "  it needs            2 cpu, 1Gi memory",
        "  largest free place  1 cpu, 31Gi memory (node node-1)",
        "  room now            for no such pod on 3 nodes it may use",
        "  place in line       1st of 1 in queue default",
        "",
        "What helps:",
        "  - wait: it starts when ordinary workloads or other jobs have freed enough",
        "  - pods of 1 cpu, 31Gi memory or less would fit now",
    ]


def test_data_is_what_is_printed() -> None:
    found = Explanation(Cause.IN_LINE, "sim waits", (), ("wait",))
    assert explanation_data(found) == {
        "cause": "InLine",
        "headline": "sim waits",
        "findings": [],
        "remedies": ["wait"],
    }
