"""What holds of every step of a job's life, whatever was observed (`scavenger_domain.soundness`)."""

from __future__ import annotations

from collections.abc import Iterator

from scavenger_api import names
from scavenger_api.array import MAX_COUNTED, ArrayStatus
from scavenger_api.indexes import all_of, indexes_of, parse_counts, parse_indexes
from scavenger_api.job import Phase, ScavengerJobStatus
from scavenger_api.removing import MAX_REMOVING, WHOLE_RUN
from scavenger_domain.gang import task_index
from scavenger_domain.pod_ends import moment

from scavenger_admitter.core.lifecycle.actions import CreateJob, ReleasePod, StartTasks
from scavenger_admitter.core.lifecycle.books.task_pods import vanished
from scavenger_admitter.core.lifecycle.books.tasks import mark
from scavenger_admitter.core.lifecycle.observation import Observation, Outcome, Seen

_EXACT = 1e-3
"""Core-seconds by which sums of floats may differ from each other."""
_AFTER_AN_END = (Phase.SUSPENDED, Phase.FAILED)
"""Of a job that waits again, and is suspended or turns out never to be able to start in the same look."""


def assert_sound(outcome: Outcome, observed: Observation) -> None:
    """Raise AssertionError where the next status of a job, or what follows from it, cannot be right.

    Args:
        outcome: what was decided.
        observed: on what.
    """
    seen = observed.seen
    before, after = seen.job.status, outcome.status
    if seen.job.metadata.deletion_timestamp is not None:
        assert after == before, "status: changes though the ScavengerJob is being deleted"
        return
    _assert_books(before, after, outcome)
    _assert_phase(after, seen)
    _assert_starts(outcome, observed)
    _assert_removing(before, after, seen)
    _assert_requests(before, after, outcome, seen)
    if seen.job.spec.array is None:
        _assert_one_end(before, after)
    elif after.array is not None:
        known, size = before.array or ArrayStatus(), seen.job.spec.array.tasks
        _assert_sets(after.array, size)
        _assert_counted(known, after.array, outcome, seen)
        _assert_ends(known, outcome, seen, size)


def _assert_books(before: ScavengerJobStatus, after: ScavengerJobStatus, outcome: Outcome) -> None:
    """Time once counted as useful stays useful, and what is booked in a step is what its figures say."""
    useful, lost = outcome.figures.useful, outcome.figures.lost
    assert useful >= 0.0, f"usefulCPUSeconds: {useful} core-seconds are taken back"
    assert useful + lost >= -_EXACT, f"lostCPUSeconds: {useful} and {lost} core-seconds: time once booked vanishes"
    assert after.lost_cpu_seconds >= min(0.0, before.lost_cpu_seconds) - _EXACT, "lostCPUSeconds: less than none"
    assert before.interrupted_count <= after.interrupted_count, "interruptedCount: falls"
    if outcome.requeue_after is not None:
        assert outcome.requeue_after >= 0.0, f"requeue_after: {outcome.requeue_after} seconds"


def _assert_phase(after: ScavengerJobStatus, seen: Seen) -> None:
    """A phase, and what has to stand beside it."""
    kinds_of = [one.type for one in after.conditions]
    assert len(kinds_of) == len(set(kinds_of)), f"conditions: one type twice: {kinds_of}"
    if after == seen.job.status:  # a user who edited it may have left out any part
        return
    if after.phase is Phase.COMPLETED or after.phase is Phase.FAILED:
        assert after.finished_timestamp is not None, f"finishedTimestamp: none of a job that is {after.phase}"
    else:
        assert after.queued_timestamp is not None, f"queuedTimestamp: none of a job that is {after.phase}"


def _assert_starts(outcome: Outcome, observed: Observation) -> None:
    """What is created has been granted, and is there no second time."""
    created = [one for one in outcome.actions if isinstance(one, CreateJob | StartTasks)]
    assert len(created) <= 1, f"actions: several starts in one step: {created}"
    for one in created:
        if isinstance(one, StartTasks):
            _assert_tasks_start(one, outcome, observed)
        else:
            assert not outcome.candidate, "candidate: asks for admission and starts in one step"
            assert observed.granted.units, f"CreateJob: admission has granted no start from {one.run}"
            seen = observed.seen
            assert seen.batch is None or seen.lasts, "CreateJob: there is a Job of that name"


