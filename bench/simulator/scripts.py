"""Small scenarios told in rounds, so that a real cluster and the simulator can both go through them: pure.

A round is a change from outside (jobs submitted, ordinary pods coming, going or using more) and all that follows from
it. What follows is compared round by round, not second by second: a cluster takes as long as it takes. So a script must
be such that who starts and who goes hangs on nothing that a slower cluster would decide otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from scavenger_simulator.policy import Policy
from scavenger_simulator.result import MomentKind
from scavenger_simulator.scenario import FOREVER, NodeSpec, OrdinaryPod, ScavengerDemand, Scenario, UsageTrace
from scavenger_simulator.settings import Settings
from scavenger_simulator.simulation import simulate

ROUND_SECONDS: Final = 60.0
"""Of a round in the simulator: by its end, all that follows from its change has happened."""
MEMORY: Final = 64 << 20
NODE_MEMORY: Final = 64 << 30
JOB_SECONDS: Final = 1_000_000.0
GRACE_SECONDS: Final = 1
PERIOD: Final = 2
COOLDOWN: Final = 4

REGULATOR: Final[Mapping[str, float]] = {
    "period": PERIOD,
    "cooldown": COOLDOWN,
    "level_step": 0,
    "history_min_samples": 100_000,
}
"""Settings of the regulator, in both: levels stay where they begin, 70, 80 and 85."""

SETTINGS: Final = Settings.of(**REGULATOR).changed(
    metrics_period=1.0, metrics_age=0.0, prioritizer_period=1.0, admission_interval=0.1, start_seconds=1.0
)
"""Everything else is as quick as it is on a small cluster whose figures are never old."""

Event = tuple[str, str]
"""What happened, a MomentKind, and the name of the job."""
Rounds = tuple[tuple[Event, ...], ...]
"""What happened in each round, sorted: what happens in one round happens at once, or in an order that follows."""


@dataclass(frozen=True, slots=True)
class JobScript:
    """A ScavengerJob: submitted in a round, ending by itself in another one, unless that is None.

    cpu: of each of its pods, in millicores. use: the share of it that they really use.
    """

    name: str
    submitted: int
    cpu: int
    pods: int = 1
    queue: str = "default"
    interruption_after: int = 3600
    ends: int | None = None
    use: float = 1.0


@dataclass(frozen=True, slots=True)
class PodScript:
    """An ordinary pod: created in a round, deleted in another one. uses: what it uses, in millicores, from the rounds
    on that are the keys; nothing before the first of them."""

    name: str
    created: int
    cpu: int
    uses: Mapping[int, int] = field(default_factory=dict)
    deleted: int | None = None
    interactive: bool = False

    def used(self, round_: int) -> int:
        """What it uses in a round, in millicores."""
        since = max((first for first in self.uses if first <= round_), default=None)
        return 0 if since is None else self.uses[since]


@dataclass(frozen=True, slots=True)
class Script:
    """nodes: allocatable millicores of each. queues: their weights; `default` need not be named."""

    name: str
    nodes: tuple[int, ...]
    rounds: int
    jobs: tuple[JobScript, ...]
    pods: tuple[PodScript, ...] = ()
    queues: Mapping[str, int] = field(default_factory=dict)

    def node_names(self) -> tuple[str, ...]:
        """The names of its nodes, in order."""
        return tuple(f"{self.name}-{number}" for number in range(len(self.nodes)))


def as_scenario(script: Script) -> Scenario:
    """The same for the simulator."""
    return Scenario(
        name=script.name,
        nodes=tuple(
            NodeSpec(name, cpu, NODE_MEMORY) for name, cpu in zip(script.node_names(), script.nodes, strict=True)
        ),
        ordinary=tuple(_ordinary(pod, script.rounds) for pod in script.pods),
        jobs=tuple(_demand(job) for job in script.jobs),
        queues=script.queues,
        end=script.rounds * ROUND_SECONDS,
    )


def _ordinary(pod: PodScript, rounds: int) -> OrdinaryPod:
    return OrdinaryPod(
        name=pod.name,
        arrives=pod.created * ROUND_SECONDS,
        leaves=FOREVER if pod.deleted is None else pod.deleted * ROUND_SECONDS,
        cpu_request_milli=pod.cpu,
        memory_request_bytes=MEMORY,
        usage=UsageTrace(0.0, ROUND_SECONDS, [pod.used(i) for i in range(rounds)], [MEMORY] * rounds),
        interactive=pod.interactive,
    )


def _demand(job: JobScript) -> ScavengerDemand:
    return ScavengerDemand(
        name=job.name,
        queue=job.queue,
        submitted=job.submitted * ROUND_SECONDS,
        pods=job.pods,
        cpu_milli=job.cpu,
        memory_bytes=MEMORY,
        # It starts when it is submitted, or some seconds later, and so ends soon after the beginning of its last round.
        work_seconds=JOB_SECONDS if job.ends is None else (job.ends - job.submitted) * ROUND_SECONDS,
        interruption_after=float(job.interruption_after),
        grace_seconds=GRACE_SECONDS,
        usage=(job.use, 1.0),
    )


def simulated(script: Script) -> Rounds:
    """What happens to the jobs of a script in the simulator, round by round."""
    result = simulate(as_scenario(script), SETTINGS, Policy.OURS, seed=1)
    found: list[list[Event]] = [[] for _ in range(script.rounds)]
    for moment in result.moments:
        found[int(moment.at // ROUND_SECONDS)].append((moment.kind.value, moment.job))
    return tuple(tuple(sorted(events)) for events in found)


def mismatches(one: Rounds, other: Rounds) -> list[str]:
    """What happened in one and not in the other, round by round, in words; an event that came a round later is two."""
    found = []
    for number in range(max(len(one), len(other))):
        first = list(one[number]) if number < len(one) else []
        second = list(other[number]) if number < len(other) else []
        for event in list(first):
            if event in second:
                first.remove(event)
                second.remove(event)
        found += [f"round {number}: {job} {kind} only in the simulator" for kind, job in first]
        found += [f"round {number}: {job} {kind} only on the cluster" for kind, job in second]
    return found


STARTED, COMPLETED = MomentKind.STARTED.value, MomentKind.COMPLETED.value

FILL: Final = Script(
    "fill",
    nodes=(10_000,),
    rounds=7,
    jobs=(
        JobScript("first", 0, 2_000, ends=4),
        JobScript("second", 1, 3_000, ends=5),
        JobScript("third", 2, 2_000),
        JobScript("too-much", 3, 2_000),
        JobScript("small", 3, 500),
        JobScript("last", 4, 3_000),
    ),
)
"""A cluster fills up to the admission level, in the order of the line, past a job that does not fit."""

PREEMPTION: Final = Script(
    "preemption",
    nodes=(10_000,),
    rounds=4,
    jobs=(JobScript("large", 0, 3_000), JobScript("medium", 0, 2_000), JobScript("small", 0, 1_000)),
    pods=(
        PodScript("web", 1, 5_000, {1: 100}, deleted=3),
        PodScript("more", 2, 2_000, {2: 100}, deleted=3),
    ),
)
"""A burst of ordinary pods takes the room of those that lose least, who come back after it."""

EVICTION: Final = Script(
    "eviction",
    nodes=(10_000,),
    rounds=5,
    jobs=(JobScript("large", 0, 3_000), JobScript("medium", 1, 2_000), JobScript("small", 2, 1_000)),
    pods=(PodScript("web", 0, 3_000, {0: 200, 3: 2_900, 4: 200}),),
)
"""The load rises above the upper level: the one goes whose end is enough and who loses least."""

YIELD: Final = Script(
    "yield",
    nodes=(10_000,),
    rounds=5,
    jobs=(
        JobScript("large", 0, 3_000),
        JobScript("checkpoints", 1, 400, interruption_after=10),
        JobScript("small", 2, 1_000),
    ),
    pods=(PodScript("web", 0, 5_000, {0: 200, 3: 4_000, 4: 200}),),
)
"""The load rises well above the admission level: a job goes at its checkpoint, and comes back when there is room."""

GANG: Final = Script(
    "gang",
    nodes=(8_000, 8_000),
    rounds=7,
    jobs=(JobScript("gang", 0, 5_000, pods=2), JobScript("single", 1, 2_000)),
    pods=(
        PodScript("patient", 4, 6_000, {4: 100}, deleted=5),
        PodScript("shell", 5, 6_000, {5: 100}, deleted=6, interactive=True),
    ),
)
"""A gang that has something to lose is protected from a regular pod, but not from an interactive one, for which all of
it goes. It comes back."""

QUEUES: Final = Script(
    "queues",
    nodes=(10_000,),
    rounds=5,
    jobs=(
        JobScript("a-first", 0, 2_000, queue="queue-a"),
        JobScript("a-second", 1, 2_000, queue="queue-a"),
        JobScript("a-third", 2, 2_000, queue="queue-a"),
        JobScript("b-first", 3, 2_000, queue="queue-b", ends=4),
    ),
    queues={"queue-a": 1, "queue-b": 1},
)
"""A queue has more than its share until another one wants its own."""

SCRIPTS: Final = (FILL, PREEMPTION, EVICTION, YIELD, GANG, QUEUES)
