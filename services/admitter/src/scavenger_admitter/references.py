"""Whether what the pods of a job need is there: asked before a Job takes capacity for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from scavenger_api.job import ScavengerJob, ScavengerJobSpec
from scavenger_api.rules.references import MAX_REFERENCES, count_of
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import ApiError, NotFound
from scavenger_kube.resources import CONFIGMAPS, PERSISTENTVOLUMECLAIMS, SECRETS, Resource

from scavenger_admitter.lookups import Look, Lookups

KINDS: Final[dict[str, Resource[Any]]] = {
    "persistentvolumeclaim": PERSISTENTVOLUMECLAIMS,
    "configmap": CONFIGMAPS,
    "secret": SECRETS,
}


def refers(spec: ScavengerJobSpec) -> bool:
    """Whether the pods need any object that is looked for; a job that needs too many is not started."""
    return 0 < count_of(spec) <= MAX_REFERENCES


@dataclass(frozen=True, slots=True)
class References:
    """Looks for objects that jobs refer to.

    Attributes:
        client: to ask with.
        checked: resources that may be read; whether one of another kind is there is not known.
        lookups: what was found of them.
    """

    client: ApiClient
    checked: Iterable[str] = ("persistentvolumeclaims", "configmaps")
    lookups: Lookups = field(default_factory=Lookups)

    def look(self, job: ScavengerJob) -> Look:
        """What a job that waits is to ask for now."""
        return self.lookups.look(job.key, job.metadata.namespace, self._wanted(job.spec))

    async def missing(self, namespace: str, spec: ScavengerJobSpec, look: Look | None = None) -> str:
        """What the API server does not have, in its words; empty where all is there, or that is not known. look: what
        is asked for, and of the rest what was found last will do; without it all is."""
        wanted = self._wanted(spec)
        absent = [(kind, name) for kind, name in wanted if await self._is_absent(kind, namespace, name, look)]
        return ", ".join(f'{kind} "{name}" not found' for kind, name in absent)

    def _wanted(self, spec: ScavengerJobSpec) -> list[tuple[str, str]]:
        return [
            (kind, name)
            for kind, resource in KINDS.items()
            if resource.plural in self.checked
            for name in sorted(spec.references(kind))
        ]

    async def _is_absent(self, kind: str, namespace: str, name: str, look: Look | None) -> bool:
        if look is not None and ((kind, name) not in look.chosen or self.lookups.is_fresh(kind, namespace, name)):
            return self.lookups.absent(kind, namespace, name) or False
        if look is not None:
            look.requests += 1
        absent = await self._absent(kind, namespace, name)
        self.lookups.note(kind, namespace, name, absent=absent)
        return absent

    async def _absent(self, kind: str, namespace: str, name: str) -> bool:
        try:
            await self.client.get_metadata(KINDS[kind], namespace, name)
        except NotFound:
            return True
        except ApiError:
            return False  # it is not known, and the start shows it
        return False
