"""What has become of configurations, as tables for people and CSV for programs: rows in, text out."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any

from scavenger_tuner.core.endings import Result
from scavenger_tuner.database.tables import AttemptRow, ConfigurationRow


@dataclass(frozen=True, slots=True)
class Listed:
    """A line of `tuner list`. tried: the shape and memory of the newest attempt."""

    id: int
    study: str
    model: str
    molecules: int
    temperature: float
    seed: int
    state: str
    attempts: int
    tried: str
    claimed_by: str
    reason: str


@dataclass(frozen=True, slots=True)
class Found:
    """A line of `tuner results`: what the attempt that succeeded ran, and what it found."""

    id: int
    study: str
    model: str
    molecules: int
    temperature: float
    seed: int
    steps: int
    time_step: float
    density: float
    density_error: float | None
    density_unit: str
    diffusion: float
    diffusion_error: float | None
    diffusion_unit: str
    ns_per_day: float | None
    ranks: int
    threads: int
    attempts: int
    interruptions: int
    recomputed_steps: int
    lost_cpu_seconds: float


def listed(row: ConfigurationRow, attempts: Sequence[AttemptRow]) -> Listed:
    """A configuration and its attempts, the newest last."""
    last = attempts[-1] if attempts else None
    return Listed(
        id=row.id,
        study=row.study,
        model=row.model,
        molecules=last.molecules if last else row.molecules,
        temperature=row.temperature,
        seed=row.seed,
        state=row.state,
        attempts=len(attempts),
        tried=f"{last.ranks}x{last.threads} {last.memory_mib}Mi" if last else "",
        claimed_by=row.claimed_by or "",
        reason=row.reason or next((each.reason for each in reversed(attempts) if each.reason), ""),
    )


def found(row: ConfigurationRow, attempts: Sequence[AttemptRow]) -> Found | None:
    """The result of a configuration; None while it has none."""
    best = next((each for each in attempts if each.result is not None), None)
    if best is None:
        return None
    result = Result.model_validate(best.result)
    return Found(
        id=row.id,
        study=row.study,
        model=row.model,
        molecules=best.molecules,
        temperature=row.temperature,
        seed=row.seed,
        steps=best.steps,
        time_step=best.time_step,
        density=result.density.value,
        density_error=result.density.error,
        density_unit=result.density.unit,
        diffusion=result.diffusion.value,
        diffusion_error=result.diffusion.error,
        diffusion_unit=result.diffusion.unit,
        ns_per_day=result.ns_per_day,
        ranks=result.ranks,
        threads=result.threads,
        attempts=len(attempts),
        interruptions=sum(each.interruptions for each in attempts),
        recomputed_steps=result.recomputed_steps,
        lost_cpu_seconds=sum(each.lost_cpu_seconds for each in attempts),
    )


def as_csv(kind: type[Any], lines: Sequence[Any]) -> str:
    """Comma-separated values with a line of names; numbers in full."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(field.name for field in fields(kind))
    writer.writerows(astuple(line) for line in lines)
    return out.getvalue()


def as_table(columns: Mapping[str, Sequence[str]]) -> str:
    """Columns under their names, in capitals; as wide as they need be."""
    shown = [[name.upper(), *values] for name, values in columns.items()]
    widths = [max(map(len, column)) for column in shown]
    rows = zip(*shown, strict=True)
    return "".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() + "\n" for row in rows
    )


def _configurations(lines: Sequence[Listed | Found]) -> dict[str, list[str]]:
    """The columns of both tables that say which configurations these are."""
    return {
        "id": [str(line.id) for line in lines],
        "study": [line.study for line in lines],
        "model": [line.model for line in lines],
        "molecules": [str(line.molecules) for line in lines],
        "kelvin": [f"{line.temperature:g}" for line in lines],
        "seed": [str(line.seed) for line in lines],
    }


def list_table(lines: Sequence[Listed]) -> str:
    """`tuner list`, for people."""
    return as_table(
        {
            **_configurations(lines),
            "state": [line.state for line in lines],
            "attempts": [str(line.attempts) for line in lines],
            "tried": [line.tried for line in lines],
            "reason": [line.reason for line in lines],
        }
    )


def _measured(value: float, error: float | None, unit: str) -> str:
    return f"{value:.4g}{'' if error is None else f' ± {error:.2g}'} {unit}"


def results_table(lines: Sequence[Found]) -> str:
    """`tuner results`, for people: values with their errors."""
    return as_table(
        {
            **_configurations(lines),
            "density": [_measured(x.density, x.density_error, x.density_unit) for x in lines],
            "diffusion": [_measured(x.diffusion, x.diffusion_error, x.diffusion_unit) for x in lines],
            "ns/day": ["" if line.ns_per_day is None else f"{line.ns_per_day:.3g}" for line in lines],
            "shape": [f"{line.ranks}x{line.threads}" for line in lines],
            "attempts": [str(line.attempts) for line in lines],
            "interrupted": [str(line.interruptions) for line in lines],
            "recomputed": [str(line.recomputed_steps) for line in lines],
        }
    )
