"""Which tasks of a Job count as done whose clients see no indexes.

Its status says how many completed, and not which: one pod is as good as another. So the tasks are named after the pods
that there are. Those whose pods are kept have completed, and of the tasks without a pod as many as are missing. Nobody
writes that down, as it follows again at every look.
"""

from __future__ import annotations

from collections.abc import Iterable

from scavenger_api.array import ArrayStatus
from scavenger_api.indexes import MAX_TASKS, all_of, format_indexes, lowest, parse_indexes, set_of
from scavenger_domain.gang import task_index
from scavenger_domain.pod_ends import held, own_exit, removal
from scavenger_kube import kinds

from scavenger_admitter.core.adopted.work import AdoptedJob
from scavenger_admitter.core.lifecycle.books.tasks import mark


def with_done(job: AdoptedJob, pods: Iterable[kinds.Pod]) -> AdoptedJob:
    """The Job with the tasks that are done.

    Args:
        job: as it was read, with the lowest indexes as done.
        pods: all that carry its name.
    """
    tasks, array = job.spec.array, job.status.array
    phase = job.status.phase
    if tasks.indexed or (phase is not None and phase.finished):
        return job
    count = job.written.get("succeeded") or 0
    if tasks.work_queue and not count:
        return _with_all_workers(job, pods)
    if array is None or not count:
        return job
    if tasks.work_queue:  # its ledger says which
        return _given_up(job, array, pods) if job.spec.suspend else job
    kept, busy = _pods(job, array, pods)
    done = lowest(kept & ~busy, count)
    done |= lowest(all_of(tasks.tasks) & ~busy & ~kept, count - done.bit_count())
    if format_indexes(done) == array.completed_indexes:
        return job
    told = _with(array, done, tasks.tasks)
    return job.model_copy(update={"status": job.status.model_copy(update={"array": told})})


def _with_all_workers(job: AdoptedJob, pods: Iterable[kinds.Pod]) -> AdoptedJob:
    """A work queue with each worker that has a pod. After its user has narrowed it, it has more of them than may run,
    and those with the least unsaved work stop."""
    tasks, uid = job.spec.array, job.metadata.uid
    left = (pod for pod in pods if not pod.ended or held(pod))
    own = (pod for pod in left if (owner := pod.metadata.controller) is not None and owner.uid == uid)
    size = max((index + 1 for pod in own if (index := task_index(pod)) is not None), default=0)
    if size <= tasks.tasks:
        return job
    wider = tasks.model_copy(update={"written_tasks": min(size, MAX_TASKS)})
    return job.model_copy(update={"spec": job.spec.model_copy(update={"array": wider})})


def _given_up(job: AdoptedJob, array: ArrayStatus, pods: Iterable[kinds.Pod]) -> AdoptedJob:
    """A work queue that is suspended after its first success: none of its workers starts again, so it is complete when
    none is left, as under the Job controller. Those that have ended are judged before."""
    tasks, uid = job.spec.array.tasks, job.metadata.uid
    ended = (pod for pod in pods if pod.ended and held(pod) and (owner := pod.metadata.controller) and owner.uid == uid)
    open_still = set_of(index for pod in ended if (index := task_index(pod)) is not None and index < tasks)
    told = _with(array, all_of(tasks) & ~open_still | parse_indexes(array.completed_indexes), tasks)
    spec = job.spec.model_copy(update={"suspend": False})
    return job.model_copy(update={"spec": spec, "status": job.status.model_copy(update={"array": told})})


def workers_done(job: AdoptedJob, array: ArrayStatus, pods: Iterable[kinds.Pod]) -> int:
    """The workers of a work queue that do not start again: a set.

    Before the first success these are none, and then also those that have no pod at that moment. Those that fail later
    follow. Those that were interrupted come back, as their item may be in hand.

    Args:
        job: as it was read.
        array: what the lifecycle has found.
        pods: all that carry its name.
    """
    done = parse_indexes(array.completed_indexes)
    if not job.spec.array.work_queue or not done:
        return 0
    pods = list(pods)
    done |= set_of(index for pod in pods if (index := _failed_now(job, array, pod)) is not None)
    if job.written.get("succeeded"):
        return done
    kept, busy = _pods(job, array, pods)
    return done | all_of(job.spec.array.tasks) & ~busy & ~kept


def _failed_now(job: AdoptedJob, array: ArrayStatus, pod: kinds.Pod) -> int | None:
    """The index of a worker whose pod is being counted, and has failed by itself."""
    index, owner = task_index(pod), pod.metadata.controller
    if index is None or index >= job.spec.array.tasks or owner is None or owner.uid != job.metadata.uid:
        return None
    if not held(pod) or pod.succeeded or mark(index, pod) not in array.counted or removal(pod) is not None:
        return None
    return index if own_exit(pod) is not None else None


def _pods(job: AdoptedJob, array: ArrayStatus, pods: Iterable[kinds.Pod]) -> tuple[int, int]:
    """The tasks whose pods are kept, as they succeeded, and those that are not over: sets."""
    kept, busy = 0, parse_indexes(array.interrupted_indexes) | parse_indexes(array.failed_indexes)
    for pod in pods:
        index, owner = task_index(pod), pod.metadata.controller
        if index is None or index >= job.spec.array.tasks or owner is None or owner.uid != job.metadata.uid:
            continue
        if pod.succeeded and (not held(pod) or mark(index, pod) in array.counted):
            kept |= 1 << index
        elif not pod.ended or held(pod):
            busy |= 1 << index
    return kept, busy


def _with(array: ArrayStatus, done: int, tasks: int) -> ArrayStatus:
    completed = done.bit_count()
    changes = {"completed": completed, "completed_indexes": format_indexes(done), "progress": f"{completed}/{tasks}"}
    return array.model_copy(update=changes)
