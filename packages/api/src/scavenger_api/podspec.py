"""Parts of a ScavengerJob's spec that pods have as well, after core/v1, and the rules each keeps by itself."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, ConfigDict, Field

from scavenger_api import names
from scavenger_api.model import DnsSubdomain, Model, Quantity, cel, validations


class LocalObjectReference(Model):
    """A named object in the job's namespace."""

    name: DnsSubdomain
    """Name of the object."""


class KeySelector(Model):
    """A key of a ConfigMap or Secret."""

    name: DnsSubdomain
    """Name of the ConfigMap or Secret."""
    key: Annotated[str, Field(min_length=1, max_length=253)]
    """The key whose value is taken."""
    optional: bool | None = None
    """Whether the job may start without the object or its key."""


class ObjectFieldSelector(Model):
    """A field of the pod."""

    api_version: str | None = None
    """Version of the API that the path is written for; v1 without it."""
    field_path: Annotated[str, Field(min_length=1, max_length=253)]
    """Path of the field, such as metadata.name or status.podIP."""


class ResourceFieldSelector(Model):
    """A resource of the container."""

    container_name: str | None = None
    """The container whose resource is taken; the one of the program without it."""
    resource: Annotated[str, Field(min_length=1, max_length=253)]
    """The resource, such as limits.cpu or requests.memory."""
    divisor: Quantity | None = None
    """What the amount is divided by: 1 for whole cores and bytes, 1Mi for MiB."""


class EnvVarSource(Model):
    """Where the value of a variable comes from."""

    field_ref: ObjectFieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    config_map_key_ref: KeySelector | None = None
    secret_key_ref: KeySelector | None = None

    model_config = ConfigDict(
        json_schema_extra=validations(
            cel(
                "[has(self.fieldRef), has(self.resourceFieldRef), has(self.configMapKeyRef), "
                "has(self.secretKeyRef)].filter(x, x).size() == 1",
                "name exactly one of fieldRef, resourceFieldRef, configMapKeyRef and secretKeyRef",
            )
        )
    )


class EnvVar(Model):
    """An environment variable of the container."""

    name: Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z][-._a-zA-Z0-9]*$")]
    """Name of the variable."""
    value: Annotated[str | None, Field(max_length=131072)] = None
    """Its value; $(NAME) in it stands for a variable that was defined before."""
    value_from: EnvVarSource | None = None

    model_config = ConfigDict(
        json_schema_extra=validations(
            cel(
                "!(has(self.value) && self.value != '' && has(self.valueFrom))",
                "a variable has a value or a valueFrom, not both; remove one of them",
            ),
            cel(
                f"!(self.name in {list(names.RESERVED_ENV)!r})",
                "the names " + ", ".join(names.RESERVED_ENV) + " are set by the admitter; choose another name",
                field_path=".name",
            ),
        )
    )


class EnvFromReference(Model):
    """All keys of a ConfigMap or Secret."""

    name: DnsSubdomain
    """Name of the ConfigMap or Secret."""
    optional: bool | None = None
    """Whether the job may start without it."""


class EnvFromSource(Model):
    """A whole ConfigMap or Secret as environment variables."""

    prefix: Annotated[str | None, Field(max_length=253)] = None
    """Text that is put before each key."""
    config_map_ref: EnvFromReference | None = None
    secret_ref: EnvFromReference | None = None

    model_config = ConfigDict(
        json_schema_extra=validations(
            cel(
                "has(self.configMapRef) != has(self.secretRef)",
                "each entry names exactly one of configMapRef and secretRef",
            )
        )
    )


