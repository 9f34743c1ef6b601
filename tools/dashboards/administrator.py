"""For who answers for the cluster: what scavenging gains, what it costs, and whether ordinary pods notice."""

from __future__ import annotations

from typing import Final

from tools.dashboards.model import NAME, Dashboard, Panel, Query, Row

USEFUL: Final = "sum(increase(scavenger_useful_cpu_seconds_total[$__range]))"
LOST: Final = "sum(increase(scavenger_lost_cpu_seconds_total[$__range]))"


def _utilisation(resource: str, name: str) -> Panel:
    where = f'{{scope="cluster",resource="{resource}",pool=~"default|"}}'
    others = f'{{scope="cluster",resource="{resource}",pool!~"default|"}}'
    return Panel(
        f"{name}: utilisation and levels",
        "What is really used of what the nodes of the default pool can allocate. The space between the two loads is "
        "what scavenging adds. New jobs start while the load is under the admission threshold; at the eviction "
        "threshold jobs are evicted down to the low watermark.",
        (
            Query(f"max(scavenger_regulator_load_ratio{where})", "with scavenging"),
            Query(f"max(scavenger_regulator_ordinary_load_ratio{where})", "regular workloads alone"),
            Query(f"max by (level) (scavenger_regulator_level_ratio{where})", "level: {{level}}"),
            Query(f"max by (pool) (scavenger_regulator_load_ratio{others})", "pool {{pool}}, with scavenging"),
        ),
        unit="percentunit",
    )


def _ordinary_wait(quantile: float) -> Query:
    buckets = "sum by (le) (increase(scavenger_ordinary_pod_wait_seconds_bucket[$__range]))"
    return Query(f"histogram_quantile({quantile}, {buckets})", f"{quantile:.0%} waited less than")


