"""Starts that fail: what is wrong with a run that has not begun, in the words of the component that refused it."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Final

from scavenger_api.job import ConditionType, ScavengerJobSpec, ScavengerJobStatus
from scavenger_api.reasons import FailureReason, InterruptionReason, Reason, WaitReason
from scavenger_domain.pod_ends import (
    START_ERRORS,
    Exit,
    blames_the_job,
    deleting,
    last_report,
    moment,
    over,
    own_exit,
    start_error,
    started_at,
)
from scavenger_domain.pulls import UNPULLED
from scavenger_kube import kinds

from scavenger_admitter.core.lifecycle.run import Run, is_managed

# apimachinery/pkg/api/errors NewNotFound is `%s %q not found`. It arrives through the scheduler's PodScheduled message
# (scheduler volume_binding.go podHasPVCs), the kubelet's CreateContainerConfigError (kubelet_pods.go
# makeEnvironmentVariables) and its FailedMount events (operation_generator.go "MountVolume.SetUp failed").
_NOT_FOUND: Final = re.compile(r'\b(persistentvolumeclaim|configmap|secret|serviceaccount)s? "([^"]+)" not found')
# kubelet_pods.go makeEnvironmentVariables, and volume_binding.go for a claim whose volume is gone (phase Lost).
_NO_KEY: Final = re.compile(r"couldn't find key \S+ in (?:ConfigMap|Secret) \S+")
_LOST_CLAIM: Final = re.compile(r'persistentvolumeclaim "[^"]+" bound to non-existent persistentvolume "[^"]*"')
# kubelet kuberuntime/security_context_others.go verifyRunAsNonRoot, through CreateContainerConfigError.
_IMAGE_IS_ROOT: Final = "container has runAsNonRoot and image will run as root"
_NO_NUMBER: Final = re.compile(r"container has runAsNonRoot and image has non-numeric user \((.*?)\),")
_NO_USER_ID: Final = re.compile(r"container has runAsNonRoot and image has an invalid user id \((.*?)\)")
_ASKED_FOR_ROOT: Final = "container's runAsUser breaks non-root policy"
# plugin/pkg/admission/serviceaccount/admission.go Admit.
_NO_ACCOUNT: Final = re.compile(r'error looking up service account [^/]+/(\S+?): serviceaccount "[^"]+" not found')
# apiserver admission/plugin/webhook/errors ToStatusErr, with whatever code the webhook chose (400 where it chose none),
# and webhook/{validating,mutating}/dispatcher.go where it cannot be asked and failurePolicy is Fail (500);
# admission/plugin/policy/validating/dispatcher.go, 422 unless the policy says otherwise.
_BY_ADMISSION: Final = re.compile(
    r'admission webhook "[^"]*" denied the request|failed calling webhook'
    r"|Policy '[^']*' with binding '[^']*' denied request"
)
# apiserver admission/plugin/resourcequota/controller.go checkRequest.
_QUOTA: Final = re.compile(r"(?:exceeded|failed|status unknown for) quota: |insufficient quota to ")
# apiserver admission/plugin/namespace/lifecycle/admission.go Admit: 403, with the cause NamespaceTerminating.
_TERMINATING: Final = "because it is being terminated"
# plugin/pkg/admission/priority/admission.go: an installation without our PriorityClasses, not a mistake of the job.
_NO_PRIORITY_CLASS: Final = "no PriorityClass with name"
_INCOMPLETE: Final = "the installation is incomplete"

NAME_TAKEN: Final = "NameTaken"
UNMANAGED: Final = "Unmanaged"
"""The API server has left the Job to the Job controller."""
ABSENT: Final = "ReferenceAbsent"
"""The reason of a refusal by the admitter itself: there is no object of a name that the job refers to."""
ABSENT_FOR: Final = timedelta(seconds=30)
"""What starts have not found for so long is missing for good. An object may be created right after its job, and a
client that replaces one may delete it for a moment."""


@dataclass(frozen=True, slots=True)
class Lack:
    """What a start has waited for and did not get, where pods show it and the API server cannot be asked.

    Attributes:
        what: is missing, in the words of Kubernetes.
        youngest: the creationTimestamp of the youngest pod that may have shown it. Those of the next start are younger.
        final: two starts in a row have shown it.
    """

    what: str
    youngest: str
    final: bool = False


@dataclass(frozen=True, slots=True)
class NodeRefusal:
    """A node that did not start a pod, and may be at fault (`admission.view.node_trust`).

    Attributes:
        node: its name.
        said: by its kubelet.
        admission: the kubelet did not admit the pod; else its runtime failed, which a template can bring about.
    """

    node: str
    said: str
    admission: bool
    blamed: bool = True
    """Else nothing is proved of the node: the next start of the job only prefers others."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a start cannot come off."""

    message: str
    final: bool
    """The job itself is at fault and no later try would help."""
    reason: Reason
    """One word, for conditions: why the job waits now, or will never start."""
    blameless: bool = False
    """It says nothing about the job, which keeps its place in the queue the first time."""
    lasting: bool = False
    """It will not pass soon, if at all: the next try waits the longest delay."""
    pulls_on: str = ""
    """The node that has a part of the image by now."""
    exit: Exit | None = None
    """A container of the job's own failed: backoffLimit and podFailurePolicy say whether that is final."""
    lack: Lack | None = None
    """What is missing, where only the kubelet of a pod knows."""
    refused_by: NodeRefusal | None = None
    """The node that may be at fault."""
    architecture: str = ""
    """The architecture for which the image has no program."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The API server did not take the Job of a start, or it is not known whether it did."""

    message: str
    """Its words."""
    status: int = 0
    """Of HTTP; 0 when no answer came."""
    reason: str = ""
    """One word of the API server (`metav1.Status.reason`). What has none may come from something in between."""
    causes: frozenset[str] = frozenset()
    """The reasons in `details.causes`."""
    of_pod: bool = False
    """It was about a pod, and the Job is there."""
    absent_for: timedelta = timedelta()
    """How long starts have not found what the job refers to."""

    @property
    def unclear(self) -> bool:
        """Whether the Job may have been created all the same."""
        return self.status == 0 or self.reason == "Timeout" or (self._of_server and not self.reason)

    def passes(self, spec: ScavengerJobSpec) -> bool:
        """Whether the same pod may be taken a moment later: the API server is in trouble, or the namespace so new that
        its `default` account is not there yet."""
        if _BY_ADMISSION.search(self.message) is not None:
            return False
        unborn = not spec.account and _NO_ACCOUNT.search(self.message) is not None
        return unborn or self.server_trouble or self.status in _OWN_TROUBLE

    @property
    def server_trouble(self) -> bool:
        """Whether it says more about the API server than about the Job."""
        return self.unclear or self._of_server

    @property
    def _of_server(self) -> bool:
        return self.status >= HTTPStatus.INTERNAL_SERVER_ERROR


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What the Events of a run's Job and pods say (see `diagnose`)."""

    mounts: tuple[str, ...] = ()
    """Messages of FailedMount and FailedAttachVolume, newest last."""
    held: str = ""
    """What the kubelet has failed to do for a pod more than once, and why; empty where nothing failed twice. What fails
    once passes often: a new pod is there before the caches of its node know its ConfigMaps."""
    unmounted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Messages of FailedMount that were written more than once about a pod, by its UID."""
    in_use: Mapping[str, str] = field(default_factory=dict)
    """By the UID of a pod, what is said of a volume that pods on another node use."""


@dataclass(frozen=True, slots=True)
class StartLimits:
    """How long a start may take."""

    start_timeout: timedelta = timedelta(minutes=10)
    """Created to running; image pulls included."""
    unschedulable_after: timedelta = timedelta(seconds=10)
    """The capacity that a job was admitted for is gone when its pods are not placed within this."""


_NOTHING_SAID: Final = ("ContainerCreating", "PodInitializing")
"""What the kubelet says while a container is on its way, for whatever reason it takes long."""

MOUNT_PATIENCE: Final = timedelta(minutes=2)
"""A pod whose volumes are not there by then waits for what its kubelet says is missing. The kubelet tries eight times
until then, and gives up on volumes after as long (volumemanager podAttachAndMountTimeout)."""

SAID_AFTER: Final = timedelta(minutes=1)
"""A pull, or a scheduling gate, that takes longer is worth a write that says so."""


def diagnose(events: Iterable[kinds.Event]) -> Diagnosis:
    """What the Events of a run say: those about its own pods, by the uid too, as names recur."""
    mine = list(events)
    mine.sort(key=lambda e: e.last_timestamp or e.event_time or e.metadata.creation_timestamp or "")
    mounts = tuple(e.message for e in mine if e.reason in ("FailedMount", "FailedAttachVolume"))
    in_use = {e.involved_object.uid: e.message for e in mine if _elsewhere(e) and _IN_USE in e.message}
    return Diagnosis(mounts, _held(mine), _unmounted(mine), in_use)


# controller/volume/attachdetach/reconciler/reconciler.go reportMultiAttachError: one Event for each pod. "Waiting for"
# are the words of 1.37, the others those of older releases.
_ELSEWHERE: Final = re.compile(r"(?:Waiting for detach|Multi-Attach error) for volume ")
_IN_USE: Final = "Volume is already used by "
# kubelet.go SyncPod, where a volume is not there after two minutes: it does not say why.
_NO_VOLUMES: Final = "Unable to attach or mount volumes: "


def _elsewhere(event: kinds.Event) -> bool:
    """Whether it says that a volume is attached to another node, and can be attached to one only."""
    return event.reason == "FailedAttachVolume" and _ELSEWHERE.match(event.message) is not None


def _unmounted(events: Iterable[kinds.Event]) -> dict[str, tuple[str, ...]]:
    """See `Diagnosis.unmounted`. The kubelet counts one message, or writes another Event for it after a while."""
    said: Counter[tuple[str, str]] = Counter()
    for event in events:
        if event.reason == "FailedMount":
            said[event.involved_object.uid, event.message] += event.count or 1
    of_pods: dict[str, tuple[str, ...]] = {}
    for (uid, message), times in said.items():
        if times > 1:
            of_pods[uid] = (*of_pods.get(uid, ()), message)
    return of_pods


_STAGES: Final = ("FailedCreatePodSandBox", "FailedMount", "FailedAttachVolume")
"""Reasons of Events about a pod that does not come up. One stage follows another, the last one first here."""


def _held(events: Sequence[kinds.Event]) -> str:
    """The words of the latest stage that failed twice for one pod: of its first such Event, so that they stay the same
    at every look. The kubelet counts repetitions of one message, and writes another Event for another message. That a
    volume is attached elsewhere is said once."""
    elsewhere = {event.involved_object.uid for event in events if _elsewhere(event)}
    for reason in _STAGES:
        of_pods: dict[str, list[kinds.Event]] = {}
        for event in events:
            told = event.involved_object.uid in elsewhere and event.message.startswith(_NO_VOLUMES)
            if event.reason == reason and not told:
                of_pods.setdefault(event.involved_object.uid, []).append(event)
        again = [said for said in of_pods.values() if any(map(_elsewhere, said)) or sum(e.count or 1 for e in said) > 1]
        if again:
            first = min((e.metadata.creation_timestamp or "", e.message) for said in again for e in said)
            return f"{reason}: {first[1]}"
    return ""


def problem(
    run: Run,
    spec: ScavengerJobSpec,
    diagnosis: Diagnosis | None,
    now: datetime,
    limits: StartLimits,
    lack: Lack | None = None,
) -> Problem | None:
    """What is wrong with this start; None while it may still come off. What no later try can help comes first.

    Args:
        run: that has not begun.
        spec: of its job.
        diagnosis: what Events say; None where they were not read.
        now: the time.
        limits: of starts.
        lack: what the start before this one has shown to be missing.
    """
    candidates = [
        *_unmanaged(run),
        *_suspended(run, now, limits),
        *_pod_problems(run.pods, spec, now, limits),
        *_unmounted_problems(run, spec, diagnosis, now, limits, lack),
        *_volumes_in_use(run, diagnosis, now, limits),
        *_timeout(run, spec, diagnosis, now, limits),
    ]
    return min(candidates, key=lambda p: not p.final, default=None)


def next_check(
    run: Run, spec: ScavengerJobSpec, diagnosis: Diagnosis | None, now: datetime, limits: StartLimits
) -> float | None:
    """Seconds until time alone makes a problem of this start."""
    created, since = _created(run), _waits_since(run, spec)
    times = [since + limits.start_timeout] if since is not None else []
    if created is not None and run.batch is not None and run.batch.spec.suspend:
        times.append(created + limits.unschedulable_after)
    times += [since + limits.unschedulable_after for pod in run.pods if (since := _unschedulable_since(pod))]
    waiting = (*(pod for pod, _ in _lacking(run, spec, diagnosis)), *(pod for pod, _ in _in_use(run, diagnosis)))
    times += [since + mount_patience(limits) for pod in waiting if (since := _taken(pod))]
    return max(0.0, min((t - now).total_seconds() for t in times)) if times else None


def unpullable(run: Run) -> bool:
    """Whether a pod's image was tried for and not had; the kubelet goes on trying (kubelet/images/types.go)."""
    reasons = {waiting.reason for pod in run.pods for waiting in _waiting(pod)}
    return bool(reasons & UNPULLED)


