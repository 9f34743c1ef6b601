"""What the prioritizer shows on /metrics, beside what the runtime shows of informers and requests."""

from __future__ import annotations

from collections import Counter
from typing import Final

from scavenger_api.names import NON_PREEMPTIBLE, PREEMPTIBLE
from scavenger_domain.gang import PER_CPU_SECOND
from scavenger_runtime.metrics import counter, gauge, histogram

from scavenger_prioritizer.core.plan import ClassPlan
from scavenger_prioritizer.core.snapshot import Source

CLASSES: Final = (PREEMPTIBLE, NON_PREEMPTIBLE)

JOBS: Final = gauge("preemption_jobs", "Running jobs by class.", ("class",))
PODS: Final = gauge("preemption_pods", "Living pods of running jobs by class.", ("class",))
AT_RISK: Final = gauge(
    "preemption_cpu_seconds_at_risk",
    "CPU time lost if all jobs of the class went now; an accelerator counts as so many cores.",
    ("class",),
)
CORDONED: Final = gauge("preemption_jobs_on_cordoned_nodes", "Running jobs with a pod on a cordoned node.")
BOUNDARY: Final = gauge(
    "preemption_boundary_cpu_seconds", "CPU time at risk of the last job that is preemptible by its position."
)
PERCENTAGE: Final = gauge(
    "preemption_target_ratio", "Share of the running jobs to be preemptible; NaN while classes are kept."
)
SOURCE: Final = gauge("preemption_target_source", "1 for where that share comes from.", ("source",))
BUDGETS: Final = gauge("preemption_budgets", "Namespaces whose protected pods a budget covers.")
PENDING: Final = gauge("preemption_writes_pending", "Writes that the last pass left to the next one.")
CHANGES: Final = counter("preemption_class_changes", "Jobs that changed class.", ("to",))
WRITES: Final = counter("preemption_writes", "Writes by kind and outcome.", ("kind", "outcome"))
PASSES: Final = counter("preemption_passes", "Passes by outcome.", ("outcome",))
MEASURED: Final = gauge(
    "preemption_measured_pods", "Pods on reclaimed capacity whose CPU time at risk is measured, not estimated."
)
USAGE_POLLS: Final = counter("preemption_usage_polls", "Questions to the metrics API by outcome.", ("outcome",))
DECISION_SECONDS: Final = histogram("preemption_decision_seconds", "Snapshot and plan of one pass.")
PASS_SECONDS: Final = histogram("preemption_pass_seconds", "One pass with its writes.")


def show(plan: ClassPlan) -> None:
    """Bring the gauges to what was decided."""
    jobs: Counter[str] = Counter()
    pods: Counter[str] = Counter()
    risk: Counter[str] = Counter()
    for verdict in plan.verdicts:
        jobs[verdict.class_] += 1
        pods[verdict.class_] += sum(pod.live for pod in verdict.gang.pods)
        risk[verdict.class_] += verdict.risk
    for class_ in CLASSES:
        JOBS.labels(class_).set(jobs[class_])
        PODS.labels(class_).set(pods[class_])
        AT_RISK.labels(class_).set(risk[class_] / PER_CPU_SECOND)
    placed = [v.risk for v in plan.verdicts if v.class_ == PREEMPTIBLE and not v.cordoned]
    BOUNDARY.set(max(placed, default=0) / PER_CPU_SECOND)
    CORDONED.set(sum(v.cordoned for v in plan.verdicts))
    PERCENTAGE.set(float("nan") if plan.share.percentage is None else plan.share.percentage / 100)
    for source in Source:
        SOURCE.labels(source.value).set(source is plan.share.source)
    BUDGETS.set(len({v.gang.job.namespace for v in plan.verdicts if v.class_ == NON_PREEMPTIBLE}))
