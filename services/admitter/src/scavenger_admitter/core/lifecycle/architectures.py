"""Images that have no program for the processors of a node, while nodes with others are there.

That is no failure of the job: Kubernetes does not know for which architectures an image is, so the scheduler may choose
any node. The next start prefers others. An architecture that has failed is not hoped for again, so a job whose image
runs nowhere fails when the last one has.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

from scavenger_api.reasons import WaitReason
from scavenger_domain.node_affinity import LABEL_ARCHITECTURE
from scavenger_domain.pod_ends import Exit, started_at
from scavenger_kube import kinds

from scavenger_admitter.core.lifecycle import start_failures
from scavenger_admitter.core.lifecycle.observation import Observation
from scavenger_admitter.core.lifecycle.run import Run
from scavenger_admitter.core.lifecycle.start_failures import Problem

AT_ONCE: Final = timedelta(seconds=10)
"""A program for other processors fails within this time of its start. What a program says later, it says of another one
that it has called."""

# runc and crun quote the kernel's ENOEXEC; a shell says the same of a program that it calls.
_NOT_FOR_IT: Final = re.compile(r"exec format error", re.IGNORECASE)
# containerd (images/image.go), docker (distribution/pull_v2.go), CRI-O (containers/image, manifest lists).
_NOT_IN_INDEX: Final = re.compile(
    r"no match for platform|no matching manifest for |no image found in (?:image index|manifest list) for architecture"
)


def unfit(observed: Observation, pod: kinds.Pod, ended: Exit) -> str:
    """The architecture of a node for which a program was not made that ended at once; empty where that is not what
    happened, or where no other architecture is left to try."""
    started = started_at(pod)
    at_once = started is None or ended.at - started <= AT_ONCE
    return _of(observed, pod) if at_once and _NOT_FOR_IT.search(ended.message) else ""


def unpulled(observed: Observation, run: Run) -> Problem | None:
    """Why a start fails whose image has nothing for the node of a pod; None where that is not so, or where no other
    architecture is left to try: then the pull is waited for as any other."""
    if not _NOT_IN_INDEX.search(start_failures.pull_words(run)):
        return None
    for pod in run.pods:
        if started_at(pod) is None and (name := _of(observed, pod)):
            image, node = observed.seen.job.spec.main_image, pod.spec.node_name
            said = f"the image {image} has no program for {name}, as node {node} is"
            advice = f"select nodes by the label {LABEL_ARCHITECTURE}"
            return Problem(f"{said}; {advice}", False, WaitReason.START_ERROR, architecture=name)
    return None


def _of(observed: Observation, pod: kinds.Pod) -> str:
    """The architecture of the node of a pod, where the job may run on others that have not failed yet; else empty."""
    node = observed.seen.nodes.get(pod.spec.node_name)
    name = node.metadata.labels.get(LABEL_ARCHITECTURE, "") if node is not None else ""
    tried = observed.known.start.unfit_architectures
    return name if name and observed.known.architectures() - tried - {name} else ""
