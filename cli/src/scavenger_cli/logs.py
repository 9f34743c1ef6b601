"""The output of a job: of all pods of its gang, and across interruptions."""

from __future__ import annotations

import queue
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from scavenger_api.checkpoints import completion_index
from scavenger_api.states import Phase
from scavenger_domain.gang import task_index
from scavenger_kube.errors import ApiError, Forbidden, Invalid, NotFound, Unauthorized
from scavenger_kube.kinds import Pod

from scavenger_cli import objects, paths
from scavenger_cli.access import Access
from scavenger_cli.exits import CliError, ExitCode
from scavenger_cli.follow import Change, Follower, follow
from scavenger_cli.objects import Job, decode_items, program_of
from scavenger_cli.sources import of_job
from scavenger_cli.words import ordinal

MAX_PODS: Final = 100
"""Pods followed at once; each is a connection that the API server keeps open to a kubelet."""
RETRY_SECONDS: Final = 0.5
_TIMESTAMP: Final = re.compile(rb"\d{4}-\d\d-\d\dT")


@dataclass(frozen=True)
class Selection:
    """Which lines. index: of one member of the gang. tail: lines from the end. since: seconds back."""

    index: int | None = None
    tail: int | None = None
    since: int | None = None
    timestamps: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a pod. index: of its pod in the gang."""

    index: int
    text: bytes


@dataclass(frozen=True, slots=True)
class Ended:
    """A pod's log has come to its end. problem: why it could not be read, None where it could."""

    uid: str
    pod: str
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Broken:
    """Following the job itself is over."""

    error: BaseException


Item: TypeAlias = Line | Ended | Broken | Change[Job] | Change[Pod]


def index_of(pod: Pod) -> int:
    """The index of the task that a pod is of, or its completion index; 0 where it has none."""
    task = task_index(pod)
    return task if task is not None else completion_index(pod.metadata.annotations, pod.metadata.labels) or 0


def has_output(pod: Pod) -> bool:
    """Whether its container has started, so that there is a log to ask for."""
    status = next((s for s in pod.status.container_statuses if s.name == program_of(pod)), None)
    return status is not None and (status.state.running is not None or status.state.terminated is not None)


def has_ended(pod: Pod) -> bool:
    """Whether its container has printed its last line."""
    status = next((s for s in pod.status.container_statuses if s.name == program_of(pod)), None)
    return pod.ended or (status is not None and status.state.terminated is not None)


def split_timestamp(line: bytes) -> tuple[bytes, bytes]:
    """The kubelet's timestamp (RFC 3339, nine digits) and the line behind it.

    Without a timestamp these are the kubelet's own words, about a log that it cannot read (any more): no timestamp, and
    all of them.
    """
    stamp, _, text = line.partition(b" ")
    return (stamp, text) if _TIMESTAMP.match(stamp) else (b"", line)


def notice(job: Job, before: str | None) -> str | None:
    """What to say between the lines when the phase has changed; None for nothing. before: None at the beginning."""
    if job.phase == before:
        return None
    message = f": {job.status.message}" if job.status.message else ""
    if job.phase == Phase.INTERRUPTED:
        return f"interrupted for the {ordinal(max(1, job.status.interrupted_count))} time{message}"
    if job.phase == Phase.RUNNING:
        return "running again" if job.status.interrupted_count and before is not None else "running"
    if job.phase in objects.FINISHED:
        return job.phase.lower() + (message if job.phase == Phase.FAILED else "")
    return f"{(job.phase or Phase.WAITING).lower()}{message}"


def gone(job: Job) -> str | None:
    """What to say of the runs before the present one, whose output went with their pods; None where there were none."""
    runs = job.status.interrupted_count
    if not runs:
        return None
    which = "the interrupted run" if runs == 1 else f"the {runs} interrupted runs"
    return (
        f"the output of {which} went with the pods; write what you need into a volume, or collect the logs of the nodes"
    )


