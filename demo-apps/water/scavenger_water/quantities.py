"""Measured values as result.json has them. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass


class NotFiniteError(ValueError):
    """A quantity is infinite or no number: the simulation was unstable."""


@dataclass(frozen=True)
class Quantity:
    """A measured value, with its error where that could be estimated."""

    value: float
    error: float | None
    unit: str

    def to_json(self) -> Mapping[str, object]:
        """As result.json has it."""
        return {"value": self.value, "error": self.error, "unit": self.unit}


def quantity(value: float, error: float, unit: str) -> Quantity:
    """`error`: not finite where there was too little to estimate it from. Raises NotFiniteError for such a value."""
    if not math.isfinite(value):
        raise NotFiniteError(f"{value} {unit}")
    return Quantity(value, error if math.isfinite(error) else None, unit)
