"""What holds of every snapshot, whatever the cluster looks like (`scavenger_domain.soundness`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import TypeAlias

from scavenger_api.reclaimed import counted_as
from scavenger_domain.requests import RECLAIMED_RESOURCES

from scavenger_admitter.core.admission.snapshot import Grant, Reservation, Snapshot
from scavenger_admitter.core.admission.sums import add
from scavenger_admitter.core.admission.view.object_facts import PodFacts

Released: TypeAlias = Iterable[tuple[Grant, Sequence[tuple[str, int]]]]
"""Grants, each with the run and the grant's number of the pods that its capacity was released for."""


def assert_sound(snapshot: Snapshot, pods: Collection[PodFacts], released: Released = ()) -> None:
    """Raise AssertionError where sums of a snapshot are not those of pods, nodes and starts under way.

    Args:
        snapshot: as it is about to be decided on.
        pods: all that are known, bound or not.
        released: of grants whose pods are not all bound yet.
    """
    bound = [pod for pod in pods if pod.node and not pod.ended]
    _assert_amounts(snapshot)
    _assert_nodes(snapshot, bound)
    _assert_queues(snapshot, bound)
    lines = chain.from_iterable(snapshot.candidates.values())
    keys = [candidate.key for candidate in lines]
    assert len(keys) == len(set(keys)), f"candidates: a job twice: {sorted(keys)}"
    _assert_grants(snapshot, pods, released)
    for one in snapshot.reservations:
        assert one.count >= 1, f"reservations: {one.count} pods of {one.key}"
        assert len(one.nodes) <= one.count, f"reservations: {len(one.nodes)} nodes for {one.count} pods of {one.key}"


def _assert_amounts(snapshot: Snapshot) -> None:
    """Sums are never negative: millicores, bytes, whole units."""
    sums: Mapping[str, Mapping[str, int]] = {
        "capacity": snapshot.capacity,
        "requested": snapshot.requested,
        "scavenged": snapshot.scavenged,
        "recently_terminated": snapshot.recently_terminated,
        "overlap": snapshot.overlap,
    }
    for name, amounts in sums.items():
        negative = {resource: value for resource, value in amounts.items() if value < 0}
        assert not negative, f"{name}: less than nothing: {negative}"


def _assert_nodes(snapshot: Snapshot, bound: Iterable[PodFacts]) -> None:
    """What a node has is what its pods request, and the capacity that of the nodes that count."""
    used: dict[str, dict[str, int]] = {}
    scavenger: dict[str, dict[str, int]] = {}
    for pod in bound:
        add(used.setdefault(pod.node, {}), pod.requests)
        if pod.job:
            add(scavenger.setdefault(pod.node, {}), pod.requests)
    capacity: dict[str, int] = {}
    requested: dict[str, int] = {}
    for name, node in snapshot.nodes.items():
        mine, of_jobs = used.get(name, {}), scavenger.get(name, {})
        assert node.used == mine, f"used: node {name} has {dict(node.used)}, and its pods request {mine}"
        assert node.scavenger == of_jobs, f"scavenger: node {name} has {dict(node.scavenger)}, its pods {of_jobs}"
        if node.counts:
            offered = ((what, value) for what, value in node.allocatable.items() if what not in RECLAIMED_RESOURCES)
            add(capacity, offered)
            add(requested, counted_as(node.used.items()).items())
    for one in snapshot.reservations:
        add(requested, one.shape.counted, one.count)
    assert snapshot.capacity == capacity, f"capacity: {dict(snapshot.capacity)}, and nodes that count have {capacity}"
    assert snapshot.requested == requested, f"requested: {dict(snapshot.requested)}, and pods request {requested}"


def _assert_queues(snapshot: Snapshot, bound: Iterable[PodFacts]) -> None:
    """What queues hold together is what scavenger pods and starts under way count as, of queues that are gone too."""
    held: dict[str, int] = {}
    allocated: dict[str, dict[str, int]] = {name: {} for name in snapshot.queues}
    for pod in bound:
        if pod.job:
            add(held, pod.counted)
            add(allocated.get(pod.queue, {}), pod.counted)
    for one in snapshot.reservations:
        add(held, one.shape.counted, one.count)
        add(allocated.get(one.queue, {}), one.shape.counted, one.count)
    assert snapshot.scavenged == held, f"scavenged: {dict(snapshot.scavenged)}, and pods count as {held}"
    for name, queue in snapshot.queues.items():
        if queue.namespace_weights is not None:
            parts: dict[str, int] = {}
            for sums in queue.by_namespace.values():
                add(parts, sums.items())
            assert parts == queue.allocated, f"by_namespace: {parts}, and queue {name} holds {dict(queue.allocated)}"
        mine = allocated[name]
        assert queue.allocated == mine, f"allocated: queue {name} holds {dict(queue.allocated)}, its pods {mine}"


def _assert_grants(snapshot: Snapshot, pods: Iterable[PodFacts], released: Released) -> None:
    """A grant holds capacity for its pods less its own that were bound or are gone. Each pod that is to be bound holds
    capacity once: as one of an assumed grant, or by itself."""
    granted: dict[tuple[str, str, int], Reservation] = {}
    for one in snapshot.reservations:
        if one.grant is not None:
            of = (one.key, one.grant.run, one.grant.number)
            assert of not in granted, f"reservations: grant {one.grant.number} of {one.key} twice"
            assert one.count <= one.grant.pods, f"reservations: {one.count} pods of {one.key}, granted {one.grant.pods}"
            granted[of] = one
    for grant, theirs in released:
        others = [of for of in theirs if of != (grant.run, grant.number)]
        assert not others, f"released: grant {grant.number} of run {grant.run} by pods of others: {others}"
    alone = Counter(one.pod for one in snapshot.reservations if one.pod)
    for pod in pods:
        if pod.job and pod.shape is not None:
            times = alone.pop(pod.key, 0) + ((pod.job, pod.run, pod.grant) in granted)
            assert times == 1, f"reservations: pod {pod.key} of grant {pod.grant} holds capacity {times} times"
    assert not alone, f"reservations: pods that are bound or gone: {sorted(alone)}"