def _assert_requests(before: ScavengerJobStatus, after: ScavengerJobStatus, outcome: Outcome, seen: Seen) -> None:
    """What pods request changes between runs only: books, shares and quotas read it in the spec."""
    known, new = (one.recommended.amounts if one.recommended is not None else {} for one in (before, after))
    if known == new:
        return
    assert not seen.pods, f"recommended: changes to {new} while pods are there"
    starts = outcome.candidate or any(isinstance(one, CreateJob) for one in outcome.actions)
    assert not starts, f"recommended: changes to {new} as a start is planned by {known}"


def _assert_removing(before: ScavengerJobStatus, after: ScavengerJobStatus, seen: Seen) -> None:
    """The status names pods that are there, each for one reason, which never changes."""
    entries, known = after.removing or (), set(before.removing or ())
    named = [one.partition(":")[0] for one in entries]
    assert len(entries) <= MAX_REMOVING, f"removing: {len(entries)} pods"
    assert len(named) == len(set(named)) or entries == before.removing, f"removing: a pod for two reasons: {entries}"
    present = {WHOLE_RUN, *(mark(task, pod) for pod in seen.every_pod if (task := task_index(pod)) is not None)}
    new = {one for one in entries if one not in known}
    assert all(one.partition(":")[0] in present for one in new), f"removing: pods that are not there: {sorted(new)}"
    changed = {one.partition(":")[0] for one in known} & {one.partition(":")[0] for one in new}
    assert not changed, f"removing: the reason changes: {sorted(changed)}"


def _assert_tasks_start(start: StartTasks, outcome: Outcome, observed: Observation) -> None:
    seen, granted = observed.seen, observed.granted.units
    indexes, array, spec = start.indexes, outcome.status.array, seen.job.spec.array
    assert len(indexes) <= granted, f"StartTasks: {len(indexes)}, and {granted} are granted"
    assert len(indexes) == len(set(indexes)), f"StartTasks: a task twice: {indexes}"
    assert spec is not None, "StartTasks: of no array"
    taken = {task for pod in seen.every_pod if (task := task_index(pod)) is not None} | set(
        indexes_of(observed.known.start.posted)
    )
    over = _over(array) if array is not None else 0
    for index in indexes:
        assert 0 <= index < spec.tasks, f"StartTasks: {index} of {spec.tasks} tasks"
        assert index not in taken, f"StartTasks: {index}, of which there is a pod"
        assert not over >> index & 1, f"StartTasks: {index}, which is over"


def _assert_one_end(before: ScavengerJobStatus, after: ScavengerJobStatus) -> None:
    """A run ends once and in one way, and each end that the job survives moves its place in the queue: by that the next
    look knows it was counted (docs/designs/0001-run-identity.md)."""
    if before.phase is None or before.queued_timestamp is None:  # counts and place are taken over from a live Job
        return
    interrupted = after.interrupted_count - before.interrupted_count
    failed = _grown(before.retries, after.retries) + _grown(before.ignored_failures, after.ignored_failures)
    assert interrupted + failed <= 1, f"interruptedCount, retries: {interrupted} and {failed} ends of one run"
    if interrupted + failed:
        assert after.queued_timestamp != before.queued_timestamp, "queuedTimestamp: stays though an end was counted"
        waits = after.phase is not None and (after.phase.queued or after.phase in _AFTER_AN_END)
        assert waits, f"phase: {after.phase} after an end that the job survives"
    again = after.phase is Phase.COMPLETED and before.phase is not Phase.COMPLETED
    assert not (again and interrupted + failed), "phase: Completed by a run that was counted as another end"


def _grown(before: int | None, after: int | None) -> int:
    grown = (after or 0) - (before or 0)
    assert grown >= 0, "retries, ignoredFailures: fall"
    return grown


# --- arrays -------------------------------------------------------------------------------------------------


def _over(array: ArrayStatus) -> int:
    return parse_indexes(array.completed_indexes) | parse_indexes(array.failed_indexes)


def _named(array: ArrayStatus) -> Iterator[tuple[str, int]]:
    """The sets in which a task is in one at most."""
    yield "completedIndexes", parse_indexes(array.completed_indexes)
    yield "failedIndexes", parse_indexes(array.failed_indexes)
    yield "interruptedIndexes", parse_indexes(array.interrupted_indexes)


