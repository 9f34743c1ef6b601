"""What is tried after a failure: a table of rules, and what none of them may lead back to.

For each reason there is a list of changes, in order. The first one that leads to something new, within the limits, and
no worse than what has already failed, is the next attempt. README.md has the table for people; a test holds it to this
one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from scavenger_tuner.core.trial import Shape, Trial

INVALID_CONFIGURATION: Final = "InvalidConfiguration"
"""What a program says of a configuration that it does not take."""


class Reason(StrEnum):
    """Why an attempt failed."""

    UNSTABLE = "Unstable"
    OUT_OF_MEMORY = "OutOfMemory"
    TOO_LARGE = "TooLarge"
    WALL_TIME = "WallTime"
    DECOMPOSITION = "Decomposition"
    INVALID = "Invalid"
    UNKNOWN = "Unknown"

    @classmethod
    def of(cls, word: str) -> Reason:
        """The reason that a program gives by that word; Unknown for one that nothing is known to help against."""
        if word == INVALID_CONFIGURATION:
            return cls.INVALID
        return next((reason for reason in cls if reason == word), cls.UNKNOWN)


@dataclass(frozen=True, slots=True)
class Limits:
    """What attempts stay within. time step: femtoseconds; memory: MiB."""

    max_attempts: int = 8
    max_cores: int = 4
    min_time_step: float = 0.5
    min_molecules: int = 216
    min_memory_mib: int = 128
    max_memory_mib: int = 8192


@dataclass(frozen=True, slots=True)
class Failure:
    """An attempt that failed, and why."""

    trial: Trial
    reason: Reason


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Nothing more is tried; why, for people."""

    why: str


Change = Callable[[Trial], Trial | None]
"""The next attempt, or None where it is not possible at all; the limits are looked at afterwards."""


def smaller_time_step(trial: Trial) -> Trial:
    """Half the time step and twice the steps: the same simulated time."""
    was = trial.configuration
    return trial.with_configuration(time_step=was.time_step / 2, steps=was.steps * 2)


def smaller_box(trial: Trial) -> Trial:
    """Three quarters of the molecules, at the same density."""
    return trial.with_configuration(molecules=trial.configuration.molecules * 3 // 4)


def more_memory(trial: Trial) -> Trial:
    """Twice the memory."""
    return replace(trial, memory_mib=trial.memory_mib * 2)


def less_memory(trial: Trial) -> Trial:
    """Half the memory."""
    return replace(trial, memory_mib=trial.memory_mib // 2)


def smaller_box_in_less_memory(trial: Trial) -> Trial:
    """Both: where only the memory was too large for the nodes, and less is too little for the box."""
    return less_memory(smaller_box(trial))


def fewer_cores(trial: Trial) -> Trial | None:
    """Half the ranks, or half the threads of the last one."""
    ranks, threads = trial.shape.ranks, trial.shape.threads
    if ranks > 1:
        return replace(trial, shape=Shape(ranks // 2, threads))
    return replace(trial, shape=Shape(1, threads // 2)) if threads > 1 else None


def more_cores(trial: Trial) -> Trial:
    """Twice the threads of each rank."""
    return replace(trial, shape=Shape(trial.shape.ranks, trial.shape.threads * 2))


def threads_for_ranks(trial: Trial) -> Trial | None:
    """Half the ranks with twice the threads: as many cores, larger domains, fewer buffers."""
    ranks, threads = trial.shape.ranks, trial.shape.threads
    return replace(trial, shape=Shape(ranks // 2, threads * trial.shape.ranks // (ranks // 2))) if ranks > 1 else None


def again(trial: Trial) -> Trial:
    """The same once more."""
    return trial


RULES: Final[Mapping[Reason, tuple[Change, ...]]] = MappingProxyType(
    {
        Reason.UNSTABLE: (smaller_time_step,),
        Reason.OUT_OF_MEMORY: (more_memory, threads_for_ranks, smaller_box),
        Reason.TOO_LARGE: (fewer_cores, less_memory, smaller_box_in_less_memory),
        Reason.WALL_TIME: (more_cores, smaller_box),
        Reason.DECOMPOSITION: (threads_for_ranks,),
        Reason.INVALID: (),
        Reason.UNKNOWN: (again,),
    }
)

MAX_SAME: Final = 2
"""How often the very same trial is made, where nothing is known that would be better."""


def next_trial(failures: Sequence[Failure], limits: Limits) -> Trial | GiveUp:
    """What to try after these failures of one configuration, the last of which is the newest; or to give up."""
    last = failures[-1]
    if len(failures) >= limits.max_attempts:
        return GiveUp(f"{last.reason}: the last of {len(failures)} attempts, as many as are made")
    for change in RULES[last.reason]:
        trial = change(last.trial)
        if trial is not None and _allowed(trial, limits) and _promising(trial, failures):
            return trial
    return GiveUp(f"{last.reason}: nothing is left to try after {len(failures)} attempts")


def _allowed(trial: Trial, limits: Limits) -> bool:
    return (
        trial.configuration.time_step >= limits.min_time_step
        and trial.configuration.molecules >= limits.min_molecules
        and trial.shape.cores <= limits.max_cores
        and limits.min_memory_mib <= trial.memory_mib <= limits.max_memory_mib
    )


def _promising(trial: Trial, failures: Sequence[Failure]) -> bool:
    """Whether nothing that has failed says that this will fail as well."""
    same = [failure for failure in failures if failure.trial == trial]
    if len(same) >= MAX_SAME or any(failure.reason is not Reason.UNKNOWN for failure in same):
        return False
    return not any(_condemns(failure, trial) for failure in failures)


def _condemns(failure: Failure, trial: Trial) -> bool:
    """What was too large is too large with more; what had too little memory has too little with less, unless it is a
    smaller box or has fewer ranks."""
    was = failure.trial
    if failure.reason is Reason.TOO_LARGE:
        return trial.shape.cores >= was.shape.cores and trial.memory_mib >= was.memory_mib
    if failure.reason is Reason.OUT_OF_MEMORY:
        return (
            trial.memory_mib <= was.memory_mib
            and trial.configuration.molecules >= was.configuration.molecules
            and trial.shape.ranks >= was.shape.ranks
        )
    return False
