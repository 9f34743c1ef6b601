"""Which namespaces have regular pods that wait for a node. Where these displace scavenger pods of their namespace, its
own users caused that.

The scheduler's condition on a victim does not name the pod that displaced it, and Events can be written by tenants.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from scavenger_kube.kinds import Pod

from scavenger_admitter.facts import job_key

REMEMBERED: Final = timedelta(minutes=1)
"""So long after a regular pod got its node, or was deleted, it may still be what displaced a pod."""


class OrdinaryWaits:
    """The regular pods that wait for a node, and those that waited a moment ago, by namespace and nominated node."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[str, str]] = {}
        self._until: dict[tuple[str, str], datetime] = {}

    def saw(self, key: str, pod: Pod | None, now: datetime) -> None:
        """The pod `namespace/name` is like this now; None when it is gone."""
        nominated = pod.status.nominated_node_name if pod is not None else ""
        before = self._waiting.pop(key, None)
        if before is not None:
            self._until = {wait: until for wait, until in self._until.items() if until > now}
            # it got the node that it was nominated to, or another one
            self._until[before[0], (pod.spec.node_name if pod is not None else "") or before[1]] = now + REMEMBERED
        if pod is not None and not pod.spec.node_name and not pod.ended and not job_key(pod):
            self._waiting[key] = (pod.metadata.namespace, nominated)

    def wanted(self, namespace: str, node: str, now: datetime) -> bool:
        """Whether a regular pod of the namespace may be what displaced a pod from the node."""
        # what is later than that was noted before the clock was set back
        recent = (wait for wait, until in self._until.items() if now < until <= now + REMEMBERED)
        nodes = {where for who, where in (*self._waiting.values(), *recent) if who == namespace}
        return not nodes.isdisjoint((node, ""))
