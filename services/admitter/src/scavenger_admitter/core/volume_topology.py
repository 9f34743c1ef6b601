"""What the volumes of a job require of the nodes that its pods run on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from scavenger_domain.node_affinity import Requirement, Terms, selects_node

MOST_NAMED: Final = 3
"""Claims, and values of a label, that a message names."""


@dataclass(frozen=True, slots=True)
class VolumeTopology:
    """The nodes that can use all volumes of a job.

    Attributes:
        required: per volume that not every node can use, one of these terms must hold.
        message: which claims require what; empty where every node will do.
    """

    required: tuple[Terms, ...] = ()
    message: str = ""

    def holds(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether a node of this name and with these labels can use the volumes."""
        return all(selects_node(terms, name, labels) for terms in self.required)


EVERYWHERE: Final = VolumeTopology()


def topology_of(claims: Iterable[tuple[str, Terms, str]]) -> VolumeTopology:
    """What claims require together: of each its name, its terms, and the object that has them."""
    found = [one for one in claims if one[1]]
    said = [f'persistentvolumeclaim "{claim}" needs nodes with {_spell(terms)} ({by})' for claim, terms, by in found]
    more = [f"{len(said) - MOST_NAMED} more claims need certain nodes"] if len(said) > MOST_NAMED else []
    required = tuple(sorted({terms for _, terms, _ in found}))
    return VolumeTopology(required, "; ".join((*said[:MOST_NAMED], *more)))


def _spell(terms: Terms) -> str:
    """Terms as in a message; the first few of many."""
    words = [" and ".join(_spell_one(one) for one in term) for term in terms]
    return " or ".join((*words[:MOST_NAMED], *(["…"] if len(words) > MOST_NAMED else [])))


def _spell_one(requirement: Requirement) -> str:
    key, operator, values = requirement
    if operator == "In" and len(values) == 1:
        return f"{key}={values[0]}"
    named = ", ".join((*values[:MOST_NAMED], *(["…"] if len(values) > MOST_NAMED else [])))
    return f"{key} {operator} ({named})" if values else f"{key} {operator}"
