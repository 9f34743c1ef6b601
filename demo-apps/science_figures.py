"""What the study has found: seeds put together, beside what was measured of water itself. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

DENSITY_OF_WATER: Final = {278.15: 999.97, 288.15: 999.10, 298.15: 997.05, 308.15: 994.03, 318.15: 990.21}
"""kg/m^3 at 1 bar, by kelvin (CRC Handbook of Chemistry and Physics)."""


@dataclass(frozen=True, slots=True)
class Run:
    """One configuration at its end. density: kg/m^3. diffusion: 1e-5 cm^2/s. Errors: None where there are none."""

    model: str
    temperature: float
    seed: int
    density: float
    density_error: float | None
    diffusion: float
    diffusion_error: float | None
    steps: int
    recomputed_steps: int
    interruptions: int


@dataclass(frozen=True, slots=True)
class Value:
    """A value and its error."""

    value: float
    error: float

    def __str__(self) -> str:
        return f"{self.value:.4g} ± {self.error:.2g}"


@dataclass(frozen=True, slots=True)
class Line:
    """All seeds of a model at a temperature."""

    model: str
    temperature: float
    seeds: int
    density: Value
    diffusion: Value
    interruptions: int
    steps: int
    recomputed_steps: int


def lines(runs: Sequence[Run]) -> list[Line]:
    """A line for each model and temperature, in order."""
    found: dict[tuple[str, float], list[Run]] = {}
    for run in runs:
        found.setdefault((run.model, run.temperature), []).append(run)
    return [
        Line(
            model=model,
            temperature=temperature,
            seeds=len(same),
            density=together([(run.density, run.density_error) for run in same]),
            diffusion=together([(run.diffusion, run.diffusion_error) for run in same]),
            interruptions=sum(run.interruptions for run in same),
            steps=sum(run.steps for run in same),
            recomputed_steps=sum(run.recomputed_steps for run in same),
        )
        for (model, temperature), same in sorted(found.items())
    ]


def together(values: Sequence[tuple[float, float | None]]) -> Value:
    """The mean of independent values, and its error.

    The error follows from how far the values are apart, and from what each says of itself; the larger counts, as a few
    seeds may agree by chance.
    """
    count = len(values)
    mean = sum(value for value, _ in values) / count
    own = math.sqrt(sum((error or 0.0) ** 2 for _, error in values)) / count
    apart = math.sqrt(sum((value - mean) ** 2 for value, _ in values) / (count - 1) / count) if count > 1 else 0.0
    return Value(mean, max(own, apart))


def diffusion_of_water(temperature: float) -> float:
    """Self-diffusion of water, 1e-5 cm^2/s, at 273 to 373 K (Holz, Heil and Sacco, PCCP 2000, 2, 4740)."""
    return float(1.635e-8 * (temperature / 215.05 - 1) ** 2.063 * 1e9)


def recomputed_percent(runs: Sequence[Run]) -> float:
    """Steps that were made more than once, in percent of those that count."""
    return 100 * sum(run.recomputed_steps for run in runs) / sum(run.steps for run in runs)


def table(runs: Sequence[Run]) -> tuple[list[str], list[list[str]]]:
    """Names of columns, and rows: each line beside water as it was measured."""
    columns = ["model", "K", "seeds", "density kg/m³", "water kg/m³", "diffusion 10⁻⁵ cm²/s", "water 10⁻⁵ cm²/s"]
    rows = [
        [
            line.model,
            f"{line.temperature:g}",
            str(line.seeds),
            str(line.density),
            f"{DENSITY_OF_WATER[line.temperature]:.1f}" if line.temperature in DENSITY_OF_WATER else "",
            str(line.diffusion),
            f"{diffusion_of_water(line.temperature):.2f}",
            str(line.interruptions),
            f"{line.recomputed_steps} of {line.steps}",
        ]
        for line in lines(runs)
    ]
    return [*columns, "interrupted", "steps recomputed"], rows


def run_of(found: Any) -> Run:
    """From a line of `tuner results` (scavenger_tuner.report.Found)."""
    return Run(**{field.name: getattr(found, field.name) for field in fields(Run)})
