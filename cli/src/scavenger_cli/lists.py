"""Rows of the tables: jobs and queues, a line each. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from scavenger_api.quantity import QuantityError, readable_amounts

from scavenger_cli.objects import Job, Queue, QueueCounts
from scavenger_cli.usage import usage_shares
from scavenger_cli.words import age, cpu_time, short_amount

UNKNOWN = "<none>"
KIND = "KIND"
"""The column that says which kind a job is. It is shown with -o wide, and where both are listed: kubectl names the kind
where it lists several."""


def job_header(*, wide: bool, namespaces: bool) -> list[str]:
    """As `kubectl get sj` names the columns. CPU and MEMORY are those of the whole gang; used is what a pod uses of its
    requests."""
    header = ["NAME", KIND, "QUEUE", "STATUS", "INTERRUPTED", "RUNTIME", "AGE", "REASON"]
    if wide:
        header += ["PODS", "TASKS", "CPU", "MEMORY", "CPU-USED", "MEMORY-USED", "CAPACITY", "CLASS", "UNSAVED"]
        header += ["LAST-CHECKPOINT", "MESSAGE"]
    return ["NAMESPACE", *header] if namespaces else header


def job_row(job: Job, now: datetime, *, wide: bool, namespaces: bool) -> list[str]:
    """The cells of one job, in the order of `job_header`."""
    status = job.status
    row = [
        job.name,
        job.kind_of,
        job.spec.queue,
        displayed_phase(job),
        str(status.interrupted_count),
        age(job.started_at, now),
        age(job.metadata.creation_timestamp, now),
        next((condition.reason for condition in status.conditions if condition.status == "False"), ""),
    ]
    if wide:
        row += [
            str(job.pods),
            status.array.progress,
            *gang_amounts(job),
            *usage_shares(job),
            job.spec.capacity,
            job.preemption_class,
            cpu_time(job.unsaved(now)) if job.has_risk else "",
            age(status.last_checkpoint_timestamp, now),
            status.message.replace("\n", " "),
        ]
    return [job.namespace, *row] if namespaces else row


def displayed_phase(job: Job) -> str:
    """The phase, or what is more worth knowing."""
    if job.metadata.deletion_timestamp is not None:
        return "Deleting"
    return job.phase or "Waiting"


def gang_amounts(job: Job) -> tuple[str, str]:
    """CPU and memory of the whole gang, or of all tasks that run."""
    try:
        asked = job.requests
    except QuantityError:
        return "?", "?"
    count = job.pods
    return short_amount("cpu", asked.get("cpu", 0) * count), short_amount("memory", asked.get("memory", 0) * count)


QUEUE_HEADER = ["NAME", "STATE", "WEIGHT", "TOTAL", "PENDING", "RUNNING", "CPU", "SHARE", "QUOTA", "AGE"]


def queue_row(queue: Queue, now: datetime) -> list[str]:
    """The cells of one queue: its jobs in any phase, queued ones, those on nodes; CPU in use, and the CPU it deserves
    now."""
    counts = queue.status.jobs or QueueCounts()
    allocated, deserved = readable_amounts(queue.status.allocated), readable_amounts(queue.status.deserved)
    return [
        queue.metadata.name,
        queue.state,
        str(queue.spec.weight),
        str(sum(getattr(counts, phase) for phase in QueueCounts.__struct_fields__)),
        str(counts.waiting + counts.interrupted),
        str(counts.running + counts.starting),
        short_amount("cpu", allocated.get("cpu", 0)),
        short_amount("cpu", deserved["cpu"]) if "cpu" in deserved else UNKNOWN,
        spell_quota(queue),
        age(queue.metadata.creation_timestamp, now),
    ]


def spell_quota(queue: Queue) -> str:
    """`cpu=100,memory=1Ti`; `<none>` without a quota."""
    return ",".join(f"{name}={value}" for name, value in sorted(queue.spec.quota.items())) or UNKNOWN


def by_name(jobs: Iterable[Job]) -> Sequence[Job]:
    """In the order kubectl lists them."""
    return sorted(jobs, key=lambda job: (job.namespace, job.name))
