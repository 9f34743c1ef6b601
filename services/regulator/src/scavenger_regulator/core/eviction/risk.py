"""CPU time at risk of a gang (section 6 of the design), by the rules that all parts share (`scavenger_domain.risk`).

The prioritizer writes the same figure on the pods, but only when it has moved enough to matter, and it can be down
while the regulator evicts. So it is computed here from the same facts.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from scavenger_api.checkpoints import gang_checkpoint
from scavenger_api.names import DEFAULT_STARTUP_COST_SECONDS, DEFAULT_TRUSTED_INTERVAL_SECONDS
from scavenger_domain.risk import safe_until, start_over, time_at_risk

from scavenger_regulator.core.snapshot import CpuTime, Gang, PodFacts, unknown_cpu_time


@dataclass(frozen=True, slots=True)
class RiskRules:
    """startup_cost: seconds per core until the first checkpoint of a run. trusted_interval: seconds, the longest
    interval that is taken at its word."""

    startup_cost: float = DEFAULT_STARTUP_COST_SECONDS
    trusted_interval: float = DEFAULT_TRUSTED_INTERVAL_SECONDS


@dataclass(frozen=True, slots=True)
class Risk:
    """cpu_seconds: core-seconds at risk. since: the moment up to which work is safe. started: of this run.
    next_checkpoint: when the next one is due at the latest."""

    cpu_seconds: float
    since: datetime
    started: datetime
    next_checkpoint: datetime


def at_risk(
    gang: Gang,
    now: datetime,
    rules: RiskRules,
    cpu_time: CpuTime = unknown_cpu_time,
) -> Risk:
    """What the gang has at risk at `now`. cpu_time: really used, asked for pods on reclaimed capacity only.

    Members that have finished count: the gang is interrupted whole, and they run again. What they reported counts for
    the gang's checkpoint. Of reclaimed capacity they have used nothing since they ended.
    """
    started, since = safe_since(gang, now)
    interval = _interval(gang)
    cost, trusted = timedelta(seconds=rules.startup_cost), timedelta(seconds=rules.trusted_interval)
    seconds = time_at_risk(started, since, now, cost, interval, trusted).total_seconds()
    cores = sum(_cores(pod, since, now, cpu_time) for pod in gang.pods if pod.deletion_deadline is None)
    cores += sum(pod.requests.get("cpu", 0.0) for pod in gang.finished if not pod.reclaimed)
    return Risk(seconds * cores, since, started, start_over(started, interval, now) + interval)


def safe_since(gang: Gang, now: datetime) -> tuple[datetime, datetime]:
    """When the present run of the gang began, and the moment up to which its work is safe, or counts as safe."""
    started = min(now, _started(gang, now))
    members = (*gang.pods, *gang.finished)
    checkpoint = gang_checkpoint(((pod.index, pod.checkpoint) for pod in members), gang.parallelism, now)
    return started, safe_until(started, _interval(gang), (gang.start_over, gang.checkpoint, checkpoint), now)


def _interval(gang: Gang) -> timedelta:
    return timedelta(seconds=max(1e-3, gang.interval))


def _cores(pod: PodFacts, since: datetime, now: datetime, cpu_time: CpuTime) -> float:
    """The CPU request of a pod; on reclaimed capacity what it used on average, where somebody watched it."""
    used = cpu_time(pod.uid, since, now) if pod.reclaimed and now > since else None
    return pod.requests.get("cpu", 0.0) if used is None else used / (now - since).total_seconds()


def _started(gang: Gang, now: datetime) -> datetime:
    """The last entry of runningTimestamps; where that was lost, the youngest pod's start."""
    if gang.started is not None:
        return gang.started
    return max((pod.running_since for pod in gang.pods if pod.running_since is not None), default=now)
