"""From what was seen of pods, read off /metrics and left behind by programs to figures: pure."""

from __future__ import annotations

import heapq
import itertools
import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

LAG = "scavenger_event_loop_lag_seconds"
DISPATCHED = "apiserver_flowcontrol_dispatched_requests_total"
_SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def percentile(values: Iterable[float], percent: float) -> float:
    """The smallest value that at least `percent` of the values do not exceed. Raises IndexError for none."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def ratio(ours: float, plain: float) -> float:
    """Ours over plain. Raises ValueError where there is nothing to compare with."""
    if plain <= 0:
        raise ValueError(f"plain Kubernetes has {plain:g} here: nothing to compare {ours:g} with")
    return ours / plain


def median_ratio(pairs: Sequence[tuple[float, float]]) -> float:
    """Median of first over second: what disturbs one pair does not touch the others."""
    return statistics.median(one / other for one, other in pairs)


# --- pods ---


@dataclass(slots=True)
class Life:
    """When a pod was first seen to run, and first seen to go or to have ended; seconds on any one clock."""

    job: str
    running: float | None = None
    left: float | None = None


@dataclass
class Lives:
    """The lives of the pods of jobs, as a watch shows them; each of one core."""

    lives: dict[str, Life] = field(default_factory=dict)

    def saw(self, uid: str, job: str, *, runs: bool, at: float) -> None:
        """A pod, by its uid, and whether it runs and nobody has told it to go."""
        life = self.lives.setdefault(uid, Life(job))
        if runs and life.running is None:
            life.running = at
        if not runs and life.running is not None and life.left is None:
            life.left = at

    def living(self) -> int:
        """How many run now."""
        return sum(life.running is not None and life.left is None for life in self.lives.values())

    def lost(self, since: float, until: float) -> float:
        """CPU-seconds since their starts of the pods that left in that time: there are no checkpoints."""
        return sum(life.left - life.running for life in self._left(since, until) if life.left and life.running)

    def lost_at_least(self, since: float, until: float) -> float:
        """What would have been lost if at the same moments the youngest pods had left of those that ran at `since`."""
        left = [life.left for life in self._left(since, until) if life.left is not None]
        ran = (life.running for life in self.lives.values() if life.running is not None and _runs_at(life, since))
        return sum(left) - sum(heapq.nlargest(len(left), ran))

    def victims(self, since: float, until: float) -> int:
        """How many pods left in that time."""
        return len(self._left(since, until))

    def displaced(self, since: float, until: float) -> set[str]:
        """The jobs of which a pod left in that time and none ran at its end."""
        run = {life.job for life in self.lives.values() if _runs_at(life, until)}
        return {life.job for life in self._left(since, until)} - run

    def back(self, jobs: Iterable[str], since: float) -> dict[str, float]:
        """Seconds from `since` until a pod of each job ran; those of which none has run yet are left out."""
        first: dict[str, float] = {}
        for life in self.lives.values():
            if life.running is not None and life.running >= since:
                first[life.job] = min(life.running - since, first.get(life.job, math.inf))
        return {job: first[job] for job in jobs if job in first}

    def _left(self, since: float, until: float) -> list[Life]:
        return [life for life in self.lives.values() if life.left is not None and since <= life.left <= until]


def _runs_at(life: Life, at: float) -> bool:
    return life.running is not None and life.running <= at and (life.left is None or life.left > at)


STAGES = ("decided", "stopped", "bound", "started")


@dataclass(slots=True)
class Arrival:
    """A pod that others give way to: when it was sent, first seen to have a node, and first seen to run."""

    sent: float
    node: str = ""
    bound: float | None = None
    running: float | None = None


@dataclass(slots=True)
class Leaving:
    """A pod that gives way: its node, and when it was first seen to be told to go, to have ended and to be gone."""

    node: str
    told: float
    ended: float | None = None
    gone: float | None = None


def stages(arrival: Arrival, leaving: Iterable[Leaving]) -> dict[str, float]:
    """Where the time from a pod's creation to its start went, in seconds, by `STAGES`.

    decided: until the last pod that gives way was told to go, which is the scheduler with its queue and its deletions.
    stopped: until the last of these had ended. bound: until the pod had a node. started: until it ran. Raises
    ValueError for one that did not run.
    """
    if arrival.bound is None or arrival.running is None:
        raise ValueError("it did not run")
    mine = [one for one in leaving if one.node == arrival.node and arrival.sent <= one.told <= arrival.bound]
    told = max((one.told for one in mine), default=arrival.sent)
    ended = min(arrival.bound, max([told, *(one.ended for one in mine if one.ended is not None)]))
    moments = (arrival.sent, told, ended, arrival.bound, arrival.running)
    return dict(zip(STAGES, (later - earlier for earlier, later in itertools.pairwise(moments)), strict=True))


# --- /metrics ---


def samples(exposition: str, name: str) -> list[tuple[Mapping[str, str], float]]:
    """Labels and value of each sample of that very name in Prometheus' text format."""
    found: list[tuple[Mapping[str, str], float]] = []
    for line in exposition.splitlines():
        if line.startswith(name) and (match := _SAMPLE.match(line)) and match[1] == name:
            found.append((dict(_LABEL.findall(match[2] or "")), float(match[3])))
    return found


