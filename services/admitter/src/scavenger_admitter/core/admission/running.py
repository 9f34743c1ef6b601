"""Jobs and tasks that run, and pods that are on their way out: what preemption takes from, and what it has taken.

A gang is a possible victim only while all of its pods run that have not finished by themselves. The capacity of one
that is starting, losing members or ending does not count. Pods that are terminating still fill their nodes, and their
capacity is as good as free. It is promised to the jobs that wait for it, so that no job is interrupted twice for the
same capacity.

Units: cpu in millicores, memory in bytes, all else in whole units. Times are microseconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import lru_cache
from typing import Final, Protocol

from scavenger_api.duration import parse_duration
from scavenger_api.names import DEFAULT_INTERRUPTION_AFTER, RESOURCE_RECLAIMED_CPU
from scavenger_api.weights import DEFAULT_WEIGHTS, Weights
from scavenger_domain.gang import PER_CPU_SECOND, TRUSTED, equal_members, safe_until, time_at_risk

from scavenger_admitter.core.admission.shape import Requests, counted

DEFAULT_INTERVAL: Final = parse_duration(DEFAULT_INTERRUPTION_AFTER) // timedelta(microseconds=1)

OVERDUE: Final = 60 * 1_000_000
"""A pod that is still there so long after its grace period is stuck."""


@dataclass(frozen=True, slots=True)
class RunningJob:
    """What is known of a job in phase Running, or of a task of an array that runs.

    Attributes:
        key: its unit (`scavenger_domain.gang.unit`).
        uid: of the ScavengerJob.
        queue: its share is used by it.
        parallelism: pods in the gang.
        preemptible: the prioritizer's class; jobs are born preemptible.
        priority: unsaved CPU-seconds as the prioritizer wrote them; None when it did not.
        since: up to here its work is safe, as its status says: last reported or assumed checkpoint, or start.
        started: of the present run.
        interval: a checkpoint is due at least so often.
        interrupted_at: of the last interruption, whatever its cause; 0 for none.
        computes_with: what each pod requests while it runs, as the job says it.
        millicores: what its pods together really used on average since `since`; None: what they count as.
        pod: of a task, `NAMESPACE/NAME` of its pod; life: the UID of that.
    """

    key: str
    uid: str
    queue: str
    parallelism: int = 1
    preemptible: bool = True
    priority: float | None = None
    since: int = 0
    started: int = 0
    interval: int = DEFAULT_INTERVAL
    interrupted_at: int = 0
    computes_with: Requests = ()
    millicores: int | None = None
    pod: str = ""
    life: str = ""


@dataclass(frozen=True, slots=True)
class Gang:
    """A running job and the capacity it has.

    Attributes:
        job: what runs.
        requests: of each pod: what it takes of its node.
        nodes: of the pods that run, one entry each; those that have finished have no capacity.
        on: how many of its pods are on each node.
        counted: what each pod counts as in shares and load.
        takes: what they count as together.
    """

    job: RunningJob
    requests: Requests
    nodes: tuple[str, ...]
    # A cycle looks at ten thousand of them; they change far less often than that.
    on: Mapping[str, int] = field(init=False, repr=False, compare=False)
    counted: Requests = field(init=False, repr=False, compare=False)
    takes: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        each, on = counted(self.requests), dict[str, int]()
        for node in self.nodes:  # a Counter takes three times as long to be made, for ten thousand at a takeover
            on[node] = on.get(node, 0) + 1
        object.__setattr__(self, "on", on)
        object.__setattr__(self, "counted", each)
        object.__setattr__(self, "takes", _times(each, len(self.nodes)))

    def request(self, resource: str) -> int:
        """What one pod requests of a resource; 0 when it does not name it."""
        return next((value for name, value in self.requests if name == resource), 0)

    def risk(self, now: int, startup_cost: int, trusted: int = TRUSTED, weights: Weights = DEFAULT_WEIGHTS) -> int:
        """What would be computed again if it went now (`scavenger_domain.gang.AtRisk.cost`).

        `startup_cost`: microseconds added until the first checkpoint after a start. `trusted`: the longest
        interval that is taken at its word, microseconds. `weights`: of resources.
        """
        if self.job.priority is not None:
            return round(self.job.priority * PER_CPU_SECOND)
        started, interval = self.job.started, self.job.interval
        since = safe_until(started, interval, (self.job.since,), now)
        lost = time_at_risk(started, since, now, startup_cost, interval, trusted)
        each = self.job.computes_with or self.counted
        if self.job.millicores is not None:
            return lost * weights.cost_using(self.job.millicores, _times(each, len(self.nodes)))
        cost, reclaimed = _cost(each, self.requests, weights)
        return lost * equal_members(cost, self.job.parallelism, len(self.nodes), reclaimed=reclaimed)


@lru_cache(maxsize=4096)
def _times(requests: Requests, pods: int) -> Mapping[str, int]:
    """What so many pods take together; shared by all gangs of that kind."""
    return {name: value * pods for name, value in requests}


@lru_cache(maxsize=4096)
def _cost(each: Requests, requests: Requests, weights: Weights) -> tuple[int, bool]:
    """What a pod costs, and whether it is on reclaimed capacity; asked for ten thousand gangs of a few kinds in a
    cycle."""
    return weights.cost(dict(each)), any(name == RESOURCE_RECLAIMED_CPU and value for name, value in requests)


@dataclass(frozen=True, slots=True)
class TerminatingPod:
    """A scavenger pod that has been told to go and still fills its node.

    Attributes:
        node: where it is.
        queue: whose share it still uses.
        requests: what comes free.
        counts: whether its node counts for the load.
        started: second since the epoch.
        job: namespace/name of its ScavengerJob.
    """

    node: str
    queue: str
    requests: Requests
    counts: bool = True
    started: int = 0
    job: str = ""

    @property
    def counted(self) -> Requests:
        """What its queue and the load are relieved of."""
        return counted(self.requests)


class BoundPod(Protocol):
    """A scavenger pod, as far as it matters here."""

    @property
    def key(self) -> str: ...  # noqa: D102
    @property
    def uid(self) -> str: ...  # noqa: D102
    @property
    def unit(self) -> str: ...  # noqa: D102
    @property
    def queue(self) -> str: ...  # noqa: D102
    @property
    def node(self) -> str: ...  # noqa: D102
    @property
    def requests(self) -> Requests: ...  # noqa: D102
    @property
    def run(self) -> str: ...  # noqa: D102
    @property
    def ended(self) -> bool: ...  # noqa: D102
    @property
    def succeeded(self) -> bool: ...  # noqa: D102
    @property
    def leaves_by(self) -> int: ...  # noqa: D102
    @property
    def started(self) -> int: ...  # noqa: D102


class RunningJobs:
    """Jobs that run, jobs whose capacity was taken back, and pods that are terminating; kept up to date change by
    change.

    Args:
        pods: all scavenger pods by unit and key; a live view of the owner's mapping.
    """

    def __init__(self, pods: Mapping[str, Mapping[str, BoundPod]]) -> None:
        self._pods = pods
        self._jobs: dict[str, RunningJob] = {}
        self._gangs: dict[str, Gang] = {}
        self._stale: set[str] = set()
        self._interrupted: dict[str, tuple[int, Requests, int]] = {}
        self._terminating: dict[str, BoundPod] = {}

    # --- what is told ---

    def apply(self, job: RunningJob) -> None:
        """A job runs, or what is known of its run has changed. It is not being interrupted."""
        self._interrupted.pop(job.key, None)
        if self._jobs.get(job.key) != job:
            self._jobs[job.key] = job
            self._stale.add(job.key)

    def delete(self, key: str) -> None:
        """A job does not run, and its capacity was not taken back either."""
        self._interrupted.pop(key, None)
        self._drop(key)

    def interrupt(self, key: str, at: int, each: Requests, pods: int) -> None:
        """The capacity of a job was taken back at `at`: whatever pods it still has are terminating. `each`: what one of
        its pods counts as. `pods`: how many still ran; of what was said of one interruption the least counts."""
        known = self._interrupted.get(key)
        self._interrupted[key] = (at, each, pods if known is None else min(pods, known[2]))
        self._drop(key)

    def _drop(self, key: str) -> None:
        if self._jobs.pop(key, None) is not None:
            self._gangs.pop(key, None)
            self._stale.discard(key)

    def touched(self, pod: BoundPod, *, there: bool) -> None:
        """A scavenger pod appeared, changed or went."""
        if (unit := pod.unit) in self._jobs:
            self._stale.add(unit)
        if there and pod.leaves_by and pod.node and not pod.ended:
            self._terminating[pod.key] = pod
        else:
            self._terminating.pop(pod.key, None)

    # --- what a cycle sees ---

    def gangs(self) -> tuple[Gang, ...]:
        """The jobs all of whose pods run, but for those that have finished."""
        for key in self._stale:
            gang = self._gang(self._jobs[key])
            if gang is None:
                self._gangs.pop(key, None)
            else:
                self._gangs[key] = gang
        self._stale.clear()
        return tuple(self._gangs.values())

    def _gang(self, job: RunningJob) -> Gang | None:
        pods = self._pods.get(job.key, {})
        # Without generators: a cycle may begin with ten thousand of these, on the event loop.
        alive = [pods[key] for key in sorted(pods) if not pods[key].ended]
        for pod in alive:
            if pod.leaves_by or not pod.node:
                return None
        if not alive:
            return None
        finished = 0
        if len(alive) < len(pods):
            run = alive[0].run
            finished = sum(pod.succeeded and pod.run == run and not pod.leaves_by for pod in pods.values())
        if len(alive) + finished != job.parallelism:
            return None
        first = alive[0]
        if first.queue != job.queue:  # spec.queue was edited while the run started: its share is where its pods count
            job = replace(job, queue=first.queue)
        return Gang(job, first.requests, tuple([pod.node for pod in alive]))

    def terminating(self, now: int, counts: Mapping[str, bool], kept: Set[str]) -> tuple[TerminatingPod, ...]:
        """The pods on their way out, at `now`. One that stays on after its grace period is not counted on any more.

        `counts`: the nodes that count for the load, by name. `kept`: jobs whose capacity no other job may have.
        """
        return tuple(
            TerminatingPod(pod.node, pod.queue, pod.requests, counts.get(pod.node, False), pod.started, pod.unit)
            for pod in sorted(self._going(), key=lambda pod: pod.key)
            if pod.unit not in kept and (not pod.leaves_by or now <= pod.leaves_by + OVERDUE)
        )

    def _going(self) -> Iterator[BoundPod]:
        yield from self._terminating.values()
        for key in self._interrupted:
            yield from (pod for pod in self._alive(key) if pod.key not in self._terminating)

    def _alive(self, key: str) -> Iterable[BoundPod]:
        return (pod for pod in self._pods.get(key, {}).values() if pod.node and not pod.ended)

    def recently_terminated(self, observed_at: int | None, now: int) -> dict[str, int]:
        """What was taken back since a measurement and has left, at `now`: the load still shows it. Empty without
        measurements."""
        total: dict[str, int] = {}
        if observed_at is None:
            return total
        for key, (at, each, pods) in self._interrupted.items():
            if at > now:  # the clock was set back
                self._interrupted[key] = (now, each, pods)
            gone = pods - sum(1 for _ in self._alive(key))
            if at >= observed_at and gone > 0:
                for name, value in each:
                    total[name] = total.get(name, 0) + value * gone
        return total
