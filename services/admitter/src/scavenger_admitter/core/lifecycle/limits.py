"""How long runs may take, by activeDeadlineSeconds: those of a job together, and the tasks of an array.

The time of an array is that in which at least one of its tasks runs, so an array of one task has the time of a job.
"""

from __future__ import annotations

from scavenger_api.job import ScavengerJobSpec


def active_left(spec: ScavengerJobSpec, used: int | None, more: float) -> float | None:
    """Seconds that are left of activeDeadlineSeconds; None where there is no such limit.

    Args:
        spec: of the job.
        used: seconds that the status has counted.
        more: seconds since then.
    """
    limit = spec.active_deadline_seconds
    return limit - (used or 0) - more if limit is not None else None


def too_long(spec: ScavengerJobSpec, what: str) -> str:
    """What is said of a job that has used up its activeDeadlineSeconds. what: that did, such as `its runs took`."""
    return f"{what} {spec.active_deadline_seconds} s together, as long as activeDeadlineSeconds allows"
