"""What this process knows of a job beyond the API: one record per job. Lost with the process, and nothing depends on
it: a successor finds what it needs in the API.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from scavenger_api.job import ScavengerJob, ScavengerJobStatus
from scavenger_domain.gang import task_index
from scavenger_kube.kinds import Pod
from scavenger_runtime.clock import Clock

from scavenger_admitter.attempt import UNSEEN_START_SECONDS, Attempt, pause
from scavenger_admitter.core.lifecycle.actions import Cleanup
from scavenger_admitter.core.lifecycle.exits_seen import SeenExit
from scavenger_admitter.core.lifecycle.managed import PODS_AGAIN_SECONDS
from scavenger_admitter.core.lifecycle.observation import InterruptDecision, Outcome
from scavenger_admitter.core.lifecycle.other_jobs import OtherJob
from scavenger_admitter.core.volume_topology import EVERYWHERE, VolumeTopology
from scavenger_admitter.core.waits import Wait
from scavenger_admitter.facts import newer
from scavenger_admitter.heard import Heard
from scavenger_admitter.losses import Losses

STARTED_SECONDS: Final = 3600.0
"""Informers show by then what has become of a Job and its pods, or this process has ended: it is not alive any more
after 300 s in which an informer could not follow."""

TAKEN_SECONDS: Final = 60.0
"""A task whose pod's name others have is tried again after so long."""

PODS_AGAIN_MOST: Final = 30.0
"""Pods that could not be created for now are sent again after so long at the most."""

SKEW: Final = timedelta(minutes=5)
"""By so much the clocks of two replicas may differ."""


@dataclass(frozen=True, slots=True)
class Newcomer:
    """A job that has no status yet: its place in the queue, kept here until the first status says so.

    A process that dies before then has promised nothing; where it had created the Job already, that Job has the place.
    """

    uid: str
    queued_at: datetime


def _own(status: ScavengerJobStatus) -> dict[str, Any]:
    """A status as it is written, without what a prioritizer of an earlier version may have written since."""
    return status.model_copy(update={"preemption": None}).to_dict()


@dataclass(slots=True)
class GangPods:
    """Which pods of one run the API server is known to have, and when those it did not take are sent again.

    Attributes:
        run: of the Job that they belong to.
        made: their names, as the API server has answered lately, or as they are shown.
        unseen: until when those count that are not shown yet, on the monotonic clock.
        complete: all of them are made.
        failures: tries in a row that have made no pod.
        not_before: the next try is not before this, on the monotonic clock.
    """

    run: str = ""
    made: set[str] = field(default_factory=set)
    unseen: dict[str, float] = field(default_factory=dict)
    complete: bool = False
    failures: int = 0
    not_before: float = 0.0

    def sync(self, shown: set[str], now: float) -> None:
        """The informer shows these pods of the run. One that was shown and is not any more is gone, and made again."""
        self.unseen = {name: until for name, until in self.unseen.items() if name not in shown and until > now}
        self.made = shown | self.unseen.keys()

    def failed(self, before: set[str], now: float) -> None:
        """A try has ended early, before which these were made. now: on the monotonic clock."""
        new = self.made - before
        self.unseen |= dict.fromkeys(new, now + UNSEEN_START_SECONDS)
        self.failures = 1 if new else self.failures + 1
        self.not_before = now + pause(self.failures, PODS_AGAIN_SECONDS, PODS_AGAIN_MOST)


class Answer(NamedTuple):
    """What the API server said when the pod of a task was created.

    Attributes:
        pod: its name.
        at: when that was, on the monotonic clock.
    """

    pod: str
    at: float


