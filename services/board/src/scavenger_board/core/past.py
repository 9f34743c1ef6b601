"""The picture of a moment in the past, from what is still known of it, and a sentence for each thing that is not.

The API server keeps no history. Statuses of jobs that still exist say when they ran and were interrupted, Events of the
last hour what that cost; Prometheus has the figures of services, and of the levels this process has what it has seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from scavenger_api import names
from scavenger_api.levels import LevelsState
from scavenger_api.levels_text import DEFAULT_POOL
from scavenger_api.states import Phase
from scavenger_api.times import format_time
from scavenger_domain.queues import over_share

from scavenger_board.core.history import Point
from scavenger_board.core.levels import past_levels_row
from scavenger_board.core.nodes import fullest_first
from scavenger_board.core.picture import (
    AdmissionRow,
    EntryRow,
    JobRow,
    LevelsRow,
    NodeRow,
    Picture,
    PoolRow,
    QueueRow,
    ShareRow,
)
from scavenger_board.core.snapshot import Amounts, JobFacts, Snapshot
from scavenger_board.core.timeline import LEVELS, timeline

UNKNOWN_PHASE: Final = "Unknown"
PROMETHEUS: Final = "Prometheus recorded"

_STATES: Final = frozenset(state.value for state in LevelsState)


@dataclass(frozen=True, slots=True)
class RecordedPool:
    """What Prometheus says of a pool of nodes at a moment. None for what it does not say."""

    levels: Point | None = None
    admit: bool | None = None


@dataclass(frozen=True, slots=True)
class Recorded:
    """What Prometheus says of a moment. levels, admit: of the default pool; pools: of the others, by name. node_load:
    percent by node and resource, where the regulator has a level per node. problem: why it says nothing, or empty."""

    levels: Point | None = None
    admit: bool | None = None
    pools: Mapping[str, RecordedPool] = field(default_factory=dict)
    node_load: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    allocated: Mapping[str, Amounts] = field(default_factory=dict)
    deserved: Mapping[str, Amounts] = field(default_factory=dict)
    waiting_pods: int | None = None
    problem: str = ""


def picture_at(
    snapshot: Snapshot, at: datetime, *, levels_about: str, seen: Point | None, recorded: Recorded | None
) -> Picture:
    """What is known now of a moment. seen: levels that this process remembers. recorded: None without Prometheus."""
    entries = timeline(snapshot.jobs, snapshot.events, levels_about=levels_about)
    before = [entry for entry in entries if entry.at <= format_time(at)]
    jobs = sorted((row for job in snapshot.jobs if (row := _job(job, at)) is not None), key=lambda row: row.key)
    known = recorded or Recorded()
    levels = _levels(known.levels or seen, PROMETHEUS if known.levels else "the board has seen", before)
    return Picture(
        time=format_time(at),
        past=True,
        levels=levels,
        admission=_admission(known.admit, *(pool.admit for pool in known.pools.values())),
        services=[],
        nodes=_nodes(known.node_load),
        queues=_queues(jobs, known),
        jobs=jobs,
        timeline=before,
        waiting_pods=known.waiting_pods,
        unknown=_unknown(snapshot, at, levels, known, without=recorded is None),
        pools=_pools(levels, known),
    )


# --- jobs ---


def phase_at(job: JobFacts, at: datetime) -> tuple[str, datetime | None] | None:
    """The phase of a job at a moment, and since when; None before it was created.

    Starts that failed, and times of suspension, leave no trace: such a job is shown as Waiting, or in the
    phase that it had before. Unknown where the last twenty runs, which are all that is kept, are later.
    """
    if job.created is not None and job.created > at:
        return None
    if job.finished is not None and job.finished <= at:
        return job.phase, job.finished
    run = max((moment for moment in job.runs if moment <= at), default=None)
    end = max((moment for moment in job.interruptions if moment <= at), default=None)
    if run is None and end is None:
        cut = len(job.runs) >= names.MAX_RECENT_TIMESTAMPS or len(job.interruptions) >= names.MAX_RECENT_TIMESTAMPS
        return (UNKNOWN_PHASE, None) if cut else (Phase.WAITING.value, job.created)
    if run is not None and (end is None or run > end):
        return Phase.RUNNING.value, run
    return Phase.INTERRUPTED.value, end


def _job(job: JobFacts, at: datetime) -> JobRow | None:
    found = phase_at(job, at)
    if found is None:
        return None
    phase, since = found
    return JobRow(
        key=job.key,
        queue=job.queue,
        phase=phase,
        since=format_time(since) if since is not None else None,
        says="",
        interrupted=sum(moment <= at for moment in job.interruptions),
        cpu=job.cpu * job.pods,
        memory=job.memory * job.pods,
        pods=job.pods,
        reclaimed=job.reclaimed,
    )


def _queues(jobs: list[JobRow], known: Recorded) -> list[QueueRow]:
    counts: dict[str, Counter[str]] = {}
    for row in jobs:
        counts.setdefault(row.queue, Counter())[row.phase.lower()] += 1
    rows = []
    for name in sorted({*counts, *known.deserved, *known.allocated}):
        allocated, deserved = known.allocated.get(name), known.deserved.get(name)
        by_phase = counts.get(name, Counter())
        rows.append(
            QueueRow(
                name=name,
                state="",
                weight=None,
                jobs=dict(by_phase),
                allocated=dict(allocated) if allocated is not None else None,
                deserved=dict(deserved) if deserved is not None else None,
                over=over_share(allocated or {}, deserved) if deserved is not None else None,
                line=[],
                in_line=by_phase["waiting"] + by_phase["interrupted"],
            )
        )
    return rows


# --- levels and nodes ---


def _levels(point: Point | None, source: str, before: list[EntryRow]) -> LevelsRow:
    if point is not None:
        return past_levels_row(dict(point.resources), point.state, source)
    states = (entry.cause for entry in before if entry.kind == LEVELS and entry.cause in _STATES)
    return past_levels_row({}, next(states, ""), "")


def _pools(levels: LevelsRow, known: Recorded) -> list[PoolRow]:
    """Of all pools, the default pool first; none where it is the only one. How many nodes they had is not kept."""
    if not known.pools:
        return []
    others = ((name, _levels(one.levels, PROMETHEUS, []), one.admit) for name, one in known.pools.items())
    rows = ((DEFAULT_POOL, levels, known.admit), *others)
    return [PoolRow(name, None, row, _admission(admit)) for name, row, admit in rows]


def _admission(*admits: bool | None) -> AdmissionRow:
    """admits: of each pool of nodes."""
    if all(one is None for one in admits):
        return AdmissionRow(None, "It is not known whether jobs could start.")
    if any(admits):
        return AdmissionRow(True, "The regulator let new jobs start.")
    return AdmissionRow(False, "The regulator let no new jobs start.")


def _nodes(load: Mapping[str, Mapping[str, float]]) -> list[NodeRow]:
    return fullest_first(
        NodeRow(name, "", ShareRow(load=found.get("cpu")), ShareRow(load=found.get("memory")))
        for name, found in load.items()
    )


# --- what is not known ---


def _unknown(snapshot: Snapshot, at: datetime, levels: LevelsRow, known: Recorded, *, without: bool) -> list[str]:
    said = ["Deleted jobs are missing. Why a job waited, and its place in the queue, is not recorded."]
    oldest = min((event.at for event in snapshot.events), default=None)
    if oldest is None:
        said.append("There are no Events, so it is not known for which pods jobs left, and what they lost.")
    elif oldest > at:
        said.append(
            f"The oldest Event is of {format_time(oldest)}. Before it, it is not known for which pods jobs left, and "
            "what they lost."
        )
    if without:
        said.append(
            "No Prometheus is configured (--prometheus-url), so shares of queues and loads of nodes are not known."
        )
    elif known.problem:
        said.append(f"Prometheus does not answer: {known.problem}.")
    if levels.above is None:
        said.append("The load is not known: the board had not started, and Prometheus has no measurement.")
    if not known.node_load:
        said.append("The pods of each node are not recorded, and there is no load of each node (regulator --per-node).")
    return said
