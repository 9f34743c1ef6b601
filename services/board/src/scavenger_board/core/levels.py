"""The load against the levels, and whether anything may start now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from scavenger_api import names
from scavenger_api.levels import LevelsView, PublishedLevels, Visibility
from scavenger_api.levels_text import DEFAULT_POOL
from scavenger_api.reasons import WaitReason
from scavenger_api.times import format_time

from scavenger_board.core.picture import AdmissionRow, LevelsRow, PoolRow, ResourceRow, ServiceRow

PAST: Final = "Past"
"""`visibility` of levels that were."""


def resource_rows(levels: PublishedLevels, scavenger: Mapping[str, float]) -> dict[str, ResourceRow]:
    """Load and levels by resource. scavenger: percent that jobs request, which is taken for their part of the load."""
    return {
        name: ResourceRow(
            load=one.load,
            regular=max(0.0, round(one.load - scavenger[name], 2)) if name in scavenger else None,
            lower=one.lower,
            admission=one.admission,
            upper=one.upper,
            mean=one.mean,
            stdev=one.stdev,
        )
        for name, one in levels.resources.items()
    }


def levels_row(view: LevelsView, scavenger: Mapping[str, float]) -> LevelsRow:
    """The levels as they are published. scavenger: as of `resource_rows`."""
    levels = view.levels
    if levels is None:
        return LevelsRow(view.visibility.value, says=view.reason)
    resources = resource_rows(levels, scavenger)
    fresh = view.visibility is Visibility.FRESH
    above = above_upper(resources) if fresh else None
    return LevelsRow(
        visibility=view.visibility.value,
        state=levels.state.value,
        observed_at=format_time(levels.observed_at) if levels.observed_at is not None else None,
        period_seconds=levels.period_seconds,
        preemptible_percentage=levels.preemptible_percentage,
        message=levels.message,
        resources=resources,
        above=above,
        says=_against_upper(resources, above) if above is not None else _unseen(view),
    )


def pool_rows(view: LevelsView, shares: Mapping[str, Mapping[str, float]], pools: Mapping[str, str]) -> list[PoolRow]:
    """The pools of nodes, the default pool first; none where it is the only one.

    Args:
        view: the levels of all.
        shares: as of `scavenger_shares`.
        pools: as of `pools_of_nodes`.
    """
    if not view.pools:
        return []
    nodes = Counter(pools.values())
    return [
        PoolRow(name, nodes[name], levels_row(one, shares.get(name, {})), _of_pool(one))
        for name, one in {DEFAULT_POOL: view, **view.pools}.items()
    ]


def _unseen(view: LevelsView) -> str:
    """Without the age: a sentence that changes every second would be a new picture every second."""
    if view.visibility is Visibility.STALE:
        return "The regulator does not publish levels: the last ones are stale."
    return f"The load is not known: {view.reason}."


def above_upper(resources: Mapping[str, ResourceRow]) -> list[str] | None:
    """The resources whose load has reached the eviction threshold; None where no load is known."""
    known = {name: one for name, one in resources.items() if one.load is not None and one.upper is not None}
    if not known:
        return None
    return [name for name, one in known.items() if (one.load or 0.0) >= (one.upper or 0.0)]


def _against_upper(resources: Mapping[str, ResourceRow], above: list[str]) -> str:
    figures = [
        f"{name} {one.load:.1f} % of upper {one.upper:.1f} %"
        for name, one in resources.items()
        if one.load is not None and one.upper is not None
    ]
    where = f"Above the eviction threshold: {', '.join(above)}" if above else "Below the eviction threshold"
    return f"{where} ({'; '.join(figures)})."


def past_levels_row(resources: dict[str, ResourceRow], state: str, source: str) -> LevelsRow:
    """The levels at a moment that is over. source: who remembers them, to follow `as`."""
    above = above_upper(resources)
    if above is None:
        says = f"The load was not recorded; state {state}." if state else "The load was not recorded."
    else:
        says = f"{_against_upper(resources, above)[:-1]}, as {source}."
    return LevelsRow(PAST, state=state, resources=resources, above=above, says=says)


def admission_row(view: LevelsView, services: list[ServiceRow]) -> AdmissionRow:
    """Whether anything new may start now, as far as load and services are concerned: what a single job lacks beside
    that stands in its own row."""
    admitter = next((one for one in services if one.name == names.ADMITTER), None)
    if admitter is not None and not admitter.answers:
        return AdmissionRow(False, f"No: jobs do not start without an admitter: {admitter.says}.")
    if not view.pools:
        return _of_pool(view)
    pools = {DEFAULT_POOL: view, **view.pools}
    admitting = [name for name, one in pools.items() if _of_pool(one).admits]
    if not admitting:
        return AdmissionRow(False, f"No, in none of the {len(pools)} pools of nodes.")
    return AdmissionRow(True, f"Yes, in {len(admitting)} of {len(pools)} pools of nodes: {', '.join(admitting)}.")


def _of_pool(view: LevelsView) -> AdmissionRow:
    if view.visibility is Visibility.ABSENT:
        limit = names.FALLBACK_ADMISSION_PERCENT
        return AdmissionRow(
            True, f"Yes: no regulator publishes levels; jobs start while requests are below {limit:g} %."
        )
    if view.visibility is Visibility.STALE:
        return AdmissionRow(False, f"No: {view.visibility.value}. {_unseen(view)}")
    if view.visibility is Visibility.BLIND:
        return AdmissionRow(False, f"No: {WaitReason.BLIND.__doc__} {_unseen(view)}")
    if not view.admit:
        return AdmissionRow(False, f"No: {view.closed}." if view.closed else f"No: {WaitReason.ADMIT_FALSE.__doc__}")
    return _by_load(view)


def _by_load(view: LevelsView) -> AdmissionRow:
    """As the admitter reads the levels (`scavenger_admitter.core.admission`): what gives way does not count, and
    what pods in their first minutes have asked for is spoken for."""
    full, figures = [], []
    for name in names.LEVELS_RESOURCES:
        load, admission = view.load(name), view.admission(name)
        if load is None or admission is None:
            continue
        counted = max(0.0, load - view.gives_way(name)) + view.ramping(name)
        figures.append(f"{name} {counted:.1f} % of {admission:.1f} %")
        if counted >= admission:
            full.append(name)
    shown = "; ".join(figures)
    if full:
        return AdmissionRow(False, f"No: {' and '.join(full)} at or above the admission threshold ({shown}).")
    return AdmissionRow(True, f"Yes: below the admission threshold ({shown}). A job starts if its requests fit.")
