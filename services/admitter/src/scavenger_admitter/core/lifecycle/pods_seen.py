"""The pods of arrays in buckets, so that a look at an array costs by what changed and not by how many tasks run.

A plan asks nothing of a pod whose task computes as it did at the last look, nor of one that has ended, is counted and
is kept for its logs, nor of one that starts as it should. Such pods are *untouched*: a plan knows them as a set of
indexes. It reads all others one by one, and of those that start the ones that have taken too long.

`PodsSeen` moves a pod to another bucket when its informer shows a change of the pod, when its node is about to go, or
when the first Event is written about its start. Which bucket a pod is in follows from that pod, its node and its Events
alone: not from what came before, and not from the time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Generic, TypeVar

from scavenger_api import names, pod_names
from scavenger_api.indexes import MAX_TASKS, set_of
from scavenger_domain.gang import job_key_of, task_index
from scavenger_domain.nodes import leaving
from scavenger_domain.pod_ends import deleting, goes_on, held, moment, restarts, started_at
from scavenger_kube.kinds import Node, Pod

from scavenger_admitter.core.lifecycle.start_failures import waits_only

T = TypeVar("T", datetime, str)


def with_words(shown: Iterable[Pod], words: Collection[Pod]) -> list[Pod]:
    """Pods as a look reads them: a pod with last words as these show it.

    Args:
        shown: pods that there are.
        words: last words of pods, without those that carry the finalizer of the admitter still.
    """
    spoken = {pod.metadata.uid for pod in words}
    return [*(pod for pod in shown if pod.metadata.uid not in spoken), *words]


@dataclass(frozen=True, slots=True)
class Untouched:
    """Pods of one run of an array of which a plan asks nothing one by one. Sets are as in `scavenger_api.indexes`.

    Attributes:
        running: pods by task whose container runs, which were not told to stop, and which carry the project's
            finalizer.
        runs: their tasks.
        kept: pods by task that have ended and do not carry our finalizer.
        ended: their tasks.
        starting: pods by task that may still start, and of which nothing says that they will not.
        starts: their tasks.
        told: tasks of `running` and `starting` that the admitter wants to stop, or whose deletion the informer does not
            show yet.
        last_start: when the last container of `running` started; None where there is none.
        last_run: the same of all of them.
        last_created: when the last of them was created, as its timestamp says it.
        first_created: the same of the first of `starting`; empty where there is none.
        first_progress: the oldest last checkpoint, or start, of `running`; None where it was not asked for, or there is
            none.
    """

    running: Mapping[int, Pod]
    runs: int
    kept: Mapping[int, Pod]
    ended: int
    starting: Mapping[int, Pod] = field(default_factory=dict)
    starts: int = 0
    told: int = 0
    last_start: datetime | None = None
    last_run: datetime | None = None
    last_created: str = ""
    first_created: str = ""
    first_progress: datetime | None = None

    @property
    def pods(self) -> Iterator[Pod]:
        """All of them."""
        yield from self.running.values()
        yield from self.kept.values()
        yield from self.starting.values()

    def without(self, words: Iterable[Pod]) -> Untouched:
        """Without the ended pods of these last words."""
        uids = {pod.metadata.uid for pod in words}
        spoken = set_of(task for task, pod in self.kept.items() if pod.metadata.uid in uids)
        return self.only(self.runs, self.ended & ~spoken, self.starts) if spoken else self

    def only(self, runs: int, ended: int, starts: int) -> Untouched:
        """Without the pods of other tasks than these."""
        running, kept, starting = (
            {task: pod for task, pod in pods.items() if tasks >> task & 1}
            for pods, tasks in ((self.running, runs), (self.kept, ended), (self.starting, starts))
        )
        began = [at for pod in running.values() if (at := started_at(pod)) is not None]
        earlier = [at for pod in kept.values() if (at := started_at(pod)) is not None]
        created = [_created(pod) for some in (running, kept, starting) for pod in some.values()]
        asked = running.values() if self.first_progress is not None else ()
        return Untouched(
            running,
            runs,
            kept,
            ended,
            starting,
            starts,
            last_start=max(began, default=None),
            last_run=max((*began, *earlier), default=None),
            last_created=max(created, default=""),
            first_created=min(map(_created, starting.values()), default=""),
            first_progress=min((at for pod in asked if (at := _progress(pod)) is not None), default=None),
        )


@dataclass(frozen=True, slots=True)
class _Bucket:
    """Where a pod belongs that is not read one by one.

    Attributes:
        run: the queue position that its array was started from, as the pod says it.
        owner: the UID of its Job.
        suffix: of its name. Two pods of one task have two, so they are in two groups.
        task: its index.
        ended: whether it has ended.
        started: when its container started; None where it has not, or a pod has ended that never ran.
        created: its creationTimestamp.
        progress: when it reported its last checkpoint, or its container started; None of one that does not run.
    """

    run: str
    owner: str
    suffix: str
    task: int
    ended: bool
    started: datetime | None
    created: str
    progress: datetime | None = None

    @property
    def starts(self) -> bool:
        """Whether its pod may still start."""
        return not self.ended and self.started is None

    @property
    def group(self) -> tuple[str, str, str]:
        """What all pods of a group have in common."""
        return self.run, self.owner, self.suffix


Said = Callable[[Pod], bool]
"""Whether an Event says something of the start of a pod."""


def _nothing_said(_: Pod) -> bool:
    return False


def bucket_of(pod: Pod, leaving_nodes: Collection[str], said: Said = _nothing_said) -> _Bucket | None:
    """Where a pod belongs; None where it is read one by one. leaving_nodes: those that are about to go."""
    meta, task, owner = pod.metadata, task_index(pod), pod.metadata.controller
    run = meta.annotations.get(names.ANNOTATION_RUN, "")
    if task is None or task >= MAX_TASKS or owner is None or not run or deleting(pod):
        return None
    named = pod_names.parts_of(meta.name, meta.labels.get(names.LABEL_JOB, ""))
    if named is None or named.index != task:  # else two pods might be of one task
        return None
    started, created = started_at(pod), meta.creation_timestamp or ""
    if pod.ended:
        return None if held(pod) else _Bucket(run, owner.uid, named.suffix, task, True, started, created)
    if not held(pod) or not goes_on(pod) or pod.spec.node_name in leaving_nodes or restarts(pod):
        return None
    if started is None and (not created or not waits_only(pod) or said(pod)):
        return None
    return _Bucket(run, owner.uid, named.suffix, task, False, started, created, _progress(pod))


def _progress(pod: Pod) -> datetime | None:
    """When a pod that runs reported its last checkpoint, or its container started; None of one that has not started."""
    started, saved = started_at(pod), moment(pod.metadata.annotations.get(names.ANNOTATION_LAST_CHECKPOINT))
    return started if started is None or saved is None else max(started, saved)


def _created(pod: Pod) -> str:
    return pod.metadata.creation_timestamp or ""


class _Times(Generic[T]):
    """Times of many pods. Waves of them have the same one, so there are few different ones."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[T, int] = {}

    def __iter__(self) -> Iterator[T]:
        """Each once."""
        return iter(self._counts)

    def count(self, at: T, more: int) -> None:
        """So many pods more have this one."""
        left = self._counts.get(at, 0) + more
        if left:
            self._counts[at] = left
        else:
            del self._counts[at]


