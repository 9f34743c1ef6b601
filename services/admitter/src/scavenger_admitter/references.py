"""Whether what the pods of a job need is there: asked before a Job takes capacity for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from scavenger_api.job import ScavengerJobSpec
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import ApiError, NotFound
from scavenger_kube.resources import CONFIGMAPS, PERSISTENTVOLUMECLAIMS, SECRETS, Resource

KINDS: Final[dict[str, Resource[Any]]] = {
    "persistentvolumeclaim": PERSISTENTVOLUMECLAIMS,
    "configmap": CONFIGMAPS,
    "secret": SECRETS,
}


def refers(spec: ScavengerJobSpec) -> bool:
    """Whether the pods need any object that can be looked for."""
    return any(spec.references(kind) for kind in KINDS)


@dataclass(frozen=True, slots=True)
class References:
    """Looks for objects that jobs refer to.

    Attributes:
        client: to ask with.
        checked: resources that may be read; whether one of another kind is there is not known.
    """

    client: ApiClient
    checked: Iterable[str] = ("persistentvolumeclaims", "configmaps")

    async def missing(self, namespace: str, spec: ScavengerJobSpec) -> str:
        """What the API server does not have, in its words; empty where all is there, or that is not known."""
        wanted = [
            (kind, name)
            for kind, resource in KINDS.items()
            if resource.plural in self.checked
            for name in sorted(spec.references(kind))
        ]
        absent = [(kind, name) for kind, name in wanted if await self._absent(kind, namespace, name)]
        return ", ".join(f'{kind} "{name}" not found' for kind, name in absent)

    async def _absent(self, kind: str, namespace: str, name: str) -> bool:
        try:
            await self.client.get_metadata(KINDS[kind], namespace, name)
        except NotFound:
            return True
        except ApiError:
            return False  # it is not known, and the start shows it
        return False
