"""The status of an adopted Job: what follows from the next status of the lifecycle, in the words of batch/v1.

One pure function turns what the lifecycle has found, and one look at the pods, into the status that the Job is to have.
The API server takes it as one write (`JobStatusValidationOptions` in pkg/registry/batch/job/strategy.go), and clients
read in it what the Job controller would have written (docs/designs/0032-adopted-jobs.md has the table).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Self

from scavenger_api.array import ArrayStatus
from scavenger_api.indexes import all_of, parse_indexes, plain_ranges
from scavenger_api.job import ConditionType, Phase, ScavengerJobStatus
from scavenger_api.names import CONDITION_LEDGER, LEADER_SILENT_SECONDS, LEDGER_RELEASING
from scavenger_api.reasons import FailureReason
from scavenger_api.times import format_time, parse_time
from scavenger_domain.adopted import ENDS_OF_GANG
from scavenger_domain.gang import task_index
from scavenger_domain.pod_ends import deleting, held, moment
from scavenger_kube import kinds

from scavenger_admitter.core.adopted.ledger import write_ledger
from scavenger_admitter.core.adopted.work import AdoptedJob
from scavenger_admitter.core.lifecycle.books.tasks import mark

COMPLETED: Final = ("CompletionsReached", "Reached expected number of succeeded pods")
SUSPENDED: Final = ("JobSuspended", "Job suspended")
RESUMED: Final = ("JobResumed", "Job resumed")
FAILURES: Final[Mapping[str, tuple[str, str]]] = {
    FailureReason.FAILED: ("BackoffLimitExceeded", "Job has reached the specified backoff limit"),
    FailureReason.TASKS_FAILED: ("FailedIndexes", "Job has failed indexes"),
    FailureReason.DEADLINE_EXCEEDED: ("DeadlineExceeded", "Job was active longer than specified deadline"),
}
"""How the Job controller says why a Job failed (pkg/controller/job/job_controller.go)."""
TOO_MANY_FAILED: Final = (
    "MaxFailedIndexesExceeded",
    "Job has exceeded the specified maximal number of failed indexes",
)
"""The same where more indexes failed than may."""
ENDED: Final = "Ended"
"""The phase in the ledger of a Job that is over."""


@dataclass(frozen=True, slots=True)
class PodCounts:
    """The pods of a Job, counted as the Job controller counts them.

    Attributes:
        active: have not ended, and are not deleted.
        ready: of these, the ones that are.
        terminating: deleted, and not over yet.
        uncounted: have ended, and the status does not say how.
        first: when the first of all was created.
    """

    active: int = 0
    ready: int = 0
    terminating: int = 0
    uncounted: int = 0
    first: datetime | None = None

    @classmethod
    def of(cls, pods: Iterable[kinds.Pod], uid: str, counted: Collection[str] = ()) -> Self:
        """Count pods.

        Args:
            pods: all that carry the name of a Job.
            uid: of the Job.
            counted: those whose ends the status has, as `mark` gives them.
        """
        active, ready, terminating, uncounted, first = 0, 0, 0, 0, ""
        for pod in pods:
            owner = pod.metadata.controller
            if owner is None or owner.uid != uid:
                continue
            created = pod.metadata.creation_timestamp or ""
            first = min(first or created, created)
            if pod.ended:
                index = task_index(pod)
                uncounted += held(pod) and index is not None and mark(index, pod) not in counted
                continue
            if deleting(pod):
                terminating += 1
                continue
            active += 1
            ready += _ready(pod)
        return cls(active, ready, terminating, uncounted, moment(first))

    @property
    def none_left(self) -> bool:
        """Whether all pods have ended, and it is known how."""
        return not (self.active or self.terminating or self.uncounted)


def _ready(pod: kinds.Pod) -> bool:
    found = kinds.condition(pod.status.conditions, "Ready")
    return found is not None and found.status == "True"


def job_status(
    job: AdoptedJob, status: ScavengerJobStatus, pods: PodCounts, now: datetime, workers: int = 0
) -> dict[str, Any]:
    """The status that a Job is to have.

    Args:
        job: the Job, with the status that it has.
        status: what the lifecycle has found.
        pods: of the Job.
        now: the moment.
        workers: the set of workers of a work queue that do not start again.
    """
    written, array = job.written, status.array or ArrayStatus()
    phase = status.phase or Phase.WAITING
    stated = _Conditions(written.get("conditions") or (), now)
    found = {**written, "active": pods.active, "ready": pods.ready, "terminating": pods.terminating}
    if phase is Phase.SUSPENDED:  # all that run are deleted once this is written
        found |= {"active": 0, "ready": 0, "terminating": pods.active + pods.terminating}
        status = status.model_copy(update={"active_seconds": None})  # the deadline begins again with the next start
    found["uncountedTerminatedPods"] = {}
    over = phase is Phase.COMPLETED and pods.none_left
    found |= _counts(job, status, array, over=over)
    _note_suspension(job, phase, stated)
    _note_start(found, job, phase, pods, now)
    if phase is Phase.COMPLETED:
        _complete(found, stated, job, status, pods, now)
    elif phase is Phase.FAILED:
        _fail(stated, job, status, pods)
    reason = ENDED if phase.finished else phase.value
    if job.released and not phase.finished and pods.none_left:
        reason = LEDGER_RELEASING
    asked = (job.asked or now) if job.released else None
    late = job.late if written.get("conditions") else _late(job, now)
    tasks = None if job.gang else job.spec.tasks
    width = tasks.tasks if tasks is not None and tasks.work_queue and found.get("succeeded") else 0
    told = tasks is not None and tasks.own_retries
    ledger = write_ledger(status, workers, gang=job.gang, width=width, failed_told=told, asked=asked, late=late)
    stated.note(CONDITION_LEDGER, "False", reason, ledger)
    found["conditions"] = stated.listed
    return {name: value for name, value in found.items() if value is not None}


def _late(job: AdoptedJob, now: datetime) -> int:
    """Seconds since the creation of a Job that an admitter sees for the first time; 0 where that is as usual."""
    created = job.metadata.creation_timestamp
    waited = int((now - created).total_seconds()) if created is not None else 0
    return waited if waited >= LEADER_SILENT_SECONDS else 0


def _counts(job: AdoptedJob, status: ScavengerJobStatus, array: ArrayStatus, *, over: bool) -> dict[str, Any]:
    """How many pods succeeded and failed, and which indexes. The last success is told with the end of the Job: a client
    that finds all of them and no end takes that for a failure. With a successPolicy it cannot."""
    if job.gang:
        return _counts_of_gang(job, status, over=over)
    written, tasks = job.written, job.spec.tasks
    done, failed = parse_indexes(array.completed_indexes), (status.retries or 0) + array.failed
    before = written.get("succeeded") or 0
    if tasks.work_queue:
        known = parse_indexes(job.status.array.completed_indexes) if job.status.array is not None else 0
        succeeded = before + (done & ~known).bit_count()
    else:
        if 0 < tasks.tasks <= done.bit_count() and not over and not tasks.success_rules:
            done &= done - 1  # the lowest is told later
        succeeded = max(done.bit_count(), before)
    counts: dict[str, Any] = {"failed": max(failed, written.get("failed") or 0), "succeeded": succeeded}
    if tasks.indexed:
        counts["completedIndexes"] = plain_ranges(done)
    counts = {name: value or None for name, value in counts.items()}
    if tasks.own_retries:  # the Job controller says as well that there is none
        counts["failedIndexes"] = plain_ranges(parse_indexes(array.failed_indexes))
    return counts


def _counts_of_gang(job: AdoptedJob, status: ScavengerJobStatus, *, over: bool) -> dict[str, Any]:
    """How often the gang failed, and that all its members succeeded. Neither may fall, and members that have succeeded
    run again after an interruption, so they are told with the end of the Job."""
    why = status.condition(ConditionType.SUCCEEDED)
    last = status.phase is Phase.FAILED and why is not None and why.reason in ENDS_OF_GANG
    failed = max((status.retries or 0) + last, job.written.get("failed") or 0)
    size = job.spec.parallelism if over else 0
    return {"failed": failed or None, "succeeded": size or None, "completedIndexes": plain_ranges(all_of(size)) or None}


def _note_suspension(job: AdoptedJob, phase: Phase, stated: _Conditions) -> None:
    if phase is Phase.SUSPENDED:
        stated.note("Suspended", "True", *SUSPENDED)
    elif not job.spec.suspend and stated.is_true("Suspended"):
        stated.note("Suspended", "False", *RESUMED)


def _note_start(found: dict[str, Any], job: AdoptedJob, phase: Phase, pods: PodCounts, now: datetime) -> None:
    """startTime is the creation of the first pod, and is none while the Job is suspended. Pods from before that are
    kept, and say nothing of the next start."""
    if phase is Phase.SUSPENDED:
        found["startTime"] = None
    elif job.spec.suspend and not job.gang and not job.spec.tasks.tasks:
        return  # it completes, and has never started
    elif found.get("startTime") is None and (phase.active or phase.finished):
        first = pods.first if pods.first is not None and not job.written.get("startTime") else now
        found["startTime"] = format_time(min(max(first, _last_stop(job) or first), now))


def _last_stop(job: AdoptedJob) -> datetime | None:
    """When a Job was suspended or resumed last, as far as it is written; None for one that was not."""
    written = (one for one in job.written.get("conditions") or () if one["type"] == "Suspended")
    return next((parse_time(one.get("lastTransitionTime")) for one in written), None)


def _complete(
    found: dict[str, Any],
    stated: _Conditions,
    job: AdoptedJob,
    status: ScavengerJobStatus,
    pods: PodCounts,
    now: datetime,
) -> None:
    words = stated.words("SuccessCriteriaMet") or _success_words(job, status)
    stated.note("SuccessCriteriaMet", "True", *words)
    if not pods.none_left:
        return
    stated.note("Complete", "True", *words)
    start, end = parse_time(found.get("startTime")), status.finished_timestamp or now
    found["completionTime"] = found.get("completionTime") or format_time(max(end, start) if start is not None else end)


def _success_words(job: AdoptedJob, status: ScavengerJobStatus) -> tuple[str, str]:
    """Reason and message of a Job that succeeded, as the Job controller has them."""
    completed = status.array.completed_indexes if status.array is not None else ""
    rule = None if job.gang else job.spec.tasks.rule_met(parse_indexes(completed))
    return COMPLETED if rule is None else ("SuccessPolicy", f"Matched rules at index {rule}")


def _fail(stated: _Conditions, job: AdoptedJob, status: ScavengerJobStatus, pods: PodCounts) -> None:
    """A Job whose pods have all ended says in one write that it is about to fail, and that it has."""
    reason, message = stated.words("FailureTarget") or failure_words(job, status)
    stated.note("FailureTarget", "True", reason, message)
    if pods.none_left:
        stated.note("Failed", "True", reason, message)


def failure_words(job: AdoptedJob, status: ScavengerJobStatus) -> tuple[str, str]:
    """Reason and message of a Job that failed, as the Job controller has them where it knows the case."""
    succeeded = status.condition(ConditionType.SUCCEEDED)
    limit = None if job.gang else job.spec.tasks.failed_limit
    reason = succeeded.reason if succeeded is not None else FailureReason.FAILED.value
    if reason == FailureReason.TASKS_FAILED and limit is not None and (status.array or ArrayStatus()).failed > limit:
        return TOO_MANY_FAILED
    return FAILURES.get(reason) or (reason, status.message or "")


class _Conditions:
    """The conditions of a Job, in their order.

    Args:
        written: as they are.
        now: the moment of those that change.
    """

    def __init__(self, written: Iterable[Mapping[str, Any]], now: datetime) -> None:
        self._known = {one["type"]: dict(one) for one in written}
        self._now = format_time(now)

    def is_true(self, kind: str) -> bool:
        """Whether a condition holds."""
        return self._known.get(kind, {}).get("status") == "True"

    def words(self, kind: str) -> tuple[str, str] | None:
        """Reason and message of a condition that holds."""
        found = self._known.get(kind, {})
        return (found.get("reason", ""), found.get("message", "")) if self.is_true(kind) else None

    def note(self, kind: str, status: str, reason: str, message: str) -> None:
        """State a condition. Its times move only with what it says."""
        old = self._known.get(kind)
        if old is not None and (old["status"], old.get("reason"), old.get("message")) == (status, reason, message):
            return
        same = old is not None and old["status"] == status and (status == "True" or old.get("reason") == reason)
        since = (old or {}).get("lastTransitionTime") if same else None
        self._known[kind] = {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastProbeTime": self._now,
            "lastTransitionTime": since or self._now,
        }

    @property
    def listed(self) -> list[dict[str, Any]]:
        """All of them, the ledger last: clients that look at the last condition find what they know."""
        last = self._known.get(CONDITION_LEDGER)
        others = [one for kind, one in self._known.items() if kind != CONDITION_LEDGER]
        return [*others, last] if last is not None else others


def patch_of(job: AdoptedJob, found: Mapping[str, Any]) -> dict[str, Any]:
    """A merge patch of the status: what differs, conditions as a whole, and null for what goes.

    Args:
        job: the Job, with the status that it has.
        found: the status that it is to have.
    """
    before = {"active": 0, **job.written}  # the API server leaves a 0 of it out
    changed = {name: value for name, value in found.items() if before.get(name) != value}
    return changed | dict.fromkeys(before.keys() - found.keys())
