"""Jobs, and why each is where it is: in the words of the admitter, which decides, and what its words stand for."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from heapq import nsmallest
from typing import Final

from scavenger_api.reasons import LISTS
from scavenger_api.states import Phase
from scavenger_api.task_numbers import numbers_of
from scavenger_api.times import format_time

from scavenger_board.core.picture import ArrayRow, JobRow
from scavenger_board.core.queues import Rank, ranks
from scavenger_board.core.runs import checkpointed, runs, tasks_unsaved_since, unsaved_since
from scavenger_board.core.snapshot import ArrayFacts, JobFacts, PodFacts, QueueFacts

MESSAGE: Final = 400
"""Characters of a message that are shown: thousands of jobs may wait with one each."""

MOST_TASKS: Final = 100
"""Of an array, with their nodes."""

NOT_SEEN: Final = "the admitter has written no status yet"


def job_rows(
    now: datetime, jobs: Iterable[JobFacts], pods: Iterable[PodFacts], queues: Iterable[QueueFacts] = ()
) -> list[JobRow]:
    """All jobs by key."""
    own: dict[str, list[PodFacts]] = {}
    for pod in pods:
        if pod.job:
            own.setdefault(pod.job, []).append(pod)
    jobs = tuple(jobs)
    rank = ranks(jobs, queues)
    rows = [_row(now, job, own.get(job.key, []), rank.get(job.key)) for job in jobs]
    return sorted(rows, key=lambda row: row.key)


def meanings(rows: Iterable[JobRow]) -> dict[str, str]:
    """What the words stand for that these jobs wait by: once, as thousands may wait by one."""
    return {word: _meaning(word) for word in sorted({row.why for row in rows if row.why})}


def _row(now: datetime, job: JobFacts, own: list[PodFacts], rank: Rank | None) -> JobRow:
    since, array = in_phase_since(job), job.array
    pods = job.pods if array is None else len(own)
    return JobRow(
        key=job.key,
        queue=job.queue,
        phase=job.phase or Phase.WAITING.value,
        since=format_time(since) if since is not None else None,
        rank=rank,
        why=job.reason if job.in_line or job.suspended else "",
        says=_says(job),
        interrupted=job.interrupted,
        useful=job.useful,
        lost=job.lost,
        at_risk=job.at_risk if job.phase == Phase.RUNNING else None,
        preemption_class=job.preemption_class if job.phase == Phase.RUNNING else "",
        cpu=job.cpu * pods,
        memory=job.memory * pods,
        pods=pods,
        nodes=sorted({pod.node for pod in own if pod.node}),
        reclaimed=job.reclaimed,
        runs=runs(job),
        checkpointed=checkpointed(job, now),
        safe_until=unsaved_since(job, now) if array is None else tasks_unsaved_since(job, own, now),
        array=None if array is None else _array(array, own),
    )


def _array(array: ArrayFacts, own: list[PodFacts]) -> ArrayRow:
    tasks = nsmallest(MOST_TASKS, ((pod.task, pod.node) for pod in own if pod.task is not None))
    numbers = numbers_of(array.tasks, array.indexes)
    return ArrayRow(
        tasks=array.tasks,
        completed=array.completed,
        failed=array.failed,
        running=array.running,
        cells=_with_pods(array, own),
        pods=len(own),
        shown=[(numbers[task], node) for task, node in tasks if task < len(numbers)],
        indexes=array.indexes,
    )


def _with_pods(array: ArrayFacts, own: list[PodFacts]) -> str:
    """The cells, with tasks that run as their pods say where the status does not."""
    if not array.by_pods or not array.cells:
        return array.cells
    cells, each = list(array.cells), -(-array.tasks // len(array.cells))
    for pod in own:
        place = pod.task // each if pod.task is not None and pod.started is not None else len(cells)
        if place < len(cells) and cells[place] != "f":
            cells[place] = "r"
    return "".join(cells)


def in_phase_since(job: JobFacts) -> datetime | None:
    """Since when it has been where it is; None where nothing says so."""
    if job.phase in (Phase.COMPLETED, Phase.FAILED):
        return job.finished
    if job.phase == Phase.RUNNING:
        return job.runs[-1] if job.runs else None
    if job.phase == Phase.INTERRUPTED and job.interruptions:
        return job.interruptions[-1]
    return (job.since or job.created) if job.in_line else None


def _says(job: JobFacts) -> str:
    if job.deleting:
        return "it is being deleted, and its pods have their grace period"
    if not job.phase:
        return NOT_SEEN
    return job.message[:MESSAGE]


def _meaning(word: str) -> str:
    for reasons in LISTS:
        if (known := reasons.of(word)) is not None:
            return known.__doc__ or ""
    return ""
