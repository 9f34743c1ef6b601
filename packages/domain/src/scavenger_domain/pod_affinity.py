"""Required anti-affinity of a gang's pods to each other (kube-scheduler's plugin InterPodAffinity)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from scavenger_domain.node_affinity import REQUIRED, at, holds, requirements_of

HOSTNAME: Final = "kubernetes.io/hostname"


def apart_by(affinity: Mapping[str, Any], labels: Mapping[str, str]) -> str:
    """The node label in which the nodes of a gang's pods must differ; empty where two pods may share all labels.

    Of several labels it is one that is not the host name: nodes of two zones are two nodes. Terms for other namespaces
    and terms with mismatchLabelKeys are for the scheduler.

    Args:
        affinity: of the pods.
        labels: of the pods.
    """
    terms = at(affinity, "podAntiAffinity").get(REQUIRED)
    found = [_key(one) for one in terms if _selects(one, labels)] if isinstance(terms, list) else []
    return min((key for key in found if key), key=lambda key: (key == HOSTNAME, key), default="")


def _key(term: Mapping[str, Any]) -> str:
    return str(term.get("topologyKey") or "")


def _selects(term: Any, labels: Mapping[str, str]) -> bool:
    """Whether a term is about pods with these labels in their own namespace. No selector selects nothing."""
    if not isinstance(term, Mapping) or not isinstance(selector := term.get("labelSelector"), Mapping):
        return False
    if term.get("namespaces") or term.get("namespaceSelector") is not None or term.get("mismatchLabelKeys"):
        return False
    equal = at(selector, "matchLabels").items()
    return all(labels.get(key) == value for key, value in equal) and all(
        holds(one, "", labels) for one in requirements_of(selector)
    )
