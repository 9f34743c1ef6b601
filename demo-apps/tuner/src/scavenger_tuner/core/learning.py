"""Which ranks x threads a system runs best in, from the runs that were seen.

What counts is the work that a core does: on idle resources, cores that bring little are better left to somebody else.
So runs are compared by molecule-steps per day and core, which also makes boxes and time steps that are not quite the
same comparable. Each shape is tried once, small ones first, and then the best is used. No chance is involved: the same
runs give the same choice.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from scavenger_tuner.core.trial import Shape

ALIKE: Final = 2.0
"""Boxes whose numbers of molecules differ by no more than this factor teach about each other."""

FEMTOSECONDS_PER_NANOSECOND: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run: what, in which shape, how fast. time_step: femtoseconds."""

    molecules: int
    time_step: float
    shape: Shape
    ns_per_day: float

    @property
    def yielded(self) -> float:
        """Molecule-steps per day and core."""
        steps = self.ns_per_day * FEMTOSECONDS_PER_NANOSECOND / self.time_step
        return self.molecules * steps / self.shape.cores


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known of one model.

    runs: finished ones. underway: shapes of those that are not. refused: shapes in which a box of so many molecules
    could not be cut up. too_large: the fewest cores that no node had.
    """

    runs: Sequence[Run] = ()
    underway: Sequence[Shape] = ()
    refused: Collection[tuple[Shape, int]] = ()
    too_large: int | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """A shape, and why it was chosen. yielded: the mean of what it yielded so far; None where it is explored."""

    shape: Shape
    yielded: float | None = None


def candidates(max_cores: int) -> tuple[Shape, ...]:
    """All shapes of powers of two within that many cores: few cores first, and of as many cores few ranks first."""
    powers = [2**exponent for exponent in range(max_cores.bit_length())]
    shapes = [Shape(ranks, threads) for ranks in powers for threads in powers if ranks * threads <= max_cores]
    return tuple(sorted(shapes, key=lambda shape: (shape.cores, shape.ranks)))


def choose(molecules: int, seen: Seen, max_cores: int) -> Choice:
    """The shape of the next run: the first that nobody has tried or is trying, else the one that yielded most.

    Ties go to fewer cores. Before the first run has finished, the shape that the fewest are trying.
    """
    shapes = _possible(molecules, seen, max_cores)
    yields = mean_yields(molecules, seen.runs)
    trying = Counter(seen.underway)
    for shape in shapes:
        if shape not in yields and not trying[shape]:
            return Choice(shape)
    known = [shape for shape in shapes if shape in yields]
    if known:
        best = max(known, key=lambda shape: yields[shape])  # the first of equals: shapes are in order
        return Choice(best, yields[best])
    return Choice(min(shapes, key=lambda shape: trying[shape]))


def mean_yields(molecules: int, runs: Sequence[Run]) -> dict[Shape, float]:
    """Molecule-steps per day and core of each shape, over the runs of boxes of about that size."""
    found: dict[Shape, list[float]] = defaultdict(list)
    for run in runs:
        if molecules <= ALIKE * run.molecules and run.molecules <= ALIKE * molecules:
            found[run.shape].append(run.yielded)
    return {shape: sum(values) / len(values) for shape, values in found.items()}


def _possible(molecules: int, seen: Seen, max_cores: int) -> tuple[Shape, ...]:
    """Never empty: one rank with one thread is the least that there is. What was refused of a box is refused of smaller
    ones."""
    refused = {shape for shape, box in seen.refused if box >= molecules}
    most = max_cores if seen.too_large is None else min(max_cores, seen.too_large - 1)
    shapes = tuple(shape for shape in candidates(max(1, most)) if shape not in refused)
    return shapes or (Shape(1, 1),)
