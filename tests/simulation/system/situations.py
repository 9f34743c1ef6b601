"""Histories in which one thing happens: each makes the situation in which some bug would show.

A random history comes to most of them in time. These come to them at once, and are held to the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from types import MappingProxyType
from typing import Any, ClassVar, Final

from scavenger_admitter.writer import SCAVENGERJOBS
from scavenger_api import names
from scavenger_api.levels import LevelsState, PublishedLevels
from scavenger_kube.client import REQUEST_TIMEOUT, ApiClient
from scavenger_kube.resources import CONFIGMAPS, JOBS, NODES, PODS
from scavenger_testing import FakeApi, scavengerjob_dict
from scavenger_testing.builders import adopted_job_dict
from scavenger_testing.clock import eventually
from scavenger_testing.virtual_loop import LoopClock

from tests.simulation.system import kubelet
from tests.simulation.system.adopting import Adopting
from tests.simulation.system.history import (
    ALWAYS,
    BOOTS,
    COUNTED_WITHIN,
    OVER,
    TENANTS,
    History,
    Stop,
    _deleting,
    _leads,
)
from tests.simulation.system.specs import BESIDE, CLAIM, FAILS_WITH, PROGRAM, SAVED, SETTINGS
from tests.simulation.system.system import (
    BY_SCHEDULER,
    CORES,
    COUNT_JOBS,
    COUNT_PODS,
    COUNT_SCAVENGERJOBS,
    HOT,
    NODE_NAMES,
    System,
    _held_by_others,
)
from tests.simulation.system.world import SIDECAR, World
from tests.unit.admitter.harness import NS, Object

LATE: Final = 60.0
GPU: Final = "nvidia.com/gpu"
SURE_END: Final = "karpenter.sh/disrupted"
"""A taint by which a node goes for certain."""
RECOMMENDATION: Final = "aws-node-termination-handler/rebalance-recommendation"
"""A taint by which it may go."""
"""Seconds that a pod takes to stop that takes long."""
STAY: Final = 900.0
"""Seconds that ordinary pods stay."""
HALF_AN_HOUR: Final = 1800.0
"""Seconds without an admitter."""
SHUNNED: Final = 700.0
"""Seconds in which a node that has been closed twice is tested."""


class Situation(History):
    """What the admitter is put into. Jobs `a` and `b` run, on one node."""

    admitter_settings: ClassVar[Mapping[str, Any]] = MappingProxyType({})

    def stand_by(self, **settings: Any) -> None:
        super().stand_by(**{**self.admitter_settings, **settings})

    async def happen(self, skip: Set[int]) -> None:
        await self.until(lambda: len(self.phases()) == 2 and self.settled("Running"))
        await self.comes()

    async def comes(self) -> None:
        """Bring it about."""
        raise NotImplementedError

    def job(self, name: str) -> Object:
        """The Job of a ScavengerJob."""
        found = self.api.get(JOBS, NS, name)
        assert found is not None, f"{name} has no Job"
        return found

    def stop_late(self, name: str, code: int = 143, seconds: float = LATE) -> None:
        """Its pods will take so long to stop."""
        for pod in self.pods(name):
            self.trouble.stops[pod["metadata"]["uid"]] = Stop(self.clock.monotonic() + seconds, code)

    async def computes(self, name: str) -> None:
        """Until its pods run, whatever is known of that."""
        await self.until(lambda: any(pod["spec"].get("nodeName") for pod in self.pods(name)))


class SystemSituation(Situation, System):
    """What the whole system is put into, on three nodes."""

    def done(self, *jobs: str) -> bool:
        """Whether these jobs are Completed. Those that run end."""
        for name in jobs:
            if self.phase(name) == "Running":
                self.succeed(name)
        return all(self.phase(name) == "Completed" for name in jobs)

    async def leave_a_core_each(self) -> None:
        """Ordinary pods have all of each node but one core, and use half of that, and `a` and `b` run beside them."""
        self.used = 0.5
        for number in range(len(NODE_NAMES)):
            self.put_ordinary(f"web-{number}", str(CORES - 1), STAY)
        await self.pass_time(LATE)

    def node_of(self, name: str) -> str:
        """Where the one pod of a job runs."""
        return str(self.pods(name)[0]["spec"]["nodeName"])


class WorldSituation(SystemSituation, World):
    """What the system among others is put into."""


class AdoptingSituation(SystemSituation, Adopting):
    """What the system is put into where Jobs of users are adopted. The Job `c` runs beside `a` and `b`."""

    first = ()
    spec: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """Of the Job."""

    async def comes(self) -> None:
        job = adopted_job_dict("c", namespace=NS, created=self.stamp(), **self.spec)
        self.api.put(JOBS, job)
        await self.until(lambda: self.phase("c") == "Running")
        await self.pass_time(LATE)
        await self.happens()

    async def happens(self) -> None:
        """To the Job that runs."""
        raise NotImplementedError


class DeletedPodOfJob(AdoptingSituation):
    """Somebody deletes the pod of a Job with backoffLimit 0, whose program then ends with 0."""

    spec: ClassVar[Mapping[str, Any]] = MappingProxyType({"backoffLimit": 0})

    async def happens(self) -> None:
        (pod,) = self.pods("c")
        self.trouble.stops[pod["metadata"]["uid"]] = Stop(self.clock.monotonic() + 1, 0)
        self.take_away(pod)
        await self.until(lambda: self.phase("c") == "Running" and len(self.pods("c")) == 1)


class HeldPodOfJob(AdoptingSituation):
    """The finalizer of a pod that is counted cannot be taken off for a while."""

    spec: ClassVar[Mapping[str, Any]] = MappingProxyType({"completions": 2})

    async def happens(self) -> None:
        self.api.fail(500, times=ALWAYS, methods={"PATCH"}, path="/pods/")
        self.succeed("c")
        await self.pass_time(LATE)
        self.api.heal()


class UnseenJob(Situation):
    """The pods of a job are shown as they run, and its Job is not."""

    async def comes(self) -> None:
        self.api.hold_watches(JOBS, PODS)
        self.submit("c")
        await self.computes("c")
        self.api.release_watches(PODS)
        await self.pass_time(20)


class UnseenEnd(Situation):
    """A job is suspended whose program has ended, and the watch does not show that."""

    async def comes(self) -> None:
        self.api.hold_watches(PODS)
        self.succeed("a")
        job = self.api.get(SCAVENGERJOBS, NS, "a")
        assert job is not None
        self._suspend(job, suspended=True)
        await self.pass_time(40)
        assert self.phase("a") == "Completed", f"what a program has done is done again: a is {self.phase('a')}"


class RebootedTask(SystemSituation):
    """The machine of a task starts again, and its runtime does not know when the container ran."""

    async def comes(self) -> None:
        self.submit("c", array={"tasks": 2})
        await self.until(lambda: self.phase("c") == "Running")
        await self.pass_time(LATE)
        self.boot(self.node_of("c"))


class ShownTooLong(Situation):
    """The watch shows a pod of a task for longer than it is there. Its node is gone for a while."""

    async def comes(self) -> None:
        self.submit("c", array={"tasks": 2})
        await self.until(lambda: self.phase("c") == "Running")
        self.trouble.stops[self.pods("c")[1]["metadata"]["uid"]] = Stop(self.clock.monotonic() + LATE, 143)
        self.api.fail(500, times=ALWAYS, methods={"PATCH"}, path="/pods/")
        for pod in self.pods("c"):
            self.take_away(pod)
        await self.until(lambda: self.status("c").get("interruptedCount") == 1)
        self.api.hold_watches(PODS)
        self.api.heal()
        await self.until(lambda: len(self.pods("c")) == 1)
        node = self.api.get(NODES, None, "n1")
        assert node is not None
        self.api.remove(NODES, None, "n1")
        await self.until(lambda: not self.pods("c") and not self.status("c")["array"]["counted"])
        self.api.put(NODES, node)
        await self.pass_time(LATE)


class UnseenPods(Situation):
    """A job is replaced whose pods the watch has never shown, and they take long to stop."""

    async def comes(self) -> None:
        self.api.hold_watches(PODS)
        self.submit("c")
        await self.computes("c")
        await self.pass_time(3)
        self.stop_late("c")
        first = self.api.get(SCAVENGERJOBS, NS, "c")
        assert first is not None
        self.replace_one(first)
        await self.pass_time(LATE - 10)


class BlindTakeover(Situation):
    """A Job is deleted while nobody leads, and the next leader has seen neither it nor its pods, which stop late."""

    async def comes(self) -> None:
        self.api.hold_watches(JOBS, PODS)
        self.submit("c")
        await self.computes("c")
        leader = next(one for one in self.replicas if _leads(one))
        self.replicas.remove(leader)
        await leader.kill()
        self.stop_late("c", seconds=2 * LATE)
        self.remove_job(self.job("c"))
        await self.pass_time(LATE)


class SlowStop(Situation):
    """A pod that was told to stop takes long, and ends with 0."""

    async def comes(self) -> None:
        self.stop_late("a", code=0)
        self.take_away(self.pods("a")[0])
        await self.pass_time(LATE - 10)


class PowerOff(Situation):
    """A machine goes down. Its kubelet says first that containers were killed, and falls silent a while later."""

    async def comes(self) -> None:
        self.kill_containers("n1", reported=True)
        await self.pass_time(40)
        self.fall_silent("n1")
        await self.pass_time(150, step=5)


class ShutDown(SystemSituation):
    """The machine of a job goes down, and its program ends with 0. The machine is back before Kubernetes has noticed.
    Its boot is shown late."""

    async def comes(self) -> None:
        name = self.node_of("a")
        await self.pass_time(LATE)
        self.go_down(name, reported=True, noticed=False)
        self.api.hold_watches(NODES)
        await self.pass_time(BOOTS)
        self.return_node()
        await self.pass_time(LATE)
        self.api.release_watches(NODES)
        await self.pass_time(LATE)


class EndsAlone(SystemSituation):
    """A program ends with 0 by itself, and its machine runs on."""

    async def comes(self) -> None:
        self.end(self.pods("a")[0])
        await self.pass_time(COUNTED_WITHIN.total_seconds() + LATE)
        assert self.phase("a") == "Completed", f"finished work is not Completed: {self.status('a')}"


class PowerCut(Situation):
    """A machine goes down, and of its containers only the ends are written, not the phases of their pods."""

    async def comes(self) -> None:
        self.kill_containers("n1", reported=False)
        self.fall_silent("n1")
        await self.pass_time(30)
        assert set(self.phases().values()) == {"Interrupted"}, f"not all are Interrupted: {self.phases()}"


class StoppedLeader(Situation):
    """A leader is stopped right before it creates a Job. Under the next one the job has run, is interrupted, and runs
    again; somebody deletes its Job, and its pods stop late when the first one goes on. That is sooner than its request
    times out."""

    def client(self) -> ApiClient:
        made = super().client()
        made.request_timeout = REQUEST_TIMEOUT
        return made

    async def comes(self) -> None:
        leader = next(one for one in self.replicas if _leads(one))
        self.api.delay(1.0, methods={"POST"}, path="/services")
        self.submit("c", parallelism=2)
        await self.pass_time(0.5, step=0.1)
        self.stop_process(leader, STAY)
        await self.computes("c")
        first = self.job("c")
        self.stop_late("c", seconds=0)
        self.remove_job(first)
        await self.until(lambda: not any(self.owner(pod) == first["metadata"]["uid"] for pod in self.pods("c")))
        await self.computes("c")
        self.stop_late("c")
        self.remove_job(self.job("c"))
        await self.pass_time(2)
        self.go_on(leader.settings.identity)
        await self.pass_time(0.4, step=0.05)
        await self.pass_time(2 * LATE)


class TwoCandidates(Situation):
    """Nothing happens."""

    async def comes(self) -> None:
        await self.pass_time(20)


class ManyStarts(Situation):
    """As many jobs start, one after the other, as would take all slots if none came back."""

    admitter_settings = MappingProxyType({"concurrent_starts": 2})

    async def comes(self) -> None:
        for number in range(4):
            self.submit(f"c{number}")
            await self.until(lambda: self.settled("Running"), limit=30)


class HangingCreate(Situation):
    """The creation of one Job takes for ever. Others of its namespace start all the same."""

    admitter_settings = MappingProxyType({"concurrent_starts": 2, "max_starts_per_cycle": 2})

    async def comes(self) -> None:
        self.lost.add("c")
        self.submit("c")
        await self.pass_time(1)
        for name in ("d", "e", "f"):
            self.submit(name)
        await self.until(lambda: all(self.phase(name) == "Running" for name in ("d", "e", "f")), limit=20)
        await self.arrive("c")


class RefusedOnce(Situation):
    """The API server refuses one start, and nothing happens after that."""

    async def comes(self) -> None:
        await self.pass_time(90, step=5)
        self.api.fail(500, methods={"POST"}, path="/jobs")
        self.submit("c")
        await self.until(lambda: self.phase("c") == "Running", limit=40)


class Outage(Situation):
    """The API server creates no Job for a while. Who comes after that does not wait for those that had no answer."""

    async def comes(self) -> None:
        self.api.fail(503, times=ALWAYS, methods={"POST"}, path="/jobs")
        for number in range(8):  # every other one is like `d`
            self.submit(f"c{number}")
        await self.pass_time(40, step=1)
        self.api.heal()
        self.submit("d")
        await self.until(lambda: self.phase("d") == "Running", limit=5)


class SamePlace(Situation):
    """A job is replaced while nobody leads, and the next leader, whose clock is behind, gives it the same place."""

    async def comes(self) -> None:
        for replica in self.replicas:
            await replica.kill()
        self.replicas.clear()
        self.stop_late("b")
        last = self.api.get(SCAVENGERJOBS, NS, "b")
        assert last is not None
        self.replace_one(last)
        self.clocks_stepped = True
        self.stand_by(skew=-LATE)
        await self.pass_time(2 * LATE)


class UnplacedTask(SystemSituation):
    """All nodes close before the tasks of an array are placed. The watch does not show that their pods were deleted."""

    async def comes(self) -> None:
        self.submit("c", array={"tasks": 2})
        await eventually(lambda: bool(self.pods("c")), timeout=20.0, poll=0.02)  # nobody places pods meanwhile
        for node in NODE_NAMES:
            self.api.edit(NODES, None, node, lambda found: found["spec"].update(unschedulable=True))
        await self.pass_time(5)
        self.api.hold_watches(PODS)
        await self.pass_time(2 * LATE)


class LongRun(SystemSituation):
    """Jobs compute for minutes, and one of them is interrupted."""

    async def comes(self) -> None:
        await self.pass_time(4 * LATE)
        self.take_away(self.pods("a")[0])
        await self.pass_time(LATE)


class Drained(SystemSituation):
    """The scheduler takes the node of a job for somebody else."""

    async def comes(self) -> None:
        self.disrupt(self.pods("a")[0], BY_SCHEDULER)
        await self.pass_time(LATE)


class Rebooted(SystemSituation):
    """A machine starts again, and the end of a container was not seen."""

    async def comes(self) -> None:
        self.boot(self.node_of("a"))
        await self.pass_time(LATE)


class SilentNode(SystemSituation):
    """A node is not ready, a pod on it was told to stop, and there is room elsewhere."""

    async def comes(self) -> None:
        self.fall_silent(self.node_of("a"))
        self.take_away(self.pods("a")[0])
        await self.pass_time(LATE)


class HeldJob(SystemSituation):
    """A Job is deleted that somebody's finalizer holds: the collector leaves its pods."""

    async def comes(self) -> None:
        self.api.edit(JOBS, NS, "a", _held_by_others)
        self.remove_job(self.job("a"))
        await self.pass_time(LATE)
        left = [pod for pod in self.pods("a") if not _deleting(pod)]
        assert not left, f"they compute for nobody: {left}"


