"""The marks of the prioritizer on the pods of a run: its class, and its running priority in CPU-seconds.

The class is a label, which schedulers and budgets read, and every pod of a gang has the same two marks. They are what
is decided; what `status.preemption` says is a copy for people, which the admitter writes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from scavenger_api.names import NON_PREEMPTIBLE, PREEMPTIBLE


class Marked(Protocol):
    """A pod with its marks.

    Attributes:
        live: neither in a terminal phase nor being deleted.
        class_: the label preemption-class; empty where it has none.
        written: the annotation running-priority in CPU-seconds; None where it is absent or unreadable.
    """

    @property
    def live(self) -> bool: ...  # noqa: D102
    @property
    def class_(self) -> str: ...  # noqa: D102
    @property
    def written(self) -> int | None: ...  # noqa: D102


def class_of(members: Iterable[Marked], shown: str | None) -> str:
    """The class of a run: what its living pods agree on. A pod without a class is preemptible, as it was created.

    Args:
        members: the pods of the run.
        shown: what the status says. It holds where the pods do not agree: the prioritizer is between two patches, or
            was stopped there, and what the status says was the last complete one.
    """
    labels = {pod.class_ == NON_PREEMPTIBLE for pod in members if pod.live}
    protected = labels.pop() if len(labels) == 1 else shown == NON_PREEMPTIBLE
    return NON_PREEMPTIBLE if protected else PREEMPTIBLE


def figure_of(members: Iterable[Marked]) -> int | None:
    """The running priority of a run in CPU-seconds, as the prioritizer wrote it; None where it did not."""
    return max((pod.written for pod in members if pod.live and pod.written is not None), default=None)


def moved(old: int | None, new: int, step: int, ratio: float) -> bool:
    """Whether a running priority has moved enough to matter, in CPU-seconds.

    By at least `step`, and by at least `ratio` times the smaller of the two: small figures decide who goes next and
    need to be right, large ones only need to be large.
    """
    if old is None:
        return True
    difference = abs(new - old)
    return difference > 0 and difference >= max(step, ratio * min(old, new))