@dataclass(slots=True)
class _Group:
    """The untouched pods of one Job.

    Attributes:
        where: their buckets, by task.
        began: when the containers of running pods started.
        earlier: the same of those that have ended.
        created: when the pods of all were created.
        waiting: the same of those that start.
        progress: when running pods reported their last checkpoints, or started.
    """

    running: dict[int, Pod] = field(default_factory=dict)
    kept: dict[int, Pod] = field(default_factory=dict)
    starting: dict[int, Pod] = field(default_factory=dict)
    where: dict[int, _Bucket] = field(default_factory=dict)
    runs: int = 0
    ended: int = 0
    starts: int = 0
    began: _Times[datetime] = field(default_factory=_Times)
    earlier: _Times[datetime] = field(default_factory=_Times)
    created: _Times[str] = field(default_factory=_Times)
    waiting: _Times[str] = field(default_factory=_Times)
    progress: _Times[datetime] = field(default_factory=_Times)

    def of(self, at: _Bucket) -> dict[int, Pod]:
        """The pods of a bucket."""
        return self.kept if at.ended else self.starting if at.starts else self.running

    @property
    def oldest(self) -> str:
        """When the first of those that start was created; empty where there is none."""
        return min(self.waiting, default="")

    @property
    def empty(self) -> bool:
        """Whether there are none."""
        return not self.where

    def add(self, at: _Bucket, pod: Pod) -> None:
        """Put a pod in."""
        self.of(at)[at.task] = pod
        self.where[at.task] = at
        bit = 1 << at.task
        self.ended |= bit if at.ended else 0
        self.starts |= bit if at.starts else 0
        self.runs |= 0 if at.ended or at.starts else bit
        self._count(at, 1)

    def remove(self, at: _Bucket) -> None:
        """Take a pod out."""
        del self.of(at)[at.task], self.where[at.task]
        others = ~(1 << at.task)
        self.ended, self.runs, self.starts = self.ended & others, self.runs & others, self.starts & others
        self._count(at, -1)

    def _count(self, at: _Bucket, more: int) -> None:
        self.created.count(at.created, more)
        if at.starts:
            self.waiting.count(at.created, more)
        elif at.started is not None:
            (self.earlier if at.ended else self.began).count(at.started, more)
        if at.progress is not None:
            self.progress.count(at.progress, more)

    def late(self, before: str) -> dict[int, Pod]:
        """The pods that start, and were created at that time or before."""
        if self.oldest and self.oldest <= before:
            return {task: pod for task, pod in self.starting.items() if self.where[task].created <= before}
        return {}

    def silent(self, since: datetime, now: datetime) -> dict[int, Pod]:
        """The pods that run and reported nothing later than that, or something that has yet to come."""
        if not any(at <= since or at > now for at in self.progress):
            return {}
        of_tasks = ((task, self.where[task].progress) for task in self.running)
        return {task: self.running[task] for task, at in of_tasks if at is not None and (at <= since or at > now)}

    def untouched(self, told: int) -> Untouched:
        """As it is now; what changes later changes nothing of it."""
        return Untouched(
            dict(self.running),
            self.runs,
            dict(self.kept),
            self.ended,
            dict(self.starting),
            self.starts,
            told & (self.runs | self.starts),
            last_start=max(self.began, default=None),
            last_run=max((*self.began, *self.earlier), default=None),
            last_created=max(self.created, default=""),
            first_created=self.oldest,
        )