class Reviewed(SystemSituation):
    """Users write what the webhook refuses, and what it changes."""

    async def comes(self) -> None:
        self.submit_bad()
        self.ordinary_of_low_class()
        await self.pass_time(20)


class Limited(SystemSituation):
    """A tenant's quotas allow nothing: one on pods, which is not meant for scavenger jobs, one on Jobs, and one on
    ScavengerJobs."""

    async def comes(self) -> None:
        await self.bound({COUNT_PODS: 0})
        self.submit("c")
        await self.until(lambda: self.phase("c") == "Running")
        await self.bound({COUNT_JOBS: 0})
        self.submit("d")
        await self.until(lambda: "exceeded quota" in self.status("d").get("message", ""))
        await self.bound({COUNT_SCAVENGERJOBS: 0})
        self.submit("e")
        await self.pass_time(10)
        assert "e" not in self.phases(), "a user has more than the quota"


class OldFigures(SystemSituation):
    """The last figures grow old."""

    async def comes(self) -> None:
        await self.pass_time(LATE)
        self.metrics = "old"
        await self.pass_time(3 * LATE, step=2)
        levels = self.api.get(CONFIGMAPS, "scavenger-system", names.LEVELS_CONFIGMAP)
        assert levels is not None
        assert levels["data"][names.LEVELS_STATE] == LevelsState.BLIND, f"is not blind: {levels['data']}"