def pull_words(run: Run) -> str:
    """Why the image of a pod was not had; empty where the kubelet only says that it waits before it tries again."""
    for pod in run.pods:
        for waiting in _waiting(pod):
            # kubelet/images/image_manager.go: what waits quotes what failed, since 1.31.
            _, _, quoted = waiting.message.partition("ErrImagePull: ")
            words = quoted or ("" if waiting.reason == "ImagePullBackOff" else waiting.message)
            if waiting.reason in UNPULLED and words:
                return words
    return ""


_FIGURES: Final = re.compile(r"[0-9a-f]{6,}|[0-9]+")


def differs(said: str, before: str) -> bool:
    """Whether two messages differ in more than numbers and identifiers, which are others at every try."""
    return _FIGURES.sub("#", said) != _FIGURES.sub("#", before)


def pulls_on(run: Run) -> str:
    """A node that is still pulling an image of the run; empty where none is. Sandbox and volumes of such a pod are
    there, which its condition says, and its container is not (kubelet, PodReadyToStartContainersCondition)."""
    for pod in run.pods:
        creating = any(waiting.reason in _NOTHING_SAID for waiting in _waiting(pod))
        if _is_up(pod) and creating and not deleting(pod):
            return pod.spec.node_name
    return ""


def held(run: Run, diagnosis: Diagnosis | None) -> str:
    """What the kubelet has failed to do more than once, while a pod of the run still needs it."""
    return diagnosis.held if diagnosis is not None and _comes_up(run) else ""


