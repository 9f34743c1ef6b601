"""A history that a seed decides: two replicas of the admitter, and everything that goes wrong around them.

Watches fall behind, answers are lost, processes are killed, pods evicted and jobs replaced. In histories with odd seeds
the admitter creates the pods of its Jobs; in the others some replicas do, as while the setting changes.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import orjson
import structlog
from scavenger_admitter.informers import SCAVENGERQUEUES
from scavenger_admitter.writer import SCAVENGERJOBS
from scavenger_api import names
from scavenger_kube.resources import JOBS, NODES, PODS
from scavenger_testing import FakeApi
from scavenger_testing.virtual_loop import LoopClock, run_virtually

from tests.unit.admitter.harness import NS, Harness, Instance, Object
from tests.unit.admitter.test_stale_caches import completes

JOBS_AT_MOST = 4
STEPS = 40
WATCHED = (PODS, JOBS, SCAVENGERJOBS)
OTHER = "other"
HANGS = 0.02
"""Of the requests that fail; each takes as long as the client waits."""
OFTEN = (("PATCH", "/scavengerjobs"), ("DELETE", "/jobs"))


@dataclass(frozen=True)
class Stop:
    """How a pod ends that was told to: when, on the monotonic clock, and with which exit code."""

    at: float
    code: int


@dataclass
class Trouble:
    """What has been done to the pods, by uid.

    Attributes:
        stops: pods that were told to stop.
        succeeded: pods that ended by themselves, with 0, before anybody told them to stop.
    """

    stops: dict[str, Stop] = field(default_factory=dict)
    succeeded: set[str] = field(default_factory=set)


class History(Harness):
    """A cluster in which everything goes wrong that a seed says."""

    def __init__(self, api: FakeApi, clock: LoopClock, seed: int) -> None:
        super().__init__(api, clock)
        self.random = random.Random(seed)
        self.always_managed = seed % 2 == 1
        self.trouble = Trouble()
        self.replicas: list[Instance] = []
        self.born = 0
        self.happened: list[str] = []
        queue = {"apiVersion": names.API_VERSION, "kind": "ScavengerQueue", "metadata": {"name": OTHER}}
        self.api.put(SCAVENGERQUEUES, {**queue, "spec": {"weight": 1}})

    async def quiet(self) -> None:
        """Time passes only when nobody has anything to do."""

    @property
    def digest(self) -> str:
        """Of every write there was: two histories with the same one are the same."""
        return hashlib.sha256(orjson.dumps([(e.version, e.new) for e in self.api.store.history])).hexdigest()[:16]

    # --- the cluster --------------------------------------------------------------------------------

    def tick(self) -> None:
        super().tick()
        for job in self.api.stored(JOBS):
            meta, pods = job["metadata"], self._pods_of(job)
            managed = job["spec"].get("managedBy") == names.MANAGED_BY
            done = (
                not managed
                and len(pods) == job["spec"]["parallelism"]
                and all(p["status"]["phase"] == "Succeeded" for p in pods)
            )
            if done and "deletionTimestamp" not in meta and not job.get("status", {}).get("conditions"):
                completes(self, meta["name"])
        self._collect_garbage()

    def _collect_garbage(self) -> None:
        """What the garbage collector does with a Job whose ScavengerJob is gone, and with a pod whose Job is, such as
        one that was created late."""
        owners = {job["metadata"]["uid"] for job in self.api.stored(SCAVENGERJOBS)}
        for job in list(self.api.stored(JOBS)):
            if _owner(job) not in owners:
                self._remove_job(job)
        there = {job["metadata"]["uid"] for job in self.api.stored(JOBS)}
        for pod in list(self.api.stored(PODS)):
            if (owner := _owner(pod)) and owner not in there and not _deleting(pod):
                self.delete_pod(pod)

    def end(self, pod: Object, code: int = 0) -> None:
        uid = pod["metadata"]["uid"]
        if "deletionTimestamp" in pod["metadata"]:
            stop = self.trouble.stops.setdefault(uid, self._stop())
            if self.clock.monotonic() < stop.at:
                return
            code = stop.code
        else:
            self.trouble.succeeded.add(uid)
        super().end(pod, code)

    def _stop(self) -> Stop:
        return Stop(self.clock.monotonic() + self.random.uniform(0, 30), self.random.choice((0, 143)))

    def _pods_of(self, job: Object) -> list[Object]:
        return [pod for pod in self.api.stored(PODS) if _owner(pod) == job["metadata"]["uid"]]

    # --- what happens -------------------------------------------------------------------------------

    def step(self) -> Callable[[], Any]:
        """What happens next."""
        often = (self.evict, self.fall_behind, self.lose)
        once = (self.submit_one, self.delete_job, self.replace, self.suspend, self.move, self.finish)
        machines = (self.lose_node, self.return_node, self.step_clock, self.kill)
        act = self.random.choice((*often, *often, *once, self.catch_up, self.cut, *machines))
        self.happened.append(act.__name__)
        return act

    def submit_one(self) -> None:
        if len(self.phases()) < JOBS_AT_MOST:
            self.submit(f"j{len(self.happened)}", parallelism=self.random.choice((1, 1, 2)))

    def evict(self) -> None:
        living = [pod for pod in self.api.list(PODS) if pod["status"]["phase"] == "Running" and not _deleting(pod)]
        if living:
            self.delete_pod(self.random.choice(living))

    def delete_job(self) -> None:
        if found := self.api.list(JOBS):
            self._remove_job(self.random.choice(found))

    def _remove_job(self, job: Object) -> None:
        pods = self._pods_of(job)
        self.api.remove(JOBS, NS, job["metadata"]["name"])
        for pod in pods:
            if not _deleting(pod):
                self.delete_pod(pod)

    def replace(self) -> None:
        """`kubectl replace --force`."""
        if found := self.api.list(SCAVENGERJOBS):
            job = self.random.choice(found)
            name = job["metadata"]["name"]
            self.api.remove(SCAVENGERJOBS, NS, name)
            if (batch := self.api.get(JOBS, NS, name)) is not None:
                self._remove_job(batch)
            self.submit(name, parallelism=job["spec"]["parallelism"])

    def suspend(self) -> None:
        if found := self.api.list(SCAVENGERJOBS):
            self._suspend(self.random.choice(found), suspended=self.random.random() < 0.5)

    def _suspend(self, job: Object, *, suspended: bool) -> None:
        self.api.edit(SCAVENGERJOBS, NS, job["metadata"]["name"], lambda obj: obj["spec"].update(suspend=suspended))

    def move(self) -> None:
        """A job goes to another queue, as far as the rule of the CRD lets it."""
        if free := [job for job in self.api.list(SCAVENGERJOBS) if "jobName" not in job.get("status", {})]:
            queue = self.random.choice((names.DEFAULT_QUEUE, OTHER))
            name = self.random.choice(free)["metadata"]["name"]
            self.api.edit(SCAVENGERJOBS, NS, name, lambda job: job["spec"].update(queue=queue))

    def finish(self) -> None:
        running = [name for name, phase in self.phases().items() if phase == "Running"]
        for pod in self.pods(self.random.choice(running)) if running else ():
            if pod["status"]["phase"] == "Running" and not _deleting(pod):
                self.end(pod)

    def fall_behind(self) -> None:
        self.api.hold_watches(self.random.choice(WATCHED))

    def catch_up(self) -> None:
        self.api.release_watches(*WATCHED)

    def lose(self) -> None:
        """A request fails, before or after it took effect."""
        method, path = self.random.choice((("POST", "/jobs"), ("POST", "/pods"), ("PATCH", "/jobs"), *OFTEN))
        chance = self.random.random()
        if chance < HANGS:
            self.api.hang(methods={method}, path=path)
        elif chance < 0.4:
            self.api.fail(self.random.choice((403, 409, 500)), methods={method}, path=path)
        else:
            self.api.drop(methods={method}, path=path, after_write=self.random.random() < 0.7)

    def lose_node(self) -> None:
        """The machine falls silent, and what runs on it is to be evicted."""
        self.kubelet = False
        self._ready("Unknown")
        for pod in self.api.list(PODS):
            if not _deleting(pod) and self.random.random() < 0.5:
                self.delete_pod(pod)

    def return_node(self) -> None:
        if not self.kubelet:
            self._ready("True")
            self.kubelet = True

    def _ready(self, status: str) -> None:
        condition = {"type": "Ready", "status": status, "lastTransitionTime": self.stamp()}
        self.api.edit(NODES, None, "n1", lambda node: node["status"].update(conditions=[condition]))

    def step_clock(self) -> None:
        self.random.choice(self.replicas).clock.skew = timedelta(seconds=self.random.choice((-3600, -60, 60, 600)))

    def cut(self) -> None:
        self.random.choice((self.api.drop_watches, self.api.expire_watches))()

    async def kill(self) -> None:
        """A replica dies, and another one stands by."""
        await self.replicas.pop(self.random.randrange(len(self.replicas))).kill()
        self.stand_by()

    def stand_by(self) -> None:
        managed = self.always_managed or self.random.random() < 0.3
        self.born += 1
        self.replicas.append(self.admitter(leader_elect=True, managed_jobs=managed, identity=f"admitter-{self.born}"))

    # --- the end ------------------------------------------------------------------------------------

    def calm(self) -> None:
        """Nothing goes wrong any more, and no job is suspended."""
        self.api.heal()
        self.catch_up()
        self.return_node()
        for replica in self.replicas:
            replica.clock.skew = timedelta()
        for job in self.api.list(SCAVENGERJOBS):
            self._suspend(job, suspended=False)

    def settled(self, *phases: str) -> bool:
        return set(self.phases().values()) <= set(phases)

    def all_done(self) -> bool:
        """Whether every job is Completed; whatever runs ends by itself on the way. The status may still speak of a run
        that somebody has just ended."""
        for name, phase in self.phases().items():
            if phase == "Running":
                self.succeed(name)
        return self.settled("Completed") and not self.held()

    # --- what holds ---------------------------------------------------------------------------------

    def lives(self) -> Iterator[tuple[str, set[str]]]:
        """At every moment and for each name, the Jobs with pods that may compute."""
        alive: dict[str, dict[str, str]] = {}
        for entry in self.api.store.history:
            obj = entry.new or entry.old
            if entry.kind.plural == "pods" and obj is not None:
                name, uid = obj["metadata"]["labels"][names.LABEL_JOB], obj["metadata"]["uid"]
                mine = alive.setdefault(name, {})
                mine.pop(uid, None)
                if entry.new is not None and _computes(entry.new):
                    mine[uid] = obj["metadata"]["annotations"][names.ANNOTATION_RUN]
                yield name, set(mine.values())

    def runs_of(self, job: Object) -> dict[str, list[Object]]:
        """The last states of the pods of each run of a job that ran together, by the uid of its Job."""
        last: dict[str, Object] = {}
        for entry in self.api.store.history:
            if entry.kind.plural == "pods" and entry.new is not None:
                last[entry.new["metadata"]["uid"]] = entry.new
        mine = {
            entry.new["metadata"]["uid"]
            for entry in self.api.store.history
            if entry.kind.plural == "jobs"
            and entry.new is not None
            and any(owner["uid"] == job["metadata"]["uid"] for owner in entry.new["metadata"]["ownerReferences"])
        }
        runs: dict[str, list[Object]] = {}
        for pod in last.values():
            if _owner(pod) in mine and pod["status"].get("containerStatuses"):
                runs.setdefault(_owner(pod), []).append(pod)
        return {uid: pods for uid, pods in runs.items() if len(pods) >= job["spec"]["parallelism"]}


def _owner(pod: Object) -> str:
    return next((str(owner["uid"]) for owner in pod["metadata"].get("ownerReferences", ())), "")


def _deleting(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _computes(pod: Object) -> bool:
    return bool(pod["spec"].get("nodeName")) and pod["status"]["phase"] not in ("Succeeded", "Failed")


async def play(c: History) -> None:
    """The history, and then peace until every job is Completed."""
    c.node()
    c.stand_by()
    c.stand_by()
    for name in ("a", "b"):
        c.submit(name)
    await c.pass_time(5)
    for _ in range(STEPS):
        done = c.step()()
        if done is not None:
            await done
        for _ in range(c.random.randint(1, 3)):
            await c.turn(c.random.choice((0.2, 1.0, 3.0, 8.0)))
    c.calm()
    await c.until(lambda: c.settled("Running", "Completed"), limit=1800, step=5)
    await c.until(c.all_done, limit=600, step=5)


def simulate(seed: int) -> History:
    """Play one history from beginning to end. Raises AssertionError where something does not hold, or TimeoutError
    where it does not come to its end."""
    with structlog.testing.capture_logs():
        return run_virtually(seed, lambda clock, _: _simulated(seed, clock))


async def _simulated(seed: int, clock: LoopClock) -> History:
    async with FakeApi(clock) as api:
        c = History(api, clock, seed)
        try:
            await play(c)
        finally:
            await c.close()
    for name, living in c.lives():
        assert len(living) <= 1, f"{name} lives twice: {living}"
    for job in api.list(SCAVENGERJOBS):
        runs = c.runs_of(job)
        where = f"{job['metadata']['name']}: {job['status']}"
        assert job["status"]["interruptedCount"] <= len(runs) - 1, where
        assert any({pod["metadata"]["uid"] for pod in pods} <= c.trouble.succeeded for pods in runs.values()), where
    return c
