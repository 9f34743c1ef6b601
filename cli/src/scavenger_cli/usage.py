"""What jobs use of their requests, in words, and what they should request. Pure: statuses in, text and data out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from scavenger_api.quantity import format_amount
from scavenger_domain.recommendation import Kin, Measured, Recommendation, recommend
from scavenger_domain.usage import COARSE, RESOURCES, JobUsage, read_usage, usage_in_words

from scavenger_cli.objects import Job
from scavenger_cli.words import percent, short_amount, span


def usage_of(job: Job) -> JobUsage | None:
    """The figures of a job; None where too little was measured."""
    return read_usage(job.status.usage)


def recommended_text(job: Job) -> str:
    """The same in words; empty where it is as the job asks."""
    if _was_killed(job):
        return "no more: a container was killed for memory"
    return ", ".join(f"{amount} {name}" for name, amount in job.recommended.items())


def _was_killed(job: Job) -> bool:
    """Whether a container of it was killed for memory under a recommendation."""
    return bool(job.status.recommended.get("killedForMemory"))


def usage_shares(job: Job) -> tuple[str, str]:
    """Cells of a table: CPU at p95, and memory at its maximum, of what a pod requests. Empty without figures."""
    usage = usage_of(job)
    cells = []
    for name in RESOURCES:
        one = usage.resources.get(name) if usage is not None else None
        used = (one.p95 if name == "cpu" else one.max) if one is not None else 0
        cells.append(percent(round(100 * used / one.requested)) if one is not None and one.requested else "")
    return cells[0], cells[1]


def usage_text(job: Job) -> str:
    """What a pod of it uses, in a sentence; empty without figures."""
    usage = usage_of(job)
    if usage is None:
        return ""
    parts = []
    if (cpu := usage.resources.get("cpu")) is not None:
        words = [short_amount("cpu", one) for one in (cpu.requested, cpu.p50, cpu.p95, cpu.max)]
        parts.append("requests {} cpu, uses {} (p95 {}, most {})".format(*words))
    if (memory := usage.resources.get("memory")) is not None:
        words = [short_amount("memory", one) for one in (memory.requested, memory.p50, memory.max)]
        parts.append("requests {} memory, uses {} (most seen {})".format(*words))
    for name, device in usage.devices.items():
        shares = [percent(round(100 * one / max(1, device.requested))) for one in (device.p50, device.p95, device.max)]
        parts.append("requests {} {}, uses {} (p95 {}, most {})".format(device.requested // 1000, name, *shares))
    return f"{'; '.join(parts)}; measured for {span(usage.pod_seconds)}, and {COARSE}"


# --- recommendations ---


@dataclass(frozen=True, slots=True)
class Advice:
    """What a job should request.

    Attributes:
        job: the job.
        usage: its own figures; None without any.
        found: what is recommended.
    """

    job: Job
    usage: JobUsage | None
    found: Recommendation

    @property
    def freed(self) -> int:
        """Millicores that its pods would request less."""
        return self.found.freed("cpu", self.job.requests.get("cpu", 0), self.job.pods)


def advise(jobs: Sequence[Job], wanted: Iterable[Job]) -> list[Advice]:
    """What jobs should request.

    Args:
        jobs: all that may be kin of each other.
        wanted: of these, those to advise on.
    """
    kin: dict[Kin, list[Job]] = defaultdict(list)
    for job in jobs:
        if usage_of(job) is not None or _was_killed(job):
            kin[_kin(job)].append(job)
    found = []
    for job in wanted:
        others = [one for one in kin[_kin(job)] if one.metadata.uid != job.metadata.uid]
        told = [usage for one in others if (usage := usage_of(one)) is not None]
        killed = any(map(_was_killed, others))
        own, array = usage_of(job), job.spec.array is not None and len(job.numbers) > 1
        found.append(Advice(job, own, recommend(Measured(own, job.spec.parallelism, array), told, killed=killed)))
    return found


def _kin(job: Job) -> Kin:
    return Kin.of(job.namespace, job.spec.main_image, job.spec.main_command, job.spec.requests)


HEADER: Final = (
    *("NAME", "QUEUE", "PODS", "CPU", "CPU-USED", "CPU-ADVISED", "MEMORY", "MEMORY-USED", "MEMORY-ADVISED"),
    *("CORES-FREED", "LACKS"),
)


def advice_row(advice: Advice, *, namespaces: bool) -> list[str]:
    """The cells of one job: amounts of one pod, and cores that all its pods would free."""
    job, cells = advice.job, []
    for name in RESOURCES:
        one = advice.usage.resources.get(name) if advice.usage is not None else None
        known = advice.found.amounts.get(name)
        cells += [
            short_amount(name, job.requests.get(name, 0)),
            short_amount(name, one.max) if one is not None else "-",
            format_amount(name, known) + "*" * (name in advice.found.by_kin) if known is not None else "-",
        ]
    lacks = "; ".join(f"{name}: {text}" for name, text in advice.found.lacks.items())
    row = [job.name, job.spec.queue, str(job.pods), *cells, short_amount("cpu", advice.freed), lacks]
    return [job.namespace, *row] if namespaces else row


def advice_notes(found: Sequence[Advice]) -> Iterator[str]:
    """What is said below the table."""
    freed = sum(one.freed for one in found)
    if freed:
        yield f"With these requests they would free {short_amount('cpu', freed)} cores."
    for name, (requested, idle) in _idle_devices(found).items():
        words = f"{idle / 1000:.1f} of {requested // 1000} {name}"
        yield f"Half of the time they leave at least {words} idle. A part of a device cannot be requested."
    if any(one.found.by_kin for one in found):
        yield "*: by other jobs of the same namespace, image, command and requests."
    yield f"{COARSE[:1].upper()}{COARSE[1:]}."


def _idle_devices(found: Iterable[Advice]) -> dict[str, tuple[int, int]]:
    """By device, what the pods of these jobs request, and what of it is idle half of the time, in thousandths."""
    sums: dict[str, tuple[int, int]] = {}
    for one in found:
        for name, used in one.usage.devices.items() if one.usage is not None else ():
            requested, idle = sums.get(name, (0, 0))
            more = max(0, used.requested - used.p50) * one.job.pods
            sums[name] = requested + used.requested * one.job.pods, idle + more
    return dict(sorted(sums.items()))


def advice_data(advice: Advice) -> dict[str, Any]:
    """One job as data."""
    job, requests = advice.job, advice.job.requests
    return {
        "namespace": job.namespace,
        "name": job.name,
        "kind": job.kind_of,
        "queue": job.spec.queue,
        "pods": job.pods,
        "requests": {name: format_amount(name, requests[name]) for name in RESOURCES if name in requests},
        "usage": usage_in_words(advice.usage) if advice.usage is not None else {},
        "recommended": {name: format_amount(name, value) for name, value in advice.found.amounts.items()},
        "byKin": sorted(advice.found.by_kin),
        "lacks": dict(advice.found.lacks),
        "freedCores": advice.freed / 1000,
    }
