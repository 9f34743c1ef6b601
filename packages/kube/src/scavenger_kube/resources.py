"""Which kinds there are, where they live in the API, and what they are read into."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import msgspec
from scavenger_api import names

from scavenger_kube import kinds

T = TypeVar("T")

JSON = "application/json"
APPLY_PATCH = "application/apply-patch+yaml"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
METADATA = f"{JSON};as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
"""Accepts an object without all but its metadata."""

Params = Mapping[str, str | int | bool | None]


class LeaseSpec(kinds.Struct, frozen=True, gc=False, rename="camel"):
    """spec of a Lease: who leads, and when they last said so."""

    holder_identity: str | None = None
    renew_time: str | None = None


class Lease(kinds.Struct, frozen=True, gc=False, rename="camel"):
    """coordination.k8s.io/v1 Lease, as far as others look at it; election reads the whole object."""

    metadata: kinds.ObjectMeta = kinds.ObjectMeta()
    spec: LeaseSpec = LeaseSpec()


class Service(kinds.Struct, frozen=True, gc=False, rename="camel"):
    """core/v1 Service: nothing here decides by its spec."""

    metadata: kinds.ObjectMeta = kinds.ObjectMeta()


class Namespace(kinds.Struct, frozen=True, gc=False, rename="camel"):
    """core/v1 Namespace: existence, labels and deletion."""

    metadata: kinds.ObjectMeta = kinds.ObjectMeta()


class PodDisruptionBudget(kinds.Struct, frozen=True, gc=False, rename="camel"):
    """policy/v1 PodDisruptionBudget; `spec` as it came, to compare with what it should be."""

    metadata: kinds.ObjectMeta = kinds.ObjectMeta()
    spec: dict[str, Any] = {}  # noqa: RUF012 - msgspec copies it

    @property
    def ours(self) -> bool:
        """Whether the prioritizer made it. A user may have one of the same name."""
        return self.metadata.labels.get(names.LABEL_MANAGED_BY) == names.PRIORITIZER


class VolumeClaimSpec(kinds.Struct, frozen=True, gc=False, rename="camel"):
    """spec of a PersistentVolumeClaim: its volume, and what one is made by."""

    volume_name: str = ""
    storage_class_name: str | None = None


class VolumeClaim(kinds.Struct, frozen=True, gc=False, rename="camel"):
    """core/v1 PersistentVolumeClaim."""

    metadata: kinds.ObjectMeta = kinds.ObjectMeta()
    spec: VolumeClaimSpec = VolumeClaimSpec()


class ClaimRef(kinds.Struct, frozen=True, gc=False, rename="camel"):
    """spec.claimRef of a PersistentVolume: the claim that it is bound to, or kept for. Tenants cannot write it."""

    namespace: str = ""
    name: str = ""
    uid: str = ""
    """Empty while the volume is kept for a claim of that name."""

    def names(self, claim: kinds.ObjectMeta) -> bool:
        """Whether this is the claim."""
        return (self.namespace, self.name) == (claim.namespace, claim.name) and self.uid in ("", claim.uid)


class VolumeSpec(kinds.Struct, frozen=True, gc=False, rename="camel"):
    """spec of a PersistentVolume: its claim, the nodes that can use it, and nothing of where it lies."""

    claim_ref: ClaimRef | None = None
    node_affinity: dict[str, Any] | None = None


class Volume(kinds.Struct, frozen=True, gc=False, rename="camel"):
    """core/v1 PersistentVolume."""

    metadata: kinds.ObjectMeta = kinds.ObjectMeta()
    spec: VolumeSpec = VolumeSpec()


class StorageClass(kinds.Struct, frozen=True, gc=False, rename="camel"):
    """storage.k8s.io/v1 StorageClass: which nodes can use what it provisions."""

    metadata: kinds.ObjectMeta = kinds.ObjectMeta()
    allowed_topologies: list[dict[str, Any]] | None = None


class Item(kinds.Struct, frozen=True, gc=False, rename="camel"):
    """An object of which nothing but the existence matters."""

    metadata: kinds.ObjectMeta = kinds.ObjectMeta()


@dataclass(frozen=True, slots=True)
class Resource(Generic[T]):
    """A kind of the API. `type` is what its objects are decoded into (a msgspec Struct or a pydantic
    model).
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    type: type[T]

    @property
    def api_version(self) -> str:
        """As in manifests: `v1`, `batch/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The URL path of a collection (all namespaces without one), an object, or a subresource of it."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        parts = [root]
        if self.namespaced and namespace:
            parts.append(f"namespaces/{namespace}")
        elif self.namespaced and name:
            raise ValueError(f"{self.kind} {name!r} needs a namespace")
        parts.append(self.plural)
        parts.extend(part for part in (name, subresource) if part)
        return "/".join(parts)


PODS = Resource("", "v1", "pods", "Pod", True, kinds.Pod)
NODES = Resource("", "v1", "nodes", "Node", False, kinds.Node)
JOBS = Resource("batch", "v1", "jobs", "Job", True, kinds.Job)
CONFIGMAPS = Resource("", "v1", "configmaps", "ConfigMap", True, kinds.ConfigMap)
SECRETS = Resource("", "v1", "secrets", "Secret", True, Item)
PERSISTENTVOLUMECLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True, VolumeClaim)
PERSISTENTVOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", False, Volume)
STORAGECLASSES = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", False, StorageClass)
EVENTS = Resource("", "v1", "events", "Event", True, kinds.Event)
SERVICES = Resource("", "v1", "services", "Service", True, Service)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", False, Namespace)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", True, Lease)
PODDISRUPTIONBUDGETS = Resource(
    "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True, PodDisruptionBudget
)

LIVING: Final = "status.phase!=Succeeded,status.phase!=Failed"
"""Field selector of pods that have not ended."""


def scavenger_jobs(into: type[T]) -> Resource[T]:
    """ScavengerJobs, read into what the caller looks at of them."""
    return Resource(names.GROUP, names.VERSION, "scavengerjobs", "ScavengerJob", True, into)


def scavenger_queues(into: type[T]) -> Resource[T]:
    """ScavengerQueues, read into what the caller looks at of them."""
    return Resource(names.GROUP, names.VERSION, "scavengerqueues", "ScavengerQueue", False, into)


def encode(obj: Any) -> bytes:
    """JSON of a request body: bytes as they are, dicts, msgspec Structs and pydantic models as the API
    expects them.
    """
    if isinstance(obj, bytes):
        return obj
    dump = getattr(obj, "model_dump_json", None)
    if dump is not None:
        return bytes(dump(by_alias=True, exclude_none=True), "utf-8")
    return msgspec.json.encode(obj)


def query(params: Params | None) -> dict[str, str]:
    """As the API wants it: true and false in lower case, nothing for None and for what is empty."""
    given = (params or {}).items()
    return {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in given if v is not None and v != ""}
