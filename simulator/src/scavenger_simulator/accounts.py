"""What was kept and what was thrown away: counted by the admitter's own rule, run by run."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache

from scavenger_admitter.core.lifecycle import accounting
from scavenger_api.job import ScavengerJobSpec, ScavengerJobStatus
from scavenger_api.requirements import ResourceRequirements

from scavenger_simulator.clock import moment
from scavenger_simulator.jobs import Job

_NO_RUN = ScavengerJobStatus.model_construct()
_JOB = ScavengerJobSpec.model_construct(image="", resources=ResourceRequirements())


def settle_run(job: Job, at: int, *, kept: bool) -> accounting.Spent:
    """What the present run of a job comes to, in core-seconds, as it ends at a moment: completed, or interrupted."""
    start, end = moment(job.running_since), moment(at)
    status = _NO_RUN.model_copy(update={"queued_timestamp": start, "running_timestamps": (start,)})
    cores = job.cores

    def used(since: datetime, until: datetime) -> float:
        return max(0.0, (until - since).total_seconds()) * cores

    reported = job.reported(at)
    return accounting.settle(
        status,
        _spec(job.demand.interruption_after),
        end,
        accounting.Taken(used),
        kept=kept,
        checkpoint=None if reported is None else moment(reported),
    )


@lru_cache(maxsize=1024)
def _spec(interruption_after: float) -> ScavengerJobSpec:
    """A job, as far as this rule looks at it: how often it writes a checkpoint at least."""
    return _JOB.model_copy(update={"interruption_after": f"{interruption_after * 1000:.0f}ms"})
