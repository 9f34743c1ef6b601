"""What the prioritizer can be told, by environment or flag."""

from __future__ import annotations

from typing import Literal

from scavenger_api.names import FALLBACK_PREEMPTIBLE_PERCENT
from scavenger_api.shared_settings import SharedSettings
from scavenger_domain.gang import MICROSECONDS
from scavenger_domain.nodes import LEAVING
from scavenger_runtime.settings import (
    ADOPT,
    POOL_IGNORES,
    PRESSED_WRITE_RATE,
    RESOURCE_WEIGHTS,
    START_OVER_WINDOW,
    STARTUP_COST,
    TRUSTED_INTERVAL,
    WRITE_RATE,
    Names,
    OptionalSeconds,
    OptionalWeights,
    Seconds,
    ServiceSettings,
    option,
)

from scavenger_prioritizer.core.snapshot import Rules, ShareOf


class PrioritizerSettings(ServiceSettings):
    """Sorts running ScavengerJobs by unsaved work and makes the first X percent preemptible."""

    period: Seconds = option(10.0, "time between two passes while nothing changes", unit="seconds", gt=0)
    debounce: Seconds = option(
        1.0, "time from a change of pods, nodes or levels to the next pass", unit="seconds", ge=0
    )
    adopt: bool = ADOPT
    startup_cost: OptionalSeconds = STARTUP_COST
    trusted_interval: OptionalSeconds = TRUSTED_INTERVAL
    resource_weights: OptionalWeights = RESOURCE_WEIGHTS
    fallback_preemptible_percent: float = option(
        FALLBACK_PREEMPTIBLE_PERCENT,
        "share of the running jobs that is preemptible while no regulator publishes levels",
        unit="percent",
        ge=0,
        le=100,
    )
    share_of: ShareOf = option(
        ShareOf.JOBS,
        "what the preemptible percentage is a share of: the number of running jobs, their requests, or their requests "
        "capped at the median",
    )
    priority_step: int = option(
        60, "minimum change of a running priority that is written to a pod", unit="CPU-seconds", ge=0
    )
    priority_ratio: float = option(
        1.0, "the same, relative to the smaller of the old and the new value; 1 means doubled or halved", ge=0
    )
    start_over_window: OptionalSeconds = START_OVER_WINDOW
    class_hold: Seconds = option(
        60.0, "minimum time until a job that lost its protection is protected again", unit="seconds", ge=0
    )
    usage_period: Seconds = option(
        30.0,
        "time between two requests to the metrics API for the use of pods on reclaimed capacity",
        unit="seconds",
        gt=0,
    )
    pool_ignores: Names = POOL_IGNORES
    drain_taints: Names = option(
        LEAVING, "keys of taints that announce a drain; nodes with such a taint count as cordoned"
    )
    budgets: bool = option(
        True,
        "create PodDisruptionBudgets for non-preemptible pods. Set it to false if scavenger-scheduler schedules all "
        "pods:"
        " it reads the label, and budgets keep autoscalers from removing nodes",
    )
    keep_scale_down: Literal["auto", "always", "never"] = option(
        "auto",
        "leave pods on nodes without a regular pod out of the budgets, so that Karpenter can remove such nodes; auto: "
        "only"
        " in clusters with nodes of Karpenter",
    )
    lone_after: Seconds = option(
        120.0, "time without a regular pod after which a node counts as without regular pods", unit="seconds", ge=0
    )
    pod_deletion_cost: bool = option(
        False,
        "write the annotation controller.kubernetes.io/pod-deletion-cost on regular pods that report checkpoints, in "
        "namespaces with the label scavenger.dev/disruption-costs=enabled; global.disruptionCosts.pods of the charts "
        "sets it",
    )
    kueue_priority_boost: bool = option(
        False,
        "write the annotation kueue.x-k8s.io/priority-boost on the Workloads of such pods; "
        "global.disruptionCosts.workloads of the charts sets it",
    )
    cost_writes: int = option(60, "maximum number of writes of these two annotations in a minute", ge=1)
    max_writes: int = option(1000, "maximum number of writes of one pass; the next pass plans the others again", ge=1)
    concurrent_writes: int = option(
        8, "maximum number of concurrent writes that a user waits for; other writes go one by one", ge=1, le=1000
    )
    write_rate: float = WRITE_RATE
    pressed_write_rate: float = PRESSED_WRITE_RATE

    def rules(self, shared: SharedSettings) -> Rules:
        """The part of the settings that decides, with those of all components."""
        return Rules(
            startup_cost=shared.startup_cost,
            trusted=shared.trusted_interval,
            weights=shared.resource_weights,
            step=self.priority_step,
            ratio=self.priority_ratio,
            budgets=self.budgets,
            share_of=self.share_of,
            window=shared.start_over_window,
            hold=round(self.class_hold * MICROSECONDS),
        )