def _comes_up(run: Run) -> bool:
    """Whether a pod still waits for its sandbox or its volumes."""
    return any(started_at(pod) is None and not _is_up(pod) for pod in run.pods)


def _is_up(pod: kinds.Pod) -> bool:
    """Whether sandbox and volumes of the pod are there."""
    ready = kinds.condition(pod.status.conditions, "PodReadyToStartContainers")
    return ready is not None and ready.status == "True"


def gated(run: Run) -> str:
    """Which pod of the run has scheduling gates, in words; empty where none has. No template has any: admission adds
    them, for a controller that may take its time to remove them."""
    for pod in run.pods:
        scheduled = kinds.condition(pod.status.conditions, "PodScheduled")
        if scheduled is not None and scheduled.reason == "SchedulingGated" and not deleting(pod):
            return f"pod {pod.metadata.name} has schedulingGates, which a webhook of the cluster has added"
    return ""


def _created(run: Run) -> datetime | None:
    return run.created or (moment(run.batch.metadata.creation_timestamp) if run.batch else None)


def _waits_since(run: Run, spec: ScavengerJobSpec) -> datetime | None:
    """Since when the start has been waiting for others: its Job was created, or its last init container ended. None
    while an init container of the job's own runs, as long as that takes."""
    since, own = _created(run), _own_init(spec)
    for status in (status for pod in run.pods for status in pod.status.init_container_statuses if status.name in own):
        if status.state.running is not None:
            return None
        ended = moment(status.state.terminated.finished_at) if status.state.terminated is not None else None
        since = max(since, ended) if since is not None and ended is not None else since
    return since