class OneHotSample(SystemSituation):
    """Ordinary pods take nearly all capacity that is left. One sample of the CPU is high, and the next is not."""

    async def comes(self) -> None:
        for number in range(3):
            self.put_ordinary(f"web-{number}", "3", STAY)
        self.used = 0.5
        await self.pass_time(LATE)
        self.used = HOT
        await self.pass_time(30, step=0.5)
        self.used = 0.5
        await self.pass_time(90, step=2)
        assert not self.api.count("POST", "/eviction"), "jobs were evicted for one sample"


class Crowd(SystemSituation):
    """Several jobs come at once, and there is room for one of them."""

    async def comes(self) -> None:
        await self.leave_a_core_each()
        crowd = [f"c{number}" for number in range(4)]
        for name in crowd:
            self.submit(name)
        await self.pass_time(LATE)
        starts = [name for name in crowd for _ in range(self.jobs_ever(name))]
        assert len(starts) == 1, f"the same room was given twice: {starts}"


class Queued(SystemSituation):
    """Jobs wait, one of those that run is interrupted, and the next leader goes on with the line."""

    hit: ClassVar[str] = "b"
    """The one that is interrupted."""
    spec: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """Of the third job that runs."""
    runs_seconds: ClassVar[float] = 0.0
    """For so long they run before others wait."""
    line: ClassVar[tuple[str, ...]] = ("b", "d", "e", "f")
    """The order in which they start."""

    async def comes(self) -> None:
        await self.leave_a_core_each()
        self.submit("c", **self.spec)
        await self.until(lambda: self.settled("Running"))
        await self.pass_time(self.runs_seconds, step=10)
        before = len(self.starts())
        for name in ("d", "e", "f"):
            self.submit(name)
            await self.turn(2.0)
        self.disrupt(self.pods(self.hit)[0], BY_SCHEDULER)
        await self.until(lambda: self.phase(self.hit) == "Interrupted")
        leader = next(one for one in self.replicas if _leads(one))
        self.replicas.remove(leader)
        await leader.kill()
        self.stand_by()
        await self.until(lambda: self.done(*self.line), limit=5 * LATE, step=1)
        started = self.starts()[before:]
        assert started == [*self.line], f"not in the order of the line: {started}"


