"""Queues, and who is in line in each."""

from __future__ import annotations

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
"""Microseconds after every moment: of a job that nobody has queued yet."""

SHOWN: Final = 10
"""Jobs of a line, the first ones; the others are found by their rows."""


def lines(jobs: Iterable[JobFacts]) -> dict[str, list[str]]:
    """The keys of the jobs in line, in order, by queue."""
    return {queue: [job.key for job in by_priority(line, _rank)] for queue, line in _sorted(jobs).items()}


def ranks(jobs: Iterable[JobFacts]) -> dict[str, Rank]:
    """What jobs in line in a queue are sorted by, by key of the job. A job that its priority has moved has the rank of
    the job whose place it holds; the ranks of others stay."""
    return {
        job.key: _shown(place)
        for line in _sorted(jobs).values()
        for place, job in zip(line, by_priority(line, _rank), strict=True)
    }


def _sorted(jobs: Iterable[JobFacts]) -> dict[str, list[JobFacts]]:
    """Jobs in line by queue, in order but for priorities."""
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