class Follow:
    """Follows a job until it has finished. `items` gives lines and changes in the order they arrive.

    Every stream has a thread and all of them put into one queue, so that a line is never split and no stream waits for
    another. The threads are daemons: a command that ends does not wait for what may never come.
    """

    def __init__(
        self, access: Access, job: Job, selection: Selection, *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._access = access
        self._job = job
        self._selection = selection
        self._sleep = sleep
        self._items: queue.SimpleQueue[Item] = queue.SimpleQueue()
        self._streams: dict[str, bool] = {}
        self._ended_pods: set[str] = set()

    def items(self) -> Iterator[Line | Ended | Change[Job]]:
        """Lines, logs that could not be read, and the job whenever it changed.

        Ends when the job has finished, or is gone, and its pods have said everything.

        Raises CliError, ApiError.
        """
        self._start(self._follow_job)
        self._start(self._follow_pods)
        finished = False
        while not (finished and all(self._streams.values())):
            item = self._items.get()
            if isinstance(item, Broken):
                raise item.error
            if isinstance(item, Line):
                yield item
            elif isinstance(item, Ended):
                self._streams[item.uid] = True
                if item.problem:
                    yield item
            elif isinstance(item.obj, Pod):
                self._on_pod(item.obj)
            elif isinstance(item.obj, Job) and not finished:  # another job of that name may follow
                yield Change(item.type, item.obj)
                finished = item.type == "DELETED" or item.obj.phase in objects.FINISHED
                if finished:
                    self._last_pods()

    def _on_pod(self, pod: Pod) -> None:
        if has_ended(pod):
            self._ended_pods.add(pod.metadata.uid)
        wanted = self._selection.index in (None, index_of(pod))
        if not wanted or pod.metadata.uid in self._streams or not has_output(pod):
            return
        running = sum(not ended for ended in self._streams.values())
        if running >= MAX_PODS:
            raise CliError(
                f"{self._job.name} has more than {MAX_PODS} pods", "choose one of them with --index", ExitCode.USAGE
            )
        self._streams[pod.metadata.uid] = False
        self._start(lambda: self._follow_log(pod))

    def _last_pods(self) -> None:
        """The job may be seen to end before its pods are seen to have run."""
        for pod in pods_of(self._access, self._job):
            self._on_pod(pod)

    # --- threads ------------------------------------------------------------------------------------------------

    def _start(self, work: Callable[[], None]) -> None:
        def run() -> None:
            try:
                work()
            except BaseException as error:
                self._items.put(Broken(error))

        threading.Thread(target=run, daemon=True).start()

    def _follow_job(self) -> None:
        source = of_job(type(self._job), self._job.namespace, self._job.name)
        for change in follow(self._access.client, [source]):
            self._items.put(change)

    def _follow_pods(self) -> None:
        for change in Follower(
            self._access.client, paths.pods(self._job.namespace), Pod, _selector(self._job)
        ).changes():
            if change.type != "DELETED":
                self._items.put(change)

    def _follow_log(self, pod: Pod) -> None:
        """The log of one pod to its end, taken up again after the last line seen when the connection breaks."""
        reader = _LogReader(self._access, pod, self._selection)
        problem = None
        while True:
            try:
                for line in reader.lines(follow=True):
                    self._items.put(line)
            except (NotFound, Forbidden, Unauthorized) as error:
                problem = error.message if not reader.read_any else None
                break
            except Invalid as error:  # the kubelet does not know the container yet, or not any more
                if pod.metadata.uid in self._ended_pods:
                    problem = error.message
                    break
            except ApiError:
                pass
            else:
                if pod.metadata.uid in self._ended_pods:
                    problem = reader.unreadable if not reader.read_any else None
                    break  # otherwise a kubelet or a proxy in between ended the answer, and there is more to come
            self._sleep(RETRY_SECONDS)
        self._items.put(Ended(pod.metadata.uid, pod.metadata.name, problem))


@dataclass
class _LogReader:
    """Reads a pod's log, and goes on after the last line when asked again."""

    access: Access
    pod: Pod
    selection: Selection
    last: bytes = b""
    read_any: bool = False
    unreadable: str | None = None
    """Why the kubelet could not read the log, or the rest of it; it says so in the log's place."""

    def lines(self, *, follow: bool) -> Iterator[Line]:
        index, began = index_of(self.pod), self.last
        params: dict[str, str | int | bool | None] = {
            "container": program_of(self.pod),
            "follow": follow,
            "timestamps": True,
        }
        if self.last:
            params["sinceTime"] = self.last.decode()
        else:
            params["tailLines"], params["sinceSeconds"] = self.selection.tail, self.selection.since
        path = paths.log(self.pod.metadata.namespace, self.pod.metadata.name)
        for line in self.access.client.stream(path, params):
            stamp, text = split_timestamp(line)
            if not stamp:
                self.unreadable = text.decode(errors="replace")
            elif stamp > began:  # sinceTime is exact to the second only
                self.last, self.read_any = stamp, True
                yield Line(index, line if self.selection.timestamps else text)


def _selector(job: Job) -> dict[str, str]:
    return {"labelSelector": job.pods_selector}


def pods_of(access: Access, job: Job) -> list[Pod]:
    """The pods of a job, in the order of the gang."""
    body = access.client.get(paths.pods(job.namespace), _selector(job))
    return sorted(decode_items(body, Pod), key=lambda pod: (index_of(pod), pod.metadata.name))


def printed(access: Access, job: Job, selection: Selection) -> Iterator[Line]:
    """What the pods have printed so far. Raises CliError where there is none to ask, ApiError."""
    pods = [pod for pod in pods_of(access, job) if has_output(pod)]
    present = [pod for pod in pods if pod.metadata.deletion_timestamp is None] or pods
    chosen = [pod for pod in present if selection.index in (None, index_of(pod))]
    if not chosen:
        raise CliError(
            f"no pod of {job.name} has run that is still there"
            if selection.index is None
            else f"no pod of {job.name} with index {selection.index} has run that is still there",
            f"the job is {job.phase or Phase.WAITING}, and the output of earlier runs went with their pods: "
            f"`kubectl sj logs -f {job.name}` waits for the next",
        )
    for pod in chosen:
        reader = _LogReader(access, pod, selection)
        yield from reader.lines(follow=False)
        if reader.unreadable:
            yield Line(index_of(pod), reader.unreadable.encode())
