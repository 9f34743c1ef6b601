"""Runs on nodes whose end is announced: whether they stop, and when.

A taint that is certain stops a run at once, as not every autoscaler evicts pods of so low a priority before it ends the
machine. A hint may be taken back: it stops a run only at a checkpoint that is due within the notice of the hint, when
next to nothing is lost. Either closes the node for new starts (`scavenger_domain.nodes.schedulable`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from scavenger_api import names
from scavenger_api.reasons import InterruptionReason
from scavenger_api.removing import RemovalReason
from scavenger_domain.nodes import Hint, ends, hint
from scavenger_domain.pod_ends import Removal, moment, over
from scavenger_kube import kinds

from scavenger_admitter.core.lifecycle import accounting
from scavenger_admitter.core.lifecycle.observation import Observation
from scavenger_admitter.core.lifecycle.run import Run
from scavenger_admitter.core.lifecycle.verdict import Removed


def find_announced_end(run: Run, observed: Observation) -> Removed | datetime | None:
    """The end of a run that has to leave a node now, or when one that stays is to be looked at again; None where
    nothing is announced.

    Args:
        run: of a job or a task.
        observed: the job.
    """
    seen = observed.seen
    now, interval = seen.now, accounting.spec_of_run(seen.job.spec, run.pods).checkpoint_interval
    later: list[datetime] = []
    for pod in sorted(run.pods, key=lambda pod: pod.metadata.name):
        node = seen.nodes.get(pod.spec.node_name)
        if node is None or over(pod):
            continue
        if taint := ends(node, observed.rules.certain_hints):
            return _removed(pod, f"has the taint {taint}", now)
        found = hint(node)
        at = _checkpoint_within(found, run.pods, run.since, interval, now) if found else None
        if found is not None and at is not None:
            if at <= now:
                return _removed(pod, f"has the taint {found.taint}, and a checkpoint was due", now)
            later.append(at)
    return min(later, default=None)


def _removed(pod: kinds.Pod, what: str, now: datetime) -> Removed:
    name, detail = pod.metadata.name, f"node {pod.spec.node_name} {what}"
    cause, own = InterruptionReason.NODE_DRAINED, RemovalReason.NODE_LEAVING
    return Removed(Removal(now, now, cause, name, True, detail, own), now)


def _checkpoint_within(
    told: Hint, pods: Sequence[kinds.Pod], start: datetime | None, interval: timedelta, now: datetime
) -> datetime | None:
    """When the run has saved its state within the notice; None where it has not and will not, as far as is known.

    A program that reports checkpoints is waited for until it reports one; of others, the one that is due counts.
    """
    if now > told.until:
        return None
    reports = [moment(pod.metadata.annotations.get(names.ANNOTATION_LAST_CHECKPOINT)) for pod in pods]
    if any(reports):
        saved = all(at is not None and told.since <= at <= now for at in reports)
        return now if saved else None
    if start is None:
        return None
    due = accounting.next_due(start, interval, max(start, told.since))
    return due if due <= told.until else None
