"""spec.template of a ScavengerJob: a core/v1 pod template, kept as it is written.

Typed is what the components read of it. The rest is carried along, and the API server judges it in the pod.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, cast, get_origin

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    PrivateAttr,
    SerializationInfo,
    WithJsonSchema,
    model_serializer,
)

from scavenger_api.main_container import main_index
from scavenger_api.model import DnsLabel, Model, Quantity

AS_WRITTEN: Final = WithJsonSchema({"x-kubernetes-preserve-unknown-fields": True})
"""Has no type, so that the API server compares all of it where it asks whether the spec has changed."""

Written = dict[str, Any]


class _NullIsEmpty:
    """Marks a field that may be null, as core/v1 has it, and is empty then."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> Any:
        empty = get_origin(source) or source
        read = AfterValidator(lambda found: empty() if found is None else found)
        return handler.generate_schema(Annotated[source | None, read])


T = TypeVar("T")
Nullable = Annotated[T, _NullIsEmpty()]


class _Part(Model):
    """A part of a pod, of which nothing is lost: unknown fields are kept."""

    model_config = ConfigDict(extra="allow")


class TemplateResources(_Part):
    """resources of a container, or of the whole pod."""

    requests: Nullable[dict[str, Quantity]] = Field(default_factory=dict)
    limits: Nullable[dict[str, Quantity]] = Field(default_factory=dict)


_NO_RESOURCES: Final = TemplateResources()
"""Pydantic would copy a default for each container."""


class TemplateContainer(_Part):
    """A container, or an init container."""

    name: Annotated[str, Field(min_length=1, max_length=63)]
    image: Nullable[str] = ""
    env: Nullable[tuple[Written, ...]] = ()
    """Kept as it is written as well: a template may have hundreds, and every service keeps those of all jobs."""
    env_from: Nullable[tuple[Written, ...]] = ()
    resources: Nullable[TemplateResources] = Field(default_factory=lambda: _NO_RESOURCES)
    restart_policy: str | None = None
    security_context: Nullable[Written] = Field(default_factory=dict)


class TemplateToleration(_Part):
    """A taint that the pods tolerate."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class TemplateSpec(_Part):
    """spec of the template."""

    containers: Annotated[tuple[TemplateContainer, ...], Field(min_length=1)]
    init_containers: Nullable[tuple[TemplateContainer, ...]] = ()
    volumes: Nullable[tuple[Written, ...]] = ()
    node_selector: Nullable[dict[str, str]] = Field(default_factory=dict)
    tolerations: Nullable[tuple[TemplateToleration, ...]] = ()
    affinity: Nullable[Written] = Field(default_factory=dict)
    service_account_name: str | None = None
    service_account: str | None = None
    """The old name of serviceAccountName."""
    resources: Nullable[TemplateResources] = Field(default_factory=lambda: _NO_RESOURCES)
    overhead: Nullable[dict[str, Quantity]] = Field(default_factory=dict)
    security_context: Nullable[Written] = Field(default_factory=dict)
    termination_grace_period_seconds: Annotated[int | None, Field(ge=0)] = None

    @property
    def all_containers(self) -> tuple[TemplateContainer, ...]:
        """The init containers, and then the others."""
        return (*self.init_containers, *self.containers)


class TemplateMetadata(_Part):
    """metadata of the template. Only labels and annotations go to the pods."""

    labels: Nullable[dict[str, str]] = Field(default_factory=dict)
    annotations: Nullable[dict[str, str]] = Field(default_factory=dict)


class PodTemplate(_Part):
    """A core/v1 pod template."""

    metadata: Annotated[TemplateMetadata | None, AS_WRITTEN] = None
    """Labels and annotations of the pods."""
    spec: Annotated[TemplateSpec, AS_WRITTEN]
    """What a pod is made of, as in a Job."""

    @property
    def decoded(self) -> PodTemplate:
        """The template with all its parts: itself, unless it is kept as JSON."""
        return self

    @property
    def written(self) -> dict[str, Any]:
        """The template as JSON values, as it was written but for nulls. Not to be changed."""
        return self.decoded._written

    @cached_property
    def _written(self) -> dict[str, Any]:
        found: dict[str, Any] = without_nulls(self.model_dump(mode="json", by_alias=True))
        return found

    @property
    def placing_bytes(self) -> int:
        """Bytes as JSON of what the pods are placed by: their nodes' labels and taints, affinity, and requests."""
        return self.decoded._placing_bytes

    @cached_property
    def _placing_bytes(self) -> int:
        pod = self.spec.__pydantic_serializer__.to_json(self.spec, include=_PLACING, by_alias=True, exclude_unset=True)
        return len(pod) + sum(_bytes_of(one.resources) for one in self.spec.all_containers)

    def to_json(self) -> bytes:
        """The template as it was written."""
        return self.__pydantic_serializer__.to_json(self, by_alias=True)

    @model_serializer(mode="plain")
    def _as_written(self, info: SerializationInfo) -> dict[str, Any]:
        """No defaults are written. That is said here once, as a serializer of each part would be called for each."""
        whole = self.decoded
        parts = {name: part for name in whole.model_fields_set if isinstance(part := getattr(whole, name), _Part)}
        how: Any = {"mode": info.mode, "by_alias": info.by_alias, "exclude_unset": True}
        return {**(whole.model_extra or {}), **{name: part.model_dump(**how) for name, part in parts.items()}}


