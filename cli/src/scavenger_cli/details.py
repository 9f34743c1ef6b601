"""`get NAME`: what a job asked for, what became of it, run by run. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from scavenger_api.quantity import readable_amounts
from scavenger_api.states import Capacity, Phase
from scavenger_api.times import parse_time
from scavenger_api.weights import DEFAULT_WEIGHTS, Weights
from scavenger_domain.selectors import spelled
from scavenger_kube.kinds import Event, Pod

from scavenger_cli import objects
from scavenger_cli.lists import displayed_phase, spell_quota
from scavenger_cli.objects import Job, Queue, QueueCounts
from scavenger_cli.usage import recommended_text, usage_text
from scavenger_cli.words import age, cpu_time, ordinal, percent, plural, short_amount, span, spell

_CAPACITY: Final = {
    "Guaranteed": "Guaranteed: capacity that no pod has requested",
    Capacity.RECLAIMED: "Reclaimed: what others requested and do not use",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a timeline. at: None where the moment is not known."""

    at: datetime | None
    what: str


def timeline(job: Job) -> list[Entry]:
    """Submission, runs, interruptions and the end, in the order they happened.

    The status keeps the last 20 runs and interruptions; what is older is summed up in a line.
    """
    status = job.status
    starts, stops = _times(job.runs), _times(status.interrupted_timestamps)
    entries = [Entry(parse_time(job.metadata.creation_timestamp), "submitted")]
    older = status.interrupted_count - len(stops)
    if older > 0:
        entries.append(Entry(None, f"… {plural(older, 'earlier interruption')}"))
    marks = [(at, 0, "running") for at in starts] + [(at, 1, "interrupted") for at in stops]
    began: datetime | None = None
    count = max(0, older)
    for at, _, what in sorted(marks):
        if what == "running":
            again = f", after {ordinal(count)} interruption" if count else ""
            entries.append(Entry(at, f"running{again}"))
            began = at
        else:
            count += 1
            entries.append(Entry(at, f"interrupted{_after(began, at)}"))
            began = None
    finished, ended = parse_time(status.finished_timestamp), parse_time(status.ended_timestamp)
    if began is not None and ended is not None and finished is None:
        entries.append(
            Entry(ended, f"stopped{_after(began, ended)}")
        )  # suspended, by its checkpointExitCode, or to be tried again
    elif finished is not None:
        entries.append(Entry(finished, f"{job.phase.lower()}{_after(began, finished)}"))
    return entries


def _after(began: datetime | None, at: datetime) -> str:
    return f" after {span((at - began).total_seconds())}" if began is not None else ""


def _times(stamps: Sequence[str]) -> list[datetime]:
    return [at for stamp in stamps if (at := parse_time(stamp)) is not None]


def job_details(
    job: Job,
    now: datetime,
    line: tuple[int, int] | None,
    weights: Weights = DEFAULT_WEIGHTS,
    queues: Iterable[Queue] = (),
) -> list[tuple[str, str]]:
    """Label and text of every line above the timeline."""
    status, spec = job.status, job.spec
    pods = f"{spec.parallelism} x " if spec.parallelism > 1 else ""
    lines = [
        ("Job", f"{job.namespace}/{job.name}"),
        ("Queue", spec.queue),
        ("Priority", f"{spec.priority} among the jobs of its namespace" if spec.priority else ""),
        ("Status", _status(job, now)),
        ("Message", status.message),
        ("After", _after_others(job)),
        ("Tasks", _tasks(job)),
        ("Asks for", f"{pods}{spell(spec.requests)}"),
        ("Requests", recommended_text(job)),
        ("Uses", usage_text(job)),
        ("Capacity", _CAPACITY.get(spec.capacity, spec.capacity)),
        ("Image", spec.main_image),
        ("Warning", spec.suffers),
        ("Checkpoints", f"at least every {spec.interruption_after}{_exit_code(job)}{_last_checkpoint(job, now)}"),
        ("Interrupted", plural(status.interrupted_count, "time")),
        ("Failed", _failures(job)),
        (cpu_time_label(job), cpu_account(job, now, weights)),
        *device_accounts(job),
        ("Class", job.preemption_class),
        ("Position", objects.position(job, line, queues)),
    ]
    return [(label, text) for label, text in lines if text]


def _after_others(job: Job) -> str:
    """The jobs that it starts after, and what became of them."""
    known = {one.job: one.ended.lower() or "not ended" for one in job.status.after}
    return ", ".join(
        f"{one.job} ({known.get(one.job, 'not seen yet')}{'; may fail' if one.when == 'Ended' else ''})"
        for one in job.spec.after
    )


def _tasks(job: Job) -> str:
    """How far an array is."""
    status, array = job.status.array, job.spec.array
    if array is None:
        return ""
    counts = ((status.completed, "completed"), (status.failed, "failed"), (status.running, "running"))
    return f"{array.tasks}: {', '.join(f'{count} {what}' for count, what in counts if count) or 'none has ended'}"


def _failures(job: Job) -> str:
    """Failures of the program after which the job has started again."""
    counted, free = job.status.retries or 0, job.status.ignored_failures or 0
    uncounted = f"; {free} of them not counted, by podFailurePolicy" if free else ""
    return f"{plural(counted + free, 'time')}, and started again{uncounted}" if counted + free else ""


