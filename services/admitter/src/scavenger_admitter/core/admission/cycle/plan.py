"""The admission cycle: which waiting jobs start now, and why the others do not.

A pure function of one snapshot. The recipe:

  1. Take the free capacity of every node: allocatable less what the pods bound to it request.
  2. Give capacity to regular pods that wait for a node, in the order the scheduler takes them: those with a nominated
     node there, the others on the best place they fit, as far as nodes are not barred to them (`pending.py`) and for
     no longer than `held_capacity.py` says. Starting a job only to have it preempted a second later is pure loss.
  3. Give capacity to starts under way, whose pods are not bound yet.
  4. Judge the jobs of queues that are not open, or not to their namespace: they wait. Jobs whose capacity was kept for
     them since they were interrupted (`kept_room.py`) are looked at before all others, by the rules of step 5. What is
     kept for regular pods that may come (`scavenger_domain.expected_pods`) is not there for all the others.
     Then the job whose turn is kept in a pool (`turns.py`) starts, or the capacity and load that it needs are kept
     for it.
  5. *Shares.* Take the open queue that is most under-served (dominant share of what is allocated to it / weight; then
     the greater weight, then the name) and go down the queue (most interrupted first, then first in, first out; in
     queues with turns between namespaces, the jobs of the namespace that is most under-served first) to the first job
     that fits. Each start of a task of an array uses up a place (`lines.py`):
       a. it is not held back: no pod of its last run alive, its delay over;
       b. it would fit the cluster if that were empty;
       c. its queue's quota allows it;
       d. its queue stays within its share with it (`shares.py`); otherwise it is left to step 7;
       e. the load of the pool of nodes that it starts in stays under the admission threshold, strictly, for every
          resource;
       f. every pod of the gang has a place: in one pool, else over as many as it takes.
     One that does not fit does not block those behind it. Where only (e) or (f) fails, and pods that are terminating
     free enough, their capacity is promised to it (`cycle_usage.py`). Take the capacity of what was chosen, count it in
     load and queue. Go on until every queue has been gone through, or the limit of starts per cycle is reached.
  6. *Fair-share preemption* (`fair_share_preemption.py`). For jobs that step 5 left without capacity: which running
     jobs of queues over their share have to go. What is free and what they free is promised to those jobs.
  7. *Backfill.* What then is left goes to jobs beyond their queue's share, in the order of step 5.
  8. *Starvation* (`starvation.py`). Where the CPU use of jobs on reclaimed capacity was just measured: which of them
     get too little and go. Capacity that no other job wants would serve them better.

Capacity and load only get worse within a cycle, so what was refused once is refused for every equal job, unasked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from scavenger_api.reasons import WaitReason
from scavenger_api.times import EPOCH, format_time
from scavenger_domain.soundness import CHECKS

from scavenger_admitter.core.admission.cycle.cycle_usage import CycleUsage
from scavenger_admitter.core.admission.cycle.fair_share_preemption import (
    FairSharePreemption,
    PreemptionRules,
    plan_preemptions,
)
from scavenger_admitter.core.admission.cycle.lines import Lines, put_behind
from scavenger_admitter.core.admission.cycle.share_waits import beyond_share, promised_room
from scavenger_admitter.core.admission.cycle.soundness import assert_sound
from scavenger_admitter.core.admission.cycle.starvation import (
    MeasuredJob,
    StarvationPlan,
    StarvationRules,
    plan_starvation,
)
from scavenger_admitter.core.admission.cycle.turns import NEVER, PATIENCE, Overdue, turn_kept
from scavenger_admitter.core.admission.placement.headroom import ANYWHERE, Target
from scavenger_admitter.core.admission.queue_access import why_barred
from scavenger_admitter.core.admission.shape import Shape
from scavenger_admitter.core.admission.shares import QueueShare
from scavenger_admitter.core.admission.snapshot import Candidate, Snapshot, Turn
from scavenger_admitter.core.waits import Wait

MOST_PODS_PER_CYCLE: Final = 5_000
"""A cycle that has started so many pods is over: each of them takes its place on a node, and gangs may be large."""


@dataclass(frozen=True, slots=True)
class Start:
    """A job to start now.

    Attributes:
        candidate: the job.
        nodes: the planned node of each pod; the scheduler decides within `target`, but this capacity is taken.
        load_ppm: load per limited resource with this job, in millionths of allocatable; for the log.
        target: where its pods may go, as the scheduler does not know which nodes have no capacity.
    """

    candidate: Candidate
    nodes: tuple[str, ...]
    load_ppm: tuple[tuple[str, int], ...] = ()
    target: Target = ANYWHERE

    @property
    def key(self) -> str:
        """namespace/name of the job."""
        return self.candidate.key


@dataclass(frozen=True, slots=True)
class AdmissionPlan:
    """What a cycle decided: every waiting job is either in `starts` or in `held`.

    Attributes:
        starts: jobs to start, in the order they were chosen.
        held: why the others wait, by job.
        preemptions: running jobs to interrupt, as their queues have more than they deserve and others wait.
        shares: what each queue has and deserves.
        truncated: the limit of starts, or of their pods, was reached; another cycle right away may start more.
        unserved: jobs within their queue's share wait for capacity, promised or not, or gangs for their turn to be
            looked at, or jobs while capacity is held for regular pods; time alone may change which jobs are asked.
        starvation: who gets too little CPU and goes; None when that was not looked at.
        promised: regular pods that free capacity is held for until they take it.
        turns: whose turns are kept from now on (`turns.py`), one at most in each pool.
    """

    starts: tuple[Start, ...]
    held: Mapping[str, Wait]
    preemptions: tuple[FairSharePreemption, ...] = ()
    shares: Mapping[str, QueueShare] = field(default_factory=dict)
    truncated: bool = False
    unserved: bool = False
    starvation: StarvationPlan | None = None
    promised: tuple[str, ...] = ()
    turns: tuple[Turn, ...] = ()


@dataclass(frozen=True, slots=True)
class Measurement:
    """What is looked at for starvation.

    Attributes:
        jobs: what the running jobs on reclaimed capacity used.
        before: what came of it when this was last looked at.
        rules: see there.
        moving: jobs that were interrupted as starved, and have not started again.
    """

    jobs: tuple[MeasuredJob, ...]
    before: StarvationPlan = field(default_factory=StarvationPlan)
    rules: StarvationRules = field(default_factory=StarvationRules)
    moving: tuple[Candidate, ...] = ()


def plan_admissions(
    snapshot: Snapshot,
    *,
    max_starts_per_cycle: int | None = None,
    rules: PreemptionRules | None = None,
    measurement: Measurement | None = None,
    patience: int | None = PATIENCE,
    arrays_keep_place: bool = False,
) -> AdmissionPlan:
    """Decide who starts, and who has to go for it; see the recipe at the top.

    Args:
        snapshot: what the cluster looks like.
        max_starts_per_cycle: most jobs to start in one cycle; None for no limit.
        rules: of fair-share preemption; None for the defaults.
        measurement: what was measured since the last cycle; None when nothing was.
        patience: microseconds that a job waits before its turn may be kept; None: no turn is.
        arrays_keep_place: whether an array keeps its place in the queue while its tasks start; else each start uses up
            one.
    """
    cycle = _Cycle(snapshot, max_starts_per_cycle, patience, arrays_keep_place=arrays_keep_place)
    cycle.hold_jobs_of_queues_not_open()
    cycle.start_again()
    cycle.leave_room()
    cycle.keep_turns(rules or PreemptionRules())
    cycle.admit_within_shares()
    cycle.preempt(rules or PreemptionRules())
    cycle.backfill()
    cycle.find_starved(measurement)
    plan = cycle.plan()
    if CHECKS.on:
        assert_sound(plan, snapshot, max_starts_per_cycle, arrays_keep_place=arrays_keep_place)
    return plan


@dataclass(slots=True)
class _Start:
    """What a job, or tasks of an array, are given in a cycle."""

    candidate: Candidate
    nodes: list[str] = field(default_factory=list)
    load_ppm: tuple[tuple[str, int], ...] = ()


class _Cycle:
    """State of one cycle: what is left to give, and what became of whom."""

    def __init__(
        self, snapshot: Snapshot, max_starts: int | None, patience: int | None, *, arrays_keep_place: bool
    ) -> None:
        self._snapshot = snapshot
        self._arrays_keep_place = arrays_keep_place
        self._left = max_starts
        self._usage = CycleUsage(snapshot)
        self._table = self._usage.shares.table(known=snapshot.shut is None)
        self._usage.reserve_pending_pods()
        self._usage.reserve_starts_under_way()
        self._starts: dict[str, _Start] = {}
        self._served: Counter[str] = Counter()  # tasks of arrays, by job: started, or promised capacity
        self._held: dict[str, Wait] = {}
        self._preemptions: tuple[FairSharePreemption, ...] = ()
        self._outcomes: dict[tuple[str, Shape, int], Wait] = {}
        self._refused: dict[tuple[str, int, int], _Refusal] = {}
        self._short: list[Candidate] = []
        self._beyond: dict[str, list[Candidate]] = {}
        self._granted = 0
        self._pods = 0
        self._truncated = False
        self._unserved = False
        self._starvation: StarvationPlan | None = None
        before = NEVER if patience is None else snapshot.now - patience
        self._overdue = Overdue(before, ("", *snapshot.pools), self._usage.pools_of)
        self._turns_kept: list[Turn] = []

    def plan(self) -> AdmissionPlan:
        turns = (*self._turns_kept, *self._overdue.next_turns(self._will_fit))
        # Of an array that starts, the other tasks wait for nothing.
        for key in self._served.keys() & self._starts.keys():
            self._held.pop(key, None)
        return AdmissionPlan(
            starts=tuple(self._as_start(start) for start in self._starts.values()),
            held=self._held,
            preemptions=self._preemptions,
            shares=self._table,
            truncated=self._truncated,
            unserved=self._unserved or self._usage.gangs.postponed > 0 or bool(self._held and self._snapshot.pending),
            starvation=self._starvation,
            promised=self._usage.room.promised,
            turns=turns,
        )

    def _will_fit(self, late: Candidate) -> bool:
        """Whether a job that was refused capacity has not been served since, and will fit when scavenger pods leave."""
        return self._held[late.key].reason in _LACKS_ROOM and self._usage.places_in_time(late) is not None

    # --- step 4 ---

    def hold_jobs_of_queues_not_open(self) -> None:
        for name, line in self._snapshot.candidates.items():
            queue = self._snapshot.queues.get(name)
            closed: dict[str, Wait | None] = {}
            for candidate in line if queue is None or queue.bars_some else ():
                namespace = candidate.namespace
                if namespace not in closed:
                    closed[namespace] = why_barred(candidate, queue)
                hold = closed[namespace]
                if hold is not None:
                    self._held[candidate.key] = self._held_back(candidate) or self._usage.never(candidate) or hold

    def start_again(self) -> None:
        for candidate in self._snapshot.returning:
            if self._full():
                return
            if why_barred(candidate, self._snapshot.queues.get(candidate.queue)) or self._held_back(candidate):
                continue
            found = self._judge(candidate) or self._usage.start(candidate)
            if not isinstance(found, Wait):
                self._start(candidate, found)

    def leave_room(self) -> None:
        self._usage.reserve_for_regular_pods_that_may_come()

    def keep_turns(self, rules: PreemptionRules) -> None:
        turns = self._snapshot.turns if self._overdue.before != NEVER else ()
        for turn in turns:
            if self._full():
                return
            self._keep_turn(turn, rules)

    def _keep_turn(self, turn: Turn, rules: PreemptionRules) -> None:
        candidate = turn.candidate
        if why_barred(candidate, self._snapshot.queues.get(candidate.queue)) or self._held_back(candidate):
            return
        found = self._judge(candidate) or self._usage.start(candidate)
        if not isinstance(found, Wait):
            self._start(candidate, found)
        elif self._overdue.may_keep(candidate):
            kept = self._keep(turn, found, rules)
            if kept is not None:
                self._overdue.keep(candidate)
                self._turns_kept.append(kept)
                self._unserved = True

    def _keep(self, turn: Turn, lack: Wait, rules: PreemptionRules) -> Turn | None:
        """Promise the job the capacity of pods that leave or that give its queue its share back; else keep its turn.
        Where nothing may start for now, the turn stays as it is."""
        candidate = turn.candidate
        if lack.reason in _SHUT:
            self._held[candidate.key] = lack
            return turn
        if lack.reason not in _LACKS_ROOM:
            return None
        promised = self._usage.promise(candidate)
        if not promised and self._usage.shares.contested and not self._preemptions:  # one search in a cycle
            self._preemptions, served = plan_preemptions(self._snapshot, self._usage, [candidate], rules)
            promised = bool(served)
        if promised:
            self._held[candidate.key] = promised_room(self._usage.shares, candidate)
            return turn
        nodes = self._usage.keep_turn(candidate, turn.nodes)
        if nodes is None:
            return None
        self._held[candidate.key] = turn_kept(candidate, nodes, lack)
        return Turn(candidate, nodes)

    # --- step 5 ---

    def admit_within_shares(self) -> None:
        queues = self._snapshot.queues
        lines: dict[str, Sequence[Candidate]] = {
            n: queues[n].admits(line) for n, line in self._snapshot.candidates.items() if n in queues
        }
        served = [start.candidate for start in self._starts.values()]
        served += [turn.candidate for turn in self._turns_kept]
        for one in served:
            rest = [candidate for candidate in lines[one.queue] if candidate.key != one.key]
            if self._has_more(one):
                put_behind(rest, one)
            lines[one.queue] = rest
        turns = self._lines(lines)
        for line in self._turns(turns):
            served_one = self._admit_first(line)
            if served_one is not None and self._has_more(served_one):
                turns.put_back(served_one)

    def _admit_first(self, line: Iterator[Candidate]) -> Candidate | None:
        """Go down a queue to the first job that starts within its queue's share, or is promised capacity. Those on the
        way there are left waiting, or to step 7."""
        now, blocked, refused, held = self._snapshot.now, self._snapshot.blocked, self._refused, self._held
        overdue_before = self._overdue.before
        for candidate in line:
            if candidate.not_before > now or candidate.key in blocked:
                hold = self._held_back(candidate)
                assert hold is not None
                held[candidate.key] = hold
                continue
            # Hashing a shape is a call, and thousands of jobs share one object, which the snapshot keeps alive.
            seen = (candidate.queue, id(candidate.shape), candidate.parallelism)
            refusal = refused.get(seen)
            if refusal is None:
                refusal = self._refuse(candidate)
                if refusal is None:
                    return candidate
                refused[seen] = refusal
            wait, later = refusal
            if later is not None:
                later.append(candidate)
            if wait is not _BEYOND:
                held[candidate.key] = wait
                if candidate.queued_at < overdue_before:
                    overdue_before = self._note_overdue(candidate, wait)
        return None

    def _note_overdue(self, candidate: Candidate, wait: Wait) -> int:
        """A job that has waited for long is refused; before when the next one of interest must have been queued."""
        if wait.reason in _LACKS_ROOM:
            self._overdue.note(candidate)
        return self._overdue.before

    def _refuse(self, candidate: Candidate) -> _Refusal | None:
        """Why no job of a job's kind starts in this step any more; None when it starts, or is promised capacity."""
        kind = (candidate.queue, candidate.shape, candidate.parallelism)
        wait = self._outcomes.get(kind) or self._judge(candidate) or self._give(candidate)
        if wait is None:
            return None
        self._outcomes[kind] = wait
        if wait is _BEYOND:
            return wait, self._beyond.setdefault(candidate.queue, [])
        return wait, self._short if self._usage.shares.contested and wait.reason in _LACKS_ROOM else None

    def _judge(self, candidate: Candidate) -> Wait | None:
        """Why a job of an open queue cannot start, as far as that does not depend on free capacity."""
        hold = self._usage.never(candidate) or self._snapshot.shut or self._usage.quotas.refusal(candidate)
        if hold is None and not self._usage.shares.within(candidate.queue, candidate.shape, candidate.parallelism):
            hold = _BEYOND
        return hold

    def _held_back(self, candidate: Candidate) -> Wait | None:
        hold = self._snapshot.blocked.get(candidate.key)
        if hold is None and candidate.not_before > self._snapshot.now:
            at = format_time(EPOCH + timedelta(microseconds=candidate.not_before))
            return Wait(WaitReason.BACKING_OFF, f"its last start failed; tried again from {at} on", at)
        return hold

    def _give(self, candidate: Candidate) -> Wait | None:
        """Start a job, or promise it the capacity of pods that leave; or why neither can be."""
        found = self._usage.start(candidate)
        if not isinstance(found, Wait):
            self._start(candidate, found)
            return None
        if self._usage.promise(candidate):
            self._unserved = True
            self._held[candidate.key] = promised_room(self._usage.shares, candidate)
            self._count(candidate)
            return None
        return found

    def _start(self, candidate: Candidate, nodes: tuple[str, ...]) -> None:
        self._overdue.passed_in(self._usage.by_pool(nodes))
        start = self._starts.setdefault(candidate.key, _Start(candidate))
        start.nodes += nodes
        start.load_ppm = self._usage.limits.ppm()
        self._granted += 1
        self._pods += len(nodes)
        self._count(candidate)

    def _as_start(self, start: _Start) -> Start:
        seen, candidate, nodes = self._snapshot, start.candidate, tuple(start.nodes)
        tested = bool(seen.tested and not seen.tested.isdisjoint(nodes))
        target = seen.headroom.target(
            candidate.shape,
            nodes,
            seen.closed_nodes,
            pinned=seen.packs or tested or bool(seen.expected) or self._usage.pinned(candidate),
            shunned=self._not_for(candidate, nodes) if seen.tested or candidate.shape.avoids else seen.shunned,
        )
        return Start(candidate, nodes, start.load_ppm, target)

    def _not_for(self, candidate: Candidate, nodes: tuple[str, ...]) -> frozenset[str]:
        """The nodes that start no pods of a job for now, or are to be tested by another start."""
        seen = self._snapshot
        return seen.shunned.union(seen.tested.difference(nodes), candidate.shape.avoids)

    def _count(self, candidate: Candidate) -> None:
        """One more task of an array has been served."""
        if candidate.tasks:
            self._served[candidate.key] += 1

    def _has_more(self, candidate: Candidate) -> bool:
        """Whether tasks of an array are left to serve."""
        return self._served[candidate.key] < candidate.tasks

    # --- step 6 ---

    def preempt(self, rules: PreemptionRules) -> None:
        if self._truncated or self._preemptions or self._snapshot.shut is not None:  # one search in a cycle
            return
        self._preemptions, promised = plan_preemptions(self._snapshot, self._usage, self._short, rules)
        self._unserved |= self._usage.shares.contested and bool(self._short)
        for candidate in promised:
            self._held[candidate.key] = promised_room(self._usage.shares, candidate)
        if promised:
            self._tell_who_is_beyond_now({candidate.key for candidate in promised})

    def _tell_who_is_beyond_now(self, promised: Set[str]) -> None:
        """With what was promised to others of their queue, jobs may have become too much for its share."""
        told: dict[tuple[str, Shape, int], Wait] = {}
        shares = self._usage.shares
        for candidate in self._short:
            kind = (candidate.queue, candidate.shape, candidate.parallelism)
            if candidate.key not in promised and not shares.within(*kind):
                if kind not in told:
                    told[kind] = beyond_share(shares, candidate, self._held[candidate.key])
                self._held[candidate.key] = told[kind]

    # --- step 7 ---

    def backfill(self) -> None:
        refused: dict[tuple[str, Shape, int], Wait] = {}
        turns = self._lines(self._beyond)
        for line in self._turns(turns):
            for candidate in line:
                kind = (candidate.queue, candidate.shape, candidate.parallelism)
                if kind not in refused:
                    found = self._usage.quotas.refusal(candidate) or self._usage.start(candidate)
                    if not isinstance(found, Wait):
                        self._start(candidate, found)
                        if self._has_more(candidate):
                            turns.put_back(candidate)
                        break
                    refused[kind] = beyond_share(self._usage.shares, candidate, found)
                self._held[candidate.key] = refused[kind]

    # --- step 8 ---

    def find_starved(self, measurement: Measurement | None) -> None:
        if measurement is None or self._truncated:  # who was not looked at yet has the first claim to what is free
            return
        gone, started = {preemption.key for preemption in self._preemptions}, self._starts.keys()
        jobs = [job for job in measurement.jobs if job.key not in gone]
        moving = [candidate for candidate in measurement.moving if candidate.key not in started]
        self._starvation = plan_starvation(
            self._snapshot, self._usage, jobs, measurement.before, measurement.rules, moving
        )

    # --- turns ---

    def _lines(self, lines: Mapping[str, Iterable[Candidate]]) -> Lines:
        queues = self._snapshot.queues
        return Lines.of(self._usage.shares, queues, lines, arrays_keep_place=self._arrays_keep_place)

    def _full(self) -> bool:
        """Whether this cycle has started as much as one may."""
        return self._pods >= MOST_PODS_PER_CYCLE or (self._left is not None and self._granted >= self._left)

    def _turns(self, turns: Lines) -> Iterator[Iterator[Candidate]]:
        """The jobs of the most under-served queue that still has jobs to look at, again and again. A job that is left
        when the limit of starts is reached waits for the next cycle."""
        while (line := turns.next()) is not None:
            if self._full():
                self._truncated = True
                self._held.update((candidate.key, _NEXT_CYCLE) for candidate in line)
            else:
                yield line


# --- sentences ----------------------------------------------------------------------------------------------

_Refusal = tuple[Wait, list[Candidate] | None]  # why jobs of a kind wait, and where a later step looks for them
_SHUT = frozenset({WaitReason.BLIND, WaitReason.ADMIT_FALSE})
_LACKS_ROOM = frozenset({WaitReason.NO_PLACE, WaitReason.NO_HEADROOM, WaitReason.ADMISSION_LEVEL})
_BEYOND = Wait(WaitReason.QUEUE_SHARE, "it would be beyond its queue's share")  # until step 7 has had its say
_NEXT_CYCLE = Wait(
    WaitReason.NEXT_CYCLE, "as many jobs as may start at once are starting; the next turn follows at once"
)
