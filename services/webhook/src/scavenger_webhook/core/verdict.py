"""What a review comes to, before it is put into the words of the API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from scavenger_api.rules.problem import Problem


@dataclass(frozen=True, slots=True)
class Verdict:
    """Refused if there are problems. patch: operations of RFC 6902 on an object that is let in."""

    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()
    patch: tuple[Mapping[str, Any], ...] = ()


ACCEPTED: Final = Verdict()
