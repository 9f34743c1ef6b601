"""What holds for every snapshot, however odd its times, labels and gangs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace as alter
from scavenger_domain.gang import MICROSECONDS
from scavenger_prioritizer.core.plan import plan_classes, rank, takes_part
from scavenger_prioritizer.core.snapshot import Gang, JobFacts, PodFacts, Rules, Snapshot

from tests.unit.effort import examples

from .builders import NON_PREEMPTIBLE, NOW, PREEMPTIBLE, carried_out, preemptible, published

# From a week ago to an hour ahead, so that clocks disagree; some far away, as in a status edited by hand.
times = st.one_of(
    st.none(),
    st.integers(NOW - 7 * 86400 * MICROSECONDS, NOW + 3600 * MICROSECONDS),
    st.sampled_from([0, 1, NOW, NOW + 10**18]),
)
labels = st.sampled_from(["", PREEMPTIBLE, NON_PREEMPTIBLE, "nonsense"])
figures = st.one_of(st.none(), st.integers(0, 10**6))
nodes = st.sampled_from(["", "n1", "n2", "n3"])
phases = st.sampled_from(["Running"] * 6 + ["Starting", "Waiting", "Completed", ""])
percentages = st.floats(0, 100, allow_nan=False)


thoroughly = settings(max_examples=examples(40))


@st.composite
def gangs(draw: st.DrawFn) -> Sequence[Gang]:
    found = []
    for n in range(draw(st.integers(0, 8))):
        pods = []
        for p in range(draw(st.sampled_from([0, 1, 1, 1, 2, 5]))):
            state = draw(st.sampled_from(["live"] * 8 + ["failed", "finished", "terminating"]))
            pods.append(
                PodFacts(
                    namespace="lab",
                    name=f"j{n}-{p}",
                    uid=f"pod-{n}-{p}",
                    cost=draw(st.sampled_from([0, 1, 500, 1000, 64_000])),
                    node=draw(nodes),
                    live=state == "live",
                    terminating=state == "terminating",
                    finished=state == "finished",
                    started=draw(times),
                    checkpoint=draw(times),
                    class_=draw(labels),
                    written=draw(figures),
                )
            )
        job = JobFacts(
            namespace="lab",
            name=f"j{n}",
            uid=f"job-{n}",
            phase=draw(phases),
            interval=draw(st.sampled_from([1, MICROSECONDS, 1800 * MICROSECONDS, 7 * 86400 * MICROSECONDS])),
            created=draw(st.integers(0, NOW + 10**12)),
            started=draw(times),
            start_over=draw(times),
            checkpoints=tuple(c for c in draw(st.lists(times, max_size=2)) if c is not None),
            interruptions=draw(st.integers(0, 3)),
            stopping=draw(st.sampled_from([False] * 9 + [True])),
            reclaimed=draw(st.booleans()),
            class_=draw(labels),
        )
        found.append(Gang(job, tuple(pods)))
    return found


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    return Snapshot(
        now=NOW,
        share=published(draw(percentages)),
        gangs=draw(gangs()),
        cordoned=frozenset(draw(st.sets(st.sampled_from(["n1", "n2"])))),
        budgets=draw(st.dictionaries(st.sampled_from(["lab", "elsewhere"]), st.booleans())),
        rules=Rules(
            startup_cost=draw(st.sampled_from([0, 60 * MICROSECONDS])),
            window=draw(st.sampled_from([0, 60 * MICROSECONDS])),
        ),
        used=draw(st.dictionaries(st.from_regex(r"\Apod-[0-7]-[0-4]\Z"), st.integers(0, 64_000))),
    )


@thoroughly
@given(snapshots(), st.builds(Random, st.integers(0, 2**32)))
def test_the_same_jobs_in_any_order_give_the_same_plan(snapshot: Snapshot, random: Random) -> None:
    shuffled = list(snapshot.gangs)
    random.shuffle(shuffled)
    one, other = plan_classes(snapshot), plan_classes(replace(snapshot, gangs=shuffled))
    assert one.verdicts == other.verdicts
    assert one.protect == other.protect


@thoroughly
@given(snapshots())
def test_every_job_that_takes_part_gets_exactly_one_class(snapshot: Snapshot) -> None:
    verdicts = plan_classes(snapshot).verdicts
    assert [v.gang for v in verdicts] == [r.gang for r in rank(snapshot)]
    assert {v.gang.job.uid for v in verdicts} == {g.job.uid for g in snapshot.gangs if takes_part(g)}
    assert {v.class_ for v in verdicts} <= {PREEMPTIBLE, NON_PREEMPTIBLE}


@thoroughly
@given(snapshots(), st.integers(1, 64_000))
def test_who_used_more_is_no_earlier_a_victim(snapshot: Snapshot, more: int) -> None:
    for ranked in rank(snapshot):
        pods = {p.uid for p in ranked.gang.pods}
        raised = {uid: snapshot.used.get(uid, 64_000) + more for uid in pods}
        again = {r.gang.job.uid: r for r in rank(replace(snapshot, used={**snapshot.used, **raised}))}
        after = again.pop(ranked.gang.job.uid)
        assert after.risk >= ranked.risk
        assert ranked.gang.job.reclaimed or after.risk == ranked.risk
        assert all(r.risk == b.risk for b in rank(snapshot) if (r := again.get(b.gang.job.uid)) is not None)


@thoroughly
@given(snapshots(), percentages)
def test_a_higher_percentage_protects_nobody_more(snapshot: Snapshot, other: float) -> None:
    low, high = sorted([snapshot.share.percentage or 0.0, other])
    few = preemptible(plan_classes(replace(snapshot, share=published(low))))
    many = preemptible(plan_classes(replace(snapshot, share=published(high))))
    assert few <= many


@thoroughly
@given(snapshots())
def test_none_at_0_all_at_100_but_for_the_cordoned(snapshot: Snapshot) -> None:
    rules = replace(snapshot.rules, window=0)
    none = plan_classes(replace(snapshot, share=published(0), rules=rules))
    assert {v.gang.job.uid for v in none.verdicts if v.class_ == PREEMPTIBLE} == {
        v.gang.job.uid for v in none.verdicts if v.cordoned
    }
    every = plan_classes(replace(snapshot, share=published(100)))
    assert all(v.class_ == PREEMPTIBLE for v in every.verdicts)


@thoroughly
@given(snapshots())
def test_nobody_protected_has_less_at_risk_than_somebody_preemptible_elsewhere(snapshot: Snapshot) -> None:
    by_place = replace(snapshot, rules=replace(snapshot.rules, window=0))
    verdicts = [v for v in plan_classes(by_place).verdicts if not v.cordoned]
    preempted = [v.risk for v in verdicts if v.class_ == PREEMPTIBLE]
    protected = [v.risk for v in verdicts if v.class_ == NON_PREEMPTIBLE]
    assert max(preempted, default=0) <= min(protected, default=max(preempted, default=0))


@thoroughly
@given(snapshots())
def test_carried_out_once_there_is_nothing_left_to_write(snapshot: Snapshot) -> None:
    plan = plan_classes(snapshot)
    after = carried_out(plan, snapshot)
    again = plan_classes(after)
    assert again.writes == 0
    assert not again.changes
    assert [v.class_ for v in again.verdicts] == [v.class_ for v in plan.verdicts]


@thoroughly
@given(snapshots())
def test_after_the_plan_every_protected_pod_is_covered(snapshot: Snapshot) -> None:
    after = carried_out(plan_classes(snapshot), snapshot)
    for verdict in plan_classes(after).verdicts:
        for pod in verdict.gang.pods:
            if pod.live:
                assert pod.class_ == verdict.class_
        if verdict.class_ == NON_PREEMPTIBLE:
            assert (after.budgets or {}).get(verdict.gang.job.namespace)


@thoroughly
@given(snapshots())
def test_kept_classes_are_those_that_were(snapshot: Snapshot) -> None:
    """Regulator silent: what the last plan made of it stays, but for nodes cordoned since."""
    settled = carried_out(plan_classes(snapshot), snapshot)
    kept = plan_classes(replace(settled, share=replace(settled.share, percentage=None)))
    assert kept.writes == 0
    assert not kept.changes


@thoroughly
@given(snapshots())
def test_at_risk_is_capped_at_the_interval_and_the_startup_cost(snapshot: Snapshot) -> None:
    for r in rank(snapshot):
        used = snapshot.used if r.gang.job.reclaimed else {}
        cost = sum(used.get(p.uid, p.cost) for p in r.gang.pods if p.live or (p.finished and not r.gang.job.reclaimed))
        assert 0 <= r.risk <= cost * (r.gang.job.interval + snapshot.rules.startup_cost)


@thoroughly
@given(snapshots(), times)
def test_reporting_a_checkpoint_never_raises_the_time_at_risk(snapshot: Snapshot, checkpoint: int | None) -> None:
    """And so hiding one never lowers it: there is nothing to gain but protection by real work at risk."""
    if checkpoint is None:
        return
    reported = [alter(g, job=alter(g.job, checkpoints=(*g.job.checkpoints, checkpoint))) for g in snapshot.gangs]
    before = {r.gang.job.uid: r.risk for r in rank(snapshot)}
    after = {r.gang.job.uid: r.risk for r in rank(replace(snapshot, gangs=reported))}
    assert all(after[uid] <= before[uid] for uid in before)


@thoroughly
@given(snapshots(), st.integers(-(10**15), 10**15))
def test_a_clock_that_jumps_breaks_nothing(snapshot: Snapshot, jump: int) -> None:
    moved = replace(snapshot, now=max(0, snapshot.now + jump))
    plan = plan_classes(moved)
    assert all(v.risk >= 0 and v.start <= moved.now for v in plan.verdicts)
    assert plan_classes(carried_out(plan, moved)).writes == 0
