"""A table of situations, one for each cause: the word, the sentence, the figures in it, and what would help."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from scavenger_api.main_container import GOES_FIRST
from scavenger_api.reasons import InterruptionReason, WaitReason
from scavenger_cli.explain import EXIT_CODES, explain, interruption
from scavenger_cli.facts import Cause, Explanation, Facts
from scavenger_cli.render import explanation, explanation_data
from scavenger_kube.kinds import PodSpec
from scavenger_testing import builders

from . import cases
from .cases import ago, facts, job, levels, nodes, queue
from .conftest import Answer, Request, Run, Server, listed


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
    cause: str
    says: str
    helps: str = ""
    figures: tuple[str, ...] = field(default=())


HELD = "held back by pod sim-0-x of the last run on node node-2, which is not ready: the job starts again when ..."


def run_pod(run: str, **fields: Any) -> Any:
    """The pod of a run of the job, done and on the first node unless told otherwise."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sim", "uid": run}}
    return builders.pod(f"sim-0-{run}", **{"node": "node-1", "phase": "Succeeded", "owner": owner, **fields})


STUCK = builders.pod("sim-0-x", node="node-2", phase="Running", deleted=ago(100))
SHARE = {"allocated": {"cpu": "12"}, "deserved": {"cpu": "10"}}


def told(reason: str, message: str = "", *, phase: str = "Waiting", **fields: Any) -> Any:
    """A job that was told why it waits."""
    status = dict(fields.pop("status", {}))
    status["conditions"] = [builders.condition("Admitted", "False", reason, message), *status.get("conditions", ())]
    return job(phase=phase, status={"message": message, **status}, **fields)


