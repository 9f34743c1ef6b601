"""What the admitter shows on /metrics, beside what the runtime shows of its queues, informers and requests."""

from __future__ import annotations

from typing import Final

from scavenger_runtime.metrics import LATENCY_BUCKETS, WAIT_BUCKETS, counter, gauge, histogram

JOBS: Final = gauge("jobs", "ScavengerJobs by phase and queue.", ("phase", "queue"))
LINE: Final = gauge("queue_depth", "ScavengerJobs in line for admission.", ("queue",))
WAIT_SECONDS: Final = histogram(
    "waiting_seconds", "From the place in line to all pods running.", ("queue",), buckets=WAIT_BUCKETS
)
STARTS: Final = counter("starts", "Jobs started by the admission cycle.", ("queue",))
FAILED_STARTS: Final = counter("failed_starts", "Starts that did not come off, by reason.", ("queue", "reason"))
FINISHED: Final = counter("finished_jobs", "Jobs that completed or failed.", ("queue", "phase"))
INTERRUPTIONS: Final = counter("interruptions", "Interruptions by cause.", ("queue", "cause"))
LOST_CPU_SECONDS: Final = counter(
    "lost_cpu_seconds", "CPU request times time thrown away; on reclaimed capacity, CPU time.", ("queue",)
)
USEFUL_CPU_SECONDS: Final = counter(
    "useful_cpu_seconds", "CPU request times time kept; on reclaimed capacity, CPU time.", ("queue",)
)
RECLAIMS: Final = counter(
    "reclaims", "Jobs interrupted to give a queue its share back, by the queue they are of and the one they went for.",
    ("queue", "receiver"),
)  # fmt: skip
RECLAIMED_CPU: Final = gauge("running_reclaimed_cpu_cores", "Reclaimed CPU that is placed on nodes: cores.")
STARVED: Final = gauge("starved_jobs", "Jobs on reclaimed capacity that got too little CPU when last looked at.")
QUEUE_ALLOCATED: Final = gauge("queue_allocated", "What a queue has: cores, bytes, units.", ("queue", "resource"))
QUEUE_DESERVED: Final = gauge("queue_deserved", "What a queue deserves: cores, bytes, units.", ("queue", "resource"))
CYCLE_SECONDS: Final = histogram(
    "admission_cycle_seconds", "Snapshot and plan of one admission cycle.", buckets=LATENCY_BUCKETS
)
CYCLES: Final = counter("admission_cycles", "Admission cycles.")
HELD: Final = gauge("held_jobs", "Jobs that wait, by the reason the last admission cycle gave.", ("reason",))
LOAD: Final = gauge("admission_load_percent", "Load that the admission cycle counted.", ("resource",))
LEVEL: Final = gauge("admission_level_percent", "Level that the load must stay under.", ("resource",))