ADMINISTRATOR: Final = Dashboard(
    uid="scavenger-administrator",
    title="Scavenger / Administrator",
    says="What scavenging gains and costs, and whether regular workloads notice.",
    rows=(
        Row(
            "Is it worth it",
            (
                Panel(
                    "Harvested core-hours",
                    "Useful CPU time of scavenger jobs, over the range shown. It counts when a checkpoint is due or a "
                    "job ends, so running jobs are not fully included yet.",
                    (Query(f"{USEFUL} / 3600"),),
                    kind="stat",
                    width=4,
                ),
                Panel(
                    "Lost core-hours",
                    "CPU time of interrupted jobs since their last checkpoint, over the range shown.",
                    (Query(f"{LOST} / 3600"),),
                    kind="stat",
                    width=4,
                ),
                Panel(
                    "Lost per harvested hour",
                    "Above 10 %, check the causes of interruptions, and whether jobs write checkpoints.",
                    (Query(f"{LOST} / {USEFUL}"),),
                    kind="stat",
                    unit="percentunit",
                    below="green",
                    thresholds=((0.05, "yellow"), (0.1, "red")),
                    width=4,
                ),
                Panel(
                    "Jobs running",
                    "Scavenger jobs of all queues with all their pods running.",
                    (Query('sum(scavenger_jobs{phase="Running"})'),),
                    kind="stat",
                    width=4,
                ),
                Panel(
                    "Regulator",
                    "The state of the default pool. Filling: jobs start. Speculative: jobs become preemptible. "
                    "Evicting: jobs leave until the load is low enough. Blind: no metrics, so no job starts or leaves.",
                    (Query('max by (state) (scavenger_regulator_state{pool=~"default|"}) == 1', "{{state}}"),),
                    kind="stat",
                    unit=NAME,
                    width=4,
                    colors=(("Filling", "green"), ("Speculative", "yellow"), ("Evicting", "orange"), ("Blind", "red")),
                ),
                Panel(
                    "Preemptible",
                    "Share of the running jobs of a pool that regular pods may displace: those with the least unsaved "
                    "work.",
                    (Query("max by (pool) (scavenger_regulator_preemptible_ratio)", "{{pool}}"),),
                    kind="stat",
                    unit="percentunit",
                    width=4,
                ),
            ),
        ),
        Row(
            "Utilisation",
            (
                _utilisation("cpu", "CPU"),
                _utilisation("memory", "Memory"),
                Panel(
                    "Cores of scavenger jobs, by queue",
                    "CPU requests of the pods of each queue, including jobs that are starting.",
                    (Query('max by (queue) (scavenger_queue_allocated{resource="cpu"})', "{{queue}}"),),
                    stacked=True,
                ),
                Panel(
                    "Cores requested and not used, by queue",
                    "Of running jobs on guaranteed capacity, as far as the metrics API has figures. "
                    "kubectl sj recommend says what these jobs should request.",
                    (Query("sum by (queue) (rate(scavenger_unused_cpu_seconds_total[5m]))", "{{queue}}"),),
                    stacked=True,
                ),
                Panel(
                    "Devices requested and not used, by queue",
                    "Of running jobs on guaranteed capacity, where deviceMetrics of the admitter names a metric.",
                    (
                        Query(
                            "sum by (queue, resource) (rate(scavenger_unused_device_seconds_total[5m]))",
                            "{{queue}} {{resource}}",
                        ),
                    ),
                    stacked=True,
                ),
                Panel(
                    "Running jobs, by class",
                    "Regular pods displace non-preemptible jobs last.",
                    (Query("max by (class) (scavenger_preemption_jobs)", "{{class}}"),),
                    stacked=True,
                ),
            ),
        ),
        Row(
            "Interruptions",
            (
                Panel(
                    "Interruptions by cause",
                    "Over the range shown. docs/reasons.md explains the causes. Preempted: for a regular pod. "
                    "QueueReclaimed: for another queue. AboveUpperLevel and YieldAtCheckpoint: because of the load.",
                    (Query("sum by (cause) (increase(scavenger_interruptions_total[$__range])) > 0", "{{cause}}"),),
                    kind="bargauge",
                ),
                Panel(
                    "Interruptions by queue and cause",
                    "Interruptions by the queue of the job, over the range shown.",
                    (Query("sum by (queue, cause) (increase(scavenger_interruptions_total[$__range])) > 0"),),
                    kind="table",
                ),
                Panel(
                    "Displaced by the scheduler, by class",
                    "Pods removed for a pending pod, over the range shown. Non-preemptible pods leave only for pods "
                    "that "
                    "waited, or may not wait. Regular pods leave only if there is no scavenger pod to remove.",
                    (
                        Query(
                            "sum by (class) (increase(scavenger_scheduler_preemption_victims_total[$__range]))",
                            "{{class}}",
                        ),
                    ),
                    kind="bargauge",
                    width=8,
                ),
                Panel(
                    "Evicted by the regulator, by reason",
                    "Jobs evicted because of load or memory over the range shown.",
                    (
                        Query(
                            'sum by (reason) (increase(scavenger_regulator_evictions_total{outcome=~"evicted|deleted"}'
                            "[$__range]))",
                            "{{reason}}",
                        ),
                    ),
                    kind="bargauge",
                    width=8,
                ),
                Panel(
                    "From queue to queue",
                    "Jobs interrupted since the admitter started, by their queue and the queue that got its share.",
                    (Query("sum by (queue, receiver) (scavenger_reclaims_total)"),),
                    kind="table",
                    width=8,
                ),
            ),
        ),
        Row(
            "Regular pods",
            (
                Panel(
                    "Waiting for capacity",
                    "Regular pods that wait for capacity. Waits of more than a few seconds should be rare while "
                    "scavenger jobs run.",
                    (Query("max(scavenger_ordinary_pods_waiting)", "waiting"),),
                ),
                Panel(
                    "How long they waited",
                    "Time from creation until they had a node, over the range shown.",
                    (_ordinary_wait(0.5), _ordinary_wait(0.95), _ordinary_wait(0.99)),
                    kind="bargauge",
                    below="green",
                    thresholds=((60, "yellow"), (300, "red")),
                    unit="s",
                    width=6,
                ),
                Panel(
                    "Placed",
                    "Regular pods that got a node over the range shown.",
                    (Query("sum(increase(scavenger_ordinary_pod_wait_seconds_count[$__range]))", "placed"),),
                    kind="bargauge",
                    width=6,
                ),
            ),
        ),
    ),
)
