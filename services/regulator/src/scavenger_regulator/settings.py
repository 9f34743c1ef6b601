"""The regulator's settings, by environment or flag."""

from __future__ import annotations

from typing import Final, Literal, Self

from pydantic import field_validator, model_validator
from scavenger_api.names import STALE_AFTER_PERIODS
from scavenger_api.shared_settings import SharedSettings
from scavenger_runtime.settings import (
    ADOPT,
    MINIMUM_RUN,
    POOL_IGNORES,
    PROMETHEUS_CA_FILE,
    PROMETHEUS_POD_CPU,
    PROMETHEUS_POD_MEMORY,
    PROMETHEUS_TAKEN,
    PROMETHEUS_TOKEN_FILE,
    PROMETHEUS_WINDOW,
    RESOURCE_WEIGHTS,
    STARTUP_COST,
    TOLERATED_TAINTS,
    TRUSTED_INTERVAL,
    Names,
    OptionalSeconds,
    OptionalWeights,
    Seconds,
    ServiceSettings,
    option,
)

from scavenger_regulator.core.eviction.plan import SORTERS, EvictionRules
from scavenger_regulator.core.eviction.risk import RiskRules
from scavenger_regulator.core.history import DEFAULT_WINDOW
from scavenger_regulator.core.level_policies import NodeLevels, parse_policies
from scavenger_regulator.core.levels import LevelPolicy, ordered
from scavenger_regulator.core.load import Trust
from scavenger_regulator.core.metrics.added import AddedMetric, parse_added
from scavenger_regulator.core.metrics.metric import RESOURCES, Action, that_throttle
from scavenger_regulator.core.reclaimed.offer import OfferRules
from scavenger_regulator.core.rules import NodeMemoryRules, Rules
from scavenger_regulator.core.throttle import ThrottleRules
from scavenger_regulator.sources.prometheus import NODE_CPU, NODE_MEMORY, Queries

METRICS_INTERVAL: Final = 15.0
"""Seconds between two measurements of a kubelet, and between two questions of metrics-server to it."""

LATE: Final = 15.0
"""Seconds by which figures may be late beside that."""


_RULES: Final = Rules()
"""The rules own the defaults: how a setting begins is stated there."""