def _own_init(spec: ScavengerJobSpec) -> frozenset[str]:
    """Names of the init containers of the job's own, without those that stay."""
    init = spec.template.spec.init_containers if spec.template is not None else ()
    return frozenset(container.name for container in init if container.restart_policy != "Always")


def age(run: Run, now: datetime) -> float:
    """Seconds since the Job of the run was created; 0 where it is not known."""
    created = _created(run)
    return (now - created).total_seconds() if created is not None else 0.0


def _unmanaged(run: Run) -> Iterator[Problem]:
    """The Job controller has the Job: an earlier version has created it."""
    if run.batch is not None and not is_managed(run.batch):
        said = f"Job {run.batch.metadata.name} is the Job controller's, as it has no spec.managedBy"
        yield Problem(said, False, WaitReason.CREATION_REFUSED, blameless=True)


def _suspended(run: Run, now: datetime, limits: StartLimits) -> Iterator[Problem]:
    """Another controller holds the Job: the admitter never suspends one."""
    created = _created(run)
    if run.batch is None or not run.batch.spec.suspend or created is None:
        return
    if now - created < limits.unschedulable_after:
        return
    meta = run.batch.metadata
    marks = ", ".join(f"{key}: {value}" for key, value in sorted(meta.labels.items()) if "kueue" in key)
    seen = f", with the label {marks}" if marks else ""
    said = (
        f"Job {meta.name} is suspended (spec.suspend){seen}, and not by the admitter: let the controller that does "
        "this leave Jobs of ScavengerJobs alone; with Kueue, set manageJobsWithoutQueueName to false, exclude this "
        "namespace by managedJobsNamespaceSelector, or remove the default LocalQueue"
    )
    yield Problem(said, False, WaitReason.CREATION_REFUSED, lasting=True)


def _waiting(pod: kinds.Pod) -> Iterator[kinds.Waiting]:
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        if status.state.waiting is not None:
            yield status.state.waiting


def _pod_problems(
    pods: Sequence[kinds.Pod], spec: ScavengerJobSpec, now: datetime, limits: StartLimits
) -> Iterator[Problem]:
    for pod in pods:
        yield from _misconfigured(pod, spec)
        yield from _failed_init(pod, spec)
        yield from _failed_sidecar(pod)
        yield from _unscheduled(pod, spec, now, limits)
        yield from _refused(pod, now)


