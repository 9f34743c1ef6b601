"""From gangs and a measurement to candidates, and to what is leaving already."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta

from scavenger_domain.requests import above_request

from scavenger_regulator.core.eviction.plan import Candidate
from scavenger_regulator.core.eviction.risk import Risk, RiskRules, at_risk, promised
from scavenger_regulator.core.load import Fresh, Reading, Trust
from scavenger_regulator.core.metrics.metric import GIVES_WAY, RESOURCES, SORT
from scavenger_regulator.core.snapshot import Figures, Gang, Measurement, PodFacts, RecentTermination, Snapshot

STUCK_AFTER = timedelta(seconds=60)
"""A pod still there this long after its deletion's deadline is stuck: no longer counted as leaving, so that
it cannot keep others from being asked, and no longer asked itself."""


def leaving(gang: Gang, now: datetime) -> bool:
    """Whether a pod of the gang is on its way out, and so, as gangs are cancelled whole, all of it."""
    deadlines = [pod.deletion_deadline for pod in gang.pods if pod.deletion_deadline is not None]
    return bool(deadlines) and now <= max(deadlines) + STUCK_AFTER


def candidates(
    gangs: Iterable[Gang],
    reading: Reading,
    snapshot: Snapshot,
    trust: Trust,
    *,
    risk: RiskRules,
    taken: Collection[str],
) -> list[Candidate]:
    """The gangs with a pod that stays on a measured node, but for those whose UIDs are in `taken` (chosen a moment ago)
    and those whose eviction was refused or keeps failing. gangs: of the snapshot, all or some.

    What a gang frees of a resource is the measured use of its pods on those nodes, in points of firm load. Pods without
    a fresh figure count with nothing, so that it is the least the gang frees: of a large gang there is always one.
    Where no pod has a figure, nothing is known. CPU on reclaimed capacity is not in that load and frees nothing.
    risk: as in `risk.at_risk`.
    """
    now, refused, failed = snapshot.now, snapshot.refused, snapshot.failed
    fresh = Fresh(now, trust)
    added = [metric for metric in reading.load if metric not in RESOURCES]
    found = []
    for gang in gangs:
        if gang.uid in taken or gang.uid in refused or gang.uid in failed or leaving(gang, now):
            continue
        staying = [pod for pod in gang.pods if pod.deletion_deadline is None]
        here = [pod for pod in staying if pod.node in reading.nodes]
        if not here:
            continue
        measured = _measured(here, snapshot.measurement)
        frees = {
            resource: reading.percent(resource, use)
            for resource in reading.load
            if (use := _use(measured, resource, fresh)) is not None
        }
        lost = at_risk(gang, now, risk, snapshot.cpu_time)
        if gang.stopping:  # its user has given it up: nothing of it is lost by going now
            lost = Risk(0.0, lost.since, lost.started, lost.next_checkpoint)
        of_limit = _used_of_limit(here, snapshot.measurement, fresh)
        keeps = not gang.stopping and promised(gang, lost.started, now, risk)
        over = _over_request(here, measured, reading.load, fresh)
        sort = sort_figures([figures for _, figures in measured], added, fresh) if added else {}
        found.append(Candidate(gang, lost, frees, gang.preemptible, of_limit, keeps, over, sort))
    return found


_Measured = list[tuple[bool, Figures]]
"""Of pods, whether they are on reclaimed capacity, and their figures."""


def _measured(pods: Iterable[PodFacts], measurement: Measurement) -> _Measured:
    return [(pod.reclaimed, measurement.of(pod)) for pod in pods]


def _use(pods: _Measured, resource: str, fresh: Fresh) -> float | None:
    """Cores or bytes of the firm load that these pods use at the least; None where none of them has a fresh figure."""
    known = [
        figure.value
        for reclaimed, figures in pods
        if not (reclaimed and resource in GIVES_WAY)
        and (figure := figures.get(resource)) is not None
        and fresh.has(figure)
    ]
    if known:
        return sum(known)
    return 0.0 if all(reclaimed and resource in GIVES_WAY for reclaimed, _ in pods) else None


def _over_request(
    pods: Sequence[PodFacts], measured: _Measured, resources: Iterable[str], fresh: Fresh
) -> frozenset[str]:
    """Resources of which these pods use more than they request together. Those without a fresh figure, and those on
    reclaimed capacity, which request none, do not count."""
    found = set()
    for resource in resources:
        used = requested = 0.0
        for pod, (reclaimed, figures) in zip(pods, measured, strict=True):
            figure = None if reclaimed else figures.get(resource)
            if figure is not None and resource in pod.requests and fresh.has(figure):
                used, requested = used + figure.value, requested + pod.requests[resource]
        if above_request(used, requested):
            found.add(resource)
    return frozenset(found)


def sort_figures(pods: Iterable[Figures], metrics: Iterable[str], fresh: Fresh) -> dict[str, float]:
    """By metric, the largest fresh figure of these pods by which victims are ordered for it."""
    found: dict[str, float] = {}
    for metric in metrics:
        own = [figure for figures in pods if (figure := figures.get(SORT + metric)) is not None]
        known = [figure.value for figure in own if fresh.has(figure)]
        if known:
            found[metric] = max(known)
    return found


def _used_of_limit(pods: Iterable[PodFacts], measurement: Measurement, fresh: Fresh) -> float:
    """Of the CPU limits of those on reclaimed capacity; those without a fresh figure use nothing that is known."""
    used = limit = 0.0
    for pod in pods:
        if pod.reclaimed:
            limit += pod.requests.get("cpu", 0.0)
            figure = measurement.of(pod).get("cpu")
            used += figure.value if figure is not None and fresh.has(figure) else 0.0
    return used / limit if limit > 0 else 0.0


def pending_release(
    gangs: Iterable[Gang],
    recent_terminations: Iterable[RecentTermination],
    reading: Reading,
    snapshot: Snapshot,
    trust: Trust,
    *,
    taken: Collection[str],
) -> dict[str, float]:
    """Points of firm load, by resource, that go away without an eviction.

    Gangs with a pod on its way out, those whose UIDs are in `taken`, and pods that went after the oldest sample began,
    so that their use is still in the load. A pod without a figure counts with nothing. gangs, recent_terminations: of
    the snapshot, all or some.
    """
    now, points = snapshot.now, dict.fromkeys(reading.load, 0.0)
    fresh = Fresh(now, trust)
    going = [pod for gang in gangs if gang.uid in taken or leaving(gang, now) for pod in gang.pods]
    here = [pod for pod in going if pod.node in reading.nodes and not _stuck(pod, now)]
    for pod in here:
        measured = _measured([pod], snapshot.measurement)
        for resource in points:
            if (use := _use(measured, resource, fresh)) is not None:
                points[resource] += reading.percent(resource, use)
    for termination in recent_terminations:
        if termination.node in reading.nodes and termination.at > reading.since:
            for resource in points:
                if not (termination.reclaimed and resource in GIVES_WAY):
                    points[resource] += reading.percent(resource, termination.use.get(resource, 0.0))
    return points


def _stuck(pod: PodFacts, now: datetime) -> bool:
    return pod.deletion_deadline is not None and now > pod.deletion_deadline + STUCK_AFTER
