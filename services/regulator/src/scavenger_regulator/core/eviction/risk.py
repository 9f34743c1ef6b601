"""The unsaved work of a gang, by the rule that all parts share (`scavenger_domain.gang`).

The prioritizer writes the same figure on the pods, but only when it has moved enough to matter, and it can be down
while the regulator evicts. So it is computed here from the same facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from scavenger_api.names import DEFAULT_STARTUP_COST_SECONDS, DEFAULT_TRUSTED_INTERVAL_SECONDS
from scavenger_api.times import micros
from scavenger_api.weights import DEFAULT_WEIGHTS, Weights
from scavenger_domain import gang as rule
from scavenger_domain.gang import MICROSECONDS, PER_CPU_SECOND, moment
from scavenger_domain.pod_reading import costs_of
from scavenger_domain.sizes import Sizes

from scavenger_regulator.core.snapshot import CpuTime, Gang, PodFacts, unknown_cpu_time


@dataclass(frozen=True, slots=True)
class RiskRules:
    """startup_cost: seconds per core until the first checkpoint of a run. trusted_interval: seconds, the longest
    interval that is taken at its word. weights: of resources. minimum_run: whether jobs that came back are promised a
    checkpoint interval (`scavenger_domain.gang.short_run`)."""

    startup_cost: float = DEFAULT_STARTUP_COST_SECONDS
    trusted_interval: float = DEFAULT_TRUSTED_INTERVAL_SECONDS
    weights: Weights = DEFAULT_WEIGHTS
    minimum_run: bool = False


@dataclass(frozen=True, slots=True)
class Risk:
    """cpu_seconds: unsaved core-seconds; an accelerator counts as so many cores. since: the moment up to which work is
    safe. started: of this run. next_checkpoint: when the next one is due at the latest."""

    cpu_seconds: float
    since: datetime
    started: datetime
    next_checkpoint: datetime


@dataclass(frozen=True, slots=True)
class _Job:
    """As `scavenger_domain.gang.Job`."""

    interval: int
    parallelism: int
    reclaimed: bool
    created: int
    started: int | None
    start_over: int | None
    checkpoints: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Member:
    """As `scavenger_domain.gang.Member`."""

    uid: str
    node: str
    cost: int
    past: Sizes
    live: bool
    terminating: bool
    finished: bool
    started: int | None
    index: int | None
    checkpoint: int | None


def at_risk(
    gang: Gang,
    now: datetime,
    rules: RiskRules,
    cpu_time: CpuTime = unknown_cpu_time,
) -> Risk:
    """The unsaved work of the gang at `now`. cpu_time: really used, asked for pods on reclaimed capacity only."""
    job, members, present = _job(gang, now), _members(gang, rules.weights), micros(now)
    used = _used(gang, safe_since(gang, now)[1], now, cpu_time, rules.weights) if job.reclaimed else {}
    cost, trusted = round(rules.startup_cost * MICROSECONDS), round(rules.trusted_interval * MICROSECONDS)
    found = rule.at_risk(job, members, present, cost, trusted, used)
    due = rule.start_over(found.started, job.interval, present) + job.interval
    return Risk(found.cost / PER_CPU_SECOND, moment(found.since), moment(found.started), moment(due))


def promised(gang: Gang, started: datetime, now: datetime, rules: RiskRules) -> bool:
    """Whether a gang has been promised that it runs on. started: of its present run."""
    interval, trusted = (round(seconds * MICROSECONDS) for seconds in (gang.interval, rules.trusted_interval))
    return rules.minimum_run and gang.returned and rule.short_run(micros(started), interval, micros(now), trusted)


def safe_since(gang: Gang, now: datetime) -> tuple[datetime, datetime]:
    """When the present run of the gang began, and the moment up to which its work is safe, or counts as safe."""
    job, members, present = _job(gang, now), _members(gang, DEFAULT_WEIGHTS), micros(now)
    started = rule.run_start(job, members, present)
    return moment(started), moment(rule.gang_safe_until(job, members, started, present))


def _job(gang: Gang, now: datetime) -> _Job:
    return _Job(
        interval=max(1, round(gang.interval * MICROSECONDS)),
        parallelism=gang.parallelism,
        reclaimed=any(pod.reclaimed for pod in gang.pods),
        created=micros(gang.created or now),
        started=_micros(gang.started),
        start_over=_micros(gang.start_over),
        checkpoints=() if gang.checkpoint is None else (micros(gang.checkpoint),),
    )


def _members(gang: Gang, weights: Weights) -> list[_Member]:
    running = [_member(pod, weights, finished=False) for pod in gang.pods]
    return running + [_member(pod, weights, finished=True) for pod in gang.finished]


def _member(pod: PodFacts, weights: Weights, *, finished: bool) -> _Member:
    stays = pod.deletion_deadline is None
    return _Member(
        uid=pod.uid,
        node=pod.node,
        cost=weights.cost(_computes_with(pod)),
        past=costs_of(pod.sizes, _computes_with(pod), weights),
        live=not finished and stays,
        terminating=not finished and not stays,
        finished=finished,
        started=_micros(pod.started),
        index=pod.index,
        checkpoint=_micros(pod.checkpoint),
    )


def _computes_with(pod: PodFacts) -> Mapping[str, int]:
    if pod.computes_with is not None:
        return pod.computes_with
    return {name: round(1000 * value if name == "cpu" else value) for name, value in pod.requests.items()}


def _micros(at: datetime | None) -> int | None:
    return None if at is None else micros(at)


def _used(gang: Gang, since: datetime, now: datetime, cpu_time: CpuTime, weights: Weights) -> Mapping[str, int]:
    """The cost of what the pods used on average since their work was safe, by UID, where that was measured."""
    if now <= since:
        return {}
    found = {}
    for pod in gang.pods:
        used = cpu_time(pod.uid, since, now) if pod.deletion_deadline is None else None
        if used is not None:
            millicores = round(1000 * used / (now - since).total_seconds())
            found[pod.uid] = weights.cost_using(millicores, _computes_with(pod))
    return found
