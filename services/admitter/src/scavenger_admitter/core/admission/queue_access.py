"""Which namespaces may use which queue, kept up to date change by change, and what the others are told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scavenger_api.reasons import WaitReason
from scavenger_domain.queues import why_closed
from scavenger_domain.selectors import Selector, selects

from scavenger_admitter.core.admission.snapshot import Candidate, QueueView
from scavenger_admitter.core.waits import Wait

_MESSAGES: Final = {
    WaitReason.QUEUE_MISSING: "there is no ScavengerQueue {}: create it, or name another queue",
    WaitReason.QUEUE_CLOSED: "queue {} is closed: open it, or name another queue",
    WaitReason.QUEUE_RELEASING: "queue {} is being deleted, and its jobs with it",
    WaitReason.NAMESPACE_NOT_SELECTED: (
        "queue {} is not for jobs of namespace {}: name another queue, or have the administrator change"
        " spec.namespaceSelector of the queue or the labels of the namespace"
    ),
}


def why_barred(candidate: Candidate, queue: QueueView | None) -> Wait | None:
    """Why a job does not start from its queue, whatever the free capacity; None when it may. queue: None where there is
    none."""
    reason = why_closed(queue.state, selected=queue.selects(candidate)) if queue is not None else why_closed(None)
    if reason is None:
        return None
    return Wait(reason, _MESSAGES[reason].format(candidate.queue, candidate.namespace), candidate.queue)


class QueueAccess:
    """The namespaces that each queue with a selector selects. One that is not known yet is selected by none."""

    def __init__(self) -> None:
        self._labels: dict[str, Mapping[str, str]] = {}
        self._selectors: dict[str, Selector] = {}
        self._selected: dict[str, set[str]] = {}
        self._views: dict[str, frozenset[str]] = {}

    def apply_queue(self, name: str, selector: Selector | None) -> None:
        """A queue was added or changed. selector: None where every namespace may use it."""
        if selector is None:
            self.delete_queue(name)
        elif self._selectors.get(name) != selector:
            self._selectors[name] = selector
            self._selected[name] = {n for n, labels in self._labels.items() if selects(selector, labels)}
            self._views.pop(name, None)

    def delete_queue(self, name: str) -> None:
        """A queue is gone."""
        for known in (self._selectors, self._selected, self._views):
            known.pop(name, None)

    def apply_namespace(self, name: str, labels: Mapping[str, str] | None) -> bool:
        """A namespace was added or changed, or is gone (None); whether that changes who may use a queue."""
        if labels is None:
            self._labels.pop(name, None)
        else:
            self._labels[name] = labels
        changed = False
        for queue, selector in self._selectors.items():
            wanted, selected = labels is not None and selects(selector, labels), self._selected[queue]
            if wanted != (name in selected):
                selected ^= {name}
                self._views.pop(queue, None)
                changed = True
        return changed

    def namespaces(self, queue: str) -> frozenset[str] | None:
        """Those that may use a queue; None for all."""
        if queue not in self._selectors:
            return None
        if queue not in self._views:
            self._views[queue] = frozenset(self._selected[queue])
        return self._views[queue]
