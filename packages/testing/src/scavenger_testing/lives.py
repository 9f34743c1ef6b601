"""What pods did, by their own account: what the books of a job are held to."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from scavenger_api.names import ANNOTATION_LAST_CHECKPOINT, LABEL_JOB, LABEL_TASK
from scavenger_api.times import checkpoint_time, parse_time
from scavenger_cluster.api import ApiClient, namespaced
from scavenger_domain.checkpoints import stated_checkpoint
from scavenger_kube.errors import ApiError

WATCH_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Life:
    """A container that ran and ended. Moments are whole seconds since the epoch, as in the status of a job.

    Attributes:
        task: the index of its task; empty where it is of none.
        started: when it did.
        asked: when its pod was first asked to go; None: not while it ran.
        ended: when it did.
        saved: its last checkpoint, by annotation or termination message; None: it reported none.
        code: how it exited.
    """

    task: str
    started: int
    asked: int | None
    ended: int
    saved: int | None
    code: int

    @property
    def done(self) -> bool:
        """Whether its program came to its end by itself."""
        return self.asked is None and self.code == 0

    @property
    def stopped(self) -> tuple[int, int]:
        """Between which moments it stopped computing for its job: a note of its eviction is a little older."""
        return (self.ended if self.asked is None else min(self.asked - 1, self.ended)), self.ended

    def computed(self, until: int) -> int:
        """Seconds that it ran until a moment."""
        return max(0, until - self.started)

    def kept(self, until: int) -> int:
        """How many of these were not in vain."""
        saved = self.started if self.saved is None else self.saved
        return self.computed(until if self.done else min(saved, until))


class Lives:
    """Follows the pods of a job while it is open."""

    def __init__(self) -> None:
        self._last: dict[str, Mapping[str, Any]] = {}
        self._asked: dict[str, int] = {}
        self._closed = threading.Event()

    @property
    def pods(self) -> list[Mapping[str, Any]]:
        """All that there have been, as they were seen last."""
        return list(self._last.values())

    @property
    def ended(self) -> list[Life]:
        """Those whose container ran and ended."""
        found = ((uid, pod, _terminated(pod)) for uid, pod in list(self._last.items()))
        return [_life(pod, ended, self._asked.get(uid)) for uid, pod, ended in found if ended]

    def follow(self, client: ApiClient, path: str, selector: str) -> None:
        """Until closed. A watch that ends is begun again where it was."""
        version = ""
        while not self._closed.is_set():
            with suppress(ApiError):  # the connection breaks, where a server has too much to do
                for event in client.events(path, seconds=WATCH_SECONDS, selector=selector, version=version):
                    version = event["object"]["metadata"].get("resourceVersion", "")  # none with an error: from now on
                    if event["type"] != "ERROR":
                        self._see(event["object"])
            self._closed.wait(0.2)

    def close(self) -> None:
        """See no more."""
        self._closed.set()

    def _see(self, pod: Mapping[str, Any]) -> None:
        meta = pod["metadata"]
        self._last[meta["uid"]] = pod
        if (at := _seconds(meta.get("deletionTimestamp"))) is not None:
            self._asked.setdefault(meta["uid"], at - meta.get("deletionGracePeriodSeconds", 0))


@contextmanager
def lives_of(client: ApiClient, namespace: str, job: str) -> Iterator[Lives]:
    """Follow the pods of a job that is not there yet."""
    found = Lives()
    where = (client, namespaced("pods", namespace), f"{LABEL_JOB}={job}")
    threading.Thread(target=found.follow, args=where, daemon=True).start()
    try:
        yield found
    finally:
        found.close()


def assert_books(status: Mapping[str, Any], lives: list[Life], cores: float) -> None:
    """The interruptions, useful and lost time of a status are what its pods did, as exactly as these tell.

    Args:
        status: of the job.
        lives: all there were of it.
        cores: that each pod requests.
    """
    assert status["interruptedCount"] == sum(not life.done for life in lives)
    kept = [[life.kept(at) for at in life.stopped] for life in lives]
    lost = [[life.computed(at) - life.kept(at) for at in life.stopped] for life in lives]
    for field, spans in (("usefulCPUSeconds", kept), ("lostCPUSeconds", lost)):
        least, most = (cores * sum(side) for side in zip(*spans, strict=True))
        assert least - 0.01 <= status[field] <= most + 0.01, f"{field} is {status[field]}, by pods {least} to {most}"


def _terminated(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    main: Mapping[str, Any] = next(iter(pod["status"].get("containerStatuses") or ()), {})
    found: Mapping[str, Any] = main.get("state", {}).get("terminated") or {}
    return found if found.get("startedAt") else {}


def _life(pod: Mapping[str, Any], ended: Mapping[str, Any], asked: int | None) -> Life:
    meta = pod["metadata"]
    started, at = _seconds(ended["startedAt"]), _seconds(ended["finishedAt"])
    assert started is not None
    assert at is not None
    noted = checkpoint_time(meta.get("annotations", {}).get(ANNOTATION_LAST_CHECKPOINT))
    annotated = int(noted.timestamp()) if noted is not None else None
    said = stated_checkpoint(ended.get("message", ""))
    reports = (annotated, int(said.timestamp()) if said is not None else None)
    saved = max((one for one in reports if one is not None and one <= at), default=None)
    asked = asked if asked is not None and asked <= at else None
    return Life(meta["labels"].get(LABEL_TASK, ""), started, asked, at, saved, ended["exitCode"])


def _seconds(stamp: str | None) -> int | None:
    at = parse_time(stamp)
    return int(at.timestamp()) if at is not None else None