@dataclass(slots=True)
class _Pods:
    """The pods of one ScavengerJob.

    Attributes:
        read: those that are read one by one, by key.
        buckets: where the others are, by key.
        groups: those, by `_Bucket.group`.
        by_uid: the key of each pod.
        changed: keys of pods of tasks that changed since `PodsSeen.changed` was asked.
    """

    read: dict[str, Pod] = field(default_factory=dict)
    buckets: dict[str, _Bucket] = field(default_factory=dict)
    groups: dict[tuple[str, str, str], _Group] = field(default_factory=dict)
    by_uid: dict[str, str] = field(default_factory=dict)
    changed: dict[str, None] = field(default_factory=dict)

    def put(self, pod: Pod, at: _Bucket | None) -> None:
        key = pod.metadata.key
        self.drop(key)
        self.by_uid[pod.metadata.uid] = key
        if names.LABEL_TASK in pod.metadata.labels:
            self.changed[key] = None
        if at is None:
            self.read[key] = pod
        else:
            self.buckets[key] = at
            self.groups.setdefault(at.group, _Group()).add(at, pod)

    def drop(self, key: str) -> None:
        found = self.get(key)
        if found is None:
            return
        self.changed.pop(key, None)
        self.by_uid.pop(found.metadata.uid, None)
        if self.read.pop(key, None) is None:
            at = self.buckets.pop(key)
            group = self.groups[at.group]
            group.remove(at)
            if group.empty:
                del self.groups[at.group]

    def get(self, key: str) -> Pod | None:
        at = self.buckets.get(key)
        if at is None:
            return self.read.get(key)
        return self.groups[at.group].of(at)[at.task]

    def group_of(self, run: str, owner: str) -> tuple[str, str, str] | None:
        """The largest group of the pods of one Job; None where there is none. There is another one where an older
        admitter has made pods of this Job meanwhile, or a user may write pods as the admitter does."""
        found = [name for name in self.groups if name[:2] == (run, owner)] if owner else []
        return max(found, key=lambda name: (len(self.groups[name].where), name), default=None)

    def others(self, but: tuple[str, str, str] | None) -> Iterator[Pod]:
        """All pods but those of one group."""
        yield from self.read.values()
        for name, group in self.groups.items():
            if name != but:
                yield from group.running.values()
                yield from group.kept.values()
                yield from group.starting.values()


