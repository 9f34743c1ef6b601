"""What is to be simulated: configuration.json. Pure."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

FEWEST_MOLECULES: Final = 216
"""Of these a box is just wider than twice the shortest cut-off."""
FEWEST_FRAMES: Final = 10
"""That are written after equilibration: a mean square displacement cannot be fitted to fewer."""

_BOX_OF_216: Final = 1.86206
"""Edge in nm of an equilibrated box of SPC water, the one that comes with GROMACS."""
_WIDE: Final = 2.1
"""Edge in nm from which on a box has room for the cut-off of 0.9 nm, its buffer, and what it may shrink by."""


class ConfigurationError(ValueError):
    """What is wrong with a configuration, all of it in one message."""


@dataclass(frozen=True)
class Configuration:
    """One simulation at constant temperature and pressure."""

    model: str
    molecules: int
    temperature: float
    """Kelvin."""
    seed: int
    """Of the initial velocities and of the thermostat."""
    time_step_fs: float
    steps: int
    output_interval: int
    """Steps between two frames of the trajectory and of the energies."""
    pressure: float = 1.0
    """Bar."""
    equilibration: float = 0.2
    """Share of the steps, the first ones, that is left out of the analysis."""
    wall_seconds: float | None = None
    """Time that all starts together may take; None: no limit."""

    @property
    def equilibration_ps(self) -> float:
        """When the analysis begins, in ps."""
        return self.equilibration * self.steps * self.time_step_fs / 1000

    @property
    def frame_ps(self) -> float:
        """Time between two frames in ps."""
        return self.output_interval * self.time_step_fs / 1000

    @property
    def frames(self) -> int:
        """Intervals between frames that the analysis has."""
        return int(self.steps * (1 - self.equilibration)) // self.output_interval

    @property
    def edge(self) -> float:
        """Of a cubic box in which so many molecules of water have about their density; nm."""
        return float(_BOX_OF_216 * (self.molecules / 216) ** (1 / 3))

    @property
    def cutoff(self) -> float:
        """Of the interactions, in nm: shorter in the smallest boxes, which must be wider than twice that."""
        return 0.9 if self.edge >= _WIDE else 0.8

    def to_json(self) -> str:
        """The same text for the same configuration, however it was written."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True, indent=1) + "\n"


def read_configuration(text: str, models: Sequence[str]) -> Configuration:
    """The configuration that a JSON text holds, of one of these models of water. Raises ConfigurationError."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ConfigurationError(f"it is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise ConfigurationError("it is not a JSON object")
    problems = [*_missing_or_unknown(found), *_wrong(found, models)]
    if not problems:
        # 2 and 2.0 are the same time step.
        reals = {name: float(found[name]) for name, (whole, _, _) in _RANGES.items() if not whole and found.get(name)}
        configuration = Configuration(**{**found, **reals})
        if configuration.frames >= FEWEST_FRAMES:
            return configuration
        problems = [f"steps / output_interval: the analysis needs {FEWEST_FRAMES} frames, not {configuration.frames}"]
    raise ConfigurationError("; ".join(problems))


# What a value must be: whole or not, least and largest.
_RANGES: Final[Mapping[str, tuple[bool, float, float]]] = {
    "molecules": (True, FEWEST_MOLECULES, 10_000_000),
    "temperature": (False, 200, 600),
    "seed": (True, 1, 2**31 - 1),
    "time_step_fs": (False, 0.1, 20),
    "steps": (True, 1, 2**53),
    "output_interval": (True, 1, 2**31 - 1),
    "pressure": (False, -1000, 10_000),
    "equilibration": (False, 0, 0.9),
    "wall_seconds": (False, 1, 1e9),
}


def _missing_or_unknown(found: Mapping[str, Any]) -> list[str]:
    fields = dataclasses.fields(Configuration)
    needed = {field.name for field in fields if field.default is dataclasses.MISSING}
    missing = [f"{name}: missing" for name in sorted(needed - set(found))]
    return missing + [f"{name}: unknown" for name in sorted(set(found) - {field.name for field in fields})]


def _wrong(found: Mapping[str, Any], models: Sequence[str]) -> list[str]:
    problems = []
    if "model" in found and found["model"] not in models:
        problems.append(f"model: must be one of {', '.join(models)}")
    for name, (whole, least, most) in _RANGES.items():
        value: Any = found.get(name)
        if value is None and (name not in found or name == "wall_seconds"):
            continue
        if not _is_number(value, whole) or not least <= value <= most:
            kind = "a whole number" if whole else "a number"
            problems.append(f"{name}: must be {kind} from {least:g} to {most:g}")
    return problems


def _is_number(value: object, whole: bool) -> bool:
    kinds = (int,) if whole else (int, float)
    return isinstance(value, kinds) and not isinstance(value, bool) and math.isfinite(value)
