"""The pods of an array by task, sorted by what a plan has to do about them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Final, Self

from scavenger_api import names, pod_names
from scavenger_api.indexes import MAX_TASKS, all_of, indexes_of, parse_indexes, set_of
from scavenger_api.job import Phase
from scavenger_api.removing import UID_DIGITS
from scavenger_domain.gang import task_index
from scavenger_domain.pod_ends import deleting, held, moment, over
from scavenger_kube import kinds

from scavenger_admitter.core.lifecycle.books.tasks import Tasks, mark
from scavenger_admitter.core.lifecycle.draft import Draft
from scavenger_admitter.core.lifecycle.leftover_pods import surely_ended
from scavenger_admitter.core.lifecycle.observation import Seen
from scavenger_admitter.core.lifecycle.pods_seen import Untouched

_NONE_UNTOUCHED: Final = Untouched({}, 0, {}, 0)


@dataclass(slots=True)
class TaskPods:
    """The pods of the array by index, each in one of these.

    Attributes:
        alive: may still run.
        ended: surely ended, and not counted. Where containers beside the main one run on, that is before the deletion:
            after one in the same second the main container might not have ended by itself.
        counted: counted, or with nothing to be counted, and still there.
        strangers: of an earlier job of this name, or of no task.
        untouched: those that are in none of these: they run and stay, or are kept for their logs.
    """

    alive: dict[int, kinds.Pod] = field(default_factory=dict)
    ended: dict[int, kinds.Pod] = field(default_factory=dict)
    counted: dict[int, kinds.Pod] = field(default_factory=dict)
    strangers: list[kinds.Pod] = field(default_factory=list)
    untouched: Untouched = _NONE_UNTOUCHED

    @classmethod
    def of(cls, draft: Draft, tasks: Tasks) -> Self:
        """As they are seen."""
        found, seen = cls(), draft.seen
        queued = draft.status.queued_timestamp
        found.untouched, others = _untouched(draft, tasks)
        for pod in (*seen.pods, *others):
            task = task_index(pod)
            run = moment(pod.metadata.annotations.get(names.ANNOTATION_RUN))
            if task is None or task >= tasks.size or run != queued:
                found.strangers.append(pod)
            elif mark(task, pod) in tasks.counted or not held(pod):
                found.counted[task] = pod
            elif surely_ended(pod, seen.nodes) or (over(pod) and not deleting(pod)):
                found.ended[task] = pod
            else:
                found.alive[task] = pod
        return found

    def has(self, name: str) -> bool:
        """Whether the pod of a task is there. name: as `mark` gives it."""
        task = _index_of(name)
        read, quiet = (self.alive, self.ended, self.counted), self.untouched
        where = (*read, quiet.running, quiet.kept, quiet.starting)
        pod = next((found for pods in where if (found := pods.get(task)) is not None), None)
        return pod is not None and mark(task, pod) == name

    def plain(self, job: str) -> bool:
        """Whether there is a pod whose name has no suffix. A Job that is created then gives none a suffix, as a task
        could have two pods otherwise: by their names the API server tells second lives. job: name of the array."""
        read = (*self.alive.values(), *self.ended.values(), *self.counted.values(), *self.strangers)
        found = (pod_names.parts_of(pod.metadata.name, job) for pod in (*read, *islice(self.untouched.pods, 1)))
        return any(parts is not None and not parts.suffix for parts in found)  # untouched ones have one suffix

    @property
    def present(self) -> int:
        """Tasks of which there is a pod."""
        strangers = (found for pod in self.strangers if (found := task_index(pod)) is not None)
        read = set_of((*self.alive, *self.ended, *self.counted, *(one for one in strangers if one < MAX_TASKS)))
        return read | self.untouched.runs | self.untouched.ended | self.untouched.starts

    @property
    def living(self) -> Iterator[tuple[int, kinds.Pod]]:
        """The tasks whose pods may still run."""
        yield from self.alive.items()
        yield from chosen(self.untouched.running, self.untouched.runs)
        yield from chosen(self.untouched.starting, self.untouched.starts)

    @property
    def any_living(self) -> bool:
        """Whether there is one."""
        return bool(self.alive) or (self.untouched.runs | self.untouched.starts) != 0


def chosen(pods: Mapping[int, kinds.Pod], tasks: int) -> Iterator[tuple[int, kinds.Pod]]:
    """The pods of these tasks."""
    if len(pods) == tasks.bit_count():
        yield from pods.items()
    else:
        yield from ((task, pods[task]) for task in indexes_of(tasks))


def vanished(seen: Seen) -> int:
    """The tasks that run by the status, and of which no pod is shown: a set. The write that counts a pod is the one
    that says no longer that its task runs, so nothing of these is counted."""
    array, quiet = seen.job.status.array, seen.untouched
    running = _parsed(array.running_indexes) if array is not None else 0
    if not running:
        return 0
    there = set_of(task for pod in seen.pods if (task := task_index(pod)) is not None and task < MAX_TASKS)
    return running & ~(there if quiet is None else there | quiet.runs | quiet.ended | quiet.starts)


_parsed: Final = lru_cache(maxsize=256)(parse_indexes)
"""The same text comes with each look until the next write."""


def _untouched(draft: Draft, tasks: Tasks) -> tuple[Untouched, list[kinds.Pod]]:
    """The pods of which nothing is asked one by one, and others of `Seen.untouched`: what the status says of
    their tasks, or what was decided about them, does not fit with a pod that runs and stays."""
    seen = draft.seen
    found = seen.untouched
    if found is None:
        return _NONE_UNTOUCHED, []
    batch, stands = draft.own_job, draft.phase is Phase.SUSPENDED or draft.phase.finished
    if batch is None or batch.spec.suspend or seen.job.spec.suspend or stands:
        return _NONE_UNTOUCHED, list(found.pods)
    fit = all_of(tasks.size)
    counted, removing = (_tasks_named(some) for some in (tasks.counted, draft.status.removing or ()))
    stays = fit & ~(tasks.over | counted | removing | found.told)
    runs, starts = found.runs & stays, found.starts & stays
    kept = found.ended & fit & tasks.over & ~removing
    read = [pod for _, pod in chosen(found.running, found.runs & ~runs)]
    read += [pod for _, pod in chosen(found.kept, found.ended & ~kept)]
    read += [pod for _, pod in chosen(found.starting, found.starts & ~starts)]
    return found.only(runs, kept, starts) if read else found, read


def _tasks_named(entries: Iterable[str]) -> int:
    """The tasks of the pods that `counted` or `removing` names."""
    return set_of(index for one in entries if (index := _index_of(one)) < MAX_TASKS)


def _index_of(name: str) -> int:
    """The task of a pod. name: as `mark` gives it; beyond all tasks where another client wrote something else there."""
    text = name.partition("-")[0]
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= UID_DIGITS else MAX_TASKS
