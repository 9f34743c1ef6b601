"""Scripts of `bench.simulator.scripts` played by all services, on an API server in memory and in virtual time.

What the simulator restates of others is restated here as well: kubelets start pods at once, and the scheduler chooses
nodes and victims by the rules of the plugin (`scavenger_simulator.scheduler`), from what the prioritizer has written on
pods. All else is decided by the services themselves, on what their watches show.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import structlog
from scavenger_admitter.informers import SCAVENGERQUEUES
from scavenger_admitter.writer import SCAVENGERJOBS
from scavenger_api import names
from scavenger_api.levels import PublishedLevels
from scavenger_api.times import format_time
from scavenger_domain.soundness import CHECKS
from scavenger_kube.resources import CONFIGMAPS, NODES, PODS
from scavenger_prioritizer.controller import main as prioritizer_main
from scavenger_prioritizer.settings import PrioritizerSettings
from scavenger_regulator.controller import main as regulator_main
from scavenger_regulator.settings import RegulatorSettings
from scavenger_simulator.scheduler import NodeOutlook, choose_node
from scavenger_simulator.victims import Share
from scavenger_testing import FakeApi, scavengerjob_dict
from scavenger_testing.builders import pod_dict
from scavenger_testing.virtual_loop import LoopClock, run_virtually
from scavenger_webhook.facts import PRIORITYCLASSES

from bench.simulator.replay import KINDS
from bench.simulator.scripts import (
    COMPLETED,
    GRACE_SECONDS,
    MEMORY,
    NODE_MEMORY,
    REGULATOR,
    ROUND_SECONDS,
    STARTED,
    Event,
    JobScript,
    PodScript,
    Rounds,
    Script,
)
from tests.simulation.system.history import Stop, _cores, _deleting
from tests.simulation.system.system import (
    BY_SCHEDULER,
    NODE_METRICS,
    POD_METRICS,
    SHOP,
    Replica,
    System,
    _may_go_to,
    _priority,
    _protected,
)
from tests.unit.admitter.harness import NS, Object, _ended

TURN: Final = 0.5
"""Seconds between two looks of kubelets, the scheduler and what is measured."""
QUEUES_SHARE: Final = 0.3
"""Of drawn scripts, those with two queues."""
INTERACTIVE_SHARE: Final = 0.15
"""Of their regular pods, those that protected jobs give way to at once."""
SEED: Final = 1
"""Of the order in which answers arrive."""


DIFFERENCES: Final[dict[str, list[str]]] = {}
"""What the services do otherwise than the simulator, by the name of the script: each with its reason."""


class Stage(System):
    """A cluster with one replica of each service, on which a script is on.

    Attributes:
        script: what happens from outside.
        round: of it.
        seen: what has happened to jobs, round by round.
    """

    def __init__(self, api: FakeApi, clock: LoopClock, script: Script) -> None:
        super().__init__(api, clock, SEED)
        self.script, self.round = script, 0
        self.machines = script.node_names()
        self.seen: list[list[Event]] = [[]]
        self._size = dict(zip(self.machines, script.nodes, strict=True))
        self._known: dict[str, tuple[int, int, bool]] = {}
        self._uses = {job.name: job.cpu * job.use for job in script.jobs}
        self._next = 0

    # --- the script ---

    def set_up(self) -> None:
        self.metrics = "of the script"
        for name, cpu in self._size.items():
            self.node(name, allocatable={"cpu": f"{cpu}m", "memory": str(NODE_MEMORY), "pods": "110"})
            self._boots(name)
        for name in names.LAST_WORDS.values():
            self.api.put(CONFIGMAPS, {"metadata": {"name": name, "namespace": names.SYSTEM_NAMESPACE}})
        self.api.put(PRIORITYCLASSES, {"metadata": {"name": names.PRIORITY_CLASS_ORDINARY}, "value": 0})
        for name, weight in self.script.queues.items():
            queue = {"apiVersion": names.API_VERSION, "kind": "ScavengerQueue", "metadata": {"name": name}}
            self.api.put(SCAVENGERQUEUES, {**queue, "spec": {"weight": weight}})
        self.stand_by(leader_elect=False)
        common: dict[str, Any] = {"health_port": 0, "leader_elect": False}
        regulator = RegulatorSettings(**common, **dict[str, Any](REGULATOR))
        prioritizer = PrioritizerSettings(**common, period=1)
        self.others.append(Replica(self, names.REGULATOR, regulator_main, regulator))
        self.others.append(Replica(self, names.PRIORITIZER, prioritizer_main, prioritizer))

    async def play(self) -> Rounds:
        """What happens to the jobs, round by round."""
        self.set_up()
        await self.until(self._admits)
        for number in range(self.script.rounds):
            self.round = number
            if number:
                self.seen.append([])
            self._change(number)
            await self.pass_time(ROUND_SECONDS, step=TURN)
        return tuple(tuple(sorted(events)) for events in self.seen)

    def _admits(self) -> bool:
        found = self.api.get(CONFIGMAPS, names.SYSTEM_NAMESPACE, names.LEVELS_CONFIGMAP)
        return found is not None and PublishedLevels.parse(found["data"]).admit

    def _change(self, number: int) -> None:
        for pod in self.script.pods:
            if pod.deleted == number:
                self.api.remove(PODS, SHOP, pod.name)
        for job in self.script.jobs:
            if job.ends == number:
                for one in self.pods(job.name):
                    self.end(one)
        for pod in self.script.pods:
            if pod.created == number:
                self._create_pod(pod)
        for place, job in enumerate(self.script.jobs):
            if job.submitted == number:
                self._submit(job, place)

    def _create_pod(self, pod: PodScript) -> None:
        latency = {names.ANNOTATION_LATENCY: names.LATENCY_INTERACTIVE} if pod.interactive else {}
        made = pod_dict(
            pod.name,
            namespace=SHOP,
            requests={"cpu": f"{pod.cpu}m", "memory": str(MEMORY)},
            priority=0,
            created=self.stamp(),
            annotations=latency,
        )
        self.ends[self.api.put(PODS, made)["metadata"]["uid"]] = math.inf

    def _submit(self, job: JobScript, place: int) -> None:
        """Jobs that are submitted together have their places by their names in the script."""
        spec: dict[str, Any] = {"queue": job.queue, "parallelism": job.pods}
        self.api.put(
            SCAVENGERJOBS,
            scavengerjob_dict(
                job.name,
                namespace=NS,
                uid=f"{place:08d}-0000-4000-8000-000000000000",
                created=self.stamp(),
                cpu=f"{job.cpu}m",
                memory=str(MEMORY),
                interruption_after=f"{job.interruption_after}s",
                terminationGracePeriodSeconds=GRACE_SECONDS,
                **spec,
            ),
        )

    async def turn(self, seconds: float = 0.1) -> None:
        await super().turn(seconds)
        for job in self.api.stored(SCAVENGERJOBS):
            self._note(job)

    def _note(self, job: Object) -> None:
        """What a status says that it did not say before."""
        status, name = job.get("status") or {}, job["metadata"]["name"]
        runs, interruptions, completed = self._known.get(name, (0, 0, False))
        counted = status.get("interruptedCount", 0)
        new = (len(status.get("runningTimestamps", ())), counted, status.get("phase") == "Completed")
        self._known[name] = new
        reason = next((one["reason"] for one in status.get("conditions", ()) if one["type"] == "Interrupted"), "")
        events = [(STARTED, name)] * (new[0] - runs)
        events += [(str(KINDS.get(reason, reason)), name)] * (new[1] - interruptions)
        self.seen[-1] += events + [(COMPLETED, name)] * (new[2] - completed)

    # --- the cluster ---

    def tick(self) -> None:
        super().tick()
        self._measure()

    def _stop(self, pod: Object) -> Stop:
        return Stop(self.clock.monotonic() + GRACE_SECONDS, 143)

    def _measure(self) -> None:
        self.measured = self.clock.monotonic()
        taken = {"timestamp": format_time(self.clock.now()), "window": "1s"}
        there = set()
        for node in self.machines:
            pods = self.on(node)
            for pod in pods:
                there.add(pod["metadata"]["name"])
                usage = {"cpu": f"{self._used(pod):.0f}m", "memory": str(MEMORY)}
                kept = {key: pod["metadata"][key] for key in ("name", "namespace", "labels") if key in pod["metadata"]}
                self.api.put(POD_METRICS, {"metadata": kept, **taken, "containers": [{"name": "main", "usage": usage}]})
            usage = {"cpu": f"{sum(map(self._used, pods)):.0f}m", "memory": str(MEMORY * len(pods))}
            self.api.put(NODE_METRICS, {"metadata": {"name": node}, **taken, "usage": usage})
        for old in list(self.api.stored(POD_METRICS)):
            if old["metadata"]["name"] not in there:
                self.api.remove(POD_METRICS, old["metadata"]["namespace"], old["metadata"]["name"])

    def _used(self, pod: Object) -> float:
        """What a pod uses in this round, in millicores."""
        if pod["status"].get("phase") != "Running":
            return 0.0
        name = pod["metadata"]["name"]
        if pod["metadata"]["namespace"] == SHOP:
            return float(next(one for one in self.script.pods if one.name == name).used(self.round))
        return self._uses[pod["metadata"]["labels"][names.LABEL_JOB]]

    # --- the scheduler ---

    def _place(self, pod: Object) -> str | None:
        nominated = pod["status"].get("nominatedNodeName")
        fits = [name for name in self.machines if self._spare(name, pod) >= 0 and _may_go_to(pod, self._node(name))]
        if fits:
            return nominated if nominated in fits else self._best(pod, fits)
        self.cannot_place(pod, "no room")
        if pod["metadata"]["namespace"] == SHOP and nominated is None:
            self._preempt(pod, [])
        return None

    def _best(self, pod: Object, fits: list[str]) -> str:
        """The least allocated one. Of jobs the smallest of equals, as the plan has it; of regular pods the next after
        the last one, as in the simulator."""
        if pod["metadata"]["namespace"] == SHOP:
            count, begin = len(self.machines), self._next
            order = [self.machines[(begin + i) % count] for i in range(count)]
            found = max(
                (name for name in order if name in fits), key=lambda name: self._spare(name, pod) / self._size[name]
            )
            self._next = (begin + count) % count
            return found
        return min(
            fits, key=lambda name: (-int(100 * self._spare(name, pod) // self._size[name]), self._size[name], name)
        )

    def _node(self, name: str) -> Object:
        return next(node for node in self.api.stored(NODES) if node["metadata"]["name"] == name)

    def _spare(self, node: str, pod: Object) -> int:
        """Millicores that are left of a node with the pod on it, and not kept for who waits for them."""
        taken = sum(_milli(one) for one in [*self.on(node), *self.nominated(node, pod)])
        return self._size[node] - taken - _milli(pod)

    def _preempt(self, pod: Object, nodes: list[Object]) -> None:
        entitled = pod["metadata"].get("annotations", {}).get(names.ANNOTATION_LATENCY) == names.LATENCY_INTERACTIVE
        found = choose_node(self._outlooks(pod, protected=False))
        if found is None and entitled:
            found = choose_node(self._outlooks(pod, protected=True))
        if found is None:
            return
        self._status(pod, nominatedNodeName=self.machines[found.index])
        gone = {share.key for share in found.newly_broken}
        for victim in [one for name in gone for one in self.pods(name) if not _ended(one) and not _deleting(one)]:
            self.disrupt(victim, BY_SCHEDULER)

    def _outlooks(self, pod: Object, *, protected: bool) -> Iterator[NodeOutlook]:
        for index, name in enumerate(self.machines):
            if self._size[name] < _milli(pod):
                continue
            jobs: dict[str, list[Object]] = {}
            for one in self.on(name):
                if _priority(one) < _priority(pod) and (protected or _deleting(one) or not _protected(one)):
                    jobs.setdefault(one["metadata"]["labels"][names.LABEL_JOB], []).append(one)
            spare = self._spare(name, pod)
            shares = [self._share(job, pods) for job, pods in sorted(jobs.items())]
            yield NodeOutlook(index, shares, (max(0, -spare), 0, 0), (spare, 0, 0))

    def _share(self, job: str, pods: list[Object]) -> Share:
        lost = any(map(_deleting, pods))
        written = [one["metadata"].get("annotations", {}).get(names.ANNOTATION_RUNNING_PRIORITY) for one in pods]
        risk = 0.0 if lost else sum(float(one) for one in written[:1] if one is not None)
        staying = 0 if lost else len(pods)
        amounts = [((_milli(one), MEMORY, 1), one["metadata"]["name"]) for one in pods]
        return Share(job, risk, lost, all(map(_protected, pods)), amounts, staying, 0.0)


def _milli(pod: Object) -> int:
    return round(1000 * _cores(pod))


def played(script: Script) -> Rounds:
    """What happens to the jobs of a script where all services play it, round by round."""
    CHECKS.on = True
    with structlog.testing.capture_logs() as said:
        return run_virtually(SEED, lambda clock, _: _played(script, clock, said))


async def _played(script: Script, clock: LoopClock, said: Any) -> Rounds:
    async with FakeApi(clock, listens=False) as api:
        stage = Stage(api, clock, script)
        stage.said = said
        try:
            return await stage.play()
        finally:
            await stage.close()


# --- scripts by chance ---


def drawn(seed: int) -> Script:
    """A small cluster on which jobs come and end, and regular pods come, go, and use more or less. In each round one of
    this happens: of two at the same moment a cluster sees one first."""
    chance = random.Random(seed)
    nodes = tuple(chance.choice((6_000, 8_000, 10_000, 12_000)) for _ in range(chance.choice((1, 1, 2))))
    rounds = chance.randint(7, 9)
    queues = {"queue-a": 1, "queue-b": 1} if chance.random() < QUEUES_SHARE else {}
    jobs: list[JobScript] = []
    pods: list[PodScript] = []
    for number in range(rounds):
        going = [i for i, job in enumerate(jobs) if job.ends is None]
        there = [i for i, pod in enumerate(pods) if pod.deleted is None]
        kind = chance.choice(
            ("submit", "submit", "submit", *["end"] * bool(going), "create", *["delete", "use"] * bool(there))
        )
        if kind == "submit":
            cpu = chance.choice((400, 700, 1_100, 1_900, 2_300, 3_100)) + 10 * number
            queue = chance.choice(tuple(queues)) if queues else "default"
            jobs.append(JobScript(f"job-{number}", number, cpu, pods=chance.choice((1, 1, 1, 2)), queue=queue))
        elif kind == "end":
            i = chance.choice(going)
            jobs[i] = replace(jobs[i], ends=number)
        elif kind == "create":
            cpu = chance.choice((1_000, 2_000, 3_500, 5_000))
            pods.append(
                PodScript(f"web-{number}", number, cpu, {number: 100}, interactive=chance.random() < INTERACTIVE_SHARE)
            )
        else:
            i = chance.choice(there)
            used = {**pods[i].uses, number: round(pods[i].cpu * chance.choice((0.1, 0.5, 0.9)))}
            pods[i] = replace(pods[i], deleted=number) if kind == "delete" else replace(pods[i], uses=used)
    return Script(f"drawn-{seed}", nodes, rounds, tuple(jobs), tuple(pods), queues)
