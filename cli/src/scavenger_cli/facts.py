"""What an explanation is made of: everything that is known about one job at one moment. Pure data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from scavenger_api.levels import LevelsView
from scavenger_api.shared_settings import DEFAULT_SETTINGS, SharedSettings
from scavenger_kube.kinds import Pod

from scavenger_cli.objects import Job, Queue
from scavenger_cli.room import Room


class Cause(StrEnum):
    """Where a job is, in one word, unless it waits: then the admitter says why (`scavenger_api.reasons`).

    `-o json` shows one word or the other, and scripts may compare it.
    """

    # no component has said why it waits
    NOT_SEEN_YET = "NotSeenYet"
    NOT_SAID = "NotSaid"
    ADMITTER_SILENT = "AdmitterSilent"
    # it does not wait
    STARTING = "Starting"
    RUNNING = "Running"
    AWAITS_PROOF = "AwaitsProof"
    """Its program ended with 0, and its node has not shown life since."""
    SUSPENDED = "Suspended"
    COMPLETED = "Completed"
    FAILED_BY_EXIT = "FailedByExit"
    FAILED_TO_START = "FailedToStart"
    DELETING = "Deleting"
    # of arrays and tasks
    TASKS_FAILED = "TasksFailed"
    TASK_WAITS = "TaskWaits"
    """A task waits while others of its array run."""
    NOT_RUN = "NotRun"
    """A task that had not ended when its array was over."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known. None: the user may not read it, which is said and not guessed around.

    levels: the regulator's, of the pool of nodes that the job may run in. pool: its name; empty for the default pool.
    queues: all ScavengerQueues. line: the job's place among the queued jobs of its queue, and
    their number. room: what the nodes have for it. pods: the job's own. pull_secrets: names of the
    Secrets that these pull images with, those of their service account included. shared: what all components read.
    admitter_seen: when the admitter last renewed its Lease; `admitter_known` tells "never" from "may not
    be read". snapshot_warning: what `snap` last warned of, as an Event has it; empty without one. pod_use: what
    its pods use now, by name and resource, while it runs. unreadable: what could not be
    read, in words. shunned: nodes on which no job starts as they have refused pods, and what each has said; empty where
    that may not be read.
    """

    job: Job
    now: datetime
    levels: LevelsView | None = None
    pool: str = ""
    queues: Sequence[Queue] | None = None
    line: tuple[int, int] | None = None
    room: Room | None = None
    pods: Sequence[Pod] = ()
    pull_secrets: Sequence[str] = ()
    shared: SharedSettings = DEFAULT_SETTINGS
    admitter_seen: datetime | None = None
    admitter_known: bool = False
    snapshot_warning: str = ""
    pod_use: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    unreadable: tuple[str, ...] = ()
    shunned: Mapping[str, str] = field(default_factory=dict)

    @property
    def queue(self) -> Queue | None:
        """The job's queue, where it is there and may be read."""
        return next((q for q in self.queues or () if q.metadata.name == self.job.spec.queue), None)


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the figures that led to the answer."""

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer to `why`: one sentence, the figures behind it, and what would help. cause: a `Cause`, or the
    published reason."""

    cause: str
    headline: str
    findings: tuple[Finding, ...] = ()
    remedies: tuple[str, ...] = ()
