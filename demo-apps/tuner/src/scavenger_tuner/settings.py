"""What a tuner can be told, by environment or flag."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import SecretStr
from scavenger_runtime.settings import Seconds, ServiceSettings, option

from scavenger_tuner.core.endings import Patience
from scavenger_tuner.core.objects import MAX_INSTANCE_LENGTH, Site
from scavenger_tuner.core.rules import Limits

DATABASE_URL = "postgresql:///tuner"
"""By default a database of that name on the local socket. libpq's own variables (PGHOST, PGPASSWORD, PGPASSFILE, …)
count for whatever the URL leaves open."""

OVERRUN = 1.5
"""A program ends by itself when its wall time is over, and knows best how far it is; one that has run for so many times
as long is ended."""

_DEFAULTS = Limits()


class TunerSettings(ServiceSettings):
    """Takes configurations from a database, runs them as ScavengerJobs, and tries smaller ones where they fail."""

    namespace: str = option("default", "namespace of the jobs and of the claim", min_length=1)
    leader_elect: bool = option(False, "not used: tuners share the work")
    database_url: SecretStr = option(SecretStr(DATABASE_URL), "of PostgreSQL, as libpq reads it")
    instance: str = option(
        "tuner",
        "begins the names of its jobs; tuners of one database have the same",
        pattern="^[a-z]([-a-z0-9]*[a-z0-9])?$",
        max_length=MAX_INSTANCE_LENGTH,
    )
    folder: Path = option(Path("/work"), "where the volume of the claim is mounted here")
    claim: str = option("tuner", "PersistentVolumeClaim that tuners and jobs share", min_length=1)
    claim_size: str = option("2Gi", "asked for where the claim is not there yet")
    claim_access_mode: Literal["ReadWriteOnce", "ReadWriteMany"] = option(
        "ReadWriteOnce", "the same; jobs on more than one node need ReadWriteMany"
    )
    claim_storage_class: str | None = option(None, "the same; without one, the cluster's default")
    image: str = option("localhost/scavenger/gromacs:demo", "runs a configuration", min_length=1)
    queue: str = option("default", "the ScavengerQueue of the jobs", min_length=1)
    interruption_after: str = option("5m", "the jobs write a checkpoint at least this often")
    grace_seconds: int = option(30, "the jobs have to write their state when interrupted", unit="seconds", ge=0)
    finished_ttl: int = option(86400, "finished jobs stay to be looked at for", unit="seconds", ge=0)

    claim_period: Seconds = option(5.0, "between looking for work, and renewing claims", unit="seconds", gt=0)
    claim_ttl: Seconds = option(60.0, "others take the work of a silent tuner after", unit="seconds", gt=0)
    follow_period: Seconds = option(15.0, "a job is looked at at least every", unit="seconds", gt=0)
    concurrency: int = option(16, "configurations that one tuner follows at once", ge=1, le=10_000)

    wall_time: Seconds = option(4 * 3600.0, "an attempt may run for, all its runs together", unit="seconds", gt=0)
    too_large_after: Seconds = option(300.0, "a job waits for a node that could hold it", unit="seconds", ge=0)
    give_up_after: Seconds = option(  # twice keepTurnAfter of the admitter, which keeps the capacity for its turn
        2 * 3600.0,
        "a job that has found no capacity for so long is withdrawn for a smaller one; 0: never",
        unit="seconds",
        ge=0,
    )
    max_attempts: int = option(_DEFAULTS.max_attempts, "attempts at one configuration", ge=1, le=100)
    max_cores: int = option(_DEFAULTS.max_cores, "ranks x threads of an attempt", ge=1, le=1024)
    min_time_step: float = option(_DEFAULTS.min_time_step, "of an attempt", unit="femtoseconds", gt=0)
    min_molecules: int = option(_DEFAULTS.min_molecules, "of an attempt: the box must hold the cut-off twice", ge=1)
    min_memory_mib: int = option(_DEFAULTS.min_memory_mib, "of an attempt", unit="MiB", ge=1)
    max_memory_mib: int = option(_DEFAULTS.max_memory_mib, "of an attempt", unit="MiB", ge=1)

    def limits(self) -> Limits:
        """What attempts stay within."""
        return Limits(
            max_attempts=self.max_attempts,
            max_cores=self.max_cores,
            min_time_step=self.min_time_step,
            min_molecules=self.min_molecules,
            min_memory_mib=self.min_memory_mib,
            max_memory_mib=self.max_memory_mib,
        )

    def patience(self) -> Patience:
        """How long an attempt may take."""
        return Patience(wall_time=self.wall_time * OVERRUN, too_large=self.too_large_after, no_room=self.give_up_after)

    def site(self) -> Site:
        """Where and how jobs run."""
        return Site(
            namespace=self.namespace,
            instance=self.instance,
            image=self.image,
            queue=self.queue,
            claim=self.claim,
            interruption_after=self.interruption_after,
            grace_seconds=self.grace_seconds,
            ttl=self.finished_ttl,
        )
