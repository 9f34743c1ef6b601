"""What must hold of jobs, by what the API shows of them: `make soak` judges by it. Pure; seconds on any one clock.

The rules are those of tests/simulation/system. Of two things at once, a list tells whether they are so: watches of
several kinds, and one that starts over, show them in another order (`doubts`, `confirm`). A job that is Completed is
judged once its pods have been seen up to there, as a watch may be minutes behind: versions of objects are those of one
etcd, and grow. What nobody saw is no proof: where a watch of pods began anew while a job lived, only those rules apply
that what was missed cannot break.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from scavenger_api import names
from scavenger_api.job import Phase, ScavengerJob
from scavenger_api.times import parse_time
from scavenger_domain.gang import job_of, unit
from scavenger_kube.kinds import Job, Pod

BROKEN_SECONDS: Final = 180.0
"""After which nothing of a gang may run that has lost a pod: both admitters may be dead for a minute meanwhile, and
silent for half of one."""
OVERTAKEN: Final = timedelta(seconds=60)
"""A job may start so long after another one of its kind that came later: it had to be seen in line, and a start that an
API server did not answer is tried again."""
UNANSWERED_SECONDS: Final = 120.0
"""After the watch of pods broke, the API server may have been away: a start that it did not answer has its own delay,
and is not compared with others."""
LATER: Final = timedelta(seconds=10)
LEAST_SECONDS: Final = 180.0
"""Of a life, to tell whether something grows in it: in less, one MiB more is growth by 20 MiB an hour."""
REMEMBERED: Final = 80
"""Lines of the history of a job."""


@dataclass
class Member:
    """A pod, as it was seen last.

    Attributes:
        life: which run it is of; a task of an array is one itself.
        ran: a container of it has run.
        alive: a container of it may run.
        told: it is being deleted.
        succeeded: it ended well.
    """

    life: str
    ran: bool = False
    alive: bool = False
    told: bool = False
    succeeded: bool = False


@dataclass
class Story:
    """A ScavengerJob.

    Attributes:
        began: the version in which it was seen first.
        ran: the version in which something of it was seen first to run.
        job: as it was seen last.
        recorded: places in line of the runs that a status said were Running.
        places: by Job, the place in line of its run.
        members: pods by uid.
        broken: since when, of a gang that has lost a pod, others run on.
        done: the version in which it was seen to be Completed.
    """

    began: int
    ran: int | None = None
    job: ScavengerJob | None = None
    recorded: set[datetime] = field(default_factory=set)
    places: dict[str, datetime | None] = field(default_factory=dict)
    members: defaultdict[str, dict[str, Member]] = field(default_factory=lambda: defaultdict(dict))
    broken: dict[str, float] = field(default_factory=dict)
    done: int | None = None
    history: deque[str] = field(default_factory=lambda: deque(maxlen=REMEMBERED))

    def say(self, now: float, words: str) -> None:
        """A line of the history, unless it says nothing new."""
        if not self.history or self.history[-1].partition(" s ")[2] != words:
            self.history.append(f"{now:.1f} s {words}")

    def lives(self) -> dict[str, list[Member]]:
        """The pods of each run that have run; of an array, of each task."""
        found = {unit: [one for one in pods.values() if one.ran] for unit, pods in self.members.items()}
        if self.job is None or self.job.spec.array is not None:
            return found
        runs = defaultdict[str, list[Member]](list)
        for one in (one for pods in found.values() for one in pods):
            runs[one.life].append(one)
        return {run: pods for run, pods in runs.items() if len(pods) >= self.job.spec.parallelism}


class Judge:
    """Sees what happens, and judges.

    Attributes:
        wrong: what must never be, in words, and the history of its job.
        seen: how much there was of what.
    """

    def __init__(self) -> None:
        self.wrong: dict[str, list[str]] = {}
        self.seen = Counter[str]()
        self._stories: dict[str, Story] = {}
        self._completed: dict[str, Story] = {}
        self._doubts: set[str] = set()
        self._followed = 0
        self._broke = -math.inf
        self._gaps: list[tuple[int, float]] = []
        self._starts: defaultdict[tuple[str, str, int], list[tuple[datetime, datetime, str]]] = defaultdict(list)

    # --- what is seen -------------------------------------------------------------------------------

    def follow(self, version: int | None, now: float, *, broke: bool) -> None:
        """Pods have been seen up to this version; None: all are listed anew. broke: their watch did since the last
        time, so that what was between may never be seen."""
        if broke:
            self._broke = now
            self._gaps.append((self._followed, math.inf))
            self.seen["times the watch of pods broke"] += 1
        if version is not None:
            self._followed = version
            self._gaps = [(low, min(high, version)) for low, high in self._gaps]

    def job(self, old: ScavengerJob | None, new: ScavengerJob, now: float) -> None:
        """A ScavengerJob appeared or changed."""
        at, status = version_of(new), new.status
        story = self._story(new.key, at)
        if story.job is None:
            self.seen["arrays" if new.spec.array is not None else "jobs"] += 1
            self.seen["tasks"] += new.spec.array.tasks if new.spec.array is not None else 0
        story.job = new
        story.say(now, f"is {status.phase}, interrupted {status.interrupted_count} times: {status.message}")
        if status.phase is Phase.RUNNING and status.queued_timestamp is not None:
            story.recorded.add(status.queued_timestamp)
        if status.phase is Phase.FAILED:
            self._say(story, new.key, f"is Failed: {status.message}")
        if status.phase is Phase.COMPLETED and story.done is None:
            self.seen["completed"] += 1
            story.done, self._completed[new.key] = at, story
        if old is None:
            return
        if old.status.phase is Phase.COMPLETED and status.phase is not Phase.COMPLETED:
            self._say(story, new.key, f"was Completed and is {status.phase}")
        self.seen["interruptions"] += max(0, status.interrupted_count - old.status.interrupted_count)
        if status.interrupted_count < old.status.interrupted_count:
            self._say(story, new.key, "takes interruptions back")

    def batch(self, batch: Job, now: float) -> None:
        """A Job of a ScavengerJob appeared or changed."""
        meta, place = batch.metadata, parse_time(batch.metadata.annotations.get(names.ANNOTATION_RUN))
        owner = meta.controller
        if owner is None or owner.kind != "ScavengerJob":
            return
        story = self._story(f"{meta.namespace}/{owner.name}", version_of(batch))
        if meta.uid in story.places:
            return
        story.say(now, f"has the Job {meta.name} {meta.uid} of the run {place}")
        began, job = parse_time(meta.creation_timestamp), story.job
        in_line = not story.places and job is not None and not job.status.interrupted_count and job.spec.array is None
        answered = now - self._broke > UNANSWERED_SECONDS
        if in_line and answered and job is not None and place is not None and began is not None:
            shape = (job.metadata.namespace or "", str(job.spec.requests), job.spec.parallelism)
            self._starts[shape].append((place, began, job.key))
        story.places[meta.uid] = place

    def pod(self, pod: Pod, now: float, *, gone: bool) -> None:
        """A pod of a ScavengerJob appeared, changed or is gone."""
        name, meta, at = unit(pod), pod.metadata, version_of(pod)
        story = self._story(job_of(name), at)
        members = story.members[name]
        self.seen["pods"] += meta.uid not in members
        member = members.setdefault(meta.uid, Member(run_of(pod)))
        self.seen["pods that ran"] += has_run(pod) and not member.ran
        member.ran |= has_run(pod)
        member.alive, member.told = computes(pod) and not gone, bool(meta.deletion_timestamp) or gone
        member.succeeded |= pod.succeeded
        if member.ran and story.ran is None:
            story.ran = at
        state = "is gone" if gone else f"is {pod.status.phase}{', told to go' if member.told else ''}"
        story.say(now, f"pod {meta.name} {meta.uid} of {member.life} on {pod.spec.node_name or 'no node'} {state}")
        if len({one.life for one in members.values() if one.alive}) > 1:
            self._doubts.add(job_of(name))
        self._look_at_gang(story, member.life, now)

    def _look_at_gang(self, story: Story, life: str, now: float) -> None:
        if story.job is None or (size := story.job.spec.parallelism) == 1:
            return
        gang = [one for pods in story.members.values() for one in pods.values() if one.life == life]
        if is_broken(gang, size):
            story.broken.setdefault(life, now)
        elif (since := story.broken.pop(life, None)) is not None:
            self.seen["gangs that lost a pod"] += 1
            self.seen["longest broken"] = max(self.seen["longest broken"], round(now - since))

    # --- what is judged -----------------------------------------------------------------------------

    def doubts(self, now: float) -> set[str]:
        """Jobs, as NAMESPACE/NAME, whose pods have to be listed to be sure: see `confirm`."""
        late = {key for key, one in self._stories.items() if any(now - t > BROKEN_SECONDS for t in one.broken.values())}
        return self._doubts | late

    def confirm(self, key: str, pods: Iterable[Pod], now: float) -> None:
        """What one list shows of the pods of a job."""
        self._doubts.discard(key)
        story, found = self._stories[key], list(pods)
        alive = defaultdict[str, set[str]](set)
        for pod in found:
            if computes(pod):
                alive[unit(pod)].add(run_of(pod))
        for name, lives in alive.items():
            if len(lives) > 1:
                self._say(story, key, f"{name} lives twice: {sorted(lives)}")
        for life, since in list(story.broken.items()):
            if now - since > BROKEN_SECONDS:
                story.broken.pop(life)
                if any(run_of(pod) == life and computes(pod) and not pod.metadata.deletion_timestamp for pod in found):
                    self._say(story, key, f"has lost a pod of {life} for {now - since:.0f} s, and others run on")

    def settle(self) -> None:
        """Judge the jobs whose pods were seen up to when they were Completed."""
        for key, story in list(self._completed.items()):
            if story.done is not None and story.done <= self._followed:
                del self._completed[key]
                self._judge_completed(key, story, story.done)

    def _judge_completed(self, key: str, story: Story, done: int) -> None:
        assert story.job is not None
        spec, count, lives = story.job.spec, story.job.status.interrupted_count, story.lives()
        if spec.array is None:
            ended_well = {run for run, pods in lives.items() if sum(p.succeeded for p in pods) >= spec.parallelism}
            proven, times = bool(ended_well), len(lives)
            counted = sum(story.places.get(run) in story.recorded for run in lives.keys() - ended_well)
        else:
            counted = 0
            proven = sum(any(pod.succeeded for pod in pods) for pods in lives.values()) == spec.array.tasks
            times = sum(map(len, lives.values())) - spec.array.tasks + 1
        if self._missed(story.ran if story.ran is not None else story.began, done):
            self.seen["completed out of sight"] += 1
        elif not proven:
            self._say(story, key, "is Completed, and no run of it ended well")
        else:
            self.seen["completed, by their pods"] += 1
        if not self._missed(story.began, done):
            self.seen["counts compared with pods"] += 1
            if count < counted:
                self._say(story, key, f"was interrupted {counted} times, and counted {count}")
            if count > times - 1:
                self._say(story, key, f"counted {count} interruptions of {times} runs")

    def judge_order(self) -> None:
        """In line, jobs of one namespace that ask for the same start as they came."""
        for starts in self._starts.values():
            for key, words in overtaken(starts):
                self._say(self._stories[key], key, words)
        self.seen["starts compared with their line"] = sum(map(len, self._starts.values()))

    def _missed(self, since: int, until: int) -> bool:
        """Whether something may not have been seen between these versions."""
        return any(low <= until and since <= high for low, high in self._gaps)

    def _story(self, key: str, at: int) -> Story:
        return self._stories.setdefault(key, Story(at))

    def _say(self, story: Story, key: str, words: str) -> None:
        self.wrong.setdefault(f"{key} {words}", list(story.history))


def overtaken(starts: Iterable[tuple[datetime, datetime, str]]) -> Iterator[tuple[str, str]]:
    """Which jobs were overtaken, and how: starts are place in line, start, and job."""
    first: tuple[datetime, datetime, str] | None = None  # of those that came later, the first to start
    waiting: list[tuple[datetime, datetime, str]] = []
    for start in sorted(starts, reverse=True):
        waiting.append(start)
        while waiting and waiting[0][0] > start[0] + LATER:
            later = waiting.pop(0)
            first = later if first is None or later[1] < first[1] else first
        if first is not None and start[1] > first[1] + OVERTAKEN:
            yield start[2], f"was in line at {start[0]}, started at {start[1]}; {first[2]}: {first[0]}, {first[1]}"


def version_of(obj: Pod | Job | ScavengerJob) -> int:
    """The version of etcd in which an object was written."""
    return int(obj.metadata.resource_version or 0)


def run_of(pod: Pod) -> str:
    """Which life that is: pods of a gang share that of their Job."""
    owner = pod.metadata.controller
    return pod.metadata.uid if names.LABEL_TASK in pod.metadata.labels or owner is None else owner.uid


def computes(pod: Pod) -> bool:
    """Whether a container of it may run."""
    return bool(pod.spec.node_name) and not pod.ended


def has_run(pod: Pod) -> bool:
    """Whether a container of it runs, or ran."""
    return pod.status.phase == "Running" or bool(pod.ended and pod.status.container_statuses)


def is_broken(gang: Iterable[Member], size: int) -> bool:
    """Whether a gang that was whole has lost a pod, and others are not even told to go."""
    found = list(gang)
    stay = sum(one.alive and not one.told for one in found)
    return sum(one.ran for one in found) >= size and 0 < stay < size - sum(one.succeeded for one in found)


def unexplained(life: Iterable[tuple[float, float, int]], each: float) -> Iterator[tuple[float, float]]:
    """What a process holds besides what its caches have held at most: a heap does not shrink when they do.

    Args:
        life: samples of a process: time, MiB, and how many objects its caches have.
        each: MiB an object takes.

    Yields:
        Time and MiB.
    """
    most = 0
    for at, held, objects in life:
        most = max(most, objects)
        yield at, held - each * most


def slope(lives: Iterable[Iterable[tuple[float, float]]]) -> float:
    """By how much something grows within lives, on average: least squares, each life with a start of its own.

    Args:
        lives: of each its samples, as hours and amounts. Those that span less than `LEAST_SECONDS` are left out.

    Returns:
        Amount an hour; NaN where no life is left.
    """
    above = below = 0.0
    for life in lives:
        samples = list(life)
        if not samples or 3600 * (samples[-1][0] - samples[0][0]) < LEAST_SECONDS:
            continue
        middle_at, middle = (sum(side) / len(samples) for side in zip(*samples, strict=True))
        above += sum((at - middle_at) * (amount - middle) for at, amount in samples)
        below += sum((at - middle_at) ** 2 for at, _ in samples)
    return above / below if below else math.nan
