"""The next status of a job while it is being worked out: the one thing that the phases change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from scavenger_api import names
from scavenger_api.job import Phase, ScavengerJobStatus
from scavenger_api.reasons import InterruptionReason
from scavenger_domain.gang import served_level
from scavenger_domain.plain_text import plain
from scavenger_kube import kinds

from scavenger_admitter.core.lifecycle import accounting, limits
from scavenger_admitter.core.lifecycle.accounting import Spent, second
from scavenger_admitter.core.lifecycle.actions import Action, EventNote
from scavenger_admitter.core.lifecycle.observation import Granted, Known, LifecycleSettings, Observation, Seen
from scavenger_admitter.core.lifecycle.run import Run
from scavenger_admitter.core.lifecycle.start_failures import Lack, NodeRefusal
from scavenger_admitter.core.lifecycle.success import Success
from scavenger_admitter.core.lifecycle.verdict import Undecided


@dataclass(slots=True)
class Draft:
    """The next status so far, and what is to follow from it. It has many fields, as each phase adds what it found."""

    observed: Observation
    _written: ScavengerJobStatus
    """The status without `_changes`."""
    reason: str
    """One word on why the job is in its phase."""
    interrupted: str | None
    """The cause of the last interruption, until the job runs again."""
    run: Run | None = None
    """The run in progress."""
    stood_still: datetime | None = None
    """When a container of the run failed, where it is not known yet whose fault that is; None while it computes."""
    actions: list[Action] = field(default_factory=list)
    events: list[EventNote] = field(default_factory=list)
    wakeups: list[float] = field(default_factory=list)
    candidate: bool = False
    explained: bool = False
    """The status says why it waits."""
    start_failed: bool = False
    retry_late: bool = False
    pulls_on: str = ""
    """The node that was pulling the image when the start was taken back."""
    unfit_node: str = ""
    """The node on which the program could not be started, or not be continued from its snapshot."""
    unfit_architecture: str = ""
    """The architecture for which the image has no program, or none that runs there."""
    refused_by: tuple[NodeRefusal, ...] = ()
    """Nodes that did not start pods, and may be at fault: one entry for each pod."""
    lack: Lack | None = None
    """What the last starts have shown to be missing."""
    cause: InterruptionReason | None = None
    stalled: str | None = None
    """Since when the run has reported no checkpoint, in words; None while nothing is wrong with it."""
    waited: float | None = None
    short_run: str | None = None
    """Why the run that ends here ended so soon after its start."""
    spent: Spent = field(default_factory=Spent)
    awaited: frozenset[str] = frozenset()
    """Uids of pods of the last run that have ended and are kept until the others have, for what they report."""
    unproven: list[Success] = field(default_factory=list)
    """Successes that nothing proves yet."""
    only_verdict_waits: bool = False
    """All pods of the run have ended with 0: nothing of it is left to be ended."""
    unsettled: bool = False
    """Pods of the last run may still say that something was saved which counts as lost."""
    _changes: dict[str, Any] = field(default_factory=dict)
    """Fields of the status that have changed since. To copy a status takes as long as much of a plan, so they are put
    into one when it is read."""

    @property
    def status(self) -> ScavengerJobStatus:
        """The next status so far."""
        if self._changes:
            self._written = self._written.model_copy(update=self._changes)
            self._changes.clear()
        return self._written

    @status.setter
    def status(self, status: ScavengerJobStatus) -> None:
        self._written = status
        self._changes.clear()

    @property
    def seen(self) -> Seen:
        """What the API has of the job."""
        return self.observed.seen

    @property
    def known(self) -> Known:
        """What this process knows of it."""
        return self.observed.known

    @property
    def granted(self) -> Granted:
        """What admission has decided of it."""
        return self.observed.granted

    @property
    def rules(self) -> LifecycleSettings:
        """The rules that hold."""
        return self.observed.rules

    @property
    def place(self) -> str:
        """Its place in the queue, as the identity of a run; empty before it has one."""
        return accounting.run_of(self.status)

    @property
    def phase(self) -> Phase:
        """The phase so far; a job without one waits."""
        phase: Phase | None = self._changes.get("phase", self._written.phase)  # asked for more often than any other
        return phase or Phase.WAITING

    @property
    def own_job(self) -> kinds.Job | None:
        """The Job, if it belongs to this very ScavengerJob, or if it is the job itself."""
        batch = self.seen.batch
        owner = batch.metadata.controller if batch else None
        mine = self.lasts or (owner is not None and owner.uid == self.seen.job.metadata.uid)
        return batch if mine else None

    @property
    def lasts(self) -> bool:
        """As `Seen.lasts`."""
        return self.seen.lasts

    @property
    def left_over(self) -> list[kinds.Pod]:
        """The pods of earlier runs."""
        current = {pod.metadata.uid for pod in self.run.pods} if self.run else set()
        return [pod for pod in self.seen.pods if pod.metadata.uid not in current]

    def wait_for_proof(self, found: Iterable[Success]) -> None:
        """Note successes that nothing proves yet, and look again when they are waited for no longer."""
        evidence, now = self.known.evidence, self.seen.now
        for one in found:
            self.unproven.append(one)
            self.wakeups.append(max(0.0, (evidence.until(one, now) - now).total_seconds()))

    def wait_for_verdict(self, found: Undecided) -> None:
        """The run computes nothing any more, so nothing becomes useful, and it is looked at again when its end is
        decided."""
        self.stood_still, self.only_verdict_waits = found.at, not found.failed
        self.wakeups.append((found.until - self.seen.now).total_seconds())
        self.wait_for_proof(found.unproven)

    def set(self, **changes: Any) -> None:
        """Change fields of the status."""
        for name, value in changes.items():
            known = getattr(self._written, name)
            if known is value or known == value:
                self._changes.pop(name, None)
            else:
                self._changes[name] = value

    def enter(self, phase: Phase, reason: str, message: str) -> None:
        """Go to a phase (or stay in it), with one word and a sentence on why."""
        self.reason = reason
        self.set(phase=phase, message=plain(message)[:4096])

    @property
    def taken(self) -> accounting.Taken:
        """How it is counted what the run in progress takes."""
        pods = self.run.pods if self.run is not None else ()
        return accounting.taken(self.seen.job.spec, pods, self.seen.usage)

    def settle(self, end: datetime, *, kept: bool) -> Spent:
        """Book the run in progress, which ends at `end`: that is on record from here on."""
        status, end = self.status, second(end)
        start = accounting.run_start(status)
        if start is None:
            return Spent()
        spent = self.book(status, self.run.pods if self.run is not None else (), end, kept=kept)
        if self.seen.job.spec.active_deadline_seconds is not None:
            self.set(active_seconds=limits.active_seconds(status, start, end))
        # Not before what was counted as useful already: clocks differ, and news of an end may be late.
        self.set(ended_timestamp=max(end, accounting.recorded_reference(status, start)))
        return spent

    def book(self, record: ScavengerJobStatus, pods: Sequence[kinds.Pod], end: datetime, *, kept: bool) -> Spent:
        """Book what a run computed that is not booked yet, and note its last checkpoint.

        Args:
            record: what is known of the run: the status of a job, or the start of a task.
            pods: of the run.
            end: of the run.
            kept: whether all of it is useful.
        """
        seen, known = self.seen, self.status.last_checkpoint_timestamp
        spec, end = accounting.spec_of_run(seen.job.spec, pods), second(min(end, seen.now))
        checkpoint = accounting.newer_checkpoint(record, pods, spec, seen.now)
        if checkpoint is not None:
            older = known is not None and known <= seen.now  # else a clock was ahead
            self.set(last_checkpoint_timestamp=max(checkpoint, known) if known is not None and older else checkpoint)
        taken = accounting.taken(spec, pods, seen.usage)
        spent = accounting.settle(record, spec, end, taken, kept=kept, checkpoint=checkpoint)
        self.spend(spent)
        return spent

    def count_interruption(self, at: datetime) -> None:
        """Count an interruption, and note its moment."""
        stamps = sorted((*self.status.interrupted_timestamps, second(min(at, self.seen.now))))
        self.set(
            interrupted_count=self.status.interrupted_count + 1,
            interrupted_timestamps=tuple(stamps[-names.MAX_RECENT_TIMESTAMPS :]),
        )

    def count_short(self, reason: str) -> str:
        """Count the run that has just been settled where it made no progress. Returns what to say of the pause that
        follows; empty where there is none."""
        started, ended = self.status.running_timestamps[-1:], self.status.ended_timestamp
        if not started or ended is None or ended - started[0] >= accounting.LEAST_CYCLE:
            self.set(short_runs=None)
            return ""
        self.short_run = reason
        self.set(short_runs=(self.status.short_runs or 0) + 1)
        return f"{self.status.short_runs} runs in a row ended within {accounting.LEAST_CYCLE.seconds} s of their start"

    def spend(self, spent: Spent) -> None:
        """Count CPU time as useful or lost."""
        self.spent = Spent(self.spent.useful + spent.useful, self.spent.lost + spent.lost)
        devices: dict[str, Any] = spent.devices(self.status, self.seen.job.spec)
        useful, array = self.status.useful_cpu_seconds + spent.useful, self.seen.job.spec.array
        served = served_level(useful, array.tasks if array is not None else 1) if self.rules.least_served else None
        self.set(
            served_level=served,
            useful_cpu_seconds=useful,
            lost_cpu_seconds=self.status.lost_cpu_seconds + spent.lost,
            **devices,
        )

    def note(self, reason: str, message: str, *, warning: bool = False) -> None:
        """Say in an Event what happened, where it leaves the status again: it costs a write, and repeating the phase
        is worth none."""
        self.events.append(EventNote("Warning" if warning else "Normal", reason, message[:1024]))

    def leave_run(self, reason: str, *, keep_place: bool = False) -> None:
        """The run is over: its Job goes, its pods are pods of an earlier run from here on, their class says nothing any
        more. The job gets a new place in the queue, unless it keeps its place."""
        place = (
            accounting.kept_place(self.status)
            if keep_place
            else accounting.requeued(self.status, self.observed.end_of_line)
        )
        self.set(queued_timestamp=place, preemption=None)
        self.run = None
        self.reason = reason
        self.actions.clear()  # no diagnosis of it is needed any more
        self.wakeups.clear()