_NOT_AN_IMAGE: Final = "InvalidImageName"
"""kubelet/images/types.go"""
_NOT_CONFIGURED: Final = "CreateContainerConfigError"


def waits_only(pod: kinds.Pod) -> bool:
    """Whether `problem` finds nothing in a pod that has not started and has no Events, before it has taken too long.
    Of one whose init containers have begun that is not said."""
    scheduled = kinds.condition(pod.status.conditions, "PodScheduled")
    placed = scheduled is None or scheduled.status != "False"
    begun = any(one.state.waiting is None for one in pod.status.init_container_statuses)
    return placed and not begun and not any(one.reason in (_NOT_AN_IMAGE, _NOT_CONFIGURED) for one in _waiting(pod))


def _misconfigured(pod: kinds.Pod, spec: ScavengerJobSpec) -> Iterator[Problem]:
    for waiting in _waiting(pod):
        if waiting.reason == _NOT_AN_IMAGE:
            said = f"the image name is not valid: {waiting.message or spec.main_image}"
            yield Problem(said, True, FailureReason.INVALID_IMAGE_NAME)
        elif waiting.reason == _NOT_CONFIGURED:
            found = missing(waiting.message, spec) or _as_root(waiting.message, spec)
            if found is not None:
                yield found


def _failed_init(pod: kinds.Pod, spec: ScavengerJobSpec) -> Iterator[Problem]:
    """An init container of the job's own ended by itself with another exit code than 0: the pod has failed. Those that
    others added say nothing about the job."""
    if pod.status.phase != "Failed" or pod.status.reason or deleting(pod):
        return
    own = _own_init(spec)
    for status in pod.status.init_container_statuses:
        ended = status.state.terminated
        if status.name in own and ended is not None and ended.exit_code and ended.reason not in START_ERRORS:
            at = moment(ended.finished_at) or last_report(pod)
            code, said = ended.exit_code, ended.message.strip()
            found = Exit(at, pod.metadata.name, status.name, code, ended.reason, said, main=False, init=True)
            yield Problem(said, True, FailureReason.FAILED, exit=found)


SIDECAR_ENDS: Final = 4
"""A sidecar that has ended so often before the program began keeps its pod from starting. The kubelet waits 10 s before
it starts one again, twice as long each time: this is after some 70 s."""


def _failed_sidecar(pod: kinds.Pod) -> Iterator[Problem]:
    """An init container that its kubelet starts again and again (restartPolicy Always) and that does not stay up, so
    that the program never begins.

    That a process ends by itself says nothing of the node. A runtime that cannot start one is its fault, as of any
    other container; no phase of the pod ever says so.
    """
    if over(pod) or deleting(pod) or started_at(pod) is not None:
        return
    for status in pod.status.init_container_statuses:
        waiting, ended = status.state.waiting, status.last_state.terminated
        if waiting is None or waiting.reason != "CrashLoopBackOff" or ended is None:
            continue
        said = ended.message.strip() or f"exit code {ended.exit_code}"
        if ended.reason in START_ERRORS:
            by = None if blames_the_job(said) else NodeRefusal(pod.spec.node_name, said, admission=False)
            words = f"pod {pod.metadata.name} could not start its sidecar {status.name}: {said}"
            yield Problem(words, False, WaitReason.START_ERROR, refused_by=by)
        elif status.restart_count + 1 >= SIDECAR_ENDS:
            words = f"the sidecar {status.name} of pod {pod.metadata.name} ended {status.restart_count + 1} times"
            yield Problem(f"{words} before the program began: {said}", False, WaitReason.START_ERROR)


def _as_root(message: str, spec: ScavengerJobSpec) -> Problem | None:
    """A container that must not run as root, and would, or may: an image does not change its user."""
    where = "spec" if spec.template is None else "spec.template.spec.securityContext"
    remedy = f"add the line `runAsUser: 65532` to {where}"
    image = f"give the image a numeric USER other than 0 ({spec.main_image})"
    if _IMAGE_IS_ROOT in message:
        said = f"the image runs as root, which this job may not: {remedy}, or {image}"
    elif found := _NO_NUMBER.search(message):
        wrong = f"the image's USER {found[1]} is a name, which may be root's"
        said = f"{wrong}: add a line with its number, such as `runAsUser: 65532`, to {where}, or {image}"
    elif found := _NO_USER_ID.search(message):
        said = f"the image's USER {found[1]} is no user id: {remedy}, or {image}"
    elif _ASKED_FOR_ROOT in message:
        said = f"runAsUser 0 in {where} is root, which this job may not be: write another id, such as 65532"
    else:
        return None
    return Problem(said, True, FailureReason.RUNS_AS_ROOT)


