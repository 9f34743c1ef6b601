"""A history of the whole system: admitters, regulators, prioritizers and webhooks, two of each, and models of others.

Three nodes of a few cores, ordinary pods that come, go and pre-empt, and metrics that are missing, old or nonsense.
"""

from __future__ import annotations

import asyncio
import base64
import copy
import math
import random
import uuid
from collections.abc import Callable, Coroutine, Iterator, Mapping
from datetime import timedelta
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import orjson
from scavenger_admitter.informers import SCAVENGERQUEUES
from scavenger_admitter.uninstall import clean
from scavenger_admitter.writer import SCAVENGERJOBS
from scavenger_api import names
from scavenger_api.quantity import parse_quantity
from scavenger_api.times import format_time
from scavenger_domain.node_affinity import REQUIRED
from scavenger_domain.nodes import LEAVING
from scavenger_domain.requests import RECLAIMED_RESOURCES
from scavenger_kube.errors import error_for_status
from scavenger_kube.resources import CONFIGMAPS, JOBS, NODES, PODDISRUPTIONBUDGETS, PODS, Resource
from scavenger_prioritizer.controller import main as prioritizer_main
from scavenger_prioritizer.settings import PrioritizerSettings
from scavenger_regulator.controller import main as regulator_main
from scavenger_regulator.settings import RegulatorSettings
from scavenger_runtime.service import ServiceContext
from scavenger_testing import FakeApi, patches, pod_dict, scavengerjob_dict
from scavenger_testing.store import Collection
from scavenger_testing.virtual_loop import LoopClock
from scavenger_webhook.core.snapshot import SCAVENGER_CLASSES
from scavenger_webhook.facts import PRIORITYCLASSES
from scavenger_webhook.settings import WebhookSettings

from tests.simulation.system import kubelet
from tests.simulation.system.history import (
    DEVICE,
    JOBS_AT_MOST,
    OFFICE,
    TENANTS,
    History,
    _began,
    _cores,
    _deleting,
    _job,
    _namespace,
)
from tests.simulation.system.specs import FIELDS, OTHER, TOLERATED, consistent, queue_spec
from tests.simulation.system.webhook import Webhook
from tests.unit.admitter.harness import NS, Object, Process, Skewed, _context, _ended

NODE_METRICS: Final[Resource[Any]] = Resource("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", False, object)
POD_METRICS: Final[Resource[Any]] = Resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics", True, object)
NODE_NAMES: Final = ("n1", "n2", "n3")
CORES: Final = 4
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
LONG: Final = 60.0
"""Seconds that a job runs in the peace at the end while others wait."""
SCRAPED_EVERY: Final = 15.0
RECLAIMS_EVERY: Final = 3
"""In one history of so many, regulators offer reclaimed capacity, and some jobs want it."""
RECLAIMING: Final = {
    "reclaimed": True,
    "reclaimed_min_samples": 2,
    "reclaimed_step": 50.0,
    "reclaimed_half_life": 300.0,
}
REST_LONG_EVERY: Final = 4
"""One history in so many goes on after its end, until nothing may happen any more."""
USED: Final = 0.9
"""What a pod uses of its request."""
HOT: Final = 1.15
BY_SCHEDULER: Final = "PreemptionByScheduler"
SHOP: Final = "shop"
"""The namespace of ordinary pods."""
FRESH: Final = 90.0
"""Seconds: no eviction follows from older figures. Those of two periods are believed, and evictions take a moment."""
COUNT_PODS: Final = "pods"
COUNT_JOBS: Final = "count/jobs.batch"
COUNT_SCAVENGERJOBS: Final = "count/scavengerjobs.scavenger.dev"
COUNTED: Final = {"Pod": COUNT_PODS, "Job": COUNT_JOBS, "ScavengerJob": COUNT_SCAVENGERJOBS}
"""What a ResourceQuota may bound."""
LOW_CLASS: Final = "low"
LOW: Final = -1500
"""Of a class of somebody else's, between those of scavenger jobs."""
NOWHERE: Final = "nowhere"
"""A queue that there is not."""
NO_CHANGE: Final = base64.b64encode(b"[]").decode()
AGAIN: Final = 1.0
"""Seconds until a user tries again."""
UNAVAILABLE: Final = 503
"""The code with which the webhook says that it cannot judge yet."""
HELD_BY_OTHERS: Final = "example.org/held"
"""A finalizer of somebody else's."""
NEW_FIELDS: Final = ("starts", "retries", "ignoredFailures", "removing")
"""Fields of the status that an older CRD does not have, and drops."""
BUDGET: Final[Object] = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "of-others", "namespace": NS},
    "spec": {"selector": {"matchLabels": {}}, "minAvailable": 1000},
}
"""Of a user who lets nobody evict anything."""
UNNEEDED: Final = ("/leases", "/configmaps", "/metrics.k8s.io", "/nodes/")

Main = Callable[[ServiceContext[Any]], Coroutine[Any, Any, None]]


