"""What is simulated, and with how much of what: the values that all decisions are about."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, Self

BASE_MEMORY_MIB: Final = 192
"""What the program and its libraries take, whatever they simulate."""

RANK_MEMORY_MIB: Final = 48
"""What each rank takes beside that."""

MOLECULES_PER_MIB: Final = 40
"""Coordinates, forces, neighbour lists and the mesh, with room to spare; too little is found out and doubled."""

MEMORY_STEP_MIB: Final = 64
"""Memory is asked for in multiples of this."""


FRAME_FEMTOSECONDS: Final = 1000.0
FEWEST_FRAMES: Final = 50
"""A diffusion coefficient is fitted to the displacements between frames."""


@dataclass(frozen=True, slots=True, order=True)
class Configuration:
    """A system of water and how long it is simulated.

    temperature: kelvin. time_step: femtoseconds. seed: of the initial velocities and the thermostat.
    """

    model: str
    molecules: int
    temperature: float
    seed: int
    steps: int
    time_step: float

    @property
    def output_interval(self) -> int:
        """Steps between two frames: a picosecond, or less where a run is too short for enough of these."""
        return max(1, min(round(FRAME_FEMTOSECONDS / self.time_step), self.steps // FEWEST_FRAMES))

    def document(self, wall_seconds: float) -> dict[str, Any]:
        """What the container reads as configuration.json. wall_seconds: that all its starts together may take."""
        return {
            "model": self.model,
            "molecules": self.molecules,
            "temperature": self.temperature,
            "seed": self.seed,
            "time_step_fs": self.time_step,
            "steps": self.steps,
            "output_interval": self.output_interval,
            "wall_seconds": wall_seconds,
        }


@dataclass(frozen=True, slots=True, order=True)
class Shape:
    """How a run is cut up: ranks, and threads of each."""

    ranks: int
    threads: int

    @property
    def cores(self) -> int:
        """What it can keep busy."""
        return self.ranks * self.threads


@dataclass(frozen=True, slots=True)
class Trial:
    """What one attempt runs: a configuration, in a shape, with so much memory (MiB)."""

    configuration: Configuration
    shape: Shape
    memory_mib: int

    @classmethod
    def of(cls, configuration: Configuration, shape: Shape) -> Self:
        """A first attempt in that shape, with the memory it should need."""
        return cls(configuration, shape, expected_memory(configuration, shape))

    def with_configuration(self, **changes: Any) -> Trial:
        """The same with another configuration."""
        return replace(self, configuration=replace(self.configuration, **changes))


def expected_memory(configuration: Configuration, shape: Shape) -> int:
    """MiB that a run should need, rounded up to whole steps."""
    need = BASE_MEMORY_MIB + RANK_MEMORY_MIB * shape.ranks + configuration.molecules / MOLECULES_PER_MIB
    return int(-(-need // MEMORY_STEP_MIB)) * MEMORY_STEP_MIB
