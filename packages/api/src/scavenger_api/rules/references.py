"""Names that a job refers to, by the rules the API server applies to them in the pod.

The schema of a ScavengerJob is looser where JSON Schema and CEL would have had to repeat these rules
(k8s.io/apimachinery/pkg/util/validation, k8s.io/kubernetes/pkg/apis/core/validation). A job that breaks one would be
let in, get its turn, and fail when its batch/v1 Job is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from scavenger_api.job import ScavengerJobSpec
from scavenger_api.podspec import EnvVar
from scavenger_api.rules.problem import Problem, shown

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)
_SUBDOMAIN: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_KEY: Final = re.compile(r"[-._a-zA-Z0-9]+", re.ASCII)
_SUBSCRIPT: Final = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]", re.ASCII)
_PREFIX: Final = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*", re.ASCII)

FIELD_PATHS: Final = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
"""What a variable may take from its pod, beside metadata.labels['…'] and metadata.annotations['…']."""

MAX_KEY: Final = 253 + len("/") + 63
"""The longest name with a domain. No reader looks at more of it."""

_CONTAINER_RESOURCES: Final = re.compile(r"(limits|requests)\.(cpu|memory|ephemeral-storage|hugepages-\S+)", re.ASCII)

MAX_REFERENCES: Final = 64
"""Claims, ConfigMaps and Secrets that the pods of one job may need: each is looked for."""

_LOOKED_FOR: Final = ("persistentvolumeclaim", "configmap", "secret")


def count_of(spec: ScavengerJobSpec) -> int:
    """How many claims, ConfigMaps and Secrets the pods need; those that may be absent are not among them."""
    return sum(len(spec.references(kind)) for kind in _LOOKED_FOR)


def count_problems(spec: ScavengerJobSpec) -> Iterator[Problem]:
    """That the pods need too many other objects."""
    found = count_of(spec)
    if found > MAX_REFERENCES:
        text = (
            f"the pods need {found} claims, ConfigMaps and Secrets, more than the {MAX_REFERENCES} that a job may refer"
            " to; put several files into one of them"
        )
        yield Problem("spec", text)


def reference_problems(spec: ScavengerJobSpec) -> Iterator[Problem]:
    """Names and keys that the API server would refuse in the pod, and references that are too many."""
    yield from count_problems(spec)
    for key, value in (spec.node_selector or {}).items():
        field = f"spec.nodeSelector[{key if len(key) <= MAX_KEY else key[:MAX_KEY] + '…'}]"
        problem = qualified_name_problem(key) or label_value_problem(value)
        if problem:
            yield Problem(field, problem)
    for index, toleration in enumerate(spec.tolerations or ()):
        field = f"spec.tolerations[{index}]"
        if toleration.key and (problem := qualified_name_problem(toleration.key)):
            yield Problem(f"{field}.key", problem)
        if toleration.value and (problem := label_value_problem(toleration.value)):
            yield Problem(f"{field}.value", problem)
    for index, variable in enumerate(spec.env or ()):
        yield from _source_problems(f"spec.env[{index}].valueFrom", variable)
    for index, source in enumerate(spec.env_from or ()):
        if source.prefix and not _PREFIX.fullmatch(source.prefix):
            text = f"{shown(source.prefix)} cannot begin the name of a variable; use letters, digits, '_', '-' and '.'"
            yield Problem(f"spec.envFrom[{index}].prefix", text)


def _source_problems(field: str, variable: EnvVar) -> Iterator[Problem]:
    source = variable.value_from
    if source is None:
        return
    for name, selector in (("configMapKeyRef", source.config_map_key_ref), ("secretKeyRef", source.secret_key_ref)):
        if selector is not None and not _valid_key(selector.key):
            text = f"{shown(selector.key)} cannot be a key; keys are made of letters, digits, '-', '_' and '.'"
            yield Problem(f"{field}.{name}.key", text)
    if source.field_ref is not None:
        problem = _field_path_problem(source.field_ref.field_path)
        if problem:
            yield Problem(f"{field}.fieldRef.fieldPath", problem)
        version = source.field_ref.api_version
        if version not in (None, "", "v1"):
            yield Problem(f"{field}.fieldRef.apiVersion", f"{shown(version)} is not the version of a pod; leave it out")
    if source.resource_field_ref is not None:
        resource = source.resource_field_ref.resource
        if not _CONTAINER_RESOURCES.fullmatch(resource):
            text = f"{shown(resource)} is no resource of a container; write limits.cpu, limits.memory or the like"
            yield Problem(f"{field}.resourceFieldRef.resource", text)


def _valid_key(key: str) -> bool:
    return bool(_KEY.fullmatch(key)) and key not in (".", "..") and not key.startswith("..")


def _field_path_problem(path: str) -> str | None:
    subscript = _SUBSCRIPT.fullmatch(path)
    if subscript:
        return qualified_name_problem(subscript[2])
    if path in FIELD_PATHS:
        return None
    return f"{shown(path)} is no field that a variable can show; use metadata.labels['…'] or {', '.join(FIELD_PATHS)}"


def qualified_name_problem(name: str) -> str | None:
    """What is wrong with the key of a label, annotation or taint: an optional domain and a name of up to 63
    characters.
    """
    prefix, slash, last = name[: MAX_KEY + 1].rpartition("/")
    if slash and (len(prefix) > 253 or not _SUBDOMAIN.fullmatch(prefix)):
        return f"{shown(name)}: before the slash stands a domain in lower case, as example.com/name"
    if len(last) > 63 or not _NAME.fullmatch(last):
        return (
            f"{shown(name)}: a name has up to 63 letters, digits, '-', '_' and '.', "
            "and begins and ends with a letter or digit"
        )
    return None


def label_value_problem(value: str) -> str | None:
    """What is wrong with the value of a label or taint."""
    if not value or (len(value) <= 63 and _NAME.fullmatch(value)):
        return None
    return (
        f"{shown(value)}: a value has up to 63 letters, digits, '-', '_' and '.', "
        "and begins and ends with a letter or digit"
    )


def resource_name_problem(resource: str) -> str | None:
    """What is wrong with the name of a resource that a container asks for."""
    if "/" not in resource:
        return None  # cpu, memory, ... : the schema knows them
    problem = qualified_name_problem(resource)
    if problem:
        return problem
    domain = resource.partition("/")[0]
    if domain == "kubernetes.io" or domain.endswith(".kubernetes.io") or resource.startswith("requests."):
        return f"{shown(resource)}: no device is called so; the domain is that of its maker, as nvidia.com/gpu"
    return None
