"""An adopted Job becomes a regular Job, and keeps what it has counted.

`spec.managedBy` cannot change, so the Job is deleted and created again. A suspended copy of it stands there meanwhile:
it shows that the API server accepts the manifest, and it keeps manifest and counts where the process that does this
ends. Each look at the API says what is to be done next, so everything may be interrupted, repeated, and done by two
processes at once. `kubectl sj release` and the uninstallation of the admitter carry the same steps out.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Final

from scavenger_api import names
from scavenger_api.checkpoints import failures_before
from scavenger_api.indexes import parse_indexes, plain_ranges
from scavenger_api.ledger import LedgerError, read_ledger
from scavenger_api.pod_names import number_of, short_name
from scavenger_api.removing import pod_mark
from scavenger_api.times import parse_time

from scavenger_domain import pod_ends
from scavenger_domain.adopted import adopted
from scavenger_domain.gang import task_index
from scavenger_domain.last_word import silent

Object = Mapping[str, Any]

PREFIX: Final = "release.scavenger.dev"
"""Marks of a release. They are no marks of scavenger jobs: regular Jobs carry them."""
LABEL_OF: Final = f"{PREFIX}/of"
"""On a copy: the name of the Job that it is a copy of."""
ANNOTATION_FROM: Final = f"{PREFIX}/from"
"""On a copy, and on the Job that is created again: the UID of the adopted Job."""
ANNOTATION_SUSPEND: Final = f"{PREFIX}/suspend"
"""On a copy: what spec.suspend was."""
ANNOTATION_COPY: Final = f"{PREFIX}/copy"
"""On the Job that is created again, until it may run: the name of its copy."""

LOOK_SECONDS: Final = 1.0
MAX_REPEATS: Final = 10
"""The same request so often without an effect: something is in the way."""

_GENERATED: Final = frozenset({*names.JOB_LABELS})


class ReleaseError(Exception):
    """A release cannot go on. Nothing is lost.

    Attributes:
        message: what is in the way.
        remedy: what to do about it.
    """

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(f"{message}: {remedy}")
        self.message = message
        self.remedy = remedy


class End(Enum):
    """What has become of a Job. The value is told to the caller."""

    RELEASED = "released: it is a regular Job now"
    REGULAR = "is a regular Job"
    FINISHED = "has finished: it needs no admitter"
    DELETED = "deleted: its owner decides what follows"
    LEFT = "left: its owner would not create it again"
    MISSING = "does not exist"


@dataclass(frozen=True, slots=True)
class Request:
    """A request to the API server.

    Attributes:
        method: of HTTP. A PATCH is a merge patch.
        path: with query.
        body: None for none.
        why: what it does, for people.
    """

    method: str
    path: str
    body: Object | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Pause:
    """Time passes. why: what is waited for."""

    why: str
    seconds: float = LOOK_SECONDS


Steps = Generator[Request | Pause, Object | None, End]
"""What is sent back for a request: the object of the answer; None where there is none (404), or where it has changed
meanwhile or is there already (409). The next look says what is to be done about it."""


@dataclass(frozen=True, slots=True)
class Target:
    """The Job, and how it is released.

    Attributes:
        namespace: of the Job.
        name: of the Job.
        pod_of: reads a pod.
        now: the moment.
        system_namespace: where the admitter has its Lease.
        patience: for so long its pods may run; then they are deleted. None: until they end, or save their state.
        delete_owned: a Job that a controller owns is deleted, and not waited for.
    """

    namespace: str
    name: str
    pod_of: Callable[[Object], pod_ends.PodLike]
    now: Callable[[], datetime]
    system_namespace: str = names.SYSTEM_NAMESPACE
    patience: timedelta | None = None
    delete_owned: bool = False

    @property
    def jobs(self) -> str:
        """Path of the Jobs of the namespace."""
        return f"/apis/batch/v1/namespaces/{self.namespace}/jobs"

    @property
    def pods(self) -> str:
        """Path of its pods."""
        return f"/api/v1/namespaces/{self.namespace}/pods"


@dataclass(frozen=True, slots=True)
class Look:
    """What there is at one moment.

    Attributes:
        job: of that name; None for none.
        copy: of the Job; None for none.
        pods: that the admitter created for this very Job.
        led: whether an admitter is at work.
        impatient: whether nothing may run any longer.
    """

    job: Object | None = None
    copy: Object | None = None
    pods: Sequence[Object] = field(default_factory=tuple)
    led: bool = True
    impatient: bool = False


def release(target: Target) -> Steps:
    """Release a Job, step by step.

    Raises:
        ReleaseError: something is in the way that a person has to decide about.
    """
    since, last, repeats, deleted = target.now(), None, 0, False
    while True:
        over = target.patience is not None and target.now() - since >= target.patience
        look = yield from _look(target, impatient=over)
        step = next_step(target, look)
        if isinstance(step, End):
            return End.DELETED if step is End.MISSING and deleted else step
        own = isinstance(step, Request) and (step.method, step.path) == ("DELETE", f"{target.jobs}/{target.name}")
        deleted = deleted or own
        repeats = repeats + 1 if step == last and isinstance(step, Request) else 0
        if repeats > MAX_REPEATS and isinstance(step, Request):
            raise ReleaseError(f"{step.why} has no effect", f"look at {step.path}, and try again")
        last = step
        yield step
        if repeats:
            yield Pause(f"{step.why} again")


def _look(target: Target, *, impatient: bool) -> Generator[Request | Pause, Object | None, Look]:
    job = yield Request("GET", f"{target.jobs}/{target.name}")
    copies = yield Request("GET", f"{target.jobs}?labelSelector={LABEL_OF}%3D{target.name}")
    copy = next(iter(_items(copies)), None)
    look = Look(job, copy, impatient=impatient)
    if job is None or not adopted(job):
        return look
    uid = job["metadata"]["uid"]
    query = f"labelSelector={names.LABEL_JOB}%3D{target.name}%2C{names.LABEL_KIND}%3D{names.KIND_JOB}"
    found = yield Request("GET", f"{target.pods}?{query}")
    pods = [pod for pod in _items(found) if any(one.get("uid") == uid for one in _owners(pod))]
    lease = yield Request(
        "GET", f"/apis/coordination.k8s.io/v1/namespaces/{target.system_namespace}/leases/{names.ADMITTER}"
    )
    return replace(look, pods=pods, led=_led(lease, target.now()))


def _led(lease: Object | None, now: datetime) -> bool:
    spec = (lease or {}).get("spec") or {}
    return bool(spec.get("holderIdentity")) and not silent(parse_time(spec.get("renewTime")), now)


# --- the next step ---


def next_step(target: Target, look: Look) -> Request | Pause | End:
    """What is to be done now. Pure.

    Args:
        target: the Job.
        look: what there is.

    Raises:
        ReleaseError: something is in the way.
    """
    job, copy = look.job, look.copy
    if job is None:
        return End.MISSING if copy is None else _create_again(target, copy)
    if job["metadata"].get("deletionTimestamp"):
        return Pause("its deletion" + _held_by(job))
    if not adopted(job):
        return _go_on(target, job, copy)
    if finished(job):
        return End.FINISHED if copy is None else _delete(target.jobs, copy, "delete the copy")
    if owner(job) is not None:
        return _owned(target, look, job)
    return _wind_down(target, look, job) or _replace(target, look, job)


def _owned(target: Target, look: Look, job: Object) -> Request | Pause | End:
    """A controller looks for its Jobs by name and UID, and would wait for ever for one that was made again."""
    if target.delete_owned:
        return _delete(target.jobs, job, f"delete the Job of {owner(job)}")
    return End.LEFT if look.impatient else Pause(f"the end of its run, as {owner(job)} owns it")


def _wind_down(target: Target, look: Look, job: Object) -> Request | Pause | None:
    """What has to end before the Job may go; None where nothing has."""
    meta = job["metadata"]
    if (meta.get("annotations") or {}).get(names.ANNOTATION_RELEASE) != names.RELEASE_REQUESTED:
        asked = {"annotations": {names.ANNOTATION_RELEASE: names.RELEASE_REQUESTED}, "uid": meta["uid"]}
        return Request("PATCH", f"{target.jobs}/{target.name}", {"metadata": asked}, "ask the admitter")
    alive = [pod for pod in look.pods if not _ended(pod)]
    if alive and (look.impatient or not look.led):
        for pod in alive:
            if not pod["metadata"].get("deletionTimestamp"):
                return _delete(target.pods, pod, f"delete pod {pod['metadata']['name']}")
    if alive:
        return Pause(f"the end or the next checkpoint of {', '.join(pod['metadata']['name'] for pod in alive[:3])}")
    if look.led and not _wound_down(job):
        return Pause("the admitter, which writes the last counts")
    return None


def _replace(target: Target, look: Look, job: Object) -> Request | Pause | End:
    """Nothing runs: the copy gets the counts, and the Job goes."""
    copy = look.copy
    if copy is None:
        return Request("POST", target.jobs, copy_of(job), "create a suspended copy")
    if _annotation(copy, ANNOTATION_FROM) != job["metadata"]["uid"] or not _same_pods(copy, job):
        name = copy["metadata"]["name"]
        raise ReleaseError(f"Job {name} is no copy of {target.name}", f"kubectl delete job {name}, and try again")
    if not _condition(copy, "Suspended"):
        return Pause(f"the Job controller, to see {copy['metadata']['name']}")
    counts = counts_of(job, () if look.led else look.pods, target.pod_of)
    if (missing := _missing(counts, copy)) is not None:
        return _write_counts(target, copy, missing)
    meta = job["metadata"]
    return _delete(target.jobs, job, "delete the Job", resourceVersion=meta["resourceVersion"])


def _go_on(target: Target, job: Object, copy: Object | None) -> Request | Pause | End:
    """The Job is regular: made again by an earlier step, or by its user."""
    if copy is None:
        return End.RELEASED if _annotation(job, ANNOTATION_FROM) else End.REGULAR
    name = copy["metadata"]["name"]
    if not _annotation(job, ANNOTATION_FROM) or _annotation(job, ANNOTATION_FROM) != _annotation(copy, ANNOTATION_FROM):
        raise ReleaseError(
            f"another client has created Job {target.name}; its copy {name} has the counts",
            "delete one of them, and try again",
        )
    if not _annotation(job, ANNOTATION_COPY):
        return _delete(target.jobs, copy, "delete the copy")
    if not _condition(job, "Suspended"):
        return Pause("the Job controller, to see the Job")
    if (missing := _missing(_counts(copy), job)) is not None:
        return _write_counts(target, job, missing)
    body = {
        "metadata": {"annotations": {ANNOTATION_COPY: None}, "resourceVersion": job["metadata"]["resourceVersion"]},
        "spec": {"suspend": _annotation(copy, ANNOTATION_SUSPEND) == "true"},
    }
    return Request("PATCH", f"{target.jobs}/{target.name}", body, "resume the Job")


def _create_again(target: Target, copy: Object) -> Request:
    return Request("POST", target.jobs, again(copy, target.name), "create the Job as a regular one")


def _write_counts(target: Target, job: Object, counts: Object) -> Request:
    meta = job["metadata"]
    body = {"metadata": {"resourceVersion": meta["resourceVersion"]}, "status": dict(counts)}
    return Request("PATCH", f"{target.jobs}/{meta['name']}/status", body, f"write the counts of {meta['name']}")


def _delete(path: str, found: Object, why: str, **more: str) -> Request:
    """Delete this very object. path: of the others of its kind. more: further preconditions."""
    body = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Background",
        "preconditions": {"uid": found["metadata"]["uid"], **more},
    }
    return Request("DELETE", f"{path}/{found['metadata']['name']}", body, why)


# --- manifests ---


def copy_of(job: Object) -> dict[str, Any]:
    """The suspended copy of an adopted Job.

    Args:
        job: as the API server has it.
    """
    meta, spec = job["metadata"], job["spec"]
    body = _regular(job)
    body["metadata"]["name"] = copy_name(meta["name"], meta["uid"])
    body["metadata"]["labels"][LABEL_OF] = meta["name"]
    suspended = "true" if spec.get("suspend") else "false"
    body["metadata"]["annotations"] |= {ANNOTATION_FROM: meta["uid"], ANNOTATION_SUSPEND: suspended}
    return body


def again(copy: Object, name: str) -> dict[str, Any]:
    """The Job that takes the place of the adopted one: suspended, and out of a copy.

    Args:
        copy: as the API server has it.
        name: of the Job.
    """
    body = _regular(copy)
    meta = body["metadata"]
    meta["name"] = name
    del meta["labels"][LABEL_OF], meta["annotations"][ANNOTATION_SUSPEND]
    meta["annotations"][ANNOTATION_COPY] = copy["metadata"]["name"]
    return body


def copy_name(name: str, uid: str) -> str:
    """The same for every process that releases this Job."""
    return f"{name[:57].rstrip('-.')}-r{short_name(number_of(uid))}"


def _regular(job: Object) -> dict[str, Any]:
    """A suspended Job of the Job controller with the same pods."""
    meta, spec = job["metadata"], job["spec"]
    template = spec["template"]
    given = template.get("metadata") or {}
    labels = {key: value for key, value in (given.get("labels") or {}).items() if key not in _GENERATED}
    owners = [one for one in meta.get("ownerReferences") or () if not one.get("controller")]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "namespace": meta["namespace"],
            "labels": _not_ours(meta.get("labels")) | {names.LABEL_ADOPT: names.ADOPT_NEVER},
            "annotations": _not_ours(meta.get("annotations")),
            **({"ownerReferences": owners} if owners else {}),
        },
        "spec": {
            **{key: value for key, value in spec.items() if key not in ("managedBy", "selector", "manualSelector")},
            "suspend": True,
            "template": {**template, "metadata": {**given, "labels": labels}},
        },
    }


def _not_ours(marks: Mapping[str, str] | None) -> dict[str, str]:
    """Without the generated labels that a Job may have from its template, and without the project's labels."""
    found = (marks or {}).items()
    return {key: value for key, value in found if key not in _GENERATED and not key.startswith(f"{names.GROUP}/")}


