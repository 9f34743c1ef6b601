"""Problems of the cluster: those of `kubectl sj doctor` that the board can see."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from scavenger_api import names
from scavenger_api.levels import LevelsView
from scavenger_domain.ailments import (
    Ailment,
    foreign_budgets,
    no_measurement,
    nodes_refuse_pods,
    stale_budgets,
    stale_finalizers,
    versions_differ,
)

from scavenger_board.core.picture import FindingRow, ServiceRow
from scavenger_board.core.snapshot import Snapshot


def finding_rows(snapshot: Snapshot, view: LevelsView, services: Sequence[ServiceRow]) -> list[FindingRow]:
    """What is wrong at this moment, what blocks others first."""
    return [FindingRow(one.name, one.text, one.remedy) for one in _ailments(snapshot, view, services)]


def _ailments(snapshot: Snapshot, view: LevelsView, services: Sequence[ServiceRow]) -> Iterator[Ailment]:
    led = {row.name for row in services if row.answers}
    yield from stale_budgets(snapshot.budgets, led=names.PRIORITIZER in led)
    yield from foreign_budgets(snapshot.foreign_budgets)
    yield from stale_finalizers(snapshot.held, led=names.ADMITTER in led)
    yield from no_measurement(view.unmeasured_pools)
    yield from nodes_refuse_pods(snapshot.shunned, {node.name for node in snapshot.nodes})
    images: dict[str, set[str]] = {}
    for pod in snapshot.pods:
        if pod.image:
            images.setdefault(pod.service, set()).add(pod.image)
    yield from versions_differ(images)
