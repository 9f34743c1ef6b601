"""Jobs that go on though their attempt is at its end: looked for, and deleted."""

from __future__ import annotations

from scavenger_runtime.informer import Informer
from scavenger_runtime.logging import get_logger

from scavenger_tuner.core.objects import job_name
from scavenger_tuner.database.store import Store
from scavenger_tuner.facts import Job, configuration_of, finished
from scavenger_tuner.writer import Writer

log = get_logger(__name__)


class Sweep:
    """Deletes what has been seen to go on so twice in a row.

    There are such jobs where a tuner was frozen between reading the database and creating a job, and woke up when
    others had brought the attempt to its end. Jobs that this database does not know are not touched.
    """

    def __init__(self, instance: str, store: Store, writer: Writer) -> None:
        self._instance = instance
        self._store = store
        self._writer = writer
        self._surplus: set[str] = set()  # names

    async def run(self, jobs: Informer[Job]) -> None:
        """One round. Raises ApiError, and what the store raises."""
        going_on = {job.metadata.name: job for job in jobs.items() if not finished(job)}
        numbers = {int(label) for job in going_on.values() if (label := configuration_of(job)).isdecimal()}
        ended = await self._store.ended(numbers) if numbers else []
        surplus = {job_name(self._instance, *attempt) for attempt in ended} & going_on.keys()
        for name in sorted(surplus & self._surplus):
            log.warning("surplus job", job=name)
            await self._writer.delete(name)
        self._surplus = surplus
