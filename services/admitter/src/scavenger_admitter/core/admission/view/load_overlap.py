"""What may be in the measured load and counts beside it as well.

A job that starts has to find capacity for certain. So a pod that the load may not fully know counts beside it with its
requests: one that started in the second of the sample, or while its average was taken. By what the load shows of such a
pod scavenging seems to have too little, until the next sample. A job that waits for that loses half a minute; one that
is interrupted for it loses its work, and leaves its queue below its share. So a queue is over its share only if it is
even when all of this is in the load.

The same goes for pods that have gone: one that left just before the sample may be in it, as the metrics may show it for
longer. No job holds what it requested any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from scavenger_admitter.core.admission.departures import DepartedPod
from scavenger_admitter.core.admission.load import LoadRule
from scavenger_admitter.core.admission.sums import add, sums_of
from scavenger_admitter.core.admission.units import SECOND
from scavenger_admitter.core.admission.view.node_sums import NodeSums

LAG: Final = 2
"""Seconds by which clocks of machines may differ, or what one service sees may be older than what another one does."""


def overlap(
    nodes: NodeSums, rule: LoadRule, departed: Iterable[DepartedPod], said: Mapping[str, int]
) -> dict[str, int]:
    """The most that pods count as which are both in the load of this rule and beside it; nothing by requests alone.

    Args:
        nodes: with all pods on them, and those that have gone.
        rule: how the load is known.
        departed: of those that have gone, what counts as in the load.
        said: what counts as in the load because statuses of jobs say that it has gone.
    """
    if rule.observed_at is None or rule.measured_at is None:
        return {}
    latest = rule.measured_at // SECOND + LAG
    # Where samples are of a moment they say what is requested: from when a pod is bound on, and not from when it runs.
    of_a_moment = rule.observed_at == rule.measured_at
    total = nodes.all.starts.since(rule.observed_at)
    later = (nodes.all.creations if of_a_moment else nodes.all.starts).since((latest + 1) * SECOND)
    add(total, later.items(), -1)
    certain = sums_of(pod.counted for pod in departed)
    perhaps = dict(certain)
    for pod in nodes.departures.doubtful(rule.observed_at, LAG * SECOND):
        if (pod.created if of_a_moment else pod.started) <= latest:
            add(perhaps, pod.counted)
    for name, amount in perhaps.items():
        known = said.get(name, 0)
        add(total, [(name, max(amount, known) - max(certain.get(name, 0), known))])
    return {name: amount for name, amount in total.items() if amount > 0}