class QueuedByServed(Queued):
    """The same where jobs go first that have had the least CPU time. The one that is interrupted has kept two
    minutes."""

    admitter_settings = MappingProxyType({"interrupted_first": "least-served"})
    hit = "c"
    spec = MappingProxyType({"interruption_after": "1m"})
    runs_seconds = 150.0
    line = ("d", "e", "f", "c")


class QueuedArray(SystemSituation):
    """Tasks of an array start one after the other while jobs wait, and the next leader goes on with the line."""

    async def comes(self) -> None:
        await self.leave_a_core_each()
        self.submit("c", array={"tasks": 4})
        await self.until(lambda: self.settled("Running"))
        before = len(self.began())
        for name in ("d", "e"):
            self.submit(name)
            await self.turn(2.0)
        self.succeed("c")
        await self.until(lambda: len(self.began()) > before)
        self.submit("f")
        await self.turn(2.0)
        leader = next(one for one in self.replicas if _leads(one))
        self.replicas.remove(leader)
        await leader.kill()
        self.stand_by()
        await self.until(lambda: self.done("c", "d", "e", "f"), limit=9 * LATE, step=1)
        started = self.began()[before:]
        assert started == ["c", "d", "e", "c", "f", "c"], f"an array is more than one place: {started}"

    def began(self) -> list[str]:
        """Of what each pod is that there has ever been, in the order in which they were created."""
        return [name.partition("-")[0] for name in {uid: name for _, uid, name in self._ever("pods")}.values()]


class Overload(SystemSituation):
    """The load is above the upper level. Of jobs that are alike, as many are evicted as bring it to the lower one."""

    async def comes(self) -> None:
        self.used = 0.5
        for number in range(3):
            self.put_ordinary(f"web-{number}", "2", STAY)
        for number in range(4):
            self.submit(f"c{number}")
        await self.until(lambda: self.settled("Running"))
        await self.pass_time(3 * LATE)  # from then on jobs have something to lose, and some are protected
        self.used = (
            0.87  # 12 cores and what nodes use themselves: 89.5 %. To 70 % it takes 2.3 cores, three of these jobs.
        )
        await self.until(lambda: self.api.count("POST", "/eviction"), limit=5 * LATE)
        await self.pass_time(2 * LATE)
        evicted = {one.path.split("/")[-2] for one in self.api.requests if one.path.endswith("/eviction")}
        assert len(evicted) == 3, f"evicted, where three are enough: {sorted(evicted)}"


class FullPool(SystemSituation):
    """One node has a device, and its taint. Regular pods use up the others, so that nothing starts there. A job that
    asks for the device starts at once all the same, and stays."""

    async def comes(self) -> None:
        node = NODE_NAMES[-1]
        self.api.edit(NODES, None, node, _with_device)
        for number in range(len(NODE_NAMES) - 1):
            self.put_ordinary(f"web-{number}", str(CORES), STAY)
        self.used = 0.95
        await self.pass_time(3 * LATE, step=2)
        spec = scavengerjob_dict()["spec"]
        for amounts in spec["resources"].values():
            amounts[GPU] = "1"
        self.submit_spec("c", spec, NS)
        self.submit("d")
        await self.pass_time(LATE)
        published = self.api.get(CONFIGMAPS, names.SYSTEM_NAMESPACE, names.LEVELS_CONFIGMAP) or {}
        levels = PublishedLevels.parse(published["data"])
        assert not levels.admit, "the CPU pool is meant to be full"
        assert self.phase("c") == "Running", "a full CPU pool keeps a job from idle devices"
        assert self.node_of("c") == node, "not where the device is"
        assert self.phase("d") != "Running", "a job starts in a pool that is shut"
        evicted = {one.path.split("/")[-2] for one in self.api.requests if one.path.endswith("/eviction")}
        assert not any(name.startswith("c-") for name in evicted), "evicted for the load of another pool"


