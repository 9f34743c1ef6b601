"""One row of the table of good and bad objects."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .conftest import MERGE_PATCH, Object


@dataclass(frozen=True)
class Case:
    """What is sent, by whom, and what comes of it. expected: parts of the message; none for an object that is let in.
    fields: exactly what the refusal is about. warned: part of a warning.
    """

    name: str
    kind: str
    body: Object
    expected: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    warned: str = ""
    user: str = ""
    groups: tuple[str, ...] = ()
    update: str = ""
    sub: str = ""
    namespace: str = ""
    patch_type: str = MERGE_PATCH
    check: dict[str, Any] = field(default_factory=dict)
