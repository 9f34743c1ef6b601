"""Which namespaces may use which queue, kept up to date change by change."""

from __future__ import annotations

from collections.abc import Mapping

from scavenger_domain.selectors import Selector, selects


class QueueAccess:
    """The namespaces that each queue with a selector selects. One that is not known yet is selected by none."""

    def __init__(self) -> None:
        self._labels: dict[str, Mapping[str, str]] = {}
        self._selectors: dict[str, Selector] = {}
        self._selected: dict[str, set[str]] = {}
        self._views: dict[str, frozenset[str]] = {}

    def apply_queue(self, name: str, selector: Selector | None) -> None:
        """A queue was added or changed. selector: None where everybody may use it."""
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
