"""What all parts of a simulation share: the clock, the cluster as it is, the jobs, and what is published."""

from __future__ import annotations

from collections.abc import Mapping

from scavenger_api.levels import LevelsState, LevelsView, PublishedLevels

from scavenger_simulator.clock import moment, ticks
from scavenger_simulator.cluster import Cluster
from scavenger_simulator.events import Events
from scavenger_simulator.jobs import Job, Stage
from scavenger_simulator.policies import Decider
from scavenger_simulator.recorder import Recorder
from scavenger_simulator.scenario import Scenario
from scavenger_simulator.settings import Settings


class World:
    """The state of a simulation.

    Attributes:
        jobs: in the scenario's order.
        by_key: the same by namespace/name.
        holding: jobs with pods on nodes, by number, in the order in which they were admitted.
        on_node: per node, the jobs with pods there, and how many, in that order.
        leaving: nodes with pods on their way out, and how many.
        waiting: jobs in line.
        changes: grows whenever jobs come or go, or their classes change.
    """

    def __init__(self, scenario: Scenario, settings: Settings, decider: Decider) -> None:
        self.scenario, self.settings, self.decider = scenario, settings, decider
        self.start, self.end = ticks(scenario.start), ticks(scenario.end)
        self.events = Events(self.start)
        self.cluster = Cluster(scenario.nodes, self.start)
        self.recorder = Recorder(self.cluster)
        self.jobs = [Job(number, demand) for number, demand in enumerate(scenario.jobs)]
        self.by_key = {job.key: job for job in self.jobs}
        if len(self.by_key) != len(self.jobs):
            raise ValueError("two jobs of the scenario have one name")
        self.holding: dict[int, Job] = {}
        self.on_node: list[dict[Job, int]] = [{} for _ in scenario.nodes]
        self.leaving: dict[int, int] = {}
        self._published = PublishedLevels(LevelsState.BLIND, observed_at=moment(self.start))
        self._data: Mapping[str, str] | None = None
        self._view: tuple[int, LevelsView] | None = None
        self.changes = 0
        self.waiting = 0

    @property
    def now(self) -> int:
        """Virtual time, in microseconds."""
        return self.events.now

    # --- what is published ---

    @property
    def published(self) -> PublishedLevels:
        """The levels as the regulator published them last."""
        return self._published

    @published.setter
    def published(self, levels: PublishedLevels) -> None:
        self._published, self._data, self._view = levels, None, None

    @property
    def view(self) -> LevelsView:
        """The same as who reads them sees them at this moment. They are written and read once for all readers."""
        if self._data is None:
            self._data = self._published.to_data()
        if self._view is None or self._view[0] != self.now:
            self._view = self.now, LevelsView.of(self._data, moment(self.now))
        return self._view[1]

    # --- pods of jobs ---

    def place(self, job: Job) -> None:
        """The pods of a job are bound to its nodes."""
        self.changes += 1
        self.holding[job.number] = job
        for node in job.nodes:
            self.cluster.take(node, job.amounts)
            there = self.on_node[node]
            there[job] = there.get(job, 0) + 1

    def remove(self, job: Job) -> None:
        """The pods of a job are gone."""
        del self.holding[job.number]
        for node in job.nodes:
            self.cluster.take(node, job.amounts, -1)
            self.on_node[node].pop(job, None)
        if job.stage is Stage.LEAVING:
            self.count_leaving(job, -1)
        job.nodes = ()

    def count_leaving(self, job: Job, times: int) -> None:
        """The pods of a job are on their way out, or have arrived there."""
        self.changes += 1
        for node in job.nodes:
            count = self.leaving.get(node, 0) + times
            if count:
                self.leaving[node] = count
            else:
                del self.leaving[node]

    def set_use(self, job: Job, use: tuple[int, int]) -> None:
        """Each pod of a job uses so many millicores and bytes from now on."""
        cpu, memory = use[0] - job.use[0], use[1] - job.use[1]
        if not cpu and not memory:
            return
        job.use = use
        job.changes += 1
        now, count = self.events.now, len(job.nodes)
        self.cluster.jobs.add(now, cpu * count, memory * count)
        for node in job.nodes:
            self.cluster.by_node[node].add(now, cpu, memory)
