"""Required node affinity: which nodes its terms select (k8s.io/component-helpers nodeaffinity)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

Requirement: TypeAlias = tuple[str, str, tuple[str, ...]]
"""Key, operator and values. The key of a field is NODE_NAME."""
Term: TypeAlias = tuple[Requirement, ...]
"""All requirements of a term must hold; one that is empty selects nothing."""
Terms: TypeAlias = tuple[Term, ...]
"""One of the terms must hold."""

NODE_NAME: Final = "metadata.name"
LABEL_ARCHITECTURE: Final = "kubernetes.io/arch"
"""The label of a node that says for which processors programs are made that run on it."""
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def required_terms(affinity: Mapping[str, Any]) -> Terms:
    """The terms of `nodeAffinity` in an affinity; empty where every node will do. What cannot be read is left out: the
    API server refuses it in the pod."""
    return terms_of(at(at(affinity, "nodeAffinity"), REQUIRED))


def terms_of(selector: Mapping[str, Any]) -> Terms:
    """The terms of a node selector; empty where it has none. What cannot be read is left out."""
    found = selector.get("nodeSelectorTerms")
    return tuple(requirements_of(one) for one in found if isinstance(one, Mapping)) if isinstance(found, list) else ()


def selects_node(terms: Terms, name: str, labels: Mapping[str, str]) -> bool:
    """Whether a node of this name and with these labels is selected."""
    if not terms:
        return True
    return any(term and all(holds(one, name, labels) for one in term) for term in terms)


def requirements_of(term: Mapping[str, Any]) -> Term:
    """The conditions of a node selector term, or of a label selector."""
    found = []
    for kind in ("matchExpressions", "matchFields"):
        for one in _list(term, kind):
            if isinstance(one, Mapping):
                values = tuple(str(value) for value in _list(one, "values"))
                found.append((str(one.get("key", "")), str(one.get("operator", "")), values))
    return tuple(found)


def holds(requirement: Requirement, name: str, labels: Mapping[str, str]) -> bool:
    """Whether an object of this name and with these labels meets a condition."""
    key, operator, values = requirement
    value = name if key == NODE_NAME else labels.get(key)
    match operator:
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compared(operator, value, values)
        case _:
            return False


def _compared(operator: str, value: str | None, values: tuple[str, ...]) -> bool:
    try:
        (bound,) = values
        return (int(value or "") > int(bound)) if operator == "Gt" else (int(value or "") < int(bound))
    except ValueError:
        return False


def at(value: Any, name: str) -> Mapping[str, Any]:
    """The object in a field; empty where there is none."""
    found = value.get(name) if isinstance(value, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _list(value: Mapping[str, Any], name: str) -> list[Any]:
    found = value.get(name)
    return found if isinstance(found, list) else []
