"""Which regular pods without a node may take capacity that is free, by what kube-scheduler said of them.

A scavenger pod takes resources of its node, no more. So of all the reasons that kube-scheduler gives for a node,
only those of the plugin NodeResourcesFit count here. A node with any other reason (affinity and anti-affinity, host
ports, topology spread, volumes, taints, a reason of tomorrow) would not take the pod if no scavenger pod ran there
either.

The condition PodScheduled counts nodes and does not name them: `0/10 nodes are available: 3 Insufficient cpu, 7 node(s)
didn't match pod anti-affinity rules`. Where all nodes have another reason, the pod takes nothing. Otherwise capacity is
held for it on nodes that fit beyond the number of those (`placement.py`).

Without the condition no scheduler has looked at the pod yet. After a minute none does, as no running scheduler has its
`schedulerName`. Messages of other schedulers are not parsed: such a pod counts as one that any node could take.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from scavenger_kube.kinds import Pod, condition

_NO_NODE: Final = re.compile(r"0/(\d+) nodes are available: (.+)", re.DOTALL)
_COUNTED: Final = re.compile(r"(\d+) (.+)", re.DOTALL)
_BETWEEN: Final = re.compile(r", (?=\d+ )")
_OF_RESOURCES: Final = ("Insufficient ", "Too many pods")
"""What NodeResourcesFit says (noderesources/fit.go fitsRequest)."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a scheduler said of a pod that may take free capacity.

    Attributes:
        tried: a scheduler has looked at it.
        barred: how many nodes would not take it, whatever runs there.
    """

    tried: bool
    barred: int = 0


def verdict(pod: Pod) -> Verdict | None:
    """What was said of a pod without a node; None when it takes no capacity, however much is free."""
    if pod.status.nominated_node_name:
        return Verdict(tried=True)
    scheduled = condition(pod.status.conditions, "PodScheduled")
    if scheduled is None:
        return Verdict(tried=False)
    if scheduled.reason == "SchedulingGated":  # it takes none before a controller removes the gate
        return None
    if scheduled.reason != "Unschedulable":
        return Verdict(tried=True)
    return _of_message(scheduled.message)


def _of_message(message: str) -> Verdict | None:
    """The same from kube-scheduler's message (`FitError.Error()`)."""
    found = _NO_NODE.match(message)
    if found is None:
        return Verdict(tried=True)
    nodes, short, other = int(found[1]), 0, 0
    reasons = found[2].split(". ", 1)[0].removesuffix(".")  # what follows is what preemption came to
    for reason in _BETWEEN.split(reasons):
        counted = _COUNTED.fullmatch(reason)
        if counted is None:  # said of the pod as a whole, before nodes were looked at
            return None
        if counted[2].startswith(_OF_RESOURCES):
            short = max(short, int(counted[1]))  # a node may be short of several resources
        else:
            other += int(counted[1])
    barred = min(other, nodes - short)
    return Verdict(tried=True, barred=barred) if barred < nodes else None
