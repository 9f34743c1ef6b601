"""What the admitter can be told, by environment or flag."""

from __future__ import annotations

from typing import Final, Literal, Self

from pydantic import model_validator
from scavenger_api.names import FALLBACK_ADMISSION_PERCENT
from scavenger_domain.nodes import HINTS
from scavenger_runtime.settings import (
    ADOPT,
    ALLOWED_TOLERATIONS,
    MAX_INTERRUPTION_AFTER,
    MINIMUM_RUN,
    POOL_IGNORES,
    PRESSED_WRITE_RATE,
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
    """Reconciles ScavengerJobs: who starts, and what an ending means."""

    workers: int = option(48, "reconciles under way at once", ge=1, le=1000)
    adopt: bool = ADOPT
    tell_unadopted: bool = option(
        False,
        "say in an Event that a new Job of a namespace with scavenger.dev/adopt: all is a regular one; the chart sets"
        " it where a webhook adopts Jobs",
    )
    write_rate: float = WRITE_RATE
    pressed_write_rate: float = PRESSED_WRITE_RATE

    fallback_admission_percent: float = option(
        FALLBACK_ADMISSION_PERCENT,
        "admission threshold on requests where no regulator publishes levels",
        unit="percent",
        ge=0,
        le=100,
    )
    count_candidate: bool = option(True, "count the load with the job that asks to start, not without it")
    tolerated_taints: Names = TOLERATED_TAINTS
    pool_ignores: Names = POOL_IGNORES
    keep_scale_down: Literal["auto", "always", "never"] = option(
        "auto",
        "start jobs on nodes that regular pods hold anyway, and on nearly empty ones last; auto: where a node of"
        " Karpenter, or a taint of Cluster Autoscaler, has been seen",
    )
    admission_interval: Seconds = option(0.1, "least time between two admission cycles", unit="seconds", ge=0)
    max_starts_per_cycle: int = option(500, "most jobs started by one admission cycle", ge=1)
    concurrent_starts: int = option(8, "Jobs being created at once in one namespace", ge=1, le=1000)
    dry_runs: bool = option(
        True,
        "ask the API server by a dry run what admission adds to the pods of a job that finds no node, once in ten"
        " minutes for jobs of a kind",
    )
    qos_class: Literal["Burstable", "Guaranteed"] = option(
        "Burstable",
        "of pods on guaranteed capacity. Burstable: a CPU limit is a millicore above its request, so that a node out of"
        " memory does not kill regular Burstable pods first; Guaranteed: for exclusive CPUs (static CPU manager)",
    )
    snapshot_image: str = option(
        "",
        "image of snap, for jobs with spec.snapshot, such as registry.example.com/scavenger/snapshot:TAG; without it"
        " such jobs are Failed. With it the admitter may create Secrets, with the keys that sign snapshots",
    )
    checked_references: Names = option(
        ("persistentvolumeclaims", "configmaps"),
        "of what a job refers to, what is looked for before it starts; a job that lacks some for 30 s is Failed without"
        " a pod. persistentvolumeclaims, configmaps, secrets: the admitter may get each of these by its name then",
    )
    explain_after: Seconds = option(
        5.0,
        "a job that waits this long is told so, and why; Waiting and Starting that pass sooner are not written",
        unit="seconds",
        ge=0,
    )

    reclaim_period: Seconds = option(
        600.0,
        "a job is not interrupted for another queue's share within this time of its last interruption, and an "
        "interruption gives a place in the queue when the job has computed for this time since the last one that did",
        unit="seconds",
        ge=0,
    )
    reclaim_gangs: bool = option(
        False,
        "a job of several pods may be interrupted for another queue's share; otherwise that share waits until such jobs"
        " end, or leave for another reason",
    )
    keep_turn_after: Seconds = option(
        PATIENCE / SECOND,
        "a job that has waited this long, while others start where it does not fit, has its capacity kept; 0: never",
        unit="seconds",
        ge=0,
    )
    interrupted_first: Literal["always", "short-runs", "least-served"] = option(
        "always",
        "which jobs go first in their queue: all that were interrupted; of these only those whose run was shorter than"
        " their checkpoint interval; or the jobs that have had the least useful CPU time, in steps of a doubling",
    )
    arrays_keep_place: bool = option(
        False,
        "an array keeps its place in its queue while its tasks start, as it did before; otherwise each start uses up a"
        " place. The next version has no such setting",
    )
    startup_cost: OptionalSeconds = STARTUP_COST
    trusted_interval: OptionalSeconds = TRUSTED_INTERVAL
    minimum_run: bool | None = MINIMUM_RUN
    resource_weights: OptionalWeights = RESOURCE_WEIGHTS

    usage_period: Seconds = option(
        30.0,
        "how often the metrics API is asked what running jobs use, while there are any",
        unit="seconds",
        ge=1,
    )
    recommended_least: float = option(
        0.25,
        "the pods of a job with resourcesFrom: Recommended request at least this share of what it asks for; 1: always"
        " what it asks for",
        ge=0.01,
        le=1,
    )
    starved_share: float = option(
        0.2,
        "a job on reclaimed capacity is starved when a pod used less than this share of its limit, and its node offers"
        " less than is placed there",
        ge=0,
        le=1,
    )
    starved_after: Seconds = option(600.0, "time over which that use is looked at", unit="seconds", gt=0)
    starved_patience: float = option(
        6.0,
        "a starved job is interrupted when it fits elsewhere, or after this many times starved-after",
        ge=1,
    )

    success_evidence_after: Seconds = option(
        SHOWS_LIFE_AFTER,
        "a program that ended with 0 is done when its node shows life this long after, or when its last words say so: a"
        " machine that goes down ends programs with 0, too; 0: every exit with 0 is final",
        unit="seconds",
        ge=0,
        le=60,
    )
    start_timeout: Seconds = option(
        600.0,
        "a start that is not running by then, image pulls included, is taken back",
        unit="seconds",
        gt=0,
    )
    unschedulable_after: Seconds = option(
        10.0, "a start whose pods find no node for this long is taken back", unit="seconds", ge=0
    )
    certain_hints: Names = option(
        (),
        "of the taints that only hint at the end of a node, those that stop jobs there at once:"
        f" {' and '.join(HINTS)}. Others close the node for starts, and stop jobs at a checkpoint at most",
    )
    start_backoff: Seconds = option(5.0, "wait after a start that failed; doubles each time", unit="seconds", gt=0)
    start_backoff_max: Seconds = option(300.0, "the most that this wait grows to", unit="seconds", gt=0)
    max_termination_grace_period_seconds: int = option(
        300,
        "no pod gets a longer grace period: a regular pod may have to wait this long",
        unit="seconds",
        ge=0,
    )
    max_interruption_after: Seconds = MAX_INTERRUPTION_AFTER
    allowed_tolerations: Names = ALLOWED_TOLERATIONS
    allowed_annotations: Names = option(
        (),
        "annotations that pods may have although they keep a node from going, such as karpenter.sh/do-not-disrupt",
    )

    @model_validator(mode="after")
    def _watched_for_long_enough(self) -> Self:
        """starved-after is several times usage-period, or no pod is watched enough."""
        if self.starved_after < LOOKS * self.usage_period:
            raise ValueError(f"it must be that starved-after >= {LOOKS} * usage-period, or no pod is watched enough")
        return self
