"""A problem with a field, and the words for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MAX_WARNING: Final = 256
"""Characters: the API server may cut longer ones."""

INVALID: Final = "FieldValueInvalid"
NOT_FOUND: Final = "FieldValueNotFound"
FORBIDDEN: Final = "FieldValueForbidden"


@dataclass(frozen=True, slots=True)
class Problem:
    """Why an object is refused. field: its path. message: what is wrong, and the remedy."""

    field: str
    message: str
    reason: str = INVALID

    def __str__(self) -> str:
        return f"{self.field or 'the object'}: {self.message}"


def warning(text: str) -> str:
    """A warning as HTTP carries it: one line of printable characters, not too long."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= MAX_WARNING else line[: MAX_WARNING - 1] + "…"


def shown(text: str, limit: int = 80) -> str:
    """What a user wrote, quoted, and cut where it is long."""
    return repr(text if len(text) <= limit else text[: limit - 1] + "…")
