"""CPU time at risk: what would have to be computed again if a job went now (section 6 of the design).

The prioritizer writes the same figure on the pods, but only when it has moved enough to matter, and it can be
down while the regulator evicts. So it is computed here from the same facts, by the same rules:

    sum over the job's pods of CPU request * seconds since the last checkpoint, start-over or start, whichever
    is latest

and until the first checkpoint after a start, the start-up cost on top, because a restart is not free. Of a pod on
reclaimed capacity it is the CPU time that it really used (docs/designs/0005), where somebody watched it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from scavenger_api.checkpoints import gang_checkpoint

from scavenger_regulator.snapshot import CpuTime, Gang, PodFacts, unknown_cpu_time


@dataclass(frozen=True, slots=True)
class Risk:
    """cpu_seconds: core-seconds at risk. since: the moment up to which work is safe. started: of this run.
    next_checkpoint: when the next one is due at the latest."""

    cpu_seconds: float
    since: datetime
    started: datetime
    next_checkpoint: datetime


def at_risk(gang: Gang, now: datetime, startup_cost: float, cpu_time: CpuTime = unknown_cpu_time) -> Risk:
    """What the gang has at risk at `now`. startup_cost: seconds per core until the first checkpoint of a run. cpu_time:
    really used, asked for pods on reclaimed capacity only.

    Start-overs are the multiples of `interruptionAfter` from the start of the run, so nobody has more than
    that at risk. A checkpoint from the future is a wrong clock or a wrong claim, one from before the start
    belongs to the last run.
    """
    started = min(now, _started(gang, now))
    interval = timedelta(seconds=max(1e-3, gang.interval))
    periods = (now - started) // interval
    since = started + periods * interval
    checkpoint = gang_checkpoint(((pod.index, pod.checkpoint) for pod in gang.pods), gang.parallelism, now)
    reported = (gang.start_over, gang.checkpoint, checkpoint)
    latest = max((moment for moment in reported if moment is not None and since < moment <= now), default=since)
    staying = [pod for pod in gang.pods if pod.leaving_until is None]
    lost = sum(_used(pod, latest, now, cpu_time) for pod in staying)
    if latest == started:
        lost += startup_cost * sum(pod.requests.get("cpu", 0.0) for pod in staying)
    return Risk(lost, latest, started, since + interval)


def _used(pod: PodFacts, since: datetime, now: datetime, cpu_time: CpuTime) -> float:
    """Core-seconds that would have to be computed again."""
    used = cpu_time(pod.uid, since, now) if pod.reclaimed else None
    return pod.requests.get("cpu", 0.0) * (now - since).total_seconds() if used is None else used


def _started(gang: Gang, now: datetime) -> datetime:
    """The last entry of runningTimestamps; where that was lost, the youngest pod's start."""
    if gang.started is not None:
        return gang.started
    return max((pod.running_since for pod in gang.pods if pod.running_since is not None), default=now)