class Toleration(Model):
    """A taint that the pods tolerate."""

    key: Annotated[str | None, Field(max_length=316)] = None
    """Key of the taint; without it, with operator Exists, every taint."""
    operator: Literal["Exists", "Equal"] | None = None
    """Exists: whatever the value of the taint is. Equal, the default: it has this value."""
    value: Annotated[str | None, Field(max_length=63)] = None
    """Value of the taint, with operator Equal."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Effect of the taint; every effect without it."""
    toleration_seconds: int | None = None
    """With effect NoExecute, how many seconds the pods stay after the taint was set; for ever without it."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            cel(
                "(has(self.key) && self.key != '') || (has(self.operator) && self.operator == 'Exists')",
                "an empty key needs operator: Exists, which then tolerates every taint",
            ),
            cel(
                "!(has(self.operator) && self.operator == 'Exists' && has(self.value) && self.value != '')",
                "operator: Exists takes no value; remove value, or use operator: Equal",
            ),
            cel(
                "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
                "tolerationSeconds needs effect: NoExecute",
            ),
        )
    )


MountPath = Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^/[^:]*$")]


class VolumeMount(Model):
    """A PersistentVolumeClaim, ConfigMap or Secret of the namespace, mounted into every pod."""

    name: DnsSubdomain
    """Name of the PersistentVolumeClaim, ConfigMap or Secret."""
    mount_path: MountPath
    """Absolute path in the container, without a colon, different for every mount of the job."""
    sub_path: Annotated[str | None, Field(min_length=1, max_length=1024)] = None
    """A path inside the volume, relative and without `..`."""
    read_only: bool | None = None
    """Whether the program may only read it."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            cel(
                "!has(self.subPath) || (!self.subPath.startsWith('/') && !self.subPath.matches('(^|/)[.][.](/|$)'))",
                "write a relative path without '..'",
                field_path=".subPath",
            )
        )
    )


class SeccompProfile(Model):
    """Which system calls the processes may make."""

    type: Literal["RuntimeDefault", "Localhost"]
    """The container runtime's own profile, or a file of the node."""
    localhost_profile: Annotated[str | None, Field(min_length=1, max_length=1024)] = None
    """With Localhost: the file, below the kubelet's folder of profiles."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            cel(
                "has(self.localhostProfile) == (self.type == 'Localhost')",
                "type: Localhost needs it, and no other type takes it",
                field_path=".localhostProfile",
            ),
            cel(
                "!has(self.localhostProfile) || (!self.localhostProfile.startsWith('/') && "
                "!self.localhostProfile.matches('(^|/)[.][.](/|$)'))",
                "write a relative path without '..'",
                field_path=".localhostProfile",
            ),
        )
    )


def _baseline(name: str) -> str:
    if name not in names.BASELINE_CAPABILITIES:
        raise ValueError(f"not one of {', '.join(sorted(names.BASELINE_CAPABILITIES))}")
    return name


Capability: TypeAlias = Annotated[
    str, AfterValidator(_baseline), Field(json_schema_extra={"enum": [*sorted(names.BASELINE_CAPABILITIES)]})
]
"""What PodSecurity `baseline` lets a container add; `restricted` only NET_BIND_SERVICE of it."""


class Capabilities(Model):
    """Rights of root, one by one."""

    add: Annotated[tuple[Capability, ...] | None, Field(max_length=16)] = None
    """Capabilities to have. All but NET_BIND_SERVICE need the administrator's label on the namespace."""
    drop: Annotated[
        tuple[Annotated[str, Field(max_length=64, pattern=r"^[A-Z][A-Z_]*$")], ...] | None, Field(max_length=64)
    ] = None
    """Capabilities to be without. By default, and whatever stands here, ALL, unless the namespace has the label."""


class SecurityContext(Model):
    """What the processes may do, as in the securityContext of a container.

    What is left out is as PodSecurity `restricted` wants it, unless the namespace has the administrator's label.
    """

    run_as_non_root: bool | None = None
    """Whether the kubelet refuses to start processes as root."""
    allow_privilege_escalation: bool | None = None
    """Whether a program may gain more rights than the one that started it, as by a set-user-ID bit."""
    privileged: bool | None = None
    """Never true: scavenger jobs get nothing of the node."""
    read_only_root_filesystem: bool | None = None
    """Whether only mounted volumes can be written to."""
    seccomp_profile: SeccompProfile | None = None
    """Which system calls the processes may make."""
    capabilities: Capabilities | None = None
    """Rights of root, one by one."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            cel(
                "!has(self.privileged) || !self.privileged",
                "scavenger jobs get nothing of the node; leave it out",
                field_path=".privileged",
                reason="FieldValueForbidden",
            )
        )
    )