class PodsSeen:
    """All pods of ScavengerJobs as informers show them; those of arrays are in buckets.

    Not safe for use from several threads; every method is quick and none awaits.

    Args:
        said: whether an Event says something of the start of a pod. Where that changes, the pod is to be applied again.
    """

    def __init__(self, said: Said = _nothing_said) -> None:
        self._jobs: dict[str, _Pods] = {}
        self._leaving: set[str] = set()
        self._said = said

    # --- what informers show ---

    def apply(self, old: Pod | None, new: Pod | None) -> None:
        """A pod was added or changed, or is gone. old: as it was shown before; new: None for one that is gone."""
        if old is not None and (new is None or job_key_of(new) != job_key_of(old)):
            self._drop(job_key_of(old), old.metadata.key)
        job = job_key_of(new) if new is not None else ""
        if new is not None and job:
            self._jobs.setdefault(job, _Pods()).put(new, bucket_of(new, self._leaving, self._said))

    def apply_node(self, name: str, node: Node | None, pods: Iterable[Pod]) -> None:
        """A node was added or changed, or is gone. pods: of ScavengerJobs that are on it."""
        goes = node is not None and bool(leaving(node))
        if goes == (name in self._leaving):
            return
        (self._leaving.add if goes else self._leaving.discard)(name)
        for pod in pods:
            if (job := job_key_of(pod)) and (found := self._jobs.get(job)) is not None:
                found.put(pod, bucket_of(pod, self._leaving, self._said))

    def _drop(self, job: str, key: str) -> None:
        found = self._jobs.get(job)
        if found is None:
            return
        found.drop(key)
        if not found.read and not found.buckets:
            del self._jobs[job]

    # --- what reconciles ask ---

    def view(
        self,
        job: str,
        run: str,
        owner: str,
        told: Iterable[str],
        late: str = "",
        silent: tuple[datetime, datetime] | None = None,
    ) -> tuple[list[Pod], Untouched | None]:
        """The pods of an array that are read one by one, and the others.

        Args:
            job: `namespace/name` of the ScavengerJob.
            run: its present run. Pods of others are read.
            owner: the UID of its Job. Pods of others are read, all of them where it is empty.
            told: UIDs of pods that are to stop.
            late: pods that were created at that time or before, and have not started, are read. As a timestamp.
            silent: a moment, and now: pods that run and whose last checkpoint, or start, is not between these are read.
        """
        found = self._jobs.get(job)
        if found is None:
            return [], None
        name = found.group_of(run, owner)
        read = list(found.others(name))
        if name is None:
            return read, None
        tasks = 0
        for uid in told:
            at = found.buckets.get(found.by_uid.get(uid, ""))
            tasks |= 1 << at.task if at is not None else 0
        group = found.groups[name]
        quiet, overdue = group.untouched(tasks), group.late(late)
        if silent is not None:
            quiet = replace(quiet, first_progress=min(group.progress, default=None))
            overdue |= group.silent(*silent)
        if overdue:
            others = ~set_of(overdue)
            quiet = replace(quiet.only(quiet.runs & others, quiet.ended, quiet.starts & others), told=quiet.told)
        return [*read, *overdue.values()], quiet

    def by_uid(self, job: str, uids: Iterable[str]) -> list[Pod]:
        """The pods of a ScavengerJob with these UIDs, as far as they are shown."""
        found = self._jobs.get(job)
        keys = (found.by_uid.get(uid, "") for uid in uids) if found is not None else ()
        return [pod for key in keys if found is not None and (pod := found.get(key)) is not None]

    def changed(self, job: str) -> list[Pod]:
        """The pods of tasks of an array that changed since this was asked last, as they are now."""
        found = self._jobs.get(job)
        if found is None:
            return []
        keys, found.changed = found.changed, {}
        return [pod for key in keys if (pod := found.get(key)) is not None]

    def assert_sound(self, job: str, pods: Iterable[Pod], nodes: Mapping[str, Node | None]) -> None:
        """Raise AssertionError where buckets are not those that these pods and nodes give.

        Args:
            job: `namespace/name` of the ScavengerJob.
            pods: all that the informer shows of it.
            nodes: those that the pods are on.
        """
        goes = {name for name, node in nodes.items() if node is not None and leaving(node)}
        found, anew = self._jobs.get(job, _Pods()), _Pods()
        for pod in pods:
            anew.put(pod, bucket_of(pod, goes, self._said))
        assert found.buckets == anew.buckets, f"buckets of {job}: {_differ(found.buckets, anew.buckets)}"
        assert found.read == anew.read, f"pods of {job} read one by one: {_differ(found.read, anew.read)}"
        assert found.by_uid == anew.by_uid, f"UIDs of {job}: {_differ(found.by_uid, anew.by_uid)}"
        assert found.groups.keys() == anew.groups.keys(), f"groups of {job}: {_differ(found.groups, anew.groups)}"
        for name, group in found.groups.items():
            assert group.untouched(0) == anew.groups[name].untouched(0), (
                f"group {name} of {job} is not that of its pods"
            )


def _differ(one: Mapping[Any, Any], other: Mapping[Any, Any]) -> list[str]:
    return sorted(str(name) for name in {*one, *other} if one.get(name) != other.get(name))[:5]