class RegulatorSettings(ServiceSettings):
    """Computes the levels, publishes the preemptible percentage, and evicts jobs when the load is too high."""

    period: Seconds = option(_RULES.period, "time between two measurements", unit="seconds", ge=1, le=3600)
    dry_run: bool = option(False, "log which jobs would be evicted, and evict none")
    per_node: bool = option(
        _RULES.per_node,
        "also use levels and evictions for each node, so that the load of large and small nodes is balanced",
    )
    adopt: bool = ADOPT
    tolerated_taints: Names = TOLERATED_TAINTS
    pool_ignores: Names = POOL_IGNORES

    source: Literal["metrics-api", "prometheus", "requests"] = option("metrics-api", "source of the load")
    source_timeout: Seconds = option(10.0, "time for a measurement to arrive", unit="seconds", gt=0)
    max_age: Seconds = option(
        0.0,
        "maximum age of a measurement. 0 means two periods, and at least 45 s with source metrics-api, or "
        "prometheus-window plus 15 s with source prometheus",
        unit="seconds",
        ge=0,
    )
    coverage: float = option(
        _RULES.trust.coverage, "minimum share of the nodes' capacity that must have measurements", ge=0, le=1
    )

    prometheus_url: str = option("", "URL of Prometheus, without /api; required for source prometheus")
    prometheus_token_file: str | None = PROMETHEUS_TOKEN_FILE
    prometheus_ca_file: str | None = PROMETHEUS_CA_FILE
    prometheus_node_cpu: str = option(NODE_CPU, "PromQL: cores used by node, or by the cluster")
    prometheus_node_memory: str = option(NODE_MEMORY, "PromQL: bytes used by node, or by the cluster")
    prometheus_pod_cpu: str = PROMETHEUS_POD_CPU
    prometheus_pod_memory: str = PROMETHEUS_POD_MEMORY
    prometheus_taken: str = PROMETHEUS_TAKEN
    prometheus_window: Seconds = PROMETHEUS_WINDOW
    prometheus_node_label: str = option("node", "label with the name of the node")
    prometheus_history_cpu: str = option(
        "", "PromQL: regular CPU load in percent, for mean and deviation; if empty, the regulator keeps its own history"
    )
    prometheus_history_memory: str = option("", "PromQL: the same for the regular memory load")
    added_metrics: str = option("", "metrics beside CPU and memory: the chart's value addedMetrics, as JSON")

    level_policies: str = option("", "highest levels of nodes by label: the chart's value levelPolicies, as JSON")

    history_window: Seconds = option(
        DEFAULT_WINDOW, "window for mean and deviation of the regular load", unit="seconds", ge=60
    )
    history_min_samples: int = option(_RULES.min_samples, "number of measurements before the history is used", ge=2)

    kept_room: Literal["off", "byHour"] = option(
        "off",
        "with byHour, jobs leave capacity free on the largest nodes, as much as requests of regular pods rose within "
        "half an hour at this hour of the last seven days. The regulator then watches all pods, and learns for a day",
    )

    policy: LevelPolicy = option(_RULES.policy, "how the levels and the preemptible percentage follow the load")
    reserve: float = option(_RULES.reserve, "margin kept for regular workloads", unit="percent", ge=0, le=100)
    admission_margin: float = option(
        _RULES.admission_margin,
        "minimum distance of the admission threshold from the eviction threshold; 0 sets none",
        unit="points",
        ge=0,
        le=100,
    )
    floor: float = option(
        _RULES.floor, "share of the running jobs that is always preemptible", unit="percent", ge=0, le=100
    )
    initial_lower: float = option(
        _RULES.initial.lower, "low watermark while there is no history", unit="percent", ge=0, le=100
    )
    initial_admission: float = option(
        _RULES.initial.admission, "admission threshold while there is no history", unit="percent", ge=0, le=100
    )
    initial_upper: float = option(
        _RULES.initial.upper, "eviction threshold while there is no history", unit="percent", ge=0, le=100
    )
    level_step: float = option(_RULES.step, "maximum move of a level in a period; 0 sets no limit", unit="points", ge=0)
    cpu_samples: int = option(
        _RULES.cpu_samples,
        "number of consecutive CPU samples at the eviction threshold before jobs are evicted for it",
        ge=1,
        le=10,
    )
    cooldown: Seconds = option(
        _RULES.cooldown, "time after an eviction during which no job starts", unit="seconds", ge=0
    )

    max_victims: int = option(_RULES.eviction.max_victims, "maximum number of jobs evicted in a period", ge=1)
    order: Names = option(
        _RULES.eviction.order, f"order of sorters by which victims are chosen, from {', '.join(SORTERS)}"
    )
    hard_ceiling: float = option(
        _RULES.eviction.hard_ceiling,
        "load above which jobs are evicted without waiting for a checkpoint",
        unit="percent",
        ge=0,
        le=100,
    )
    checkpoint_wait: Seconds = option(
        _RULES.eviction.checkpoint_wait,
        "maximum wait for the checkpoint of a job with much unsaved work",
        unit="seconds",
        ge=0,
    )
    much_at_risk: Seconds = option(
        _RULES.eviction.much_at_risk,
        "time since the last checkpoint after which a job has much unsaved work",
        unit="seconds",
        ge=0,
    )
    startup_cost: OptionalSeconds = STARTUP_COST
    trusted_interval: OptionalSeconds = TRUSTED_INTERVAL
    minimum_run: bool | None = MINIMUM_RUN
    resource_weights: OptionalWeights = RESOURCE_WEIGHTS
    settle: Seconds = option(
        _RULES.settle, "time beyond their grace period for evicted pods to disappear", unit="seconds", ge=0
    )
    refused_for: Seconds = option(
        300.0,
        "time before another attempt to evict a job, after a budget refused it or it failed twice; it doubles each "
        "time",
        unit="seconds",
        ge=0,
    )

    yield_at_checkpoint: bool = option(
        _RULES.yield_at_checkpoint,
        "while the load is well above the admission threshold, interrupt jobs right after a checkpoint",
    )
    yield_from: float = option(
        _RULES.yield_from,
        "load at which jobs begin to yield, from the admission threshold (0) to the eviction threshold (1)",
        ge=0,
        le=1,
    )
    yield_within: Seconds = option(
        0.0, "time after a checkpoint in which a job may yield; 0 means one and a half periods", ge=0
    )

    throttle: bool = option(
        _RULES.throttle.enabled,
        "while the load is well above the admission threshold, shrink the CPU of preemptible jobs in place",
    )
    throttle_share: float = option(
        _RULES.throttle.share, "minimum share of its CPU that a throttled job keeps", gt=0, le=1
    )

    reclaimed: bool = option(
        _RULES.offers.enabled,
        "publish for each node what is reserved and idle there, for jobs with capacity: Reclaimed",
    )
    reclaimed_percentile: float = option(
        _RULES.offers.percentile,
        "percentile of the regular use of a node that is kept free, beside its deviation",
        unit="percent",
        ge=0,
        le=100,
    )
    reclaimed_half_life: Seconds = option(
        _RULES.offers.half_life,
        "half-life of a measurement of the regular use of a node",
        unit="seconds",
        ge=60,
    )
    reclaimed_min_samples: int = option(
        _RULES.offers.min_samples, "number of measurements of a node before it offers capacity", ge=1
    )
    reclaimed_step: float = option(
        _RULES.offers.step,
        "maximum growth of an offer in a period, of the allocatable resources",
        unit="percent",
        gt=0,
        le=100,
    )

    @field_validator("order")
    @classmethod
    def _known_sorters(cls, order: tuple[str, ...]) -> tuple[str, ...]:
        unknown = [name for name in order if name not in SORTERS]
        if unknown:
            raise ValueError(f"there is no sorter {unknown[0]!r}: choose from {', '.join(SORTERS)}")
        return order

    @field_validator("added_metrics")
    @classmethod
    def _parsed_metrics(cls, text: str) -> str:
        parse_added(text)
        return text

    @field_validator("level_policies")
    @classmethod
    def _parsed_policies(cls, text: str) -> str:
        parse_policies(text)
        return text

    @model_validator(mode="after")
    def _levels_of_nodes(self) -> Self:
        """`level-policies` require `per-node`, and name only cpu, memory and `added-metrics`. Those with a throttle
        line name a metric for which jobs can be throttled."""
        if self.policies and not self.per_node:
            raise ValueError("--level-policies needs --per-node: without it nodes have no levels of their own")
        known = {*RESOURCES, *(one.metric.name for one in self.added)}
        throttled = {metric.name for metric in that_throttle(one.metric for one in self.added)}
        for policy in self.policies:
            if unknown := sorted(policy.levels.keys() - known):
                raise ValueError(
                    f"--level-policies: {policy.name!r} has levels of {unknown[0]!r}, which is no metric; "
                    f"there are {', '.join(sorted(known))}"
                )
            if vain := sorted(policy.lines.keys() - throttled):
                raise ValueError(
                    f"--level-policies: {policy.name!r} has throttle and restore of {vain[0]!r}, for which no job is "
                    f"throttled; leave them out, or write how in --added-metrics"
                )
        return self

    @model_validator(mode="after")
    def _lines_of_use(self) -> Self:
        """Throttle lines in `level-policies` and `added-metrics` require `throttle`."""
        of_policies = any(policy.lines for policy in self.policies)
        of_metrics = any(one.metric.throttle is not Action.NEVER for one in self.added)
        if (of_policies or of_metrics) and not self.throttle:
            name = "--level-policies" if of_policies else "--added-metrics"
            raise ValueError(f"{name}: throttle needs --throttle: without it no job is throttled")
        return self

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        """Source prometheus and `added-metrics` require `prometheus-url`. initial-lower must not exceed
        initial-admission, and initial-admission must not exceed initial-upper."""
        if self.source == "prometheus" and not self.prometheus_url:
            raise ValueError("--source prometheus needs --prometheus-url")
        if self.added and not self.prometheus_url:
            raise ValueError("--added-metrics needs --prometheus-url: Prometheus measures them, whatever the source is")
        if not self.initial_lower <= self.initial_admission <= self.initial_upper:
            raise ValueError(
                "it must be that initial-lower <= initial-admission <= initial-upper, and not "
                f"{self.initial_lower:g} <= {self.initial_admission:g} <= {self.initial_upper:g}"
            )
        return self

    @model_validator(mode="after")
    def _figures_in_time(self) -> Self:
        """`max-age` must be 0, or at least the age of measurements just before the next ones. That is 30 s with source
        metrics-api: a kubelet measures every 15 s, and metrics-server asks every 15 s. With source prometheus it is
        `prometheus-window`."""
        oldest = self.oldest_figure
        if 0 < self.max_age < oldest:
            raise ValueError(
                f"--max-age {self.max_age:g} cannot work: figures of --source {self.source} get {oldest:g} s old "
                f"{self._why_so_old} before there are newer ones; "
                f"set --max-age to at least {oldest + LATE:g}, or to 0"
            )
        return self

    @property
    def added(self) -> tuple[AddedMetric, ...]:
        """The metrics beside CPU and memory."""
        return parse_added(self.added_metrics)

    @property
    def policies(self) -> tuple[NodeLevels, ...]:
        """The highest levels of nodes."""
        return parse_policies(self.level_policies)

    @property
    def oldest_figure(self) -> float:
        """How old figures of the source get before there are newer ones, in seconds."""
        return {"metrics-api": 2 * METRICS_INTERVAL, "prometheus": self.prometheus_window}.get(self.source, 0.0)

    @property
    def _why_so_old(self) -> str:
        if self.source == "prometheus":
            return f"(--prometheus-window, the scrape interval, is {self.prometheus_window:g} s)"
        return (
            f"(a kubelet measures every {METRICS_INTERVAL:g} s, and metrics-server asks every {METRICS_INTERVAL:g} s)"
        )

    @property
    def believed(self) -> float:
        """Seconds: older figures are none. By default what may still be read until the next publication."""
        least = self.oldest_figure + LATE if self.oldest_figure else 0.0
        return self.max_age or max(2 * self.period, least)

    @property
    def stale_after(self) -> float:
        """Seconds after which readers call the levels stale: no sooner than the oldest figure that is believed would be
        read, a period later, after a measurement that took as long as it may, with times cut off to whole seconds."""
        return max(STALE_AFTER_PERIODS * self.period, self.believed + self.period + self.source_timeout + 1.0)

    @model_validator(mode="after")
    def _can_reclaim(self) -> Self:
        """With `reclaimed`, `source` must not be requests, which has no idle capacity. reclaimed-half-life must be at
        least reclaimed-min-samples x period, and reclaimed-step at least 2, the smallest change of an offer."""
        if not self.reclaimed:
            return self
        if self.source == "requests":
            raise ValueError(
                "--reclaimed needs real use: with --source requests nothing is idle that is reserved; "
                "choose metrics-api or prometheus"
            )
        if self.reclaimed_half_life < self.reclaimed_min_samples * self.period:
            raise ValueError(
                f"--reclaimed-half-life {self.reclaimed_half_life:g} cannot work: {self.reclaimed_min_samples} samples "
                f"(--reclaimed-min-samples) take {self.reclaimed_min_samples * self.period:g} s at --period "
                f"{self.period:g}, and no node would offer anything; set it to at least as much"
            )
        if self.reclaimed_step < _RULES.offers.hysteresis:
            raise ValueError(
                f"it must be that reclaimed-step >= {_RULES.offers.hysteresis:g}, the least that an offer changes by"
            )
        return self

    def check(self) -> None:
        """Raises ValueError where settings do not go together, also of settings that were not read anywhere."""
        for one in type(self).__pydantic_decorators__.model_validators.values():
            one.func(self)

    def rules(self, shared: SharedSettings) -> Rules:
        """The part of the settings that decides, with those of all components."""
        return Rules(
            period=self.period,
            reserve=self.reserve,
            admission_margin=self.admission_margin,
            floor=self.floor,
            policy=self.policy,
            initial=ordered(self.initial_lower, self.initial_admission, self.initial_upper),
            min_samples=self.history_min_samples,
            step=self.level_step,
            cpu_samples=self.cpu_samples,
            cooldown=self.cooldown,
            yield_at_checkpoint=self.yield_at_checkpoint,
            yield_from=self.yield_from,
            yield_within=self.yield_within or 1.5 * self.period,
            label_wait=1.5 * self.period,
            settle=self.settle,
            per_node=self.per_node,
            kept_room=self.kept_room == "byHour",
            stale_after=self.stale_after,
            pool_ignores=frozenset(self.pool_ignores),
            metrics=tuple(one.metric for one in self.added),
            trust=self.trust_rules(),
            risk=_risk(shared),
            eviction=EvictionRules(
                max_victims=self.max_victims,
                hard_ceiling=self.hard_ceiling,
                checkpoint_wait=self.checkpoint_wait,
                much_at_risk=self.much_at_risk,
                order=self.order,
            ),
            offers=self.offer_rules(),
            node_memory=self.node_memory_rules(shared),
            throttle=self.throttle_rules(),
        )

    def trust_rules(self) -> Trust:
        """The part of the settings that says which figures are believed."""
        return Trust(self.believed, self.coverage)

    def offer_rules(self) -> OfferRules:
        """The part of the settings that offers reclaimed capacity."""
        return OfferRules(
            enabled=self.reclaimed,
            percentile=self.reclaimed_percentile,
            step=self.reclaimed_step,
            min_samples=self.reclaimed_min_samples,
            half_life=self.reclaimed_half_life,
            silent_after=self.believed + self.period,
        )

    def node_memory_rules(self, shared: SharedSettings) -> NodeMemoryRules:
        """The part of the settings that keeps nodes with reclaimed capacity from running out of memory."""
        return NodeMemoryRules(
            ahead=2 * self.period,
            max_victims=self.max_victims,
            risk=_risk(shared),
            trust=self.trust_rules(),
        )

    def throttle_rules(self) -> ThrottleRules:
        """The part of the settings that throttles."""
        return ThrottleRules(self.throttle, self.throttle_share)

    def queries(self) -> Queries:
        """What to ask Prometheus."""
        history = {"cpu": self.prometheus_history_cpu, "memory": self.prometheus_history_memory}
        return Queries(
            node={"cpu": self.prometheus_node_cpu, "memory": self.prometheus_node_memory},
            pod={"cpu": self.prometheus_pod_cpu, "memory": self.prometheus_pod_memory},
            taken=self.prometheus_taken,
            history={resource: query for resource, query in history.items() if query} or None,
            node_label=self.prometheus_node_label,
            window=self.prometheus_window,
            history_window=self.history_window,
        )


def _risk(shared: SharedSettings) -> RiskRules:
    return RiskRules(
        startup_cost=shared.startup_cost_seconds,
        trusted_interval=shared.trusted_interval_seconds,
        weights=shared.resource_weights,
        minimum_run=shared.minimum_run,
    )
