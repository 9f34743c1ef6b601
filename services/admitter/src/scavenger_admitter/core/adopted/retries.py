"""Retries of indexes for which the ledger has no space.

A ledger that was cut names the counts of interrupted indexes, and then those of the lowest. The pods of the others say
the same: each has the count from before its start, and whether it failed. So the pod of an index stays until the ledger
has its count, and its index rests until then.
"""

from __future__ import annotations

from collections.abc import Iterable

from scavenger_api.checkpoints import failures_before
from scavenger_api.indexes import MAX_COUNT, format_counts, parse_counts, set_of
from scavenger_domain.gang import task_index
from scavenger_domain.pod_ends import held, own_exit, removal
from scavenger_kube import kinds

from scavenger_admitter.core.adopted.ledger import may_be_cut
from scavenger_admitter.core.adopted.work import AdoptedJob
from scavenger_admitter.core.lifecycle.books.tasks import Tasks, mark
from scavenger_admitter.core.lifecycle.failure_policy import matching_rule


def with_retries(job: AdoptedJob, pods: Iterable[kinds.Pod]) -> AdoptedJob:
    """The Job with the retries that its pods know of, where its ledger may have had no space for them.

    Args:
        job: as it was read.
        pods: all that carry its name.
    """
    array = job.status.array
    if not job.spec.tasks.own_retries or array is None or not may_be_cut(array.retries_used):
        return job
    written = parse_counts(array.retries_used)
    tasks, counts = Tasks.of(job.spec.tasks.tasks, array), dict(written)
    for pod in pods:
        index, owner = task_index(pod), pod.metadata.controller
        if index is None or index >= tasks.size or tasks.over >> index & 1:
            continue
        if owner is not None and owner.uid == job.metadata.uid:
            used = failures_before(pod.metadata.annotations) + _failed(job, pod, index, tasks)
            counts[index] = max(counts.get(index, 0), min(used, MAX_COUNT))
    unwritten = set_of(index for index, count in counts.items() if count > written.get(index, 0))
    if not unwritten:
        return job
    told = array.model_copy(update={"retries_used": format_counts(counts)})
    spec = job.spec.model_copy(update={"array": job.spec.tasks.model_copy(update={"unwritten": unwritten})})
    return job.model_copy(update={"spec": spec, "status": job.status.model_copy(update={"array": told})})


def _failed(job: AdoptedJob, pod: kinds.Pod, index: int, tasks: Tasks) -> bool:
    """Whether the failure of a pod is counted, and uses up a retry."""
    if not pod.ended or pod.succeeded or (held(pod) and mark(index, pod) not in tasks.counted):
        return False
    ended, matched = own_exit(pod), matching_rule(job.spec.pod_failure_policy, pod)
    if ended is None or removal(pod) is not None or (ended.main and ended.code == job.spec.saved_exit_code):
        return False
    return matched is None or matched[1].action == "Count"
