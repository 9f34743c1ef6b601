"""CPU time at risk: what would have to be computed again if a job went now (section 6 of the design).

The running priority of a job is, summed over its pods, CPU times `time_at_risk`. CPU is what a pod requests; on
reclaimed capacity, where somebody watched, what it really used on average since its work was last safe.

Moments are datetimes, and spans timedeltas, or both are integers of one unit, as each caller has them.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, overload


@overload
def start_over(start: int, interval: int, now: int) -> int: ...
@overload
def start_over(start: datetime, interval: timedelta, now: datetime) -> datetime: ...
def start_over(start: Any, interval: Any, now: Any) -> Any:
    """The last moment up to `now` at which a checkpoint was due: whole intervals after the start of the run.

    It is computed, as the one that the status has lags by up to a reconcile. `start` itself before the first one.
    """
    return start + max(0, (now - start) // interval) * interval


@overload
def safe_until(start: int, interval: int, reports: Iterable[int | None], now: int) -> int: ...
@overload
def safe_until(start: datetime, interval: timedelta, reports: Iterable[datetime | None], now: datetime) -> datetime: ...
def safe_until(start: Any, interval: Any, reports: Iterable[Any], now: Any) -> Any:
    """The last moment whose work is safe, or counts as safe: the latest of start, start-over and reported checkpoint.

    Nobody has more than an interval at risk, so hiding checkpoints gains nothing (and a long interval little:
    `time_at_risk`). A checkpoint from the future is a wrong clock or a wrong claim, one from before the start belongs
    to the last run; neither counts.

    Args:
        start: of the present run. One in the future is another machine's clock, and counts as now.
        interval: `interruptionAfter`, more than nothing.
        reports: start-over and checkpoints that are on record, None for those that are not.
        now: the present.
    """
    since = start_over(min(start, now), interval, now)
    return max((at for at in reports if at is not None and since < at <= now), default=since)


@overload
def time_at_risk(start: int, since: int, now: int, startup_cost: int, interval: int, trusted: int) -> int: ...
@overload
def time_at_risk(
    start: datetime,
    since: datetime,
    now: datetime,
    startup_cost: timedelta,
    interval: timedelta,
    trusted: timedelta,
) -> timedelta: ...
def time_at_risk(start: Any, since: Any, now: Any, startup_cost: Any, interval: Any, trusted: Any) -> Any:
    """For how long each core of a job would have to compute again, as far as its promise is trusted.

    The time since its work was last safe (`safe_until`). As long as that is the start of the run itself, what a restart
    costs is added: otherwise a job that has just come back would be the next victim for ever.

    Args:
        start: of the present run.
        since: the last moment whose work is safe.
        now: the present.
        startup_cost: what a restart costs.
        interval: `interruptionAfter`, more than nothing.
        trusted: the longest interval that is taken at its word, more than nothing. A longer one protects for no more
            than this, and for less with time: t after a checkpoint was due last, for trusted · trusted / t
            (docs/designs/0011-tenancy.md). Reports do not raise that: a job may write what it likes into them.
    """
    began = min(start, now)
    promised = now - start_over(began, interval, now)
    lost = now - since
    if promised > trusted:
        whole = isinstance(promised, int)
        lost = min(lost, trusted * trusted // promised if whole else trusted * (trusted / promised))
    return lost + startup_cost if since == began else lost


def estimated_time_at_risk(start: int, reported: int | None, now: int, startup_cost: int) -> int:
    """What the scheduler plugin takes for `time_at_risk` where nobody has written a figure on a pod (`estimatedRisk` in
    services/scheduler/pkg/preemption/scavenger.go, docs/scheduler.md).

    The time since the checkpoint that the pod reports; before there is one, since its start, with what a restart costs.
    The plugin knows nothing of start-overs, and trusts every promise. All in integers of one unit.

    Args:
        start: of the pod.
        reported: its checkpoint. As in `safe_until`, neither one from the future counts nor one of the last run.
        now: the present.
        startup_cost: the plugin's own, which no setting changes: `DEFAULT_STARTUP_COST_SECONDS`.
    """
    if reported is not None and start < reported <= now:
        return now - reported
    return max(0, now - start) + startup_cost