def _status(job: Job, now: datetime) -> str:
    times: dict[str, datetime | None] = {
        Phase.RUNNING: job.started_at,
        Phase.WAITING: job.in_line_since,
        Phase.INTERRUPTED: job.in_line_since,
        Phase.COMPLETED: parse_time(job.status.finished_timestamp),
        Phase.FAILED: parse_time(job.status.finished_timestamp),
    }
    since = times.get(job.phase)
    words = displayed_phase(job)
    if since is None:
        return words
    ago = age(since, now)
    return f"{words} {ago} ago" if job.phase in objects.FINISHED else f"{words} for {ago}"


def _exit_code(job: Job) -> str:
    code = job.spec.checkpoint_exit_code
    return f", and one whenever it ends with code {code}" if code is not None else ""


def _last_checkpoint(job: Job, now: datetime) -> str:
    last = age(job.status.last_checkpoint_timestamp, now)
    if last:
        return f"; last reported {last} ago"
    safe = job.safe_until(now) if job.phase == Phase.RUNNING else None
    if safe is None:
        return ""
    due = job.spec.checkpoint_interval - (now - safe)
    return f"; next due in {span(due.total_seconds())}"


def cpu_time_label(job: Job) -> str:
    """What the job's CPU time is: what it kept others from using, or, on reclaimed capacity, what it really used."""
    return "CPU time used" if job.spec.reclaimed else "CPU time"


def cpu_account(job: Job, now: datetime, weights: Weights = DEFAULT_WEIGHTS) -> str:
    """CPU time useful, lost and unsaved."""
    useful, lost = job.status.useful_cpu_seconds, job.status.lost_cpu_seconds
    share = f" ({percent(100 * lost / (useful + lost))})" if lost else ""
    parts = [f"{cpu_time(useful)} useful", f"{cpu_time(lost)} lost{share}"]
    if job.has_risk:
        # Without the prioritizer it is not known here what was really used.
        guessed = job.spec.reclaimed and job.status.preemption.running_priority is None
        parts.append(f"{'at most ' * guessed}{cpu_time(job.unsaved(now, weights))} unsaved")
    return ", ".join(parts)


def device_accounts(job: Job) -> list[tuple[str, str]]:
    """A line per device such as a GPU, with the time of it that was useful and lost."""
    useful, lost = job.status.useful_seconds, job.status.lost_seconds
    return [
        (name, f"{cpu_time(useful.get(name, 0.0))} useful, {cpu_time(lost.get(name, 0.0))} lost")
        for name in sorted({*useful, *lost})
    ]


def condition_rows(job: Job, now: datetime) -> list[list[str]]:
    """A row per condition: type, status, since, reason, message."""
    return [
        [one.type, one.status, age(one.last_transition_time, now), one.reason, _line(one.message)]
        for one in job.status.conditions
    ]


def pod_rows(pods: Sequence[Pod], now: datetime) -> list[list[str]]:
    """A row per pod, by name: name, phase, node, age."""
    return [
        [
            pod.metadata.name,
            "Terminating" if pod.metadata.deletion_timestamp else pod.status.phase,
            pod.spec.node_name or "<none>",
            age(pod.metadata.creation_timestamp, now),
        ]
        for pod in sorted(pods, key=lambda pod: pod.metadata.name)
    ]


def event_rows(events: Sequence[Event], now: datetime) -> list[list[str]]:
    """A row per Event, the last one at the end: how long ago, type, count, reason, message."""
    return [
        [age(last_told(event), now), event.type, str(event.count or 1), event.reason, _line(event.message)]
        for event in sorted(events, key=last_told)
    ]


def last_told(event: Event) -> str:
    """When an Event was last written."""
    return event.last_timestamp or event.event_time or event.metadata.creation_timestamp or ""


def _line(text: str) -> str:
    return " ".join(text.split())


def queue_details(queue: Queue, now: datetime) -> list[tuple[str, str]]:
    """Label and text of every line of `queue get`."""
    counts = queue.status.jobs or QueueCounts()
    jobs = [f"{getattr(counts, name)} {name}" for name in QueueCounts.__struct_fields__ if getattr(counts, name)]
    allocated, deserved = readable_amounts(queue.status.allocated), readable_amounts(queue.status.deserved)
    lines = [("Queue", queue.metadata.name), ("State", queue.state), ("Weight", str(queue.spec.weight))]
    selector = queue.spec.namespace_selector
    if selector is not None and (labels := spelled(selector)):
        lines.append(("For", f"namespaces with {labels}"))
    if (turns := queue.spec.per_namespace) is not None:
        weights = ", ".join(f"{name} {weight}" for name, weight in sorted(turns.weights.items()))
        lines.append(("Namespaces", f"take turns, with the weights {weights}" if weights else "take turns"))
    lines += [("Quota", spell_quota(queue)), ("Jobs", ", ".join(jobs) or "none")]
    for name in sorted({*allocated, *deserved}):
        used = short_amount(name, allocated.get(name, 0))
        share = f" of {short_amount(name, deserved[name])} it deserves now" if name in deserved else ""
        lines.append((f"Uses {name}", used + share))
    created = queue.metadata.creation_timestamp
    lines.append(("Created", f"{created}, {age(created, now)} ago"))
    return lines
