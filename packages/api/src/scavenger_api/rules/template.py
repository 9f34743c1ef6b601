"""Pod templates: what a job cannot have in one, and what it needs beside it. The API server judges the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from scavenger_api import names
from scavenger_api.job import IN_TEMPLATE, MIXED, Capacity, ScavengerJobSpec
from scavenger_api.quantity import QuantityError, amounts
from scavenger_api.reclaimed import RECLAIMED
from scavenger_api.rules.problem import FORBIDDEN, Problem, shown, warning
from scavenger_api.template import (
    PodTemplate,
    TemplateContainer,
    TemplateResources,
    containers_of,
    has_token,
)

WHERE: Final = "spec.template"

REFUSED: Final = {
    "nodeName": "the scheduler chooses the node; write nodeSelector or affinity",
    "activeDeadlineSeconds": "every run has new pods; write spec.activeDeadlineSeconds, which counts all runs",
    "ephemeralContainers": "no template has them",
    "schedulingGates": "a job starts only when there is capacity for it, which a gated pod would hold; leave them out, "
    "write spec.suspend: true, and let your controller set it to false",
    "resourceClaims": "queues cannot count claimed devices; ask for an extended resource, as nvidia.com/gpu: 1",
}
"""Fields of a pod that no scavenger job has, and what to do."""

MAX_PLACING_BYTES: Final = 8 * 1024
"""Bytes as JSON of what the pods of one job are placed by: the admitter keeps that of all jobs that wait."""

OVERRIDDEN: Final = {
    "restartPolicy": "Never",
    "priorityClassName": names.PRIORITY_CLASS_PREEMPTIBLE,
    "priority": "",
    "preemptionPolicy": "",
    "schedulerName": "",
    "hostname": "",
    "subdomain": "",
    "setHostnameAsFQDN": "",
}
"""Fields of a pod that the admitter sets or leaves out whatever the template says, and what they are then."""


KARPENTER_KEEPS: Final = "karpenter.sh/do-not-disrupt"
AUTOSCALER_EVICTS: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"
KEEPS_NO_NODE: Final = (
    "the admitter leaves it out, as a scavenger job keeps no node, unless its allowedAnnotations names it"
)
"""What becomes of an annotation by which a pod keeps its node."""
DESCHEDULER_KEEPS: Final = "descheduler.alpha.kubernetes.io/prefer-no-eviction"


def overridden(pod: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Fields that say something else than their pods will have, and what becomes of them."""
    for name, value in OVERRIDDEN.items():
        if pod.get(name) not in (None, value, "default-scheduler"):
            yield name, f"the admitter sets {value}" if value else "the admitter leaves it out"


def keeps_its_node(annotations: Mapping[str, str]) -> list[str]:
    """Keys of annotations by which a pod keeps other programs from emptying its node, or from moving it.

    A scavenger job leaves when a node is to go. https://karpenter.sh/docs/concepts/disruption/, the FAQ of the cluster
    autoscaler and the user guide of the descheduler have the annotations.
    """
    return [
        key
        for key in (KARPENTER_KEEPS, "karpenter.sh/do-not-evict", AUTOSCALER_EVICTS, DESCHEDULER_KEEPS)
        if key in annotations and (key != AUTOSCALER_EVICTS or annotations[key] == "false")
    ]


def restarts(kind: str, container: Mapping[str, Any]) -> list[str]:
    """Fields by which a container starts again in its pod, as Kubernetes 1.35 and later let it. The admitter leaves
    them out: no component would count the retry, and what has ended would still run.

    Args:
        kind: initContainers, of which one may run beside the others all the time, or containers.
        container: as it is written.
    """
    beside = kind == "initContainers" and container.get("restartPolicy") == "Always"
    fields = ("restartPolicyRules",) if beside else ("restartPolicy", "restartPolicyRules")
    return [name for name in fields if container.get(name) not in (None, "Never")]


def template_problems(spec: ScavengerJobSpec) -> Iterator[Problem]:
    """What is wrong with the template of a job, or with its absence."""
    template = spec.template
    yield from _policy_problems(spec)
    if template is None:
        yield from _short_form_problems(spec)
        return
    yield from _mixed(spec)
    yield from start_problems(spec)
    yield from _main_problems(spec, template)
    if spec.account is None and has_token(template.spec):
        text = "a volume has a token of a service account; name the account"
        yield Problem(f"{WHERE}.spec.serviceAccountName", text)
    for field, container in containers_of(template.spec):
        yield from _container_problems(field, container)
        yield from _reclaimed_problems(spec, f"{field}.resources", container.resources)
    if spec.capacity is Capacity.RECLAIMED and (template.spec.resources.requests or template.spec.resources.limits):
        text = "capacity: Reclaimed counts what containers ask for; write their resources instead"
        yield Problem(f"{WHERE}.spec.resources", text)


def start_problems(spec: ScavengerJobSpec) -> Iterator[Problem]:
    """Why a template is not started even where no webhook has refused it."""
    if spec.template is None:
        return
    if (size := spec.template.placing_bytes) > MAX_PLACING_BYTES:
        text = (
            f"nodeSelector, tolerations, affinity and resources are {size} bytes as JSON, more than the "
            f"{MAX_PLACING_BYTES} that a job may be placed by; label nodes, and select them by that label"
        )
        yield Problem(f"{WHERE}.spec", text)
        return
    yield from _mark_problems(spec.template)
    for name, text in REFUSED.items():
        if (spec.template.spec.model_extra or {}).get(name) is not None:
            yield Problem(f"{WHERE}.spec.{name}", text, FORBIDDEN)
    for resource in _missing_resources(spec):
        example = {"cpu": "500m", "memory": "1Gi"}[resource]
        text = (
            f"{resource} is mandatory; add it to resources.requests of a container, as {resource}: {example}, or ask "
            f"an administrator for the annotation {names.ANNOTATION_DEFAULT[resource]} of the namespace"
        )
        yield Problem(f"{WHERE}.spec.containers[0].resources", text)


