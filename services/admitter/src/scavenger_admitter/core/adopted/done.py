"""Which tasks of a Job count as done, where clients see no indexes.

Its status says how many completed, and not which: one pod is as good as another. So the tasks are named after the pods
that there are. Those whose pods are kept have completed, and of the tasks without a pod as many as are missing. No
status records that, as it follows again at every look.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

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
    tasks, array = job.spec.tasks, job.status.array
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
    tasks = job.spec.tasks
    size = max((index + 1 for index, pod in _own(job, pods) if not pod.ended or held(pod)), default=0)
    if size <= tasks.tasks:
        return job
    wider = tasks.model_copy(update={"written_tasks": min(size, MAX_TASKS)})
    return job.model_copy(update={"spec": job.spec.model_copy(update={"array": wider})})


def _given_up(job: AdoptedJob, array: ArrayStatus, pods: Iterable[kinds.Pod]) -> AdoptedJob:
    """A work queue that is suspended after its first success: none of its workers starts again, so it is complete when
    none is left, as under the Job controller. Those that have ended are judged before."""
    tasks = job.spec.tasks.tasks
    open_still = set_of(index for index, pod in _of_tasks(job, pods) if pod.ended and held(pod))
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
    if not job.spec.tasks.work_queue or not done:
        return 0
    pods = list(pods)
    done |= set_of(index for index, pod in _of_tasks(job, pods) if _failed_now(array, index, pod))
    if job.written.get("succeeded"):
        return done
    kept, busy = _pods(job, array, pods)
    return done | all_of(job.spec.tasks.tasks) & ~busy & ~kept


def _failed_now(array: ArrayStatus, index: int, pod: kinds.Pod) -> bool:
    """Whether the pod of a worker is being counted, and has failed by itself."""
    if not held(pod) or pod.succeeded or mark(index, pod) not in array.counted or removal(pod) is not None:
        return False
    return own_exit(pod) is not None


def _own(job: AdoptedJob, pods: Iterable[kinds.Pod]) -> Iterator[tuple[int, kinds.Pod]]:
    """The pods that the Job controls, each with the index of its task."""
    for pod in pods:
        index, owner = task_index(pod), pod.metadata.controller
        if index is not None and owner is not None and owner.uid == job.metadata.uid:
            yield index, pod


def _of_tasks(job: AdoptedJob, pods: Iterable[kinds.Pod]) -> Iterator[tuple[int, kinds.Pod]]:
    """The same without those beyond its tasks."""
    return ((index, pod) for index, pod in _own(job, pods) if index < job.spec.tasks.tasks)


def _pods(job: AdoptedJob, array: ArrayStatus, pods: Iterable[kinds.Pod]) -> tuple[int, int]:
    """The tasks whose pods are kept, as they succeeded, and those that are not over: sets."""
    kept, busy = 0, parse_indexes(array.interrupted_indexes) | parse_indexes(array.failed_indexes)
    for index, pod in _of_tasks(job, pods):
        if pod.succeeded and (not held(pod) or mark(index, pod) in array.counted):
            kept |= 1 << index
        elif not pod.ended or held(pod):
            busy |= 1 << index
    return kept, busy


def _with(array: ArrayStatus, done: int, tasks: int) -> ArrayStatus:
    completed = done.bit_count()
    changes = {"completed": completed, "completed_indexes": format_indexes(done), "progress": f"{completed}/{tasks}"}
    return array.model_copy(update=changes)
