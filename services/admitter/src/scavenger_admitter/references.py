"""Whether what the pods of a job need is there: asked before a Job takes capacity for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from scavenger_api.job import ScavengerJobSpec
from scavenger_api.rules.references import MAX_REFERENCES, count_of
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import ApiError, NotFound
from scavenger_kube.resources import CONFIGMAPS, PERSISTENTVOLUMECLAIMS, SECRETS, Resource

from scavenger_admitter.lookups import Lookups

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

    async def missing(self, namespace: str, spec: ScavengerJobSpec, *, lately: bool = False) -> str:
        """What the API server does not have, in its words; empty where all is there, or that is not known. lately: what
        was found within the last minute will do; a start asks anew."""
        wanted = [
            (kind, name)
            for kind, resource in KINDS.items()
            if resource.plural in self.checked
            for name in sorted(spec.references(kind))
        ]
        absent = [(kind, name) for kind, name in wanted if await self._is_absent(kind, namespace, name, lately)]
        return ", ".join(f'{kind} "{name}" not found' for kind, name in absent)

    async def _is_absent(self, kind: str, namespace: str, name: str, lately: bool) -> bool:
        known = self.lookups.absent(kind, namespace, name) if lately else None
        if known is None:
            known = await self._absent(kind, namespace, name)
            self.lookups.note(kind, namespace, name, absent=known)
        return known

    async def _absent(self, kind: str, namespace: str, name: str) -> bool:
        try:
            await self.client.get_metadata(KINDS[kind], namespace, name)
        except NotFound:
            return True
        except ApiError:
            return False  # it is not known, and the start shows it
        return False
