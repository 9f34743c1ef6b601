"""Which components answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from scavenger_api.times import format_time
from scavenger_domain.last_word import silent

from scavenger_board.core.picture import ServiceRow
from scavenger_board.core.snapshot import LEADERLESS, SERVICES, PodFacts


def service_rows(now: datetime, pods: Iterable[PodFacts], leases: Mapping[str, datetime | None]) -> list[ServiceRow]:
    """All components that there may be. leases: when each leader last renewed, None where it has given its Lease
    back."""
    replicas: dict[str, list[bool]] = {}
    for pod in pods:
        if pod.service in SERVICES:
            replicas.setdefault(pod.service, []).append(pod.ready)
    return [_row(name, now, replicas.get(name, []), leases) for name in SERVICES]


def _row(name: str, now: datetime, ready: list[bool], leases: Mapping[str, datetime | None]) -> ServiceRow:
    counted = (sum(ready), len(ready))
    if name in LEADERLESS:
        if not ready:
            return ServiceRow(name, None, "it has no pod")
        if not any(ready):
            return ServiceRow(name, False, "none of its replicas is ready", *counted)
        return ServiceRow(name, True, "answers", *counted)
    if name not in leases:
        if ready:
            return ServiceRow(name, False, "none of its pods has ever led", *counted)
        return ServiceRow(name, None, "not installed: it has no Lease")
    renewed = leases[name]
    if renewed is None:
        return ServiceRow(name, False, "no replica leads: the last leader released its Lease", *counted)
    if silent(renewed, now):
        stamp = format_time(renewed)
        return ServiceRow(name, False, f"silent: its Lease was last renewed at {stamp}", *counted, stamp)
    return ServiceRow(name, True, "answers", *counted)
