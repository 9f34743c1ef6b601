"""Which nodes can use the volumes of claims: a local volume lies on one node, a zonal disk in one zone.

Nothing is watched: claims are looked at when a job that mounts them is granted its start, and while it waits. So a
cluster may have any number of claims.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec
from scavenger_domain.node_affinity import Requirement, Terms, at, terms_of
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import ApiError, NotFound
from scavenger_kube.resources import (
    PERSISTENTVOLUMECLAIMS,
    PERSISTENTVOLUMES,
    STORAGECLASSES,
    Resource,
    VolumeClaim,
)
from scavenger_runtime.clock import Clock

from scavenger_admitter.core.volume_topology import EVERYWHERE, VolumeTopology, topology_of
from scavenger_admitter.lookups import Look, Lookups

T = TypeVar("T")

KEPT_SECONDS: Final = 60.0
"""What is known of a claim with a volume is used for so long; others are looked at again whenever a job is to start."""

KEPT_CLAIMS: Final = 4096
"""Claims that are remembered; those seen first are forgotten first."""


@dataclass(frozen=True, slots=True)
class _Known:
    """What a claim requires, or a StorageClass of its claims.

    Attributes:
        until: it is used before this, on the monotonic clock.
        terms: one of them is to match the node.
        by: the object that requires it.
        bound: the claim has its volume.
    """

    until: float
    terms: Terms
    by: str
    bound: bool = False


_UNKNOWN: Final = _Known(0.0, (), "")
"""A claim that was not looked at yet requires nothing."""


class VolumeTopologies:
    """Looks for what the volumes of claims require of nodes.

    Args:
        client: to ask with.
        clock: for how long an answer is good.
        lookups: told which claims are there.
        allowed: whether the admitter may read claims.
    """

    def __init__(self, client: ApiClient, clock: Clock, lookups: Lookups, *, allowed: bool) -> None:
        self._client = client
        self._clock = clock
        self._lookups = lookups
        self._allowed = allowed
        self._known: dict[tuple[str, str], _Known] = {}

    async def of(self, namespace: str, claims: Iterable[str], look: Look | None = None) -> VolumeTopology:
        """What all of these claims together require of a node. What cannot be read requires nothing: the scheduler
        knows, and a start that finds no node is taken back. look: what is asked for, and of the other claims what they
        required last will do; without it all are."""
        if not self._allowed or not claims:
            return EVERYWHERE
        found = [(claim, await self._claim(namespace, claim, look)) for claim in sorted(claims)]
        return topology_of([(claim, known.terms, known.by) for claim, known in found])

    async def _claim(self, namespace: str, claim: str, look: Look | None) -> _Known:
        """What one claim requires."""
        now = self._clock.monotonic()
        known = self._known.get((namespace, claim))
        if known is not None and known.until > now and (known.bound or look is not None):
            return known
        if look is not None and ("persistentvolumeclaim", claim) not in look.chosen:
            return known or _UNKNOWN
        terms, by, bound = await self._read(namespace, claim, look or Look(frozenset()))
        return self._note((namespace, claim), _Known(now + KEPT_SECONDS, terms, by, bound))

    async def _read(self, namespace: str, claim: str, look: Look) -> tuple[Terms, str, bool]:
        """What one claim requires, by which object, and whether that is its volume.

        Tenants may write any name into `spec.volumeName`, so a volume counts only where it names the claim.
        """
        try:
            found = await self._claim_now(namespace, claim, look)
            spec = found.spec
            if not spec.volume_name:
                return *await self._class(spec.storage_class_name or "", look), False
            volume = (await self._get(PERSISTENTVOLUMES, None, spec.volume_name, look)).spec
        except (ApiError, msgspec.MsgspecError):
            return (), "", False
        if volume.claim_ref is None or not volume.claim_ref.names(found.metadata):
            return (), "", False
        return terms_of(at(volume.node_affinity, "required")), f"its volume {spec.volume_name}", True

    async def _claim_now(self, namespace: str, claim: str, look: Look) -> VolumeClaim:
        absent = False
        try:
            return await self._get(PERSISTENTVOLUMECLAIMS, namespace, claim, look)
        except NotFound:
            absent = True
            raise
        finally:
            self._lookups.note("persistentvolumeclaim", namespace, claim, absent=absent)

    def _note(self, key: tuple[str, str], known: _Known) -> _Known:
        self._known.pop(key, None)
        self._known[key] = known
        if len(self._known) > KEPT_CLAIMS:
            del self._known[next(iter(self._known))]
        return known

    async def _class(self, name: str, look: Look) -> tuple[Terms, str]:
        """What a StorageClass allows that is yet to make the volume."""
        now = self._clock.monotonic()
        if not name:
            return (), ""
        known = self._known.get(("", name))
        if known is None or known.until <= now:
            topologies = (await self._get(STORAGECLASSES, None, name, look)).allowed_topologies
            terms = tuple(_allowed(one) for one in topologies or ())
            known = self._note(("", name), _Known(now + KEPT_SECONDS, terms, f"its StorageClass {name}"))
        return known.terms, known.by

    async def _get(self, resource: Resource[T], namespace: str | None, name: str, look: Look) -> T:
        look.requests += 1
        return msgspec.json.decode(await self._client.get(resource, namespace, name), type=resource.type)


def _allowed(topology: Mapping[str, Any]) -> tuple[Requirement, ...]:
    """A term of allowedTopologies as one of node affinity."""
    labels = topology.get("matchLabelExpressions") or ()
    return tuple((str(one.get("key", "")), "In", tuple(map(str, one.get("values") or ()))) for one in labels)
