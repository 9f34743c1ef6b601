"""What the prioritizer shows on /metrics, beside what the runtime shows of informers and requests."""

from __future__ import annotations

from collections import Counter
from typing import Final

from scavenger_api.names import NON_PREEMPTIBLE, PREEMPTIBLE
from scavenger_runtime.metrics import counter, gauge, histogram

from scavenger_prioritizer.core.plan import ClassPlan

CLASSES: Final = (PREEMPTIBLE, NON_PREEMPTIBLE)

JOBS: Final = gauge("preemption_jobs", "Running jobs by class.", ("class",))
WRITES: Final = counter("preemption_writes", "Writes by kind and outcome.", ("kind", "outcome"))
PASSES: Final = counter("preemption_passes", "Passes by outcome.", ("outcome",))
MEASURED: Final = gauge(
    "preemption_measured_pods", "Pods on reclaimed capacity whose unsaved work is measured, not estimated."
)
PASS_SECONDS: Final = histogram("preemption_pass_seconds", "One pass with its writes.")


def show(plan: ClassPlan) -> None:
    """Bring the gauges to what was decided."""
    jobs = Counter(verdict.class_ for verdict in plan.verdicts)
    for class_ in CLASSES:
        JOBS.labels(class_).set(jobs[class_])
