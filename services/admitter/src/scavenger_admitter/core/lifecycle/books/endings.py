"""How pods of tasks ended, and what that counts as.

A pod is judged when none of its containers can run any more: what it saved as it was told to stop is known by then. Its
finalizer comes off after the write that counts it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import assert_never

from scavenger_api import names
from scavenger_api.checkpoints import failures_before
from scavenger_api.job import Phase, ScavengerJobStatus
from scavenger_api.reasons import InterruptionReason
from scavenger_api.removing import RemovalReason
from scavenger_domain import interruptions
from scavenger_domain.gang import task_index
from scavenger_domain.pod_ends import Exit, Removal, deleting, deletion_requested, first_started_at, moment
from scavenger_kube import kinds

from scavenger_admitter.core.lifecycle import accounting, finished, interrupted, limits
from scavenger_admitter.core.lifecycle.accounting import second
from scavenger_admitter.core.lifecycle.books.tasks import Tasks, mark
from scavenger_admitter.core.lifecycle.draft import Draft
from scavenger_admitter.core.lifecycle.failure_policy import FINAL, Follows, Judged, controller_words
from scavenger_admitter.core.lifecycle.intents import UNCOUNTED, Intents
from scavenger_admitter.core.lifecycle.run import Run
from scavenger_admitter.core.lifecycle.start_failures import Problem
from scavenger_admitter.core.lifecycle.verdict import (
    Checkpointed,
    Completed,
    Failed,
    Hangs,
    Removed,
    Runs,
    StartFailed,
    Starts,
    Undecided,
    Verdict,
)


@dataclass(slots=True)
class Endings:
    """What is counted in this step.

    Attributes:
        draft: the next status.
        tasks: of the array.
        intents: which pods the admitter deletes, and why.
        counted: pods that are counted now (`tasks.mark`).
        removals: interruptions, with what each lost in core-seconds.
        failures: in words, ends after which a task does not start again.
        retried: those after which it does.
        final: how a task failed, where podFailurePolicy makes that the end of the array; else empty.
        saved: exits of tasks that saved their state and are not done.
        short: whether a run failed within a minute of its start.
        long: whether a run completed, or took longer.
        succeeded: whether a run completed.
        problem: why a start failed.
        last: when the last of them ended.
    """

    draft: Draft
    tasks: Tasks
    intents: Intents
    counted: set[str] = field(default_factory=set)
    removals: list[tuple[Removal, float]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    retried: list[str] = field(default_factory=list)
    saved: list[Exit] = field(default_factory=list)
    final: str = ""
    short: bool = False
    long: bool = False
    succeeded: bool = False
    problem: Problem | None = None
    last: datetime | None = None

    def count(self, index: int, run: Run, found: Verdict) -> bool:
        """Count a pod that has surely ended; False where it is not known yet how.

        Args:
            index: of its task.
            run: its own.
            found: what has become of it.
        """
        if isinstance(found, Undecided):
            self.draft.wakeups.append((found.until - self.draft.seen.now).total_seconds())
            self.draft.wait_for_proof(found.unproven)
            return False
        self.counted.update(mark(index, pod) for pod in run.pods)
        if isinstance(found, StartFailed | Failed):
            self._note_problem(run.pods, found.problem)
        match found:
            case Completed() | Failed() | Checkpointed() | Removed() if self._counts_no_more(index):
                self._book(run, found.at, kept=False)
            case Completed():
                self._book(run, found.at, kept=True)
                self.tasks.end(index, completed=True)
                self.long = self.succeeded = True
            case Failed():
                self._failed(index, run, found.exit)
            case Checkpointed():  # the task waits as before, with all its retries
                self._book(run, found.at, kept=False)
                self._note_length(run, found.at)
                self.saved.append(found.exit)
            case Removed() if run.began and found.removal.own is RemovalReason.NO_PROGRESS:
                self._hung(index, run, found)
            case Removed() if run.began:
                self._interrupted(index, run, found)
            case Removed() | StartFailed() | Starts() | Runs() | Hangs():  # it never ran: the task waits as before
                pass
            case _:
                assert_never(found)
        return True

    def _counts_no_more(self, index: int) -> bool:
        """Whether nothing depends on the end of a pod: it is another life, of a former leader, of a task that was done
        before, or enough tasks completed before."""
        return bool(self.tasks.over >> index & 1) or self.draft.phase is Phase.COMPLETED

    def intent(self, index: int, pod: kinds.Pod) -> RemovalReason | None:
        """Why the admitter deleted the pod. A start that was taken back while its program ran had not failed. The watch
        was behind, and another client may have deleted the pod before, which ends it like any other."""
        found = self.intents.of(mark(index, pod))
        if found is not RemovalReason.START_FAILED:
            return found
        started, asked = first_started_at(pod), deletion_requested(pod)
        return None if started is not None and asked is not None and started <= asked else found

    def _note_problem(self, pods: Sequence[kinds.Pod], problem: Problem | None) -> None:
        """Why a start failed. The client that deleted a pod has said why. What a container of the job did is no problem
        of the start."""
        if problem is None or problem.exit is not None or any(map(deleting, pods)):
            return
        self.problem = self.problem or problem
        if problem.refused_by is not None:
            self.draft.refused_by += (problem.refused_by,)

    def _failed(self, index: int, run: Run, ended: Exit) -> None:
        (pod,) = run.pods
        used = self._retries(index, pod)
        self._book(run, ended.at, kept=False)
        self._note_length(run, ended.at)
        judged = finished.consequence(self.draft, run.pods, ended, used)
        if judged.follows is Follows.FAIL_JOB:
            self.final = self.final or self._final_words(pod, ended, judged)
        elif judged.follows is Follows.RETRY:
            self._retry(index, used + 1)
        over = judged.follows in FINAL
        (self.failures if over else self.retried).append(finished.words_of(ended))
        self.tasks.end(index, failed=over)

    def _final_words(self, pod: kinds.Pod, ended: Exit, judged: Judged) -> str:
        if self._of_user:  # clients of Jobs know the words of the Job controller
            return controller_words(pod, ended, judged)
        return f"{finished.words_of(ended)}; {judged.said} makes it final; the other tasks are stopped"

    def _retries(self, index: int, pod: kinds.Pod) -> int:
        """Retries that are used up: of the task, or of all tasks where these share them. A pod says how many its task
        had used up when it was created, which may have had no space in the status."""
        if self._shared:
            return self.draft.status.retries or 0
        return max(self.tasks.retries.get(index, 0), failures_before(pod.metadata.annotations))

    def _retry(self, index: int, used: int) -> None:
        if not self._shared:
            self.tasks.retries[index] = used
        if self._of_user:
            self._count_failed_pod()

    def _count_failed_pod(self) -> None:
        """The status of a Job has all of its pods that failed."""
        self.draft.set(retries=(self.draft.status.retries or 0) + 1)

    @property
    def _shared(self) -> bool:
        array = self.draft.seen.job.spec.array
        return array is not None and array.shares_retries

    @property
    def _of_user(self) -> bool:
        """Whether clients see a Job, and what its controller would say."""
        return self.draft.seen.job.spec.as_written

    def _hung(self, index: int, run: Run, found: Removed) -> None:
        """The admitter stopped a task that reported no checkpoint any more: it has failed, as a job has."""
        (pod,), started = run.pods, run.since or found.at
        saved = moment(pod.metadata.annotations.get(names.ANNOTATION_LAST_CHECKPOINT))
        since = started if saved is None or saved > self.draft.seen.now else max(started, saved)
        self._book(run, found.at, kept=False)
        self.failures.append(f"pod {pod.metadata.name}: {limits.no_progress(self.draft.seen.job.spec, since)}")
        self.tasks.end(index, failed=True)

    def _note_length(self, run: Run, end: datetime) -> None:
        if run.since is None or end - run.since < accounting.LEAST_CYCLE:
            self.short = True
        else:
            self.long = True

    def _interrupted(self, index: int, run: Run, found: Removed) -> None:
        draft, removal = self.draft, found.removal
        decided = draft.granted.take.get(run.life)
        if decided is not None and removal.cause in (decided.cause, InterruptionReason.DELETED):
            removal = replace(removal, cause=decided.cause, detail=decided.detail)
        lost, own = self._book(run, found.at, kept=False), removal.own if run.pods else self.intents.of_task(index)
        if own in UNCOUNTED or (self._of_user and own is RemovalReason.MAX_RUNNING):  # its user has narrowed the Job
            if self._of_user and own is RemovalReason.FINISHED:  # as the Job controller counts what it deletes
                self._count_failed_pod()
            self.tasks.end(index, interrupted=bool(self.tasks.interrupted >> index & 1))
            return
        draft.count_interruption(found.at)
        self.removals.append((removal, lost))
        self.tasks.interrupted_now.append(index)
        self.tasks.end(index, interrupted=interrupted.by_others(draft, removal))

    def _book(self, run: Run, at: datetime, *, kept: bool) -> float:
        """What the run computed, kept and lost; returns what it lost in core-seconds."""
        draft = self.draft
        if run.since is None:
            return 0.0
        self.last = at if self.last is None else max(self.last, at)
        start = second(min(run.since, draft.seen.now))
        record = ScavengerJobStatus(queued_timestamp=start, running_timestamps=(start,))
        return draft.book(record, run.pods, at, kept=kept).lost

    def tell(self) -> None:
        """Say in Events what has been counted."""
        draft = self.draft
        if self.removals:
            draft.interrupted = self.removals[-1][0].cause.value
            draft.note(interruptions.EVENT_REASON, _tell(self.removals))
        if self.retried:
            draft.note("Retrying", _words_of(self.retried, "start again"), warning=True)
        if self.failures:
            draft.note("TaskFailed", _words_of(self.failures, "failed"), warning=True)

    @property
    def causes(self) -> tuple[InterruptionReason, ...]:
        """Why tasks were interrupted, one entry for each."""
        return tuple(removal.cause for removal, _ in self.removals)


def vanished_run(draft: Draft, task: int) -> Run:
    """The run of a task that the status shows running, and of which nothing is left. As far as the admitter knows, it
    ran when the last task had started, and until its pod was seen last, or an admitter looked."""
    start, seen = max(draft.status.running_timestamps, default=None), draft.known.last_seen
    return Run(draft.own_job, (), 1, True, "", since=start, task=task, last_seen=seen or start)


def run_of_task(draft: Draft, pod: kinds.Pod, intent: RemovalReason | None = None) -> Run:
    """A task as a run of one pod. A pod whose Job is gone has none. intent: why the admitter deletes the pod."""
    batch, owner, uid, began = draft.own_job, pod.metadata.controller, pod.metadata.uid, first_started_at(pod)
    return Run(
        batch if batch is not None and owner is not None and owner.uid == batch.metadata.uid else None,
        (pod,),
        1,
        began is not None,
        uid,
        accounting.spec_of_run(draft.seen.job.spec, (pod,)).saved_exit_code,
        created=moment(pod.metadata.creation_timestamp),
        intents={uid: intent} if intent is not None else {},
        since=began,
        task=task_index(pod),
    )


def _tell(removals: list[tuple[Removal, float]]) -> str:
    if len(removals) == 1:
        removal, lost = removals[0]
        return interruptions.tell(removal.cause, removal.pod, removal.detail, lost, at_most=False)
    causes = Counter(removal.cause.value for removal, _ in removals)
    by = ", ".join(f"{cause}: {count}" for cause, count in sorted(causes.items()))
    lost = round(sum(lost for _, lost in removals))
    return f"{len(removals)} tasks were interrupted ({by}), and lost {lost} core-seconds"


def _words_of(ends: list[str], what: str) -> str:
    more = f", and so did {len(ends) - 1} more" if len(ends) > 1 else ""
    return f"{ends[0]}{more}; {len(ends)} tasks {what}"
