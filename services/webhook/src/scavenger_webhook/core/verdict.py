"""What a review comes to, before it is put into the words of the API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

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


@dataclass(frozen=True, slots=True)
class Verdict:
    """Refused if there are problems. patch: operations of RFC 6902 on an object that is let in."""

    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()
    patch: tuple[Mapping[str, Any], ...] = ()


ACCEPTED: Final = Verdict()


def warning(text: str) -> str:
    """A warning as HTTP carries it: one line of printable characters, not too long."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= MAX_WARNING else line[: MAX_WARNING - 1] + "…"


def shown(text: str, limit: int = 80) -> str:
    """What a user wrote, quoted, and cut where it is long."""
    return repr(text if len(text) <= limit else text[: limit - 1] + "…")
