"""Fair-share preemption: which running jobs give a queue its share back. A pure step of the admission cycle.

A queue within its share has a job waiting that does not fit. Jobs of queues over their share are interrupted for it,
under these rules:

  1. Jobs of one pod, and with `gangs` whole gangs that run with all their pods, but for those that have finished.
  2. Never below the donor's own share: its dominant share stays at what it deserves, or above.
  3. A job at most once per `period`, counted from its last interruption, whatever that was. The status tells it after
     any restart. A job that has just been interrupted for another reason is spared as well. With `minimum_run` it is
     spared for a checkpoint interval after it came back, too.
  4. Only if the waiting job then really fits: every pod has a place on a node, after the regular pods that wait. The
     load stays under its threshold.
  5. For no job whose start has failed since others were interrupted for it (`futile.py`).
  6. Preemptible ones first, then least unsaved CPU time, then the most recently started, then by uid.

No ping-pong: a queue that gets capacity by preemption stays within its share (or it would not have been its turn). No
queue can take from one that is not over its share. So what was given back is not taken back while weights and demand
are the same.

Preemption exchanges jobs. It does not bring the load down. Load above the threshold, beyond what the waiting job
requests, is for the regulator to judge. Where that would have to go first, no job is interrupted here.

How victims are found is in `victim_search.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from scavenger_api.weights import DEFAULT_WEIGHTS, Weights
from scavenger_domain.gang import STARTUP_COST, TRUSTED, short_run

from scavenger_admitter.core.admission.cycle.cycle_usage import CycleUsage
from scavenger_admitter.core.admission.cycle.lines import Lines
from scavenger_admitter.core.admission.cycle.victim_search import MAX_LOOKS, Victim, VictimSearch
from scavenger_admitter.core.admission.futile import Tries
from scavenger_admitter.core.admission.placement.headroom import beside
from scavenger_admitter.core.admission.running import Gang, RunningJob
from scavenger_admitter.core.admission.shape import Requests, Shape
from scavenger_admitter.core.admission.shares import Shares
from scavenger_admitter.core.admission.snapshot import Candidate, Snapshot
from scavenger_admitter.core.admission.units import SECOND

MAX_KINDS: Final = 16
"""Different waiting gangs (shape and size) for which victims are sought in one cycle; the others have their turn in
later ones."""
MAX_GANGS: Final = 200
"""Waiting jobs for which capacity is freed in one cycle."""


@dataclass(frozen=True, slots=True)
class PreemptionRules:
    """How often, and what a restart costs.

    Attributes:
        period: a job is not preempted within this many microseconds of its last interruption.
        startup_cost: microseconds that a restart costs each of its cores.
        trusted: the longest interval that is taken at its word, microseconds (`scavenger_domain.gang`).
        weights: of resources, in unsaved work.
        minimum_run: whether a job that came back is left in peace for a checkpoint interval.
        gangs: whether jobs of several pods are interrupted as well.
    """

    period: int = 600 * SECOND
    startup_cost: int = STARTUP_COST
    trusted: int = TRUSTED
    weights: Weights = DEFAULT_WEIGHTS
    minimum_run: bool = False
    gangs: bool = False

    def spare(self, job: RunningJob, now: int) -> bool:
        """Whether a running job is not interrupted at `now`, microseconds since the epoch, whatever its unsaved
        work."""
        if job.parallelism > 1 and not self.gangs:
            return True
        interrupted = job.interrupted_at
        if interrupted and abs(now - interrupted) < self.period:
            return True
        return self.minimum_run and interrupted > 0 and short_run(job.started, job.interval, now, self.trusted)


@dataclass(frozen=True, slots=True)
class FairSharePreemption:
    """A running job to interrupt.

    Attributes:
        gang: the job, and the capacity it has.
        queue: whose share is given back.
        waiting: namespace/name of the job that the capacity is for.
        risk: its unsaved work (`scavenger_domain.gang.AtRisk.cost`).
    """

    gang: Gang
    queue: str
    waiting: str
    risk: int

    @property
    def key(self) -> str:
        """namespace/name of the job that goes."""
        return self.gang.job.key


def plan_preemptions(
    snapshot: Snapshot, usage: CycleUsage, short: Sequence[Candidate], rules: PreemptionRules
) -> tuple[tuple[FairSharePreemption, ...], tuple[Candidate, ...]]:
    """The victims, and for which waiting jobs; their capacity is promised in the usage.

    Args:
        snapshot: of the cycle.
        usage: what the cycle has left to give.
        short: jobs within their queue's share that lack capacity or load and nothing else, in the order of their
            queues.
        rules: see there.
    """
    tries = Tries(snapshot.futile)
    short = tries.allowed(short)
    if not short or not usage.shares.contested:
        return (), ()
    victims = _victims(snapshot, usage.shares, rules)
    if not victims:
        return (), ()
    search = VictimSearch(snapshot, usage, victims)
    preemptions: list[FairSharePreemption] = []
    served: list[Candidate] = []
    lines: dict[str, list[Candidate]] = {}
    kinds = _kinds(short, snapshot)
    for candidate in short:
        if (candidate.shape, candidate.parallelism) in kinds:
            lines.setdefault(candidate.queue, []).append(candidate)
    turns = Lines.of(usage.shares, snapshot.queues, lines)
    while len(served) < MAX_GANGS and (line := turns.next()) is not None:
        for candidate in line:
            chosen = search.serve(candidate) if tries.allows(candidate) else None
            if chosen is not None:
                tries.made(candidate)
                preemptions += [FairSharePreemption(v.gang, candidate.queue, candidate.key, v.risk) for v in chosen]
                served.append(candidate)
                break
    return tuple(preemptions), tuple(served)


def _victims(snapshot: Snapshot, shares: Shares, rules: PreemptionRules) -> list[Victim]:
    """Who may go at all, in the order of rule 6."""
    over = {name for name in snapshot.queues if shares.over(name)}
    keeps: dict[tuple[str, Requests, int], bool] = {}
    found = []
    for gang in snapshot.gangs:
        job = gang.job
        if job.queue not in over or rules.spare(job, snapshot.now):
            continue
        kind = (job.queue, gang.requests, len(gang.nodes))
        if kind not in keeps:  # rule 2; within a cycle a donor only ever has less to spare
            keeps[kind] = shares.keeps(job.queue, gang.takes)
        if keeps[kind]:
            risk = gang.risk(snapshot.now, rules.startup_cost, rules.trusted, rules.weights)
            order = (not job.preemptible, risk, -job.started, job.uid)
            found.append(Victim(gang, risk, order, _frees(gang, snapshot)))
    found.sort(key=lambda victim: victim.order)
    return found


def _frees(gang: Gang, snapshot: Snapshot) -> Requests:
    """What each of its pods frees on its node: its requests, and where nodes have levels of their own what it uses."""
    if not snapshot.headroom.left:
        return gang.requests
    shown = snapshot.shown.on_node(gang.requests, gang.job.started // SECOND)
    return beside(gang.requests, shown.items())


def _kinds(short: Iterable[Candidate], snapshot: Snapshot) -> set[tuple[Shape, int]]:
    """The kinds of gangs that have their turn in this cycle."""
    kinds = list(dict.fromkeys((candidate.shape, candidate.parallelism) for candidate in short))
    turn, odd = divmod(snapshot.now // SECOND, 2)
    if odd and len(kinds) * len(snapshot.nodes) > MAX_LOOKS:
        # Every other second, so that those for which nothing can be done do not stand before the others for ever.
        kinds = kinds[turn % len(kinds) :]
    return set(kinds[:MAX_KINDS])
