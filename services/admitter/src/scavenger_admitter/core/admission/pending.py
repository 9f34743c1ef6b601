"""Which ordinary pods without a node are about to take room, and which wait for something else.

A pod waits for something else when no node could take it even if all nodes were empty. Of what a pod asks for,
requests, node selector and tolerations are judged here (a pod whose shape no node lets in finds no place, so nothing
is taken for it). The rest (affinity, volumes) is the scheduler's to judge, and its word is the condition
PodScheduled: reason Unschedulable, and a message that names for every node why it will not do. Only where each of
these reasons is one that an empty node would have as well does the pod wait for something else. Everything that is
not understood counts as waiting for room: a pod not tried yet, one with a nominated node, another scheduler's words,
a reason not listed here.
"""

from __future__ import annotations

import re
from typing import Final

from scavenger_kube.kinds import Pod, condition

_NO_NODE: Final = re.compile(r"0/(\d+) nodes are available: (.+)", re.DOTALL)
_COUNTED: Final = re.compile(r"(\d+) (.+)", re.DOTALL)

_NOT_FOR_ROOM: Final = (
    # Filters of kube-scheduler whose answer does not depend on what runs on a node.
    "node(s) didn't match Pod's node affinity/selector",
    "node(s) didn't match the requested node name",
    "node(s) had untolerated taint",
    "node(s) had taints that the pod didn't tolerate",
    "node(s) were unschedulable",
    # The pods it wants to be beside are nowhere, or only where it cannot be.
    "node(s) didn't match pod affinity rules",
    # Volumes that are elsewhere, or not there.
    "node(s) didn't match PersistentVolume's node affinity",
    "node(s) had volume node affinity conflict",
    "node(s) didn't find available persistent volumes to bind",
    "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
    "node(s) had no available volume zone",
    "pod has unbound immediate PersistentVolumeClaims",
    "waiting for ephemeral volume controller to create the persistentvolumeclaim",
    'persistentvolumeclaim "',
)


def waits_for_room(pod: Pod) -> bool:
    """Whether a pod without a node may take room as soon as there is some."""
    if pod.status.nominated_node_name:
        return True
    scheduled = condition(pod.status.conditions, "PodScheduled")
    if scheduled is None or scheduled.status == "True":
        return True
    if scheduled.reason == "SchedulingGated":  # it takes no room before somebody opens the gate
        return False
    return scheduled.reason != "Unschedulable" or not _no_node_would_do(scheduled.message)


def _no_node_would_do(message: str) -> bool:
    """Whether every reason in a scheduler's message (`FitError.Error()`) is one that empty nodes would have as well."""
    found = _NO_NODE.match(message)
    if found is None:
        return False
    reasons = found[2].split(". ", 1)[0].removesuffix(".")  # what follows is what preemption came to
    if reasons.startswith(_NOT_FOR_ROOM):  # said before nodes were looked at, of the pod as a whole
        return True
    nodes = 0
    for reason in reasons.split(", "):
        counted = _COUNTED.fullmatch(reason)
        if counted is None or not counted[2].startswith(_NOT_FOR_ROOM):
            return False
        nodes += int(counted[1])
    return nodes >= int(found[1])
