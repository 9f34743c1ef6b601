"""From a policy to what decides in a run: the services' rules, and how old or endangered a job looks to them.

A policy without a prioritizer is the same services looking at jobs through another pair of glasses: nobody is
protected, and what a job has at risk is how long ago it started, so that the youngest goes first; or what the dice say.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from scavenger_regulator.core.levels import LevelPolicy
from scavenger_regulator.core.rules import Rules

from scavenger_simulator.clock import SECOND
from scavenger_simulator.jobs import Job
from scavenger_simulator.policy import Policy
from scavenger_simulator.settings import Settings

YOUNGEST_FIRST: Final = ("class", "running-time")
"""Sorters of the regulator."""

_NEVER: Final = 1 << 62
_DICE_SECONDS: Final = 1_000_000

Since = Callable[[Job], int]
"""Since when a job runs, or seems to, in microseconds of virtual time: the latest goes first."""


@dataclass(frozen=True, slots=True)
class Decider:
    """What decides in a run.

    rules: of the regulator. scavenges: whether jobs start at all. since: the age by which victims are chosen; None: by
    CPU time at risk, with a prioritizer. plain: jobs are Jobs, without any service of ours: they start wherever what
    they request is free, interrupted ones go to the back of the line, and only kube-scheduler takes their places.
    """

    rules: Rules
    scavenges: bool = True
    since: Since | None = None
    plain: bool = False


def decider(policy: Policy, settings: Settings, seed: int) -> Decider:
    """What decides under a policy. seed: of the dice.

    Raises ValueError for the oracle, which decides nothing.
    """
    rules = settings.regulator
    by_age = replace(
        rules,
        yield_at_checkpoint=False,
        eviction=replace(rules.eviction, order=YOUNGEST_FIRST, checkpoint_wait=0.0),
    )
    found = {
        Policy.OURS: Decider(rules),
        Policy.YIELD: Decider(replace(rules, yield_at_checkpoint=True)),
        Policy.NO_YIELD: Decider(replace(rules, yield_at_checkpoint=False)),
        Policy.CLUSTER_WIDE: Decider(replace(rules, per_node=False)),
        Policy.PER_NODE: Decider(replace(rules, per_node=True)),
        Policy.FIXED: Decider(replace(rules, min_samples=_NEVER)),
        Policy.LINEAR: Decider(replace(rules, policy=LevelPolicy.LINEAR)),
        Policy.YOUNGEST: Decider(by_age, since=_started),
        Policy.NEWEST_ADMISSION: Decider(by_age, since=_admitted),
        Policy.RANDOM: Decider(by_age, since=partial(_dice, seed)),
        Policy.PLAIN: Decider(by_age, since=_started, plain=True),
        Policy.NONE: Decider(rules, scavenges=False),
    }.get(policy)
    if found is None:
        raise ValueError(f"{policy} decides nothing")
    return found


def _started(job: Job) -> int:
    return max(job.admitted, job.running_since)


def _admitted(job: Job) -> int:
    return job.admitted


def _dice(seed: int, job: Job) -> int:
    """Another age for each run of each job, the same whenever it is asked for."""
    return -random.Random(f"{seed}/{job.number}/{job.version}").randrange(_DICE_SECONDS) * SECOND