def _with_device(node: Object) -> None:
    for amounts in ("capacity", "allocatable"):
        node["status"].setdefault(amounts, {})[GPU] = "4"
    node["spec"]["taints"] = [{"key": GPU, "value": "present", "effect": "NoSchedule"}]


class Meshed(WorldSituation):
    """A webhook of a mesh adds a container to all pods. It runs on where a program has ended."""

    async def comes(self) -> None:
        self.injected = {"containers": [SIDECAR]}
        self.submit("c", array={"tasks": 2})
        self.submit("d", parallelism=2)
        await self.until(lambda: self.done("c", "d"), limit=2 * LATE, step=1)


class DeletedNamespace(WorldSituation):
    """Its namespace is deleted while jobs run and wait."""

    def __init__(self, api: FakeApi, clock: LoopClock, seed: int) -> None:
        super().__init__(api, clock, seed)
        self.deletes_namespace = True

    async def comes(self) -> None:
        self.submit("c", parallelism=2)
        await self.computes("c")
        self.submit("d", cpu="100")
        await self.pass_time(10)


class OverloadAtOnce(Overload):
    """The same, and the first sample evicts: before anybody has heard that jobs are preemptible now."""

    regulator_settings = MappingProxyType({"cpu_samples": 1})


class AwayForLong(SystemSituation):
    """A node is not ready for minutes, and the pod of a job on it was told to stop."""

    async def comes(self) -> None:
        self.fall_silent(self.node_of("a"))
        await self.pass_time(10)
        self.take_away(self.pods("a")[0])
        await self.pass_time(5 * LATE, step=5)


class TaskAgain(WorldSituation):
    """The program of one task fails and is tried again. The scheduler takes the node of another one."""

    async def comes(self) -> None:
        self.submit("c", array={"tasks": 3}, backoffLimit=1)
        await self.until(lambda: self.phase("c") == "Running" and len(self.pods("c")) == 3)
        await self.pass_time(10)
        fails, goes, _ = self.pods("c")
        self.fails(fails, FAILS_WITH)
        self.disrupt(goes, BY_SCHEDULER)
        await self.until(lambda: self.status("c").get("interruptedCount") == 1, limit=2 * LATE)
        await self.until(lambda: self.done("c"), limit=5 * LATE, step=1)


class TwoGrants(SystemSituation):
    """A task has no node yet when more tasks of its array are granted. Later all of them are bound."""

    async def comes(self) -> None:
        self.kubelet = False
        self.submit("c", array={"tasks": 4, "maxRunning": 1})
        await self.until(lambda: len(self.pods("c")) == 1)
        await self.pass_time(5)
        job = self.api.get(SCAVENGERJOBS, NS, "c")
        assert job is not None
        self.api.delay(methods={"POST"}, path="/pods", seconds=4, times=ALWAYS)
        self.edit_spec(job, array={"tasks": 4, "maxRunning": 3})
        await self.pass_time(1)
        self.put_ordinary("web", "1", STAY)  # the admitter looks for capacity
        await self.pass_time(1)
        self.kubelet = True
        await self.pass_time(10)
        self.api.heal()
        assert len({pod["metadata"]["annotations"][names.ANNOTATION_GRANT] for pod in self.pods("c")}) > 1
        await self.until(lambda: self.done("c"), limit=5 * LATE, step=1)


class AdmitterAway(SystemSituation):
    """Pods end by themselves while no admitter is there, and are deleted. Others take its finalizer off."""

    async def comes(self) -> None:
        self.submit("c", array={"tasks": 1})
        self.submit("d")
        await self.until(lambda: self.phase("c") == self.phase("d") == "Running")
        await self.pass_time(10)
        while self.replicas:
            await self.end_process(self.replicas.pop())
        done = [pod for name in ("c", "d") for pod in self.pods(name)]
        for pod in done:
            self.end(pod)
        await self.pass_time(10)
        for pod in done:
            self.delete_pod(pod)
        await self.until(lambda: not any(self.pods(name) for name in ("c", "d")), limit=4 * LATE, step=1)
        self.stand_by()
        await self.until(lambda: self.done("c") and self.done("d"), limit=5 * LATE, step=1)
        for name in ("c", "d"):
            assert not self.status(name).get("interruptedCount"), f"{name} had finished, and runs again"


class GoneUnseen(SystemSituation):
    """No admitter is there for half an hour, and somebody removes a Job and its pods with a runbook's command."""

    async def comes(self) -> None:
        self.submit("d", parallelism=2)
        await self.until(lambda: self.phase("d") == "Running")
        await self.pass_time(LATE)
        await self.remove_admitters()
        self.remove_job(self.job("d"))
        for pod in self.pods("d"):
            self.api.edit(PODS, NS, pod["metadata"]["name"], lambda one: one["metadata"].update(finalizers=[]))
        await self.pass_time(HALF_AN_HOUR, step=LATE)
        self.return_admitters()
        await self.pass_time(COUNTED_WITHIN.total_seconds() + LATE)
        await self.until(lambda: self.done("d"), limit=5 * LATE, step=1)


