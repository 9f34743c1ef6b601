"""The system among others: programs that fail, registries that are gone, and tools that write where services do.

What is promised within a time is held to it in the peace at the end, when nothing goes wrong any more. One history in
so many ends with the deletion of the namespace of jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from scavenger_admitter.writer import SCAVENGERJOBS
from scavenger_api import names
from scavenger_kube.errors import error_for_status
from scavenger_kube.resources import JOBS, NODES, PODDISRUPTIONBUDGETS, PODS, Resource
from scavenger_testing import FakeApi, running
from scavenger_testing.builders import waiting
from scavenger_testing.virtual_loop import LoopClock

from tests.simulation.system.history import GRACE, _computes, _cores, _deleting, _job, _main_over, _over, _owner
from tests.simulation.system.system import CORES, HELD_BY_OTHERS, SHOP, System, _may_go_to, _priority, _takes_pods
from tests.unit.admitter.harness import NS, Object

ENDS_BY_DELETION_EVERY: Final = 5
"""One history in so many ends with the deletion of the namespace of jobs."""
SIDECAR: Final[Object] = {
    "name": "mesh",
    "image": "example.org/mesh:1",
    "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
}
"""A container that others add to pods. It serves until it is told to stop."""
DENIED: Final = 'admission webhook "policy.example.org" denied the request: no new pods today'
DELETED_WITH_NAMESPACE: Final[tuple[Resource[Any], ...]] = (SCAVENGERJOBS, JOBS, PODS, PODDISRUPTIONBUDGETS)
FAILS_WITH: Final = 3
"""The exit code of a program that fails."""
TAKEN_UP: Final = 90.0
"""Seconds in which whoever has to do something about a pod does it: a new leader may have to be found first."""
SCHEDULED: Final = 30.0
"""Seconds of turns in which a node is chosen, a victim is told to go, and the pod is placed. A turn takes up to 8."""
LIMITS: Final = {
    "a pod that is deleted stays": GRACE + TAKEN_UP,
    "a gang is neither whole nor on its way out": TAKEN_UP,
    "an ordinary pod waits for what scavenger jobs have": GRACE + SCHEDULED,
}
"""For how many seconds each of these may last in peace."""


class World(System):
    """A cluster with all services, their users, and everybody else."""

    def __init__(self, api: FakeApi, clock: LoopClock, seed: int) -> None:
        super().__init__(api, clock, seed)
        self.deletes_namespace = seed % ENDS_BY_DELETION_EVERY == 2
        self.terminating = False
        self.denies = False
        self.registry = True
        self.since: dict[tuple[str, str], float] = {}
        """When which of what has a limit was first seen, by what it is and whom it is about."""
        self.admission = self._admit
        self.pods_of = self._lets_pods_in

    # --- the cluster --------------------------------------------------------------------------------

    def _lets_pods_in(self, job: Object) -> bool:
        """Whether the Job controller can create all pods of a Job."""
        refused = self._refused({"kind": "Pod", "metadata": job["metadata"]})
        return not refused and self._left_of_quota("pods") >= job["spec"]["parallelism"]

    def _admit(self, body: Object) -> None:
        """What admission of others and the API server say to what services create. Raises ApiError."""
        if said := self._refused(body):
            raise error_for_status({"kind": "Status", "code": 403, "reason": "Forbidden", "message": said})
        self._within_quota(body)

    def _refused(self, body: Object) -> str:
        """Why this object is not created; empty where it may be."""
        if self.terminating and body["metadata"].get("namespace") == NS:
            return f"unable to create new content in namespace {NS} because it is being terminated"
        return DENIED if self.denies and body["kind"] in ("Pod", "Job") else ""

    def tick(self) -> None:
        super().tick()
        if self.terminating:
            for resource in DELETED_WITH_NAMESPACE:
                for one in self.api.list(resource, NS):
                    self.api.delete(resource, NS, one["metadata"]["name"])

    def run(self, pod: Object) -> None:
        """The image is pulled where its registry answers, and all containers start."""
        if self.registry or pod["metadata"]["namespace"] != NS:
            super().run(pod)
            self._start_sidecars(pod)
        elif (node := pod["spec"].get("nodeName") or self._place(pod)) is not None and node not in self.silent:
            self._wait_for_image(pod, node)

    def _start_sidecars(self, pod: Object) -> None:
        others = [one["name"] for one in pod["spec"]["containers"][1:]]
        now = self.api.get(PODS, pod["metadata"]["namespace"], pod["metadata"]["name"])
        if others and now is not None and now["status"].get("phase") == "Running":
            begun = [running(started=self.stamp(), name=name) for name in others]
            self._status(now, containerStatuses=[*now["status"]["containerStatuses"], *begun])

    def _wait_for_image(self, pod: Object, node: str) -> None:
        if pod["status"].get("containerStatuses"):
            return
        self.api.edit(PODS, NS, pod["metadata"]["name"], lambda obj: obj["spec"].update(nodeName=node))
        self._status(pod, startTime=self.stamp(), containerStatuses=[waiting("ImagePullBackOff", "no such host")])

    def end(self, pod: Object, code: int = 0) -> None:
        """A sidecar goes on until it is told to stop."""
        statuses = pod["status"].get("containerStatuses", ())
        if pod["spec"].get("nodeName") in self.silent:
            return
        if any("waiting" in one["state"] for one in statuses):
            if _deleting(pod):
                self._status(pod, phase="Failed")
            return
        if len(statuses) > 1 and not _over(pod):
            self._end_with_sidecars(pod, statuses)
        else:
            super().end(pod, code)

    def _end_with_sidecars(self, pod: Object, statuses: list[Object]) -> None:
        main = statuses[0]
        if not _deleting(pod):
            if not _main_over(pod):
                self.ledger.end(pod, self.clock.now(), 0)
                self._status(pod, containerStatuses=[self._ended_now(main, 0), *statuses[1:]])
            return
        stop = self.trouble.stops.setdefault(pod["metadata"]["uid"], self._stop())
        if self.clock.monotonic() >= stop.at:
            self.ledger.end(pod, self.clock.now())
            ended = self._ended_now(main, stop.code)
            others = [self._ended_now(one, 0) for one in statuses[1:]]
            failed = ended["state"]["terminated"]["exitCode"] != 0
            self._status(pod, phase="Failed" if failed else "Succeeded", containerStatuses=[ended, *others])

    # --- what happens -------------------------------------------------------------------------------

    def acts(self) -> list[Callable[[], Any]]:
        users = [self.crash, self.delete_one]
        tools = [self.rewrite_status, self.forge_event, self.deny, self.stop_denying]
        images = [self.inject, self.lose_registry, self.find_registry]
        return [*super().acts(), *users, *tools, *images]

    def crash(self) -> None:
        """A program fails by itself. Its job is Failed, unless somebody ends its run in the same moment or a task of an
        array may try again."""
        found = [pod for node in self.machines for pod in self.working_on(node) if self._may_crash(pod)]
        if found:
            self.fail(self.pick(found))

    def fail(self, pod: Object) -> None:
        """The program of this pod does."""
        self.aim(pod)
        self.ledger.end(pod, self.clock.now(), FAILS_WITH)
        main, *others = pod["status"]["containerStatuses"]
        phase = {} if others else {"phase": "Failed"}
        self._status(pod, containerStatuses=[self._ended_now(main, FAILS_WITH), *others], **phase)

    def _may_crash(self, pod: Object) -> bool:
        """Whether its program runs, and nobody has told it to stop."""
        return not (_deleting(pod) or _main_over(pod)) and self.reaches(pod)

    def delete_one(self) -> None:
        """A user deletes a job for good."""
        if found := self.api.list(SCAVENGERJOBS, NS):
            job = self.pick(found)
            self.aim(job)
            self.api.remove(SCAVENGERJOBS, NS, _job(job))

    def rewrite_status(self) -> None:
        """A tool that restores objects writes the status of a job: none, or what it once was."""
        if found := [job for job in self.api.list(SCAVENGERJOBS, NS) if job.get("status")]:
            job = self.pick(found)
            self.aim(job)
            self.trouble.rewritten.add(_uid(job))
            status = self.random.choice([{}, *self._earlier(job)])
            self.api.edit(SCAVENGERJOBS, NS, _job(job), lambda obj: obj.update(status=status))

    def _earlier(self, job: Object) -> list[Object]:
        """The statuses that a job has had."""
        states = (entry.new for entry in self.api.written(SCAVENGERJOBS))
        mine = [one for one in states if one is not None and _uid(one) == _uid(job)]
        return [one["status"] for one in mine if one.get("status")]

    def forge_event(self) -> None:
        """Somebody writes an Event about a pod of the same name as one of a job."""
        if found := self.api.list(PODS, NS):
            pod = self.pick(found)
            self.aim(pod)
            reason = self.random.choice(("FailedMount", "FailedCreate", "Evicted", "FailedScheduling"))
            self.event(pod, reason, 'secret "of-others" not found', uid="of-others")

    def deny(self) -> None:
        """A webhook of somebody else's lets no Job and no pod of jobs in."""
        self.denies = True

    def stop_denying(self) -> None:
        self.denies = False

    def inject(self) -> None:
        """From now on a webhook of somebody else's adds a sidecar to pods, or does so no more."""
        self.injected = {"containers": [SIDECAR]} if self.random.random() < 0.5 else {}

    def lose_registry(self) -> None:
        """Images cannot be pulled."""
        self.registry = False

    def find_registry(self) -> None:
        self.registry = True

    def recover(self) -> None:
        super().recover()
        self.stop_denying()
        self.find_registry()

    # --- what holds ---------------------------------------------------------------------------------

    async def turn(self, seconds: float = 0.1) -> None:
        await super().turn(seconds)
        if self.at_peace:
            self._hold_limits()

    def _hold_limits(self) -> None:
        now = self.clock.monotonic()
        found = set(self._limited())
        self.since = {one: self.since.get(one, now) for one in found}
        for (what, who), since in self.since.items():
            assert now - since <= LIMITS[what], f"{what} for {now - since:.0f} s: {who}"

    def _limited(self) -> Iterator[tuple[str, str]]:
        """What there is of what has a limit, each with whom it is about."""
        stays, broken, waits = LIMITS
        runs: dict[str, list[Object]] = {}
        for pod in self.api.stored(PODS):
            meta = pod["metadata"]
            if meta["namespace"] == SHOP:
                if self._waits_for_jobs(pod):
                    yield waits, meta["name"]
            elif _deleting(pod) and HELD_BY_OTHERS not in meta.get("finalizers", ()):
                yield stays, meta["name"]
            if names.LABEL_TASK not in meta.get("labels", {}):  # tasks of an array end one by one
                runs.setdefault(_owner(pod), []).append(pod)
        for job in self.api.stored(JOBS):
            mine = runs.get(job["metadata"]["uid"], [])
            if _is_broken(mine):
                yield broken, job["metadata"]["name"]

    def _waits_for_jobs(self, pod: Object) -> bool:
        """Whether an ordinary pod would have a node if no scavenger pod were there."""
        if pod["spec"].get("nodeName"):
            return False
        nodes = [node for node in self.api.stored(NODES) if _takes_pods(node) and _may_go_to(pod, node)]
        return any(self._left_by_strong(node["metadata"]["name"], pod) >= _cores(pod) for node in nodes)

    def _left_by_strong(self, node: str, pod: Object) -> float:
        """What a node has for a pod once those that the pod may displace are gone."""
        strong = [one for one in self.on(node) if _priority(one) >= _priority(pod)]
        return CORES - sum(map(_cores, [*strong, *self.nominated(node, pod)]))

    # --- the end ------------------------------------------------------------------------------------

    async def come_to_an_end(self) -> None:
        if not self.deletes_namespace:
            await super().come_to_an_end()
            return
        await self.until(lambda: not self.users, limit=60, step=1)
        self.terminating = True
        await self.until(lambda: not self._in_namespace(), limit=GRACE + TAKEN_UP, step=1)

    def _in_namespace(self) -> list[str]:
        """What is left of the namespace of jobs."""
        return [one["metadata"]["name"] for kind in DELETED_WITH_NAMESPACE for one in self.api.stored(kind, NS)]


def _uid(obj: Object) -> str:
    return str(obj["metadata"]["uid"])


def _is_broken(pods: list[Object]) -> bool:
    """Whether some pods of a run compute that nobody tells to stop, and others are on their way out."""
    stay = [pod for pod in pods if _computes(pod) and not _deleting(pod)]
    return bool(stay) and any(_deleting(pod) or pod["status"]["phase"] == "Failed" for pod in pods)
