"""Why a job waits: one word to compare, one sentence to read.

Ten thousand jobs may wait and a person looks at one of them, so the sentence is made only when it is asked
for. And figures such as "the largest free place" change with every pod in the cluster: two holds are equal
when reason and subject are, whatever their figures. Who writes a hold into a status writes it when it is not
equal to the one written before, and ten thousand messages do not change because one pod ended.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from enum import StrEnum

from scavenger_api.quantity import format_amount


class Reason(StrEnum):
    """The one-word reasons of the condition Admitted while a job waits."""

    # about this one job
    STARTING = "Starting"
    PODS_REMAIN = "PodsRemain"
    BACKING_OFF = "BackingOff"
    # it will not start before the job or the cluster is changed
    NO_NODE = "NoNode"
    NO_SELECTOR_MATCH = "NoSelectorMatch"
    TAINT_NOT_TOLERATED = "TaintNotTolerated"
    LARGER_THAN_ANY_NODE = "LargerThanAnyNode"
    LARGER_THAN_CLUSTER = "LargerThanCluster"
    # its queue
    QUEUE_MISSING = "QueueMissing"
    QUEUE_CLOSED = "QueueClosed"
    QUEUE_RELEASING = "QueueReleasing"
    QUEUE_QUOTA = "QueueQuota"
    QUEUE_SHARE = "QueueShare"
    MAKING_ROOM = "MakingRoom"
    # the load rule
    BLIND = "Blind"
    ADMIT_FALSE = "AdmitFalse"
    ADMISSION_LEVEL = "AdmissionLevel"
    # room, and turn
    NO_PLACE = "NoPlace"
    NOTHING_RECLAIMED = "NothingReclaimed"
    NEXT_CYCLE = "NextCycle"


class Hold:
    """Why a job waits. Equal to another hold when reason and subject are equal, whatever the figures.

    Attributes:
        reason: one CamelCase word, for the condition.
        subject: what the reason is about (a queue, a resource, the size of the gang); compared, never shown.
    """

    __slots__ = ("_message", "_render", "reason", "subject")

    def __init__(self, reason: Reason, message: str | Callable[[], str], *subject: Hashable) -> None:
        self.reason = reason
        self.subject = subject
        self._message = message if isinstance(message, str) else None
        self._render = None if isinstance(message, str) else message

    @property
    def message(self) -> str:
        """A plain sentence with the figures of the cycle that made this hold; rendered when asked for."""
        if self._render is not None:
            # Dropped after use: what renders may refer to the whole room of its cycle, and holds are kept for
            # long.
            self._message, self._render = self._render(), None
        assert self._message is not None
        return self._message

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Hold):
            return NotImplemented
        return self.reason == other.reason and self.subject == other.subject

    def __hash__(self) -> int:
        return hash((self.reason, self.subject))

    def __repr__(self) -> str:
        return f"Hold({self.reason}, {self.message!r})"


def spell(requests: Iterable[tuple[str, int]]) -> str:
    """Amounts as a person reads them: `4 cpu, 8Gi memory, 1 nvidia.com/gpu`; the pod's slot is left out."""
    return ", ".join(f"{format_amount(name, value)} {name}" for name, value in requests if name != "pods") or "nothing"


def percent(ppm: int) -> str:
    """Millionths as percent with at most one decimal, rounded up: `70 %`, `72.1 %`."""
    return f"{-(-ppm // 1000) / 10:.1f}".removesuffix(".0") + " %"
