"""Bases of the API models, and the scalar types that recur in them.

The models are the one source of the contract: services read and write objects through them and the CRDs are
generated from them (`scavenger_api.crd`). What JSON Schema cannot say stands beside the field or class it is
about, as CEL in `x-kubernetes-validations`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel

from scavenger_api.quantity import parse_quantity
from scavenger_api.times import format_micro_time, format_time


class Model(BaseModel):
    """A part of an API object: camelCase on the wire, immutable in memory, unknown fields dropped."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        frozen=True,
        extra="ignore",
        use_attribute_docstrings=True,
    )

    def to_dict(self) -> dict[str, Any]:
        """The object as JSON values, without the fields that are unset."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def cel(
    rule: str, message: str, *, field_path: str | None = None, reason: str | None = None, words: str | None = None
) -> dict[str, str]:
    """One entry of x-kubernetes-validations. The message names the field and the remedy; `words` is an expression for
    a better one, which is evaluated when the rule does not hold."""
    entry = {"rule": rule, "message": message}
    if words:
        entry["messageExpression"] = words
    if field_path:
        entry["fieldPath"] = field_path
    if reason:
        entry["reason"] = reason
    return entry


def validations(*rules: Mapping[str, str]) -> dict[str, Any]:
    """`json_schema_extra` that carries CEL rules into the CRD."""
    return {"x-kubernetes-validations": [dict(rule) for rule in rules]}


def list_map(*keys: str) -> dict[str, Any]:
    """`json_schema_extra` of a list whose entries are told apart, and merged, by these fields."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


def _quantity(value: str | int | float) -> str:
    parse_quantity(value)
    return str(value)


# What resource.Quantity parses: looser patterns let through exponents that the components cannot read.
QUANTITY_PATTERN: Final = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?([0-5]?[0-9]|6[0-4]))?$"

Quantity = Annotated[
    str,
    BeforeValidator(_quantity),
    WithJsonSchema(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": QUANTITY_PATTERN,
            "maxLength": 64,
            "x-kubernetes-int-or-string": True,
        }
    ),
]
"""A Kubernetes quantity, kept as written."""

Timestamp = Annotated[
    datetime,
    PlainSerializer(format_time, return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""RFC 3339 to the second."""

MicroTimestamp = Annotated[
    datetime,
    PlainSerializer(format_micro_time, return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""RFC 3339 to the microsecond, where order depends on it."""


Seconds = Annotated[float, Field(allow_inf_nan=False)]
"""A span in seconds; never NaN or infinite."""

DnsLabel = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
DnsSubdomain = Annotated[
    str,
    Field(
        min_length=1,
        max_length=253,
        pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
    ),
]


class OwnerReference(Model):
    """metadata.ownerReferences[]."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class ObjectMeta(Model):
    """The part of metadata that the components read."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def key(self) -> str:
        """`namespace/name`, or the bare name of a cluster-scoped object."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Condition(Model):
    """A condition as metav1.Condition has it."""

    type: Annotated[str, Field(min_length=1, max_length=316)]
    """What the condition is about."""
    status: Annotated[str, Field(json_schema_extra={"enum": ["True", "False", "Unknown"]})]
    """Whether it holds: True, False or Unknown."""
    observed_generation: Annotated[int | None, Field(ge=0)] = None
    """The metadata.generation that it was written for."""
    last_transition_time: Timestamp
    """When the status last changed."""
    reason: Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")]
    """One word in CamelCase, for programs."""
    message: Annotated[str, Field(max_length=32768)] = ""
    """A sentence with figures, for people."""