def _bytes_of(resources: TemplateResources) -> int:
    if resources is _NO_RESOURCES:
        return 0
    return len(resources.__pydantic_serializer__.to_json(resources, by_alias=True, exclude_unset=True))


_PLACING: Final = {"node_selector", "tolerations", "affinity", "overhead", "resources"}


class PackedTemplate(PodTemplate):
    """A template that is kept as its JSON. As objects it may take 36 times as much memory: a list of `{}` does.

    What is read of it is decoded for that. The template that was read last stays decoded, as a look reads it often.
    """

    _json: bytes = PrivateAttr(default=b"")

    @classmethod
    def of(cls, json: bytes) -> PackedTemplate:
        """The template of this JSON, which has been read as a `PodTemplate` before."""
        made: PackedTemplate = cast("Any", cls).model_construct()
        made.__dict__.clear()  # the fields are those of `decoded`
        made._json = json
        return made

    @property
    def decoded(self) -> PodTemplate:
        """The template with all its parts. Do not keep it."""
        return _decoded(self._json)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """metadata and spec."""
            if name in PodTemplate.model_fields:
                return getattr(self.decoded, name)
            return super().__getattr__(name)

    def to_json(self) -> bytes:
        """The template as it was written."""
        return self._json


_decoded: Final = lru_cache(maxsize=1)(PodTemplate.model_validate_json)


_OF_ANY_NAME: Final = frozenset(
    {"annotations", "env", "labels", "limits", "matchLabels", "nodeSelector", "overhead", "requests"}
)
"""Fields in which null is a value, or the API server's business alone."""


def without_nulls(value: Any) -> Any:
    """What is written in a template, without fields that are null: core/v1 takes them for absent."""
    if isinstance(value, dict):
        there = ((name, one) for name, one in value.items() if one is not None)
        return {name: one if name in _OF_ANY_NAME else without_nulls(one) for name, one in there}
    return [without_nulls(one) for one in value] if isinstance(value, list) else value


def main_container(spec: TemplateSpec, name: DnsLabel | None) -> TemplateContainer:
    """The container that is the program: the one of this name, or the first."""
    return spec.containers[main_index([one.name for one in spec.containers], name)]


def containers_of(spec: TemplateSpec) -> Iterator[tuple[str, TemplateContainer]]:
    """Every container with the path of its field."""
    for field, containers in (("initContainers", spec.init_containers), ("containers", spec.containers)):
        for index, container in enumerate(containers):
            yield f"spec.template.spec.{field}[{index}]", container


def references(spec: TemplateSpec, kind: str) -> frozenset[str]:
    """Names of the objects of a kind (`configmap`, `secret`, `persistentvolumeclaim`) that the pods need."""
    return frozenset(name for found, name in _references(spec) if found == kind and name)


def has_token(spec: TemplateSpec) -> bool:
    """Whether a volume has a token of the pods' service account."""
    sources = (source for volume in spec.volumes for source in _list(volume, "projected", "sources"))
    return any(at(source, "serviceAccountToken") is not None for source in sources)


_FOR_ONE_POD: Final = frozenset(
    {"configMap", "downwardAPI", "emptyDir", "ephemeral", "image", "name", "projected", "secret"}
)
"""Kinds of volumes that no other pod writes to."""


def keeps_state(spec: TemplateSpec) -> bool:
    """Whether a volume outlives the pods or is shared with others."""
    return any(volume.keys() - _FOR_ONE_POD for volume in spec.volumes)


def bound(spec: TemplateSpec) -> bool:
    """Whether the scheduler places the pods by more than their requests, their nodes' labels and taints."""
    fields = spec.model_extra or {}
    neighbours = any(name in spec.affinity for name in ("podAffinity", "podAntiAffinity"))
    ephemeral = any("ephemeral" in volume for volume in spec.volumes)
    return neighbours or ephemeral or "topologySpreadConstraints" in fields or "runtimeClassName" in fields


_VOLUMES: Final = (
    ("persistentvolumeclaim", "persistentVolumeClaim", "claimName"),
    ("configmap", "configMap", "name"),
    ("secret", "secret", "secretName"),
)


def _references(spec: TemplateSpec) -> Iterator[tuple[str, str]]:
    for volume in spec.volumes:
        for kind, field, name in _VOLUMES:
            yield kind, _needed(volume, field, name)
        for source in _list(volume, "projected", "sources"):
            yield "configmap", _needed(source, "configMap", "name")
            yield "secret", _needed(source, "secret", "name")
    for container in spec.all_containers:
        sources = [source for variable in container.env if (source := variable.get("valueFrom"))]
        for kind, field in (("configmap", "configMap"), ("secret", "secret")):
            for source in sources:
                yield kind, _needed(source, f"{field}KeyRef", "name")
            for whole in container.env_from:
                yield kind, _needed(whole, f"{field}Ref", "name")


def _needed(source: object, field: str, name: str) -> str:
    """The name of the object that a field refers to; empty where it may be absent."""
    return "" if at(source, field, "optional") is True else _text(source, field, name)


def at(value: object, *path: str) -> Any:
    """What stands at this path below; None where nothing does."""
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _text(value: object, *path: str) -> str:
    found = at(value, *path)
    return found if isinstance(found, str) else ""


def _list(value: object, *path: str) -> list[Any]:
    found = at(value, *path)
    return found if isinstance(found, list) else []
