"""Starts that do not come off, and what no later try can help."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from scavenger_admitter.core.lifecycle.actions import DeleteJob, EventNote
from scavenger_admitter.core.lifecycle.start_failures import Diagnosis, Lack, Refusal, diagnose
from scavenger_api.job import Phase
from scavenger_api.model import Condition
from scavenger_kube import kinds

from . import builders as b

WAITING, STARTING, RUNNING = Phase.WAITING, Phase.STARTING, Phase.RUNNING
INTERRUPTED, FAILED = Phase.INTERRUPTED, Phase.FAILED

SPEC: Mapping[str, Any] = {
    "serviceAccountName": "robot",
    "persistentVolumeClaims": [{"name": "data", "mountPath": "/data"}],
    "configMaps": [{"name": "conf", "mountPath": "/conf"}],
    "secrets": [{"name": "key", "mountPath": "/key"}],
    "env": [
        {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "env-conf", "key": "a"}}},
        {"name": "B", "valueFrom": {"secretKeyRef": {"name": "env-key", "key": "b"}}},
    ],
    "envFrom": [{"configMapRef": {"name": "from-conf"}}, {"secretRef": {"name": "from-key"}}],
}


@dataclass(frozen=True)
class Row:
    name: str
    pods: tuple[kinds.Pod, ...]
    phase: Phase
    reason: str = ""
    says: str = ""
    now: float = 30
    diagnosis: Diagnosis | None = None
    refused: Refusal | None = None
    batch: kinds.Job | None = field(default_factory=b.batch)
    parallelism: int = 1
    lack: Lack | None = None


def pending(**more: Any) -> kinds.Pod:
    return b.pod(started=None, **more)


def stuck(reason: str, message: str = "") -> kinds.Pod:
    return pending(waiting=(reason, message))


def unplaced(message: str, since: float = 2) -> kinds.Pod:
    return pending(node="", conditions=[b.unschedulable(since, message)])


def refused(reason: str, message: str = "no room") -> kinds.Pod:
    return pending(phase="Failed", reason=reason, message=message)


def mount(message: str) -> Diagnosis:
    said = (f'MountVolume.SetUp failed for volume "v" : {message}',)
    return Diagnosis(mounts=said, unmounted={f"{b.BATCH}-pod-0": said})


def refusal(message: str) -> Refusal:
    return Refusal(message, 403, "Forbidden", of_pod=True)


CREATING = stuck("ContainerCreating")
TAKEN = pending(waiting=("ContainerCreating", ""), taken=5)
"""Its kubelet has it, and has made no sandbox."""
FOR_LONG = 126
"""Seconds; two minutes after that."""
NO_SECRET = 'secret "key" not found'
IN_USE = 'Waiting for detach for volume "pvc-1" Volume is already used by pod(s) web-0'
DETACHING = (
    'Waiting for detach for volume "pvc-1" Volume is already exclusively attached to one node, waiting on detach '
    "before it can be attached to another node"
)


def in_use(words: str = IN_USE) -> Diagnosis:
    return Diagnosis(mounts=(words,), held=f"FailedAttachVolume: {words}", in_use={f"{b.BATCH}-pod-0": words})


def beside(ends: int, reason: str = "Error", message: str = "", waits: str = "CrashLoopBackOff") -> kinds.Pod:
    """A pod whose sidecar has ended so often, so that its program waits."""
    last = kinds.ContainerState(terminated=kinds.Terminated(3 if reason == "Error" else 128, 0, reason, message))
    state = kinds.ContainerState(waiting=kinds.Waiting(waits, "back-off 40s restarting failed container"))
    proxy = kinds.ContainerStatus("proxy", state, restart_count=ends - 1, last_state=last)
    made = pending(waiting=("PodInitializing", ""))
    return msgspec.structs.replace(made, status=msgspec.structs.replace(made.status, init_container_statuses=(proxy,)))


PULLING = pending(
    taken=5, waiting=("ContainerCreating", ""), conditions=[b.condition("PodReadyToStartContainers", "True", 5, "")]
)
GATED = pending(node="", conditions=[b.condition("PodScheduled", "False", 2, "SchedulingGated")])
FINAL = (
    # --- what the job refers to is not there
    Row(
        "PVC",
        (unplaced('0/1 nodes are available: persistentvolumeclaim "data" not found. not found'),),
        FAILED,
        "NotFound",
        'persistentvolumeclaim "data" not found',
        now=3,
    ),
    Row(
        "PVC lost its volume",
        (unplaced('persistentvolumeclaim "data" bound to non-existent persistentvolume "pv"'),),
        FAILED,
        "InvalidReference",
        "non-existent",
        now=3,
    ),
    *(
        Row(
            f"{where} {kind}",
            (stuck("CreateContainerConfigError", f'{kind} "{name}" not found'),),
            FAILED,
            "NotFound",
            f'{kind} "{name}" not found',
        )
        for where, kind, name in (
            ("env", "configmap", "env-conf"),
            ("env", "secret", "env-key"),
            ("envFrom", "configmap", "from-conf"),
            ("envFrom", "secret", "from-key"),
        )
    ),
    # --- the user it would run as (kubelet kuberuntime/security_context_others.go verifyRunAsNonRoot)
    *(
        Row(
            f"run as root: {wrong}",
            (stuck("CreateContainerConfigError", f'{wrong} (pod: "job-0-x_ns(uid)", container: main)'),),
            FAILED,
            "RunsAsRoot",
            says,
        )
        for wrong, says in (
            (
                "container has runAsNonRoot and image will run as root",
                "the image runs as root, which this job may not: add the line `runAsUser: 65532` to spec, or give the "
                "image a numeric USER other than 0 (image)",
            ),
            (
                "container has runAsNonRoot and image has non-numeric user (app:x), cannot verify user is non-root",
                "the image's USER app:x is a name, which may be root's: add a line with its number, such as "
                "`runAsUser: 65532`, to spec, or give the image a numeric USER other than 0 (image)",
            ),
            (
                "container has runAsNonRoot and image has an invalid user id (4294967295). "
                "(Must be 1-(2147483647)): must be between 0 and 2147483647, inclusive",
                "the image's USER 4294967295 is no user id: add the line `runAsUser: 65532` to spec, or give the "
                "image a numeric USER other than 0 (image)",
            ),
            (
                "container's runAsUser breaks non-root policy",
                "runAsUser 0 in spec is root, which this job may not be: write another id, such as 65532",
            ),
        )
    ),
    Row(
        "key of a ConfigMap",
        (stuck("CreateContainerConfigError", "couldn't find key a in ConfigMap ns/env-conf"),),
        FAILED,
        "InvalidReference",
        "couldn't find key a",
    ),
    Row(
        "key of a Secret",
        (stuck("CreateContainerConfigError", "couldn't find key b in Secret ns/env-key"),),
        FAILED,
        "InvalidReference",
        "couldn't find key b",
    ),
    Row(
        "image name",
        (stuck("InvalidImageName", 'Failed to apply default image tag "A B": invalid reference format'),),
        FAILED,
        "InvalidImageName",
        "invalid reference format",
    ),
    Row(
        "one of a gang is enough",
        (b.pod(0), b.pod(1, started=None, waiting=("InvalidImageName", "bad"))),
        FAILED,
        "InvalidImageName",
        "bad",
        parallelism=2,
    ),
    Row(
        "a Secret that two starts have waited for",
        (TAKEN,),
        FAILED,
        "NotFound",
        f"{NO_SECRET}: the pods of two starts in a row waited for it",
        now=FOR_LONG,
        diagnosis=mount(NO_SECRET),
        lack=Lack(NO_SECRET, b.stamp(1)),
    ),
    # --- it ran into its own mistake before all pods ran
    Row(
        "no such command",
        (
            b.pod(
                started=0,
                ended=20,
                code=128,
                exit_reason="StartError",
                message='exec: "foo": executable file not found in $PATH',
            ),
        ),
        FAILED,
        "Failed",
        "executable file not found",
    ),
    Row(
        "a member fails before the others start",
        (b.pod(0, ended=20, code=2), b.pod(1, started=None)),
        FAILED,
        "Failed",
        "code 2",
        parallelism=2,
        now=140,
    ),
)
AGAIN = (
    # --- what the kubelet waits for, by Events; the second such start is the last
    Row(
        "mounted ConfigMap",
        (TAKEN,),
        WAITING,
        "ReferenceMissing",
        'configmap "conf" not found',
        now=FOR_LONG,
        diagnosis=mount('configmap "conf" not found'),
    ),
    Row("mounted Secret", (TAKEN,), WAITING, "ReferenceMissing", NO_SECRET, now=FOR_LONG, diagnosis=mount(NO_SECRET)),
    Row(
        "mounted Secret, no container status yet",
        (pending(taken=5),),
        WAITING,
        "ReferenceMissing",
        NO_SECRET,
        now=FOR_LONG,
        diagnosis=mount(NO_SECRET),
    ),
    Row(
        "mounted Secret, of the same start",
        (TAKEN,),
        WAITING,
        "ReferenceMissing",
        NO_SECRET,
        now=FOR_LONG,
        diagnosis=mount(NO_SECRET),
        lack=Lack(NO_SECRET, b.stamp(2)),
    ),
    Row(
        "another Secret than the last time",
        (TAKEN,),
        WAITING,
        "ReferenceMissing",
        NO_SECRET,
        now=FOR_LONG,
        diagnosis=mount(NO_SECRET),
        lack=Lack('secret "from-key" not found', b.stamp(1)),
    ),
    Row(
        "service account",
        (),
        WAITING,
        "ReferenceMissing",
        'serviceaccount "robot" not found',
        refused=refusal(
            'pods "job-0-" is forbidden: error looking up service account ns/robot: serviceaccount "robot" not found'
        ),
    ),
    Row(
        "key of a mounted Secret",
        (TAKEN,),
        WAITING,
        "ReferenceMissing",
        "couldn't find key b",
        now=FOR_LONG,
        diagnosis=mount("couldn't find key b in Secret ns/key"),
    ),
    Row(
        "room was taken",
        (unplaced("0/3 nodes are available: 3 Insufficient cpu."),),
        WAITING,
        "Unschedulable",
        "Insufficient cpu",
    ),
    Row(
        "claim is being deleted",
        (unplaced('persistentvolumeclaim "data" is being deleted'),),
        WAITING,
        "Unschedulable",
        "is being deleted",
    ),
    Row(
        "claim that is not the job's",
        (unplaced('persistentvolumeclaim "other" not found'),),
        WAITING,
        "Unschedulable",
        "other",
    ),
    *(
        Row(f"kubelet: {reason}", (refused(reason),), WAITING, "Refused", "no room")
        for reason in (
            "OutOfcpu",
            "OutOfmemory",
            "OutOfpods",
            "UnexpectedAdmissionError",
            "NodeAffinity",
            "NodeShutdown",
            "Evicted",
        )
    ),
    Row(
        "quota",
        (),
        WAITING,
        "QuotaExceeded",
        "exceeded quota",
        refused=refusal('pods "job-0-" is forbidden: exceeded quota: small, requested: cpu=2'),
    ),
    Row(
        "quota that wants more",
        (),
        WAITING,
        "QuotaExceeded",
        "failed quota",
        refused=refusal('pods "job-0-" is forbidden: failed quota: small: must specify limits'),
    ),
    Row(
        "quota for half the gang",
        (b.pod(0),),
        WAITING,
        "QuotaExceeded",
        "exceeded",
        refused=refusal("exceeded quota: small"),
        parallelism=2,
    ),
    Row(
        "pod security",
        (),
        WAITING,
        "CreationRefused",
        "violates PodSecurity",
        refused=refusal('violates PodSecurity "restricted:latest"'),
    ),
    Row(
        "no PriorityClass",
        (),
        WAITING,
        "InstallationIncomplete",
        "installation",
        refused=refusal("no PriorityClass with name scavenger-preemptible was found"),
    ),
    Row(
        "deleted, made Failed by pod GC",
        (pending(deleted=20, grace=0, phase="Failed", node=""),),
        WAITING,
        "Deleted",
        "was deleted before the job ran",
    ),
    Row("deleted before it ran", (pending(deleted=20, grace=0),), WAITING, "Deleted", "was deleted before the job ran"),
    Row(
        "preempted before it ran",
        (pending(deleted=20, conditions=[b.disrupted("PreemptionByScheduler", 20)]),),
        WAITING,
        "Preempted",
        "was preempted before the job ran",
    ),
    Row("Job deleted before it ran", (pending(deleted=20),), WAITING, "JobDeleted", "Job was deleted", batch=None),
    Row("Job and pods gone before it ran", (), WAITING, "JobDeleted", "Job was deleted", batch=None),
    Row(
        "one of a gang removed before the others ran",
        (b.pod(0, deleted=20), b.pod(1, started=None)),
        WAITING,
        "Deleted",
        "job-0",
        parallelism=2,
    ),
    Row(
        "a removed member, then one that fails",
        (b.pod(0, deleted=15), b.pod(1, ended=20, code=1), b.pod(2, started=None)),
        WAITING,
        "Deleted",
        "job-0",
        parallelism=3,
    ),
    Row(
        "runtime in trouble",
        (
            b.pod(
                started=0, ended=20, code=128, exit_reason="StartError", message="can't get final child's PID from pipe"
            ),
        ),
        WAITING,
        "StartError",
        "final child",
    ),
    # --- it takes too long
    Row(
        "image not pulled",
        (stuck("ImagePullBackOff", 'Back-off pulling image "image"'),),
        WAITING,
        "StartTimeout",
        'ImagePullBackOff: Back-off pulling image "image"',
        now=601,
    ),
    Row(
        "image never pulled",
        (stuck("ErrImageNeverPull", "not present"),),
        WAITING,
        "StartTimeout",
        "not present",
        now=601,
    ),
    Row(
        "a volume that does not come",
        (CREATING,),
        WAITING,
        "StartTimeout",
        "timed out",
        now=601,
        diagnosis=mount("timed out"),
    ),
    Row(
        "a volume that pods on another node use",
        (TAKEN,),
        WAITING,
        "StartTimeout",
        'is attached to another node: Waiting for detach for volume "pvc-1" Volume is already used by pod(s) web-0',
        now=FOR_LONG,
        diagnosis=in_use(),
    ),
    Row(
        "a volume that is not detached",
        (TAKEN,),
        WAITING,
        "StartTimeout",
        "waiting on detach before it can be",
        now=601,
        diagnosis=Diagnosis(mounts=(DETACHING, "timed out"), held=f"FailedAttachVolume: {DETACHING}"),
    ),
    Row(
        "a sidecar that does not stay up",
        (beside(4, message="no license"),),
        WAITING,
        "StartError",
        "the sidecar proxy of pod job-0 ended 4 times before the program began: no license",
    ),
    Row("a silent sidecar", (beside(4),), WAITING, "StartError", "before the program began: exit code 3"),
    Row(
        "a sidecar that the runtime cannot start",
        (beside(1, "StartError", "can't get final child's PID from pipe"),),
        WAITING,
        "StartError",
        "could not start its sidecar proxy: can't get final",
    ),
    Row("an image that takes longer", (PULLING,), WAITING, "StartTimeout", "image on node node-1; it goes on", now=601),
    Row("gated", (GATED,), WAITING, "StartTimeout", "has schedulingGates", now=601),
    Row(
        "a sandbox that fails",
        (CREATING,),
        WAITING,
        "StartTimeout",
        "FailedCreatePodSandBox: no addresses left",
        now=601,
        diagnosis=Diagnosis(held="FailedCreatePodSandBox: no addresses left"),
    ),
    Row("nobody says why", (CREATING,), WAITING, "StartTimeout", "no reason given", now=601),
    Row("no pods, nobody says why", (), WAITING, "StartTimeout", "no reason given", now=601),
)
STILL = (
    Row("placed", (pending(),), STARTING),
    Row("not placed for a short while", (unplaced("0/3 nodes", since=25),), STARTING),
    Row("gated", (GATED,), STARTING),
    Row("gated for long", (GATED,), STARTING, says="schedulingGates", now=61),
    Row("pulling", (stuck("ContainerCreating"),), STARTING, now=600),
    Row("pulling for long", (PULLING,), STARTING, says="pulling the image image on node node-1", now=61),
    Row("pull fails so far", (stuck("ErrImagePull", "not found"),), STARTING, says="so far: not found", now=6),
    Row(
        "pull waits",
        (stuck("ImagePullBackOff", 'Back-off pulling image "image": ErrImagePull: 401 Unauthorized'),),
        STARTING,
        says="so far: 401 Unauthorized",
        now=6,
    ),
    Row(
        "a volume fails again",
        (CREATING,),
        STARTING,
        says="starting: FailedMount: x",
        diagnosis=Diagnosis(held="FailedMount: x"),
    ),
    Row(
        "a volume had failed",
        (PULLING,),
        STARTING,
        says="pulling the image",
        now=61,
        diagnosis=Diagnosis(held="FailedMount: x"),
    ),
    Row(
        "cache not synced",
        (stuck("CreateContainerConfigError", "failed to sync configmap cache: timed out"),),
        STARTING,
    ),
    Row("a volume in use for a short while", (TAKEN,), STARTING, says=IN_USE, now=FOR_LONG - 2, diagnosis=in_use()),
    Row("a volume was in use", (PULLING,), STARTING, now=FOR_LONG, diagnosis=in_use()),
    Row("a sidecar that ended some times", (beside(3),), STARTING, now=60),
    Row("a sidecar that is made", (beside(9, waits="ContainerCreating"),), STARTING, now=60),
    Row("a Secret for a short while", (TAKEN,), STARTING, now=FOR_LONG - 2, diagnosis=mount(NO_SECRET)),
    Row("a Secret, and no kubelet has the pod", (CREATING,), STARTING, now=599, diagnosis=mount(NO_SECRET)),
    Row(
        "a Secret, said once",
        (TAKEN,),
        STARTING,
        now=FOR_LONG,
        diagnosis=Diagnosis(mounts=(NO_SECRET,)),
        lack=Lack(NO_SECRET, b.stamp(1)),
    ),
    Row(
        "a Secret, and the volumes are there",
        (PULLING,),
        STARTING,
        now=599,
        diagnosis=mount(NO_SECRET),
        lack=Lack(NO_SECRET, b.stamp(1)),
    ),
    Row("root CA not there yet", (CREATING,), STARTING, diagnosis=mount('configmap "kube-root-ca.crt" not found')),
    Row("object not registered", (CREATING,), STARTING, diagnosis=mount('object "ns"/"conf" not registered')),
    Row("pods not created yet", (), STARTING),
    Row("half the gang runs", (b.pod(0), b.pod(1, started=None)), STARTING, parallelism=2),
    Row("a mount that failed at first", (b.pod(),), RUNNING, diagnosis=mount('configmap "conf" not found')),
)


def test_a_failed_gang_of_which_some_have_succeeded_lets_go_of_its_room() -> None:
    stays = stuck("CreateContainerConfigError", 'configmap "env-conf" not found')
    seen = b.seen(b.job(STARTING, spec=b.gang(2, **SPEC)), 30, b.batch(), b.pod(1, ended=20), stays)
    outcome = b.decide(seen)
    assert outcome.status.phase is FAILED
    assert [action for action in outcome.actions if isinstance(action, DeleteJob)] != []


def row_id(row: Row) -> str:
    return row.name


def starting(row: Row, **more: Any) -> Any:
    return b.job(STARTING, spec={**SPEC, "parallelism": row.parallelism}, **more)


@pytest.mark.parametrize("row", FINAL, ids=row_id)
def test_no_later_try_would_help(row: Row) -> None:
    outcome = b.decide(b.seen(starting(row), row.now, row.batch, *row.pods, diagnosis=row.diagnosis, lack=row.lack))
    assert outcome.status.phase is FAILED
    assert row.says in (outcome.status.message or "")
    assert outcome.figures.finished is FAILED
    assert not outcome.start_failed
    succeeded = next(c for c in outcome.status.conditions if c.type == "Succeeded")
    assert (succeeded.status, succeeded.reason) == ("False", row.reason)
    ended = any(pod.ended for pod in row.pods)
    assert any(isinstance(action, DeleteJob) for action in outcome.actions) != ended
    assert outcome.events[-1] == EventNote("Warning", "Failed", outcome.status.message or "")


@pytest.mark.parametrize("count", [0, 2])
@pytest.mark.parametrize("row", AGAIN, ids=row_id)
def test_start_did_not_come_off(row: Row, count: int) -> None:
    again = Condition(type="Interrupted", status="True", last_transition_time=b.at(0), reason="Preempted")
    job = starting(row, interrupted_count=count, conditions=(again,) if count else ())
    outcome = b.decide(
        b.seen(job, row.now, row.batch, *row.pods, diagnosis=row.diagnosis, refused=row.refused, lack=row.lack)
    )
    assert outcome.status.phase is (INTERRUPTED if count else WAITING)
    assert outcome.start_failed
    assert row.says in (outcome.status.message or "")
    assert outcome.status.queued_timestamp == b.at(row.now)
    assert outcome.status.interrupted_count == count
    assert outcome.figures.interruption is None
    assert outcome.status.lost_cpu_seconds == 0
    assert any(isinstance(action, DeleteJob) for action in outcome.actions) == (row.batch is not None)
    assert outcome.candidate == (row.batch is None and not row.pods)
    admitted = next(c for c in outcome.status.conditions if c.type == "Admitted")
    assert (admitted.status, admitted.reason) == ("False", row.reason)


def test_interrupted_once_and_waiting_since() -> None:
    """A resumed job was Waiting before this start, whatever its count."""
    job = b.job(STARTING, interrupted_count=2)
    outcome = b.decide(b.seen(job, 30, b.batch(), refused("OutOfcpu")))
    assert outcome.status.phase is WAITING


@pytest.mark.parametrize("row", STILL, ids=row_id)
def test_may_still_come_off(row: Row) -> None:
    outcome = b.decide(b.seen(starting(row), row.now, row.batch, *row.pods, diagnosis=row.diagnosis, lack=row.lack))
    assert outcome.status.phase is row.phase
    assert row.says in (outcome.status.message or "")
    assert not outcome.start_failed
    assert not any(isinstance(action, DeleteJob) for action in outcome.actions)
    if row.phase is STARTING:
        assert outcome.requeue_after is not None


@pytest.mark.parametrize("phase", [WAITING, INTERRUPTED])
@pytest.mark.parametrize(
    ("refusal", "expected", "says"),
    [
        (Refusal("spec.template: Invalid value", 422, "Invalid"), FAILED, "the Job is not valid: spec.template"),
        (Refusal("exceeded quota: jobs", 403, "Forbidden"), None, "exceeded quota: jobs"),
    ],
)
def test_the_api_refuses_the_job(phase: Phase, refusal: Refusal, expected: Phase | None, says: str) -> None:
    outcome = b.decide(b.seen(b.job(phase), 30, refused=refusal))
    assert outcome.status.phase is (expected or phase)
    assert says in (outcome.status.message or "")
    assert outcome.start_failed == (expected is None)


def test_a_refusal_of_a_start_that_took_place_after_all() -> None:
    outcome = b.decide(b.seen(b.job(WAITING), 5, b.batch(), pending(), refused=Refusal("timeout")))
    assert outcome.status.phase is STARTING
    assert not outcome.start_failed


def test_another_job_of_that_name() -> None:
    first = b.decide(b.seen(b.job(WAITING), 30, b.batch(owner=None)))
    assert first.status.phase is WAITING
    assert not first.candidate
    assert "does not belong to it" in (first.status.message or "")
    assert first.actions == ()
    gone = b.decide(b.seen(b.written(b.job(WAITING), first.status), 40))
    assert gone.candidate
    assert gone.status.message == "queued for admission"


def event(reason: str, message: str, last: float | None, uid: str = "u1", **more: Any) -> kinds.Event:
    return kinds.Event(
        involved_object=kinds.ObjectReference(uid=uid),
        reason=reason,
        message=message,
        last_timestamp=None if last is None else b.stamp(last),
        **more,
    )


def test_diagnose_reads_all_mounts() -> None:
    events = [
        event("FailedMount", "second", None, event_time=b.stamp(15)),
        event("FailedAttachVolume", "first", 5),
        event("Scheduled", "fine", 1),
    ]
    assert diagnose(events) == Diagnosis(mounts=("first", "second"))
    assert diagnose([]) == Diagnosis()


MOUNT, ATTACH, SANDBOX = "FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox"


@pytest.mark.parametrize(
    ("events", "held"),
    [
        ([event(MOUNT, "x", 5)], ""),
        ([event(MOUNT, "x", 5, count=2)], "FailedMount: x"),
        ([event(SANDBOX, "sandbox 1", 5), event(SANDBOX, "sandbox 2", 6)], "FailedCreatePodSandBox: sandbox 1"),
        ([event(SANDBOX, "x", 5, uid="u1"), event(SANDBOX, "x", 5, uid="u2")], ""),
        ([event(MOUNT, "x", 5, count=9), event(SANDBOX, "y", 4, count=2)], "FailedCreatePodSandBox: y"),
        ([event(MOUNT, "x", 5, count=9), event(SANDBOX, "y", 6)], "FailedMount: x"),
        ([event(ATTACH, "x", 5, count=9), event(MOUNT, "y", 4, count=2)], "FailedMount: y"),
        ([event(MOUNT, "b", 9, count=2), event(MOUNT, "a", 8, count=2)], "FailedMount: a"),
    ],
)
def test_what_the_kubelet_says_more_than_once_of_a_pod_holds_the_start_up(events: list[kinds.Event], held: str) -> None:
    assert diagnose(events).held == held
    assert diagnose(reversed(events)).held == held


@pytest.mark.parametrize(
    ("pod", "now", "diagnosis", "blamed"),
    [
        (TAKEN, FOR_LONG, in_use(), [("node-1", False)]),
        (TAKEN, 601, Diagnosis(held=f"FailedAttachVolume: {DETACHING}"), []),
        (beside(1, "StartError", "can't get final child's PID from pipe"), 30, None, [("node-1", True)]),
        (beside(1, "StartError", 'exec: "prxy": executable file not found in $PATH'), 30, None, []),
        (beside(4), 120, None, []),
    ],
    ids=["in use", "not detached", "a runtime in trouble", "no such command", "a sidecar that ends"],
)
def test_whose_fault_a_volume_or_a_sidecar_is(
    pod: kinds.Pod, now: float, diagnosis: Diagnosis | None, blamed: list[tuple[str, bool]]
) -> None:
    job = b.job(STARTING, spec={**SPEC})
    outcome = b.decide(b.seen(job, now, b.batch(), pod, diagnosis=diagnosis))
    assert outcome.start_failed
    assert [(by.node, by.blamed) for by in outcome.refused_by] == blamed


@pytest.mark.parametrize("words", [IN_USE, DETACHING, IN_USE.replace("Waiting for detach", "Multi-Attach error")])
def test_that_a_volume_is_attached_elsewhere_is_said_once(words: str) -> None:
    """The kubelet only says that it is not there, again and again."""
    late = event(MOUNT, "Unable to attach or mount volumes: unmounted volumes=[v], ...: timed out", 130, count=3)
    found = diagnose([event(ATTACH, words, 5), late])
    assert found.held == f"FailedAttachVolume: {words}"
    assert found.in_use == ({"u1": words} if "is already used" in words else {})
    assert diagnose([event(ATTACH, words, 5), event(MOUNT, "x", 130, count=3)]).held == "FailedMount: x"
    assert diagnose([event(ATTACH, words, 5), event(SANDBOX, "x", 130, count=3)]).held == "FailedCreatePodSandBox: x"


def test_words_of_a_pull_that_differ_in_figures_only_are_said_once() -> None:
    """The kubelet tries a hundred times, and each registry has a request id in its answer."""
    job, said = b.job(STARTING, job_name="job"), []
    for words in (
        "timeout of 10.0.0.7:443 (id 0a1b2c3d)",
        "timeout of 10.0.0.9:443 (id ffee0099)",
        "",
        "401 Unauthorized",
    ):
        pod = stuck("ErrImagePull", words) if words else stuck("ImagePullBackOff", 'Back-off pulling image "image"')
        outcome = b.decide(b.seen(job, 30, b.batch(), pod))
        job = b.written(job, outcome.status)
        said.append((outcome.status.message or "").rpartition("so far: ")[2])
    assert said == ["timeout of 10.0.0.7:443 (id 0a1b2c3d)"] * 3 + ["401 Unauthorized"]


def test_the_next_start_goes_back_to_the_node_that_pulls() -> None:
    before = b.job(Phase.STARTING, job_name="job")
    assert b.decide(b.seen(before, 601, b.batch(), PULLING)).pulls_on == "node-1"
    assert b.decide(b.seen(before, 601, b.batch(), CREATING)).pulls_on == ""
    early = Diagnosis(mounts=("x",), held="FailedMount: x")  # and the volume is there since
    assert b.decide(b.seen(before, 601, b.batch(), PULLING, diagnosis=early)).pulls_on == "node-1"


def test_what_is_missing_is_what_a_pod_was_said_to_lack_twice() -> None:
    one, other = event(MOUNT, "x", 5, uid="u1", count=2), event(MOUNT, "y", 6, uid="u2")
    assert diagnose([one, other]).unmounted == {"u1": ("x",)}
    assert diagnose([one, other, event(MOUNT, "y", 7, uid="u2")]).unmounted == {"u1": ("x",), "u2": ("y",)}
    assert diagnose([event(ATTACH, "x", 5, count=9)]).unmounted == {}


def test_a_start_that_failed_for_another_reason_forgets_nothing() -> None:
    known = Lack(NO_SECRET, b.stamp(1))
    failed = b.decide(b.seen(b.job(STARTING, spec=SPEC), 30, b.batch(), refused("OutOfcpu"), lack=known))
    assert failed.lack == known


@pytest.mark.parametrize(("pod", "kept"), [(PULLING, False), (b.pod(), False), (TAKEN, True)])
def test_a_younger_pod_with_its_volumes_lacks_nothing(pod: kinds.Pod, kept: bool) -> None:
    job = b.job(STARTING, spec=SPEC)
    assert (b.decide(b.seen(job, 30, b.batch(), pod, lack=Lack(NO_SECRET, b.stamp(1)))).lack is not None) == kept
    assert b.decide(b.seen(job, 30, b.batch(), pod, lack=Lack(NO_SECRET, b.stamp(2)))).lack is not None


def test_a_job_is_looked_at_again_when_its_pod_has_waited_for_long() -> None:
    found = b.decide(b.seen(b.job(STARTING, spec=SPEC), 100, b.batch(), TAKEN, diagnosis=mount(NO_SECRET)))
    assert found.requeue_after == 25