NO_ROOM = "needs 2 cpu, 1Gi memory; the largest free place is 1 cpu, 31Gi memory"
CASES = {
    "not seen yet": Case(facts(job(phase=None)), Cause.NOT_SEEN_YET, "the admitter has written nothing of it yet"),
    "no admitter": Case(
        facts(job(phase=None), admitter_seen=None), Cause.ADMITTER_SILENT, "no admitter runs", "helm install"
    ),
    "admitter silent": Case(
        facts(told("NoPlace", NO_ROOM), admitter_seen=cases.NOW - timedelta(minutes=4)),
        Cause.ADMITTER_SILENT,
        "no sign of life for 4m",
        "logs",
        (NO_ROOM,),
    ),
    "no condition": Case(
        facts(job(status={"message": "room on node-1 is about to be taken by pod web-1"})),
        Cause.NOT_SAID,
        "room on node-1 is about to be taken by pod web-1",
    ),
    "cool-down": Case(
        facts(told("AdmitFalse", "none"), levels=cases.levels(admit="false", until=ago(-90))),
        "AdmitFalse",
        "none",
        "after the cool-down, which ends in 90s",
        ("none start: cool-down after interruptions until",),
    ),
    "evicting": Case(
        facts(told("AdmitFalse", "none"), levels=cases.levels(admit="false", state="Evicting", load_cpu="90")),
        "AdmitFalse",
        "none",
        "when the load has fallen",
        ("none start: jobs are being evicted",),
    ),
    "no condition and no message": Case(facts(), Cause.NOT_SAID, "the admitter has not said why"),
    "a condition without a message, of an older admitter": Case(
        facts(
            job(
                status={
                    "message": "the start failed: pod sim-0-x was refused by its node: OutOfcpu",
                    "conditions": [builders.condition("Admitted", "False", "Refused")],
                }
            )
        ),
        WaitReason.REFUSED,
        "the start failed: pod sim-0-x was refused by its node: OutOfcpu",
        "the admitter retries it",
    ),
    "a reason of a newer admitter": Case(facts(told("MoonIsFull", "the moon is full")), "MoonIsFull", "moon is full"),
    "a start undone from outside": Case(
        facts(told("Preempted", "the start failed: pod sim-0-x was preempted before the job ran")),
        "Preempted",
        "was preempted before the job ran",
        "the admitter retries it",
    ),
    "after another job": Case(
        facts(
            told(
                "Dependency",
                "by spec.after it waits for job prep to complete",
                after=[{"job": "raw", "when": "Ended"}, {"job": "prep"}],
                status={"after": [{"job": "raw", "uid": "u1", "ended": "Failed"}, {"job": "prep", "uid": "u2"}]},
            )
        ),
        WaitReason.DEPENDENCY,
        "it waits for job prep to complete",
        "kubectl sj why prep",
    ),
    "after a job that failed": Case(
        facts(told("DependencyNeverSatisfied", "cannot start as things are: job prep failed", after=[{"job": "prep"}])),
        WaitReason.DEPENDENCY_NEVER_SATISFIED,
        "job prep failed",
        "submit it again without the job that the message names",
    ),
    "queue missing": Case(
        facts(told("QueueMissing", "there is no ScavengerQueue nigth", queue="nigth")),
        WaitReason.QUEUE_MISSING,
        "there is no ScavengerQueue nigth",
        "kubectl sj move sim --queue default",
    ),
    "queue closed": Case(
        facts(told("QueueClosed", "queue night is closed", queue="night"), queues=(queue(closed=True),)),
        WaitReason.QUEUE_CLOSED,
        "queue night is closed",
        "kubectl sj queue open night",
    ),
    "dead node": Case(
        facts(
            told(
                "HeldBack",
                HELD,
                phase="Interrupted",
                status={
                    "interruptedCount": 1,
                    "interruptedTimestamps": [ago(120)],
                    "conditions": [builders.condition("Interrupted", "True", "NodeLost")],
                },
            ),
            pods=(STUCK,),
        ),
        WaitReason.HELD_BACK,
        "held back by pod sim-0-x of the last run on node node-2",
        "kubectl delete node node-2",
        ("2m ago, for the 1st time: its node was lost",),
    ),
    "selector": Case(
        facts(told("NoSelectorMatch", "no node has the labels", nodeSelector={"disk": "ssd"})),
        WaitReason.NO_SELECTOR_MATCH,
        "no node has the labels",
        "kubectl label node NODE disk=ssd",
    ),
    "nodes cordoned": Case(
        facts(told("NoPlace", "every node is cordoned"), cluster=nodes(unschedulable=True)),
        WaitReason.NO_PLACE,
        "every node is cordoned",
        "kubectl uncordon",
    ),
    "node at its own level": Case(
        facts(told("NoPlace", "every node is closed"), cluster=nodes(1), levels=levels(closedNodes="node-1")),
        WaitReason.NO_PLACE,
        "every node is closed",
        "kubectl get nodes",
    ),
    "no node so far from its own level": Case(
        facts(
            told("NoHeadroom", "no node has that much left up to its own level", cpu="2"),
            levels=levels(nodeHeadroom="node-1=100/900 node-2=200/500 node-3=150/900"),
        ),
        WaitReason.NO_HEADROOM,
        "no node has that much left up to its own level",
        "pods of 1600m cpu, 16Gi memory or less would fit now",
        ("node-2: 1600m cpu, 16Gi memory left up to its own level", "for no such pod on 3 nodes it may use"),
    ),
    "over the measured level": Case(
        facts(told("AdmissionLevel", "cpu load would be 86.7 %", cpu="4"), levels=levels(load_cpu="70")),
        WaitReason.ADMISSION_LEVEL,
        "cpu load would be 86.7 %",
        "less than 2.4 cpu in all",
        ("70 % now; new jobs start below 80 %",),
    ),
    "over the level by what has just started": Case(
        facts(
            told("AdmissionLevel", "cpu load would be 91.7 %", cpu="4"),
            levels=levels(load_cpu="50"),
            others=[
                builders.pod("new", node="node-1", cpu="6", phase="Running", labels={"scavenger.dev/job": "other"}),
            ],
        ),
        WaitReason.ADMISSION_LEVEL,
        "cpu load would be 91.7 %",
        "",
        ("75 % now; new jobs start below 80 %",),
    ),
    "over the fixed level": Case(
        facts(told("AdmissionLevel", "over", cpu="4"), levels=cases.NO_REGULATOR, others=full(cpu="5")),
        WaitReason.ADMISSION_LEVEL,
        "over",
        "less than 1.8 cpu in all",
        ("62.5 % now, 79.2 % with this job; new jobs start below 70 %",),
    ),
    "no place": Case(
        facts(told("NoPlace", NO_ROOM, cpu="2"), others=full()),
        WaitReason.NO_PLACE,
        NO_ROOM,
        "pods of 1 cpu, 31Gi memory or less would fit now",
        ("for no such pod on 3 nodes it may use",),
    ),
    "no place beside a node that refuses pods": Case(
        facts(told("NoPlace", NO_ROOM, cpu="2"), others=full(), shunned={"node-2": "the device is gone"}),
        WaitReason.NO_PLACE,
        NO_ROOM,
        "",
        ("node-2: no job starts there for a while, as pods did not start: the device is gone",),
    ),
    "no place for a gang": Case(
        facts(
            told("NoPlace", "there is capacity for 2 now", cpu="2", parallelism=3),
            others=[*full(2), builders.pod("other", node="node-3", cpu="4", phase="Running")],
        ),
        WaitReason.NO_PLACE,
        "there is capacity for 2 now",
        "with parallelism 2 it would fit now",
    ),
    "not enough reclaimed capacity": Case(
        facts(told("NoPlace", "no node offers", capacity="Reclaimed", cpu="4"), cluster=OFFERING, others=full()),
        WaitReason.NO_PLACE,
        "no node offers",
        "pods of 3 cpu, 4Gi memory or less would fit now",
        ("3 cpu, 4Gi memory (node node-1)", "for no such pod on 3 nodes it may use"),
    ),
    "reclaimed capacity that others have taken": Case(
        facts(told("NoPlace", "no node offers", capacity="Reclaimed", cpu="2"), cluster=OFFERING, others=taken(3)),
        WaitReason.NO_PLACE,
        "no node offers",
        "",
        ("1 cpu, 3Gi memory",),
    ),
    "reclaimed capacity for a part of a gang": Case(
        facts(
            told("NoPlace", "room for 2", capacity="Reclaimed", cpu="2", parallelism=3),
            cluster=OFFERING,
            others=taken(1),
        ),
        WaitReason.NO_PLACE,
        "room for 2",
        "with parallelism 2 it would fit now",
    ),
    "reclaimed capacity under the level, as cpu": Case(
        facts(
            told("AdmissionLevel", "over", capacity="Reclaimed", cpu="2"),
            cluster=OFFERING,
            levels=cases.NO_REGULATOR,
            others=full(cpu="5500m"),
        ),
        WaitReason.ADMISSION_LEVEL,
        "over",
        "",
        ("77.1 % with this job",),
    ),
    "over its share": Case(
        facts(told("QueueShare", "beyond its share", queue="night"), queues=(queue(status=SHARE),)),
        WaitReason.QUEUE_SHARE,
        "beyond its share",
        "kubectl sj queue list",
        ("uses 12 of 10 cpu (over its share)",),
    ),
    "just beyond its share": Case(
        facts(
            told("QueueShare", "beyond its share", queue="night", cpu="2", parallelism=2),
            queues=(queue(status={"allocated": {"cpu": "7"}, "deserved": {"cpu": "10", "memory": "9Gi"}}),),
        ),
        WaitReason.QUEUE_SHARE,
        "beyond its share",
        "",
        ("uses 7 of 10 cpu, 0 of 9Gi memory",),
    ),
    "in line": Case(
        facts(told("Queued", "queued for admission"), line=(3, 7)),
        WaitReason.QUEUED,
        "it is queued, 3rd of 7 in queue default",
        "kubectl sj wait sim --for=running",
        ("3rd of 7 in queue default",),
    ),
    "nothing may be read": Case(
        facts(
            told("LargerThanAnyNode", "requests 20 cpu"),
            levels=None,
            queues=None,
            room=None,
            line=None,
            admitter_known=False,
            unreadable=("nodes",),
        ),
        WaitReason.LARGER_THAN_ANY_NODE,
        "requests 20 cpu",
        "lower resources",
        ("to read nodes",),
    ),
    "interrupted": Case(
        facts(
            told(
                "NoPlace",
                NO_ROOM,
                phase="Interrupted",
                cpu="2",
                status={
                    "interruptedCount": 2,
                    "interruptedTimestamps": [ago(4000), ago(300)],
                    "usefulCPUSeconds": 5400,
                    "lostCPUSeconds": 600,
                    "conditions": [builders.condition("Interrupted", "True", "Preempted")],
                },
            ),
            others=full(),
        ),
        WaitReason.NO_PLACE,
        "was interrupted and has been queued again for 5m",
        "",
        (
            "5m ago, for the 2nd time: the scheduler gave its capacity to a regular pod",
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
    "starting, with a registry that wants a login": Case(
        facts(
            job(phase="Starting"),
            pods=(
                builders.pod("sim-0-x", node="node-1", container_statuses=[builders.waiting("ErrImagePull", "401")]),
            ),
            pull_secrets=("login", "other"),
        ),
        Cause.STARTING,
        "it counts as Running when all 1 pod run",
        "kubectl create secret docker-registry",
        ("image example.org/app:1 of registry example.org, with the secrets login, other: ErrImagePull: 401",),
    ),
    "starting, without a secret": Case(
        facts(
            job(phase="Starting"),
            pods=(builders.pod("sim-0-x", node="node-1", container_statuses=[builders.waiting("ErrImageNeverPull")]),),
        ),
        Cause.STARTING,
        "it counts as Running when all 1 pod run",
        "see that the image exists",
        ("image example.org/app:1 of registry example.org, without a secret: ErrImageNeverPull",),
    ),
    "stalled": Case(
        facts(
            job(
                phase="Running",
                status={
                    "runningTimestamps": [ago(1200)],
                    "conditions": [
                        builders.condition("Stalled", "True", "NoCheckpoint", "no checkpoint reported since noon")
                    ],
                },
            )
        ),
        Cause.RUNNING,
        "sim has been running for 20m",
        "",
        ("no checkpoint reported since noon; kubectl sj logs sim",),
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
    "ended with 0, not proven": Case(
        facts(
            job(phase="Running", status={"runningTimestamps": [ago(100)]}),
            pods=(
                run_pod("before", phase="Failed", created=ago(900)),
                run_pod("now", created=ago(110), container_statuses=[builders.terminated(0, finished=ago(8))]),
            ),
        ),
        Cause.AWAITS_PROOF,
        "sim ended 8s ago with 0: it is Completed when node node-1 shows life",
        "",
        ("2m after the end; without a sign it runs again", "it is free"),
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


RUN = {"runningTimestamps": [ago(1200)], "finishedTimestamp": ago(60), "interruptedTimestamps": [ago(300)]}


@pytest.mark.parametrize("phase", ["Running", "Interrupted", "Completed", "Failed"])
def test_what_snap_warned_of_is_said_whatever_became_of_the_job(phase: str) -> None:
    found = explain(facts(job(phase=phase, status=RUN), snapshot_warning="the volume is full"))
    assert [finding.text for finding in found.findings if finding.label == "snapshots"] == ["the volume is full"]


def warned(message: str, seconds: float) -> dict[str, Any]:
    meta = {"name": f"a.{seconds}", "namespace": "lab"}
    return {"metadata": meta, "reason": "SnapshotWarning", "message": message, "lastTimestamp": ago(seconds)}


@pytest.mark.parametrize(("snapshot", "said"), [({"volume": "work"}, True), (None, False)])
def test_the_newest_warning_is_read_from_the_events_of_a_job_with_snapshots(
    snapshot: Any, said: bool, server: Server, sj: Run
) -> None:
    body = builders.scavengerjob_dict("sim", namespace="lab", uid="u-1", phase="Completed", status=RUN)
    body["spec"]["snapshot"] = snapshot
    server.on("/apis/scavenger.dev/v1alpha1/namespaces/lab/scavengerjobs/sim", Answer(body=body))

    def events(request: Request) -> Answer:
        assert request.query["fieldSelector"] == "involvedObject.uid=u-1,reason=SnapshotWarning"
        return listed(warned("the volume is full", 500), warned("the engine has used 9 s", 20), warned("older", 900))

    server.on("/api/v1/namespaces/lab/events", events)
    code, out, _ = sj("why", "sim")
    assert (code, "the engine has used 9 s" in out) == (0, said)
    assert "full" not in out


def test_every_cause_has_a_case() -> None:
    of_arrays = {Cause.TASKS_FAILED, Cause.TASK_WAITS, Cause.NOT_RUN}  # test_arrays.py
    assert {*Cause} - of_arrays <= {case.cause for case in CASES.values()}


@pytest.mark.parametrize("reason", WaitReason)
def test_every_reason_has_a_remedy(reason: WaitReason) -> None:
    found = explain(facts(told(reason, "as the admitter says", queue="night", nodeSelector={"disk": "ssd"})))
    assert found.cause == reason
    assert found.remedies
    assert not any("{" in remedy for remedy in found.remedies)
    assert reason is WaitReason.QUEUED or "as the admitter says" in found.headline


@pytest.mark.parametrize("reason", InterruptionReason)
def test_every_interruption_has_its_words(reason: InterruptionReason) -> None:
    words = interruption(reason)
    assert " " in words
    assert not words.endswith(".")
    assert interruption("Unheard") == "Unheard"
    assert interruption("") == "for a reason that is not on record"


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_no_empty_words(case: Case) -> None:
    """Nothing is printed that says nothing, whatever the facts."""
    found = explain(case.facts)
    assert all(finding.label and finding.text for finding in found.findings)
    assert all(found.remedies)
    assert all(len(line) <= 80 for line in explanation(found, 80) if " " in line.strip())


def test_why_decides_nothing_about_admission() -> None:
    """What the admitter says stands, whatever else could be found in the way."""
    closed = (queue(closed=True),)
    found = explain(facts(told("MakingRoom", "room is made", queue="night", cpu="20"), queues=closed, others=full()))
    assert found.cause == WaitReason.MAKING_ROOM
    assert found.headline == "sim has been waiting for 5m: room is made"


def test_a_load_at_the_level_leaves_nothing_to_ask_for() -> None:
    found = explain(facts(told("AdmissionLevel", "over"), levels=levels(load_cpu="85")))
    assert not any("less than" in remedy for remedy in found.remedies)


def test_rendering() -> None:
    found = explain(facts(told("NoPlace", NO_ROOM, cpu="2"), others=full()))
    assert explanation(found, 80) == [
        "sim has been waiting for 5m: needs 2 cpu, 1Gi memory; the largest free place is",
        "1 cpu, 31Gi memory.",
        "",
        "  cpu load            50 % now, 58.3 % with this job; new jobs start below 80 %",
        "  it needs            2 cpu, 1Gi memory",
        "  largest free place  1 cpu, 31Gi memory (node node-1)",
        "  capacity now        for no such pod on 3 nodes it may use",
        "  position            1st of 1 in queue default",
        "",
        "What helps:",
        "  - wait: it starts when regular workloads or other jobs have freed enough",
        "  - pods of 1 cpu, 31Gi memory or less would fit now",
    ]


def test_capacity_that_is_held_for_others_is_not_called_room_for_the_job() -> None:
    said = "needs 2 cpu; the largest free place is 0 cpu, as more is held for pods that wait for a node: shop/web-1"
    found = explain(facts(told("NoPlace", said, cpu="2")))
    assert found.headline == f"sim has been waiting for 5m: {said}"
    shown = {finding.label: finding.text for finding in found.findings}
    assert shown["free by requests"].endswith("on 3 nodes it may use, but held for others")
    assert not {"capacity now", "largest free place"} & shown.keys()


def test_data_is_what_is_printed() -> None:
    found = Explanation(WaitReason.QUEUED, "sim waits", (), ("wait",))
    assert explanation_data(found) == {
        "cause": "Queued",
        "headline": "sim waits",
        "findings": [],
        "remedies": ["wait"],
    }


@pytest.mark.parametrize("phase", ["Waiting", "Running"])
def test_requests_below_limits_are_warned_of_once(phase: str) -> None:
    sides = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}}
    status = {"runningTimestamps": [ago(60)]} if phase == "Running" else {}
    template = {"spec": {"containers": [{"name": "sim", "resources": sides}]}}
    found = explain(facts(job(phase=phase, status=status, template=template)))
    words = [one.text for one in found.findings if one.label == "warning"]
    assert words == [
        "container sim: cpu requests differ from limits: it may be throttled to its request, and " + GOES_FIRST
    ]


SIDES = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}}


@pytest.mark.parametrize(
    ("used", "says"),
    [
        ({"cpu": 1900, "memory": 1 << 29}, ["pod sim-0-x uses 1.9 of 1 cpu that it requests: " + GOES_FIRST]),
        ({"cpu": 1040, "memory": 1 << 30}, []),
        ({}, []),
    ],
)
def test_who_uses_more_than_it_requests_is_told(used: dict[str, int], says: list[str]) -> None:
    subject = job(phase="Running", status={"runningTimestamps": [ago(60)]}, resources=SIDES)
    found = explain(facts(subject, pod_use={"sim-0-x": used, "sim-1-x": used}))
    assert [one.text for one in found.findings if one.label == "above its request"] == says


@pytest.mark.parametrize(
    ("pods", "says"),
    [
        ([{"cpu": 700, "memory": 1 << 28}], ["0.7 of 1 cpu and 256Mi of 1Gi memory that it requests, now"]),
        (
            [{"cpu": 200, "memory": 1 << 29}, {"cpu": 600, "memory": 1 << 28}],
            ["0.4 of 1 cpu and 384Mi of 1Gi memory that each of 2 pods requests, on average now"],
        ),
        ([{"memory": 1 << 28}, {}], ["256Mi of 1Gi memory that each of 2 pods requests, on average now"]),
        ([{}], []),
        ([], []),
    ],
)
def test_what_a_job_uses_of_its_requests_is_told(pods: list[dict[str, int]], says: list[str]) -> None:
    resources = {"requests": SIDES["requests"]}
    subject = job(phase="Running", status={"runningTimestamps": [ago(60)]}, resources=resources)
    found = explain(facts(subject, pod_use={f"sim-{i}-x": used for i, used in enumerate(pods)}))
    assert [one.text for one in found.findings if one.label == "uses"] == says


def test_the_use_of_pods_is_asked_for_and_told_where_it_is_more_than_requested(server: Server, sj: Run) -> None:
    sides = {"requests": SIDES["requests"]}
    body = builders.scavengerjob_dict(
        "sim", namespace="lab", phase="Running", status={"runningTimestamps": [ago(60)]}, resources=sides
    )
    server.on("/apis/scavenger.dev/v1alpha1/namespaces/lab/scavengerjobs/sim", Answer(body=body))
    asked = []

    def use(request: Request) -> Answer:
        asked.append(request.query["labelSelector"])
        containers = [
            {"name": "main", "usage": {"cpu": "1500m", "memory": "1Gi"}},
            {"name": "log", "usage": {"cpu": "1"}},
        ]
        return listed({"metadata": {"name": "sim-0-x", "namespace": "lab"}, "containers": containers})

    server.on("/apis/metrics.k8s.io/v1beta1/namespaces/lab/pods", use)
    server.on("/api/v1/namespaces/lab/pods", listed())
    code, out, _ = sj("why", "sim")
    assert code == 0
    assert asked == ["scavenger.dev/job=sim,!scavenger.dev/kind"]
    said = " ".join(out.split())
    assert "2.5 of 1 cpu and 1Gi of 1Gi memory that it requests" in said
    assert "sim-0-x uses 2.5 of 1 cpu" in said