def _same_pods(copy: Object, job: Object) -> bool:
    """Whether their pods are the same: users who may create Jobs could have made something that looks like a copy."""
    return bool(copy["spec"]["template"]["spec"] == job["spec"]["template"]["spec"])


# --- counts ---


def counts_of(
    job: Object, pods: Iterable[Object], pod_of: Callable[[Object], pod_ends.PodLike]
) -> dict[str, int | str]:
    """What a Job has counted, and what it had not come to count: programs that ended by themselves.

    Args:
        job: as the API server has it.
        pods: of the Job that no admitter counts any more.
        pod_of: reads a pod.

    Raises:
        ReleaseError: what is counted already cannot be read.
    """
    counts, pods = _counts(job), list(pods)
    counted = _counted(job) if pods else frozenset()
    done, lost = (parse_indexes(str(counts.get(name, ""))) for name in ("completedIndexes", "failedIndexes"))
    succeeded, failed = int(counts.get("succeeded", 0)), int(counts.get("failed", 0))
    for one in map(pod_of, pods):
        index = task_index(one)
        if index is None or not pod_ends.held(one) or pod_mark(index, one.metadata.uid) in counted:
            continue
        if pod_ends.deleting(one) or pod_ends.removal(one) is not None:
            continue
        if one.succeeded:
            succeeded, done = succeeded + 1, done | 1 << index
        elif pod_ends.own_exit(one) is not None:
            failed, lost = failed + 1, lost | _no_retry_left(job, one) << index
    if job["spec"].get("completionMode") == "Indexed":
        indexes = {"completedIndexes": plain_ranges(done), "failedIndexes": plain_ranges(lost)}
        return _some({"succeeded": done.bit_count(), "failed": failed, **indexes})
    if job["spec"].get("completions") is None:  # all workers start again: another one would take that for the end
        succeeded = 0
    return _some({"succeeded": succeeded, "failed": failed})


