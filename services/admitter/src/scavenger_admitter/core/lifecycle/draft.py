"""The next status of a job while it is being worked out: the one thing that the phases change."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from scavenger_api.job import Phase, ScavengerJobStatus
from scavenger_api.reasons import InterruptionReason
from scavenger_kube import kinds

from scavenger_admitter.core.lifecycle import accounting
from scavenger_admitter.core.lifecycle.accounting import Spent
from scavenger_admitter.core.lifecycle.actions import Action, EventNote
from scavenger_admitter.core.lifecycle.observation import Observation
from scavenger_admitter.core.lifecycle.termination import Run


@dataclass(slots=True)
class Draft:
    """The next status so far, and what is to follow from it."""

    seen: Observation
    status: ScavengerJobStatus
    reason: str
    """One word on why the job is in its phase."""
    interrupted: str | None
    """The cause of the last interruption, until the job runs again."""
    run: Run | None = None
    """The run in progress."""
    actions: list[Action] = field(default_factory=list)
    events: list[EventNote] = field(default_factory=list)
    wakeups: list[float] = field(default_factory=list)
    candidate: bool = False
    explained: bool = False
    """The status says why it waits."""
    start_failed: bool = False
    retry_late: bool = False
    cause: InterruptionReason | None = None
    waited: float | None = None
    spent: Spent = field(default_factory=Spent)

    @property
    def phase(self) -> Phase:
        """The phase so far; a job without one waits."""
        return self.status.phase or Phase.WAITING

    @property
    def own_job(self) -> kinds.Job | None:
        """The Job, if it belongs to this very ScavengerJob."""
        batch = self.seen.batch
        owner = batch.metadata.controller if batch else None
        return batch if owner is not None and owner.uid == self.seen.job.metadata.uid else None

    def set(self, **changes: Any) -> None:
        """Change fields of the status."""
        self.status = self.status.model_copy(update=changes)

    def enter(self, phase: Phase, reason: str, message: str) -> None:
        """Go to a phase (or stay in it), with one word and a sentence on why."""
        self.reason = reason
        self.set(phase=phase, message=message[:4096])

    @property
    def cpu_time(self) -> accounting.CpuTime:
        """How the CPU time of the run in progress is counted."""
        pods = self.run.pods if self.run is not None else ()
        return accounting.cpu_time(self.seen.job.spec, pods, self.seen.usage)

    def settle(self, end: datetime, *, kept: bool) -> Spent:
        """What is left to be judged of the run in progress when it ends at `end`; its last checkpoint is on record
        from here on."""
        status, run, spec = self.status, self.run, self.seen.job.spec
        checkpoint = None
        if run is not None and accounting.run_start(status) is not None:
            checkpoint = accounting.newer_checkpoint(status, run.pods, run.parallelism, self.seen.now)
        if checkpoint is not None:
            self.set(last_checkpoint_timestamp=checkpoint)
        return accounting.settle(status, spec, end, self.cpu_time, kept=kept, checkpoint=checkpoint)

    def spend(self, spent: Spent) -> None:
        """Count CPU time as useful or lost."""
        self.spent = Spent(self.spent.useful + spent.useful, self.spent.lost + spent.lost)
        self.set(
            useful_cpu_seconds=self.status.useful_cpu_seconds + spent.useful,
            lost_cpu_seconds=self.status.lost_cpu_seconds + spent.lost,
        )

    def note(self, reason: str, message: str, *, warning: bool = False) -> None:
        """Say in an Event what happened, where it leaves the status again: it costs a write, and repeating the phase
        is worth none."""
        self.events.append(EventNote("Warning" if warning else "Normal", reason, message[:1024]))

    def leave_run(self, reason: str) -> None:
        """The run is over: its Job goes, its pods are pods of an earlier run from here on, and the line starts anew."""
        self.set(queued_timestamp=accounting.requeued(self.status, self.seen.now))
        self.run = None
        self.reason = reason
        self.actions.clear()  # nobody needs a diagnosis of it any more
        self.wakeups.clear()
