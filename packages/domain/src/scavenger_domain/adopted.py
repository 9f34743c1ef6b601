"""An adopted Job in the words of a ScavengerJob: the one reader of such Jobs, for the admitter and for what shows jobs.

Its completions are the tasks of an array, or the pods of a gang. What it asks for is in its spec, its labels and its
annotations. What has become of it is in its status and in the ledger there (docs/designs/0032-adopted-jobs.md). Pure:
JSON values of one kind become those of the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple, Protocol

from scavenger_api import names
from scavenger_api.indexes import MAX_TASKS, IndexesError, all_of, format_indexes, parse_indexes
from scavenger_api.ledger import Ledger, read_ledger
from scavenger_api.pod_names import number_of
from scavenger_api.promises import gang_size, promised_exit_code, promised_interval
from scavenger_api.reasons import FailureReason
from scavenger_api.states import Phase
from scavenger_api.times import format_micro_time, format_time, parse_time

from scavenger_domain import job_states
from scavenger_domain.usage import usage_in_words, usage_of_table

Object = Mapping[str, Any]

BACKOFF_LIMIT: Final = 6
"""Of a Job that names none (pkg/apis/batch/v1/defaults.go)."""
UNLIMITED: Final = 2**31 - 1
"""The same of a Job whose indexes have a limit of their own."""
INDEXED: Final = "Indexed"
ENDS_OF_GANG: Final = (FailureReason.FAILED, FailureReason.POD_FAILURE_POLICY)
"""Why a gang fails by a failure of its own. Clients see that one counted as well, and it is no retry."""


def adopted(job: Object) -> bool:
    """Whether the admitter runs it. Any Job may have the label of a queue."""
    return bool((job.get("spec") or {}).get("managedBy") == names.MANAGED_BY_ADOPTER)


def claimed(job: Object) -> bool:
    """Whether its `spec.managedBy` keeps the Job controller away in the name of scavenger jobs. Jobs that belong to a
    ScavengerJob are claimed as well."""
    return str((job.get("spec") or {}).get("managedBy") or "").startswith(f"{names.GROUP}/")


def in_own_words(job: Object) -> dict[str, Any]:
    """A Job as a ScavengerJob, with the fields that are shown.

    Args:
        job: as the API server has it.

    Raises:
        LedgerError: its ledger is of another version.
    """
    read = read_job(job)
    if "array" in read.status:  # the admitter counts pods, and writes no set of those that run
        read.status["array"]["running"] = (job.get("status") or {}).get("ready") or 0
    return {
        "apiVersion": "batch/v1",
        "kind": names.KIND_JOB,
        "metadata": job["metadata"],
        "spec": read.spec | ({"array": read.tasks.array} if read.tasks is not None else {}),
        "status": read.status,
    }


class JobRead(NamedTuple):
    """A Job, as it was read.

    Attributes:
        spec: in the words of a ScavengerJob, without its tasks.
        status: in the same words.
        tasks: its completions; None for a gang.
        ledger: of its status.
    """

    spec: dict[str, Any]
    status: dict[str, Any]
    tasks: Completions | None
    ledger: Ledger


def read_job(job: Object) -> JobRead:
    """What an adopted Job asks for, and what has become of it.

    Args:
        job: as the API server has it.

    Raises:
        LedgerError: its ledger is of another version.
    """
    meta, spec, written = job["metadata"], job.get("spec") or {}, job.get("status") or {}
    ledger = ledger_of(written)
    notes = meta.get("annotations") or {}
    size = gang_size(notes, spec.get("completions"), spec.get("completionMode"), ledger.place)
    tasks = None if size else Completions.of(spec, ledger.width)
    return JobRead(_spec_in_own_words(meta, spec, size), _status(meta, written, tasks, ledger), tasks, ledger)


# --- what it asks for ---


class _Tasks(Protocol):
    @property
    def tasks(self) -> int: ...
    @property
    def indexed(self) -> bool: ...
    @property
    def work_queue(self) -> bool: ...
    @property
    def own_retries(self) -> bool: ...
    @property
    def success_rules(self) -> Sequence[object]: ...


class Completions(NamedTuple):
    """The completions of a Job, as tasks.

    Attributes:
        tasks: how many there are.
        workers: so many may run at a time.
        indexed: users know the indexes of its tasks.
        work_queue: it is not said how many completions there are: its pods know when all work is done.
        in_place: after so many starts of programs in the same pods the Job has failed; None where failed pods count.
        most_failures: with more failed pods the Job has failed, where each index has retries of its own; else None.
        most_failed: with more failed indexes the Job has failed; None where any number may.
        success_rules: those of successPolicy.
    """

    tasks: int
    workers: int
    indexed: bool
    work_queue: bool
    in_place: int | None
    most_failures: int | None = None
    most_failed: int | None = None
    success_rules: tuple[Object, ...] = ()

    @classmethod
    def of(cls, spec: Object, width: int) -> Completions:
        """As a spec says. One that says how many pods it wants and not how many completions is a work queue, with as
        many workers as pods, and with one that waits where it wants none for now. After its first success, it is left
        as it is (manageJob in pkg/controller/job/job_controller.go).

        Args:
            spec: of the Job.
            width: workers of a work queue when one had succeeded first; 0 before that.
        """
        completions, workers = spec.get("completions"), spec.get("parallelism", 1)
        if completions is None and width:
            workers = width
        policy, limit = spec["template"]["spec"].get("restartPolicy"), _limit_of_all(spec)
        return cls(
            tasks=min(MAX_TASKS, max(1, workers) if completions is None else completions),
            workers=workers,
            indexed=spec.get("completionMode") == INDEXED,
            work_queue=completions is None,
            in_place=max(1, limit) if policy == "OnFailure" else None,
            most_failures=limit if spec.get("backoffLimitPerIndex") is not None else None,
            most_failed=spec.get("maxFailedIndexes"),
            success_rules=tuple((spec.get("successPolicy") or {}).get("rules") or ()),
        )

    @property
    def own_retries(self) -> bool:
        """Whether each index has retries of its own (backoffLimitPerIndex)."""
        return self.most_failures is not None

    @property
    def array(self) -> dict[str, Any]:
        """As `spec.array`."""
        return {"tasks": self.tasks, "maxRunning": self.workers, "failFast": not self.own_retries}


def _limit_of_all(spec: Object) -> int:
    """So many pods may fail before the Job does."""
    default = BACKOFF_LIMIT if spec.get("backoffLimitPerIndex") is None else UNLIMITED
    return int(spec.get("backoffLimit", default))


def _spec_in_own_words(meta: Object, spec: Object, size: int) -> dict[str, Any]:
    """What a Job asks for, without its tasks. Where its indexes have retries of their own, the limit is that of each.

    Args:
        meta: metadata of the Job.
        spec: of the Job.
        size: of `gang_size`.
    """
    return {
        "queue": (meta.get("labels") or {}).get(names.LABEL_QUEUE, names.DEFAULT_QUEUE),
        "template": {"metadata": spec["template"].get("metadata"), "spec": spec["template"]["spec"]},
        "backoffLimit": spec.get("backoffLimitPerIndex", _limit_of_all(spec)),
        "podFailurePolicy": spec.get("podFailurePolicy"),
        "activeDeadlineSeconds": spec.get("activeDeadlineSeconds"),
        "suspend": bool(spec.get("suspend")),
        "parallelism": max(1, size),
        **_promises(meta.get("annotations") or {}),
    }


def _promises(annotations: Mapping[str, str]) -> dict[str, Any]:
    """What the annotations of a Job promise. One that cannot be read says nothing: the webhook refuses it."""
    found: dict[str, Any] = {}
    after = promised_interval(annotations)
    if after is not None:
        found["interruptionAfter"] = after
    code = promised_exit_code(annotations)
    if code is not None:
        found["checkpointExitCode"] = code
    return found


# --- what has become of it ---


def ledger_of(written: Object) -> Ledger:
    """The ledger of a status; an empty one where there is none. Raises LedgerError for one of another version."""
    noted = _by_type(written).get(names.CONDITION_LEDGER)
    return read_ledger(noted["message"]) if noted is not None else Ledger()


def queued_at(meta: Object) -> datetime | None:
    """The place of a Job in the queue: when it was created, which is known to the second. Within a second the UID
    decides, so that every process finds the same place and none has to write it."""
    created = parse_time(meta.get("creationTimestamp"))
    if created is None:
        return None
    return created + timedelta(microseconds=number_of(meta.get("uid", "")) % 1_000_000)


def status_in_own_words(meta: Object, written: Object, tasks: _Tasks | None) -> dict[str, Any]:
    """The status of a Job as that of a ScavengerJob. Nothing is in it that is not known.

    Args:
        meta: metadata of the Job.
        written: its status.
        tasks: its completions; None for a gang.

    Raises:
        LedgerError: its ledger is of another version.
    """
    return _status(meta, written, tasks, ledger_of(written))


def _status(meta: Object, written: Object, tasks: _Tasks | None, ledger: Ledger) -> dict[str, Any]:
    stated = _by_type(written)
    queued = (parse_time(ledger.place) if tasks is None else None) or queued_at(meta)
    noted = stated.get(names.CONDITION_LEDGER)
    place = {"queuedTimestamp": format_micro_time(queued) if queued is not None else None, "jobName": meta["name"]}
    phase, end = _phase(stated, noted)
    if phase is None:
        return _known(place)
    since = (end or noted or {}).get("lastTransitionTime") or (format_time(queued) if queued is not None else None)
    own = _of_gang(meta, written, ledger, phase) if tasks is None else _of_array(written, tasks, ledger, phase)
    status = {
        **place,
        "phase": phase.value,
        "runningTimestamps": ledger.runs or None,
        "interruptedCount": ledger.interrupted,
        "interruptedTimestamps": [ledger.interrupted_at] if ledger.interrupted_at else None,
        "endedTimestamp": ledger.ended_at or None,
        "shortRuns": ledger.short or None,
        "ignoredFailures": ledger.ignored or None,
        "activeSeconds": ledger.active or None,
        "lastCheckpointTimestamp": ledger.checkpoint or None,
        "usefulCPUSeconds": ledger.useful,
        "lostCPUSeconds": ledger.lost,
        "servedLevel": ledger.served,
        "usefulSeconds": dict(ledger.useful_of) or None,
        "lostSeconds": dict(ledger.lost_of) or None,
        "usage": usage_in_words(used) if (used := usage_of_table(ledger.usage)) is not None else None,
        "removing": tuple(ledger.removing.split(",")) if ledger.removing else None,
        "message": ledger.say or (end.get("message") if end is not None else None),
        **own,
    }
    if end is not None:
        status["finishedTimestamp"] = written.get("completionTime") or since
    if since is not None:
        status["conditions"] = _conditions(phase, ledger, meta.get("generation") or 0, since)
    return _known(status)


def _of_array(written: Object, tasks: _Tasks, ledger: Ledger, phase: Phase) -> dict[str, Any]:
    array = _array(written, tasks, ledger, phase)
    return {"retries": max(0, (written.get("failed") or 0) - array["failed"]) or None, "array": array}


def _of_gang(meta: Object, written: Object, ledger: Ledger, phase: Phase) -> dict[str, Any]:
    last = phase is Phase.FAILED and ledger.why in ENDS_OF_GANG
    return {
        "jobName": meta["name"] if phase.active or phase.finished else None,
        "retries": max(0, (written.get("failed") or 0) - last) or None,
        "ownInterruptedCount": ledger.own,
        "earnedCPUSeconds": ledger.earned if ledger.earned >= 0 else None,
        "priorityStartOverTimestamp": ledger.due or None,
    }


def _known(found: Object) -> dict[str, Any]:
    return {name: value for name, value in found.items() if value is not None}


def _by_type(written: Object) -> dict[str, Object]:
    return {one["type"]: one for one in written.get("conditions") or ()}


def _phase(stated: Mapping[str, Object], noted: Object | None) -> tuple[Phase | None, Object | None]:
    """The phase, and the condition that says that the Job is over, or about to be."""
    for kind, phase in (
        ("Complete", Phase.COMPLETED),
        ("SuccessCriteriaMet", Phase.COMPLETED),
        ("Failed", Phase.FAILED),
        ("FailureTarget", Phase.FAILED),
    ):
        if stated.get(kind, {}).get("status") == "True":
            return phase, stated[kind]
    if noted is None:
        return None, None
    if noted["reason"] == names.LEDGER_RELEASING and stated.get("Suspended", {}).get("status") == "True":
        return Phase.SUSPENDED, None
    return next((one for one in Phase if one.value == noted["reason"] and not one.finished), Phase.WAITING), None


def _array(written: Object, tasks: _Tasks, ledger: Ledger, phase: Phase) -> dict[str, Any]:
    all_tasks = all_of(tasks.tasks)
    all_done = phase is Phase.COMPLETED and not tasks.success_rules
    completed = all_tasks if all_done else _completed(written, tasks, ledger)
    failed = set_in((written.get("failedIndexes") or "") if tasks.own_retries else ledger.failed) & all_tasks
    return _known(
        {
            "progress": f"{completed.bit_count()}/{tasks.tasks}",
            "completed": completed.bit_count(),
            "failed": failed.bit_count(),
            "completedIndexes": format_indexes(completed),
            "failedIndexes": format_indexes(failed),
            "interruptedIndexes": format_indexes(set_in(ledger.indexes) & all_tasks),
            "retriesUsed": ledger.retries or None,
            "counted": tuple(sorted(ledger.counted_pods)),
            "activeSince": ledger.active_since or None,
        }
    )


def _completed(written: Object, tasks: _Tasks, ledger: Ledger) -> int:
    """The tasks that completed: a set. Where clients see no indexes, those of tasks mean nothing beyond their pods, and
    the lowest count as done."""
    if tasks.indexed:
        return set_in(written.get("completedIndexes") or "") & all_of(tasks.tasks)
    if tasks.work_queue:
        return set_in(ledger.done) & all_of(tasks.tasks)
    return all_of(min(tasks.tasks, written.get("succeeded") or 0))


def set_in(text: str) -> int:
    """The set of indexes in a text; an empty one where the text cannot be parsed."""
    try:
        return parse_indexes(text)
    except IndexesError:
        return 0


def _conditions(phase: Phase, ledger: Ledger, generation: int, since: str) -> list[dict[str, Any]]:
    stated = job_states.states(
        phase, ledger.why or "Queued", ledger.say or None, interrupted=ledger.cause or None, stalled=None
    )
    return [
        {
            "type": kind.value,
            "status": state.status,
            "observedGeneration": generation,
            "lastTransitionTime": since,
            "reason": str(state.reason),
            "message": state.message or "",
        }
        for kind, state in stated.items()
        if job_states.worth_saying(kind, state, known=False)
    ]
