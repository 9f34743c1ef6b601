"""A run: the services' decisions on a stretch of a cluster's past, under a virtual clock.

`simulate` is a pure function: the same scenario, settings, policy and seed give the same result, to the byte. So does
a `Simulation` that is stopped in between, and resumed from its state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from scavenger_simulator.admission import Admission
from scavenger_simulator.classes import Classes
from scavenger_simulator.clock import ticks
from scavenger_simulator.jobs import Job
from scavenger_simulator.lifecycle import Lifecycle
from scavenger_simulator.oracle import foresee
from scavenger_simulator.ordinary import OrdinaryPods
from scavenger_simulator.policies import decider
from scavenger_simulator.policy import Policy
from scavenger_simulator.recorder import outcome
from scavenger_simulator.regulation import Regulation
from scavenger_simulator.result import MomentKind, RunResult
from scavenger_simulator.scenario import Scenario
from scavenger_simulator.settings import Settings
from scavenger_simulator.state import dumped, restored
from scavenger_simulator.world import World

Progress = Callable[[float], None]
"""Told from time to time how much of a run is done, 0 to 1."""

STEPS = 100
"""How often that is, in a run."""


def simulate(
    scenario: Scenario, settings: Settings, policy: Policy, seed: int, progress: Progress | None = None
) -> RunResult:
    """Run a scenario under a policy. seed: of what is left to chance, which is the policy `random` alone.

    Raises ValueError where the scenario or the settings make no sense.
    """
    if policy is Policy.ORACLE:
        _check(scenario)
        return foresee(scenario, seed)
    simulation = Simulation(scenario, settings, policy, seed)
    for step in range(1, STEPS + 1):
        simulation.run(scenario.start + (scenario.end - scenario.start) * step / STEPS)
        if progress is not None:
            progress(step / STEPS)
    return simulation.result()


def _check(scenario: Scenario) -> None:
    if scenario.end <= scenario.start:
        raise ValueError("a scenario must end after its start")
    if not scenario.nodes:
        raise ValueError("a scenario must have nodes")


class Simulation:
    """A run that stops and goes on. Its parts know the world, and what one tells the others goes through here.

    Args:
        scenario: what is simulated.
        settings: of the services.
        policy: any but the oracle, which decides nothing.
        seed: see `simulate`.

    Raises ValueError where these make no sense.
    """

    def __init__(self, scenario: Scenario, settings: Settings, policy: Policy, seed: int) -> None:
        _check(scenario)
        self._policy, self._seed = policy, seed
        self._world = world = World(scenario, settings, decider(policy, settings, seed))
        self._admission = Admission(world, self)
        self._lifecycle = Lifecycle(world, self)
        self._classes = Classes(world, self._admission)
        self._regulation = Regulation(world, self)
        self._ordinary = OrdinaryPods(world, self._admission, self)
        for job in world.jobs:
            if job.queued_at < world.end:
                world.events.add(job.queued_at, self._lifecycle.submit, job)

    def run(self, until: float) -> None:
        """Go on to a moment of the scenario's clock, in seconds, and no further than its end."""
        self._world.events.run(min(ticks(until), self._world.end))

    def dump(self) -> bytes:
        """The state of everything at this moment: jobs with their checkpoints, pods, levels, what the services
        remember, and what is written down so far."""
        return dumped(self)

    @classmethod
    def resume(cls, state: bytes) -> Simulation:
        """Go on from a state, as often as one likes. state: of `dump` in this version of the simulator. Of
        trusted sources only: reading it runs what it says.

        Raises ValueError for anything but such a state.
        """
        found = restored(state)
        if not isinstance(found, cls):
            raise ValueError("the state is not that of a simulation")
        return found

    def result(self) -> RunResult:
        """Run to the end, and say what came of it. The simulation is over then."""
        world = self._world
        world.events.run(world.end)
        self._lifecycle.close()
        self._ordinary.close()
        totals = world.recorder.totals(
            world.jobs,
            world.start,
            world.end,
            starved_after=world.settings.starved_after,
            events=world.events.count,
        )
        return RunResult(
            scenario=world.scenario.name,
            policy=self._policy.value,
            seed=self._seed,
            totals=totals,
            points=tuple(world.recorder.points),
            moments=tuple(world.recorder.moments),
            jobs=tuple(outcome(job) for job in world.jobs),
        )

    # --- what one part has the others do ---

    def start(self, job: Job, nodes: tuple[int, ...]) -> None:
        """A cycle of admission starts it on these nodes."""
        self._lifecycle.start(job, nodes)

    def reclaim(self, job: Job, why: str) -> None:
        """A cycle of admission takes its room."""
        self._lifecycle.interrupt(job, MomentKind.RECLAIMED, why)

    def evict(self, job: Job, kind: MomentKind, why: str) -> bool:
        """The regulator has it go; tells whether it does."""
        return self._lifecycle.interrupt(job, kind, why)

    def preempt(self, job: Job, why: str) -> None:
        """The scheduler has it go for an ordinary pod."""
        self._lifecycle.interrupt(job, MomentKind.PREEMPTED, why)

    def update_classes(self) -> None:
        """Jobs may have to go: their classes are brought up to date."""
        self._classes.update()

    # --- what one part tells the others ---

    def publish(self) -> None:
        """The regulator has published."""
        self._admission.publish()
        self._ordinary.look_again()

    def on_room(self) -> None:
        """An ordinary pod has left its node."""
        self._admission.wake()

    def on_freed(self, nodes: Iterable[int]) -> None:
        """Room came free on these nodes."""
        self._ordinary.retry(nodes)
        self._admission.wake()

    def on_waiting(self, job: Job) -> None:
        """In line, with or without pods that are leaving."""
        self._admission.on_waiting(job)

    def on_started(self, job: Job) -> None:
        """Its pods are bound."""
        self._admission.on_started(job)

    def on_running(self, job: Job) -> None:
        """Its pods run."""
        self._admission.on_running(job)

    def on_interrupted(self, job: Job, kind: MomentKind) -> None:
        """Its pods have been told to go."""
        self._admission.on_interrupted(job, kind)

    def on_gone(self, job: Job) -> None:
        """Its pods are about to be taken off their nodes."""
        self._admission.on_gone(job)
        self._regulation.on_gone(job)