class Replica(Process):
    """A process of the regulator or the prioritizer."""

    def __init__(self, system: System, name: str, main: Main, settings: Any) -> None:
        self.name = name
        self.clock = Skewed(system.clock, timedelta())
        self.context = _context(system, name, settings, self.clock)
        self.task = system.run_process(main(self.context))


class System(History):
    """A cluster with all services in which everything goes wrong that a seed says."""

    steps = 60
    alone = False
    machines: tuple[str, ...] = NODE_NAMES
    queues = (names.DEFAULT_QUEUE, OTHER, NOWHERE)
    regulator_settings: Mapping[str, Any] = MappingProxyType({})
    adopts = False
    """Whether services follow Jobs of users."""

    def __init__(self, api: FakeApi, clock: LoopClock, seed: int) -> None:
        super().__init__(api, clock, seed)
        self.reclaims = seed % RECLAIMS_EVERY == 0
        self.rests = 300 if seed % REST_LONG_EVERY == 0 else 0
        self.others: list[Replica | Webhook] = []
        self.users: list[asyncio.Task[None]] = []
        self.chance = random.Random(seed)
        """Which replica of the webhook is asked."""
        self.silent: set[str] = set()
        self.down: dict[str, bool] = {}
        """Machines that went down by themselves, and whether Kubernetes has noticed."""
        self.metrics = "fine"
        self.measured = 0.0
        self.used = USED
        self.ends: dict[str, float] = {}
        self.quota: Object | None = None
        """The ResourceQuota of the namespace of jobs."""
        self.at_peace = False
        self.busy_until = 0.0
        """On the monotonic clock: the scheduler places nobody before."""
        self.admission = self._within_quota
        self.api.store.prune = self._pruned
        self.old_crd = False
        self.was_away = False
        """Whether there was no admitter for a while."""
        self._looked_at = 0

    def set_up(self) -> None:
        for name in NODE_NAMES:
            self.node(name, allocatable={"cpu": str(CORES), "memory": "64Gi", "pods": "110", DEVICE: "100"})
            self._boots(name)
        for name in names.LAST_WORDS.values():
            self.api.put(CONFIGMAPS, {"metadata": {"name": name, "namespace": names.SYSTEM_NAMESPACE}})
        for name, value in ((names.PRIORITY_CLASS_ORDINARY, 0), (LOW_CLASS, LOW)):
            self.api.put(PRIORITYCLASSES, {"metadata": {"name": name}, "value": value})
        for _ in range(2):
            self.stand_by()
            self.start_other(names.PRIORITIZER)
            self.start_other(names.REGULATOR)
            self.start_other(names.WEBHOOK)
        for name in ("a", "b"):
            self.submit(name)

    def start_other(self, name: str) -> None:
        """A process of another service than the admitter begins."""
        self.born += 1
        common: dict[str, Any] = {
            "health_port": 0,
            "retry_period": self.retry_period,
            "identity": f"{name}-{self.born}",
        }
        offers = RECLAIMING if self.reclaims else {}
        makes: dict[str, Callable[[], Replica | Webhook]] = {
            names.REGULATOR: lambda: Replica(
                self,
                name,
                regulator_main,
                RegulatorSettings(**{**common, **offers, "adopt": self.adopts, **self.regulator_settings}),
            ),
            names.PRIORITIZER: lambda: Replica(
                self, name, prioritizer_main, PrioritizerSettings(**common, adopt=self.adopts)
            ),
            names.WEBHOOK: lambda: Webhook(self, WebhookSettings(**common, allowed_tolerations=(TOLERATED,))),
        }
        self.others.append(self.loop.begin(common["identity"], makes[name]))

    async def close(self) -> None:
        for task in self.users:
            task.cancel()
        await super().close()
        for one in self.others:
            await one.kill()

    def clocks(self) -> list[Skewed]:
        return [*super().clocks(), *(one.clock for one in self.others if isinstance(one, Replica))]

    def processes(self) -> Iterator[tuple[str, Process]]:
        yield from super().processes()
        yield from ((one.name, one) for one in self.others)

    # --- the cluster --------------------------------------------------------------------------------

    def reaches(self, pod: Object) -> bool:
        return pod["spec"].get("nodeName") not in self.silent

    def answers(self, node: str) -> bool:
        return node not in self.silent

    async def turn(self, seconds: float = 0.1) -> None:
        await super().turn(seconds)
        for task in [one for one in self.users if one.done()]:
            self.users.remove(task)
            task.result()
        for seen in self.api.requests[self._looked_at :]:
            if seen.path.endswith("/eviction"):
                age = self.clock.monotonic() - self.measured
                assert age <= FRESH + seconds, f"{seen.path}: the last figures are {age:.0f} s old"
        self._looked_at = len(self.api.requests)

    async def restart_what_ended(self) -> None:
        await super().restart_what_ended()
        for other in [one for one in self.others if one.task.done()]:
            self.others.remove(other)
            await self.end_process(other)
            self.start_other(other.name)

    def tick(self) -> None:
        for pod in self.api.stored(PODS, SHOP):
            if self.ends.get(pod["metadata"]["uid"], 0.0) <= self.clock.monotonic() and not _deleting(pod):
                self.end(pod)
        super().tick()
        if self.reclaims:
            self._show_offers()
        if self.metrics == "fine" and self.clock.monotonic() - self.measured >= SCRAPED_EVERY:
            self.measured = self.clock.monotonic()
            self._scrape()

    def _within_quota(self, body: Object) -> None:
        """What the API server says to a pod or a Job over the ResourceQuota. Raises ApiError."""
        kind = body["kind"]
        if kind in COUNTED and self._left_of_quota(COUNTED[kind]) < 1:
            said = f"forbidden: exceeded quota: few, requested: {COUNTED[kind]}=1, limited: {self._hard()}"
            raise error_for_status({"kind": "Status", "code": 403, "reason": "Forbidden", "message": said})

    def _left_of_quota(self, counted: str) -> float:
        there: dict[str, Callable[[], int]] = {
            COUNT_PODS: lambda: sum(not _ended(pod) for pod in self.api.stored(PODS, NS)),
            COUNT_JOBS: lambda: len(self.api.stored(JOBS, NS)),
            COUNT_SCAVENGERJOBS: lambda: len(self.api.stored(SCAVENGERJOBS, NS)),
        }
        hard = self._hard()
        return hard[counted] - there[counted]() if counted in hard else math.inf

    def _hard(self) -> dict[str, int]:
        """What the ResourceQuota bounds. One with the scope that the webhook adds does not count pods of jobs."""
        spec: Object = self.quota["spec"] if self.quota is not None else {}
        return {} if "scopeSelector" in spec else spec.get("hard", {})

    def _pruned(self, where: Collection, obj: Object) -> Object:
        """What is left of an object where the CRD is older than the services."""
        if not self.old_crd or where.plural != "scavengerjobs":
            return obj
        return {**obj, "status": {key: value for key, value in obj["status"].items() if key not in NEW_FIELDS}}

    def _remove_job(self, job: Object) -> None:
        """The garbage collector waits for the end of a Job that somebody holds before it deletes the Job's pods."""
        if HELD_BY_OTHERS not in job["metadata"].get("finalizers", ()):
            super()._remove_job(job)
        elif "deletionTimestamp" not in job["metadata"]:
            self.api.delete(JOBS, _namespace(job), job["metadata"]["name"])

    def run(self, pod: Object) -> None:
        node = pod["spec"].get("nodeName") or self._place(pod)
        if node is not None and node not in self.silent:
            self.binds_to = node
            super().run(pod)

    def end(self, pod: Object, code: int = 0) -> None:
        if pod["spec"].get("nodeName") in self.silent:
            return
        if pod["metadata"]["namespace"] == SHOP:
            self.api.remove(PODS, SHOP, pod["metadata"]["name"])
        else:
            super().end(pod, code)

    def _place(self, pod: Object) -> str | None:
        """The scheduler: the first node with room, or else whoever has to go there."""
        if self.clock.monotonic() < self.busy_until:
            return None
        nodes = [node for node in self.api.stored(NODES) if _takes_pods(node) and _may_go_to(pod, node)]
        nodes.sort(key=lambda node: not _wishes(pod, node))
        for node in nodes:
            if self._left(node["metadata"]["name"], pod) >= _cores(pod) and self._offers(node, pod):
                return str(node["metadata"]["name"])
        self.cannot_place(pod, "no room")
        if pod["metadata"]["namespace"] == SHOP:
            self._preempt(pod, nodes)
        return None

    def _offers(self, node: Object, pod: Object) -> bool:
        """Whether a node has as much reclaimed capacity left as a pod asks for."""
        if not any(kubelet.requested(pod, name) for name in RECLAIMED_RESOURCES):
            return True
        there, placed = node["status"]["allocatable"], self.on(node["metadata"]["name"])
        left = {
            name: float(parse_quantity(there.get(name, "0"))) - sum(kubelet.requested(one, name) for one in placed)
            for name in RECLAIMED_RESOURCES
        }
        return all(kubelet.requested(pod, name) <= left[name] for name in left)

    def _show_offers(self) -> None:
        """Kubelets take over what is new in the capacity of their nodes."""
        for node in self.api.stored(NODES):
            status = node["status"]
            new = {name: status["capacity"][name] for name in RECLAIMED_RESOURCES if name in status["capacity"]}
            name, known = node["metadata"]["name"], status["allocatable"].items()
            if name not in self.silent and not new.items() <= known:
                self.api.edit(NODES, None, name, partial(_offer, new))

    def cannot_place(self, pod: Object, message: str) -> None:
        """It says why a pod has no node."""
        if not pod["status"].get("conditions"):
            said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
            self._status(pod, conditions=[{**said, "lastTransitionTime": self.stamp()}])

    def _preempt(self, pod: Object, nodes: list[Object]) -> None:
        """Pods that are being deleted leave room as well. Of a node where some are, no more are taken for the pod."""
        found: list[tuple[int, str, list[Object]]] = []
        for node in nodes:
            name, victims = node["metadata"]["name"], list[Object]()
            weaker = [one for one in self.on(name) if _priority(one) < _priority(pod)]
            if name == pod["status"].get("nominatedNodeName") and any(map(_deleting, weaker)):
                return
            room = self._left(name, pod)
            for one in sorted(weaker, key=lambda p: (not _deleting(p), _protected(p), p["metadata"]["name"])):
                if room < _cores(pod):
                    victims += [] if _deleting(one) else [one]
                    room += _cores(one)
            if room >= _cores(pod):
                found.append((len(victims), name, victims))
        if found:
            _, name, victims = min(found, key=lambda one: one[:2])
            self._status(pod, nominatedNodeName=name)
            for victim in victims:
                self.disrupt(victim, BY_SCHEDULER)

    def disrupt(self, pod: Object, reason: str) -> None:
        """Delete a pod, and say in a condition why. A drain evicts pods as well that are being deleted already."""
        self.aim(pod)
        condition = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": ""}
        self._status(pod, conditions=[{**condition, "lastTransitionTime": self.stamp()}])
        now = self.api.get(PODS, pod["metadata"]["namespace"], pod["metadata"]["name"])
        self.ledger.order(pod, self.clock.now())
        if now is not None and not _deleting(now):
            self.delete_pod(now)

    def _left(self, node: str, pod: Object) -> float:
        """What is left of a node for a pod: not what others of its priority, or of a higher one, are waiting for."""
        return CORES - sum(map(_cores, [*self.on(node), *self.nominated(node, pod)]))

    def nominated(self, node: str, pod: Object) -> list[Object]:
        """Who waits for a node and goes before a pod."""
        uid, priority = pod["metadata"]["uid"], _priority(pod)
        waiting = [one for one in self.api.stored(PODS, SHOP) if one["status"].get("nominatedNodeName") == node]
        return [
            one
            for one in waiting
            if not one["spec"].get("nodeName") and one["metadata"]["uid"] != uid and _priority(one) >= priority
        ]

    def _scrape(self) -> None:
        taken = {"timestamp": format_time(self.clock.now()), "window": "15s"}
        there = set()
        for node in NODE_NAMES:
            pods, used = self.on(node), 0.1
            for pod in pods:
                meta, reclaimed = pod["metadata"], kubelet.requested(pod, names.RESOURCE_RECLAIMED_CPU) / 1000
                cores = self.used * (_cores(pod) + reclaimed)
                used += cores
                usage = {"cpu": f"{cores * 1000:.0f}m", "memory": "1Gi"}
                kept = {key: meta[key] for key in ("name", "namespace", "labels") if key in meta}
                there.add(meta["name"])
                containers = [{"name": kubelet.program(pod), "usage": usage}]
                self.api.put(POD_METRICS, {"metadata": kept, **taken, "containers": containers})
            usage = {"cpu": f"{used * 1000:.0f}m", "memory": f"{len(pods) + 1}Gi"}
            self.api.put(NODE_METRICS, {"metadata": {"name": node}, **taken, "usage": usage})
        for old in list(self.api.stored(POD_METRICS)):
            if old["metadata"]["name"] not in there:
                self.api.remove(POD_METRICS, old["metadata"]["namespace"], old["metadata"]["name"])

    # --- users --------------------------------------------------------------------------------------

    def settled(self, *phases: str) -> bool:
        return not self.users and super().settled(*phases)

    def all_run(self) -> bool:
        """Tasks of arrays end meanwhile, and jobs that have run for a while: all of them together may leave no room for
        a job, or no quota."""
        if super().all_run():
            return True
        for pod in [one for name in self.machines for one in self.working_on(name)]:
            began = _began(pod)
            long = began is not None and (self.clock.now() - began).total_seconds() > LONG
            if names.LABEL_TASK in pod["metadata"]["labels"] or long:
                self.end(pod)
        return False

    def have_user(self, work: Coroutine[Any, Any, None]) -> None:
        """Have somebody do this, who waits for answers."""
        self.users.append(asyncio.create_task(work))

    async def reviewed(self, resource: str, obj: Object, old: Object | None = None) -> Object | None:
        """What the webhook says of a write; None where it says nothing."""
        ready = [one for one in self.others if isinstance(one, Webhook) and one.ready]
        return await self.chance.choice(ready).review(resource, obj, old) if ready else None

    def jobs(self) -> int:
        return super().jobs() + len(self.users)

    def create(self, job: Object, *, good: bool = True) -> None:
        self.have_user(self._create(job, good=good))

    async def _create(self, job: Object, *, good: bool) -> None:
        """Without an answer, or over the quota, there is no job, so the user tries again."""
        while (said := await self.reviewed("scavengerjobs", job)) is None or self._may_try_again(job, said):
            await self.clock.sleep(AGAIN)
        assert said["allowed"] is good, f"{'is refused' if good else 'is let in'}: {job['spec']}: {said}"
        if good and self.api.get(SCAVENGERJOBS, _namespace(job), job["metadata"]["name"]) is None:
            job["metadata"]["creationTimestamp"] = self.stamp()
            self.api.put(SCAVENGERJOBS, job)

    def _may_try_again(self, job: Object, said: Object) -> bool:
        """Whether the same job may be let in later: the webhook has not seen the queues yet, there is a quota, or its
        queue takes no jobs like it now."""
        if said.get("status", {}).get("code") == UNAVAILABLE:
            return True
        if said["allowed"]:
            return _namespace(job) == NS and self._left_of_quota(COUNT_SCAVENGERJOBS) < 1
        return job["spec"]["queue"] == OTHER and f"queue {OTHER}" in said["status"]["message"]

    def move_to(self, job: Object, queue: str) -> None:
        self.aim(job)
        if job["spec"]["queue"] != queue:
            self.have_user(self._move(job, queue))

    async def _move(self, job: Object, queue: str) -> None:
        """Without an answer the job stays where it is."""
        said = await self.reviewed("scavengerjobs", {**job, "spec": {**job["spec"], "queue": queue}}, job)
        assert said is None or not said["allowed"] or queue != NOWHERE, said
        meta = job["metadata"]
        now = self.api.get(SCAVENGERJOBS, meta["namespace"], meta["name"])
        there = now is not None and now["metadata"]["uid"] == meta["uid"] and "jobName" not in now.get("status", {})
        if there and said is not None and said["allowed"]:
            super().move_to(job, queue)

    async def _put_low(self, pod: Object, seconds: float) -> None:
        """Without an answer the pod keeps its class."""
        said = await self.reviewed("pods", pod)
        if said is not None:
            pod = patches.json_patch(pod, orjson.loads(base64.b64decode(said.get("patch", NO_CHANGE))))
            most = max(names.PRIORITY_VALUES[one] for one in SCAVENGER_CLASSES)
            assert _priority(pod) > most, f"outranks no scavenger job: {pod}"
        self.ends[pod["metadata"]["uid"]] = self.clock.monotonic() + seconds
        self.api.put(PODS, pod)

    # --- what happens -------------------------------------------------------------------------------

    def acts(self) -> list[Callable[[], Any]]:
        asked = [self.submit_bad, self.edit_queue, self.ordinary_of_low_class]
        more = [self.ordinary, self.ordinary, self.spoil_metrics, self.mend_metrics, self.drain, self.kill_other]
        strangers = [self.limit, self.lift_limit, self.hold, self.let_go, self.forbid_evictions, self.allow_evictions]
        changed = [self.reboot, self.shut_down, self.submit_array, self.edit_array, self.change_crd, self.change_use]
        absent = [self.uninstall, self.admitter_away, self.return_in_place]
        return [*super().acts(), *more, *strangers, *asked, *changed, *absent]

    def requests(self) -> list[tuple[str, str]]:
        more = [("POST", "/eviction"), ("PATCH", "/configmaps"), ("PATCH", "/pods"), ("GET", "/metrics.k8s.io")]
        return [*super().requests(), *more, ("PUT", "/leases"), ("POST", "/poddisruptionbudgets")]

    def ordinary(self) -> None:
        """An ordinary pod comes, for a while."""
        name, cpu = f"web-{len(self.happened)}", self.random.choice(("1", "2", "3"))
        self.put_ordinary(name, cpu, self.random.uniform(10, 120))

    def put_ordinary(self, name: str, cpu: str, seconds: float) -> None:
        """One of this name, for so long."""
        uid = str(uuid.uuid4())
        self.ends[uid] = self.clock.monotonic() + seconds
        self.api.put(PODS, pod_dict(name, namespace=SHOP, uid=uid, cpu=cpu, priority=0, created=self.stamp()))

    def ordinary_of_low_class(self) -> None:
        """An ordinary pod comes whose class does not outrank scavenger jobs. The webhook raises it."""
        about: dict[str, Any] = {"namespace": SHOP, "created": self.stamp(), "cpu": self.random.choice(("1", "2", "3"))}
        pod = pod_dict(f"web-{len(self.happened)}", priority_class=LOW_CLASS, priority=LOW, **about)
        self.have_user(self._put_low(pod, self.random.uniform(10, 60)))

    def submit_bad(self) -> None:
        """A user asks for what no job may have, and is told so."""
        wrong = self.random.choice(({"queue": NOWHERE}, {"terminationGracePeriodSeconds": 3600}))
        self.create(scavengerjob_dict(f"bad-{len(self.happened)}", namespace=NS, **wrong), good=False)

    def edit_queue(self) -> None:
        """A queue takes no new jobs, or not those of some namespaces, or has another share."""
        spec = {"weight": 1, "closed": False, **queue_spec(self.random)}
        self.api.edit(SCAVENGERQUEUES, None, OTHER, lambda queue: queue.update(spec=spec))

    def submit_array(self) -> None:
        """A user submits an array."""
        if self.jobs() < JOBS_AT_MOST:
            own = {name: FIELDS[name](self.random) for name in ("array", "backoffLimit")}
            namespace = self.random.choice((NS, NS, OFFICE))
            self.submit_spec(f"j{len(self.happened)}", consistent(own, self.random), namespace)

    def edit_array(self) -> None:
        """A user lets failed tasks start again, or fewer or more run at a time."""
        if found := [job for job in self.api.list(SCAVENGERJOBS) if "array" in job["spec"]]:
            job, at_most = self.pick(found), self.random.choice((None, 1, 5))
            self.aim(job)
            place = SCAVENGERJOBS, _namespace(job), _job(job)
            self.api.edit(*place, lambda one: _edit_array(one["spec"]["array"], at_most))

    def limit(self) -> None:
        """A tenant has a ResourceQuota of few pods, Jobs or ScavengerJobs, or several of these."""
        kinds = self.random.sample(sorted(COUNTED.values()), self.random.choice((1, 1, 2)))
        at_most = self.random.choice((0, 1, 3))
        self.have_user(self.bound(dict.fromkeys(kinds, at_most)))

    async def bound(self, hard: dict[str, int]) -> None:
        """The webhook leaves scavenger pods out of a quota on pods alone. Without an answer the quota stays as it
        is."""
        meta = {"name": "few", "namespace": NS}
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": {"hard": hard}}
        said = await self.reviewed("resourcequotas", quota)
        if said is not None:
            assert said["allowed"], said
            quota = patches.json_patch(quota, orjson.loads(base64.b64decode(said.get("patch", NO_CHANGE))))
            spares = "scopeSelector" in quota["spec"]
            assert spares is (set(hard) == {COUNT_PODS}), f"it counts the wrong pods: {quota}"
        if not self.at_peace:
            self.quota = quota

    def lift_limit(self) -> None:
        self.quota = None

    def hold(self) -> None:
        """Somebody puts a finalizer on a pod, or on a Job."""
        resource = self.random.choice((PODS, JOBS))
        mine = [one for one in self.api.list(resource) if _namespace(one) in TENANTS]
        free = [one for one in mine if "deletionTimestamp" not in one["metadata"]]
        if free:
            one = self.pick(free)
            self.aim(one)
            self.api.edit(resource, _namespace(one), one["metadata"]["name"], _held_by_others)

    def let_go(self) -> None:
        """Whoever put finalizers there takes them away, and what was to be deleted goes."""
        for resource in (PODS, JOBS):
            for one in self.api.list(resource):
                meta = one["metadata"]
                if HELD_BY_OTHERS not in meta.get("finalizers", ()):
                    continue
                self.api.edit(resource, meta["namespace"], meta["name"], _let_go)
                if "deletionTimestamp" in meta and meta["finalizers"] == [HELD_BY_OTHERS]:
                    self.api.remove(resource, meta["namespace"], meta["name"])

    def forbid_evictions(self) -> None:
        """Somebody's budget covers all pods of the namespace."""
        self.api.put(PODDISRUPTIONBUDGETS, copy.deepcopy(BUDGET))

    def allow_evictions(self) -> None:
        if self.api.get(PODDISRUPTIONBUDGETS, NS, BUDGET["metadata"]["name"]) is not None:
            self.api.remove(PODDISRUPTIONBUDGETS, NS, BUDGET["metadata"]["name"])

    def reboot(self) -> None:
        """A machine starts again, and its kubelet finds that no container is there any more."""
        if (name := self.pick_machine()) not in self.silent:
            self.boot(name)

    def shut_down(self) -> None:
        """The operating system of a machine goes down, and programs save their state and end with 0. It is back before
        Kubernetes has noticed, or later."""
        if (name := self.pick_machine()) not in self.silent and not self.clocks_stepped:
            self.machines_down = True
            self.go_down(name, reported=self.random.random() < 0.7, noticed=self.random.random() < 0.5)

    def go_down(self, name: str, *, reported: bool, noticed: bool) -> None:
        """This one does. reported: its kubelet writes phases; noticed: the node becomes not ready."""
        self.kill_containers(name, reported=reported, codes=(0,))
        self.down[name] = noticed
        if noticed:
            self.fall_silent(name)
        else:
            self.silent.add(name)
            self.ledger.silent.append((name, self.clock.now()))

    def _boots(self, name: str) -> None:
        """Its kubelet says that it runs since another boot."""
        boot, now = str(uuid.uuid4()), self.stamp()

        def report(node: Object) -> None:
            (ready,) = node["status"]["conditions"]
            node["status"].setdefault("nodeInfo", {}).update(bootID=boot)
            node["status"].update(conditions=[{**ready, "status": "True", "lastHeartbeatTime": now}])

        self.api.edit(NODES, None, name, report)

    def boot(self, name: str) -> None:
        """This machine does."""
        self._boots(name)
        self.ledger.booted.append((name, self.clock.now()))
        for pod in self.working_on(name):
            self.aim(pod)
            self.end_by_machine(pod)
            kept = [one for one in pod["status"].get("conditions", ()) if one["type"] != "Ready"]
            not_ready = {"type": "Ready", "status": "False", "lastTransitionTime": self.stamp()}
            self._status(pod, phase="Failed", **kubelet.unseen(pod), conditions=[*kept, not_ready])

    def return_in_place(self) -> None:
        """A machine returns under its name after a boot, and its kubelet starts containers again in the same pods."""
        if (name := self.pick_machine()) not in self.silent:
            self.boot_in_place(name, self.random.choice((0, 143, None, kubelet.LOST)))

    def boot_in_place(self, name: str, code: int | None) -> None:
        """This one does. code: with which its containers ended, as far as its kubelet knows; None: it knows nothing."""
        self._boots(name)
        self.ledger.booted.append((name, self.clock.now()))
        for pod in self.working_on(name):
            self.aim(pod)
            self.end_in_place(pod)
            seen = {"exitCode": code, "reason": "Error" if code else "Completed", "finishedAt": self.stamp()}
            if code == kubelet.LOST:
                seen |= {"reason": "Unknown", "startedAt": kubelet.EPOCH, "finishedAt": kubelet.EPOCH}
            elif (began := _began(pod)) is not None:
                seen["startedAt"] = format_time(began)
            again = kubelet.started_again(pod, self.clock.now(), None if code is None else seen)
            self._status(pod, containerStatuses=again)

    def end_in_place(self, pod: Object) -> None:
        """A machine ends the containers of a pod, and starts them again there."""
        self.end_by_machine(pod)

    async def admitter_away(self) -> None:
        """No admitter is there for a while, in which pods end and are deleted. Others take its finalizer off."""
        await self.remove_admitters()
        seconds = self.random.choice((20, 150, 900))
        for act in self.random.sample((self.finish, self.evict, self.evict, self.delete_ended), 2):
            await self.have(act)
            await self.turn(3.0)
        await self.pass_time(seconds, step=5)
        self.return_admitters()

    def delete_ended(self) -> None:
        """Somebody deletes pods of jobs that have ended, as a cleaner of namespaces does."""
        for pod in self.api.list(PODS):
            if pod["metadata"]["namespace"] in TENANTS and _ended(pod) and not _deleting(pod):
                self.delete_pod(pod)

    async def uninstall(self) -> None:
        """An administrator uninstalls the admitter, and installs it again some time later. As helm does, the hook is
        tried until it succeeds."""
        await self.remove_admitters()
        self.api.heal()
        await self.run_hook()
        await self.pass_time(self.random.choice((20, 300, 3600)), step=10)
        self.return_admitters()

    async def run_hook(self) -> None:
        """The hook of an uninstallation runs to its end."""
        self.ledger.uninstalled.append(self.clock.now())
        await self.run_to_end(self._hook())
        self.ledger.uninstalled.append(self.clock.now())

    async def _hook(self) -> None:
        client = self.client()
        try:
            await clean(client, self.clock)
        finally:
            await client.close()

    async def remove_admitters(self) -> None:
        """All of them end."""
        self.was_away = True
        self.ledger.leave(self.clock.now())
        while self.replicas:
            await self.end_process(self.replicas.pop())

    def return_admitters(self) -> None:
        """Two of them begin."""
        self.ledger.return_(self.clock.now())
        for _ in range(2):
            self.stand_by()

    def change_crd(self) -> None:
        """In a rolling upgrade the CRD is older than the services for a while."""
        self.old_crd = not self.old_crd

    def spoil_metrics(self) -> None:
        """Metrics are missing, old, or nonsense."""
        self.metrics = self.random.choice(("old", "missing", "NaN", "1e9", "-1"))
        for node in self.api.list(NODE_METRICS):
            if self.metrics == "missing":
                self.api.remove(NODE_METRICS, None, node["metadata"]["name"])
            elif self.metrics != "old":
                self.api.put(NODE_METRICS, {**node, "usage": {"cpu": self.metrics, "memory": self.metrics}})

    def mend_metrics(self) -> None:
        self.metrics = "fine"

    def change_use(self) -> None:
        """Pods use less, or more than they request."""
        self.used = self.random.choice((0.5, USED, HOT))

    def drain(self) -> None:
        """Somebody drains a node, or lets it take pods again."""
        node, closed = self.pick_machine(), self.random.random() < 0.5
        self.api.edit(NODES, None, node, lambda found: found["spec"].update(unschedulable=closed))
        for pod in self.on(node) if closed else ():
            self.disrupt(pod, "EvictionByEvictionAPI")

    def announce(self) -> None:
        """An autoscaler or a termination handler says that a node goes, or may go; or takes that back."""
        self.announce_end(self.pick_machine(), self.random.choice((*LEAVING, "")))

    def announce_end(self, node: str, taint: str) -> None:
        """This node has this taint; none where it is empty."""
        self.ledger.announced |= {node} if taint else set()
        found = {"key": taint, "value": str(int(self.clock.now().timestamp())), "effect": "NoSchedule"}
        self.api.edit(NODES, None, node, lambda one: one["spec"].update(taints=[found] if taint else []))

    def begins(self) -> list[Callable[[], Any]]:
        return [*super().begins(), self.suspend_held]

    def blows(self) -> list[Callable[[], Any]]:
        kinds = (self.reboot, self.shut_down, self.drain, self.announce, self.hold, self.kill_other)
        return [*super().blows(), *kinds]

    def suspend_held(self) -> None:
        """A user suspends a job whose Job somebody holds, so that pods stay for longer."""
        if working := self.with_jobs():
            job = self.random.choice(working)
            self.api.edit(JOBS, _namespace(job), _job(job), _held_by_others)
            self._suspend(job, suspended=True)

    async def kill_other(self) -> None:
        """A regulator, a prioritizer or a webhook dies."""
        await self.begin_something()
        dead = self.others.pop(self.random.randrange(len(self.others)))
        await self.end_process(dead)
        self.start_other(dead.name)

    def fall_silent(self, node: str) -> None:
        self.silent.add(node)
        self._say_ready(node, "Unknown")

    def return_node(self) -> None:
        for name in sorted(filter(self.has_booted, self.silent)):
            if name in self.down:
                self._boots(name)
            if self.down.pop(name, True):
                self._say_ready(name, "True")
            self.silent.remove(name)

    def recover(self) -> None:
        super().recover()
        self.mend_metrics()
        self.lift_limit()
        for node in NODE_NAMES:
            self.api.edit(NODES, None, node, lambda found: found["spec"].update(unschedulable=False, taints=[]))

    def calm(self) -> None:
        self.at_peace = True
        super().calm()
        self.used = USED
        self.let_go()
        self.allow_evictions()
        self.old_crd = False
        self.api.edit(SCAVENGERQUEUES, None, OTHER, lambda queue: queue.update(spec={"weight": 1}))

    # --- what holds ---------------------------------------------------------------------------------

    def nobody_s(self, writes: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """After a long time without an admitter there is enough history for levels that move, and shares with them."""
        needed = (*UNNEEDED, "/scavengerqueues/") if self.was_away else UNNEEDED
        return [(method, path) for method, path in writes if not any(word in path for word in needed)]


def _offer(amounts: Object, node: Object) -> None:
    node["status"]["allocatable"].update(amounts)


def _edit_array(array: Object, at_most: int | None) -> None:
    if at_most is None:
        array["retry"] = array.get("retry", 0) + 1
    else:
        array["maxRunning"] = at_most


def _held_by_others(obj: Object) -> None:
    finalizers = obj["metadata"].setdefault("finalizers", [])
    if HELD_BY_OTHERS not in finalizers:
        finalizers.append(HELD_BY_OTHERS)


def _let_go(obj: Object) -> None:
    obj["metadata"]["finalizers"].remove(HELD_BY_OTHERS)


def _protected(pod: Object) -> bool:
    labels: dict[str, str] = pod["metadata"].get("labels", {})
    return labels.get(names.LABEL_PREEMPTION_CLASS) == names.NON_PREEMPTIBLE


def _priority(pod: Object) -> int:
    value = pod["spec"].get("priority")
    return int(names.PRIORITY_VALUES[pod["spec"]["priorityClassName"]] if value is None else value)


def _takes_pods(node: Object) -> bool:
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in node["status"]["conditions"])
    announced = any(one["key"] in LEAVING for one in node["spec"].get("taints", ()))  # no pod here tolerates these
    return ready and not announced and not node["spec"].get("unschedulable")


