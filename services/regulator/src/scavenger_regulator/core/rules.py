"""What an administrator may set of the decisions, in one value. Data, no decisions."""

from __future__ import annotations

from dataclasses import dataclass, field

from scavenger_regulator.core.eviction.plan import EvictionRules
from scavenger_regulator.core.eviction.risk import RiskRules
from scavenger_regulator.core.levels import FLOOR, INITIAL, LevelPolicy, WaterLevels
from scavenger_regulator.core.load import Trust
from scavenger_regulator.core.metrics.metric import Metric
from scavenger_regulator.core.reclaimed.offer import OfferRules
from scavenger_regulator.core.throttle import ThrottleRules


@dataclass(frozen=True, slots=True)
class NodeMemoryRules:
    """hysteresis: points under the eviction threshold that are freed. ahead: seconds over which growth is extrapolated.
    max_victims: jobs per period. risk: what a job would lose."""

    hysteresis: float = 2.0
    ahead: float = 60.0
    max_victims: int = 100
    risk: RiskRules = field(default_factory=RiskRules)
    trust: Trust = field(default_factory=Trust)


@dataclass(frozen=True, slots=True)
class Rules:
    """What an administrator may set; percentages in percent, times in seconds.

    admission_margin: points that the admission threshold keeps below the eviction threshold. min_samples: size of a
    history before it is used. step: points by which a level may move in a period. cpu_samples: in a row at the eviction
    threshold before a job is evicted for the CPU. cooldown: how long nothing is admitted after an eviction. yield_from:
    where between `admission` (0) and `upper` (1) jobs begin to yield, until the load is back at `admission`.
    yield_within: how long after its checkpoint a job may still yield. label_wait: how long after eviction began plans
    are made over jobs that are not preemptible yet; what such a plan still needs of them may follow a period later.
    settle: how long after their grace period evicted pods are waited for. per_node: levels and evictions for each node,
    too. stale_after: how long after its oldest sample a publication holds. risk: what a job would lose. kept_room:
    whether capacity is kept for regular pods, by the hour of the day. metrics: those beside CPU and memory.
    pool_ignores: keys of taints and names of devices that tell no pools apart.
    """

    period: float = 30.0
    reserve: float = 20.0
    floor: float = FLOOR
    admission_margin: float = 5.0
    policy: LevelPolicy = LevelPolicy.EXPONENTIAL
    initial: WaterLevels = INITIAL
    min_samples: int = 60
    step: float = 1.0
    cpu_samples: int = 2
    cooldown: float = 300.0
    yield_at_checkpoint: bool = True
    yield_from: float = 0.5
    yield_within: float = 45.0
    label_wait: float = 45.0
    settle: float = 120.0
    per_node: bool = False
    kept_room: bool = False
    stale_after: float = 101.0
    metrics: tuple[Metric, ...] = ()
    pool_ignores: frozenset[str] = frozenset()
    trust: Trust = field(default_factory=Trust)
    risk: RiskRules = field(default_factory=RiskRules)
    eviction: EvictionRules = field(default_factory=EvictionRules)
    offers: OfferRules = field(default_factory=OfferRules)
    node_memory: NodeMemoryRules = field(default_factory=NodeMemoryRules)
    throttle: ThrottleRules = field(default_factory=ThrottleRules)
