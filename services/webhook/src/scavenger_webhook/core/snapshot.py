"""What a review knows beside the request: queues, nodes, priority classes and the administrator's rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from scavenger_api import names
from scavenger_api.queue import QueueState
from scavenger_api.rules.bounds import BY_DEFAULT, Bounds
from scavenger_domain.selectors import Selector

SCAVENGER_CLASSES: Final = frozenset({names.PRIORITY_CLASS_PREEMPTIBLE, names.PRIORITY_CLASS_NON_PREEMPTIBLE})

LOW_PRIORITY: Final = max(names.PRIORITY_VALUES[name] for name in SCAVENGER_CLASSES)
"""Pods of this priority or less do not outrank every scavenger job."""


class LowPriority(StrEnum):
    """What becomes of a regular pod whose own class does not outrank scavenger jobs."""

    RAISE = "raise"
    """It gets the class of regular workloads, and its creator a warning."""
    WARN = "warn"
    """It is let in as it is, with a warning."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What the administrator has decided. max_grace: seconds."""

    ordinary_class: str = names.PRIORITY_CLASS_ORDINARY
    low_priority: LowPriority = LowPriority.RAISE
    max_grace: int = 300
    bounds: Bounds = BY_DEFAULT


@dataclass(frozen=True, slots=True)
class PriorityClassFacts:
    """A PriorityClass of the cluster."""

    name: str
    value: int
    preemption_policy: str = "PreemptLowerPriority"


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """A ScavengerQueue. quota: by resource, millicores of cpu and whole units of others. selector: of the namespaces
    whose jobs may use it; None for all.
    """

    name: str
    state: QueueState = QueueState.OPEN
    quota: Mapping[str, int] = field(default_factory=dict)
    selector: Selector | None = None


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node: its labels, and what its pods may request together, in the units of a quota."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Facts:
    """One consistent view for one review. queues, priority_classes: by name. namespace_labels: of the request's
    namespace; asked for where a rule depends on them, else empty; None where they are not looked up at all.
    """

    rules: Rules = Rules()
    queues: Mapping[str, QueueFacts] = field(default_factory=dict)
    nodes: tuple[NodeFacts, ...] = ()
    priority_classes: Mapping[str, PriorityClassFacts] = field(default_factory=dict)
    namespace_labels: Mapping[str, str] | None = field(default_factory=dict)
    adopt_queue: str | None = None
    """The queue of Jobs of the request's namespace that name none; None where it was not asked for, or is not known."""
    absent_claims: tuple[str, ...] = ()
    """Names of PersistentVolumeClaims that a new job mounts, and that its namespace does not have."""

    def for_anybody(self) -> Facts:
        """What an answer may depend on where not only API servers can ask.

        An answer that depends on a size or a quota tells it, by yes and no, in about 20 questions. Left are the names
        of queues and whether they are open, and the class of regular workloads.
        """
        ordinary = self.rules.ordinary_class
        return Facts(
            self.rules,
            {name: QueueFacts(name, queue.state) for name, queue in self.queues.items()},
            priority_classes={name: one for name, one in self.priority_classes.items() if name == ordinary},
            namespace_labels=None,
        )

    def queue(self, name: str) -> QueueFacts | None:
        """The queue of that name. `default` is always there, open, unless a ScavengerQueue says otherwise."""
        found = self.queues.get(name)
        if found is None and name == names.DEFAULT_QUEUE:
            return QueueFacts(name)
        return found
