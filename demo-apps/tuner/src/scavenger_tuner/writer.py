"""What a tuner writes to the API: the claim of the study, ScavengerJobs, and their deletion. Decides nothing."""

from __future__ import annotations

from contextlib import suppress

from scavenger_kube.client import ApiClient
from scavenger_kube.errors import AlreadyExists, NotFound
from scavenger_runtime.logging import get_logger

from scavenger_tuner.core.objects import Site, scavenger_job, volume_claim
from scavenger_tuner.core.trial import Trial
from scavenger_tuner.facts import PERSISTENT_VOLUME_CLAIMS, SCAVENGER_JOBS

log = get_logger(__name__)


class Writer:
    """Writes to one namespace. Every write may be repeated: names follow from the database, and what is there stays."""

    def __init__(self, client: ApiClient, site: Site) -> None:
        self._client = client
        self._site = site

    async def ensure_claim(self, size: str, access_mode: str, storage_class: str | None) -> None:
        """Create the PersistentVolumeClaim unless it is there. Raises ApiError.

        It is looked for first: where a quota allows no more claims, a create is refused before it meets the one there.
        """
        with suppress(NotFound):
            await self._client.get(PERSISTENT_VOLUME_CLAIMS, self._site.namespace, self._site.claim)
            return
        body = volume_claim(self._site, size, access_mode, storage_class)
        with suppress(AlreadyExists):
            await self._client.create(PERSISTENT_VOLUME_CLAIMS, self._site.namespace, body)
            log.info("claim created", claim=self._site.claim, size=size)

    async def create(self, name: str, configuration: int, trial: Trial) -> bool:
        """Create the ScavengerJob of an attempt; False where a tuner before has. Raises ApiError."""
        body = scavenger_job(self._site, name, configuration, trial)
        try:
            await self._client.create(SCAVENGER_JOBS, self._site.namespace, body)
        except AlreadyExists:
            return False
        return True

    async def delete(self, name: str) -> None:
        """Have the ScavengerJob of an attempt deleted, and with it what it owns. Raises ApiError."""
        await self._client.delete(SCAVENGER_JOBS, self._site.namespace, name)