def _assert_sets(array: ArrayStatus, size: int) -> None:
    """Each task is in one set at most, and counts are those of their sets."""
    seen, where = 0, ""
    for name, tasks in _named(array):
        assert not tasks & seen, f"{name}: tasks {list(indexes_of(tasks & seen))} are in {where} as well"
        assert not tasks & ~all_of(size), f"{name}: tasks beyond {size}"
        seen, where = seen | tasks, f"{where} or {name}" if where else name
    running = parse_indexes(array.running_indexes)
    counts = {
        "completed": (array.completed, parse_indexes(array.completed_indexes)),
        "failed": (array.failed, parse_indexes(array.failed_indexes)),
        "running": (array.running, running),
    }
    for name, (count, tasks) in counts.items():
        assert count == tasks.bit_count(), f"{name}: {count} of {tasks.bit_count()} tasks in its set"
    assert not running & ~all_of(size), f"runningIndexes: tasks beyond {size}"
    assert len(array.counted) <= 2 * MAX_COUNTED, f"counted: {len(array.counted)} pods"


def _assert_counted(before: ArrayStatus, after: ArrayStatus, outcome: Outcome, seen: Seen) -> None:
    """`counted` grows by pods that are there, and no pod loses its finalizer that it does not name."""
    present = {mark(task, pod): pod for pod in seen.every_pod if (task := task_index(pod)) is not None}
    new = set(after.counted) - set(before.counted)
    assert new <= present.keys(), f"counted: pods that are not there: {sorted(new - present.keys())}"
    assert len(new) == outcome.counted, f"counted: {len(new)} pods more, and {outcome.counted} are said to be"
    run = outcome.status.queued_timestamp
    named, uids = set(after.counted), {one.uid for one in outcome.actions if isinstance(one, ReleasePod)}
    for name, pod in present.items():
        if pod.metadata.uid in uids and moment(pod.metadata.annotations.get(names.ANNOTATION_RUN)) == run:
            assert name in named, f"counted: pod {pod.metadata.name} loses its finalizer and is not counted"


def _assert_ends(before: ArrayStatus, outcome: Outcome, seen: Seen, size: int) -> None:
    """No pod counts twice: as many ends are booked as pods are counted, at most."""
    after, old, new = outcome.status.array, seen.job.status, outcome.status
    assert after is not None
    interrupted = new.interrupted_count - old.interrupted_count
    if old.phase is not None:
        said = len(outcome.interruptions)
        assert interrupted == said, f"interruptedCount: {interrupted} more, and {said} tasks were interrupted"
    told, known = parse_counts(after.interruptions or ""), parse_counts(before.interruptions or "")
    more = sum(told.values()) - sum(known.values())
    assert 0 <= more <= interrupted, f"interruptions: {more} more, and {interrupted} tasks were interrupted"
    completed = parse_indexes(after.completed_indexes) & ~parse_indexes(before.completed_indexes)
    lost = parse_indexes(before.completed_indexes) & ~parse_indexes(after.completed_indexes)
    assert not lost, f"completedIndexes: tasks {list(indexes_of(lost))} are no longer there"
    if after.retry == before.retry:
        failed = parse_indexes(after.failed_indexes) & ~parse_indexes(before.failed_indexes)
        used, now = parse_counts(before.retries_used), parse_counts(after.retries_used)
        retried = {task: now.get(task, 0) - used.get(task, 0) for task in now.keys() | used.keys()}
        assert all(more >= 0 for more in retried.values()), f"retriesUsed: falls: {retried}"
        limit = seen.job.spec.backoff_limit or 0
        beyond = [task for task, more in retried.items() if more and now[task] > limit]
        assert not beyond, f"retriesUsed: tasks {beyond} were tried more than {limit} times again"
        again = sum(map(bool, retried.values()))  # a pod may know of more retries than the status had space for
        ends = interrupted + completed.bit_count() + failed.bit_count() + again
        pods = outcome.counted + vanished(seen).bit_count()
        assert ends <= pods or old.phase is None, f"counted: {ends} ends of {pods} pods"
    if new.phase is Phase.COMPLETED and old.phase is not Phase.COMPLETED:
        spec, completed = seen.job.spec.array, parse_indexes(after.completed_indexes)
        missing = all_of(size) & ~completed if spec is None or spec.rule_met(completed) is None else 0
        assert not missing, f"phase: Completed, and tasks {list(indexes_of(missing))} are not"