def lags(exposition: str) -> dict[float, float]:
    """How often the event loop of a service was held up for no longer than each bound, in seconds, since it began."""
    return {float(labels["le"]): count for labels, count in samples(exposition, f"{LAG}_bucket")}


def worst_lag(after: Mapping[float, float], before: Mapping[float, float]) -> float | None:
    """The longest that it was held up meanwhile: the bound under which all is that came, infinity where some of it is
    above all bounds; None where nothing came."""
    came = {bound: count - before.get(bound, 0.0) for bound, count in after.items()}
    total = max(came.values(), default=0.0)
    return min((bound for bound, count in came.items() if count == total), default=None) if total else None


def dispatched(exposition: str) -> dict[str, float]:
    """Requests that the API server has begun to serve since it started, by the FlowSchema they matched."""
    found: dict[str, float] = {}
    for labels, value in samples(exposition, DISPATCHED):
        schema = labels.get("flow_schema", "")
        found[schema] = found.get(schema, 0.0) + value
    return found


def grown(after: Mapping[str, float], before: Mapping[str, float], prefixes: Sequence[str]) -> dict[str, float]:
    """By how much counters whose names begin so have grown; those that have not are left out."""
    return {
        name: value - before.get(name, 0.0)
        for name, value in after.items()
        if name.startswith(tuple(prefixes)) and value > before.get(name, 0.0)
    }


# --- use of CPU ---


def yielded_after(samples: Sequence[tuple[float, float]], since: float, cores: float, span: float) -> float:
    """Seconds from `since` until the use first stays below `cores`, on average over the `span` seconds that follow.

    samples: (time, CPU seconds so far). Infinite when it never does.
    """
    for first, (at, used) in enumerate(samples):
        later = next(((t, u) for t, u in samples[first + 1 :] if t >= at + span), None)
        if later is None:
            break
        if at >= since and (later[1] - used) / (later[0] - at) < cores:
            return at - since
    return math.inf


# --- GROMACS and a tuner ---


def performance(log: str) -> float:
    """ns/day, as mdrun says it at the end of md.log. Raises ValueError where it has not ended in good order."""
    found = re.findall(r"^Performance:\s+([0-9.]+)\s", log, re.MULTILINE)
    if not found:
        raise ValueError(f"mdrun has not said how fast it was: {log[-300:]}")
    return float(found[-1])


def recomputed_percent(runs: Sequence[tuple[int, int]]) -> float:
    """Steps made more than once, in percent of those that count. runs: (steps, recomputed steps)."""
    return 100 * sum(again for _, again in runs) / sum(steps for steps, _ in runs)


def per_minute(began: datetime, ends: Sequence[datetime]) -> float:
    """How many ended per minute, until the last of them."""
    return 60 * len(ends) / (max(ends) - began).total_seconds()
