"""From frames to density and self-diffusion. Pure."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scavenger_water.configuration import Configuration
from scavenger_water.quantities import Quantity, quantity

Numbers = NDArray[np.float64]

_BLOCKS: Final = 5
_GRAMS_PER_MOL: Final = 18.01528
_KG_PER_M3: Final = 1.66053906660
"""One g/mol in each nm³."""
_CM2_PER_S: Final = 1000.0
"""One nm²/ps is 1e-2 cm²/s: a thousand of the unit 1e-5 cm²/s."""


def density(edges: Numbers, molecules: int) -> Quantity:
    """`edges`: of the cubic box in each frame, nm. The error is that of the averages of blocks.

    Raises NotFiniteError.
    """
    values = molecules * _GRAMS_PER_MOL * _KG_PER_M3 / edges**3
    means = [float(block.mean()) for block in np.array_split(values, _BLOCKS)]
    error = float(np.std(means, ddof=1)) / math.sqrt(_BLOCKS)
    return quantity(float(values.mean()), error, "kg/m^3")


def diffusion(edges: Numbers, positions: Numbers, frame_ps: float) -> Quantity:
    """From the slope of the mean square displacement, over lags of a tenth to nine tenths of half the time.

    `positions`: (frames, molecules, 3), nm, wherever each molecule was put into the box. The error is the difference
    between the slopes of the two halves of these lags. Raises NotFiniteError.
    """
    most = max(8, len(positions) // 2)
    lags = np.arange(max(1, most // 10), max(4, most * 9 // 10) + 1)
    squares = mean_squares(unwrapped(edges, positions), lags)
    middle = len(lags) // 2
    halves = [_slope(part, squares_of) for part, squares_of in _parts(lags, squares, middle)]
    factor = _CM2_PER_S / 6 / frame_ps
    return quantity(_slope(lags, squares) * factor, abs(halves[0] - halves[1]) * factor, "1e-5 cm^2/s")


def unwrapped(edges: Numbers, positions: Numbers) -> Numbers:
    """The ways of the molecules: between two frames none moves by more than half an edge.

    Displacements are added up, and not positions scaled with the box, whose fluctuations would else grow with the
    distance from the origin: von Bülow et al., J. Chem. Phys. 153, 021101 (2020).
    """
    moved = np.diff(positions, axis=0)
    edge = edges[1:, None, None]
    moved -= edge * np.round(moved / edge)
    start = np.zeros((1, *positions.shape[1:]))
    return np.concatenate([start, np.cumsum(moved, axis=0)])


def mean_squares(ways: Numbers, lags: NDArray[np.int64]) -> Numbers:
    """The mean square displacement for each lag, in frames: over all molecules, and all frames to begin at."""
    return np.array([((ways[lag:] - ways[:-lag]) ** 2).sum(axis=2).mean() for lag in lags])


def analysed(configuration: Configuration, count: int) -> int:
    """How many of so many frames, the first ones, are left out as equilibration."""
    first = math.ceil(configuration.equilibration * configuration.steps / configuration.output_interval)
    # Frame number n is that after n + 1 intervals.
    return min(max(0, first - 1), count)


def _parts(lags: NDArray[np.int64], squares: Numbers, middle: int) -> list[tuple[NDArray[np.int64], Numbers]]:
    return [(lags[: middle + 1], squares[: middle + 1]), (lags[middle:], squares[middle:])]


def _slope(lags: NDArray[np.int64], squares: Numbers) -> float:
    if not np.isfinite(squares).all():
        return math.nan
    return float(np.polyfit(lags, squares, 1)[0])
