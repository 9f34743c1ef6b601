"""What is written down of a run as it goes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from scavenger_simulator.clock import SECOND, seconds, ticks
from scavenger_simulator.cluster import Cluster, core_hours
from scavenger_simulator.jobs import Job
from scavenger_simulator.result import JobOutcome, Moment, MomentKind, Point, Totals

_COUNTED = {
    MomentKind.PREEMPTED: "victims",
    MomentKind.EVICTED: "evictions",
    MomentKind.YIELDED: "yields",
    MomentKind.RECLAIMED: "reclaims",
    MomentKind.COMPLETED: "completed",
}


class Recorder:
    """Counts and keeps what happens.

    Attributes:
        minimum: the fewest jobs that would have made the room that was made.
        delays: microseconds that ordinary pods waited, with their CPU request in millicores.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._counts = dict.fromkeys(_COUNTED.values(), 0)
        self.points: list[Point] = []
        self.moments: list[Moment] = []
        self.minimum = 0
        self.delays: list[tuple[int, int]] = []
        self.ordinary_pods = self.unscheduled = 0
        self.full = Counter[str]()
        self.above = self.above_ordinary = self.above_nodes = self.flips = 0

    def note(self, at: int, kind: MomentKind, job: Job, why: str = "", lost: float = 0.0) -> None:
        """Something happened to a job. lost: core-seconds."""
        self.moments.append(Moment(seconds(at), kind, job.demand.name, job.cores, why, lost))
        if kind in _COUNTED:
            self._counts[_COUNTED[kind]] += 1

    def note_period(self, point: Point, nodes_above: int, full: Counter[str]) -> None:
        """A period of the regulator is over.

        Args:
            point: what it saw and said.
            nodes_above: nodes whose CPU was at the upper level or above it.
            full: nodes without idle CPU, by their size.
        """
        self.full += full
        if self.points:
            before = self.points[-1].of_pools
            self.flips += sum(old.admit != new.admit for old, new in zip(before, point.of_pools, strict=False))
        self.points.append(point)
        self.above += any(pool.above() for pool in point.of_pools)
        self.above_ordinary += any(pool.above(ordinary=True) for pool in point.of_pools)
        self.above_nodes += nodes_above

    def totals(self, jobs: Sequence[Job], start: int, end: int, *, starved_after: float, events: int) -> Totals:
        """The figures of the whole run, which is over."""
        ordinary = self._cluster.mean(self._cluster.ordinary, start, end)
        scavenged = self._cluster.mean(self._cluster.jobs, start, end)
        useful = sum(job.useful for job in jobs) / 3600
        lost = sum(job.lost for job in jobs) / 3600
        return Totals(
            utilisation=ordinary[0] + scavenged[0],
            utilisation_without=ordinary[0],
            memory_utilisation=ordinary[1] + scavenged[1],
            memory_utilisation_without=ordinary[1],
            harvested=useful + lost,
            useful=useful,
            lost=lost,
            progress=core_hours(sum(job.saved * job.millicores for job in jobs)),
            periods=len(self.points),
            periods_above_upper=self.above,
            periods_above_upper_ordinary=self.above_ordinary,
            nodes_above_upper=self.above_nodes,
            full_nodes=dict(self.full),
            nodes=len(self._cluster.nodes),
            victims_minimum=self.minimum,
            delays=tuple(sorted(delay / SECOND for delay, _ in self.delays)),
            delayed_core_hours=core_hours(sum(delay * cpu for delay, cpu in self.delays)),
            unscheduled=self.unscheduled,
            ordinary_pods=self.ordinary_pods,
            admit_flips=self.flips,
            starved=sum(1 for job in jobs if job.longest_wait > ticks(starved_after)),
            events=events,
            **self._counts,
        )


def outcome(job: Job) -> JobOutcome:
    """What became of a job."""
    return JobOutcome(
        name=job.demand.name,
        queue=job.demand.queue,
        pods=job.demand.pods,
        cores=job.cores,
        work_seconds=job.demand.work_seconds,
        submitted=job.demand.submitted,
        started=None if job.first_start is None else seconds(job.first_start),
        finished=None if job.finished is None else seconds(job.finished),
        runs=job.runs,
        interruptions=job.interruptions,
        waited=seconds(job.waited),
        longest_wait=seconds(job.longest_wait),
        useful=job.useful,
        lost=job.lost,
    )
