"""What the API server wants of a new status of a batch/v1 Job, as Kubernetes 1.37.1 has it.

A copy of `getStatusValidationOptions` (pkg/registry/batch/job/strategy.go), `validateJobStatus` and
`ValidateJobStatusUpdate` (pkg/apis/batch/validation/validation.go), by the names that these give their rules. The
contract tests hold it against a real API server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

Object = Mapping[str, Any]


class Update(NamedTuple):
    """An update of a status.

    Attributes:
        old: the Job before it.
        new: the Job after it.
    """

    old: Object
    new: Object

    @property
    def before(self) -> Object:
        """The status before it."""
        return self.old.get("status") or {}

    @property
    def after(self) -> Object:
        """The status after it."""
        return self.new.get("status") or {}

    @property
    def spec(self) -> Object:
        """The spec, which it does not change."""
        return self.new.get("spec") or {}

    def changed(self, *fields: str) -> bool:
        """Whether one of these fields of the status is another one now."""
        return any(self.before.get(field) != self.after.get(field) for field in fields)

    def turned(self, *conditions: str) -> bool:
        """Whether one of these conditions is True in one of both alone."""
        return any(true(self.before, kind) != true(self.after, kind) for kind in conditions)

    @property
    def finished_turned(self) -> bool:
        """Whether the Job is over in one of both alone."""
        return finished(self.before) != finished(self.after)

    @property
    def indexed(self) -> bool:
        """Whether the Job is Indexed."""
        return bool(self.spec.get("completionMode") == "Indexed")


def refusals(old: Object, new: Object) -> list[str]:
    """The rules that an update of a status breaks; none where the API server takes it.

    Args:
        old: the Job.
        new: the Job with the new status.
    """
    update = Update(old, new)
    return [name for name, broken in RULES.items() if broken(update)]


def true(status: Object, kind: str) -> bool:
    """Whether a condition is True."""
    return _has(status, kind, "True")


def finished(status: Object) -> bool:
    """Whether a Job is over."""
    return true(status, "Complete") or true(status, "Failed")


def _has(status: Object, kind: str, word: str) -> bool:
    return any(one["type"] == kind and one["status"] == word for one in status.get("conditions") or ())


def _resumes(update: Update) -> bool:
    return true(update.before, "Suspended") and _has(update.after, "Suspended", "False")


def _negative(update: Update) -> bool:
    counts = ("active", "succeeded", "failed", "ready", "terminating")
    return any((update.after.get(count) or 0) < 0 for count in counts)


def _suspended_with_none(update: Update) -> bool:
    return bool(update.spec.get("suspend")) and update.spec.get("completions") == 0


def _less(update: Update, count: str) -> bool:
    return bool((update.after.get(count) or 0) < (update.before.get(count) or 0))


def _scaled_down(update: Update) -> bool:
    """Such a Job may lose successes with its completions."""
    return update.indexed and update.spec.get("completions") == update.spec.get("parallelism")


def _not_finished_with(update: Update, wrong: bool, *fields: str) -> bool:
    """Whether an end comes with something that no Job that is over has."""
    return wrong and finished(update.after) and (update.finished_turned or update.changed(*fields))


def _bad_indexes(update: Update, field: str = "completedIndexes") -> bool:
    completions, last = update.spec.get("completions"), -1
    text = update.after.get(field) or ""
    if completions is None or not text or not update.changed(field):
        return False
    for interval in text.split(","):
        ends = interval.split("-")
        if len(ends) > 2 or not all(end.isascii() and end.isdigit() for end in ends):
            return True
        first, until = int(ends[0]), int(ends[-1])
        if until >= completions or (len(ends) == 2 and first >= until) or first <= last:
            return True
        last = until
    return False


def _own_retries(update: Update) -> bool:
    return update.spec.get("backoffLimitPerIndex") is not None


def _overlap(update: Update) -> bool:
    """Whether an index completed and failed. What is no index is refused by other rules."""
    done, failed = (set(_indexes(update.after.get(field) or "")) for field in ("completedIndexes", "failedIndexes"))
    return update.changed("completedIndexes", "failedIndexes") and not done.isdisjoint(failed)


def _indexes(text: str) -> Iterator[int]:
    for interval in text.split(",") if text else ():
        first, _, last = interval.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            yield from range(int(first), int(last or first) + 1)


def _moved_start(update: Update) -> bool:
    moved = update.before.get("startTime") is not None and update.changed("startTime")
    return moved and not update.spec.get("suspend") and not _resumes(update)


def _before_start(update: Update) -> bool:
    start, end = update.after.get("startTime"), update.after.get("completionTime")
    return start is not None and end is not None and end < start and update.changed("startTime", "completionTime")


def _completion_time(update: Update) -> bool:
    return update.turned("Complete") or update.changed("completionTime")


def _uncounted(update: Update) -> bool:
    found = update.after.get("uncountedTerminatedPods") or {}
    return any(found.get(kind) for kind in ("succeeded", "failed"))


RULES: Final[Mapping[str, Callable[[Update], bool]]] = {
    "NonNegative": _negative,
    "RejectCompleteJobWithFailedCondition": lambda u: (
        u.turned("Complete", "Failed") and true(u.after, "Complete") and true(u.after, "Failed")
    ),
    "RejectCompleteJobWithFailureTargetCondition": lambda u: (
        u.turned("Complete", "FailureTarget") and true(u.after, "Complete") and true(u.after, "FailureTarget")
    ),
    "RejectNotCompleteJobWithCompletionTime": lambda u: (
        _completion_time(u) and u.after.get("completionTime") is not None and not true(u.after, "Complete")
    ),
    "RejectCompleteJobWithoutCompletionTime": lambda u: (
        _completion_time(u) and u.after.get("completionTime") is None and true(u.after, "Complete")
    ),
    "RejectCompletionTimeBeforeStartTime": _before_start,
    "RejectFailedJobWithoutFailureTarget": lambda u: (
        (u.turned("Failed") or u.changed("failedIndexes"))
        and true(u.after, "Failed")
        and not true(u.after, "FailureTarget")
    ),
    "RejectCompleteJobWithoutSuccessCriteriaMet": lambda u: (
        u.turned("Complete", "SuccessCriteriaMet")
        and true(u.after, "Complete")
        and not true(u.after, "SuccessCriteriaMet")
    ),
    "RejectFinishedJobWithActivePods": lambda u: _not_finished_with(u, (u.after.get("active") or 0) > 0, "active"),
    "RejectFinishedJobWithoutStartTime": lambda u: (
        _not_finished_with(u, u.after.get("startTime") is None, "startTime") and not _suspended_with_none(u)
    ),
    "RejectFinishedJobWithUncountedTerminatedPods": lambda u: _not_finished_with(
        u, _uncounted(u), "uncountedTerminatedPods"
    ),
    "RejectFinishedJobWithTerminatingPods": lambda u: _not_finished_with(
        u, (u.after.get("terminating") or 0) > 0, "terminating"
    ),
    "RejectInvalidCompletedIndexes": _bad_indexes,
    "RejectInvalidFailedIndexes": lambda u: _own_retries(u) and _bad_indexes(u, "failedIndexes"),
    "RejectFailedIndexesForNoBackoffLimitPerIndex": lambda u: (
        u.changed("failedIndexes") and u.after.get("failedIndexes") is not None and not _own_retries(u)
    ),
    "RejectFailedIndexesOverlappingCompleted": _overlap,
    "RejectCompletedIndexesForNonIndexedJob": lambda u: (
        u.changed("completedIndexes") and bool(u.after.get("completedIndexes")) and not u.indexed
    ),
    "RejectMoreReadyThanActivePods": lambda u: (
        u.changed("ready", "active") and (u.after.get("ready") or 0) > (u.after.get("active") or 0)
    ),
    "CompleteWithSuccessPolicyAndNoSuccessCriteriaMet": lambda u: (
        bool(u.spec.get("successPolicy")) and true(u.after, "Complete") and not true(u.after, "SuccessCriteriaMet")
    ),
    "SuccessCriteriaMetAndFailed": lambda u: (
        true(u.after, "SuccessCriteriaMet") and (true(u.after, "Failed") or true(u.after, "FailureTarget"))
    ),
    "RejectDisablingTerminalCondition": lambda u: any(
        true(u.before, kind) and not true(u.after, kind)
        for kind in ("Failed", "Complete", "FailureTarget", "SuccessCriteriaMet")
    ),
    "RejectDecreasingFailedCounter": lambda u: _less(u, "failed"),
    "RejectDecreasingSucceededCounter": lambda u: _less(u, "succeeded") and not _scaled_down(u),
    "RejectMutatingCompletionTime": lambda u: (
        None not in (u.before.get("completionTime"), u.after.get("completionTime")) and u.changed("completionTime")
    ),
    "RejectStartTimeUpdateForUnsuspendedJob": _moved_start,
}
"""Each rule, and whether an update breaks it."""
