"""How a simulation is cut into segments, and what goes wrong in one. Pure.

A segment is the way from one frame to the next. Each begins anew from the state at its beginning, with random numbers
that follow from the seed and its first step: nothing of OpenMM's inner state, which no checkpoint has all of, goes from
one to the next. So it does not matter which of them were computed in one start.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from scavenger_water.configuration import Configuration
from scavenger_water.ends import Reason

MODELS: Final[Mapping[str, str]] = MappingProxyType(
    {"spce": "spce", "tip3p": "tip3p", "tip3pfb": "tip3p", "tip4pew": "tip4pew", "tip4pfb": "tip4pew"}
)
"""Files of OpenMM's `amber14` force fields, and the equilibrated box of water that has as many sites."""
BLOCK: Final = 10
"""Steps after which the program looks up, whether it is to end."""
PATIENCE: Final = 5.0
"""Seconds that a segment may still take when the program is told to end; else its steps are given up."""
HOT: Final = 1.5
"""Times the temperature that was asked for: no fluctuation, of 216 molecules or more, comes near that."""
_GAS_CONSTANT: Final = 0.00831446261815324
"""kJ/(mol K)."""

_NO_MEMORY: Final = ("bad_alloc", "out of memory", "cannot allocate memory", "unable to allocate")
_UNSTABLE: Final = ("nan", "not finite", "infinite", "periodic box size has decreased", "constraint")


def next_end(step: int, configuration: Configuration) -> int:
    """Where the segment ends that begins at this step: at the next frame, or with the last step."""
    interval = configuration.output_interval
    return min((step // interval + 1) * interval, configuration.steps)


def blocks(step: int, end: int) -> Iterator[int]:
    """Steps to make at a time, on the way to the end of a segment."""
    while step < end:
        yield min(BLOCK, end - step)
        step += BLOCK


def seeds(configuration: Configuration, step: int) -> tuple[int, int]:
    """Of the thermostat and of the barostat, for the segment that begins at this step: 1 to 2147483647."""
    digest = hashlib.sha256(f"{configuration.seed} {step}".encode()).digest()
    numbers = [int.from_bytes(digest[at : at + 4], "big") % (2**31 - 1) + 1 for at in (0, 4)]
    return numbers[0], numbers[1]


def barostat_interval(configuration: Configuration) -> int:
    """Steps between two trial changes of the volume. It is counted anew in each segment, and one must have some."""
    return min(25, configuration.output_interval)


def is_worth_finishing(steps: int, seconds_per_step: float | None) -> bool:
    """Whether a program that is told to end makes the steps that are left of its segment, or gives the segment up."""
    return seconds_per_step is not None and steps * seconds_per_step <= PATIENCE


def why_unstable(potential: float, kinetic: float, configuration: Configuration) -> str:
    """What is wrong with the energies of a state, in kJ/mol; empty if nothing is."""
    if not math.isfinite(potential) or not math.isfinite(kinetic):
        return f"energies are not finite: potential {potential:g}, kinetic {kinetic:g} kJ/mol"
    # Rigid molecules have six degrees of freedom each, and the centre of mass is at rest.
    temperature = 2 * kinetic / ((6 * configuration.molecules - 3) * _GAS_CONSTANT)
    if temperature > HOT * configuration.temperature:
        return f"{temperature:.0f} K instead of {configuration.temperature:g} K"
    return ""


def reason_of(error: str) -> Reason:
    """Why OpenMM has thrown an exception with this message."""
    text = error.lower()
    for reason, signs in ((Reason.OUT_OF_MEMORY, _NO_MEMORY), (Reason.UNSTABLE, _UNSTABLE)):
        if any(sign in text for sign in signs):
            return reason
    return Reason.ERROR
