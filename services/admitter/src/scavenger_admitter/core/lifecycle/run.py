"""One run of a job, a gang or a task of an array: what is judged (`judge`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from scavenger_api import names
from scavenger_api.removing import RemovalReason
from scavenger_domain.checkpoints import saved_its_state
from scavenger_domain.pod_ends import Exit, ended_at, moment
from scavenger_kube import kinds


def is_managed(batch: kinds.Job) -> bool:
    """Whether the admitter has the Job, be it one of its own or one that a user created. An earlier version left its
    own to the Job controller."""
    return batch.spec.managed_by in (names.MANAGED_BY, names.MANAGED_BY_ADOPTER)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a job, or of a task: its Job as far as it still exists, and its pods."""

    batch: kinds.Job | None
    pods: tuple[kinds.Pod, ...]
    parallelism: int
    began: bool
    """All pods have run, and so been there: one that is missing now has been removed."""
    life: str
    """How admission identifies it: by its place in the queue, or a task by the UID of its pod."""
    checkpoint_exit_code: int | None = None
    """`spec.checkpointExitCode` of the job."""
    created: datetime | None = None
    """When it was, where its Job is older than the run: that of an array, or a Job of a user."""
    intents: Mapping[str, RemovalReason] = field(default_factory=dict)
    """Why the admitter has committed the deletion of its pods, by uid."""
    since: datetime | None = None
    """From when its intervals are counted; None where it has not begun."""
    open: bool = False
    """Its pod may still run, and its end counts when that has surely ended: a task."""
    task: int | None = None
    """Its index; None for a run of a job."""
    last_seen: datetime | None = None
    """Until when pods that are gone were there, as far as the admitter knows."""

    @property
    def has_job(self) -> bool:
        """Whether its Job is of this run alone; tasks share one, and so do the runs of a Job of a user."""
        return self.created is None

    def gone_since(self, now: datetime) -> datetime:
        """When pods went that are missing now. Where that is not known, when the Job or the first pod was created."""
        if self.last_seen is not None:
            return min(self.last_seen, now)
        objects = [pod.metadata for pod in self.pods] + ([self.batch.metadata] if self.batch is not None else [])
        return min((at for meta in objects if (at := moment(meta.creation_timestamp)) is not None), default=now)

    def computed_until(self, now: datetime) -> datetime:
        """The last end of a program where all have ended, be it known how or not; else now."""
        ends = [ended_at(pod) for pod in self.pods]
        known = [at for at in ends if at is not None]
        return min(now, max(known)) if known and len(known) == len(ends) else now

    def saved(self, ended: Exit) -> bool:
        """Whether this exit says that the state is saved, and is no failure."""
        return ended.main and saved_its_state(ended.code, ended.reason, self.checkpoint_exit_code)
