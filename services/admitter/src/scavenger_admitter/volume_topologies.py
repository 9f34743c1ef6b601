"""Which nodes can use the volumes of claims: a local volume lies on one node, a zonal disk in one zone.

Nothing is watched: claims are looked at when a job that mounts them is granted its start, and while it waits. So a
cluster may have any number of claims.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

import msgspec
from scavenger_domain.node_affinity import Requirement, Terms, at, terms_of
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import ApiError
from scavenger_kube.resources import PERSISTENTVOLUMECLAIMS, PERSISTENTVOLUMES, STORAGECLASSES, Resource
from scavenger_runtime.clock import Clock

from scavenger_admitter.core.volume_topology import EVERYWHERE, VolumeTopology, topology_of

T = TypeVar("T")

KEPT_SECONDS: Final = 60.0
"""What is known of a claim with a volume is used for so long; others are looked at again whenever a job needs them."""

KEPT_CLAIMS: Final = 4096
"""Claims that are remembered; those seen first are forgotten first."""


class VolumeTopologies:
    """Looks for what the volumes of claims require of nodes.

    Args:
        client: to ask with.
        clock: for how long an answer is good.
        allowed: whether the admitter may read claims.
    """

    def __init__(self, client: ApiClient, clock: Clock, *, allowed: bool) -> None:
        self._client = client
        self._clock = clock
        self._allowed = allowed
        self._known: dict[tuple[str, str], tuple[float, Terms, str]] = {}

    async def of(self, namespace: str, claims: Iterable[str]) -> VolumeTopology:
        """What all of these claims together require of a node. What cannot be read requires nothing: the scheduler
        knows, and a start that finds no node is taken back."""
        if not self._allowed or not claims:
            return EVERYWHERE
        return topology_of([(claim, *await self._claim(namespace, claim)) for claim in sorted(claims)])

    async def _claim(self, namespace: str, claim: str) -> tuple[Terms, str]:
        """What one claim requires, and by which object.

        Tenants may write any name into `spec.volumeName`, so a volume counts only where it names the claim.
        """
        key, now = (namespace, claim), self._clock.monotonic()
        until, terms, by = self._known.get(key, (now, (), ""))
        if until > now:
            return terms, by
        self._known.pop(key, None)
        try:
            found = await self._get(PERSISTENTVOLUMECLAIMS, namespace, claim)
            spec = found.spec
            if not spec.volume_name:
                return await self._class(spec.storage_class_name or "")
            volume = (await self._get(PERSISTENTVOLUMES, None, spec.volume_name)).spec
        except (ApiError, msgspec.MsgspecError):
            return (), ""
        if volume.claim_ref is None or not volume.claim_ref.names(found.metadata):
            return (), ""
        terms, by = terms_of(at(volume.node_affinity, "required")), f"its volume {spec.volume_name}"
        self._known[key] = (now + KEPT_SECONDS, terms, by)
        if len(self._known) > KEPT_CLAIMS:
            del self._known[next(iter(self._known))]
        return terms, by

    async def _class(self, name: str) -> tuple[Terms, str]:
        """What a StorageClass allows that is yet to make the volume."""
        if not name:
            return (), ""
        topologies = (await self._get(STORAGECLASSES, None, name)).allowed_topologies
        return tuple(_allowed(one) for one in topologies or ()), f"its StorageClass {name}"

    async def _get(self, resource: Resource[T], namespace: str | None, name: str) -> T:
        return msgspec.json.decode(await self._client.get(resource, namespace, name), type=resource.type)


def _allowed(topology: Mapping[str, Any]) -> tuple[Requirement, ...]:
    """A term of allowedTopologies as one of node affinity."""
    labels = topology.get("matchLabelExpressions") or ()
    return tuple((str(one.get("key", "")), "In", tuple(map(str, one.get("values") or ()))) for one in labels)
