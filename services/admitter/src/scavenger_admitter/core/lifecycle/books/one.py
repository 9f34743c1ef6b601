"""The book of a job, or of a gang: one run at a time, told by its place in the queue.

An end is recorded at once, as its request is made. That moves the place in the queue, so nothing counts twice
(docs/designs/0001-run-identity.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Self, assert_never

from scavenger_api import names
from scavenger_api.job import Phase, ScavengerJob
from scavenger_api.reasons import WaitReason
from scavenger_api.removing import WHOLE_RUN, RemovalReason, reasons_of
from scavenger_domain.pod_ends import goes_on, moment, started_at
from scavenger_kube.kinds import Job, Pod

from scavenger_admitter.core.lifecycle import (
    accounting,
    checkpointed,
    finished,
    interrupted,
    leftover_pods,
    managed,
    outcome,
    running,
    start_failures,
    starting,
    waiting,
)
from scavenger_admitter.core.lifecycle.actions import Action, CreateJob
from scavenger_admitter.core.lifecycle.draft import Draft
from scavenger_admitter.core.lifecycle.observation import Observation, Outcome, Seen
from scavenger_admitter.core.lifecycle.resized_runs import renew
from scavenger_admitter.core.lifecycle.run import Run
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
from scavenger_admitter.core.lifecycle.waiting import Stand


@dataclass(slots=True)
class OneBook:
    """The status of a job, to be changed."""

    draft: Draft

    @classmethod
    def of(cls, draft: Draft) -> Self:
        """With the run in progress, if there is one. A finished job whose pods run after all runs on, and a run that is
        not on record is adopted."""
        _find_run(draft)
        finished.reopen(draft)
        starting.adopt(draft)
        return cls(draft)

    def runs(self) -> Iterator[Run]:
        """The run in progress. Where the API server refused to create it, there is nothing to judge."""
        draft, run, refused = self.draft, self.draft.run, self.draft.known.start.refused
        if refused is not None and (draft.phase.queued if run is None else refused.of_pod and not run.began):
            starting.fail_start(draft, start_failures.refusal_problem(refused, draft.seen.job.spec))
        elif run is not None and draft.phase.active:
            if run.began:
                running.record_start(draft, run)
            yield replace(run, since=accounting.run_start(draft.status))

    def record(self, run: Run, verdict: Verdict) -> None:
        """Say what the verdict means for the job."""
        draft = self.draft
        match verdict:
            case StartFailed():
                starting.fail_start(draft, verdict.problem)
            case Removed() | Checkpointed() if not run.began:
                starting.fail_start(draft, starting.ended_early(verdict))
            case Starts():
                starting.go_on(draft, run, verdict)
            case Runs():
                running.go_on(draft, run, verdict)
            case Hangs():
                running.fail(draft, verdict)
            case Undecided():
                draft.wait_for_verdict(verdict)
                managed.stop_members(draft, run)
            case Removed():
                interrupted.interrupt(draft, verdict)
            case Checkpointed():
                checkpointed.go_back(draft, verdict)
            case Completed() | Failed():
                finished.end(draft, verdict)
            case _:
                assert_never(verdict)

    def enter_phase(self) -> None:
        """Honour `spec.suspend`, or lift it: the run gives all other phases. A job whose time is used up starts no
        other run."""
        waiting.suspend(self.draft)
        if self.draft.phase.queued:
            running.past_deadline(self.draft)

    def clear(self) -> None:
        """Hear what the pods of the last run said as they ended, and clear away what earlier runs left."""
        checkpointed.record_termination_messages(self.draft)
        waiting.clear_leftovers(self.draft)

    def stand(self) -> Stand | None:
        """How the job stands in its queue; None where it runs, or is over."""
        draft, seen = self.draft, self.draft.seen
        if not draft.phase.queued:
            return None
        harmless, rest = waiting.shares_nothing(draft), waiting.rest(draft)
        left = leftover_pods.find_leftover_pods(draft.left_over, seen.nodes, seen.now, harmless=harmless)
        draft.wakeups += [(r.until - seen.now).total_seconds() for r in left if r.until and r.until > seen.now]
        if rest > 0:
            draft.wakeups.append(rest)
        elif draft.reason == WaitReason.BACKING_OFF:
            draft.reason = WaitReason.QUEUED
        held_by = waiting.stuck(draft, left) or waiting.job_held(draft)
        # Under a Job that lasts, all runs of a member have one name.
        cleared = not draft.left_over if draft.lasts else seen.batch is None
        free = not left and cleared and not draft.known.start.posted and held_by is None and rest <= 0
        if free and renew(draft):
            free = False  # it is placed by its new requests, once they are written
        return Stand(int(free), held_by, "queued for admission")

    def start(self, job: CreateJob, _units: int) -> Action:
        """Its Job is created, and tells its programs how often they were interrupted."""
        return replace(job, restarts=self.draft.status.interrupted_count)

    def finish(self) -> None:
        """Let go of the pods of a finished job."""
        finished.finish(self.draft)

    def outcome(self) -> Outcome:
        """The next status, with the class that the pods of the run have, and what follows."""
        draft = self.draft
        if draft.status.removing and not draft.phase.active:
            draft.set(removing=None)  # the run has ended, and was judged
        outcome.summarise(draft)
        running.show_class(draft)
        return outcome.outcome_of(draft)

    @staticmethod
    def lacks(observed: Observation) -> bool:
        """Whether the Job of a run in progress, or a member of it, is not shown."""
        seen, start = observed.seen, observed.known.start
        status, run, refused = seen.job.status, accounting.run_of(seen.job.status), start.refused
        active = start.shown or (status.phase is not None and status.phase.active)
        if seen.batch is None and refused is not None and refused.server_trouble:
            return True  # the Job may have been created all the same, and its informer be behind
        if seen.batch is None:
            return active or (bool(_of_run(seen, run)) and not (status.phase and status.phase.finished))
        if not active or accounting.run_start(status) is None:
            return False
        members = _of_run(seen, run) if seen.lasts else _of_job(seen, seen.batch)
        return len(members) < seen.job.spec.parallelism

    @staticmethod
    def final(seen: Seen, outcome: Outcome) -> bool:
        """Whether the job is Completed because its Job says so, or finished no longer; or a run ends as the job is
        suspended, or though no pod of it has ended or was told to stop. Its work may be done, or another client may
        have interrupted it before."""
        before, after = seen.job.status.phase, outcome.status.phase
        if after is None:
            return False
        if before is not None and before.finished:
            return not after.finished
        run = accounting.run_of(seen.job.status)
        mine = [pod for pod in seen.pods if pod.metadata.annotations.get(names.ANNOTATION_RUN, "") == run]
        if after is Phase.COMPLETED:
            return sum(pod.status.phase == "Succeeded" for pod in mine) < seen.job.spec.parallelism
        ends = before is not None and before.active and not after.active
        return ends and (after is Phase.SUSPENDED or all(map(goes_on, mine)))

    @staticmethod
    def anew(_: Seen) -> bool:
        """Any start may: each run has a Job of its own."""
        return True


def _of_run(seen: Seen, run: str) -> list[Pod]:
    """The pods of a run. A Job that lasts owns those of all runs."""
    return [pod for pod in seen.pods if pod.metadata.annotations.get(names.ANNOTATION_RUN) == run]


def _of_job(seen: Seen, batch: Job) -> list[Pod]:
    """The pods that a Job owns."""
    return [pod for pod in seen.pods if (owner := pod.metadata.controller) and owner.uid == batch.metadata.uid]


def _find_run(draft: Draft) -> None:
    """The run in progress: the Job of this place in the queue with its pods, or such pods alone."""
    queued = draft.status.queued_timestamp
    if queued is None:
        return
    place, batch = accounting.run_id(queued), draft.own_job
    if draft.lasts:
        pods = _of_run(draft.seen, place)
        if pods or draft.phase.active or draft.known.start.shown:
            draft.run = replace(_run(draft, batch, pods), created=_created(draft, pods))
        return
    if batch is not None and batch.metadata.annotations.get(names.ANNOTATION_RUN) == place:
        draft.run = _run(draft, batch, _of_job(draft.seen, batch))
        return
    # Its Job is gone, or was never noted: pods of this place in the queue say that there was one.
    pods = [pod for pod in _of_run(draft.seen, place) if not _is_older(pod, draft.seen.job)]
    if pods or draft.phase.active or draft.known.start.shown:
        draft.run = _run(draft, None, pods)


def _run(draft: Draft, batch: Job | None, pods: Sequence[Pod]) -> Run:
    """The run in progress with its Job, as far as that exists, and its pods."""
    spec, start = draft.seen.job.spec, accounting.run_start(draft.status)
    counted = accounting.recorded_reference(draft.status, start) if start is not None else draft.status.queued_timestamp
    seen = draft.known.last_seen
    return Run(
        batch,
        tuple(pods),
        spec.parallelism,
        start is not None or _began(draft, batch, pods),
        draft.place,
        spec.saved_exit_code,
        intents=_intents(draft, pods),
        # Who looks again after a long time knows no more than that it ran when the status was written.
        last_seen=max(seen, counted) if seen is not None and counted is not None else seen or counted,
    )


def _created(draft: Draft, pods: Iterable[Pod]) -> datetime:
    """When a run under a Job that lasts was: with its first pod."""
    made = (moment(pod.metadata.creation_timestamp) for pod in pods)
    return min((at for at in made if at is not None), default=draft.seen.now)


def _began(draft: Draft, batch: Job | None, pods: Sequence[Pod]) -> bool:
    """Whether a gang that has no start on record has run together: every pod has, or had, a started container."""
    if batch is None and not pods:
        return draft.phase is Phase.RUNNING
    return len(pods) >= draft.seen.job.spec.parallelism and all(started_at(pod) is not None for pod in pods)


def _intents(draft: Draft, pods: Iterable[Pod]) -> Mapping[str, RemovalReason]:
    """Why the admitter deletes the pods of the run in progress."""
    whole = reasons_of(draft.status.removing or ()).get(WHOLE_RUN)
    return {} if whole is None else {pod.metadata.uid: whole for pod in pods}


def _is_older(pod: Pod, job: ScavengerJob) -> bool:
    """Whether the pod was there before the job. It belongs to an earlier job of that name then. Replicas whose clocks
    are set back may give two jobs one place in the queue, and only the API server's clock tells them apart."""
    made, created = moment(pod.metadata.creation_timestamp), job.metadata.creation_timestamp
    return made is not None and created is not None and made < created