def _short_form_problems(spec: ScavengerJobSpec) -> Iterator[Problem]:
    if spec.image is None:
        yield Problem("spec.image", "it is mandatory, unless spec.template has a pod template")
    if spec.resources is None:
        yield Problem("spec.resources", "they are mandatory, unless spec.template has a pod template")
    if spec.main_container is not None:
        yield Problem("spec.mainContainer", "a job without template has one container; leave it out")


def _missing_resources(spec: ScavengerJobSpec) -> tuple[str, ...]:
    """Of cpu and memory, what the pods request nothing of. A job is planned by both."""
    try:
        requests = spec.requests
    except QuantityError:
        return ()  # a problem of its own
    return tuple(name for name in RECLAIMED if not requests.get(name))


def template_warnings(spec: ScavengerJobSpec) -> Iterator[str]:
    """What of a template becomes something else than it says, and what its pods may have to suffer."""
    if spec.template is None:
        return
    written = spec.template.spec.model_extra or {}
    for name, becomes in overridden(written):
        yield warning(f"{WHERE}.spec.{name}: {becomes}")
    for key in keeps_its_node(spec.template.metadata.annotations if spec.template.metadata is not None else {}):
        yield warning(f"{WHERE}.metadata.annotations[{key}]: {KEEPS_NO_NODE}")
    for kind in ("initContainers", "containers"):
        for index, container in enumerate((spec.written_template or {})["spec"].get(kind, ())):
            for name in restarts(kind, container):
                field = f"{WHERE}.spec.{kind}[{index}].{name}"
                yield warning(
                    f"{field}: the admitter leaves it out; spec.backoffLimit says how often a job starts again"
                )


def images_of(spec: ScavengerJobSpec) -> Iterator[tuple[str, str]]:
    """Every image of a job with the path of its field."""
    if spec.image is not None:
        yield "spec.image", spec.image
    if spec.template is not None:
        for field, container in containers_of(spec.template.spec):
            yield f"{field}.image", container.image


def _mixed(spec: ScavengerJobSpec) -> Iterator[Problem]:
    fields = {field.alias or name: name for name, field in type(spec).model_fields.items()}
    there = [field for field in IN_TEMPLATE if getattr(spec, fields[field]) is not None]
    if there:
        moves = "".join(f" spec.{field} to {WHERE}.{IN_TEMPLATE[field]}" for field in there)
        yield Problem(WHERE, f"{MIXED}{moves}")
    if (
        spec.template is not None
        and spec.template.spec.termination_grace_period_seconds is not None
        and spec.termination_grace_period_seconds != names.DEFAULT_TERMINATION_GRACE_PERIOD_SECONDS
    ):
        yield Problem("spec.terminationGracePeriodSeconds", "the template has it as well; write it once")


def _mark_problems(template: PodTemplate) -> Iterator[Problem]:
    if template.metadata is None:
        return
    for kind, entries in (("labels", template.metadata.labels), ("annotations", template.metadata.annotations)):
        for key in entries:
            if key.startswith(f"{names.GROUP}/"):
                text = f"{names.GROUP}/* {kind} are set by the components; leave it out"
                yield Problem(f"{WHERE}.metadata.{kind}[{key[:80]}]", text, FORBIDDEN)


def _main_problems(spec: ScavengerJobSpec, template: PodTemplate) -> Iterator[Problem]:
    there = [container.name for container in template.spec.containers]
    if spec.main_container is not None and spec.main_container not in there:
        text = f"{shown(spec.main_container)} is no container of the template; name one of {', '.join(there)}"
        yield Problem("spec.mainContainer", text)


def _policy_problems(spec: ScavengerJobSpec) -> Iterator[Problem]:
    """Rules of podFailurePolicy about containers that no pod has."""
    there = [one.name for one in spec.template.spec.all_containers] if spec.template else [spec.main_name]
    for index, rule in enumerate(spec.pod_failure_policy.rules if spec.pod_failure_policy else ()):
        name = rule.on_exit_codes.container_name if rule.on_exit_codes else None
        if name is not None and name not in there:
            text = f"{shown(name)} is no container of the job; name one of {', '.join(there)}"
            yield Problem(f"spec.podFailurePolicy.rules[{index}].onExitCodes.containerName", text)


def _container_problems(field: str, container: TemplateContainer) -> Iterator[Problem]:
    for index, variable in enumerate(container.env):
        if variable.get("name") in names.RESERVED_ENV:
            text = "the names " + ", ".join(names.RESERVED_ENV) + " are set by the admitter; choose another name"
            yield Problem(f"{field}.env[{index}].name", text)
    for side in ("requests", "limits"):
        for resource in getattr(container.resources, side):
            if resource.startswith(f"{names.GROUP}/"):
                text = f"{names.GROUP}/* resources are set by the admitter; use capacity: Reclaimed"
                yield Problem(f"{field}.resources.{side}[{resource[:80]}]", text)


def _reclaimed_problems(spec: ScavengerJobSpec, field: str, resources: TemplateResources) -> Iterator[Problem]:
    if spec.capacity is not Capacity.RECLAIMED:
        return
    try:
        requests, limits = amounts(resources.requests), amounts(resources.limits)
    except QuantityError:
        return
    for name in RECLAIMED:
        if requests.get(name) and requests[name] != limits.get(name):
            text = "capacity: Reclaimed sets nothing aside: leave it out, write 0, or the same as in limits"
            yield Problem(f"{field}.requests[{name}]", text)
