"""Regular pods: every one outranks every scavenger job."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field
from scavenger_api.model import Model
from scavenger_api.rules.problem import warning

from scavenger_webhook.core.snapshot import (
    LOW_PRIORITY,
    SCAVENGER_CLASSES,
    Facts,
    LowPriority,
    PriorityClassFacts,
)
from scavenger_webhook.core.verdict import ACCEPTED, Verdict


class PodSpec(Model):
    """What decides about a pod's rank. The built-in Priority plugin has already run: it fills in class and number."""

    priority_class_name: str | None = None
    priority: Annotated[int | None, Field(strict=True)] = None


class Pod(Model):
    """core/v1 Pod, as it is being created."""

    spec: PodSpec


def review_pod(pod: Pod, facts: Facts) -> Verdict:
    """The rank of a pod that is being created.

    Scavenger pods are left alone (admission policies say which users may create them). A pod without a class gets that
    of regular workloads; one whose class does not outrank scavenger jobs is raised to it, or let in with a warning.
    Where the class of regular workloads does not exist, nothing is changed: naming it would have every pod refused.
    """
    name = pod.spec.priority_class_name or ""
    if name in SCAVENGER_CLASSES:
        return ACCEPTED
    ordinary = _ordinary(facts)
    if not name:
        return ACCEPTED if ordinary is None else Verdict(patch=_become(ordinary))
    priority = _priority(pod, facts)
    if priority is None or priority > LOW_PRIORITY:
        return ACCEPTED
    if ordinary is None or facts.rules.low_priority is LowPriority.WARN:
        text = f"PriorityClass {name} ({priority}) does not outrank scavenger jobs: name a class above {LOW_PRIORITY}"
        return Verdict(warnings=(warning(text),))
    text = (
        f"PriorityClass {name} ({priority}) does not outrank scavenger jobs: "
        f"raised to {ordinary.name} ({ordinary.value}); name a class above {LOW_PRIORITY}"
    )
    return Verdict(warnings=(warning(text),), patch=_become(ordinary))


def _ordinary(facts: Facts) -> PriorityClassFacts | None:
    """The class that pods are raised to, where it exists and is one."""
    found = facts.priority_classes.get(facts.rules.ordinary_class)
    return found if found is not None and found.value > LOW_PRIORITY else None


def _priority(pod: Pod, facts: Facts) -> int | None:
    if pod.spec.priority is not None:
        return pod.spec.priority
    found = facts.priority_classes.get(pod.spec.priority_class_name or "")
    return None if found is None else found.value


def _become(ordinary: PriorityClassFacts) -> tuple[dict[str, Any], ...]:
    """Class, number and preemption policy together: the Priority plugin runs again afterwards and refuses a pod in
    which they disagree (plugin/pkg/admission/priority/admission.go). `add` also replaces what is there (RFC 6902, 4.1).
    """
    return (
        {"op": "add", "path": "/spec/priorityClassName", "value": ordinary.name},
        {"op": "add", "path": "/spec/priority", "value": ordinary.value},
        {"op": "add", "path": "/spec/preemptionPolicy", "value": ordinary.preemption_policy},
    )
