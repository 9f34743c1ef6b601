"""Fields of what an administrator writes as data; errors name the field and the remedy."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from scavenger_regulator.core.levels import ThrottleLines, WaterLevels
from scavenger_regulator.core.metrics.metric import PRIORITIES, Action

LEVELS: Final = ("lower", "admission", "upper")
LINES: Final = ("throttle", "restore")


class FieldError(ValueError):
    """Something that cannot be; the message names the field and the remedy."""


def parse_objects(text: str, most: int, example: str) -> list[dict[str, Any]]:
    """A JSON list of objects, as the chart writes it; empty where there is no text.

    Args:
        text: of a setting.
        most: how many there may be.
        example: of an object, for the error.

    Raises:
        FieldError: where it is none.
    """
    try:
        items = json.loads(text or "[]")
    except (ValueError, RecursionError) as error:
        raise FieldError(f"not JSON: {error}") from error
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise FieldError(f"not a list of objects: write [{example}]")
    if len(items) > most:
        raise FieldError(f"{len(items)} are more than {most}: leave some out")
    return items


def check_names(names: Sequence[str]) -> None:
    """Raises FieldError where one is there twice."""
    for name in names:
        if names.count(name) > 1:
            raise FieldError(f"two have the name {name!r}: rename one")


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of a metric. place: where it is in the list."""

    place: str
    item: Mapping[str, Any]

    def error(self, field: str, problem: str, remedy: str) -> FieldError:
        """An error about a field."""
        return FieldError(f"{self.place}.{field}: {problem}; {remedy}")

    def check_known(self, known: Sequence[str]) -> None:
        """Raises FieldError for a field that there is not."""
        for field in self.item:
            if field not in known:
                raise self.error(field, "there is no such field", f"there are {', '.join(known)}")

    def text(self, field: str, default: str | None = None) -> str:
        """A text; without a default, one that is not empty. Raises FieldError."""
        value = self.item.get(field, default)
        if not isinstance(value, str) or (default is None and not value.strip()):
            raise self.error(field, "it is missing" if value is None else f"{value!r:.50} is no text", "write a text")
        return value.strip()

    def flag(self, field: str, *, default: bool) -> bool:
        """True or false. Raises FieldError."""
        value = self.item.get(field, default)
        if not isinstance(value, bool):
            raise self.error(field, f"{value!r:.50} is neither true nor false", "write one of them")
        return value

    def action(self, field: str, default: Action) -> Action:
        """How something is done. Raises FieldError."""
        value = self.item.get(field, default.value)
        try:
            return Action(value)
        except ValueError:
            remedy = f"write one of {', '.join(Action)}"
            raise self.error(field, f"{value!r:.50} is unknown", remedy) from None

    def priority(self) -> int:
        """From 0 to 10. Raises FieldError."""
        value = self.item.get("priority", 0)
        if isinstance(value, bool) or value not in PRIORITIES:
            raise self.error("priority", f"{value!r:.50} cannot be", "write a whole number from 0 to 10")
        return int(value)

    def levels(self, field: str = "levels") -> WaterLevels | None:
        """Levels in percent; None where they are left out. Raises FieldError."""
        value = self.item.get(field)
        if value is None:
            return None
        if not isinstance(value, dict) or set(value) - set(LINES) != set(LEVELS):
            raise self.error(field, f"{value!r:.50} are none", f"write {', '.join(LEVELS)}")
        found = self._percentages(field, value)
        if not 0 <= found["lower"] <= found["admission"] <= found["upper"] <= 100:
            raise self.error(field, f"{value!r:.80} are out of order", "write 0 <= lower <= admission <= upper <= 100")
        return WaterLevels(*(found[name] for name in LEVELS))

    def lines(self, field: str = "levels") -> ThrottleLines | None:
        """From where to where jobs are throttled, beside such levels, in percent; None where that is left out. Raises
        FieldError."""
        value = self.item.get(field)
        if not isinstance(value, dict) or not set(value) & set(LINES):
            return None
        found = self._percentages(field, value)
        if not set(LINES) <= set(value):
            raise self.error(field, f"{value!r:.120} has one of {', '.join(LINES)}", "write both of them, or neither")
        if not 0 <= found["restore"] <= found["throttle"] <= found["upper"]:
            raise self.error(field, f"{value!r:.120} are out of order", "write 0 <= restore <= throttle <= upper")
        return ThrottleLines(found["throttle"], found["restore"])

    def _percentages(self, field: str, value: Mapping[str, Any]) -> dict[str, float]:
        """The numbers of an object. Raises FieldError."""
        for one in value.values():
            if isinstance(one, bool) or not isinstance(one, int | float) or not math.isfinite(one):
                raise self.error(field, f"{value!r:.80} are no percentages", "write numbers from 0 to 100")
        return {name: float(one) for name, one in value.items()}
