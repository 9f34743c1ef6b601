"""What share of the reserved but idle CPU the regulator's offers give away: a model on a real trace, not a cluster.

The regulator's own functions decide in virtual time, everything else is simulated: 50 nodes, each with 20 virtual
machines of a PlanetLab day (a figure every five minutes) as its ordinary pods. Each machine has reserved its peak of
the day (`peak`), or a core (`share`), and nodes are just as big as what is reserved there. One job on each node takes
all that is offered, and is as small again in the next period as the offer has become. Metrics are 15 s late.

What a node has to offer is counted, which is less than what its status shows while more than that is placed there: a
job that never shrinks would keep the status at the highest offer of the day, and the harvest would be that.

- harvest_share: CPU time that was offered and idle under the admission level / all that was idle under it.
- over_upper_count: times (node and period) that ordinary use plus offer was over the upper level, *before* the
  scavengers give way. On a node they do that by themselves, within a scheduling period of the kernel: nobody is
  interrupted for it.
- victims_count: jobs that the regulator would have evicted, or had yield, for the load of the cluster as a whole.

The trace is not part of the project; BENCH_TRACE_DIR says where it is (its origin: github.com/Cloudslab/cloudsim).
"""

from __future__ import annotations

import gzip
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from scavenger_regulator.core.history import History
from scavenger_regulator.core.metrics.metric import RESOURCES
from scavenger_regulator.core.plan import regulate
from scavenger_regulator.core.reclaimed.offer import (
    LastSample,
    Offer,
    OfferRules,
    latest_samples,
    learn_profiles,
    ordinary_uses,
    plan_offers,
)
from scavenger_regulator.core.reclaimed.profile import Profiles
from scavenger_regulator.core.rules import Rules
from scavenger_regulator.core.snapshot import CLUSTER, Figure, Gang, Measurement, NodeFacts, PodFacts
from scavenger_regulator.core.snapshot import Snapshot as Seen
from scavenger_regulator.core.state import ScopeState

from bench import Skipped, trace_folder

TRACES: Final = ("20110322", "20110303")
NODES: Final = 50
MACHINES: Final = 20
CELL: Final = 300.0
CELLS: Final = 288
PERIOD: Final = 30.0
LATE: Final = 15.0
WINDOW: Final = 15.0
GIB: Final = 2.0**30
MEMORY: Final = 64 * GIB
MEMORY_USED: Final = 0.3
BEGIN: Final = datetime(2026, 1, 2, tzinfo=UTC)
GOAL: Final = ">= 0.8"

RULES: Final = Rules(period=PERIOD)

Figure_ = dict[str, Any]
Course = Sequence[float]
"""Cores used, one figure for every five minutes."""


