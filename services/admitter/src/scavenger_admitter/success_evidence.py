"""Looks for signs of life of nodes on which programs have just ended with 0.

What kubelets have written about other pods of jobs costs nothing, and on busy nodes it is enough. Else the Lease of a
node is read: once for all pods that wait for it, and again when its kubelet is due to renew it. All times that are
compared are of one clock, that of the node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from scavenger_domain.pod_ends import PROVEN_WITHIN, moment
from scavenger_kube import kinds
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import ApiError, Forbidden, NotFound
from scavenger_kube.resources import LEASES, NODES, Lease, Resource
from scavenger_runtime.clock import Clock
from scavenger_runtime.logging import get_logger

from scavenger_admitter import metrics
from scavenger_admitter.core.lifecycle.success import Evidence, Success
from scavenger_admitter.informers import Informers

NAMESPACE: Final = "kube-node-lease"
RENEWED_EVERY: Final = timedelta(seconds=10)
"""Kubelets renew the Lease of their node so often (a quarter of nodeLeaseDurationSeconds, 40)."""
BOOTS_WITHIN: Final = timedelta(seconds=20)
"""No machine goes down and has its kubelet at work again in less time. A sign of life that comes later may be of the
next boot."""
LOOKS_EVERY: Final = 1.0
"""Seconds. No Lease is read more often."""
AGAIN_AFTER: Final = 5.0
"""Seconds. A Lease that could not be read is tried again."""
AT_ONCE: Final = 16
"""So many Leases are being read at a time."""
GIVES_UP_BEFORE: Final = timedelta(seconds=5)
"""Where no Lease could be read, the condition of the node decides so long before the verdict."""

WAITS_FOR_API_SERVER: Final = timedelta(minutes=30)
"""After the end. It may have trouble with Leases alone."""

log = get_logger(__name__)


def shows_life(success: Success, at: datetime, after: timedelta) -> bool:
    """Whether a sign of life of its node at that moment proves a success, whatever becomes of the node later.

    Args:
        success: of a pod.
        at: the moment, by the clock of the node.
        after: how long after its end that has to be at least.
    """
    return success.at + after <= at <= success.at + max(BOOTS_WITHIN, after)


@dataclass(slots=True)
class _Node:
    """A node of which signs of life are looked for.

    Attributes:
        due: when its Lease is read next, on the monotonic clock.
        renewed: when that was renewed, as it was read last, by the clock of the node.
        before: the same as it was read before that, where it has been renewed since.
    """

    due: float
    renewed: datetime | None = None
    before: datetime | None = None


class SuccessEvidence:
    """What is known of successes, and what is found out.

    Args:
        client: to read Leases with.
        clock: for the looks.
        informers: what kubelets have written about pods and nodes.
        after: seconds after its end until which a node has to show life. 0: every exit with 0 is final.
        wake: has a job looked at again.
    """

    def __init__(
        self, client: ApiClient, clock: Clock, informers: Informers, *, after: float, wake: Callable[[str], None]
    ) -> None:
        self._client = client
        self._clock = clock
        self._informers = informers
        self._after = timedelta(seconds=after)
        self._wake = wake
        self._began: datetime | None = None
        self._open: dict[str, dict[str, Success]] = {}
        self._asked: dict[str, dict[str, datetime]] = {}
        self._proven: dict[str, set[str]] = {}
        self._nodes: dict[str, _Node] = {}
        self._work = asyncio.Event()
        self._told = False

    # --- what jobs ask ---

    def of(self, key: str, pods: Sequence[kinds.Pod]) -> Evidence:
        """What is known of the successes of a job. pods: of it; nothing is kept of others."""
        if not self._after:
            return Evidence()
        if proven := self._proven.get(key):
            proven &= {pod.metadata.uid for pod in pods}
            if not proven:
                del self._proven[key]
        asked, open_ = self._asked.get(key, {}), self._open.get(key, {})
        return Evidence(required=True, proven=frozenset(proven or ()), asked=asked, open=open_)

    def forget(self, key: str) -> None:
        """The job is gone."""
        self.ask(key, ())
        self._proven.pop(key, None)

    def ask(self, key: str, unproven: Iterable[Success]) -> None:
        """These successes of a job, and no others, are to be proven."""
        found = {one.uid: one for one in unproven if one.uid not in self._proven.get(key, ())}
        metrics.UNPROVEN_SUCCESSES.inc(len(found) - len(self._open.get(key, ())))
        if not found:
            self._open.pop(key, None)
            self._asked.pop(key, None)
            return
        now, known = self._clock.now(), self._asked.get(key, {})
        self._open[key], self._asked[key] = found, {uid: known.get(uid, now) for uid in found}
        for one in found.values():
            if one.node not in self._nodes:
                left = (one.at + self._after - now).total_seconds()
                due = self._clock.monotonic() + min(max(left, 0.0), self._after.total_seconds())
                self._nodes[one.node] = _Node(due)
        self._work.set()

    # --- what is found out ---

    async def run(self) -> None:
        """Look for signs of life, until cancelled. Informers show all nodes by now."""
        self._began = self._clock.now()
        while True:
            await self._work.wait()
            await self._look()
            if not self._open:
                self._nodes.clear()
                self._work.clear()
            await self._clock.sleep(LOOKS_EVERY)

    async def _look(self) -> None:
        waiting: dict[str, list[tuple[str, Success]]] = {}
        for key, successes in self._open.items():
            for one in successes.values():
                waiting.setdefault(one.node, []).append((key, one))
        self._nodes = {name: node for name, node in self._nodes.items() if name in waiting}
        now, due = self._clock.monotonic(), list[str]()
        for name, found in waiting.items():
            node = self._nodes.setdefault(name, _Node(now))
            if node.due <= now and not self._prove(found, self._said(name)):
                due.append(name)
        for at in range(0, len(due), AT_ONCE):
            await asyncio.gather(*(self._read(name, waiting[name]) for name in due[at : at + AT_ONCE]))

    def _said(self, node: str) -> list[datetime]:
        """When containers of jobs on a node started and ended, as its kubelet has written."""
        states = (
            one.state for pod in self._informers.pods.by_index("node", node) for one in pod.status.container_statuses
        )
        return [at for state in states for text in _stamps(state) if (at := moment(text)) is not None]

    def _prove(self, found: list[tuple[str, Success]], signs: Iterable[datetime]) -> bool:
        """Note the successes that these signs of life of their node prove by themselves. Whether they prove all."""
        signs = frozenset(signs)
        left = []
        for key, one in found:
            if any(shows_life(one, at, self._after) for at in signs):
                self._proves(key, one)
            else:
                left.append((key, one))
        found[:] = left
        return not left

    def _proves(self, key: str, one: Success) -> None:
        self._proven.setdefault(key, set()).add(one.uid)
        if self._open.get(key, {}).pop(one.uid, None) is not None:
            metrics.UNPROVEN_SUCCESSES.dec()
            metrics.PROOF_SECONDS.observe(max(0.0, (self._clock.now() - one.at).total_seconds()))
        if not self._open.get(key):
            self._open.pop(key, None)
        self._wake(key)

    async def _read(self, name: str, found: list[tuple[str, Success]]) -> None:
        """Read the Lease of a node, and note what it proves."""
        node = self._nodes[name]
        try:
            lease = await self._get(LEASES, Lease, NAMESPACE, name)
        except ApiError as error:
            self._tell(name, error)
            node.due = self._clock.monotonic() + AGAIN_AFTER
            if not isinstance(error, Forbidden | NotFound):
                self._give_time(found)
            elif node.renewed is None:
                await self._go_by_condition(name, found)
            return
        renewed = moment(lease.spec.renew_time)
        if renewed is not None and renewed != node.renewed:
            node.before, node.renewed = node.renewed, renewed
        node.due = self._clock.monotonic() + self._due_in(renewed)
        if renewed is not None and not self._prove(found, [renewed]):
            await self._prove_late(name, found, node.before)

    def _give_time(self, found: list[tuple[str, Success]]) -> None:
        """The API server does not answer. Nothing is concluded from that: the wait begins when it does."""
        now = self._clock.now()
        for key, one in found:
            if now - one.at < WAITS_FOR_API_SERVER and one.uid in self._asked.get(key, {}):
                self._asked[key][one.uid] = now

    def _due_in(self, renewed: datetime | None) -> float:
        """Seconds until the Lease is due to be renewed again. The clock of its node may be wrong."""
        left = (renewed + RENEWED_EVERY - self._clock.now()).total_seconds() if renewed is not None else 0.0
        return min(max(left + 0.5, LOOKS_EVERY), RENEWED_EVERY.total_seconds())

    async def _prove_late(self, name: str, found: list[tuple[str, Success]], before: datetime | None) -> None:
        """A Lease that was renewed twice in a row, long after the end, proves it where its machine has not booted
        since: by then its node says so."""
        late = [(key, one) for key, one in found if before is not None and before >= one.at + self._after]
        if late:
            await self._prove_by_boot(name, late)

    async def _go_by_condition(self, name: str, found: list[tuple[str, Success]]) -> None:
        """Where no Lease can be read, Kubernetes has judged by it: a node that is ready was never silent for long."""
        now = self._clock.now()
        late = []
        for key, one in found:
            since = self._asked.get(key, {}).get(one.uid, now)
            if now >= max(one.at, since) + PROVEN_WITHIN - GIVES_UP_BEFORE - timedelta(seconds=AGAIN_AFTER):
                late.append((key, one))
        if late:
            await self._prove_by_boot(name, late)

    async def _prove_by_boot(self, name: str, found: list[tuple[str, Success]]) -> None:
        """Note those of these successes since which the machine of the node has not booted, as far as is known."""
        shown = self._informers.nodes.get(name)
        try:
            node = await self._get(NODES, kinds.Node, None, name)
        except ApiError as error:
            self._tell(name, error)
            return
        if shown is None or not node.ready or node.status.node_info.boot_id != shown.status.node_info.boot_id:
            return
        ready = kinds.condition(node.status.conditions, "Ready")
        since, rebooted = moment(ready.last_transition_time) if ready is not None else None, self._informers.reboots
        for key, one in found:
            watched = (self._began is not None and self._began <= one.at) or since is None or since <= one.at
            if watched and (name not in rebooted or rebooted[name] <= one.at):
                self._proves(key, one)

    async def _get(self, resource: Resource[Any], kind: type[Any], namespace: str | None, name: str) -> Any:
        return msgspec.json.decode(await self._client.get(resource, namespace, name), type=kind)

    def _tell(self, name: str, error: ApiError) -> None:
        if isinstance(error, Forbidden) and not self._told:
            self._told = True
            log.error("may not read Leases of nodes: upgrade the role of the admitter", error=str(error))
        elif not isinstance(error, NotFound):
            log.info("cannot look for signs of life", node=name, error=str(error))


def _stamps(state: kinds.ContainerState) -> Iterator[str | None]:
    """The times in the state of a container."""
    if state.running is not None:
        yield state.running.started_at
    if state.terminated is not None:
        yield state.terminated.started_at
        yield state.terminated.finished_at