@dataclass(slots=True)
class JobRecord:
    """One job. What is of a run is of no meaning for the next one, so the run is kept beside it."""

    newcomer: Newcomer | None = None
    in_line: tuple[ScavengerJob, ScavengerJob] | None = None
    """The version of the newcomer that is shown, and the same with its place in the queue."""
    written: ScavengerJob | None = None
    """The version that was written last, while the informer shows an older one."""
    written_at: datetime | None = None
    """When that was."""
    writes: bool = False
    """A status is being written. The watch may show it before the answer comes."""
    shown_meanwhile: str = ""
    """The version that the watch has shown during that write; empty for none."""
    unanswered: list[tuple[ScavengerJob, Outcome]] = field(default_factory=list)
    """Status writes of which no answer came, with the version that they were decided on."""
    attempt: Attempt = field(default_factory=Attempt)
    """The start that is under way, and how those before it ended."""
    take: dict[str, InterruptDecision] = field(default_factory=dict)
    """Lives that are to be interrupted, and why: as in `Granted.take`."""
    gang: GangPods = field(default_factory=GangPods)
    """The pods of the last run that this process has created any of."""
    posted: dict[int, Answer] = field(default_factory=dict)
    """Tasks whose pods were created and are not shown yet."""
    taken: dict[int, Answer] = field(default_factory=dict)
    """Tasks whose pods cannot be created, as others have their names."""
    pod_gone: datetime | None = None
    """When this process saw a pod of it go last."""
    pod_bytes: int = 0
    """The largest pod of a task that the API server has answered with, as JSON; 0 where there was none."""
    place: int = 0
    """Of an array: when this process started tasks of it last, microseconds since the epoch, which is its place in the
    queue. Before it has, pods and status say it to the second."""
    exchanged: tuple[str, int] = ("", 0)
    """The run, and the place in the queue that the job has for it since another one of its namespace has started."""
    told_as: Hashable = None
    """What of an array the admission loop has been told with each of its tasks."""
    unreadable_of: str = ""
    """The run of which was said that it reports checkpoints in words that are no time."""
    learnt_of: str = ""
    """The run whose pods have shown what the API server adds to them."""
    barred: str = ""
    """The last version that cannot be read and of which that was said."""
    ended_others: dict[str, OtherJob] = field(default_factory=dict)
    """Jobs that it waited for and that went when they had ended, by name. At most one for each entry of spec.after."""
    missing: str = ""
    """What its pods need and was not there when it was last looked for."""
    volumes: VolumeTopology = EVERYWHERE
    """Where its claims can be used, as far as they were looked at."""
    looked: float | None = None
    """When that was, by the monotonic clock."""
    told: tuple[Wait, float] | None = None
    """Why it was said to wait, and when, by the monotonic clock."""
    to_be_told: bool = False
    """It is to be told something now."""
    losses: Losses = field(default_factory=Losses)
    """What its statuses say is lost and may still change."""
    done: set[Cleanup] = field(default_factory=set)
    """What the API server has done, while the informer still shows things as they were before."""
    exits: Mapping[str, SeenExit] = field(default_factory=dict)
    """How programs of pods ended that are not counted, by UID."""
    heard: Heard = field(default_factory=Heard)
    """What the API server answered last about its Job and its pods."""

    # --- tasks ---

    def posted_now(self, pods: Iterable[Pod], now: float) -> Collection[int]:
        """The tasks whose pods were created lately and are not among those shown. now: by the monotonic clock."""
        shown = {task_index(pod) for pod in pods}
        self.posted = {
            task: made
            for task, made in self.posted.items()
            if task not in shown and now - made.at < UNSEEN_START_SECONDS
        }
        return self.posted

    def taken_now(self, now: float) -> Mapping[int, str]:
        """The tasks whose names were taken a while ago, each with the name. now: by the monotonic clock."""
        self.taken = {task: found for task, found in self.taken.items() if now - found.at < TAKEN_SECONDS}
        return {task: found.pod for task, found in self.taken.items()}

    # --- versions ---

    def newest(self, shown: ScavengerJob | None) -> ScavengerJob | None:
        """What the informer shows, or what the admitter has just written; a newcomer has its place in the queue
        already."""
        written = self.written
        if shown is None:
            return None
        if written is not None and shown.metadata.uid == written.metadata.uid and newer(written, shown):
            shown = written
        newcomer = self.newcomer
        if newcomer is None or shown.status.phase is not None or newcomer.uid != shown.metadata.uid:
            return shown
        if self.in_line is None or self.in_line[0] is not shown:
            queued = shown.status.queued_timestamp or newcomer.queued_at
            status = shown.status.model_copy(update={"queued_timestamp": queued})
            self.in_line = shown, shown.model_copy(update={"status": status})
        return self.in_line[1]

    def observe(self, shown: ScavengerJob | None) -> None:
        """The informer shows this version, or that the job is gone."""
        if self.written is not None and (shown is None or not newer(self.written, shown)):
            self.written = None

    def wrote_version(self, shown: ScavengerJob | None) -> bool:
        """Whether the informer shows just what was written last: then there is nothing new to see."""
        written = self.written
        return shown is not None and written is not None and written.metadata == shown.metadata

    def shows(self, shown: ScavengerJob | None) -> bool:
        """The informer shows this version. Whether there is something new to see: not what was written last, nor, as
        far as is known yet, what is being written."""
        news = not self.wrote_version(shown)
        if news and self.writes and shown is not None:
            self.shown_meanwhile = shown.metadata.resource_version
            news = False
        self.observe(shown)
        return news

    @contextmanager
    def writing(self) -> Iterator[None]:
        """While a status is written, what the watch shows may be just that."""
        self.writes, self.shown_meanwhile = True, ""
        try:
            yield
        finally:
            self.writes = False

    @property
    def overlooked(self) -> bool:
        """Whether the watch has shown something else than what was written, while that was written."""
        shown, written = self.shown_meanwhile, self.written
        self.shown_meanwhile = ""
        return bool(shown) and (written is None or written.metadata.resource_version != shown)

    def wrote(self, written: ScavengerJob, at: datetime) -> None:
        """A status was written at that moment, and this is the job with it."""
        self.written, self.written_at = written, at
        self.has_status()
        self.unanswered.clear()

    def has_status(self) -> None:
        """The job is no newcomer any more: its status has its place in the queue."""
        self.newcomer = self.in_line = None

    def took_effect(self, job: ScavengerJob) -> tuple[ScavengerJob, Outcome] | None:
        """The write without an answer that this version of the job shows to have been made; each is returned once."""
        if not self.unanswered or not newer(job, self.unanswered[0][0]):
            return None
        made, self.unanswered = self.unanswered, []
        status = _own(job.status)
        return next((one for one in made if _own(one[1].status) == status), None)

    # --- a run ---

    def take_now(self, lives: Collection[str]) -> Mapping[str, InterruptDecision]:
        """What is to be interrupted, of these lives."""
        if self.take:
            self.take = {life: why for life, why in self.take.items() if life in lives}
        return self.take

    def gang_of(self, run: str) -> GangPods:
        """The pods of this run that are made; nothing is known of those of others any more."""
        if self.gang.run != run:
            self.gang = GangPods(run)
        return self.gang

    def exchanged_place(self, run: str) -> int:
        """The place of this run in the queue, microseconds since the epoch, where it is another job's; else 0."""
        return self.exchanged[1] if self.exchanged[0] == run else 0