@dataclass(frozen=True, slots=True)
class Server:
    """A node of the model: what it has, in cores, and what its virtual machines use."""

    cores: float
    course: Course

    def ordinary(self, at: float) -> float:
        """Cores that the virtual machines use at this second of the day."""
        return self.course[min(CELLS - 1, max(0, int(at // CELL)))]


@dataclass(slots=True)
class Harvest:
    """What came of a day. idle, harvested: core-seconds. over: node-periods over the upper level, of `periods`. writes:
    of what a node offers. victims: jobs that would have been evicted or had to yield."""

    idle: float = 0.0
    harvested: float = 0.0
    over: int = 0
    periods: int = 0
    writes: int = 0
    victims: int = 0

    @property
    def share(self) -> float:
        """Of what was idle, how much was offered."""
        return self.harvested / self.idle if self.idle else 0.0


def run() -> list[Figure_]:
    """The figures."""
    folder = trace_folder()
    missing = [name for name in map(file_of, TRACES) if not (folder / name).exists()]
    if missing:
        raise Skipped(f"no {missing[0]} in {folder}; BENCH_TRACE_DIR says where the PlanetLab traces are")
    figures: list[Figure_] = []
    total = Harvest()
    for trace in TRACES:
        machines = read(folder / file_of(trace))
        for reserved in ("peak", "share"):
            day = play(servers(machines, by_peak=reserved == "peak"))
            name = f"reclaimed.{trace}.{reserved}"
            figures += [
                {"name": f"{name}.harvest_share", "value": day.share, "unit": "ratio", "goal": None},
                {"name": f"{name}.over_upper_share", "value": day.over / day.periods, "unit": "ratio", "goal": None},
            ]
            if reserved == "peak":
                total.idle += day.idle
                total.harvested += day.harvested
                total.over += day.over
                total.writes += day.writes
                total.victims += day.victims
                total.periods += day.periods
    return [
        {"name": "reclaimed.harvest_share", "value": total.share, "unit": "ratio", "goal": GOAL},
        {"name": "reclaimed.over_upper_count", "value": total.over, "unit": "times", "goal": None},
        {"name": "reclaimed.victims_count", "value": total.victims, "unit": "jobs", "goal": "<= 0"},
        {"name": "reclaimed.over_upper_of", "value": total.periods, "unit": "times", "goal": None},
        {"name": "reclaimed.writes_per_node_hour", "value": total.writes / total.periods * 120, "unit": "writes"}
        | {"goal": None},
        *figures,
    ]


def file_of(trace: str) -> str:
    """The trace's file."""
    return f"planetlab-{trace}.csv.gz"


def read(path: Path) -> list[list[float]]:
    """Each machine's CPU use over the day, in percent."""
    with gzip.open(path, "rt") as lines:
        return [[float(cell) for cell in line.split(",")] for line in lines if line.strip()]


def servers(machines: list[list[float]], *, by_peak: bool) -> list[Server]:
    """Virtual machines of one core put on nodes at random; few of them on fewer nodes. A node is as big as what they
    reserved: their peaks of the day, or a core each."""
    count = min(NODES, len(machines) // MACHINES)
    chosen = random.Random(1).sample(machines, count * MACHINES)
    found = []
    for number in range(count):
        guests = chosen[number * MACHINES : (number + 1) * MACHINES]
        course = [sum(guest[cell] for guest in guests) / 100 for cell in range(CELLS)]
        found.append(Server(sum(max(guest) for guest in guests) / 100 if by_peak else float(MACHINES), course))
    return found


@dataclass(slots=True)
class Model:
    """A day with the regulator's own functions."""

    nodes: list[Server]
    rules: OfferRules = field(default_factory=OfferRules)
    profiles: Profiles = field(init=False)
    last_samples: dict[str, LastSample] = field(default_factory=dict)
    states: dict[str, ScopeState] = field(default_factory=dict)
    history: dict[str, History] = field(default_factory=lambda: {r: History() for r in RESOURCES})
    shown: dict[str, dict[str, int]] = field(default_factory=dict)
    """By node, what its status shows."""
    offered: dict[str, float] = field(default_factory=dict)
    """Cores that a node really has to offer, and the job there takes."""
    taken: dict[str, float] = field(default_factory=dict)
    """The same when the last sample was taken."""

    def __post_init__(self) -> None:
        self.profiles = Profiles(self.rules.half_life)

    def period(self, at: float, harvest: Harvest) -> None:
        """Measure, decide, offer; then what comes of it until the next period."""
        seen = self.seen(at)
        decision = regulate(seen, self.states, RULES)
        self.states = decision.states
        harvest.victims += len(decision.victims)
        decided = decision.scopes[CLUSTER]
        found = ordinary_uses(seen, RULES.trust)
        self.last_samples = latest_samples(self.last_samples, seen, found)
        learn_profiles(self.profiles, seen, found)
        levels = {r: w.admission for r, w in decided.levels.items()} if decided.reading else {}
        planned = plan_offers(
            seen,
            found,
            self.last_samples,
            dict.fromkeys(seen.nodes, levels) if levels else {},
            self.profiles,
            self.rules,
        )
        self.taken = dict(self.offered)
        for name, offer in planned.items():
            harvest.writes += offer.amounts != self.shown.get(name, dict.fromkeys(RESOURCES, 0))
            self.shown[name] = dict(offer.amounts)
            self.offered[name] = has_to_offer(offer)
        if decided.reading and decided.reading.ordinary:
            for resource in RESOURCES:
                self.history[resource].add(decided.reading.observed_at, decided.reading.ordinary[resource])
        if levels:
            self.count(at, levels["cpu"], decided.levels["cpu"].upper, harvest)

    def count(self, at: float, admission: float, upper: float, harvest: Harvest) -> None:
        """What is used until the next period."""
        for number, node in enumerate(self.nodes):
            ordinary, offered = node.ordinary(at), self.offered[f"n{number}"]
            idle = max(0.0, node.cores * admission / 100 - ordinary)
            harvest.idle += PERIOD * idle
            harvest.harvested += PERIOD * min(idle, offered)
            harvest.over += ordinary + offered > node.cores * upper / 100
            harvest.periods += 1

    def seen(self, at: float) -> Seen:
        """What the regulator knows at this second: a late measurement, and a job on each node that uses what was
        offered, as far as the kernel leaves it."""
        now = BEGIN + timedelta(seconds=at)
        taken = now - timedelta(seconds=LATE)
        facts, gangs, nodes, pods = {}, [], {}, {}
        for number, node in enumerate(self.nodes):
            name = f"n{number}"
            room = {"cpu": node.cores, "memory": MEMORY}
            facts[name] = NodeFacts(name, room, room, counts=True, offered=self.shown.get(name, {}))
            ordinary, placed = node.ordinary(at - LATE), self.offered.get(name, 0.0)
            scavenged = min(self.taken.get(name, 0.0), node.cores - ordinary)
            nodes[name] = _figures(ordinary + scavenged, MEMORY_USED * MEMORY, taken)
            pods[f"lab/{name}"] = _figures(scavenged, 0.0, taken)
            pod = PodFacts(f"lab/{name}", name, name, {"cpu": placed, "memory": 0.0}, True, BEGIN, reclaimed=True)
            gangs.append(Gang(f"lab/{name}", name, (pod,), 1800.0, placed, running=True, started=BEGIN))
        history = {r: f for r, h in self.history.items() if (f := h.figures) is not None}
        return Seen(now, BEGIN, facts, tuple(gangs), Measurement(nodes, pods), history={CLUSTER: history})


def has_to_offer(offer: Offer) -> float:
    """Cores that there really are for whoever comes, be more than that placed."""
    return (offer.amounts["cpu"] if offer.crowded is None else offer.crowded) / 1000


def _figures(cpu: float, memory: float, at: datetime) -> dict[str, Figure]:
    return {"cpu": Figure(max(0.0, cpu), at, WINDOW), "memory": Figure(memory, at)}


def play(nodes: list[Server], rules: OfferRules | None = None) -> Harvest:
    """A day on these nodes."""
    model, harvest = Model(nodes, rules or OfferRules()), Harvest()
    for step in range(int(CELL * CELLS / PERIOD)):
        model.period(PERIOD + step * PERIOD, harvest)
    return harvest