def _unschedulable_since(pod: kinds.Pod) -> datetime | None:
    scheduled = kinds.condition(pod.status.conditions, "PodScheduled")
    if scheduled is None or scheduled.status != "False" or scheduled.reason != "Unschedulable" or deleting(pod):
        return None
    return moment(scheduled.last_transition_time)


def _unscheduled(pod: kinds.Pod, spec: ScavengerJobSpec, now: datetime, limits: StartLimits) -> Iterator[Problem]:
    since = _unschedulable_since(pod)
    scheduled = kinds.condition(pod.status.conditions, "PodScheduled")
    if since is None or scheduled is None:
        return
    if found := missing(scheduled.message, spec):
        yield found
    elif now - since >= limits.unschedulable_after:
        yield Problem(f"pod {pod.metadata.name} cannot be placed: {scheduled.message}", False, WaitReason.UNSCHEDULABLE)


_NOT_ADMITTED: Final = re.compile(r"OutOf\S+|TopologyAffinityError|UnexpectedAdmissionError")
"""Reasons of a pod whose node may be at fault: lifecycle/predicate.go (insufficient resources), cm/topologymanager, and
cm/admission for device plugins. Others, such as NodeAffinity, say that the node has changed."""


def _refused(pod: kinds.Pod, now: datetime) -> Iterator[Problem]:
    """The kubelet did not admit the pod (lifecycle/predicate.go, cm/admission), or could not start its container."""
    if not over(pod) or pod.status.phase == "Succeeded" or deleting(pod) or started_at(pod) is not None:
        return  # pod GC makes a deleted pod that was never placed Failed, too (gc_controller.go)
    words, node = start_error(pod), pod.spec.node_name
    if words is not None:
        said = f"pod {pod.metadata.name} could not start: {words}"
        by = NodeRefusal(node, words, admission=False) if node and own_exit(pod) is None else None
        yield Problem(said, False, WaitReason.START_ERROR, refused_by=by)
    else:
        text = pod.status.message or pod.status.reason or "no reason given"
        by = NodeRefusal(node, text, admission=True) if node and _NOT_ADMITTED.fullmatch(pod.status.reason) else None
        said = f"pod {pod.metadata.name} was refused by its node: {text}"
        yield Problem(said, False, WaitReason.REFUSED, refused_by=by)


def _unmounted_problems(
    run: Run,
    spec: ScavengerJobSpec,
    diagnosis: Diagnosis | None,
    now: datetime,
    limits: StartLimits,
    before: Lack | None,
) -> Iterator[Problem]:
    """A pod that its kubelet has had for long and for which it has made no sandbox, while Events say of what the job
    refers to that it does not exist. The status of a pod never names what is mounted, and the admitter has no right to
    read Secrets.

    The Events only say for what the pod waits: any account that may write Events can write these. That it waits, twice
    in a row, is in the status of two pods, which kubelets write.
    """
    for pod, found in _lacking(run, spec, diagnosis):
        since = _taken(pod)
        if since is None or now - since < mount_patience(limits):
            continue
        known = before if before is not None and before.what == found.message else Lack(found.message, _youngest(run))
        if known.final or known.youngest < _made(pod):
            yield replace(lasting(replace(known, final=True)), reason=found.reason)
        else:
            yield replace(found, final=False, reason=WaitReason.REFERENCE_MISSING, lack=known)


def _lacking(run: Run, spec: ScavengerJobSpec, diagnosis: Diagnosis | None) -> Iterator[tuple[kinds.Pod, Problem]]:
    """The pods that still wait for their volumes, with what is said to be missing."""
    said = diagnosis.unmounted if diagnosis is not None else {}
    for pod in _unmounted_pods(run) if said else ():
        for message in said.get(pod.metadata.uid, ()):
            if found := missing(message, spec):
                yield pod, found


def _unmounted_pods(run: Run) -> Iterator[kinds.Pod]:
    """The pods that still wait for their volumes."""
    for pod in run.pods:
        if not (deleting(pod) or over(pod) or _is_up(pod) or started_at(pod) is not None):
            yield pod


def _in_use(run: Run, diagnosis: Diagnosis | None) -> Iterator[tuple[kinds.Pod, str]]:
    """The pods that still wait for a volume that pods on another node use, with what is said of it."""
    said = diagnosis.in_use if diagnosis is not None else {}
    for pod in _unmounted_pods(run) if said else ():
        if message := said.get(pod.metadata.uid):
            yield pod, message


