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
from scavenger_kube.resources import JOBS, NODES, PODDISRUPTIONBUDGETS, PODS, SERVICES, Resource
from scavenger_testing import FakeApi
from scavenger_testing.builders import waiting
from scavenger_testing.virtual_loop import LoopClock

from tests.simulation.system import kubelet
from tests.simulation.system.history import (
    GRACE,
    OVER,
    REFERENCES,
    TENANTS,
    _computes,
    _cores,
    _deleting,
    _job,
    _main_over,
    _namespace,
)
from tests.simulation.system.ledger import By
from tests.simulation.system.specs import CLAIM, FAILS_WITH, FIELDS, SAVED
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
CRASHES: Final = ((FAILS_WITH, ""), (FAILS_WITH, ""), (1, ""), (SAVED, ""), (kubelet.KILLED, "OOMKilled"))
"""Exit codes of programs that end by themselves, and what the runtime says of that."""
DENIED: Final = 'admission webhook "policy.example.org" denied the request: no new pods today'
DELETED_WITH_NAMESPACE: Final[tuple[Resource[Any], ...]] = (SCAVENGERJOBS, JOBS, PODS, PODDISRUPTIONBUDGETS)
TAKEN_UP: Final = 90.0
"""Seconds in which whoever has to do something about a pod does it: a new leader may have to be found first."""
SCHEDULED: Final = 30.0
"""Seconds of turns in which a node is chosen, a victim is told to go, and the pod is placed. A turn takes up to 8."""
LIMITS: Final = {
    "a pod that is deleted stays": GRACE + TAKEN_UP,
    "a gang is neither whole nor on its way out": TAKEN_UP,
    "an ordinary pod waits for what scavenger jobs have": GRACE + SCHEDULED,
    "a job stays that is due to go": TAKEN_UP,
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
        self.refusals: list[Object] = []
        """The statuses with which kubelets refuse, or fail to start, the next pods of jobs."""
        self.absent: set[tuple[str, str]] = set()
        """Namespaces and kinds of what jobs refer to and is gone."""
        self.since: dict[tuple[str, str], float] = {}
        """When which of what has a limit was first seen, by what it is and whom it is about."""
        self.admission = self._admit

    # --- the cluster --------------------------------------------------------------------------------

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
                    self.trouble.removed.add(_uid(one))
                    self.api.delete(resource, NS, one["metadata"]["name"])

    def run(self, pod: Object) -> None:
        """The image is pulled where its registry answers, and containers start where all is there that they need."""
        if _namespace(pod) not in TENANTS:
            super().run(pod)
            return
        if (node := self.node_for(pod)) is None or node in self.silent:
            return
        pod = {**pod, "spec": {**pod["spec"], "nodeName": node}}
        if self.refusals and not pod["status"].get("containerStatuses"):
            self._refuse(pod, self.refusals.pop())
        elif found := self._lacks(pod):
            self._wait_for(pod, *found)
        elif self.registry:
            super().run(pod)
        else:
            self._wait_for(pod, "ImagePullBackOff", "no such host")

    def node_for(self, pod: Object) -> str | None:
        """The node of a pod, which may have been chosen just now."""
        if found := pod["spec"].get("nodeName"):
            return str(found)
        if (_namespace(pod), "persistentvolumeclaim") in self.absent and CLAIM in _claims(pod):
            self.cannot_place(pod, f'persistentvolumeclaim "{CLAIM}" not found')
            return None
        return self._place(pod)

    def _refuse(self, pod: Object, status: Object) -> None:
        """Its kubelet does not admit a pod, or cannot start it."""
        self._bind(pod)
        states = {"containerStatuses": kubelet.not_started(pod, status["message"])} if "reason" not in status else {}
        if status["message"] == kubelet.BAD_COMMAND:
            self.ledger.end(pod, self.clock.now(), kubelet.NOT_STARTED, killed=True)
        else:
            self.ledger.order(pod, self.clock.now(), By.MACHINE)
        self._status(pod, startTime=self.stamp(), phase="Failed", **(states or status))

    def _bind(self, pod: Object) -> None:
        node = pod["spec"]["nodeName"]
        self.api.edit(PODS, _namespace(pod), pod["metadata"]["name"], lambda obj: obj["spec"].update(nodeName=node))

    def _lacks(self, pod: Object) -> tuple[str, str] | None:
        """For what the kubelet waits, and what it says of that."""
        gone = (one for one in kubelet.needs(pod) if (_namespace(pod), one[0]) in self.absent) if self.absent else ()
        for kind, name, mounted in gone:
            said = f'{kind} "{name}" not found'
            if mounted:
                self.event(
                    pod, "FailedMount", f'MountVolume.SetUp failed for volume "x" : {said}', namespace=_namespace(pod)
                )
            return ("ContainerCreating", "") if mounted else ("CreateContainerConfigError", said)
        return None

    def _wait_for(self, pod: Object, reason: str, message: str) -> None:
        """Its containers wait on its node for this reason."""
        known = {one["state"].get("waiting", {}).get("reason") for one in pod["status"].get("containerStatuses", ())}
        if known != {reason}:
            self._bind(pod)
            states = [waiting(reason, message, name=one["name"]) for one in pod["spec"]["containers"]]
            self._status(pod, startTime=self.stamp(), containerStatuses=states)

    # --- what happens -------------------------------------------------------------------------------

    def acts(self) -> list[Callable[[], Any]]:
        users = [self.crash, self.delete_one]
        tools = [self.rewrite_status, self.forge_event, self.deny, self.stop_denying]
        images = [self.inject, self.lose_registry, self.find_registry]
        users += [self.edit_priority, self.force, self.save, self.end_beside]
        tools += [self.orphan, self.suspend_batch, self.delete_service, self.lose_reference, self.find_references]
        nodes = [self.evict_for_node, self.exceed_limit, self.refuse, self.refuse, self.slow_down]
        return [*super().acts(), *users, *tools, *images, *nodes]

    def blows(self) -> list[Callable[[], Any]]:
        nodes = [self.evict_for_node, self.exceed_limit, self.crash, self.end_beside]
        return [*super().blows(), *nodes, self.force, self.orphan, self.suspend_batch]

    def requests(self) -> list[tuple[str, str]]:
        more = [("GET", plural) for plural in ("/pods", "/jobs", "/scavengerjobs", "/persistentvolumeclaims")]
        return [*super().requests(), *more, ("DELETE", "/pods"), ("DELETE", "/scavengerjobs"), ("POST", "/services")]

    def crash(self) -> None:
        """A program fails by itself. Its job is Failed, unless somebody ends its run in the same moment or a task of an
        array may try again."""
        found = [pod for node in self.machines for pod in self.working_on(node) if self._may_crash(pod)]
        if found:
            pod = self.pick(found)
            self.aim(pod)
            code, reason = self.random.choice(CRASHES)
            self.fails(pod, code, reason)

    def fails(self, pod: Object, code: int, reason: str = "") -> None:
        """The program of a pod ends by itself with this code."""
        self.ledger.end(pod, self.clock.now(), code, killed=bool(reason))
        self._status(pod, **kubelet.program_ended(pod, code, self.clock.now(), reason))

    def edit_priority(self) -> None:
        """A user changes the order of their jobs."""
        if found := self.api.list(SCAVENGERJOBS):
            job = self.pick(found)
            self.aim(job)
            self.edit_spec(job, priority=FIELDS["priority"](self.random))

    def save(self) -> None:
        """A program reports a checkpoint."""
        if found := [pod for node in self.machines for pod in self.working_on(node) if self._may_crash(pod)]:
            pod, note = self.pick(found), {names.ANNOTATION_LAST_CHECKPOINT: self.stamp()}
            self.aim(pod)
            meta = pod["metadata"]
            self.api.edit(
                PODS, meta["namespace"], meta["name"], lambda one: one["metadata"]["annotations"].update(note)
            )

    def end_beside(self) -> None:
        """A container beside the program ends by itself. That says nothing about the job."""
        found = [pod for node in self.machines for pod in self.working_on(node) if self._may_crash(pod)]
        if found := [pod for pod in found if len(pod["status"]["containerStatuses"]) > 1]:
            pod = self.pick(found)
            self.aim(pod)
            self.end_others(pod, self.random.choice((0, FAILS_WITH, SAVED)))

    def end_others(self, pod: Object, code: int) -> None:
        """All containers of a pod but its program end."""
        main, now = kubelet.program(pod), self.clock.now()
        statuses = pod["status"]["containerStatuses"]
        ended = [one if one["name"] == main else kubelet.ended(one, code, now) for one in statuses]
        self._status(pod, containerStatuses=ended)

    def force(self) -> None:
        """A user deletes a pod with `--force --grace-period=0`."""
        if found := [pod for node in self.machines for pod in self.working_on(node) if not _deleting(pod)]:
            pod = self.pick(found)
            self.aim(pod)
            self.ledger.order(pod, self.clock.now())
            self.delete_pod(pod, grace=0)

    def orphan(self) -> None:
        """Somebody deletes a Job with `--cascade=orphan`: its pods go on, and belong to nobody."""
        if found := [job for job in self.batches() if "deletionTimestamp" not in job["metadata"]]:
            self.orphan_pods(self.pick(found))

    def orphan_pods(self, job: Object) -> None:
        """The garbage collector takes the references to this Job away, and then it goes."""
        self.aim(job)
        for pod in self._pods_of(job):
            self.ledger.order(pod, self.clock.now(), stays=True)
            meta = pod["metadata"]
            self.owners[meta["uid"]] = _uid(job)
            self.api.edit(PODS, meta["namespace"], meta["name"], lambda one: one["metadata"].pop("ownerReferences"))
        self.api.remove(JOBS, _namespace(job), job["metadata"]["name"])

    def suspend_batch(self) -> None:
        """Another controller suspends a Job."""
        if found := [job for job in self.batches() if not job["spec"].get("suspend")]:
            job = self.pick(found)
            self.aim(job)
            for pod in self._pods_of(job):
                self.ledger.order(pod, self.clock.now(), stays=True)
            place = JOBS, _namespace(job), job["metadata"]["name"]
            self.api.edit(*place, lambda one: one["spec"].update(suspend=True))

    def delete_service(self) -> None:
        """Somebody deletes the Service of a gang."""
        if found := self.api.list(SERVICES):
            one = self.random.choice(found)
            self.api.remove(SERVICES, _namespace(one), one["metadata"]["name"])

    def lose_reference(self) -> None:
        """Something is deleted that jobs of a namespace refer to."""
        namespace, (resource, name) = self.random.choice(TENANTS), self.random.choice(REFERENCES)
        self.lose_from(namespace, resource, name)

    def lose_from(self, namespace: str, resource: Resource[Any], name: str) -> None:
        """This is deleted there."""
        if self.api.get(resource, namespace, name) is not None:
            self.api.remove(resource, namespace, name)
            self.absent.add((namespace, resource.kind.lower()))

    def find_references(self) -> None:
        """It is there again."""
        for namespace, kind in sorted(self.absent):
            for resource, name in REFERENCES:
                if resource.kind.lower() == kind:
                    self.put_reference(resource, namespace, name)
        self.absent.clear()

    def evict_for_node(self) -> None:
        """A kubelet whose node is low on memory ends a pod."""
        if found := [pod for node in self.machines for pod in self.working_on(node) if self._may_crash(pod)]:
            self.evict_from_node(self.pick(found))

    def evict_from_node(self, pod: Object) -> None:
        """It ends this one."""
        self.aim(pod)
        self.ledger.end(pod, self.clock.now())
        self.ledger.order(pod, self.clock.now(), By.MACHINE)
        mark = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet", "message": ""}
        ended = {**kubelet.all_ended(pod, kubelet.KILLED, self.clock.now()), "phase": "Failed"}
        conditions = [{**mark, "lastTransitionTime": self.stamp()}]
        self._status(pod, **ended, reason="Evicted", message=kubelet.LOW, conditions=conditions)

    def exceed_limit(self) -> None:
        """A kubelet ends a pod that uses more local storage than it may: that is the job's own fault."""
        if found := [pod for node in self.machines for pod in self.working_on(node) if self._may_crash(pod)]:
            pod = self.pick(found)
            self.aim(pod)
            self.over_limit(pod, self.random.choice(kubelet.OWN_LIMITS))

    def over_limit(self, pod: Object, said: str) -> None:
        """This one, in these words."""
        self.ledger.end(pod, self.clock.now(), kubelet.KILLED, killed=True)
        ended = kubelet.all_ended(pod, kubelet.KILLED, self.clock.now())
        self._status(pod, **{**ended, "phase": "Failed"}, reason="Evicted", message=said)

    def refuse(self) -> None:
        """A kubelet does not admit the next pod of a job, or cannot start it."""
        reasons = [{"reason": reason, "message": said} for reason, said in kubelet.REFUSALS.items()]
        errors = [{"message": said} for said in (kubelet.BAD_COMMAND, kubelet.BAD_RUNTIME)]
        self.refusals.append(self.random.choice([*reasons, *errors]))

    def slow_down(self) -> None:
        """The scheduler has much to do: nobody gets a node for a while."""
        self.busy_until = self.clock.monotonic() + self.random.choice((3.0, 8.0, 15.0))

    def hold_now(self) -> None:
        if self.absent:
            self.trouble.deprived |= {
                _uid(job) for job in self.api.stored(SCAVENGERJOBS) if _namespace(job) in dict(self.absent)
            }
        super().hold_now()

    def _may_crash(self, pod: Object) -> bool:
        """Whether its program runs, and nobody has told it to stop."""
        return not (_deleting(pod) or _main_over(pod)) and self.reaches(pod)

    def delete_one(self) -> None:
        """A user deletes a job for good."""
        if found := self.api.list(SCAVENGERJOBS):
            self.remove_scavengerjob(self.pick(found))

    def rewrite_status(self) -> None:
        """A tool that restores objects writes the status of a job: none, or what it once was."""
        if found := [job for job in self.api.list(SCAVENGERJOBS) if job.get("status")]:
            job = self.pick(found)
            self.aim(job)
            self.trouble.rewritten.add(_uid(job))
            status = self.random.choice([{}, *self._earlier(job)])
            self.api.edit(SCAVENGERJOBS, _namespace(job), _job(job), lambda obj: obj.update(status=status))

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
        self.find_references()
        self.refusals.clear()

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
        stays, broken, waits, due = LIMITS
        for job in self.api.stored(SCAVENGERJOBS):
            if "ttlSecondsAfterFinished" in job["spec"] and job["status"].get("phase") in OVER and self.is_due(job):
                yield due, _job(job)
        runs: dict[str, list[Object]] = {}
        for pod in self.api.stored(PODS):
            meta = pod["metadata"]
            if meta["namespace"] == SHOP:
                if self._waits_for_jobs(pod):
                    yield waits, meta["name"]
            elif _deleting(pod) and HELD_BY_OTHERS not in meta.get("finalizers", ()):
                yield stays, meta["name"]
            if names.LABEL_TASK not in meta.get("labels", {}):  # tasks of an array end one by one
                runs.setdefault(self.owner(pod), []).append(pod)
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
        await super().come_to_an_end()  # the jobs of the other tenant

    def _in_namespace(self) -> list[str]:
        """What is left of the namespace of jobs."""
        return [one["metadata"]["name"] for kind in DELETED_WITH_NAMESPACE for one in self.api.stored(kind, NS)]


def _claims(pod: Object) -> set[str]:
    """Names of the claims that a pod mounts."""
    return {name for kind, name, _ in kubelet.needs(pod) if kind == "persistentvolumeclaim"}


def _uid(obj: Object) -> str:
    return str(obj["metadata"]["uid"])


def _is_broken(pods: list[Object]) -> bool:
    """Whether some pods of a run compute that nobody tells to stop, and others are on their way out."""
    stay = [pod for pod in pods if _computes(pod) and not _deleting(pod)]
    return bool(stay) and any(_deleting(pod) or pod["status"]["phase"] == "Failed" for pod in pods)
