"""What is known of nodes beyond this process: kept in a ConfigMap, and told."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from scavenger_api import names
from scavenger_api.events import NODE_SHUNNED, NODE_TRUSTED
from scavenger_api.shunned_nodes import BOOTS, CLOSED
from scavenger_api.times import micros
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import ApiError, Forbidden
from scavenger_kube.kinds import Node
from scavenger_kube.resources import NODES
from scavenger_runtime.clock import Clock
from scavenger_runtime.configmaps import apply_configmap, read_configmap
from scavenger_runtime.events import EventRecorder
from scavenger_runtime.informer import Informer
from scavenger_runtime.logging import get_logger

from scavenger_admitter import metrics
from scavenger_admitter.core.admission.view.node_trust import EVERYBODY, Change, NodeTrust
from scavenger_admitter.core.lifecycle import boots

MOST_BYTES: Final = 500_000
"""Of each of two keys: a ConfigMap holds 1 MiB."""
ROUND_SECONDS: Final = 5.0
"""So much is lost at most when the process is killed."""
TRIES: Final = 5
"""To read what a predecessor left, so many rounds apart from each other."""

log = get_logger(__name__)


class NodeKeeper:
    """Tells of nodes that are closed, and keeps them for the next process.

    Args:
        client: of the service.
        clock: for `now`.
        events: about nodes.
        nodes: as they are shown.
        trust: what is known of them.
        reboots: when nodes have rebooted last, by name; what a predecessor has kept is added.
        namespace: of the ConfigMap.
    """

    def __init__(
        self,
        client: ApiClient,
        clock: Clock,
        events: EventRecorder,
        nodes: Informer[Node],
        trust: NodeTrust,
        reboots: dict[str, datetime],
        namespace: str,
    ) -> None:
        self._client = client
        self._clock = clock
        self._events = events
        self._nodes = nodes
        self._trust = trust
        self._reboots = reboots
        self._namespace = namespace
        self._kept: dict[str, str] = {}
        # Of thousands of nodes hardly one boots in a round, and their text takes long: what it was made of, and it.
        self._boots: tuple[dict[str, str], dict[str, datetime], str] = {}, {}, ""

    async def restore(self) -> None:
        """Take up what a predecessor left. Without it, refusals are learnt again, three for each node, and a boot while
        no admitter was there stays unknown."""
        self._kept, now = await self._read(), self._clock.now()
        self._trust.load(self._kept.get(CLOSED), micros(now))
        for name, at in boots.missed(self._kept.get(BOOTS, ""), self._nodes.items(), now).items():
            self._reboots.setdefault(name, at)

    async def _read(self) -> dict[str, str]:
        for left in reversed(range(TRIES)):
            try:
                found = await read_configmap(self._client, self._namespace, names.NODES_CONFIGMAP)
            except ApiError as error:
                log.warning("what is known of nodes cannot be read", error=str(error), tries_left=left)
                if isinstance(error, Forbidden):
                    break
                if left:
                    await self._clock.sleep(ROUND_SECONDS)
            else:
                data = found.data if found is not None else {}
                return {key: data[key] for key in (CLOSED, BOOTS) if key in data}
        return {}

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._round()
            await self._clock.sleep(ROUND_SECONDS)

    async def _round(self) -> None:
        for change in self._trust.changes():
            self._tell(change)
        metrics.SHUNNED_NODES.set(len(self._trust.shunned()))
        kept = {CLOSED: self._trust.dump(MOST_BYTES)}
        if shown := self._dumped_boots():
            kept[BOOTS] = shown
        if kept == self._kept or not (self._kept or self._trust or shown):
            return
        try:
            await apply_configmap(self._client, self._namespace, names.NODES_CONFIGMAP, kept, component=names.ADMITTER)
        except ApiError as error:
            log.warning("what is known of nodes is not kept", error=str(error))
        else:
            self._kept = kept

    def _dumped_boots(self) -> str:
        """The boots of all nodes as text, written again only where one has changed."""
        shown, reboots = boots.shown(self._nodes.items()), dict(self._reboots)
        if (shown, reboots) != self._boots[:2]:
            self._boots = shown, reboots, boots.dump(shown, reboots, MOST_BYTES)
        return self._boots[2]

    def _tell(self, change: Change) -> None:
        node = self._nodes.get(change.node)
        log.info("node closed" if change.until else "node opened", node=change.node, namespace=change.namespace,
                 why=change.said)  # fmt: skip
        if node is None:
            return
        whose = "no job" if change.namespace == EVERYBODY else f"no job of namespace {change.namespace}"
        if change.until:
            minutes = max(1, round((change.until - micros(self._clock.now())) / 60_000_000))
            said = f"{whose} starts here for {minutes} min, then one tests the node. It said last: {change.said}"
            self._events.warning(NODES, node, NODE_SHUNNED, said)
        else:
            self._events.normal(NODES, node, NODE_TRUSTED, f"jobs start here again: {change.said}")
