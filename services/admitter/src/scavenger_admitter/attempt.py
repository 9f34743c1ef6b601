"""One attempt to start a job: from the grant of an admission cycle to the Job that informers show, or to what the API
server said instead. Lost with the process: its successor finds the Job, or grants again.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from scavenger_api import names
from scavenger_api.indexes import MAX_TASKS
from scavenger_api.times import micros
from scavenger_kube.kinds import Job
from scavenger_runtime.clock import Clock

from scavenger_admitter.core.admission.cycle.plan import Start
from scavenger_admitter.core.lifecycle.start_failures import ABSENT, Lack, Refusal

UNSEEN_START_SECONDS: Final = 10.0
"""A Job that was created, or may have been, and that the informer has not shown for this long is looked for again."""

LEAST_WAIT_SECONDS: Final = 0.01
"""Waits are sums of rounded figures. A waiter that is woken slightly too early must not be woken at once for ever."""


class Stage(enum.Enum):
    """How far an attempt has come."""

    NONE = "none"
    GRANTED = "granted"
    """The admission cycle has granted the job capacity; its reconcile creates the Job next."""
    POSTING = "posting"
    """The Job is being created at this moment."""
    POSTED = "posted"
    """It was created, or was there, or may have been created, and the informer does not show it."""
    SEEN = "seen"
    """The informer has shown it."""
    REFUSED = "refused"
    """It was not created. The capacity is given back, and the lifecycle is told why."""


MOST_UNFIT_NODES: Final = 8
"""A start avoids no more nodes than this: each is a line in its pod."""
_UNDER_WAY: Final = (Stage.GRANTED, Stage.POSTING, Stage.POSTED)


def pause(failures: int, first: float, most: float) -> float:
    """Seconds until the next try after so many failures in a row: `first`, doubled with each more, up to `most`."""
    return min(most, first * 2.0 ** min(failures - 1, 30))


@dataclass(frozen=True, slots=True)
class Response:
    """What the API server has said to a start.

    Attributes:
        refusal: why it did not take all of it; None where it did, or where others have the names of pods.
        tasks: how many were granted; 0 for a job.
        made: how many of these have pods.
    """

    refusal: Refusal | None = None
    tasks: int = 0
    made: int = 0

    @property
    def awaited(self) -> bool:
        """Whether a Job is there, or may be, that the informer is to show. Tasks are looked out for one by one."""
        return not self.tasks and (self.refusal is None or self.refusal.unclear)

    @property
    def complete(self) -> bool:
        """Whether all that was granted is made use of."""
        return self.awaited or (self.refusal is None and self.made == self.tasks)


def _with(known: tuple[str, ...], name: str) -> tuple[str, ...]:
    """The last ones, this one among them."""
    return (*(one for one in known if one != name), name)[-MOST_UNFIT_NODES:]


@dataclass(slots=True)
class Attempt:
    """Where the start of a job stands, and how often in a row it has failed."""

    stage: Stage = Stage.NONE
    run: str = ""
    """The run that is being started: a place in the queue."""
    start: Start | None = None
    """What the admission cycle has granted; None for a Job that was found."""
    number: int = 0
    """Of that grant, where it is of tasks; 0 for a job."""
    since: float = 0.0
    """When the present stage was reached, on the monotonic clock."""
    refusal: Refusal | None = None
    """What the API server said; of a Job that may have been created all the same, why that is not known."""
    failures: int = 0
    """Starts in a row that failed."""
    pulls_on: str = ""
    """The node that has most of the image: the next start goes there if it can."""
    unfit_nodes: tuple[str, ...] = ()
    """Nodes on which the program could not be continued from its snapshot, the last ones: starts go to others if they
    can."""
    refused_by: tuple[str, ...] = ()
    """Nodes that have not started its pods since it ran last: the same."""
    unfit_architectures: tuple[str, ...] = ()
    """Architectures for which its image has no program: the same."""
    retry_at: float = 0.0
    """The next start is not before this, on the monotonic clock."""
    not_before: int = 0
    """The same as the wall clock had it, microseconds since the epoch."""
    absent_since: float | None = None
    """Since when starts have found that something is missing which the job refers to, on the monotonic clock."""
    lack: Lack | None = None
    """What the pods of the last starts have shown to be missing, where the API server is not asked."""
    most: int | None = None
    """The next start of an array is of no more tasks than this: capacity that is granted and not used is lost to all
    jobs."""

    @property
    def under_way(self) -> bool:
        """Granted, and not known yet what has become of it."""
        return self.stage in _UNDER_WAY

    def holds_room(self, run: str) -> bool:
        """Whether capacity was taken for the start of that run, and has not been given back."""
        return self.run == run and (self.under_way or self.stage is Stage.SEEN)

    @property
    def units(self) -> int:
        """How many tasks, or pods of a job, were granted capacity and have not used it yet."""
        return len(self.start.nodes) if self.stage is Stage.GRANTED and self.start is not None else 0

    def is_of(self, run: str, number: int) -> bool:
        """Whether it is the start of that run, by the grant of that number."""
        return (self.run, self.number) == (run, number)

    def is_granted(self, run: str, number: int) -> bool:
        """Whether the start of that run was granted capacity by the grant of that number, and has not used it yet."""
        return self.stage is Stage.GRANTED and self.is_of(run, number)

    # --- stages ---

    def grant(self, run: str, start: Start, now: float, number: int = 0) -> None:
        """The admission cycle has chosen the job. `now`: on the monotonic clock, here and below. `number`: of the
        grant."""
        self.stage, self.run, self.start, self.since, self.refusal = Stage.GRANTED, run, start, now, None
        self.number = number

    def post(self, now: float) -> None:
        """The Job is being created."""
        self.stage, self.since = Stage.POSTING, now

    def on_response(self, response: Response, shown: Job | None, now: float) -> None:
        """The API server has answered, or has not in time. shown: the Job of that name, as far as the informer has
        one."""
        self.since, self.refusal = now, self._dated(response.refusal, now)
        if response.tasks:
            self._limit_tasks(response)
        if response.awaited:
            self.stage = Stage.POSTED
            self.observe(shown)
        elif self.refusal is not None:
            self.stage = Stage.REFUSED
        else:
            self.reset()

    def _limit_tasks(self, response: Response) -> None:
        """Half as many tasks are tried after a refusal. Twice as many may be tried after a start of which none was
        refused, up to all of them."""
        if response.refusal is not None:
            self.most = max(1, len(self.start.nodes) // 2) if self.start is not None else self.most
        elif response.complete and self.most is not None:
            self.most = 2 * self.most if self.most < MAX_TASKS else None

    def observe(self, shown: Job | None) -> None:
        """The informer shows this Job. One of another run, or of another owner, is in the way of this attempt."""
        if self.stage is not Stage.POSTED or shown is None:
            return
        if shown.metadata.annotations.get(names.ANNOTATION_RUN) == self.run:
            self.stage, self.refusal = Stage.SEEN, None
        else:
            self.reset()

    def adopt(self, run: str) -> None:
        """The Job of this run is there, whatever created it."""
        self.stage, self.run, self.refusal = Stage.SEEN, run, None

    def reset(self) -> None:
        """Nothing is under way any more, and nothing is to be said of it."""
        self.stage, self.run, self.start, self.refusal = Stage.NONE, "", None, None

    def sync(self, run: str, queue: str, now: float) -> bool:
        """Bring the attempt up to date for a job in `queue` whose place in it is `run`; False when its capacity must be
        given back. Whatever is known of another run is dropped: a status may be written although its answer is lost.
        So is a grant of capacity that another queue has. A Job that stays unseen was not created, or will be found when
        it is created again."""
        moved = self.stage is Stage.GRANTED and self.start is not None and self.start.candidate.queue != queue
        if moved or (self.stage is not Stage.NONE and self.run != run):
            self.reset()
            return False
        if self.stage is Stage.POSTED and now - self.since >= UNSEEN_START_SECONDS:
            if self.refusal is None:
                self.reset()
            else:
                self.stage = Stage.REFUSED
            return False
        return True

    # --- failures ---

    def _dated(self, refusal: Refusal | None, now: float) -> Refusal | None:
        """The same, with how long starts have not found what the job refers to."""
        if refusal is None or refusal.reason != ABSENT:
            self.absent_since = None
            return refusal
        self.absent_since = now if self.absent_since is None else self.absent_since
        return replace(refusal, absent_for=timedelta(seconds=now - self.absent_since))

    def avoid(self, node: str) -> None:
        """The program could not be continued from its snapshot on this node."""
        self.unfit_nodes = _with(self.unfit_nodes, node)

    def hear_refusal(self, node: str) -> None:
        """The node did not start a pod."""
        self.refused_by = _with(self.refused_by, node)

    def avoid_architecture(self, name: str) -> None:
        """The image has no program for this architecture."""
        self.unfit_architectures = _with(self.unfit_architectures, name)

    @property
    def others_than(self) -> tuple[str, ...]:
        """Nodes to which starts do not go where other nodes have capacity."""
        return tuple(dict.fromkeys((*self.unfit_nodes, *self.refused_by)))[-MOST_UNFIT_NODES:]

    def failed(self, clock: Clock, first: float, most: float, *, late: bool) -> None:
        """The start failed: the next one waits `first` seconds, doubled with each failure up to `most`, or
        with `late` that at once. Once, a Job whose fate is not known is tried again when it was looked out for; tasks
        are not looked out for."""
        self.failures += 1
        delay = most if late else pause(self.failures, first, most)
        if self.refusal is not None and self.refusal.unclear and self.failures == 1:
            delay = max(0.0, delay - (clock.monotonic() - self.since))
        self.back_off(clock, delay)

    def back_off(self, clock: Clock, seconds: float) -> None:
        """Nothing is under way any more, and the next start is not before so many seconds have passed, wherever the
        wall clock is set meanwhile."""
        self.retry_at = clock.monotonic() + seconds
        self.not_before = micros(clock.now() + timedelta(seconds=seconds))
        self.reset()

    def starts_from(self, now: float) -> int:
        """From when on the next start may be, microseconds since the epoch; 0 when it may be now."""
        return self.not_before if now < self.retry_at else 0

    def waits(self, clock: Clock) -> Iterator[float]:
        """Seconds until time alone changes what the admission loop is to be told. Asked after every reconcile: the
        queue keeps the lower of two waits, so that a later one is lost when anything happens before it is over."""
        if self.stage is Stage.POSTED:
            yield max(LEAST_WAIT_SECONDS, self.since + UNSEEN_START_SECONDS - clock.monotonic())
        left = self.retry_at - clock.monotonic()
        if left > 0:
            yield max(LEAST_WAIT_SECONDS, left)
