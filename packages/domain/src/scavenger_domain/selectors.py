"""Which labels a label selector selects (k8s.io/apimachinery, metav1.LabelSelectorAsSelector)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


class Requirement(Protocol):
    """One of matchExpressions."""

    @property
    def key(self) -> str: ...  # noqa: D102
    @property
    def operator(self) -> str: ...  # noqa: D102
    @property
    def values(self) -> Sequence[str] | None: ...  # noqa: D102


class Selector(Protocol):
    """A label selector, however it was read."""

    @property
    def match_labels(self) -> Mapping[str, str] | None: ...  # noqa: D102
    @property
    def match_expressions(self) -> Sequence[Requirement] | None: ...  # noqa: D102


def selects(selector: Selector, labels: Mapping[str, str]) -> bool:
    """Whether all conditions hold; an empty selector selects everything. One with an operator that is none of the four,
    which the schema refuses, selects nothing."""
    return all(labels.get(key) == value for key, value in (selector.match_labels or {}).items()) and all(
        _holds(requirement, labels) for requirement in selector.match_expressions or ()
    )


def _holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    there, value = requirement.key in labels, labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return there and value in (requirement.values or ())
        case "NotIn":
            return value not in (requirement.values or ())
        case "Exists":
            return there
        case "DoesNotExist":
            return not there
        case _:
            return False


def spelled(selector: Selector) -> str:
    """The selector as `kubectl -l` takes it: `team=blue,stage in (prod,test),!hidden`; empty for one that selects
    everything."""
    parts = [f"{key}={value}" for key, value in sorted((selector.match_labels or {}).items())]
    for requirement in selector.match_expressions or ():
        match requirement.operator:
            case "Exists":
                parts.append(requirement.key)
            case "DoesNotExist":
                parts.append(f"!{requirement.key}")
            case operator:
                parts.append(f"{requirement.key} {operator.lower()} ({','.join(requirement.values or ())})")
    return ",".join(parts)
