"""Which running jobs a regular pod may displace: a pure function of one snapshot (docs/preemption-classes.md).

The class is a label on every pod of the gang, which is what schedulers and budgets read. A plan is computed against it,
so a prioritizer that restarts goes on where the last one was. What a status says of it the admitter writes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from scavenger_api.job import Phase
from scavenger_api.names import NON_PREEMPTIBLE, PREEMPTIBLE
from scavenger_domain.gang import at_risk, cpu_seconds, estimated_at_risk, start_over
from scavenger_domain.marks import class_of, moved
from scavenger_domain.soundness import CHECKS

from scavenger_prioritizer.core.snapshot import (
    Gang,
    JobFacts,
    PodFacts,
    Record,
    Share,
    ShareOf,
    Snapshot,
)


class Verdict(Record, frozen=True, gc=False):
    """What was decided about one running gang. `risk` as in `AtRisk.cost`, `start` in microseconds."""

    gang: Gang
    risk: int
    start: int
    cordoned: bool
    class_: str
    current: str
    """The class it has now."""

    @property
    def priority(self) -> int:
        """Unsaved CPU time, in whole CPU-seconds."""
        return cpu_seconds(self.risk)


class PodWrite(Record, frozen=True, gc=False):
    """One patch of a pod. class_: None leaves the label. priority: CPU-seconds for the annotation, None leaves it.
    exempt: whether the budget leaves the pod out, None leaves that label."""

    pod: PodFacts
    class_: str | None
    priority: int | None
    exempt: bool | None = None


@dataclass(frozen=True, slots=True)
class ClassPlan:
    """Verdicts in the order of victims, and the writes that bring the cluster there.

    A budget is there before the first pod it is to cover, and goes after the last. In between come the classes, by
    `class_steps`, and then what only tells how things stand.
    """

    verdicts: tuple[Verdict, ...]
    share: Share
    now: int = 0
    """The moment of the snapshot, in microseconds."""
    due: int | None = None
    """When the first of the protected jobs starts over, and with that loses its protection."""
    budgets_needed: tuple[str, ...] = ()
    """Namespaces whose budget is missing or wrong."""
    cover: tuple[PodWrite, ...] = ()
    """Non-preemptible pods that the budget leaves out, on whose nodes a regular pod has come."""
    protect: tuple[PodWrite, ...] = ()
    unprotect: tuple[PodWrite, ...] = ()
    refresh: tuple[PodWrite, ...] = ()
    """Pods whose class stays, whose running priority has moved, or which the budget is to leave out."""
    budgets_surplus: tuple[str, ...] = ()
    """Namespaces with a budget and nothing to protect, where that is wrong or has stayed for long."""
    idle_budgets: Mapping[str, int] = field(default_factory=dict)
    """Namespaces with a budget and nothing to protect, and since when."""

    @property
    def writes(self) -> int:
        """Requests it takes to carry the plan out."""
        pods = len(self.cover) + len(self.protect) + len(self.unprotect) + len(self.refresh)
        return len(self.budgets_needed) + pods + len(self.budgets_surplus)

    @property
    def class_steps(self) -> tuple[tuple[PodWrite, ...], ...]:
        """Changes of class, each step after the one before.

        1. who may be displaced whose protection ends: the preemptible share has grown, and a pod needs it;
        2. who is protected in the place of others, and then 3. those others: of two that swap, neither is bare;
        4. who else is protected: it was born preemptible, and a moment more of that does no harm.
        """
        swaps = min(len(self.protect), len(self.unprotect))
        more = len(self.unprotect) - swaps
        return self.unprotect[:more], self.protect[:swaps], self.unprotect[more:], self.protect[swaps:]

    @property
    def changes(self) -> tuple[Verdict, ...]:
        """The verdicts that differ from the current class."""
        return tuple(v for v in self.verdicts if v.class_ != v.current)


def plan_classes(snapshot: Snapshot) -> ClassPlan:
    """The class of every running job, and the fewest writes that make it so.

    Which jobs take part: those in phase Running with a living pod and none that is being removed. A job that is on its
    way out does not count among the preemptible ones, as it can no longer give way.
    """
    ranked = rank(snapshot)
    verdicts = tuple(_judge(ranked, snapshot))
    cover, protect, unprotect, refresh = _pod_writes(verdicts, snapshot)
    needed, surplus, idle = _budgets(verdicts, snapshot)
    plan = ClassPlan(
        verdicts=verdicts,
        share=snapshot.share,
        now=snapshot.now,
        due=_due(ranked, verdicts, snapshot),
        budgets_needed=needed,
        cover=cover,
        protect=protect,
        unprotect=unprotect,
        refresh=refresh,
        budgets_surplus=surplus,
        idle_budgets=idle,
    )
    if CHECKS.on:
        assert_sound(plan, snapshot)
    return plan


# --- order ---


class Ranked(Record, frozen=True, gc=False):
    """A gang that takes part, with what its position in the order comes from."""

    gang: Gang
    risk: int
    start: int
    cordoned: bool
    since: int
    """Up to here its work is safe."""

    def safe(self, now: int, window: int, startup_cost: int) -> bool:
        """Whether next to nothing is lost if it goes now: it has passed a checkpoint of this run, reported or due, no
        longer ago than the window; or it has run for no longer than the window and what a restart costs."""
        return now - self.since < (window if self.start < self.since else startup_cost + window)

    def next_start_over(self, now: int) -> int:
        """When its next checkpoint is due, in microseconds."""
        interval = self.gang.job.interval
        return start_over(self.start, interval, now) + interval


def rank(snapshot: Snapshot) -> list[Ranked]:
    """The gangs that take part, next victim first.

    1. least unsaved CPU time;
    2. fewer interruptions so far;
    3. most recently started;
    4. UID, so that the order is total.
    """
    ranked = [_rank_one(gang, snapshot) for gang in snapshot.gangs if takes_part(gang)]
    ranked.sort(key=lambda r: (r.risk, r.gang.job.interruptions, -r.start, r.gang.job.uid))
    return ranked


def takes_part(gang: Gang) -> bool:
    """Whether the job runs and stays: phase Running, a living pod, and nothing of it on the way out."""
    job = gang.job
    if job.phase != Phase.RUNNING or job.stopping:
        return False
    living = False
    for pod in gang.pods:
        if pod.terminating:
            return False
        living = living or pod.live
    return living


def _rank_one(gang: Gang, snapshot: Snapshot) -> Ranked:
    rules = snapshot.rules
    found = at_risk(gang.job, gang.pods, snapshot.now, rules.startup_cost, rules.trusted, snapshot.used)
    cordoned = bool(snapshot.cordoned) and any(pod.live and pod.node in snapshot.cordoned for pod in gang.pods)
    return Ranked(gang, found.cost, found.started, cordoned, found.since)


# --- classes ---


def preemptible_count(jobs: int, percentage: float) -> int:
    """⌈jobs · percentage⌉: how many jobs are preemptible; percentage in percent, clamped to 0..100.

    A hair is taken off before rounding up, so that 33.3 % of 1,000 is 333 in binary floating point as well.
    """
    return max(0, min(jobs, math.ceil(jobs * percentage / 100 - 1e-9)))


def returns(gang: Gang, now: int, within: int) -> bool:
    """Whether the job has left so recently that it is still expected back, and left its capacity to no pod."""
    job = gang.job
    if job.stopping:
        return False
    if job.phase == Phase.RUNNING:  # that it is interrupted has not been written yet
        left = None
        for pod in gang.pods:  # no generators: it is asked of all gangs in each pass
            if pod.preempted:
                return False
            if pod.told_to_go is not None:
                left = pod.told_to_go if left is None else max(left, pod.told_to_go)
    elif job.phase == Phase.STARTING or (job.phase == Phase.INTERRUPTED and not job.preempted):
        left = job.ended
    else:
        left = None
    return left is not None and abs(now - left) < within  # far in the future is another machine's clock


def _judge(ranked: Sequence[Ranked], snapshot: Snapshot) -> Iterable[Verdict]:
    """Jobs with a pod on a cordoned node keep their position in the order and in the count, and are preemptible
    wherever it is: so cordoning a node changes the class of no job that is elsewhere.

    Jobs that left their capacity to no pod a moment ago count too, as preemptible ones, which they will be again. A pod
    that needs that capacity gets it without displacing a job. Otherwise each such job would cost another one its
    protection until it is back. Preempted jobs do not count. Their capacity is taken, and the next regular pod needs
    that of another job: when they counted, a burst used up all preemptible jobs, and waited.

    Beside those, jobs are preemptible that have just written a checkpoint, or should have, or have just started. A job
    that leaves then loses next to nothing, however many cores it has. And a job that lost its protection a moment ago
    does not get it back yet: a load that jumps up and down would change the class of half of all jobs twice a minute.
    """
    pools = [snapshot.pool(r.gang) for r in ranked]
    counted = weigh([r.gang for r in ranked], pools, snapshot.rules.share_of)
    targets, before = _targets(counted, pools, snapshot), Counter[str]()
    for r, pool, weight in zip(ranked, pools, counted, strict=True):
        first, target, current = before[pool], targets[pool], current_class(r.gang)
        before[pool] += weight
        class_ = current if target is None else PREEMPTIBLE if first < target else NON_PREEMPTIBLE
        if target is not None and first >= target and _exposed(r, current, snapshot):
            class_ = PREEMPTIBLE
        yield Verdict(r.gang, r.risk, r.start, r.cordoned, PREEMPTIBLE if r.cordoned else class_, current)


def weigh(gangs: Sequence[Gang], pools: Sequence[str], share_of: ShareOf) -> list[int]:
    """What each gang counts in the share that is preemptible.

    Args:
        gangs: that take part.
        pools: of each, its pool.
        share_of: what is shared.
    """
    if share_of is ShareOf.JOBS:
        return [1] * len(gangs)
    costs = [max(1, sum(pod.cost for pod in gang.pods if pod.live)) for gang in gangs]
    if share_of is ShareOf.REQUESTS:
        return costs
    of_pool: dict[str, list[int]] = {}
    for pool, cost in zip(pools, costs, strict=True):
        of_pool.setdefault(pool, []).append(cost)
    middles = {pool: _middle(one) for pool, one in of_pool.items()}
    return [min(cost, middles[pool]) for pool, cost in zip(pools, costs, strict=True)]


def _middle(costs: Iterable[int]) -> int:
    """The cost of the job in the middle, where each stands for as much as it costs. (The median job may be one of a
    thousand that request next to nothing.)"""
    ordered = sorted(costs)
    half, below = sum(ordered) / 2, 0
    for cost in ordered:
        below += cost
        if below >= half:
            return cost
    return 0


def _targets(weights: Sequence[int], pools: Sequence[str], snapshot: Snapshot) -> dict[str, float | None]:
    """Up to which sum of weights the jobs of each pool are preemptible by its share; None where that is not known. Of
    of jobs that come back the requests are not known: each counts as the mean of those that run.

    Args:
        weights: of the jobs that take part.
        pools: of each, its pool.
        snapshot: of this pass.
    """
    running, whole = Counter(pools), Counter[str]()
    for pool, weight in zip(pools, weights, strict=True):
        whole[pool] += weight
    targets: dict[str, float | None] = {}
    for pool, gone in _returning(snapshot, running).items():
        percentage, jobs, one = snapshot.share_of(pool).percentage, running[pool], whole[pool] / running[pool]
        if percentage is None:
            targets[pool] = None
        elif snapshot.rules.share_of is ShareOf.JOBS:
            targets[pool] = max(0, preemptible_count(jobs + gone, percentage) - gone)
        else:
            share = min(100.0, max(0.0, percentage)) / 100
            targets[pool] = max(0.0, (jobs + gone) * one * share - gone * one - 1e-9 * whole[pool])
    return targets


def _returning(snapshot: Snapshot, running: Iterable[str]) -> dict[str, int]:
    """How many jobs of each of these pools have left a moment ago and are expected back."""
    found = dict.fromkeys(running, 0)
    for gang in snapshot.gangs:
        if returns(gang, snapshot.now, snapshot.rules.returning) and not takes_part(gang):
            pool = snapshot.pool(gang)
            if pool in found:
                found[pool] += 1
    return found


def _exposed(ranked: Ranked, current: str, snapshot: Snapshot) -> bool:
    """Whether a job is preemptible that is not by its place."""
    now, rules = snapshot.now, snapshot.rules
    if rules.window and ranked.safe(now, rules.window, rules.startup_cost):
        return True
    at = snapshot.exposed_at.get(ranked.gang.job.key) if current == PREEMPTIBLE else None
    return at is not None and at <= now < at + rules.hold


def _due(ranked: Sequence[Ranked], verdicts: Sequence[Verdict], snapshot: Snapshot) -> int | None:
    if not snapshot.known or not snapshot.rules.window:
        return None
    protected = (r for r, v in zip(ranked, verdicts, strict=True) if v.class_ == NON_PREEMPTIBLE)
    return min((r.next_start_over(snapshot.now) for r in protected), default=None)


def current_class(gang: Gang) -> str:
    """The class a gang has now: what its living pods agree on, else the last one that its status was told."""
    return class_of(gang.pods, gang.job.class_)


# --- writes ---


def _pod_writes(verdicts: Sequence[Verdict], snapshot: Snapshot) -> tuple[tuple[PodWrite, ...], ...]:
    """Patches that cover by the budget again, that protect (most unsaved work first), that unprotect (least first), and
    the others that leave a class as it is."""
    cover: list[PodWrite] = []
    protect: list[PodWrite] = []
    unprotect: list[PodWrite] = []
    refresh: list[PodWrite] = []
    rules = snapshot.rules
    for verdict in verdicts:
        priority, rests = verdict.priority, _rests(verdict.gang.job, snapshot)
        estimate = None
        for pod in verdict.gang.pods:
            if not pod.live:
                continue
            known = pod.written
            if known is None:
                # Schedulers judge by themselves: a figure is written when that is not near enough any more.
                if estimate is None:
                    found = estimated_at_risk(verdict.gang.pods, snapshot.now, rules.startup_cost)
                    estimate = cpu_seconds(found)
                known = estimate
            far = moved(known, priority, rules.step, rules.ratio)
            if pod.class_ != verdict.class_:
                due = far if pod.written is None else pod.written != priority
                exempt = _exemption(pod, verdict.class_, snapshot)
                write = PodWrite(pod, verdict.class_, priority if due else None, exempt)
                (protect if verdict.class_ == NON_PREEMPTIBLE else unprotect).append(write)
            else:
                figure, exempt = priority if far and not rests else None, _exemption(pod, verdict.class_, snapshot)
                if figure is not None or exempt is not None:
                    (cover if exempt is False else refresh).append(PodWrite(pod, None, figure, exempt))
    unprotect.extend(_starting_preemptible(snapshot.gangs))
    protect.reverse()
    return tuple(cover), tuple(protect), tuple(unprotect), tuple(refresh)


def _exemption(pod: PodFacts, class_: str, snapshot: Snapshot) -> bool | None:
    """Whether the label by which the budget leaves a pod out is to be set (True) or taken off (False); None where it is
    right, not known, or of no effect, as the budget selects non-preemptible pods."""
    if class_ == PREEMPTIBLE or snapshot.lone is None:
        return None
    wanted = pod.node in snapshot.lone
    return None if wanted == pod.exempt else wanted


def _rests(job: JobFacts, snapshot: Snapshot) -> bool:
    """Whether the running priority of the job was written a moment ago."""
    at = snapshot.written_at.get(job.key)
    return at is not None and at <= snapshot.now < at + snapshot.rules.pace


def _starting_preemptible(gangs: Iterable[Gang]) -> Iterable[PodWrite]:
    """Pods of starting jobs are preemptible; a label that says otherwise was put there by hand."""
    for gang in gangs:
        if gang.job.phase == Phase.STARTING:
            for pod in gang.pods:
                if pod.live and pod.class_ == NON_PREEMPTIBLE:
                    yield PodWrite(pod, PREEMPTIBLE, None)


def _budgets(
    verdicts: Iterable[Verdict], snapshot: Snapshot
) -> tuple[tuple[str, ...], tuple[str, ...], dict[str, int]]:
    """Namespaces whose budget has to be written, those whose budget has to go, and all whose budget protects nothing,
    with since when. It stays for a while: the next job to be protected there needs it again."""
    protected = {v.gang.job.namespace for v in verdicts if v.class_ == NON_PREEMPTIBLE}
    wanted = protected if snapshot.rules.budgets else set()
    needed = sorted(namespace for namespace in wanted if snapshot.budgets.get(namespace, False) is False)
    present = {namespace: right for namespace, right in snapshot.budgets.items() if right is not None}
    now, stay = snapshot.now, snapshot.rules.budget_stay if snapshot.rules.budgets else 0
    idle = {ns: min(snapshot.idle_budgets.get(ns, now), now) for ns in present if ns not in wanted}
    surplus = sorted(namespace for namespace, since in idle.items() if not present[namespace] or now - since >= stay)
    return tuple(needed), tuple(surplus), idle


# --- what holds of every plan -------------------------------------------------------------------------------


def assert_sound(plan: ClassPlan, snapshot: Snapshot) -> None:
    """Raise AssertionError where a plan exposes a job too little, protects one without a budget, or writes twice.

    Args:
        plan: what was decided.
        snapshot: on what.
    """
    keys = [verdict.gang.job.key for verdict in plan.verdicts]
    assert len(keys) == len(set(keys)), f"verdicts: a job twice: {sorted(keys)}"
    _assert_order(plan.verdicts)
    _assert_share(plan.verdicts, snapshot)
    _assert_writes(plan, snapshot)
    _assert_budgets(plan, snapshot)


def _assert_order(verdicts: Sequence[Verdict]) -> None:
    """Who loses least goes first."""
    for verdict in verdicts:
        assert verdict.risk >= 0, f"risk: {verdict.gang.job.key} has {verdict.risk} of unsaved work"
        assert takes_part(verdict.gang), f"verdicts: {verdict.gang.job.key} does not run, or is on its way out"
    risks = [verdict.risk for verdict in verdicts]
    assert risks == sorted(risks), f"verdicts: not by unsaved work: {risks}"


def _assert_share(verdicts: Sequence[Verdict], snapshot: Snapshot) -> None:
    """At least ⌈jobs · percentage⌉ of the running jobs are preemptible, and these are the first; jobs that will be back
    in a moment are some of them."""
    pools: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        pools.setdefault(snapshot.pool(verdict.gang), []).append(verdict)
    for pool, members in pools.items():
        _assert_share_of(pool, members, snapshot)


def _assert_share_of(pool: str, verdicts: Sequence[Verdict], snapshot: Snapshot) -> None:
    percentage = snapshot.share_of(pool).percentage
    if percentage is None:
        moved_ = [v.gang.job.key for v in verdicts if v.class_ != v.current and not v.cordoned]
        assert not moved_, f"class_: of {moved_} changes, and the percentage is not known"
        return
    left = [g for g in snapshot.gangs if not takes_part(g) and snapshot.pool(g) == pool]
    gone = sum(returns(g, snapshot.now, snapshot.rules.returning) for g in left)
    weights = weigh([verdict.gang for verdict in verdicts], [pool] * len(verdicts), snapshot.rules.share_of)
    each = sum(weights) / len(weights)
    exact = (len(verdicts) + gone) * each * min(100.0, max(0.0, percentage)) / 100
    sums = accumulate(weights, initial=0)
    for position, (verdict, before) in enumerate(zip(verdicts, sums, strict=False)):
        first = before + gone * each < exact - 1e-6 * sum(weights)
        assert verdict.class_ == PREEMPTIBLE or not (first or verdict.cordoned), (
            f"class_: {verdict.gang.job.key}, {position} of {len(verdicts)}, is protected at {percentage} %"
        )


def _assert_writes(plan: ClassPlan, snapshot: Snapshot) -> None:
    """One write a pod at most, to a pod that stays, with the class of its list."""
    wanted = {"cover": None, "protect": NON_PREEMPTIBLE, "unprotect": PREEMPTIBLE, "refresh": None}
    uids: set[str] = set()
    for name, class_ in wanted.items():
        for write in getattr(plan, name):
            assert write.class_ == class_, f"{name}: {write.pod.name} becomes {write.class_}"
            assert write.pod.live, f"{name}: {write.pod.name} has ended, or is being deleted"
            assert write.pod.uid not in uids, f"{name}: {write.pod.name} is written twice"
            assert write.priority is None or write.priority >= 0, f"{name}: priority {write.priority}"
            uids.add(write.pod.uid)
    assert plan.due is None or snapshot.known, "due: no job is protected by a percentage"


def _assert_budgets(plan: ClassPlan, snapshot: Snapshot) -> None:
    """Each namespace with a protected job has its budget, or gets it in this plan, and loses none."""
    protected = {v.gang.job.namespace for v in plan.verdicts if v.class_ == NON_PREEMPTIBLE}
    lost = protected & set(plan.budgets_surplus)
    assert not lost or not snapshot.rules.budgets, f"budgets_surplus: protected jobs are in {sorted(lost)}"
    if snapshot.rules.budgets:
        there = {namespace for namespace, right in snapshot.budgets.items() if right is not False}
        bare = protected - there - set(plan.budgets_needed)
        assert not bare, f"budgets_needed: protected jobs without a budget in {sorted(bare)}"
    assert not set(plan.budgets_needed) & set(plan.budgets_surplus), "budgets_needed: written and deleted in one plan"
