"""What holds of every plan of admission, whatever the snapshot (`scavenger_domain.soundness`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set
from itertools import chain
from typing import TYPE_CHECKING

from scavenger_api.reasons import WaitReason

from scavenger_admitter.core.admission.placement.inputs import NodeView
from scavenger_admitter.core.admission.snapshot import Candidate, Snapshot
from scavenger_admitter.core.admission.sums import add

if TYPE_CHECKING:  # the module that is checked imports this one
    from scavenger_admitter.core.admission.cycle.plan import AdmissionPlan, Start


def assert_sound(
    plan: AdmissionPlan, snapshot: Snapshot, max_starts_per_cycle: int | None, *, arrays_keep_place: bool = False
) -> None:
    """Raise AssertionError where a plan gives what there is not, or to jobs that may not start.

    Args:
        plan: what was decided.
        snapshot: on what.
        max_starts_per_cycle: most jobs that one cycle starts, tasks of arrays each for itself; None for no limit.
        arrays_keep_place: whether arrays may start one task after the other.
    """
    waiting = {candidate.key: candidate for candidate in chain.from_iterable(snapshot.candidates.values())}
    started = [start.key for start in plan.starts]
    assert len(started) == len(set(started)), f"starts: a job twice: {started}"
    assert set(started) <= waiting.keys(), f"starts: of jobs that do not wait: {sorted(set(started) - waiting.keys())}"
    forgotten = waiting.keys() - plan.held.keys() - set(started)
    assert not forgotten, f"held: neither started nor told why they wait: {sorted(forgotten)}"
    granted = sum(len(start.nodes) if start.candidate.tasks else 1 for start in plan.starts)
    assert max_starts_per_cycle is None or granted <= max_starts_per_cycle, f"starts: {granted} in one cycle"
    assert not (plan.starts and snapshot.shut), f"starts: though nothing may start: {snapshot.shut}"
    for start in plan.starts:
        _assert_start(start, snapshot)
        if not arrays_keep_place and len(start.nodes) > 1 and start.candidate.tasks:
            _assert_passed(start.candidate, plan, snapshot, set(started))
    _assert_nodes(plan.starts, snapshot)
    _assert_quotas(plan.starts, snapshot)
    _assert_load(plan.starts, snapshot)
    _assert_preemptions(plan, snapshot, waiting.keys() - set(started))
    _assert_turns(plan, snapshot, waiting.keys())


def _assert_turns(plan: AdmissionPlan, snapshot: Snapshot, waiting: Set[str]) -> None:
    """A pool has one turn, of a job that waits."""
    seen: set[str] = set()
    for turn in plan.turns:
        assert turn.candidate.key in waiting, f"turns: of {turn.candidate.key}, which does not wait"
        pools = {snapshot.pool(node) for node in turn.nodes}
        assert seen.isdisjoint(pools), f"turns: two in a pool of {sorted(pools)}"
        seen |= pools


def _assert_start(start: Start, snapshot: Snapshot) -> None:
    """Who starts may, and has a node for each of its pods."""
    candidate, queue = start.candidate, snapshot.queues.get(start.candidate.queue)
    assert queue is not None and queue.admits((candidate,)), f"starts: {start.key} from a queue that is not open to it"  # noqa: PT018
    assert candidate.key not in snapshot.blocked, f"starts: {start.key} is blocked"
    assert candidate.not_before <= snapshot.now, f"starts: {start.key} before its delay is over"
    most = candidate.tasks or candidate.parallelism
    least = 1 if candidate.tasks else candidate.parallelism
    assert least <= len(start.nodes) <= most, f"nodes: {len(start.nodes)} for {start.key}, not {least} to {most}"


def _assert_passed(array: Candidate, plan: AdmissionPlan, snapshot: Snapshot, started: set[str]) -> None:
    """No job waits that stands before the second task of an array and fits where that does. Those behind an array of
    their namespace do."""
    turns = snapshot.queues[array.queue].namespace_weights is not None
    line = snapshot.candidates[array.queue]
    arrays = [one for one in line if one.tasks]
    for one in line:
        alike = one.shape == array.shape and one.parallelism == 1 and one.interrupted_count >= array.interrupted_count
        if not alike or (turns and one.namespace != array.namespace):
            continue
        behind = any(one.namespace == other.namespace and one.priority < other.priority for other in arrays)
        free = behind or one.key in started or one.key in snapshot.blocked or one.not_before > snapshot.now
        assert free or plan.held[one.key].reason in _SERVED, f"starts: two tasks of {array.key}, and {one.key} waits"


_SERVED = frozenset({WaitReason.MAKING_ROOM, WaitReason.TURN_KEPT, WaitReason.NAMESPACE_NOT_SELECTED})
"""Of jobs that capacity is held for, and of those that may not use their queue."""


def _assert_nodes(starts: Iterable[Start], snapshot: Snapshot) -> None:
    """Nodes take new pods, and have what is requested of them beside what their pods request."""
    placed: dict[str, dict[str, int]] = {}
    for start in starts:
        for name in start.nodes:
            node = snapshot.nodes.get(name)
            assert node is not None and node.schedulable, f"nodes: {name} takes no pods, and {start.key} goes there"  # noqa: PT018
            assert name not in snapshot.closed_nodes, f"nodes: {name} is closed, and {start.key} goes there"
            assert name not in snapshot.shunned, f"nodes: {name} refuses pods, and {start.key} goes there"
            avoided = name in start.candidate.shape.avoids
            assert not avoided, f"nodes: {name} refuses pods of its namespace, and {start.key} goes there"
            add(placed.setdefault(name, {}), start.candidate.shape.requests)
    for name, requests in placed.items():
        _assert_fits(snapshot.nodes[name], requests)


def _assert_fits(node: NodeView, requests: dict[str, int]) -> None:
    for resource, value in requests.items():
        free = node.allocatable.get(resource, 0) - node.used.get(resource, 0)
        assert value <= free, f"nodes: {value} {resource} on {node.name}, where {free} is free"


def _assert_quotas(starts: Iterable[Start], snapshot: Snapshot) -> None:
    """No queue gets beyond its quota by a start."""
    given: dict[str, dict[str, int]] = {}
    for start in starts:
        add(given.setdefault(start.candidate.queue, {}), start.candidate.shape.counted, len(start.nodes))
    for name, amounts in given.items():
        queue = snapshot.queues[name]
        for resource, most in queue.quota.items():
            extra, held = amounts.get(resource, 0), queue.allocated.get(resource, 0)
            assert not extra or held + extra <= most, (
                f"quota: queue {name} gets {extra} {resource} beside {held}, and {most} is its quota"
            )


def _assert_load(starts: Iterable[Start], snapshot: Snapshot) -> None:
    """The load stays under the admission threshold: with all that start, or with all but the last one."""
    given: dict[tuple[str, str], int] = {}
    largest: dict[tuple[str, str], int] = {}
    for start in starts:
        pods = Counter(snapshot.pool(node) for node in start.nodes) if snapshot.pools else {"": len(start.nodes)}
        for pool, count in pods.items():
            for resource, value in start.candidate.shape.counted:
                of = (pool, resource)
                given[of] = given.get(of, 0) + value * count
                largest[of] = max(largest.get(of, 0), value * min(count, start.candidate.parallelism))
    concerned = {pool for pool, _ in given}
    for limit in snapshot.limits:
        of = (limit.pool, limit.resource)
        if limit.pool not in concerned:
            continue
        extra = given.get(of, 0) - (0 if snapshot.counted_with_candidate else largest.get(of, 0))
        assert limit.under(extra), f"limits: {limit.resource} gets {extra} more, beyond the threshold: {limit}"


def _assert_preemptions(plan: AdmissionPlan, snapshot: Snapshot, waiting: set[str]) -> None:
    """Each victim runs, goes once, and for a job that waits on.

    Not asserted: that it is of another queue. A queue that holds more than it deserves of one resource, and less of
    another, gives up jobs of its own for its waiting job today.
    """
    running = {gang.job.key for gang in snapshot.gangs}
    victims = [one.key for one in plan.preemptions]
    assert len(victims) == len(set(victims)), f"preemptions: a job twice: {victims}"
    for one in plan.preemptions:
        assert one.key in running, f"preemptions: {one.key} does not run"
        assert one.risk >= 0, f"risk: {one.key} has {one.risk} of unsaved work"
        assert one.waiting in waiting, f"preemptions: {one.key} for {one.waiting}, which does not wait"
