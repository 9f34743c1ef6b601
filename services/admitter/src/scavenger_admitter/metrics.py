"""What the admitter shows on /metrics, beside what the runtime shows of its queues, informers and requests."""

from __future__ import annotations

from collections.abc import Container
from functools import cache
from typing import Final

from scavenger_api.names import DEFAULT_QUEUE
from scavenger_api.reasons import InterruptionReason
from scavenger_api.states import Phase
from scavenger_runtime.metrics import LATENCY_BUCKETS, WAIT_BUCKETS, counter, gauge, histogram

UNKNOWN_QUEUE: Final = "(unknown)"
"""Label of the jobs whose queue does not exist: users write its name, so that there may be any number of them."""

JOBS: Final = gauge("jobs", "ScavengerJobs and adopted Jobs by phase and queue.", ("phase", "queue"))
TASKS: Final = gauge(
    "tasks",
    "Tasks of arrays, and completions of adopted Jobs, by queue and state: waiting, running, completed or failed.",
    ("queue", "state"),
)
LINE: Final = gauge("queue_depth", "ScavengerJobs and adopted Jobs queued for admission.", ("queue",))
WAIT_SECONDS: Final = histogram(
    "waiting_seconds",
    "Until all pods run: for the First start since the job was created, for a Restart since it is queued again.",
    ("queue", "start"),
    buckets=WAIT_BUCKETS,
)
STARTS: Final = counter("starts", "Jobs started by the admission cycle.", ("queue",))
FAILED_STARTS: Final = counter("failed_starts", "Starts that failed, by reason.", ("queue", "reason"))
NODE_REFUSALS: Final = counter(
    "node_refusals", "Pods that a node did not start, by whether its kubelet did not admit them or its runtime failed.",
    ("stage",),
)  # fmt: skip
SHUNNED_NODES: Final = gauge("shunned_nodes", "Nodes on which no job starts, as they have refused pods.")
UNPROVEN_SUCCESSES: Final = gauge(
    "unproven_successes", "Programs that ended with 0 and whose nodes have shown no life since."
)
PROOF_SECONDS: Final = histogram(
    "success_proof_seconds",
    "From the end of a program with 0 until its node has shown life.",
    buckets=(5.0, 7.5, 10.0, 12.5, 15.0, 20.0, 30.0, 60.0, 120.0),
)
FINISHED: Final = counter("finished_jobs", "Jobs that completed or failed.", ("queue", "phase"))
INTERRUPTIONS: Final = counter("interruptions", "Interruptions by cause.", ("queue", "cause"))
SHORT_RUNS: Final = counter(
    "short_runs", "Runs that ended within a minute of their start, by why: an interruption or Checkpointed.",
    ("queue", "cause"),
)  # fmt: skip
STALLED: Final = counter("stalled_runs", "Runs that report checkpoints no longer, and seem to hang.", ("queue",))
LOST_CPU_SECONDS: Final = counter(
    "lost_cpu_seconds", "CPU request times time thrown away; on reclaimed capacity, CPU time.", ("queue",)
)
LOST_SECONDS: Final = counter(
    "lost_seconds", "Devices requested times time thrown away, by extended resource.", ("queue", "resource")
)
USEFUL_SECONDS: Final = counter(
    "useful_seconds", "Devices requested times time kept, by extended resource.", ("queue", "resource")
)
USEFUL_CPU_SECONDS: Final = counter(
    "useful_cpu_seconds", "CPU request times time kept; on reclaimed capacity, CPU time.", ("queue",)
)
UNUSED_CPU_SECONDS: Final = counter(
    "unused_cpu_seconds",
    "CPU request minus CPU time, where the request is more, of pods on guaranteed capacity that are measured.",
    ("queue",),
)
UNUSED_DEVICE_SECONDS: Final = counter(
    "unused_device_seconds",
    "Devices requested minus devices used, where the request is more, by extended resource of which a metric is set.",
    ("queue", "resource"),
)
RECLAIMS: Final = counter(
    "reclaims", "Jobs interrupted to give a queue its share back, by the queue they are of and the one they went for.",
    ("queue", "receiver"),
)  # fmt: skip
QUEUE_ALLOCATED: Final = gauge("queue_allocated", "What a queue has.", ("queue", "resource", "unit"))
QUEUE_DESERVED: Final = gauge("queue_deserved", "What a queue deserves.", ("queue", "resource", "unit"))
CYCLE_SECONDS: Final = histogram(
    "admission_cycle_seconds", "Snapshot and plan of one admission cycle.", buckets=LATENCY_BUCKETS
)
ORDINARY_WAITING: Final = gauge("ordinary_pods_waiting", "Regular pods without a node that wait for capacity.")
ORDINARY_WAIT_SECONDS: Final = histogram(
    "ordinary_pod_wait_seconds",
    "From the creation of a regular pod until it has a node; whole seconds.",
    buckets=(0.0, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0),
)
HELD: Final = gauge("held_jobs", "Jobs that wait, by the reason the last admission cycle gave.", ("reason",))
LOAD: Final = gauge("admission_load_ratio", "Load that the admission cycle counted.", ("resource", "pool"))
LEVEL: Final = gauge("admission_level_ratio", "Level that the load must stay under.", ("resource", "pool"))


def queue_label(queue: str, known: Container[str]) -> str:
    """The label of a queue, `known` being those that exist. The default queue always does."""
    return queue if queue == DEFAULT_QUEUE or queue in known else UNKNOWN_QUEUE


@cache  # the labels of queues that there have been
def begin(queue: str) -> None:
    """Show the counters of a queue from 0 on: what is first seen at 1 has not risen, as Prometheus counts."""
    for cause in InterruptionReason:
        INTERRUPTIONS.labels(queue, cause.value)
    for phase in (Phase.COMPLETED, Phase.FAILED):
        FINISHED.labels(queue, phase.value)
    for counter_ in (STARTS, STALLED, LOST_CPU_SECONDS, USEFUL_CPU_SECONDS, UNUSED_CPU_SECONDS):
        counter_.labels(queue)
    for start in ("First", "Restart"):
        WAIT_SECONDS.labels(queue, start)
