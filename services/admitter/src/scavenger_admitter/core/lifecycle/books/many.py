"""The book of an array: many tasks, each a run of one pod, told by index and UID.

An end is recorded when nothing of the pod can run any more. The write counts pods that have ended, up to `MAX_COUNTED`
at once, and names them. Their finalizers come off after it, and a successor sees the names and counts none of them
again. Which tasks run follows from their pods, and no write of its own says so but once in a while.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, Self

from scavenger_api import names
from scavenger_api.array import MAX_COUNTED, ArraySpec, ArrayStatus
from scavenger_api.indexes import MAX_TASKS, format_indexes, indexes_of, set_of
from scavenger_api.job import Phase, ScavengerJobStatus
from scavenger_api.reasons import FailureReason, StateReason, WaitReason
from scavenger_api.removing import RemovalReason
from scavenger_api.task_numbers import format_tasks
from scavenger_api.times import micros
from scavenger_domain.pod_ends import (
    Removal,
    deleting,
    ended_at,
    held,
    moment,
    over,
    own_exit,
    removal,
    restarted,
    restarts,
    started_at,
)
from scavenger_domain.queues import place_in_queue
from scavenger_kube import kinds

from scavenger_admitter.core.lifecycle import (
    accounting,
    finished,
    leftover_pods,
    limits,
    managed,
    outcome,
    start_failures,
    starting,
    waiting,
)
from scavenger_admitter.core.lifecycle.accounting import second
from scavenger_admitter.core.lifecycle.actions import (
    Action,
    CreateJob,
    DeleteJob,
    DeletePod,
    ReleasePod,
    StartTasks,
)
from scavenger_admitter.core.lifecycle.books.endings import Endings, run_of_task, vanished_run
from scavenger_admitter.core.lifecycle.books.task_pods import TaskPods, chosen, vanished
from scavenger_admitter.core.lifecycle.books.tasks import Tasks, mark
from scavenger_admitter.core.lifecycle.draft import Draft
from scavenger_admitter.core.lifecycle.intents import Intents, of_phase
from scavenger_admitter.core.lifecycle.observation import Observation, Outcome, Seen
from scavenger_admitter.core.lifecycle.run import Run, is_managed
from scavenger_admitter.core.lifecycle.start_failures import Problem
from scavenger_admitter.core.lifecycle.success import Success
from scavenger_admitter.core.lifecycle.verdict import Hangs, Removed, Runs, StartFailed, Starts, Verdict
from scavenger_admitter.core.lifecycle.waiting import Stand
from scavenger_admitter.core.units import unit_of_task
from scavenger_admitter.core.waits import Wait

WRITE_EVERY: Final = timedelta(seconds=1)
"""Writes of one array are so far apart."""
WRITE_LARGE_EVERY: Final = timedelta(seconds=5)
"""And so far, where the status is large and no pod waits for it to be deleted."""
LARGE: Final = 16 * 1024
"""Characters of the sets of a large status."""
SHOW_EVERY: Final = timedelta(seconds=10)
"""How many tasks run is written so often by itself."""
KEPT_PODS: Final = 1000
"""Pods of tasks that are over are kept for their logs, so many of an array."""
KEPT_BYTES: Final = 12 * 1024 * 1024
"""And of so many bytes together, as JSON when they were created. In etcd, with their statuses, that is at most 16 MiB:
protobuf takes a fifth less, and the statuses of thousands of containers half as much again."""


def kept_pods(each: int) -> int:
    """How many pods of tasks that are over are kept. each: bytes of one; 0 where that is not known."""
    return max(1, min(KEPT_PODS, KEPT_BYTES // each)) if each else KEPT_PODS


def pods_at_once(each: int) -> int:
    """How many pods of one array may run. each: bytes of one; 0 where that is not known."""
    return max(1, names.MAX_PODS_BYTES // each) if each else MAX_TASKS


@dataclass(slots=True)
class ManyBook:
    """The status of an array, to be changed."""

    draft: Draft
    spec: ArraySpec
    tasks: Tasks
    pods: TaskPods
    running: dict[int, kinds.Pod]
    """The tasks whose container runs, untouched ones left out."""
    abandoned: dict[int, kinds.Pod]
    """The tasks that were told to stop, on nodes that do not answer, and are waited for no longer."""
    intents: Intents
    endings: Endings
    before: tuple[int, int]
    """The sets of tasks that are over, and that were interrupted, as the status has them."""
    may_write: bool
    startable: int = 0
    problem: Problem | None = None
    stay: list[tuple[int, kinds.Pod]] = field(default_factory=list)
    """The tasks of `runs` that may go on."""

    @classmethod
    def of(cls, draft: Draft) -> Self:
        """As the status and the pods have it. Failed tasks wait again where spec.array.retry has grown."""
        spec = draft.seen.job.spec.array
        assert spec is not None, "a job of one run"
        tasks = Tasks.of(spec.tasks, draft.status.array)
        pods, before = TaskPods.of(draft, tasks), (tasks.over, tasks.interrupted)
        lost, may_write, intents = _abandoned(draft, pods), _may_write(draft), Intents(draft.seen.job.status)
        running = {task: pod for task, pod in pods.alive.items() if started_at(pod) is not None and not over(pod)}
        endings = Endings(draft, tasks, intents)
        book = cls(draft, spec, tasks, pods, running, lost, intents, endings, before, may_write=may_write)
        if may_write:
            book._retry()
        return book

    # --- what has ended ---

    def _retry(self) -> None:
        """Failed tasks wait again, where their user wants that."""
        failed = self.draft.phase is Phase.FAILED
        if self.spec.retry <= self.tasks.retry or (failed and self._stops(pod for _, pod in self.pods.living)):
            return
        again = self.tasks.failed.bit_count()
        self.tasks.forget_failures()
        self.tasks.retry = self.spec.retry
        if failed:
            self.tasks.active_since = None
            self.draft.set(finished_timestamp=None, short_runs=None, ended_timestamp=None, active_seconds=None)
            self.draft.enter(Phase.WAITING, WaitReason.QUEUED, f"{again} tasks that failed start again")

    def runs(self) -> Iterator[Run]:
        """Pods that have ended, as many as one write may count; then those that may still run, and are not told to
        stop. Of untouched ones there is none."""
        if self.may_write:
            yield from self._ended()
        yield from self._open()

    def _ended(self) -> Iterator[Run]:
        there = {mark(one, pod) for one, pod in self.pods.counted.items() if held(pod)}
        self.tasks.counted &= there
        limit = self.spec.counted_at_once
        most = min(limit, 2 * limit - len(self.tasks.counted))
        for task, pod in sorted(self.pods.ended.items()):
            if len(self.endings.counted) >= most:
                self.draft.wakeups.append(WRITE_EVERY.total_seconds())
                break
            intent = self.endings.intent(task, pod)
            if intent is None and (same := self._still_open(pod)) is not None:
                self.draft.wait_for_proof((same,))
                continue
            yield run_of_task(self.draft, pod, intent)
        for task in indexes_of(vanished(self.draft.seen) & ~(self.tasks.over | self.draft.known.start.posted)):
            yield vanished_run(self.draft, task)
        self.tasks.counted |= self.endings.counted
        self.intents.drop(self.endings.counted)
        self._count_short()
        self.endings.tell()

    def _still_open(self, pod: kinds.Pod) -> Success | None:
        """The success of a pod that was judged before, where nothing is known since that decides it; else None."""
        seen, known = self.draft.seen, self.draft.known
        return known.evidence.still_open(pod, seen.nodes, known.reboots, seen.now)

    def _open(self) -> Iterator[Run]:
        quiet = self.pods.untouched
        runs, starts = (tasks & self.tasks.over for tasks in (quiet.runs, quiet.starts))
        self._wait_for_starts(quiet.starts & ~starts)
        self._wait_for_progress()
        done = (*chosen(quiet.running, runs), *chosen(quiet.starting, starts))
        for task, pod in sorted((*self.pods.alive.items(), *done)):
            if deleting(pod):
                continue
            if self.intents and self.intents.named(mark(task, pod)):
                self._delete(task, pod)
            else:
                yield replace(run_of_task(self.draft, pod), open=True)

    def record(self, run: Run, verdict: Verdict) -> None:
        """Count a pod that has ended, or stop one that cannot start or is not to run."""
        task = run.task
        assert task is not None, "a run of no task"
        if not run.open:
            if self.endings.count(task, run, verdict) and run.pods:
                self.pods.counted[task] = self.pods.ended.pop(task)
            return
        (pod,) = run.pods
        if (reason := self._unwanted(task, run, verdict)) is not None:
            self._delete(task, pod, reason)
        elif run.batch is None or pod.metadata.uid in self.draft.known.deleted or restarted(pod):
            # Its Job or its container says why, or it is under way.
            self.draft.actions.append(DeletePod(pod.metadata.name, pod.metadata.uid))
        else:
            self.stay.append((task, pod))

    def _count_short(self) -> None:
        """Failures right after the start, and nothing else: the pause before the next start grows. With one limit for
        all tasks, every failure since the last success counts. Where each task rests by itself, none does."""
        if self.spec.rests_by_task:
            return
        draft, found = self.draft, self.endings
        shared, failed = self.spec.shares_retries, len(found.retried)
        if found.succeeded if shared else found.long:
            draft.set(short_runs=None)
        elif (shared and failed) or (found.short and (failed or found.saved)):
            more = max(1, failed) if shared else 1
            draft.set(short_runs=(draft.status.short_runs or 0) + more, ended_timestamp=second(draft.seen.now))

    def clear(self) -> None:
        """What is counted is released; a pod in the way of the next start of its task is deleted."""
        draft = self.draft
        job = draft.own_job
        uid = job.metadata.uid if job is not None and job.metadata.deletion_timestamp is None else None
        draft.actions += leftover_pods.clear(self.pods.strangers, draft.seen.nodes, job_uid=uid)
        kept, ended = [], self.pods.untouched
        again = ended.ended & ~self.tasks.over
        for task, pod in sorted((*self.pods.counted.items(), *chosen(ended.kept, again))):
            name, own = pod.metadata.name, pod.metadata.uid
            if held(pod):
                draft.actions.append(ReleasePod(name, own))
            if deleting(pod):
                continue
            if self.tasks.over >> task & 1 and pod.ended:
                kept.append(pod)
            elif (left := self._rests(task, pod)) > 0:
                draft.wakeups.append(left)
            elif self.spec.told_by_pods >> task & 1 and pod.ended:
                pass  # until the status has its retries
            else:  # the task starts again, other containers run on, or a client removed the finalizer meanwhile
                draft.actions.append(DeletePod(name, own))
        most = kept_pods(draft.known.pod_bytes)
        if len(kept) + (ended.ended & ~again).bit_count() <= most:
            return
        kept += [pod for _, pod in chosen(ended.kept, ended.ended & ~again)]
        kept.sort(key=lambda pod: (ended_at(pod) or draft.seen.now, pod.metadata.name))
        oldest = kept[: len(kept) - most][:MAX_COUNTED]
        draft.actions += [DeletePod(pod.metadata.name, pod.metadata.uid) for pod in oldest]

    def _rests(self, task: int, pod: kinds.Pod) -> float:
        """Seconds until a task may start again that saved its state and left, or that failed and rests by itself: a
        minute after it started, as a job, or as long after its end as the Job controller waits. Its pod stays until
        then, so a new leader waits as long."""
        now, started = self.draft.seen.now, started_at(pod)
        run, found = run_of_task(self.draft, pod), own_exit(pod) if pod.ended else None
        if found is None:
            return 0.0
        if run.saved(found):
            since, pause = started, accounting.LEAST_CYCLE
        elif self.spec.rests_by_task and removal(pod) is None:
            since = found.at
            pause = accounting.pause_of(self.tasks.retries.get(task, 1) - 1, accounting.RETRY_AFTER)
        else:
            return 0.0
        return min(pause, since + pause - now).total_seconds() if since is not None else 0.0

    # --- what runs ---

    def _stop_excess(self) -> None:
        """Where more tasks run than may, those with the least unsaved work stop."""
        quiet, stay = self.pods.untouched, self.stay
        runs, starts = quiet.runs & ~self.tasks.over, quiet.starts & ~self.tasks.over
        excess = len(stay) + (runs | starts).bit_count() - self.wanted
        if excess > 0:
            stay = [*stay, *chosen(quiet.running, runs), *chosen(quiet.starting, starts)]
        for task, pod in sorted(stay, key=lambda one: self._at_risk(one[1]))[: max(0, excess)]:
            self._delete(task, pod, RemovalReason.MAX_RUNNING)

    def _wait_for_starts(self, starts: int) -> None:
        """The array is looked at again when the first of these untouched starts has taken too long. starts: a set."""
        seen, first = self.draft.seen, moment(self.pods.untouched.first_created)
        if starts and self.may_write and first is not None:
            self.draft.wakeups.append(max(0.0, (first + self.draft.rules.start_timeout - seen.now).total_seconds()))

    def _delete(self, task: int, pod: kinds.Pod, reason: RemovalReason | None = None) -> None:
        """Delete a pod once the status says why. Beyond what a status may name, it does not say it.

        Args:
            task: its index.
            pod: of that task.
            reason: why; None where the status has named the pod.
        """
        draft, name = self.draft, mark(task, pod)
        if reason is RemovalReason.NO_PROGRESS and self.intents.full:  # else its end would count as an interruption
            draft.wakeups.append(WRITE_EVERY.total_seconds())
            return
        if reason in (RemovalReason.SUSPENDED, RemovalReason.FINISHED):  # the phase says so
            intent = reason.value
        elif reason is None:
            intent = self.intents.named(name)
        elif (left := _left(draft, WRITE_EVERY)) > 0:
            draft.wakeups.append(left)
            return
        else:
            intent = self.intents.add(name, reason)
        draft.actions.append(DeletePod(pod.metadata.name, pod.metadata.uid, intent))

    def _stops(self, pods: Iterable[kinds.Pod]) -> bool:
        """Whether pods that an array stopped may still be running, on nodes that will soon tell. It goes on after them,
        as their ends are no interruptions."""
        draft, seen = self.draft, self.draft.seen
        left = leftover_pods.find_leftover_pods(pods, seen.nodes, seen.now, harmless=False)
        waited = [one for one in left if one.node is not None and not one.overdue]
        draft.wakeups += [(one.until - seen.now).total_seconds() for one in waited if one.until is not None]
        return bool(waited) or any(deleting(pod) for pod in self.pods.ended.values())

    def _unwanted(self, task: int, run: Run, verdict: Verdict) -> RemovalReason | None:
        """Why the pod is not to run; None where it is, or where its deletion needs no reason."""
        draft, uid = self.draft, run.life
        if self.may_write and isinstance(verdict, StartFailed):
            self.problem = self.problem or verdict.problem
            return RemovalReason.START_FAILED
        if self.may_write and isinstance(verdict, Starts) and verdict.due is not None:
            draft.wakeups.append(verdict.due)
        if draft.seen.job.spec.suspend:
            return of_phase(draft.phase) or RemovalReason.SUSPENDED
        if uid in draft.known.deleted or run.batch is None:
            return None
        if self.tasks.over >> task & 1:
            return RemovalReason.SUPERSEDED
        match verdict:
            case Removed(removal=removal):
                return removal.own or RemovalReason.of(removal.cause)
            case Hangs():
                return RemovalReason.NO_PROGRESS
            case Runs(until=until) if until is not None:
                draft.wakeups.append((until - draft.seen.now).total_seconds())
        return None

    def _wait_for_progress(self) -> None:
        """The array is looked at again when the first of the untouched tasks may have hung for too long."""
        allowed, first = limits.without_progress(self.draft.seen.job.spec), self.pods.untouched.first_progress
        if allowed is not None and first is not None:
            self.draft.wakeups.append(max(0.0, (first + allowed - self.draft.seen.now).total_seconds()))

    def _at_risk(self, pod: kinds.Pod) -> tuple[int, str]:
        """What sorts the pods of which some have to go: the least unsaved work first."""
        seen, task = self.draft.seen, unit_of_task(self.draft.seen.job, pod)
        if task.started is None:
            return -1, pod.metadata.name
        spans = self.draft.rules.startup_cost, self.draft.rules.trusted_interval
        cost, trusted = (span // timedelta(microseconds=1) for span in spans)
        return task.time_at_risk(micros(seen.now), cost, trusted), pod.metadata.name

    @property
    def running_tasks(self) -> int:
        """The tasks whose container runs: a set."""
        return set_of(self.running) | self.pods.untouched.runs

    @property
    def computing(self) -> bool:
        """Whether a task runs that was not told to stop."""
        return self.pods.untouched.runs != 0 or any(not deleting(pod) for pod in self.running.values())

    @property
    def _goes_on(self) -> bool:
        """Whether a task runs that was not told to stop, or has ended and is not judged yet."""
        return self.computing or bool(self.draft.unproven)

    # --- the array ---

    def enter_phase(self) -> None:
        """The phase follows from spec, tasks and pods."""
        draft, seen = self.draft, self.draft.seen
        self._stop_excess()
        if not self.may_write:
            return
        self._record_start()
        refusal = draft.known.start.refused
        refused = start_failures.refusal_problem(refusal, seen.job.spec) if refusal is not None else None
        problem = refused or self.problem or self.endings.problem or self._lacks()
        late = self._count_active()
        if draft.phase.finished:
            pass
        elif (why := self._why_failed(problem)) is not None:
            self._fail(*why)
        elif self._enough:
            self._complete("enough tasks completed")
        elif self.tasks.all_over and not self.pods.any_living and not self.pods.ended:
            self._end()
        elif late:
            self._fail(FailureReason.DEADLINE_EXCEEDED, late)
        else:
            self._go_on(problem if problem is not None and problem.exit is None else None)
        self._note_stopping(of_phase(seen.job.status.phase), of_phase(draft.phase))

    def _why_failed(self, problem: Problem | None) -> tuple[str, str] | None:
        """Reason and message of an array that has failed before all its tasks are over; None where it has not. The
        order is that of the Job controller."""
        endings, tasks, spec = self.endings, self.tasks, self.spec
        failed = tasks.failed.bit_count()
        if endings.final:
            return FailureReason.POD_FAILURE_POLICY, endings.final
        if endings.failures and spec.fail_fast:
            return FailureReason.FAILED, f"{endings.failures[0]}; failFast stops the other tasks"
        if spec.failure_limit is not None and (self.draft.status.retries or 0) + failed > spec.failure_limit:
            return FailureReason.FAILED, f"more than {spec.failure_limit} pods failed"
        if self._restarted_too_often:
            return FailureReason.FAILED, "its programs were started again in their pods as often as they may"
        if spec.failed_limit is not None and failed > spec.failed_limit:
            return FailureReason.TASKS_FAILED, f"{failed} tasks failed, more than {spec.failed_limit}"
        if problem is not None and problem.final and problem.exit is None and not (self._goes_on or self._enough):
            return problem.reason, problem.message
        return None

    @property
    def _enough(self) -> bool:
        """Whether enough tasks completed, and it has not failed as the others did."""
        lost = self.tasks.failed and self.tasks.all_over
        return not lost and self.spec.rule_met(self.tasks.completed) is not None

    @property
    def _restarted_too_often(self) -> bool:
        """Whether kubelets have started programs again as often as they may, in the pods that there are (as
        pastBackoffLimitOnFailure of the Job controller)."""
        limit, pods = self.spec.restart_limit, (*self.pods.alive.values(), *self.pods.untouched.pods)
        return limit is not None and sum(map(restarts, pods)) >= limit

    def _note_stopping(self, before: RemovalReason | None, after: RemovalReason | None) -> None:
        """Name the pods of which the phase will say, or said, what is not so: those that others had deleted before, and
        those that still stop when the array goes on."""
        if (before is None) is (after is None):
            return
        for task, pod in sorted((*self.pods.alive.items(), *self.pods.ended.items())):
            if deleting(pod):
                self.intents.add(mark(task, pod), before or RemovalReason.DELETED)

    def _record_start(self) -> None:
        """The first task that runs ends the wait of the array, and the last one that does is its place in the queue."""
        draft = self.draft
        queued = draft.status.queued_timestamp
        pods = (*self.pods.alive.values(), *self.pods.counted.values())
        starts = [at for pod in pods if (at := started_at(pod)) is not None]
        untouched = self.pods.untouched
        known = draft.status.running_timestamps
        if not known:
            starts += [at for pod in untouched.pods if (at := started_at(pod)) is not None]
        elif untouched.last_run is not None:
            starts.append(untouched.last_run)
        if not starts or queued is None:
            return
        if not known:
            start = max(second(min(*starts, draft.seen.now)), second(queued))
            draft.waited = max(0.0, (start - queued).total_seconds())
            known = (start,)
        last = max(*known, second(min(max(starts), draft.seen.now)))
        draft.set(running_timestamps=(known[0], last) if last > known[0] else known[:1])

    def _count_active(self) -> str:
        """Count the time in which at least one task runs, where that is limited. Returns what to say where it is used
        up, else nothing."""
        draft, tasks, spec = self.draft, self.tasks, self.draft.seen.job.spec
        since = tasks.active_since or self._first_start()
        if spec.active_deadline_seconds is None or draft.phase.finished or since is None:
            return ""
        until = draft.seen.now if self.computing else self._computed_until(since)
        left = limits.active_left(spec, draft.status, since, until)
        open_still = self.running_tasks != 0 or any(started_at(pod) for pod in self.pods.ended.values())
        # Tasks that have ended and are not judged may be the last, and completed: as with a job, that comes first.
        late = left is not None and left <= 0 and (self.computing or not open_still)
        late = late and not (spec.as_written and spec.suspend)  # the Job controller looks at no deadline then
        tasks.active_since = since if open_still and not late else None
        if tasks.active_since is None:
            draft.set(active_seconds=limits.active_seconds(draft.status, since, until))
        elif left is not None and self.computing:
            draft.wakeups.append(left)
        return limits.too_long(spec, "its tasks ran for") if late else ""

    def _first_start(self) -> datetime | None:
        """When the first started of the tasks whose time is not counted: those that run, that are not judged, or that
        are judged now."""
        judged = (pod for task, pod in self.pods.counted.items() if mark(task, pod) in self.endings.counted)
        pods = (*self.running.values(), *self.pods.untouched.running.values(), *self.pods.ended.values(), *judged)
        first = min((at for pod in pods if (at := started_at(pod)) is not None), default=None)
        return second(first) if first is not None else None

    def _computed_until(self, since: datetime) -> datetime:
        """Up to when tasks computed of which none does now: their last end, or when the last one was told to stop."""
        alive, ended = self.pods.alive.items(), self.pods.ended.items()
        found = (*alive, *ended, *self.pods.counted.items(), *self.pods.untouched.kept.items())
        ends = (removed.at if (removed := self._removal(task, pod)) else ended_at(pod) for task, pod in found)
        known = (at for at in (*ends, self.endings.last) if at is not None)
        return min(self.draft.seen.now, max(known, default=since))

    def _removal(self, task: int, pod: kinds.Pod) -> Removal | None:
        return removal(pod, self.endings.intent(task, pod)) if started_at(pod) is not None else None

    def _go_on(self, problem: Problem | None) -> None:
        draft = self.draft
        phase = self._phase()
        same = self.before == (self.tasks.over, self.tasks.interrupted)
        told = phase.queued and draft.phase is phase and same  # why it waits stands there already
        if problem is not None and problem.lack is not None and problem.lack == draft.lack:
            pass  # it was said when it was found
        elif problem is not None:
            starting.record_failure(draft, problem, self._youngest)
        if problem is not None and (phase.queued or problem.final):
            reason = problem.reason if phase.queued else StateReason.STARTED
            draft.enter(phase, reason, f"{self.summary}; the start failed: {problem.message}")
        elif not told:
            reason = {Phase.SUSPENDED: WaitReason.SUSPENDED}.get(phase, WaitReason.QUEUED)
            draft.enter(phase, StateReason.STARTED if phase.active else reason, self.summary)
        if phase in (Phase.RUNNING, Phase.SUSPENDED):
            draft.interrupted = None

    def _lacks(self) -> Problem | None:
        """What no task can start without, and two starts in a row did not get."""
        lack = self.draft.lack
        waits = not self.draft.seen.job.spec.suspend and self.tasks.waiting(0)
        return start_failures.lasting(lack) if lack is not None and lack.final and waits else None

    def _phase(self) -> Phase:
        suspended = self.draft.phase is Phase.SUSPENDED
        stopping = (pod for pod in self.pods.alive.values() if deleting(pod))
        if self.draft.seen.job.spec.suspend or (suspended and self._stops(stopping)):
            return Phase.SUSPENDED
        if self.running or self.pods.untouched.runs:
            return Phase.RUNNING
        if self.pods.alive or self.pods.untouched.starts or self.pods.ended or self.draft.known.start.posted:
            return Phase.STARTING
        waits = self.tasks.waiting(0)
        return Phase.INTERRUPTED if waits & self.tasks.interrupted else Phase.WAITING

    @property
    def wanted(self) -> int:
        """How many tasks may run at once, as its user says."""
        return self.spec.at_once

    @property
    def bearable(self) -> int:
        """The same for the size of their pods in etcd. A large spec is about as large as the pods made from it."""
        return pods_at_once(max(self.draft.known.pod_bytes, self.draft.seen.spec_bytes or 0))

    @property
    def summary(self) -> str:
        """How far the array is, in words."""
        tasks, running = self.tasks, self.running_tasks.bit_count()
        failed = f", {tasks.failed.bit_count()} failed" if tasks.failed else ""
        runs = f", {running} running" if running else ""
        silent = [pod.metadata.name for _, pod in sorted(self.abandoned.items())]
        lost = f", {len(silent)} on nodes that do not answer ({silent[0]})" if silent else ""
        most = f", no more than {self.bearable} at once as their pods are large" if self.bearable < self.wanted else ""
        return f"{tasks.completed.bit_count()} of {tasks.size} tasks completed{failed}{runs}{lost}{most}"

    def _end(self) -> None:
        tasks = self.tasks
        if not tasks.failed:
            self._complete(f"all {tasks.size} tasks completed")
            return
        which = format_tasks(self.spec.numbers, tasks.failed)
        shown = which if len(which) <= 200 else f"{which[:200].rpartition(',')[0]}, …"
        self._fail(FailureReason.TASKS_FAILED, f"{tasks.failed.bit_count()} of {tasks.size} tasks failed: {shown}")

    def _complete(self, message: str) -> None:
        self.draft.set(finished_timestamp=second(self.draft.seen.now))
        self.draft.enter(Phase.COMPLETED, StateReason.COMPLETED, message)

    def _fail(self, reason: str, message: str) -> None:
        finished.declare_failed(self.draft, self.draft.seen.now, reason, message)

    def finish(self) -> None:
        """Pods of an array that is over stop, and its Job says how it ended."""
        draft, batch = self.draft, self.draft.own_job
        if not self.may_write:
            return
        if batch is not None and batch.metadata.deletion_timestamp is None:
            done = self.tasks.completed
            text = format_indexes(done)
            managed.end(
                draft,
                batch,
                succeeded=done.bit_count(),
                size=self.tasks.size,
                completed_indexes=text if text[:1].isdecimal() else "",
            )
        if batch is None or draft.phase is Phase.COMPLETED or managed.has_ended(batch):
            living = (pod for _, pod in self.pods.living)
            draft.actions += leftover_pods.stop(living, RemovalReason.FINISHED.value)

    # --- starts ---

    def stand(self) -> Stand | None:
        """How the array stands in its queue; None where no task of it may start."""
        draft, seen = self.draft, self.draft.seen
        if draft.phase.finished or seen.job.spec.suspend or draft.phase is Phase.SUSPENDED:
            return None
        stuck, waits = waiting.stuck(draft, ()), self.tasks.waiting(self._names_taken)
        if not self.spec.starts_after_success and (draft.unproven or self.endings.succeeded):
            waits &= self.tasks.interrupted
        most = max(0, min(self._room(), waits.bit_count()))
        free = self._usable() and stuck is None and not draft.start_failed and self._rest() <= 0
        units = most if free and self._lacks() is None else 0
        # Interrupted tasks stand before other jobs. While one of them waits, no other task starts by its place.
        first = (waits & self.tasks.interrupted).bit_count() or most
        self.startable = min(units, first) if not draft.granted.units else 0
        return Stand(units, stuck or self._taken(most), self.summary, self.may_write)

    def start(self, job: CreateJob, units: int) -> Action:
        """Pods of tasks are created, and before them their Job."""
        draft, name = self.draft, self.draft.seen.job.metadata.name
        draft.set(job_name=name)  # before there are pods, their queue cannot change any more
        job = replace(job, plain_names=self.pods.plain(name))
        return StartTasks(job, self.tasks.next(units, self._names_taken), draft.granted.number)

    def _usable(self) -> bool:
        """Whether tasks may start under the Job that is there, if any. One that says that it has ended goes."""
        draft, batch, any_job = self.draft, self.draft.own_job, self.draft.seen.batch
        if batch is None or batch.metadata.deletion_timestamp is not None:
            return any_job is None
        if is_managed(batch) and not managed.has_ended(batch):
            return True
        draft.actions.append(DeleteJob(batch.metadata.uid, "its array goes on"))
        return False

    @property
    def _names_taken(self) -> int:
        """Tasks that cannot start, as there is a pod of their name: a set."""
        start = self.draft.known.start
        return self.pods.present | start.posted | set_of(start.name_taken)

    def _room(self) -> int:
        """So many more tasks may run. One keeps its name on a node that does not answer, but not its place in
        maxRunning; one whose success is to be proven has its name still, and no capacity."""
        unproven, untouched = {one.uid for one in self.draft.unproven}, self.pods.untouched
        ended = (task for task, pod in self.pods.ended.items() if pod.metadata.uid not in unproven)
        busy = set_of((*(self.pods.alive.keys() - self.abandoned.keys()), *ended))
        busy |= untouched.runs | untouched.starts | self.draft.known.start.posted
        busy |= self._resting
        return min(self.wanted, self.bearable) - busy.bit_count()

    @property
    def _resting(self) -> int:
        """Tasks that rest and keep their places: a set. One whose pod a finalizer of others keeps has none. Nor has one
        that rests for want of space in the status, where nothing runs: others make space as they end."""
        if not self.spec.rests_by_task:
            return 0
        rest = set_of(task for task, pod in self.pods.counted.items() if not deleting(pod) or _goes_at_once(pod))
        if not self.pods.any_living:
            rest &= ~self.spec.told_by_pods
        return rest & ~self.tasks.over

    def _taken(self, startable: int) -> Wait | None:
        """Why nothing starts though tasks wait: pods of others have the names of theirs."""
        held = self.draft.known.start.name_taken
        waits = self.tasks.waiting(self.pods.present) & set_of(held)
        if startable or not waits:
            return None
        name = held[next(indexes_of(waits))]
        said = f"held back by pod {name}, which has the name of a task's and does not belong to it: delete that pod"
        return Wait(WaitReason.HELD_BACK, said)

    def _rest(self) -> float:
        """Seconds until tasks may start again whose last runs failed at once, or failed at all where tasks share their
        retries."""
        status, now = self.draft.status, self.draft.seen.now
        short, ended = status.short_runs or 0, status.ended_timestamp
        free, least = (0, accounting.RETRY_AFTER) if self.spec.shares_retries else (1, accounting.LEAST_CYCLE)
        if short <= free or ended is None:
            return 0.0
        pause = accounting.pause_of(short - free - 1, least)
        left = min((ended + pause - now).total_seconds(), pause.total_seconds())
        if left > 0:
            self.draft.wakeups.append(left)
        return left

    # --- the result ---

    def outcome(self) -> Outcome:
        """The status, as far as it may be written now, and what follows."""
        draft, before = self.draft, self.draft.seen.job.status
        if self.may_write:
            self.intents.keep(self.pods.has)
            draft.set(array=self.tasks.status(self.running_tasks), removing=self.intents.entries)
            outcome.summarise(draft)
            self._hold_back(before)
        elif self.intents.added:
            draft.set(removing=self.intents.entries)
        elif self.pods.ended or draft.known.start.refused is not None:
            draft.wakeups.append(WRITE_EVERY.total_seconds())
        starts = [at for pod in self.running.values() if (at := started_at(pod)) is not None]
        if (last := self.pods.untouched.last_start) is not None:
            starts.append(last)
        return outcome.outcome_of(
            draft,
            counted=len(self.endings.counted),
            interruptions=self.endings.causes,
            startable=self.startable,
            interrupted_waits=bool(self.startable and self.tasks.waiting(self.pods.present) & self.tasks.interrupted),
            last_start=max(starts, default=None),
            place=self.place if self.startable else None,
        )

    @property
    def place(self) -> datetime | None:
        """Its place in the queue, as the API has it: pods are seen before the status names their start, and the status
        when they are gone. A pod is younger than the place its task had, and says so in whole seconds."""
        status, now = self.draft.status, self.draft.observed.end_of_line
        created = moment(self._youngest)
        starts = [at for at in (created, *status.running_timestamps[-1:]) if at is not None]
        return place_in_queue(status.queued_timestamp, min(max(starts), now) if starts else None, array=True)

    @property
    def _youngest(self) -> str:
        """The creationTimestamp of the youngest pod; empty where there is none."""
        pods = (*self.pods.alive.values(), *self.pods.ended.values(), *self.pods.counted.values())
        return max((self.pods.untouched.last_created, *(pod.metadata.creation_timestamp or "" for pod in pods)))

    def _hold_back(self, before: ScavengerJobStatus) -> None:
        """What only says which tasks run is written once in a while."""
        draft = self.draft
        if self.intents.added:
            return
        if draft.status.model_copy(update={"removing": before.removing}) == before:  # pods that are gone are worth none
            draft.status = before
        if before.array is None or _without_running(draft.status) != _without_running(before) or draft.events:
            return
        if before.job_name is None and draft.status.job_name is not None:
            return
        if draft.phase is not before.phase and Phase.STARTING is not draft.phase:
            return
        left = _left(draft, SHOW_EVERY)
        if left > 0 and draft.status != before:
            draft.status = before
            draft.wakeups.append(left)

    # --- what is proved ---

    @staticmethod
    def lacks(observed: Observation) -> bool:
        """Whether tasks run whose Job or whose pod is not shown. Pods say what became of them; that their Job is gone,
        it has to say."""
        seen, run = observed.seen, accounting.run_of(observed.seen.job.status)
        if vanished(seen) & ~observed.known.start.posted:
            return True
        uid = seen.batch.metadata.uid if seen.batch is not None else ""
        return any(not pod.ended and _of_another_job(pod, run, uid) for pod in seen.pods)

    @staticmethod
    def final(_seen: Seen, _outcome: Outcome) -> bool:
        """Each task ended as its own pod says."""
        return False

    @staticmethod
    def anew(seen: Seen) -> bool:
        """Two pods of one task have the same name, so none can be created twice. But beside those of a Job that is gone
        too many tasks would run, and those of an array that was replaced have other names. So what the first start of a
        Job has found is asked for again until watches show it (`Heard`)."""
        return seen.batch is None


def _of_another_job(pod: kinds.Pod, run: str, uid: str) -> bool:
    """Whether a pod of this run belongs to another Job than the one that is shown, which may be older or newer."""
    owner = pod.metadata.controller
    return pod.metadata.annotations.get(names.ANNOTATION_RUN) == run and owner is not None and owner.uid != uid


def _goes_at_once(pod: kinds.Pod) -> bool:
    """Whether a pod that has ended goes as soon as it is deleted and released."""
    return not set(pod.metadata.finalizers) - {names.FINALIZER}


def _abandoned(draft: Draft, pods: TaskPods) -> dict[int, kinds.Pod]:
    """See `ManyBook.abandoned`. The array is looked at again when there may be another one."""
    seen = draft.seen
    told = {task: pod for task, pod in pods.alive.items() if deleting(pod)}
    left = leftover_pods.find_leftover_pods(told.values(), seen.nodes, seen.now, harmless=True)
    draft.wakeups += [(one.until - seen.now).total_seconds() for one in left if one.until is not None]
    waited = {one.pod.metadata.uid for one in left}
    return {task: pod for task, pod in told.items() if pod.metadata.uid not in waited}


def _without_running(status: ScavengerJobStatus) -> object:
    array = status.array
    kept = array.model_copy(update={"running": 0, "running_indexes": ""}) if array is not None else None
    starts = status.running_timestamps[:1]
    shown = {"phase": None, "message": None, "conditions": (), "job_name": None, "running_timestamps": starts}
    return status.model_copy(update={"array": kept, "removing": None, **shown})


def _may_write(draft: Draft) -> bool:
    """Whether the last write is so long ago that the next one may be."""
    array = draft.status.array
    large = array is not None and _size(array) > LARGE
    stops = draft.seen.job.spec.suspend and of_phase(draft.phase) is None  # its pods wait for the phase
    left = _left(draft, WRITE_LARGE_EVERY if large and not stops else WRITE_EVERY)
    if left > 0:
        draft.wakeups.append(left)
    return left <= 0


def _left(draft: Draft, every: timedelta) -> float:
    last, now = draft.known.last_write, draft.seen.now
    return (last + every - now).total_seconds() if last is not None and last <= now else 0.0


def _size(array: ArrayStatus) -> int:
    counts = len(array.retries_used) + len(array.interruptions or "")
    return len(array.completed_indexes) + len(array.failed_indexes) + counts