def _volumes_in_use(run: Run, diagnosis: Diagnosis | None, now: datetime, limits: StartLimits) -> Iterator[Problem]:
    """A volume that one node at a time can use, and pods on another one do. That is no fault of either node, and lasts
    as long as those pods: the start gives its capacity back, and the next one prefers other nodes. A volume that no pod
    uses any more is detached before long, so a start waits for that like for an image."""
    for pod, message in _in_use(run, diagnosis):
        since = _taken(pod)
        if since is None or now - since < mount_patience(limits):
            continue
        said = f"a volume of pod {pod.metadata.name} is attached to another node: {message}"
        by = NodeRefusal(pod.spec.node_name, said, admission=False, blamed=False)
        yield Problem(said, False, WaitReason.START_TIMEOUT, refused_by=by)


def mount_patience(limits: StartLimits) -> timedelta:
    """How long a pod waits for what is said to be missing: two such starts take no longer than one may."""
    return min(MOUNT_PATIENCE, limits.start_timeout / 2)


def lasting(lack: Lack) -> Problem:
    """What it means that two starts in a row lacked this."""
    said = f"{lack.what}: the pods of two starts in a row waited for it"
    return Problem(said, True, FailureReason.NOT_FOUND, lack=lack)


def still_lacks(lack: Lack | None, pods: Iterable[kinds.Pod]) -> Lack | None:
    """What is missing, unless a pod that is younger has its volumes."""
    if lack is None or any(_made(pod) > lack.youngest and (_is_up(pod) or started_at(pod)) for pod in pods):
        return None
    return lack


def noted(before: Lack | None, lack: Lack | None, youngest: str) -> Lack | None:
    """What is known to be missing after a start has failed.

    Args:
        before: what was known before.
        lack: what the start has shown; None where it failed for another reason.
        youngest: the creationTimestamp of the youngest pod of the job.
    """
    if lack is None or (before is not None and before.what == lack.what):
        return lack or before
    return replace(lack, youngest=max(lack.youngest, youngest))


def _taken(pod: kinds.Pod) -> datetime | None:
    """Since when the kubelet has a pod, as it says itself; not before the pod was created, if its clock is slow."""
    taken, made = moment(pod.status.start_time), moment(pod.metadata.creation_timestamp)
    return max(taken, made) if taken is not None and made is not None else taken


def _made(pod: kinds.Pod) -> str:
    return pod.metadata.creation_timestamp or ""


def _youngest(run: Run) -> str:
    return max((_made(pod) for pod in run.pods), default="")


def refusal_problem(refused: Refusal, spec: ScavengerJobSpec) -> Problem:
    """What it means that the API server did not take the Job."""
    status, message = refused.status, refused.message
    if refused.reason == ABSENT:
        if refused.absent_for >= ABSENT_FOR:
            return Problem(message, True, FailureReason.NOT_FOUND)
        return Problem(message, False, WaitReason.REFERENCE_MISSING, blameless=True)
    if refused.reason == UNMANAGED:
        return Problem(f"{_INCOMPLETE}: {message}", False, WaitReason.INSTALLATION_INCOMPLETE, lasting=True)
    if refused.reason == NAME_TAKEN:
        return Problem(message, False, WaitReason.NAME_TAKEN, blameless=True)
    if "NamespaceTerminating" in refused.causes or status == HTTPStatus.NOT_FOUND:
        return _namespace_gone(message)
    if _BY_ADMISSION.search(message) is None:
        if status in (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY):
            # The API's own validation: the manifest never becomes valid, as the spec is immutable.
            return Problem(f"the Job is not valid: {message}", True, FailureReason.INVALID)
        if refused.server_trouble or status in _OWN_TROUBLE:
            said = f"the API server did not create the Job: {message}"
            return Problem(said, False, WaitReason.CREATION_FAILED, blameless=True)
    return creation_problem(
        message, spec, "the pods cannot be created" if refused.of_pod else "the Job cannot be created"
    )


_OWN_TROUBLE: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS)
"""Answers about the API server or ourselves; Conflict: others change the quota of the namespace at the same moment."""


def creation_problem(message: str, spec: ScavengerJobSpec, what: str = "the pods cannot be created") -> Problem:
    """What a refusal to create the pods (or the Job) means. What a webhook or a policy says is never the last word:
    they change, and may quote anything."""
    if _BY_ADMISSION.search(message) is None:
        if _TERMINATING in message:
            return _namespace_gone(message)
        account = _NO_ACCOUNT.search(message)
        if account is not None and spec.account:  # a namespace is born without its `default` account
            said = f'serviceaccount "{spec.account}" not found'
            return Problem(said, False, WaitReason.REFERENCE_MISSING)
        if _NO_PRIORITY_CLASS in message:
            return Problem(f"{_INCOMPLETE}: {message}", False, WaitReason.INSTALLATION_INCOMPLETE)
        if _QUOTA.search(message) is not None:
            return Problem(f"{what} within the quota: {message}", False, WaitReason.QUOTA_EXCEEDED)
    return Problem(f"{what}: {message}", False, WaitReason.CREATION_REFUSED)