class Reinstalled(SystemSituation):
    """The admitter is uninstalled while a gang and a task run, and is installed again later."""

    async def comes(self) -> None:
        self.submit("c", array={"tasks": 1})
        self.submit("d", parallelism=2)
        await self.until(lambda: self.phase("c") == self.phase("d") == "Running")
        await self.pass_time(LATE)
        await self.remove_admitters()
        await self.run_hook()
        await self.pass_time(LATE)
        left = [name for name in ("c", "d") if self.phase(name) in ("Starting", "Running")]
        assert not left, f"no admitter is there, and these run by their statuses: {left}"
        await self.pass_time(HALF_AN_HOUR, step=LATE)
        self.return_admitters()
        await self.until(lambda: self.done("c") and self.done("d"), limit=5 * LATE, step=1)


class ReturnedInPlace(SystemSituation):
    """The machine of a task returns under its name, and containers run again in the same pods."""

    async def comes(self) -> None:
        self.submit("c", array={"tasks": 1})
        await self.until(lambda: self.phase("c") == "Running")
        await self.pass_time(LATE)
        self.boot_in_place(self.node_of("c"), None)
        await self.pass_time(COUNTED_WITHIN.total_seconds() + LATE)
        await self.until(lambda: self.done("c"), limit=5 * LATE, step=1)


class GoingNode(SystemSituation):
    """An autoscaler is about to delete the node on which a task runs."""

    async def comes(self) -> None:
        self.submit("c", array={"tasks": 1})
        await self.until(lambda: self.phase("c") == "Running")
        self.announce_end(self.node_of("c"), SURE_END)
        await self.until(lambda: self.status("c").get("interruptedCount") == 1, limit=2 * LATE)
        await self.until(lambda: self.done("c"), limit=5 * LATE, step=1)


class HintedNode(SystemSituation):
    """The provider recommends to leave the nodes of a job and a task. Their ends are announced later."""

    async def comes(self) -> None:
        self.submit("c", array={"tasks": 1})
        self.submit("d")
        await self.until(lambda: self.phase("c") == self.phase("d") == "Running")
        nodes = {self.node_of("c"), self.node_of("d")}
        for node in nodes:
            self.announce_end(node, RECOMMENDATION)
        await self.pass_time(LATE)
        for name in ("c", "d"):
            assert not self.status(name).get("interruptedCount"), f"{name} was interrupted, and its node only may go"
        for node in nodes:
            self.announce_end(node, SURE_END)
        await self.until(lambda: all(self.status(name).get("interruptedCount") for name in ("c", "d")), limit=2 * LATE)
        self.recover()
        await self.until(lambda: self.done("c") and self.done("d"), limit=5 * LATE, step=1)


class MissingForOne(WorldSituation):
    """A ConfigMap is deleted that the tasks of an array need. One of them runs, and another one cannot start."""

    async def comes(self) -> None:
        needs = [{"configMapRef": {"name": SETTINGS}}]
        self.submit("c", array={"tasks": 2, "maxRunning": 1}, envFrom=needs)
        await self.until(lambda: self.phase("c") == "Running")
        await self.pass_time(LATE)
        self.lose_from(NS, CONFIGMAPS, SETTINGS)
        job = self.api.get(SCAVENGERJOBS, NS, "c")
        assert job is not None
        self.edit_spec(job, array={"tasks": 2, "maxRunning": 2})
        await self.until(lambda: any(one["status"]["phase"] == "Pending" for one in self.pods("c")))
        await self.pass_time(10)
        self.find_references()


class SavedTask(WorldSituation):
    """A task of an array with snapshots saves its state and ends with the code that says so."""

    async def comes(self) -> None:
        volume = {"name": CLAIM, "mountPath": "/data"}
        snapshots = {"command": ["/app"], "persistentVolumeClaims": [volume], "snapshot": {"volume": CLAIM}}
        self.submit("c", array={"tasks": 2}, **snapshots)
        await self.until(lambda: self.phase("c") == "Running" and len(self.pods("c")) == 2)
        await self.pass_time(10)
        self.fails(self.pods("c")[0], SAVED)
        await self.until(lambda: self.done("c"), limit=5 * LATE, step=1)


class OneJob(WorldSituation):
    """A job `c` runs, and something happens to it."""

    spec: ClassVar[Mapping[str, Any]] = MappingProxyType({})

    async def happens_once(self) -> Object:
        """Until it runs; its one pod."""
        await self.until(lambda: self.phase("c") == "Running")
        return next(pod for pod in self.pods("c") if not _deleting(pod) and pod["status"]["phase"] == "Running")

    async def comes_to(self, phase: str) -> None:
        """Until it is over, in this phase."""
        await self.until(lambda: self.phase("c") in OVER, limit=LATE)
        assert self.phase("c") == phase, f"is {self.phase('c')}: {self.status('c')}"

    async def happen(self, skip: Set[int]) -> None:
        await self.until(lambda: len(self.phases()) == 2 and self.settled("Running"))
        self.submit_spec("c", self.written(), NS)
        await self.comes()

    def written(self) -> Object:
        """Its spec."""
        return {**scavengerjob_dict()["spec"], **self.spec}


class ForgottenExit(OneJob):
    """A program ends by itself with 0. Its kubelet is started again, and does not know how it ended."""

    async def comes(self) -> None:
        pod = await self.happens_once()
        self.end(pod)
        await self.pass_time(2)
        (pod,) = self.pods("c")
        self._status(pod, phase="Failed", containerStatuses=kubelet.not_found(pod))
        await self.comes_to("Completed")


class Retried(OneJob):
    """A program fails twice that may try again once."""

    spec = MappingProxyType({"backoffLimit": 1})

    async def comes(self) -> None:
        self.fails(await self.happens_once(), FAILS_WITH)
        await self.until(lambda: self.jobs_ever("c") == 2)
        self.fails(await self.happens_once(), FAILS_WITH)
        await self.comes_to("Failed")


