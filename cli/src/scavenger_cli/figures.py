"""Figures that an explanation shows beside the admitter's reason. Pure; they decide nothing about admission."""

from __future__ import annotations

from typing import NamedTuple

from scavenger_api import names
from scavenger_api.levels import LevelsView
from scavenger_api.quantity import readable_amounts
from scavenger_domain import queues

from scavenger_cli.facts import Facts
from scavenger_cli.objects import Queue
from scavenger_cli.room import Room


class Load(NamedTuple):
    """A resource against its level, in percent of what the counted nodes can allocate.

    now: as measured, and what scavenger pods that started since ask for. with_job: as the admitter counts it, the
    candidate included. by_requests: real use is not measured. allocatable: of the counted nodes, None where they may
    not be read.
    """

    now: float
    with_job: float
    admission: float
    by_requests: bool
    allocatable: int | None


def loads(facts: Facts) -> dict[str, Load]:
    """Every resource that has an admission threshold."""
    view = facts.levels
    if view is None:
        return {}
    wanted = total_requests(facts)
    found = {}
    for name in names.LEVELS_RESOURCES:
        load = _load(view, name, wanted.get(name, 0), facts.room)
        if load is not None:
            found[name] = load
    return found


def _load(view: LevelsView, name: str, wanted: int, room: Room | None) -> Load | None:
    admission = view.admission(name)
    use = room.load.get(name) if room is not None else None
    if admission is None:
        return None
    if view.on_requests and use is not None:
        return Load(use.percent(), use.percent(wanted), admission, True, use.allocatable)
    now = view.load(name)
    if now is None:
        return None
    now = max(0.0, now - view.gives_way(name))
    if room is None or use is None or not use.allocatable:
        return Load(now, now, admission, False, None)
    now += 100.0 * room.unseen.get(name, 0) / use.allocatable
    return Load(now, now + 100.0 * wanted / use.allocatable, admission, False, use.allocatable)


def total_requests(facts: Facts) -> dict[str, int]:
    """What the whole gang asks for."""
    spec = facts.job.spec
    return {name: value * spec.parallelism for name, value in spec.requests.items()}


def over_share(queue: Queue) -> bool:
    """Whether a queue uses more than its share of anything."""
    return bool(queues.over_share(readable_amounts(queue.status.allocated), readable_amounts(queue.status.deserved)))
