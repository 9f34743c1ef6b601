"""ResourceQuotas of namespaces: kept off scavenger pods, where the administrator wants that.

A namespace's quota bounds what its ordinary workloads request. Scavenger pods run on what is left over; counted as
well, they would take quota away from the workloads they are to make room for.
"""

from __future__ import annotations

import re
from typing import Any, Final

from scavenger_api.model import Model
from scavenger_api.rules.problem import warning

from scavenger_webhook.core.snapshot import SCAVENGER_CLASSES
from scavenger_webhook.core.verdict import ACCEPTED, Verdict

SCOPE: Final = "PriorityClass"
REQUIREMENT: Final = {"scopeName": SCOPE, "operator": "NotIn", "values": sorted(SCAVENGER_CLASSES)}

_OF_PODS: Final = re.compile(
    r"pods|cpu|memory|ephemeral-storage|(requests|limits)\.(cpu|memory|ephemeral-storage)", re.ASCII
)
"""What may be bounded by a quota with a scope of pods (pkg/apis/core/validation, podComputeQuotaResources and
podObjectCountQuotaResources). Extended resources may not."""


class Requirement(Model):
    """spec.scopeSelector.matchExpressions[]."""

    scope_name: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class ScopeSelector(Model):
    """spec.scopeSelector."""

    match_expressions: tuple[Requirement, ...] | None = None


class QuotaSpec(Model):
    """What decides about whether a quota counts scavenger pods."""

    hard: dict[str, Any] | None = None
    scope_selector: ScopeSelector | None = None


class ResourceQuota(Model):
    """core/v1 ResourceQuota."""

    spec: QuotaSpec = QuotaSpec()


def review_quota(quota: ResourceQuota) -> Verdict:
    """The scope that leaves scavenger pods out, added to a quota on pods that has no scope by class yet."""
    selector = quota.spec.scope_selector
    expressions = (selector.match_expressions or ()) if selector is not None else ()
    if any(requirement.scope_name == SCOPE for requirement in expressions):
        return ACCEPTED  # the quota says itself for which classes it is
    hard = set(quota.spec.hard or ())
    bounds_pods = {name for name in hard if _OF_PODS.fullmatch(name)}
    if not bounds_pods:
        return ACCEPTED
    others = sorted(hard - bounds_pods)
    if others:
        text = f"scavenger pods count in this quota: move {', '.join(others)} into a ResourceQuota of their own"
        return Verdict(warnings=(warning(text),))
    if selector is None:
        return Verdict(patch=(_add("/spec/scopeSelector", {"matchExpressions": [REQUIREMENT]}),))
    if selector.match_expressions is None:
        return Verdict(patch=(_add("/spec/scopeSelector/matchExpressions", [REQUIREMENT]),))
    return Verdict(patch=(_add("/spec/scopeSelector/matchExpressions/-", REQUIREMENT),))


def _add(path: str, value: Any) -> dict[str, Any]:
    return {"op": "add", "path": path, "value": value}
