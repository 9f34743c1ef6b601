"""Why a job waits: one word to compare, one sentence to read.

Ten thousand jobs may wait and a person looks at one of them, so the sentence is made only when it is asked
for. And figures such as "the largest free place" change with every pod in the cluster: two waits are equal
when reason and subject are, whatever their figures. Who writes a wait into a status writes it when it is not
equal to the one written before, and ten thousand messages do not change because one pod ended.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from scavenger_api.quantity import format_amount
from scavenger_api.reasons import WaitReason


class Wait:
    """Why a job waits. Equal to another wait when reason and subject are equal, whatever the figures.

    Attributes:
        reason: one word, for the condition Admitted.
        subject: what the reason is about (a queue, a resource, the size of the gang); compared, never shown.
    """

    __slots__ = ("_message", "_render", "reason", "subject")

    def __init__(self, reason: WaitReason, message: str | Callable[[], str], *subject: Hashable) -> None:
        self.reason = reason
        self.subject = subject
        self._message = message if isinstance(message, str) else None
        self._render = None if isinstance(message, str) else message

    @property
    def message(self) -> str:
        """A plain sentence with the figures of the cycle that made this wait; rendered when asked for."""
        if self._render is not None:
            # Dropped after use: what renders may refer to all capacity of its cycle, and waits are kept for long.
            self._message, self._render = self._render(), None
        assert self._message is not None
        return self._message

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Wait):
            return NotImplemented
        return self.reason == other.reason and self.subject == other.subject

    def __hash__(self) -> int:
        return hash((self.reason, self.subject))

    def __repr__(self) -> str:
        return f"Wait({self.reason}, {self.message!r})"


def spell(requests: Iterable[tuple[str, int]]) -> str:
    """Amounts as a person reads them: `4 cpu, 8Gi memory, 1 nvidia.com/gpu`; the pod's slot is left out."""
    return ", ".join(f"{format_amount(name, value)} {name}" for name, value in requests if name != "pods") or "nothing"


def percent(ppm: int) -> str:
    """Millionths as percent with at most one decimal, rounded up: `70 %`, `72.1 %`."""
    return f"{-(-ppm // 1000) / 10:.1f}".removesuffix(".0") + " %"
