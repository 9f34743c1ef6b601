"""What nodes have done to pods, and which nodes start none for a while.

A node whose container runtime or device is broken is Ready, refuses every pod, stays empty, and so is preferred. After
`ENOUGH` refusals within `WINDOW` no new job starts there, for a time that doubles up to `MOST`. Then one start tests
the node. A refusal closes it again, and a pod that starts opens it.

What proves what:

| what is seen | what it says |
|---|---|
| kubelets did not admit pods of two namespaces (`start_failures`: OutOf…, and others) | the node is at fault |
| its runtime failed for pods of two namespaces, and such pods start on other nodes | the node is at fault |
| either, for pods of one namespace, and pods of these jobs start on other nodes | it is at fault for that namespace |
| it rebooted or fell silent while it ran pods | the node is at fault |
| a pod has started there since | the node is not at fault for all; what that namespace met is over |
| a program ended by itself, its command is not there, an object is missing, no node can pull its image | nothing |
| a volume is attached to another node (FailedAttachVolume) | nothing; the next start of that job prefers other nodes |
| a sidecar ends again and again, so the program never begins | nothing |
| the runtime cannot start a sidecar | as of any other container |

So a tenant closes nodes to their own jobs at the most: whatever a pod template makes a kubelet say, it takes a second
namespace, or the node itself, to close a node to others. That holds for the test of a node as well.

What pods with devices met (any resource that not all nodes have) says nothing of pods without them: a node that has
lost its GPU still runs jobs that need none. Such refusals close it to pods that ask for all of these devices. What pods
without devices met holds for all.

Times are microseconds since the epoch. A job is known by namespace/name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from scavenger_admitter.core.admission.shape import Requests
from scavenger_admitter.core.admission.snapshot import namespace_of
from scavenger_admitter.core.admission.units import SECOND

ENOUGH: Final = 3
"""So many refusals within `WINDOW` close a node."""
WINDOW: Final = 600 * SECOND
FIRST: Final = 300 * SECOND
"""A node is closed for so long the first time."""
MOST: Final = 3600 * SECOND
"""And for no longer than this."""
TESTED_FOR: Final = 120 * SECOND
"""A start that tests a node has shown by then what becomes of it, or another one tests it as well."""
FORGOTTEN_AFTER: Final = 86_400 * SECOND
"""A node that no start has tried for so long is as any other."""
MOST_NODES: Final = 1000
"""Of so many nodes something is known."""
MOST_REFUSALS: Final = 32
"""Refusals that are kept of one node, the last ones."""
MOST_TOLD: Final = 200
"""Characters that are kept of what a node said."""
EVERYBODY: Final = ""
"""In the place of a namespace: all of them, or the node itself as the witness."""

_COMMON: Final = frozenset({"cpu", "memory", "pods", "ephemeral-storage"})

Devices = tuple[str, ...]
"""Names of resources that not all nodes have, sorted."""


class Scope(NamedTuple):
    """Whose pods.

    Attributes:
        namespace: of these jobs; `EVERYBODY` for all.
        devices: that ask for at least these.
    """

    namespace: str
    devices: Devices


def devices_of(requests: Requests) -> Devices:
    """What a pod asks for that not all nodes have."""
    return tuple(name for name, _ in requests if name not in _COMMON)


@dataclass(slots=True)
class Refusal:
    """A pod that a node did not start.

    Attributes:
        at: when.
        job: its job; empty where the node itself is the witness.
        devices: that it asked for.
        said: why, in words.
        admission: the kubelet did not admit it; else its runtime failed, which a template can bring about.
        elsewhere: a pod of the same job has started on another node since.
        contradicted: a pod of another namespace has started on this node since.
    """

    at: int
    job: str
    devices: Devices
    said: str
    admission: bool = True
    elsewhere: bool = False
    contradicted: bool = False

    @property
    def namespace(self) -> str:
        """Of its job."""
        return namespace_of(self.job)

    @property
    def counts_for_all(self) -> bool:
        """Whether it may be the fault of the node, for all that is known."""
        return not self.contradicted and (self.admission or self.elsewhere)


@dataclass(slots=True)
class Closing:
    """A node that starts no pods of a scope.

    Attributes:
        until: when a start may test it.
        times: how often in a row it was closed.
        said: for which reason, in words of the node.
        closed_at: when it was closed last.
        tested_at: when a start was sent to test it; 0 for never.
        failed: namespaces of the starts that have failed the test.
    """

    until: int
    times: int
    said: str
    closed_at: int
    tested_at: int = 0
    failed: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _Node:
    refusals: list[Refusal] = field(default_factory=list)
    closings: dict[Scope, Closing] = field(default_factory=dict)

    @property
    def last(self) -> int:
        """When something was learnt of it; what has closed it is worth more."""
        return max([one.closed_at + MOST for one in self.closings.values()] + [one.at for one in self.refusals])


@dataclass(frozen=True, slots=True)
class Change:
    """A node was closed or opened.

    Attributes:
        node: its name.
        namespace: for jobs of this namespace; `EVERYBODY` for all.
        until: when it is tested, microseconds since the epoch; 0 where it was opened.
        said: why.
    """

    node: str
    namespace: str
    until: int
    said: str


@dataclass(frozen=True, slots=True)
class Closed:
    """Nodes that start nothing at a moment.

    Attributes:
        everyone: no pods at all.
        some: no pods of a scope.
        tested: nodes that take one start, which tests them.
    """

    everyone: frozenset[str] = frozenset()
    some: Mapping[Scope, frozenset[str]] = field(default_factory=dict)
    tested: frozenset[str] = frozenset()

    def to(self, namespace: str, requests: Requests) -> tuple[str, ...]:
        """Nodes that are closed to such a pod, and not to all pods."""
        if not self.some:
            return ()
        asked, found = {name for name, _ in requests}, set[str]()
        for scope, nodes in self.some.items():
            if scope.namespace in (EVERYBODY, namespace) and asked.issuperset(scope.devices):
                found |= nodes
        return tuple(sorted(found))


OPEN: Final = Closed()


class NodeTrust:
    """What is known of all nodes."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Node] = {}
        self._refused_by: dict[str, set[str]] = {}
        """By job, the nodes that did not start its pods since one of them started last."""
        self._changes: list[Change] = []
        self._now = 0

    def __bool__(self) -> bool:
        """Whether time alone may open a node."""
        return any(node.closings for node in self._nodes.values())

    # --- what happens ---

    def refused(self, node: str, job: str, requests: Requests, said: str, now: int, *, admission: bool) -> None:
        """A node did not start a pod of a job.

        Args:
            node: its name.
            job: `namespace/name`.
            requests: of the pod.
            said: by its kubelet.
            now: the time.
            admission: the kubelet did not admit it; else its runtime failed.
        """
        self._refused_by.setdefault(job, set()).add(node)
        self._note(node, Refusal(now, job, devices_of(requests), said[:MOST_TOLD], admission), now)

    def failed_by_itself(self, node: str, said: str, now: int) -> None:
        """A node has rebooted, or fallen silent, while it ran pods of jobs."""
        self._note(node, Refusal(now, "", (), said[:MOST_TOLD]), now)

    def started(self, node: str, job: str, requests: Requests) -> None:
        """A pod of a job was seen to start on a node."""
        for other in sorted(self._refused_by.pop(job, set()) - {node}) if job in self._refused_by else ():
            for refusal in self._nodes[other].refusals if other in self._nodes else ():
                refusal.elsewhere |= refusal.job == job
            self._judge(other, self._now)
        if node in self._nodes:
            self._clear(node, namespace_of(job), set(devices_of(requests)))

    def deleted(self, node: str) -> None:
        """A node is gone."""
        if (gone := self._nodes.pop(node, None)) is not None:
            self._changes += [Change(node, scope.namespace, 0, "the node is gone") for scope in gone.closings]

    def forget_job(self, job: str) -> None:
        """A job is gone: it starts nowhere any more."""
        self._refused_by.pop(job, None)

    def sent(self, nodes: Iterable[str], now: int) -> None:
        """A start was granted on these nodes: of those that are to be tested, it is the test."""
        for node in self._nodes.keys() & nodes:
            for closing in self._nodes[node].closings.values():
                if closing.until <= now:
                    closing.tested_at = now

    def _note(self, name: str, refusal: Refusal, now: int) -> None:
        self._now = now
        node = self._nodes.setdefault(name, _Node())
        node.refusals = [one for one in node.refusals if now - one.at < WINDOW][1 - MOST_REFUSALS :]
        node.refusals.append(refusal)
        for scope, closing in list(node.closings.items()):
            if closing.until <= now and set(refusal.devices) <= set(scope.devices):
                self._fail_test(name, scope, closing, refusal)
        self._judge(name, now)
        if len(self._nodes) > MOST_NODES:
            del self._nodes[min(self._nodes, key=lambda one: (self._nodes[one].last, one))]

    def _fail_test(self, name: str, scope: Scope, closing: Closing, refusal: Refusal) -> None:
        """A start on a node that was to be tested was refused: it is closed again, to jobs of that namespace; to all
        when a second namespace, or the node itself, says the same."""
        if scope.namespace != EVERYBODY:
            if scope.namespace == refusal.namespace:
                self._close(name, scope, refusal.said)
            return
        closing.failed.add(refusal.namespace)
        closing.tested_at = 0
        if len(closing.failed) > 1 or not refusal.job:
            self._close(name, scope, refusal.said)
        elif (own := Scope(refusal.namespace, scope.devices)) not in self._nodes[name].closings:
            self._close(name, own, refusal.said)

    def _judge(self, name: str, now: int) -> None:
        """Close a node of which enough is proved."""
        node = self._nodes.get(name)
        recent = [one for one in node.refusals if now - one.at < WINDOW] if node is not None else []
        for devices in {one.devices for one in recent}:
            mine = [one for one in recent if set(one.devices) <= set(devices)]
            for scope, proofs in ((Scope(EVERYBODY, devices), _for_all(mine)), *_for_some(mine, devices)):
                if len(proofs) >= ENOUGH and node is not None and scope not in node.closings:
                    self._close(name, scope, proofs[-1].said)

    def _close(self, name: str, scope: Scope, said: str) -> None:
        node, now = self._nodes[name], self._now
        times = node.closings[scope].times + 1 if scope in node.closings else 1
        until = now + min(MOST, FIRST * 2 ** min(times - 1, 30))
        node.closings[scope] = Closing(until, times, said, closed_at=now)
        self._changes.append(Change(name, scope.namespace, until, said))

    def _clear(self, name: str, namespace: str, devices: set[str]) -> None:
        """A pod of this namespace that asked for these devices has started on a node."""
        node, kept = self._nodes[name], list[Refusal]()
        for refusal in node.refusals:
            same = devices.issuperset(refusal.devices)
            refusal.contradicted |= same
            if not same or refusal.namespace not in (namespace, EVERYBODY):
                kept.append(refusal)
        node.refusals = kept
        for scope in list(node.closings):
            if scope.namespace in (namespace, EVERYBODY) and devices.issuperset(scope.devices):
                del node.closings[scope]
                self._changes.append(Change(name, scope.namespace, 0, "a pod has started there"))
        self._drop_empty(name)

    def _drop_empty(self, name: str) -> None:
        if not self._nodes[name].refusals and not self._nodes[name].closings:
            del self._nodes[name]

    # --- what follows ---

    def closed(self, now: int) -> Closed:
        """The nodes that start nothing at this moment."""
        self._now = now
        everyone, tested, some = set[str](), set[str](), dict[Scope, set[str]]()
        for name, scope, closing in list(self._closings()):
            closing.until = min(closing.until, now + MOST)  # the clock may have been set back
            if now - closing.until > FORGOTTEN_AFTER:
                del self._nodes[name].closings[scope]
                self._drop_empty(name)
            elif closing.until <= now and not 0 <= now - closing.tested_at < TESTED_FOR:
                tested.add(name)
            elif scope == (EVERYBODY, ()):
                everyone.add(name)
            else:
                some.setdefault(scope, set()).add(name)
        if not everyone and not tested and not some:
            return OPEN
        return Closed(
            frozenset(everyone), {scope: frozenset(nodes) for scope, nodes in some.items()}, frozenset(tested)
        )

    def _closings(self) -> Iterator[tuple[str, Scope, Closing]]:
        for name, node in self._nodes.items():
            for scope, closing in node.closings.items():
                yield name, scope, closing

    def changes(self) -> list[Change]:
        """Nodes that were closed or opened since this was asked last."""
        found, self._changes = self._changes, []
        return found

    def shunned(self) -> dict[str, Closing]:
        """The nodes that are closed to jobs of all namespaces, whatever their devices, each with its last closing."""
        found: dict[str, Closing] = {}
        for name, scope, closing in self._closings():
            if scope.namespace == EVERYBODY and (name not in found or found[name].closed_at < closing.closed_at):
                found[name] = closing
        return found

    # --- what survives ---

    def dump(self, most_bytes: int) -> str:
        """What is closed, as JSON of no more than so many bytes: what was closed last, as far as it fits."""
        rows = sorted(self._closings(), key=lambda row: (-row[2].closed_at, row[0], row[1]))
        texts, size = [], 2
        for name, scope, closing in rows:
            row = {
                "node": name,
                "namespace": scope.namespace,
                "devices": scope.devices,
                "until": closing.until,
                "times": closing.times,
                "closedAt": closing.closed_at,
                "said": closing.said,
            }
            texts.append(json.dumps(row, separators=(",", ":")))
            if (size := size + len(texts[-1]) + 1) > most_bytes:
                texts.pop()
                break
        return f"[{','.join(texts)}]"

    def load(self, text: str | None, now: int) -> None:
        """Take up what a predecessor left. What cannot be read is left out."""
        self._now = now
        try:
            rows = json.loads(text or "[]")
        except (ValueError, RecursionError):
            return
        for row in rows if isinstance(rows, list) else ():
            if len(self._nodes) < MOST_NODES and (found := _read(row, now)) is not None:
                name, scope, closing = found
                self._nodes.setdefault(name, _Node()).closings.setdefault(scope, closing)


def _for_all(refusals: list[Refusal]) -> list[Refusal]:
    """Those that prove that the node is at fault for all jobs; empty where they are of one namespace."""
    witnesses = [one for one in refusals if one.counts_for_all]
    own = [one for one in witnesses if not one.job]
    return witnesses if len({one.namespace for one in witnesses if one.job}) > 1 else own


def _for_some(refusals: list[Refusal], devices: Devices) -> Iterator[tuple[Scope, list[Refusal]]]:
    """Those that prove it for jobs of one namespace."""
    proved = [one for one in refusals if one.elsewhere]
    for namespace in sorted({one.namespace for one in proved}):
        yield Scope(namespace, devices), [one for one in proved if one.namespace == namespace]


def _read(row: Any, now: int) -> tuple[str, Scope, Closing] | None:
    """A row as `dump` writes it."""
    try:
        scope = Scope(str(row["namespace"]), tuple(map(str, row["devices"])))
        until, times, closed_at = int(row["until"]), max(1, int(row["times"])), min(int(row["closedAt"]), now)
        closing = Closing(min(until, now + MOST), times, str(row["said"])[:MOST_TOLD], closed_at)
        return str(row["node"]), scope, closing
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
