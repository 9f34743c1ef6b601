"""Which checkpoint a gang as a whole can restart from. Admitter, regulator and prioritizer judge by this one rule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final, TypeVar

COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
"""Annotation, and label, of a pod of an Indexed Job: which member of the gang it is."""
INDEX_FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
"""Annotation of a pod whose index has retries of its own: how often it had failed before."""

Moment = TypeVar("Moment", int, datetime)


def completion_index(annotations: Mapping[str, str], labels: Mapping[str, str]) -> int | None:
    """The pod's completion index; None when it has none."""
    text = annotations.get(COMPLETION_INDEX) or labels.get(COMPLETION_INDEX) or ""
    return int(text) if text.isdecimal() and text.isascii() and len(text) <= 9 else None


def failures_before(annotations: Mapping[str, str]) -> int:
    """How often the index of a pod had failed when the pod was created, as far as it says."""
    text = annotations.get(INDEX_FAILURES) or ""
    return int(text) if text.isdecimal() and text.isascii() and len(text) <= 9 else 0


def gang_checkpoint(
    reports: Iterable[tuple[int | None, Moment | None]], parallelism: int, now: Moment
) -> Moment | None:
    """The checkpoint that the gang can restart from, as its pods report it; None when there is none.

    A gang restarts from what all its members have written: when all report, the oldest report counts. In many gangs
    the first member writes the checkpoint for all: when only index 0 reports, its report counts. When some report and
    others not, nothing counts until the others follow. Reports from the future say nothing.

    Args:
        reports: completion index (None where it is not known) and reported moment of each pod.
        parallelism: members of the gang.
        now: the present, of the same kind as the reports.
    """
    told = {
        position if index is None else index: at
        for position, (index, at) in enumerate(reports)
        if at is not None and at <= now
    }
    if told and (len(told) >= parallelism or told.keys() == {0}):
        return min(told.values())
    return None
