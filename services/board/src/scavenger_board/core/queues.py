"""Queues, and the queued jobs of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from scavenger_api import names
from scavenger_api.states import QueueState
from scavenger_domain import gang
from scavenger_domain.gang import Place, by_priority, line_order
from scavenger_domain.queues import over_share

from scavenger_board.core.picture import QueueRow
from scavenger_board.core.snapshot import JobFacts, QueueFacts

Rank = tuple[int, int, str]

LAST: Final = 2**53 - 1
"""Microseconds after every moment: of a job that is not queued yet."""

SHOWN: Final = 10
"""Jobs of a line, the first ones; the others are found by their rows."""


def lines(jobs: Iterable[JobFacts], queues: Iterable[QueueFacts] = ()) -> dict[str, list[str]]:
    """The keys of the queued jobs, in order, by queue. queues: those that there are."""
    turns = _turns(queues)
    found = {queue: by_priority(line, _rank) for queue, line in _sorted(jobs).items()}
    return {
        q: [job.key for _, job in (_in_turns(line) if q in turns else enumerate(line))] for q, line in found.items()
    }


def ranks(jobs: Iterable[JobFacts], queues: Iterable[QueueFacts] = ()) -> dict[str, Rank]:
    """What queued jobs of a queue are sorted by, by key of the job. A job that its priority has moved has the rank of
    the job whose place it holds; the ranks of others stay."""
    turns = _turns(queues)
    found: dict[str, Rank] = {}
    for queue, line in _sorted(jobs).items():
        ordered = by_priority(line, _rank)
        if queue in turns:
            found |= {job.key: (nth, *_shown(job)[1:]) for nth, job in _in_turns(ordered)}
        else:
            found |= {job.key: _shown(place) for place, job in zip(line, ordered, strict=True)}
    return found


def _turns(queues: Iterable[QueueFacts]) -> set[str]:
    return {queue.name for queue in queues if queue.turns}


def _in_turns(line: Iterable[JobFacts]) -> list[tuple[int, JobFacts]]:
    """The jobs of a queue whose namespaces take turns: the first one of each namespace, then the second ones, and so
    on. That is their order as long as all namespaces have as much for their weight."""
    count = Counter[str]()
    found = []
    for job in line:
        namespace = job.key.partition("/")[0]
        found.append((count[namespace], job))
        count[namespace] += 1
    return sorted(found, key=lambda one: (one[0], *_shown(one[1])[1:]))


def _sorted(jobs: Iterable[JobFacts]) -> dict[str, list[JobFacts]]:
    """Queued jobs by queue, in order but for priorities."""
    waiting: dict[str, list[JobFacts]] = {}
    for job in jobs:
        if job.in_line and not job.deleting:
            waiting.setdefault(job.queue, []).append(job)
    return {queue: sorted(line, key=_order) for queue, line in waiting.items()}


def _order(job: JobFacts) -> Place:
    return line_order(job.earned, job.queued, job.uid)


def _shown(job: JobFacts) -> Rank:
    interruptions, _, last, queued, uid = _order(job)
    return interruptions, LAST if last else queued, uid


def _rank(job: JobFacts) -> gang.Rank:
    return job.key.partition("/")[0], job.earned, job.priority, job.array is not None


def queue_rows(queues: Sequence[QueueFacts], line: Mapping[str, Sequence[str]]) -> list[QueueRow]:
    """All queues by name; those that only jobs name, and do not exist, as well."""
    known = {queue.name: queue for queue in queues}
    return [_row(known.get(name), name, line.get(name, ())) for name in sorted({*known, *line})]


def _row(queue: QueueFacts | None, name: str, line: Sequence[str]) -> QueueRow:
    if queue is None:
        # Of weight 1, open, always there; all others do not exist.
        state = QueueState.OPEN.value if name == names.DEFAULT_QUEUE else ""
        weight = 1 if name == names.DEFAULT_QUEUE else None
        return QueueRow(name, state, weight, {}, None, None, None, list(line[:SHOWN]), len(line))
    return QueueRow(
        name=name,
        state=queue.state,
        weight=queue.weight,
        jobs=dict(queue.jobs),
        allocated=dict(queue.allocated),
        deserved=dict(queue.deserved),
        over=over_share(queue.allocated, queue.deserved),
        line=list(line[:SHOWN]),
        in_line=len(line),
    )