def _no_retry_left(job: Object, pod: pod_ends.PodLike) -> bool:
    """Whether the index of a pod that failed has used up its retries. What a podFailurePolicy says is not looked at: by
    one, the index starts again."""
    limit = job["spec"].get("backoffLimitPerIndex")
    plain = limit is not None and not job["spec"].get("podFailurePolicy")
    return plain and failures_before(pod.metadata.annotations) >= limit


def _counts(job: Object) -> dict[str, int | str]:
    status = job.get("status") or {}
    return _some({name: status.get(name) or 0 for name in ("succeeded", "failed", "completedIndexes", "failedIndexes")})


def _some(counts: Mapping[str, int | str]) -> dict[str, int | str]:
    return {name: value for name, value in counts.items() if value}


def _missing(counts: Mapping[str, int | str], job: Object) -> Mapping[str, int | str] | None:
    """What a Job is to have beyond what it has; None for nothing. Counts never go down."""
    has = _counts(job)
    if all(int(has.get(name, 0)) >= int(counts.get(name, 0)) for name in ("succeeded", "failed")):
        return None
    return counts


def _counted(job: Object) -> frozenset[str]:
    """The pods that the ledger names as counted."""
    found = ledger_condition(job)
    try:
        return read_ledger(found["message"]).counted_pods if found else frozenset()
    except LedgerError as error:
        remedy = "use the version that wrote it, or start the admitter: it counts what has ended"
        raise ReleaseError(str(error), remedy) from error


