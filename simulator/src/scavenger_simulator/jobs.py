"""Scavenger jobs as they really run: how far their work has come, and what of it is safe."""

from __future__ import annotations

from enum import StrEnum

from scavenger_api.states import precedence
from scavenger_domain.gang import job_of

from scavenger_simulator.clock import SECOND, ticks
from scavenger_simulator.objects import shape_of
from scavenger_simulator.scenario import ScavengerDemand
from scavenger_simulator.victims import Amounts

NAMESPACE = "scavenger"

NEVER = 1 << 62
"""A moment that does not come."""


class Stage(StrEnum):
    """Where a job stands."""

    FUTURE = "future"
    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    LEAVING = "leaving"
    """In line again, and its pods not gone yet."""
    DONE = "done"


class Job:
    """A job in the simulation. Times are microseconds of virtual time, amounts millicores and bytes.

    Attributes:
        demand: what it asks for, and how it behaves.
        shape: of its pods, as admission sees them.
        pod_uids: of its pods in the present run, which tell them apart from those of other runs.
        nodes: of its pods, by their number; empty while it has none.
        saved: microseconds of its work that are safe.
        class_: the preemption class on its pods.
        written: CPU-seconds at risk as the prioritizer wrote them on its pods; None where it did not.
        next_report: when its pods next report a checkpoint.
        changes: grows with all that the services see of its pods, reported checkpoints where they have been noted.
        task: it is a task of an array.
        places: its interruptions; with interrupted_first "short-runs" those since a run of a checkpoint interval, with
            "least-served" none.
        served: with "least-served" what it has had (`scavenger_domain.gang.served_level`); else None.
        version: changes with each start and end, so that events of an earlier run are known as such.
        useful: core-seconds kept so far; lost: thrown away.
    """

    __slots__ = (
        "admitted",
        "amounts",
        "changes",
        "class_",
        "cores",
        "demand",
        "every",
        "finished",
        "first_start",
        "gone_at",
        "interruptions",
        "key",
        "longest_wait",
        "lost",
        "millicores",
        "next_report",
        "nodes",
        "number",
        "places",
        "pod_keys",
        "pod_uids",
        "queued_at",
        "restart",
        "running_since",
        "runs",
        "saved",
        "served",
        "shape",
        "stage",
        "task",
        "uid",
        "use",
        "useful",
        "version",
        "waited",
        "waits_since",
        "work",
        "written",
    )  # fmt: skip

    def __init__(self, number: int, demand: ScavengerDemand) -> None:
        if not (demand.pods > 0 and demand.cpu_milli > 0 and demand.work_seconds > 0):
            raise ValueError(f"job {demand.name} must have pods, CPU and work")
        self.number = number
        self.demand = demand
        self.key = f"{NAMESPACE}/{demand.name}"
        self.task = job_of(self.key) != self.key
        self.uid = f"{number:08d}"
        self.pod_keys = tuple(f"{self.key}-{i}" for i in range(demand.pods))
        self.pod_uids = self.pod_keys
        self.shape = shape_of(demand.cpu_milli, demand.memory_bytes, demand.pool)
        self.amounts: Amounts = (demand.cpu_milli, demand.memory_bytes, 1)
        self.millicores = demand.cpu_milli * demand.pods
        self.cores = demand.cores
        self.every = max(1, ticks(demand.checkpoint_every or demand.interruption_after))
        if not 0 <= ticks(demand.checkpoint_cost) < self.every:
            raise ValueError(f"job {demand.name} would do nothing but write checkpoints")
        self.work = ticks(demand.work_seconds)
        self.stage = Stage.FUTURE
        self.changes = 0
        self.next_report = NEVER
        self.nodes: tuple[int, ...] = ()
        self.queued_at = ticks(demand.submitted)
        self.waits_since = self.queued_at
        self.waited = self.longest_wait = 0
        self.admitted = self.running_since = self.gone_at = self.restart = self.saved = 0
        self.first_start: int | None = None
        self.finished: int | None = None
        self.runs = self.interruptions = self.places = self.version = 0
        self.served: int | None = None
        self.use = (0, 0)
        self.class_ = ""
        self.written: int | None = None
        self.useful = self.lost = 0.0

    def starts(self, now: int, nodes: tuple[int, ...]) -> None:
        """It is admitted, with its pods on these nodes."""
        self.stage, self.admitted, self.nodes = Stage.STARTING, now, nodes
        self.pod_uids = tuple([f"{key}/{now}" for key in self.pod_keys])
        self.version += 1
        self.changes += 1
        self.class_, self.written = "", None

    def runs_from(self, now: int) -> None:
        """All of its pods run."""
        self.stage, self.running_since = Stage.RUNNING, now
        self.changes += 1
        self.restart = ticks(self.demand.restart_seconds) if self.runs else 0
        self.runs += 1
        if self.first_start is None:
            self.first_start = now
        if self.demand.checkpoint_every is not None:
            self.next_report = now + self.every
        waited = now - self.waits_since
        self.waited += waited
        self.longest_wait = max(self.longest_wait, waited)

    def checkpoint(self, now: int) -> int:
        """When it last wrote one in this run; its start where it has written none."""
        return self.running_since + (now - self.running_since) // self.every * self.every

    def reported(self, now: int) -> int | None:
        """The checkpoint that its pods report; None where they report none, or have written none in this run."""
        if self.demand.checkpoint_every is None:
            return None
        at = self.checkpoint(now)
        return at if at > self.running_since else None

    def note_report(self, now: int) -> None:
        """Take notice of a checkpoint that its pods have reported meanwhile, where `next_report` has come."""
        self.changes += 1
        self.next_report = self.checkpoint(now) + self.every

    def computed(self, now: int) -> int:
        """How much of its work the present run has done up to a moment, in microseconds."""
        passed = now - self.running_since
        cost = ticks(self.demand.checkpoint_cost)
        return max(0, passed - self.restart - passed // self.every * cost)

    def done_at(self) -> int:
        """When the present run ends by itself."""
        needed, cost = self.work - self.saved + self.restart, ticks(self.demand.checkpoint_cost)
        # Each interval between two checkpoints but the last is short of what one costs.
        checkpoints = max(0, -((self.every - needed) // (self.every - cost)))
        return self.running_since + needed + checkpoints * cost

    def safe_work(self, now: int) -> int:
        """How much of its work is safe if the run ends now without being done, in microseconds."""
        at = self.checkpoint(now)
        return self.saved if at == self.running_since else min(self.work, self.saved + self.computed(at))

    def used(self, now: int) -> tuple[int, int]:
        """What each pod uses: millicores and bytes."""
        demand = self.demand
        share = demand.usage[0]
        if now < self.running_since + ticks(demand.ramp_up.seconds):
            share *= demand.ramp_up.fraction
        return round(demand.cpu_milli * share), round(demand.memory_bytes * demand.usage[1])

    @property
    def known_places(self) -> int:
        """`places`, as far as services know of them: of a task that its last run was interrupted, and not how often
        others were (`scavenger_domain.unit.Unit.interruptions`)."""
        return min(self.places, 1) if self.task else precedence(self.places, self.served)

    @property
    def known_interruption(self) -> int:
        """The moment of the last interruption, as far as services know of it: of a task not after its start."""
        return self.running_since if self.task else self.waits_since

    @property
    def holds_room(self) -> bool:
        """Whether its pods are on their nodes."""
        return bool(self.nodes)


def whole_second(at: int) -> int:
    """The next whole second: pods and statuses have no finer times."""
    return -(-at // SECOND) * SECOND
