"""Quantities and names of resources: those that the API server would refuse in the pod, or that cannot be meant.

A fraction of a byte or of a millicore is none of these: the API server rounds it up, as in 1.2Gi.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Final, TypeAlias

from scavenger_api.job import Capacity, ScavengerJobSpec
from scavenger_api.main_container import unequal
from scavenger_api.quantity import MAX_UNITS, QuantityError, parse_quantity, units
from scavenger_api.reclaimed import RECLAIMED
from scavenger_api.requirements import ResourceRequirements
from scavenger_api.rules.problem import Problem, shown, warning
from scavenger_api.rules.references import resource_name_problem
from scavenger_api.template import TemplateResources, containers_of, main_container

FIELD: Final = "spec.resources"
HUGEPAGES: Final = "hugepages-"
LEAST_MEMORY: Final = 2**20
"""Bytes: with less, not even an empty container starts; who writes it has forgotten the suffix."""

MOST_MILLICORES: Final = 10**9
"""A million cores: more than any machine, so a suffix too many."""

_BYTES: Final = ("memory", "ephemeral-storage")
_SIZE: Final = re.compile(r"[1-9][0-9]*[KMGTPE]i", re.ASCII)


def quantity_problems(spec: ScavengerJobSpec) -> Iterator[Problem]:
    """Quantities and names that the API server would refuse in the pod, or that are a slip of the pen."""
    for where, resources in _resources_of(spec):
        for side in ("requests", "limits"):
            for resource, text in (getattr(resources, side) or {}).items():
                if side == "requests" and _sets_nothing_aside(spec, resources, resource, text):
                    continue
                problem = resource_name_problem(resource) or _quantity_problem(resource, text)
                if problem:
                    yield Problem(f"{where}.{side}[{resource}]", problem)


def size_warnings(spec: ScavengerJobSpec) -> Iterator[str]:
    """What a job has to suffer whose program may use more than it requests."""
    if spec.capacity is not Capacity.GUARANTEED:
        return
    if spec.template is not None:
        main = main_container(spec.template.spec, spec.main_container)
        where, text = f"container {main.name}", unequal(main.resources.requests, main.resources.limits)
    elif spec.resources is not None:
        where, text = FIELD, unequal(spec.resources.effective(), spec.resources.most())
    else:
        return
    if text:
        yield warning(f"{where}: {text}")


Resources: TypeAlias = ResourceRequirements | TemplateResources


def _resources_of(spec: ScavengerJobSpec) -> Iterator[tuple[str, Resources]]:
    if spec.resources is not None:
        yield FIELD, spec.resources
    if spec.template is not None:
        yield "spec.template.spec.resources", spec.template.spec.resources
        for field, container in containers_of(spec.template.spec):
            yield f"{field}.resources", container.resources


def _sets_nothing_aside(spec: ScavengerJobSpec, resources: Resources, resource: str, text: str) -> bool:
    """A request of 0, beside a limit, on reclaimed capacity: less than a container needs, and meant."""
    if spec.capacity is not Capacity.RECLAIMED or resource not in RECLAIMED:
        return False
    try:
        return resource in (resources.limits or {}) and parse_quantity(text) == 0
    except QuantityError:
        return False


def _quantity_problem(resource: str, text: str) -> str | None:
    try:
        value = parse_quantity(text)
    except QuantityError as error:
        return str(error)
    if value > MAX_UNITS:
        return f"{text} is more than Kubernetes can count; check the suffix"
    if resource == "cpu" and value * 1000 > MOST_MILLICORES:
        return f"{text} is more than a million cores; cpu counts cores, without a suffix or in thousandths, as 500m"
    if resource in _BYTES:
        return _bytes_problem(resource, text, value)
    if resource.startswith(HUGEPAGES):
        return _hugepages_problem(resource, text, value)
    if "/" in resource and value != value.to_integral_value():
        return f"{text} is no whole number; devices come in whole units, as 1"
    return None


def _bytes_problem(resource: str, text: str, value: Decimal) -> str | None:
    if 0 < value < 1:
        return f"{text} is a fraction of a byte (m means thousandths); write Mi or Gi, as 512Mi"
    if resource == "memory" and value < LEAST_MEMORY:
        return f"{text} is {units(text)} bytes, with which no container starts; write Mi or Gi, as 512Mi"
    return None


def _hugepages_problem(resource: str, text: str, value: Decimal) -> str | None:
    size = resource.removeprefix(HUGEPAGES)
    if not _SIZE.fullmatch(size):
        return f"{shown(size)} is not the size of a page; write hugepages-2Mi or hugepages-1Gi"
    if value % parse_quantity(size):
        return f"{text} is not a multiple of the page size {size}; round it up"
    return None
