"""ResourceQuotas of namespaces: kept off scavenger pods, where the administrator wants that.

A namespace's quota bounds what its regular workloads request. Scavenger pods run on what is left over; counted as
well, they would take quota away from the workloads that they must leave capacity for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from scavenger_api.model import Model
from scavenger_api.names import ANNOTATION_QUOTA_SCOPE
from scavenger_api.rules.problem import warning

from scavenger_webhook.core.snapshot import SCAVENGER_CLASSES
from scavenger_webhook.core.verdict import ACCEPTED, Verdict

SCOPE: Final = "PriorityClass"
REQUIREMENT: Final = {"scopeName": SCOPE, "operator": "NotIn", "values": sorted(SCAVENGER_CLASSES)}

ADDED: Final = "added"
"""Value of the annotation: this scope is ours."""

_OF_PODS: Final = re.compile(
    r"(count/)?pods|cpu|memory|(requests|limits)\.(cpu|memory)|(requests\.)?hugepages-.+"
    r"|requests\.deviceclass\.resource\.kubernetes\.io/.+|requests\.(?!([^/]*\.)?kubernetes\.io/)[^/]+/.+",
    re.ASCII,
)
"""What a quota with a scope of pods may bound, and does: pods, cpu and memory (pkg/apis/core/helper,
IsResourceQuotaScopeValidForResource), and what the API server does not hold to that list but counts of pods: extended
resources, huge pages, classes of devices (pkg/quota/v1/evaluator/core, MatchingResources). With ephemeral-storage it
refuses such a scope."""


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


class QuotaMeta(Model):
    """Metadata of a quota, as far as it is read."""

    annotations: dict[str, str] | None = None


class ResourceQuota(Model):
    """core/v1 ResourceQuota."""

    metadata: QuotaMeta = QuotaMeta()
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
    return Verdict(patch=(_scope(selector), _mark(quota.metadata)))


def _scope(selector: ScopeSelector | None) -> dict[str, Any]:
    if selector is None:
        return _add("/spec/scopeSelector", {"matchExpressions": [REQUIREMENT]})
    if selector.match_expressions is None:
        return _add("/spec/scopeSelector/matchExpressions", [REQUIREMENT])
    return _add("/spec/scopeSelector/matchExpressions/-", REQUIREMENT)


def _mark(meta: QuotaMeta) -> dict[str, Any]:
    if meta.annotations is None:
        return _add("/metadata/annotations", {ANNOTATION_QUOTA_SCOPE: ADDED})
    return _add("/metadata/annotations/" + ANNOTATION_QUOTA_SCOPE.replace("/", "~1"), ADDED)


def without_scope(spec: Mapping[str, Any]) -> dict[str, Any] | None:
    """The scopeSelector of a quota without the scope that the webhook has added; None where nothing is left of it."""
    selector = spec.get("scopeSelector") or {}
    rest = [one for one in selector.get("matchExpressions") or () if one != REQUIREMENT]
    return {**selector, "matchExpressions": rest} if rest else None


def _add(path: str, value: Any) -> dict[str, Any]:
    return {"op": "add", "path": path, "value": value}
