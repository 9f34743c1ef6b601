"""CPU time at risk: what would have to be computed again if a job went now (section 6 of the design).

The prioritizer writes the same figure on the pods, but only when it has moved enough to matter, and it can be
down while the regulator evicts. So it is computed here from the same facts, by the same rules:

    sum over the job's pods of CPU request * seconds since the last checkpoint, start-over or start, whichever
    is latest

and until the first checkpoint after a start, the start-up cost on top, because a restart is not free.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from scavenger_api.checkpoints import gang_checkpoint

from scavenger_regulator.snapshot import Gang


@dataclass(frozen=True, slots=True)
class Risk:
    """cpu_seconds: core-seconds at risk. since: the moment up to which work is safe. started: of this run.
    next_checkpoint: when the next one is due at the latest."""

    cpu_seconds: float
    since: datetime
    started: datetime
    next_checkpoint: datetime


def at_risk(gang: Gang, now: datetime, startup_cost: float) -> Risk:
    """What the gang has at risk at `now`. startup_cost: seconds per core until the first checkpoint of a run.

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
    lost = (now - latest).total_seconds() + (startup_cost if latest == started else 0.0)
    cores = sum(pod.requests.get("cpu", 0.0) for pod in gang.pods if pod.leaving_until is None)
    return Risk(lost * cores, latest, started, since + interval)


def _started(gang: Gang, now: datetime) -> datetime:
    """The last entry of runningTimestamps; where that was lost, the youngest pod's start."""
    if gang.started is not None:
        return gang.started
    return max((pod.running_since for pod in gang.pods if pod.running_since is not None), default=now)
