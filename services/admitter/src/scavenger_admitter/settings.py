"""What the admitter can be told, by environment or flag."""

from __future__ import annotations

from typing import Final, Literal, Self

from pydantic import field_validator, model_validator
from scavenger_api.names import FALLBACK_ADMISSION_PERCENT
from scavenger_domain.nodes import HINTS
from scavenger_runtime.prometheus_usage import parse_devices
from scavenger_runtime.settings import (
    ADOPT,
    ALLOWED_TOLERATIONS,
    MAX_INTERRUPTION_AFTER,
    MINIMUM_RUN,
    POOL_IGNORES,
    PRESSED_WRITE_RATE,
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
    WRITE_RATE,
    Names,
    OptionalSeconds,
    OptionalWeights,
    Seconds,
    ServiceSettings,
    option,
)

from scavenger_admitter.core.admission.cycle.turns import PATIENCE
from scavenger_admitter.core.admission.units import SECOND
from scavenger_admitter.core.lifecycle.success import SHOWS_LIFE_AFTER

LOOKS: Final = 10
"""The last figures of a pod are some time old: it is asked for at least so often while it is judged."""


class AdmitterSettings(ServiceSettings):
    """Reconciles ScavengerJobs: decides which jobs start, and what the end of a run means."""

    workers: int = option(48, "maximum number of concurrent reconciles", ge=1, le=1000)
    adopt: bool = ADOPT
    tell_unadopted: bool = option(
        False,
        "write an Event for each new Job that is not adopted, in namespaces with scavenger.dev/adopt: all; the chart"
        " sets it where the webhook adopts Jobs",
    )
    write_rate: float = WRITE_RATE
    pressed_write_rate: float = PRESSED_WRITE_RATE

    fallback_admission_percent: float = option(
        FALLBACK_ADMISSION_PERCENT,
        "admission threshold on requests while no regulator publishes levels",
        unit="percent",
        ge=0,
        le=100,
    )
    count_candidate: bool = option(
        True, "include the job that is to start in the load that is compared with the admission threshold"
    )
    tolerated_taints: Names = TOLERATED_TAINTS
    pool_ignores: Names = POOL_IGNORES
    keep_scale_down: Literal["auto", "always", "never"] = option(
        "auto",
        "prefer nodes that regular pods keep in use, and use nearly empty nodes last. With auto, only in clusters with "
        "nodes of Karpenter or taints of Cluster Autoscaler",
    )
    admission_interval: Seconds = option(0.1, "minimum time between two admission cycles", unit="seconds", ge=0)
    max_starts_per_cycle: int = option(500, "maximum number of jobs that one admission cycle starts", ge=1)
    concurrent_starts: int = option(
        8, "maximum number of Jobs that are created at once in one namespace", ge=1, le=1000
    )
    dry_runs: bool = option(
        True,
        "when a job finds no node, check by a dry run what admission adds to its pods; once in ten minutes for similar "
        "jobs",
    )
    qos_class: Literal["Burstable", "Guaranteed"] = option(
        "Burstable",
        "QoS class of pods on guaranteed capacity. Burstable sets CPU limits a millicore above the requests, so that a"
        " node out of memory does not kill regular Burstable pods first. Guaranteed allows exclusive CPUs (static CPU"
        " manager)",
    )
    snapshot_image: str = option(
        "",
        "image of snap for jobs with spec.snapshot, such as registry.example.com/scavenger/snapshot:TAG. Without it, "
        "such"
        " jobs fail. With it, the admitter may create Secrets, for the keys that sign snapshots",
    )
    checked_references: Names = option(
        ("persistentvolumeclaims", "configmaps"),
        "kinds of objects that the admitter checks before a job starts: persistentvolumeclaims, configmaps, secrets. A "
        "job"
        " that lacks one for 30 s fails without a pod. The chart grants the right to get the kinds that are named",
    )
    explain_after: Seconds = option(
        5.0,
        "time after which the status of a job says that it waits or starts, and why; shorter waits are not written",
        unit="seconds",
        ge=0,
    )

    reclaim_period: Seconds = option(
        600.0,
        "minimum time between two interruptions of a job for the share of another queue. A job must also compute this "
        "long after an interruption, before the next one improves its place in the queue",
        unit="seconds",
        ge=0,
    )
    reclaim_gangs: bool = option(
        False,
        "also interrupt jobs of several pods for the share of another queue; otherwise that share waits until such jobs"
        " end or leave for another reason",
    )
    keep_turn_after: Seconds = option(
        PATIENCE / SECOND,
        "time that a job waits, while smaller jobs start, until capacity is reserved for it; 0 turns this off",
        unit="seconds",
        ge=0,
    )
    interrupted_first: Literal["always", "short-runs", "least-served"] = option(
        "always",
        "which jobs go first in their queue. With always, all interrupted jobs do. With short-runs, only those whose "
        "run was shorter than their checkpoint interval. With least-served, jobs with the least useful CPU time do, in "
        "steps of a doubling",
    )
    arrays_keep_place: bool = option(
        False,
        "let an array keep its place in the queue while its tasks start; otherwise each start moves the array back. The"
        " next version removes this setting",
    )
    startup_cost: OptionalSeconds = STARTUP_COST
    trusted_interval: OptionalSeconds = TRUSTED_INTERVAL
    minimum_run: bool | None = MINIMUM_RUN
    resource_weights: OptionalWeights = RESOURCE_WEIGHTS

    usage_period: Seconds = option(
        30.0,
        "time between two requests to the source of usage for what running jobs use, while there are any",
        unit="seconds",
        ge=1,
    )
    usage_source: Literal["metrics-api", "prometheus"] = option("metrics-api", "source of what the pods of jobs use")
    prometheus_url: str = option(
        "", "URL of Prometheus, without /api; required for usage-source prometheus and for device-metrics"
    )
    prometheus_token_file: str | None = PROMETHEUS_TOKEN_FILE
    prometheus_ca_file: str | None = PROMETHEUS_CA_FILE
    prometheus_pod_cpu: str = PROMETHEUS_POD_CPU
    prometheus_pod_memory: str = PROMETHEUS_POD_MEMORY
    prometheus_taken: str = PROMETHEUS_TAKEN
    prometheus_window: Seconds = PROMETHEUS_WINDOW
    device_metrics: str = option("", "what pods use of extended resources: the chart's value deviceMetrics, as JSON")
    recommended_least: float = option(
        0.25,
        "the pods of a job with resourcesFrom: Recommended request at least this share of what it asks for; 1: always"
        " what it asks for",
        ge=0.01,
        le=1,
    )
    starved_share: float = option(
        0.2,
        "share of the limit of a pod. Below it, a job on reclaimed capacity starves if its node is overcommitted",
        ge=0,
        le=1,
    )
    starved_after: Seconds = option(600.0, "time over which this use is averaged", unit="seconds", gt=0)
    starved_patience: float = option(
        6.0,
        "a starved job is interrupted when it fits elsewhere, or after this many times starved-after at the latest",
        ge=1,
    )

    success_evidence_after: Seconds = option(
        SHOWS_LIFE_AFTER,
        "time after exit code 0 when the node must still be alive, or the exit does not count: a machine that shuts "
        "down also ends programs with 0. A termination message can confirm the end earlier. 0 accepts every exit code "
        "0",
        unit="seconds",
        ge=0,
        le=60,
    )
    start_timeout: Seconds = option(
        600.0,
        "time for a start, including image pulls; a start that takes longer is undone",
        unit="seconds",
        gt=0,
    )
    unschedulable_after: Seconds = option(
        10.0, "time for the pods of a start to get a node; a start that takes longer is undone", unit="seconds", ge=0
    )
    certain_hints: Names = option(
        (),
        "taints that may announce the end of a node, and that should interrupt its jobs at once:"
        f" {' and '.join(HINTS)}. If not named here, they close the node for new jobs, and interrupt jobs only right"
        " after a checkpoint",
    )
    start_backoff: Seconds = option(5.0, "wait after a failed start; it doubles each time", unit="seconds", gt=0)
    start_backoff_max: Seconds = option(300.0, "maximum of this wait", unit="seconds", gt=0)
    max_termination_grace_period_seconds: int = option(
        300,
        "maximum grace period of a pod; a regular pod may have to wait this long",
        unit="seconds",
        ge=0,
    )
    max_interruption_after: Seconds = MAX_INTERRUPTION_AFTER
    allowed_tolerations: Names = ALLOWED_TOLERATIONS
    allowed_annotations: Names = option(
        (),
        "annotations that pods may have although they prevent the removal of a node, such as "
        "karpenter.sh/do-not-disrupt",
    )

    @field_validator("device_metrics")
    @classmethod
    def _parsed_devices(cls, text: str) -> str:
        parse_devices(text)
        return text

    @property
    def devices(self) -> dict[str, str]:
        """PromQL of what pods use, by extended resource."""
        return parse_devices(self.device_metrics)

    @model_validator(mode="after")
    def _prometheus_known(self) -> Self:
        """usage-source prometheus and `device-metrics` require `prometheus-url`."""
        if (self.usage_source == "prometheus" or self.devices) and not self.prometheus_url:
            name = "--device-metrics" if self.devices else "--usage-source prometheus"
            raise ValueError(f"{name} needs --prometheus-url")
        return self

    @model_validator(mode="after")
    def _watched_for_long_enough(self) -> Self:
        """starved-after must be several times usage-period, so that enough measurements exist."""
        if self.starved_after < LOOKS * self.usage_period:
            raise ValueError(f"it must be that starved-after >= {LOOKS} * usage-period, or no pod is watched enough")
        return self