# --- what an object says ---


def finished(job: Object) -> bool:
    """Whether it has ended."""
    return bool(_condition(job, "Complete") or _condition(job, "Failed"))


def ledger_condition(job: Object) -> Object:
    """The condition that holds its ledger; empty for none."""
    return _condition(job, names.CONDITION_LEDGER, "False")


def owner(job: Object) -> str | None:
    """Kind and name of its controller; None for none."""
    found = next((one for one in _owners(job) if one.get("controller")), None)
    return f"{found['kind']} {found['name']}" if found is not None else None


def _wound_down(job: Object) -> bool:
    found = ledger_condition(job)
    return bool(found) and found.get("reason") == names.LEDGER_RELEASING


def _held_by(job: Object) -> str:
    finalizers = job["metadata"].get("finalizers") or ()
    return f", which {', '.join(finalizers)} holds up" if finalizers else ""


def _ended(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _owners(found: Object) -> Sequence[Object]:
    return found["metadata"].get("ownerReferences") or ()


def _annotation(found: Object, name: str) -> str:
    return str((found["metadata"].get("annotations") or {}).get(name, ""))


def _condition(job: Object, kind: str, status: str = "True") -> Object:
    """A condition of that status; empty for none."""
    stated = (job.get("status") or {}).get("conditions") or ()
    return next((one for one in stated if one["type"] == kind and one["status"] == status), {})


def _items(found: Object | None) -> Sequence[Object]:
    return (found or {}).get("items") or ()