class JobRecords:
    """The records of all jobs, and the places in the queue of newcomers."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._records: defaultdict[str, JobRecord] = defaultdict(JobRecord)
        self._last_place = datetime.min.replace(tzinfo=UTC)
        self._started: dict[str, float] = {}

    def __getitem__(self, key: str) -> JobRecord:
        """The record of a job, to be changed in place; a new one when there is none."""
        return self._records[key]

    def newest(self, key: str, shown: ScavengerJob | None) -> ScavengerJob | None:
        """The newest known version of a job, of which the informer shows this."""
        record = self._records.get(key)
        return shown if record is None else record.newest(shown)

    def written(self, key: str) -> ScavengerJob | None:
        """The version of a job that was written last, while the informer shows an older one."""
        record = self._records.get(key)
        return record.written if record is not None else None

    def assign_queue_position(self, key: str, shown: ScavengerJob | None) -> None:
        """Give a job without a status its place in the queue; places are given in the order in which jobs are seen."""
        job, record = self.newest(key, shown), self._records[key]
        if job is None or job.status.phase is not None or record.newcomer is not None:
            return
        self._last_place = max(self._clock.now(), self._last_place + timedelta(microseconds=1))
        record.newcomer = Newcomer(job.metadata.uid, self._last_place)

    def observe_queue_position(self, queued: datetime | None) -> None:
        """A job is shown with this place in the queue. Places given from now on are later, unless the clock that it
        came from is wrong by more than replicas may differ."""
        if queued is not None and queued <= self._clock.now() + SKEW:
            self._last_place = max(self._last_place, queued)

    @property
    def last_queue_position(self) -> datetime:
        """The last place in the queue that is known to have been given; none that is much later than the clock."""
        return min(self._last_place, self._clock.now() + SKEW)

    # --- a name ---

    def started(self, key: str) -> None:
        """There is, was, or may soon be a Job of this name, and informers may not show all of its pods. This outlives
        the record: a ScavengerJob that is deleted and created again has a new uid and the same name."""
        now = self._clock.monotonic()
        self._started.pop(key, None)
        self._started[key] = now
        while (oldest := next(iter(self._started))) and self._started[oldest] <= now - STARTED_SECONDS:
            del self._started[oldest]

    def was_started(self, key: str) -> bool:
        """Whether there was a Job of this name within the last hour."""
        return key in self._started

    def forget(self, key: str) -> None:
        """The job is gone, or another one has its name."""
        record = self._records.pop(key, None)
        if record is None:
            return
        record.losses.close()
        if record.written is not None:
            self._records[key].written = record.written
