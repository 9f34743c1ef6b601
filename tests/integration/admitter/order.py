"""Who was started before whom, against the line they stood in: what docs/queues.md promises of it. Pure."""

from __future__ import annotations

from collections.abc import Sequence


def overtaken(line: Sequence[str], terms: Sequence[Sequence[str]], batch: int) -> list[tuple[str, str]]:
    """Jobs that were overtaken by one that had to come after them, each with the first that did so.

    1. A leader starts nobody who stands `batch` places or more behind a job that it has not started before. Places are
       those in the line that this leader found.
    2. What a leader had passed over when it died is among the first `batch` jobs that its successor starts.

    Both hold for equal jobs that stand in line, have room, and whose starts the API server answers unless their leader
    dies. The order inside a cycle is open.

    Args:
        line: the jobs, first in line first.
        terms: what each leader started, one leader after the other, in the order of creation.
        batch: most jobs that a cycle starts.
    """
    found: list[tuple[str, str]] = []
    left, passed_over = list(line), set[str]()
    for started in terms:
        turns = {job: turn for turn, job in enumerate(started)}
        never = len(started)
        for place, job in enumerate(left):
            turn = turns.get(job, never)
            too_early = [other for other in left[place + batch :] if turns.get(other, never) < turn]
            if job in passed_over:
                too_early += started[batch:turn]
            if too_early:
                found.append((job, min(too_early, key=turns.__getitem__)))
        passed_over = passed_over.union(left_out(left, started)) - turns.keys()
        left = [job for job in left if job not in turns]
    return found


def left_out(line: Sequence[str], started: Sequence[str]) -> list[str]:
    """Jobs that were not started although one behind them was."""
    done = set(started)
    reached = max((place for place, job in enumerate(line) if job in done), default=0)
    return [job for job in line[:reached] if job not in done]