def _wishes(pod: Object, node: Object) -> bool:
    """Whether a node is as the preferred terms of a pod that name nodes want it."""
    wishes = pod["spec"].get("affinity", {}).get("nodeAffinity", {}).get(PREFERRED, [])
    name, fields = node["metadata"]["name"], [f for one in wishes for f in one["preference"].get("matchFields", ())]
    return all((name in f["values"]) == (f["operator"] == "In") for f in fields)


def _taints(node: Object) -> list[Object]:
    found: list[Object] = node["spec"].get("taints", [])
    return found


def _may_go_to(pod: Object, node: Object) -> bool:
    terms: list[Object] = (
        pod["spec"].get("affinity", {}).get("nodeAffinity", {}).get(REQUIRED, {}).get("nodeSelectorTerms", [])
    )
    name, labels = node["metadata"]["name"], node["metadata"]["labels"]
    if any(labels.get(key) != value for key, value in pod["spec"].get("nodeSelector", {}).items()):
        return False
    # The API server lets pods tolerate the taints of devices that they ask for (ExtendedResourceToleration).
    if any(
        one["key"] in node["status"]["allocatable"] and not kubelet.requested(pod, one["key"]) for one in _taints(node)
    ):
        return False
    found = [all((name in f["values"]) == (f["operator"] == "In") for f in one.get("matchFields", ())) for one in terms]
    return not found or any(found)
