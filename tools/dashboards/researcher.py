"""For users of a queue: when their jobs start, how they end, and whether they request what they use."""

from __future__ import annotations

from typing import Final

from tools.dashboards.model import Dashboard, Panel, Query, Row


def _waited(quantile: float) -> Query:
    buckets = 'sum by (le, start) (increase(scavenger_waiting_seconds_bucket{queue=~"$queue"}[$__range]))'
    return Query(f"histogram_quantile({quantile}, {buckets})", f"{{{{start}}}}: {quantile:.0%} waited less than")


def _use(resource: str, name: str, unit: str) -> Panel:
    where = f'{{queue=~"$queue",resource="{resource}"}}'
    return Panel(
        f"{name}: requested and used",
        "For pods with measurements. Requests that jobs do not use keep other jobs from starting, including yours. "
        "Request less.",
        (
            Query(f"sum(max by (queue) (scavenger_regulator_queue_requested{where}))", "requested"),
            Query(f"sum(max by (queue) (scavenger_regulator_queue_used{where}))", "used"),
        ),
        unit=unit,
    )


def _of_jobs(figure: str) -> Query:
    most = f'max by (job_namespace, job_name) (scavenger_job_{figure}{{queue=~"$queue"}}) > 0'
    return Query(f"topk(10, {most})", f"{figure}: {{{{job_namespace}}}}/{{{{job_name}}}}")


RESEARCHER: Final = Dashboard(
    uid="scavenger-researcher",
    title="Scavenger / Researcher",
    says="One queue: its share, how its jobs end, and whether they use what they request. For one job, use "
    "`kubectl sj why`.",
    of_queue=True,
    rows=(
        Row(
            "My queue",
            (
                Panel(
                    "Jobs",
                    "All jobs of the queue by phase.",
                    (Query('sum by (phase) (scavenger_jobs{queue=~"$queue"})', "{{phase}}"),),
                    stacked=True,
                ),
                Panel(
                    "CPU share",
                    "What the queue uses and what it deserves. Other queues may reclaim what it uses above its share.",
                    (
                        Query('sum(max by (queue) (scavenger_queue_allocated{queue=~"$queue",resource="cpu"}))', "has"),
                        Query(
                            'sum(max by (queue) (scavenger_queue_deserved{queue=~"$queue",resource="cpu"}))', "deserves"
                        ),
                    ),
                ),
                Panel(
                    "Queued",
                    "Queued jobs. `kubectl sj list` shows the place of each.",
                    (Query('sum(max by (queue) (scavenger_queue_depth{queue=~"$queue"}))', "jobs"),),
                    kind="stat",
                    width=3,
                ),
                Panel(
                    "Tasks",
                    "Tasks of existing arrays and adopted Jobs, by state. `kubectl sj tasks NAME` shows those of one.",
                    (Query('sum by (state) (scavenger_tasks{queue=~"$queue"})', "{{state}}"),),
                    kind="bargauge",
                    width=5,
                ),
                Panel(
                    "How long jobs waited",
                    "Time until all pods ran. First: since the job was created. Restart: since it was queued again.",
                    (_waited(0.5), _waited(0.95)),
                    kind="bargauge",
                    unit="s",
                    width=8,
                ),
                Panel(
                    "Why jobs wait",
                    "Queued jobs of all queues by the reason of the last admission cycle (docs/reasons.md).",
                    (Query("max by (reason) (scavenger_held_jobs)", "{{reason}}"),),
                    kind="bargauge",
                    width=8,
                ),
            ),
        ),
        Row(
            "Ends and interruptions",
            (
                Panel(
                    "Ended",
                    "Over the range shown.",
                    (
                        Query(
                            'sum by (phase) (increase(scavenger_finished_jobs_total{queue=~"$queue"}[$__range]))',
                            "{{phase}}",
                        ),
                    ),
                    kind="bargauge",
                    width=8,
                ),
                Panel(
                    "Interrupted, by cause",
                    "Over the range shown. Interrupted jobs are queued before jobs that never ran.",
                    (
                        Query(
                            'sum by (cause) (increase(scavenger_interruptions_total{queue=~"$queue"}[$__range])) > 0',
                            "{{cause}}",
                        ),
                    ),
                    kind="bargauge",
                    width=8,
                ),
                Panel(
                    "CPU time: useful and lost",
                    "Over the range shown, in core-seconds. Lost is the CPU time since the last checkpoint. If it is "
                    "high, write checkpoints more often.",
                    (
                        Query('sum(increase(scavenger_useful_cpu_seconds_total{queue=~"$queue"}[$__range]))', "useful"),
                        Query('sum(increase(scavenger_lost_cpu_seconds_total{queue=~"$queue"}[$__range]))', "lost"),
                    ),
                    kind="bargauge",
                    unit="s",
                    width=8,
                ),
            ),
        ),
        Row(
            "Single jobs",
            (
                Panel(
                    "Started and interrupted most",
                    "Ten ScavengerJobs each, of those that exist. Empty without kube-state-metrics "
                    "(docs/monitoring.md, Figures of single jobs). `kubectl sj list` has adopted Jobs as well.",
                    (_of_jobs("starts"), _of_jobs("interruptions")),
                    kind="bargauge",
                    exported=True,
                ),
            ),
        ),
        Row("What my jobs use", (_use("cpu", "CPU", "short"), _use("memory", "Memory", "bytes"))),
    ),
)