class FinalFailure(OneJob):
    """A program fails in a way after which no other try helps, as its job says."""

    spec = MappingProxyType(
        {
            "backoffLimit": 3,
            "podFailurePolicy": {
                "rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [FAILS_WITH]}}]
            },
        }
    )

    async def comes(self) -> None:
        self.fails(await self.happens_once(), FAILS_WITH)
        await self.comes_to("Failed")


_ONE_TASK: Final = MappingProxyType({"tasks": 1})


class FinalFailureOfTask(FinalFailure):
    """The program of a task fails in a way after which no other try of that task helps, as its array says."""

    def written(self) -> Object:
        rule = {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [FAILS_WITH]}}
        return {**super().written(), "array": {**_ONE_TASK}, "podFailurePolicy": {"rules": [rule]}}


class HangingTask(OneJob):
    """A task computes and reports no checkpoint, as its array says that it would."""

    spec = MappingProxyType({"array": {**_ONE_TASK}, "progressDeadlineIntervals": 1, "interruptionAfter": "20s"})

    async def comes(self) -> None:
        await self.happens_once()
        await self.comes_to("Failed")


class LongTasks(HangingTask):
    """Tasks compute for longer than their array may."""

    spec = MappingProxyType({"array": {**_ONE_TASK}, "activeDeadlineSeconds": 20})


class SavedAtOnce(OneJob):
    """A task saves its state and leaves as soon as it runs."""

    spec = MappingProxyType({"array": {**_ONE_TASK}, "checkpointExitCode": SAVED})

    async def comes(self) -> None:
        self.fails(saved := await self.happens_once(), SAVED)
        await self.pass_time(LATE / 2)
        there = [pod["metadata"]["uid"] for pod in self.pods("c")]
        assert there == [saved["metadata"]["uid"]], "a pod is gone before its task may start again"
        await self.until(lambda: any(pod["status"]["phase"] == "Running" for pod in self.pods("c")), limit=2 * LATE)


class OverLimit(OneJob):
    """A kubelet ends a pod that uses more local storage than it may."""

    async def comes(self) -> None:
        self.over_limit(await self.happens_once(), kubelet.OWN_LIMITS[0])
        await self.comes_to("Failed")


class EvictedForNode(OneJob):
    """A kubelet whose node is low on memory ends a pod."""

    async def comes(self) -> None:
        self.evict_from_node(await self.happens_once())
        await self.pass_time(3 * LATE)


class SavedBeside(OneJob):
    """A container beside the program ends with the code by which a program says that it has saved its state."""

    def written(self) -> Object:
        amounts = {"limits": {"cpu": "500m", "memory": "1Gi"}}
        containers = [{"name": name, "image": "example.org/app:1", "resources": amounts} for name in (PROGRAM, BESIDE)]
        return {"checkpointExitCode": SAVED, "template": {"spec": {"containers": containers}}}

    async def comes(self) -> None:
        self.end_others(await self.happens_once(), SAVED)
        await self.pass_time(LATE)
        assert self.jobs_ever("c") == 1, "started again where only a sidecar has ended"


class Expired(OneJob):
    """A job is over that is to be deleted then."""

    spec = MappingProxyType({"ttlSecondsAfterFinished": 10})

    async def comes(self) -> None:
        await self.happens_once()
        self.succeed("c")
        await self.until(lambda: "c" not in self.phases(), limit=LATE)


class Reordered(SystemSituation):
    """Jobs wait, and their user gives the last one priority."""

    async def comes(self) -> None:
        await self.leave_a_core_each()
        self.submit("c")
        await self.until(lambda: self.settled("Running"))
        before = len(self.starts())
        for name in ("d", "e", "f"):
            self.submit(name)
            await self.turn(2.0)
        last = self.api.get(SCAVENGERJOBS, NS, "f")
        assert last is not None
        self.edit_spec(last, priority=5)
        await self.turn(2.0)
        await self.until(lambda: self.done("c", "d", "e", "f"), limit=5 * LATE, step=1)
        started = self.starts()[before:]
        assert started[0] == "f", f"not by priority: {started}"


class Orphaned(WorldSituation):
    """Somebody deletes a Job with `--cascade=orphan`: nobody else ends its pods."""

    async def comes(self) -> None:
        self.orphan_pods(self.job("a"))
        await self.until(lambda: self.jobs_ever("a") == 2, limit=2 * LATE)


class LastDelete(Situation):
    """A pod is told to stop and ends with 0, and the watch shows neither. When the admitter lists pods again, the last
    DELETE of its kubelet has moved the time of the first one."""

    async def comes(self) -> None:
        self.api.hold_watches(PODS)
        self.stop_late("a", code=0, seconds=5)
        self.take_away(self.pods("a")[0])
        await self.pass_time(20)
        self.api.expire_watches()
        self.api.release_watches(PODS)
        await self.pass_time(20)


class SuspendedTasks(Situation):
    """An array is suspended, and goes on a while later."""

    async def comes(self) -> None:
        await self.tasks_run()
        self.suspend_tasks(suspended=True)
        await self.until(lambda: self.phase("c") == "Suspended")
        await self.pass_time(LATE)
        self.suspend_tasks(suspended=False)
        await self.pass_time(LATE)

    async def tasks_run(self) -> None:
        """Until the tasks of an array do."""
        self.submit("c", array={"tasks": 3})
        await self.until(lambda: self.phase("c") == "Running" and len(self.pods("c")) == 3)
        await self.pass_time(LATE)

    def suspend_tasks(self, *, suspended: bool) -> None:
        """Their user suspends them, or lets them go on."""
        job = self.api.get(SCAVENGERJOBS, NS, "c")
        assert job is not None
        self._suspend(job, suspended=suspended)


