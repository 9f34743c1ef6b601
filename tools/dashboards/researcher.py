"""For who has jobs in a queue: when they start, what becomes of them, and whether they ask for what they use."""

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
        "Of pods that are measured. What is requested and not used keeps other jobs from starting, yours included: "
        "ask for less.",
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
    says="One queue: its share, what became of its jobs, and whether they use what they ask for. `kubectl sj why` "
    "says it of one job.",
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
                    "What the queue has and what it deserves. Above its share it may be asked to give back.",
                    (
                        Query('sum(max by (queue) (scavenger_queue_allocated{queue=~"$queue",resource="cpu"}))', "has"),
                        Query(
                            'sum(max by (queue) (scavenger_queue_deserved{queue=~"$queue",resource="cpu"}))', "deserves"
                        ),
                    ),
                ),
                Panel(
                    "Queued",
                    "Jobs of the queue that wait for their turn. `kubectl sj list` shows the place of each.",
                    (Query('sum(max by (queue) (scavenger_queue_depth{queue=~"$queue"}))', "jobs"),),
                    kind="stat",
                    width=3,
                ),
                Panel(
                    "Tasks",
                    "By state, of arrays and adopted Jobs that have not been deleted. `kubectl sj tasks NAME` shows "
                    "those of one.",
                    (Query('sum by (state) (scavenger_tasks{queue=~"$queue"})', "{{state}}"),),
                    kind="bargauge",
                    width=5,
                ),
                Panel(
                    "How long jobs waited",
                    "Until all pods ran: First, since the job was created; Restart, since it was queued again.",
                    (_waited(0.5), _waited(0.95)),
                    kind="bargauge",
                    unit="s",
                    width=8,
                ),
                Panel(
                    "Why jobs wait",
                    "Jobs of all queues by the reason that the last admission cycle gave (docs/reasons.md).",
                    (Query("max by (reason) (scavenger_held_jobs)", "{{reason}}"),),
                    kind="bargauge",
                    width=8,
                ),
            ),
        ),
        Row(
            "What became of my jobs",
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
                    "Over the range shown. An interrupted job waits in front of those that never ran.",
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
                    "Over the range shown, in core-seconds. What is lost is the time since the last checkpoint: "
                    "write them more often if it is much.",
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
                    "Ten ScavengerJobs each, of those that exist. Empty without kube-state-metrics (docs/install.md, "
                    "Figures of single jobs). `kubectl sj list` has adopted Jobs as well.",
                    (_of_jobs("starts"), _of_jobs("interruptions")),
                    kind="bargauge",
                    exported=True,
                ),
            ),
        ),
        Row("What my jobs use", (_use("cpu", "CPU", "short"), _use("memory", "Memory", "bytes"))),
    ),
)