def _namespace_gone(message: str) -> Problem:
    said = f"its namespace is gone or being deleted, and nothing is created there any more: {message}"
    return Problem(said, False, WaitReason.CREATION_REFUSED, lasting=True)


def recalled(status: ScavengerJobStatus, first: float, most: float) -> tuple[int, datetime] | None:
    """What the status tells a new process of starts that failed before: how many in a row there may have been, and
    when the next is due; None when the last did not fail. `first`, `most`: delays in seconds.

    Nothing counts them in the API. But a failed start gives the job a new place in the queue, so that is when it was,
    and Admitted is False since the last start that came as far as a Job, or since the job came. As delays double, all
    before together are as long as the next one less `first`; time spent queued makes it longer, up to `most`.
    """
    admitted, queued = status.condition(ConditionType.ADMITTED), status.queued_timestamp
    if admitted is None or admitted.status != "False" or queued is None or not (status.phase and status.phase.queued):
        return None
    if admitted.reason not in _FAILED_STARTS:
        return None
    before = (queued - admitted.last_transition_time).total_seconds() if admitted.last_transition_time else 0.0
    delay = min(max(most, first), first + max(0.0, before))
    return 1 + int(math.log2(delay / first)), queued + timedelta(seconds=delay)


FAILED_BY_ITSELF: Final = frozenset(
    {
        WaitReason.UNSCHEDULABLE,
        WaitReason.REFUSED,
        WaitReason.START_ERROR,
        WaitReason.START_TIMEOUT,
        WaitReason.REFERENCE_MISSING,
        WaitReason.QUOTA_EXCEEDED,
        WaitReason.CREATION_REFUSED,
        WaitReason.CREATION_FAILED,
        WaitReason.NAME_TAKEN,
        WaitReason.INSTALLATION_INCOMPLETE,
    }
)
"""Why a start failed, where it was not taken back."""

_FAILED_STARTS: Final = FAILED_BY_ITSELF | frozenset(InterruptionReason)  # taken back before the job ran


def _timeout(
    run: Run, spec: ScavengerJobSpec, diagnosis: Diagnosis | None, now: datetime, limits: StartLimits
) -> Iterator[Problem]:
    since = _waits_since(run, spec)
    if since is None or now - since < limits.start_timeout:
        return
    words = [f"{w.reason}: {w.message}" if w.message else w.reason for pod in run.pods for w in _waiting(pod)]
    words += [diagnosis.held, *diagnosis.mounts[-1:]] if diagnosis and _comes_up(run) else []
    said = next((word for word in words if word not in ("", *_NOTHING_SAID)), "") or gated(run)
    node = "" if said else pulls_on(run)
    said = said or (f"still pulling its image on node {node}; it goes on there" if node else "no reason given")
    what = f"did not start within {int(limits.start_timeout.total_seconds())} s: {said}"
    by = NodeRefusal(late, said, admission=False) if not node and (late := _late_node(run, spec)) else None
    yield Problem(what, False, WaitReason.START_TIMEOUT, pulls_on=node, refused_by=by)


def _late_node(run: Run, spec: ScavengerJobSpec) -> str:
    """A node that has made no sandbox for a pod that waits for no object, or could not pull its image."""
    waits = any(spec.references(kind) for kind in ("persistentvolumeclaim", "configmap", "secret"))
    for pod in run.pods:
        unpulled = any(waiting.reason in UNPULLED for waiting in _waiting(pod))
        if not deleting(pod) and started_at(pod) is None and (unpulled or not (waits or _is_up(pod))):
            return pod.spec.node_name
    return ""


def missing(message: str, spec: ScavengerJobSpec) -> Problem | None:
    """What the message says is missing, if the job refers to it.

    Kubernetes mounts more into a pod than the job asks for (`kube-root-ca.crt` does not exist yet in a
    namespace that was just created), and the absence of that is not the job's mistake.
    """
    for kind, name in _NOT_FOUND.findall(message):
        if name in _references(kind, spec):
            return Problem(f'{kind} "{name}" not found', True, FailureReason.NOT_FOUND)
    for pattern in (_NO_KEY, _LOST_CLAIM):
        if (found := pattern.search(message)) is not None:
            return Problem(found.group(0), True, FailureReason.INVALID_REFERENCE)
    return None


def _references(kind: str, spec: ScavengerJobSpec) -> frozenset[str]:
    if kind == "serviceaccount":
        return frozenset({spec.account} if spec.account else ())
    return spec.references(kind)
