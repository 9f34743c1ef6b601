"""Synthetic days: services whose load follows the day, batch pods that come and go, and jobs; all from a seed.

Three patterns. `diurnal`: a peak in the afternoon; services have more replicas in working hours. `bursts`: the same,
and each service has 2.5 times the use now and then, at moments of its own. `flash-crowd`: as diurnal, and at two
moments of each day a third of all services has three times the use, and half as many replicas again for as long.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from scavenger_simulator.inputs.distributions import Distribution, LogNormal, chance, draw
from scavenger_simulator.inputs.habits import Habits
from scavenger_simulator.inputs.nodes import GIB
from scavenger_simulator.inputs.shapes import STEP_SECONDS, STEPS_PER_DAY, daily, trace, with_bursts
from scavenger_simulator.scenario import FOREVER, OrdinaryPod, ScavengerDemand, UsageTrace

DAY: Final = 86_400.0
HOUR: Final = 3600.0
SIZES: Final = ((100, GIB // 4), (250, GIB // 2), (500, GIB), (1000, 2 * GIB), (2000, 4 * GIB), (4000, 8 * GIB))
GANGS: Final = (1, 1, 1, 1, 1, 1, 1, 2, 4, 8)
JOB_CPUS: Final = (1000, 1000, 2000, 4000)
CROWD_SECONDS: Final = 2700.0
CROWD_FACTOR: Final = 3.0
BATCH_SHARE: Final = 0.1


class Pattern(StrEnum):
    """How the ordinary load goes."""

    DIURNAL = "diurnal"
    BURSTS = "bursts"
    FLASH_CROWD = "flash-crowd"


@dataclass(frozen=True, slots=True)
class Synthetic:
    """What is made. length: seconds. pods: ordinary ones, all in all, about. replicas: of a service, about. jobs: in
    all. use: services' mean share of their requests. work: seconds that a job computes."""

    pattern: Pattern = Pattern.DIURNAL
    length: float = DAY
    pods: int = 1000
    jobs: int = 2000
    replicas: int = 10
    use: Distribution = field(default=LogNormal(0.45, 0.3))
    work: Distribution = field(default=LogNormal(2700.0, 1.2))

    @property
    def days(self) -> int:
        """Days that have begun when it ends."""
        return math.ceil(self.length / DAY)


@dataclass(frozen=True, slots=True)
class _Service:
    name: str
    size: tuple[int, int]
    replicas: int
    usage: UsageTrace
    in_crowd: bool


def synthetic_pods(spec: Synthetic, seed: int) -> tuple[OrdinaryPod, ...]:
    """The ordinary pods."""
    crowds = crowd_times(spec, seed)
    batch = round(spec.pods * BATCH_SHARE)
    found: list[OrdinaryPod] = []
    for number in range(max(1, round((spec.pods - batch) / (1.3 * spec.replicas)))):
        service = _service(spec, seed, f"service-{number:04d}", crowds)
        found += _replicas(spec, seed, service, crowds)
    found += [_batch_pod(spec, seed, f"batch-{i:05d}") for i in range(batch)]
    return tuple(found)


def crowd_times(spec: Synthetic, seed: int) -> tuple[float, ...]:
    """When flash crowds begin: twice a day, at least six hours apart; none but with their pattern."""
    if spec.pattern is not Pattern.FLASH_CROWD:
        return ()
    dice = random.Random(f"{seed}/crowds")
    return tuple(
        day * DAY + STEP_SECONDS * dice.randrange(round(begin * 12), round((begin + 4) * 12))
        for day in range(spec.days)
        for begin in (8, 18)
    )


def _service(spec: Synthetic, seed: int, name: str, crowds: Sequence[float]) -> _Service:
    dice = random.Random(f"{seed}/{name}/service")
    size = dice.choice(SIZES)
    shape = daily(seed, name, spec.days * STEPS_PER_DAY, peak_hour=dice.uniform(13, 17))
    if spec.pattern is Pattern.BURSTS:
        shape = with_bursts(shape, seed, name)
    in_crowd = bool(crowds) and chance(seed, name, "crowd") < 1 / 3
    for begin in crowds if in_crowd else ():
        first = round(begin / STEP_SECONDS)
        for step in range(first, min(len(shape), first + round(CROWD_SECONDS / STEP_SECONDS))):
            shape[step] *= CROWD_FACTOR
    share = min(1.0, draw(spec.use, seed, name, "use"))
    # A pod may use more than it requests, as its limit allows: twice as much here.
    usage = trace([min(2.0, share * level) * size[0] for level in shape], 0.6 * size[1])
    return _Service(name, size, dice.randint(spec.replicas // 2, 3 * spec.replicas // 2) or 1, usage, in_crowd)


def _replicas(spec: Synthetic, seed: int, service: _Service, crowds: Sequence[float]) -> Iterator[OrdinaryPod]:
    for number in range(service.replicas):
        yield _pod(f"{service.name}-{number}", 0.0, FOREVER, service.size, service.usage)
    for day in range(spec.days):
        morning = day * DAY + HOUR * (7 + 2 * chance(seed, f"{service.name}/{day}", "morning"))
        evening = day * DAY + HOUR * (18 + 3 * chance(seed, f"{service.name}/{day}", "evening"))
        for number in range(service.replicas // 3):
            yield _pod(f"{service.name}-day{day}-{number}", morning, evening, service.size, service.usage)
    for at, begin in enumerate(crowds if service.in_crowd else ()):
        for number in range(service.replicas // 2):
            # An autoscaler sees the crowd a minute late, and adds a pod every few seconds.
            arrives = begin + 60 + 5 * number
            yield _pod(
                f"{service.name}-crowd{at}-{number}", arrives, begin + CROWD_SECONDS, service.size, service.usage
            )


def _batch_pod(spec: Synthetic, seed: int, name: str) -> OrdinaryPod:
    dice = random.Random(f"{seed}/{name}/batch")
    arrives = round(dice.uniform(0, spec.length), 3)
    size = dice.choice(SIZES[2:])
    leaves = arrives + round(dice.uniform(120, 2400), 3)
    return _pod(name, arrives, leaves, size, trace([0.9 * size[0]], 0.5 * size[1]))


def _pod(name: str, arrives: float, leaves: float, size: tuple[int, int], usage: UsageTrace) -> OrdinaryPod:
    return OrdinaryPod(name, arrives, leaves, size[0], size[1], usage)


def synthetic_jobs(spec: Synthetic, seed: int, habits: Habits | None = None) -> tuple[ScavengerDemand, ...]:
    """The jobs: two fifths come in bunches, as when somebody submits a sweep; most have one pod."""
    length = spec.length
    bunches = max(1, spec.jobs // 100)
    found = []
    for number in range(spec.jobs):
        name = f"job-{number:06d}"
        dice = random.Random(f"{seed}/{name}/job")
        submitted = dice.uniform(0, length)
        if dice.random() < 0.4:
            submitted = length * chance(seed, f"bunch-{dice.randrange(bunches)}", "time") + dice.uniform(0, 60)
        work = draw(spec.work, seed, name, "work")
        pods, cpu = dice.choice(GANGS), dice.choice(JOB_CPUS)
        at = round(min(submitted, length - 1), 3)
        found.append((habits or Habits()).job(seed, name, at, work, pods=pods, cpu_milli=cpu))
    return tuple(found)