class UnwrittenSuspension(SuspendedTasks):
    """An array is suspended right after its status was written, and its leader dies before it may write again. By then
    the array goes on."""

    async def comes(self) -> None:
        await self.tasks_run()
        self.end(self.pods("c")[0])
        await self.until(lambda: self.status("c").get("array", {}).get("completed") == 1, step=0.05)
        self.suspend_tasks(suspended=True)
        await self.pass_time(0.3, step=0.05)
        leader = next(one for one in self.replicas if _leads(one))
        self.replicas.remove(leader)
        await self.end_process(leader)
        self.suspend_tasks(suspended=False)
        self.stand_by()
        await self.pass_time(2 * LATE)


class StoppedPeer(Situation):
    """A member of a gang fails, and the other one is stopped. The watch shows its end when the last DELETE of its
    kubelet has moved the time of the first one."""

    async def comes(self) -> None:
        self.submit("c", parallelism=2, backoffLimit=0)
        await self.until(lambda: self.phase("c") == "Running")
        await self.pass_time(LATE)
        failed, other = self.pods("c")
        self.stop_late("c", seconds=10)
        self.ledger.end(failed, self.clock.now(), FAILS_WITH)
        self._status(failed, **kubelet.program_ended(failed, FAILS_WITH, self.clock.now()))
        await self.until(lambda: any(_deleting(pod) for pod in self.pods("c")), step=0.05)
        await self.pass_time(1, step=0.05)
        self.trouble.stops[other["metadata"]["uid"]] = Stop(self.clock.monotonic() + 2, 143)
        self.api.hold_watches(PODS)
        await self.pass_time(20)
        self.api.expire_watches()
        self.api.release_watches(PODS)
        await self.pass_time(20)


class Reclaiming(OneJob):
    """A job wants reclaimed capacity, and nodes offer some."""

    spec = MappingProxyType({"capacity": "Reclaimed"})

    def __init__(self, api: FakeApi, clock: LoopClock, seed: int) -> None:
        super().__init__(api, clock, seed)
        self.reclaims = True

    async def comes(self) -> None:
        await self.until(lambda: self.pods("c"), limit=5 * LATE)
        asked = {name: kubelet.requested(self.pods("c")[0], name) for name in ("cpu", "memory")}
        assert not any(asked.values()), f"takes what nobody reclaimed: {asked}"
        await self.happens_once()


class UnequalSides(OneJob):
    """A job that may use more CPU than it requests runs until it completes."""

    spec = MappingProxyType(
        {"resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "4", "memory": "2Gi"}}}
    )

    async def comes(self) -> None:
        await self.happens_once()
        await self.pass_time(3 * LATE)
        self.succeed("c")
        await self.comes_to("Completed")


class SlowedDown(OneJob):
    """A pod is resized in place to a quarter of its CPU, again and again: the regulator gives the rest back."""

    async def comes(self) -> None:
        pod = await self.happens_once()
        for _ in range(5):
            self.resize(pod, "250m")
            await self.pass_time(LATE)
        self.succeed("c")
        await self.comes_to("Completed")
        booked = self.status("c")["usefulCPUSeconds"]
        assert booked < 4.5 * LATE, f"{booked} core-seconds of a pod that was slowed down"

    def check_books(self, job: Object) -> None:
        """The model knows what a job asks for, and not what its pod requests meanwhile."""
        if job["metadata"]["name"] != "c":
            super().check_books(job)

    def resize(self, pod: Object, cpu: str) -> None:
        """As the kubelet has it once it has done so."""

        def edit(obj: Object) -> None:
            for side in obj["spec"]["containers"][0]["resources"].values():
                side["cpu"] = cpu
            status = obj["status"]["containerStatuses"][0]
            status |= {"resources": {"requests": {"cpu": cpu}}, "allocatedResources": {"cpu": cpu}}

        self.api.edit(PODS, NS, pod["metadata"]["name"], edit)


class RefusingNode(WorldSituation):
    """From a moment on the node that the scheduler takes first admits no pods; after a while it does again. Jobs of two
    tenants are submitted all the time."""

    waits = 120.0
    """Seconds in which each job runs."""
    refusing = False

    def run(self, pod: Object) -> None:
        mine = pod["metadata"]["namespace"] in TENANTS and not pod["status"].get("containerStatuses")
        node = self.node_for(pod) if mine and self.refusing else None
        if node == NODE_NAMES[0]:
            reason = "UnexpectedAdmissionError"
            status = {"reason": reason, "message": kubelet.REFUSALS[reason]}
            self._refuse({**pod, "spec": {**pod["spec"], "nodeName": node}}, status)
        else:
            super().run(pod)

    async def comes(self) -> None:
        self.refusing = True
        for number in range(6):
            await self.one_more(f"c{number}", TENANTS[number % 2])
        self.refusing = False
        await self.pass_time(SHUNNED)
        for number in range(3):
            await self.one_more(f"d{number}", NS, end=False)
        used = [pod["spec"].get("nodeName") for pod in self.api.stored(PODS) if not pod["status"].get("reason")]
        assert NODE_NAMES[0] in used, "a node that works again is not used"

    async def one_more(self, name: str, tenant: str, *, end: bool = True) -> None:
        """A job runs before long, and then ends."""
        self.submit_spec(name, scavengerjob_dict()["spec"], tenant)
        began = self.clock.monotonic()
        while self.phase(name) != "Running":
            waited = self.clock.monotonic() - began
            assert waited < self.waits, f"{name} waits for {waited:.0f} s beside a node that refuses pods"
            await self.pass_time(1)
        if end:
            self.succeed(name)
            await self.until(lambda: self.phase(name) == "Completed", limit=LATE)
