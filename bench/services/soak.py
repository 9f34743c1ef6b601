"""`make soak`: jobs and arrays come and go for minutes while services and the control plane are killed and silent.

The API server, etcd, the scheduler with the plugin and all services are real, the nodes are kwok's. An onlooker who
watches the API judges: no job lives twice, none is Failed, no interruption is taken back, and a job that is Completed
stays so. In the peace after it every job completes, no pod keeps the finalizer, and nobody writes anything. No service
holds more memory at the end of the trouble than in the middle of it.

    SOAK_SECONDS of trouble, SOAK_JOBS and arrays at once, SOAK_NODES; BENCH_CHAOS_SEED
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, contextmanager, suppress
from typing import Any, Final

import msgspec
from scavenger_admitter.writer import SCAVENGERJOBS
from scavenger_api import names
from scavenger_api.job import Phase, ScavengerJob
from scavenger_cluster import Cluster, ClusterError, stack
from scavenger_cluster.api import namespaced
from scavenger_domain.gang import unit
from scavenger_kube.client import ApiClient
from scavenger_kube.kinds import Pod
from scavenger_kube.resources import JOBS, PODS
from scavenger_runtime.cache import Change
from scavenger_runtime.informer import Informer
from scavenger_testing.processes import resident_kb

from bench.services.bench_chaos import COMPONENTS, NAMESPACES, SETTINGS, TROUBLE, Chaos
from bench.services.harness import Object, followed, scavenger_job

SECONDS: Final = float(os.environ.get("SOAK_SECONDS", "1200"))
AT_ONCE: Final = int(os.environ.get("SOAK_JOBS", "1000"))
NODES: Final = int(os.environ.get("SOAK_NODES", "20"))
PEACE_SECONDS: Final = 900.0
"""In which all jobs have to complete, after the last fault."""
ADMITTERS: Final = ("admitter", "admitter-2")
LONGER_THAN_A_LEASE: Final = 20.0
QUIET_SECONDS: Final = 30.0
SETTLE_SECONDS: Final = 60.0
"""After the last job has completed, until nothing is written any more."""
LOOK_SECONDS: Final = 5.0
GROWTH: Final = 1.25
"""Memory in the last third of a run to memory in the third before."""
SLACK_MB: Final = 20.0

MB: Final = 1024.0


class Soak(Chaos):
    """Users without end: they delete what is done, and submit as much again."""

    def submit(self) -> None:
        numbers = itertools.count(1)
        while not self._peace.wait(2):
            with suppress(*TROUBLE):
                there = self._there()
                gone = [namespaced("scavengerjobs", *key) for key in self._draw_some(there)]
                self._cluster.client.delete_all(gone)
                wanted = min(AT_ONCE - len(there) + len(gone), AT_ONCE // 10)
                path = namespaced("scavengerjobs", self._draw(*NAMESPACES))
                self._cluster.client.create_all(path, [self._one(next(numbers)) for _ in range(wanted)])

    def _there(self) -> dict[tuple[str, str], bool]:
        """Each job, and whether it is Completed."""
        found: dict[tuple[str, str], bool] = {}
        for namespace in NAMESPACES:
            for job in self._cluster.client.get(namespaced("scavengerjobs", namespace))["items"]:
                found[namespace, job["metadata"]["name"]] = (job.get("status") or {}).get("phase") == "Completed"
        return found

    def _draw_some(self, there: dict[tuple[str, str], bool]) -> Iterator[tuple[str, str]]:
        """Half of those that are done, and now and then one that is not."""
        for key, done in there.items():
            if self._draw(True, False) if done else self._draw(True, *[False] * 499):
                yield key

    def _silence(self) -> str:
        if self._draw(True, False, False):
            self._cluster.component_silence(f"service/{self._draw(*ADMITTERS)}", LONGER_THAN_A_LEASE)
            return "stopped for longer than a Lease"
        return super()._silence()

    def _kill(self) -> str:
        if self._draw(True, False, False):
            self._cluster.service_kill("admitter", instance=2)
            return "killed"
        return super()._kill()

    def unfinished(self) -> list[str]:
        """The jobs that are not Completed."""
        return [f"{namespace}/{name}" for (namespace, name), done in self._there().items() if not done]

    def held(self) -> list[str]:
        """The pods that our finalizer keeps."""
        pods = [pod for one in NAMESPACES for pod in self._cluster.client.get(namespaced("pods", one))["items"]]
        return [pod["metadata"]["name"] for pod in pods if names.FINALIZER in pod["metadata"].get("finalizers", ())]

    def _one(self, number: int) -> Object:
        job = scavenger_job(number, "soak", parallelism=self._draw(1, 1, 1, 2, 4))
        job["spec"]["terminationGracePeriodSeconds"] = self._draw(1, 5)
        job["spec"]["resources"]["requests"]["cpu"] = self._draw("1", "2", "4")
        if self._draw(True, *[False] * 19):
            job["spec"] |= {"parallelism": 1, "array": {"tasks": self._draw(5, 20, 50)}}
        return job


class Onlooker:
    """Sees what the API shows, and judges.

    Attributes:
        wrong: what must never be, in words, each once.
        written: how many changes of ScavengerJobs, Jobs and pods there were.
        runs: how many pods have run.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._over = threading.Event()
        self._lives: defaultdict[str, dict[str, str]] = defaultdict(dict)
        self._doubts: dict[str, str] = {}
        self.wrong: dict[str, None] = {}
        self.written = 0
        self.runs = 0

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """It looks on for the length of a block; an error of it is raised at the end."""
        with ThreadPoolExecutor(1) as pool:
            found = pool.submit(lambda: asyncio.run(self._look_on()))
            try:
                yield
            finally:
                self._over.set()
        found.result()

    async def _look_on(self) -> None:
        async with AsyncExitStack() as stays:
            client = await stays.enter_async_context(
                await ApiClient.connect(kubeconfig=str(self._cluster.kubeconfig), user_agent="soak")
            )
            pods = Informer(client, PODS, label_selector=names.LABEL_JOB)
            await stays.enter_async_context(followed(pods, self._on_pod))
            await stays.enter_async_context(followed(Informer(client, SCAVENGERJOBS), self._on_job))
            await stays.enter_async_context(followed(Informer(client, JOBS), self._on_any))
            while not self._over.is_set():
                await asyncio.sleep(1)
                for life, pods_of_job in list(self._doubts.items()):
                    with suppress(*TROUBLE):  # it is asked again
                        await asyncio.to_thread(self._make_sure, life, pods_of_job)
                        self._doubts.pop(life)

    def _on_any(self, _: Change[Any]) -> None:
        self.written += 1

    def _on_job(self, change: Change[ScavengerJob]) -> None:
        self.written += 1
        old, new = change.old, change.new
        if new is None:
            return
        if new.status.phase is Phase.FAILED:
            self.wrong[f"{new.key} is Failed: {new.status.message}"] = None
        if old is None or old.metadata.uid != new.metadata.uid:
            return
        if old.status.phase is Phase.COMPLETED and new.status.phase is not Phase.COMPLETED:
            self.wrong[f"{new.key} was Completed and is {new.status.phase}"] = None
        if new.status.interrupted_count < old.status.interrupted_count:
            self.wrong[f"{new.key} takes interruptions back"] = None

    def _on_pod(self, change: Change[Pod]) -> None:
        self.written += 1
        pod = change.obj
        life = unit(pod)
        lives = self._lives[life]
        if change.new is not None and computes(change.new):
            self.runs += pod.metadata.uid not in lives
            lives[pod.metadata.uid] = run_of(pod)
        else:
            lives.pop(pod.metadata.uid, None)
        if len(set(lives.values())) > 1:
            job = f"{names.LABEL_JOB}={pod.metadata.labels[names.LABEL_JOB]}"
            self._doubts[life] = f"{namespaced('pods', pod.metadata.namespace)}?labelSelector={job}"

    def _make_sure(self, life: str, pods_of_job: str) -> None:
        """A watch that starts over may show a pod before the end of another: one list shows both at a moment."""
        pods = [msgspec.convert(one, Pod) for one in self._cluster.client.get(pods_of_job)["items"]]
        alive = {run_of(pod) for pod in pods if unit(pod) == life and computes(pod)}
        if len(alive) > 1:
            self.wrong[f"{life} lives twice: {sorted(alive)}"] = None


def run_of(pod: Pod) -> str:
    """Which life that is: pods of a gang share that of their Job."""
    owner = pod.metadata.controller
    return pod.metadata.uid if names.LABEL_TASK in pod.metadata.labels or owner is None else owner.uid


def computes(pod: Pod) -> bool:
    """Whether a container of it may run."""
    return bool(pod.spec.node_name) and not pod.ended


class Memory:
    """What the services hold, over the run."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._began = time.monotonic()
        self._seen: list[tuple[float, str, float]] = []

    def look(self) -> None:
        """Note it now; a service that is dead at this moment is left out."""
        for name in stack.existing_services():
            with suppress(ClusterError, OSError, StopIteration):
                held = resident_kb(self._cluster.service(name).pid) / MB
                self._seen.append((time.monotonic() - self._began, name, held))

    def most(self) -> dict[str, tuple[float, float]]:
        """By service the most in MB in the second third and in the last."""
        end = time.monotonic() - self._began
        found = dict[str, tuple[float, float]]()
        for name in {one for _, one, _ in self._seen}:
            second, last = (
                max((mb for at, one, mb in self._seen if one == name and low * end <= at <= high * end), default=0.0)
                for low, high in ((1 / 3, 2 / 3), (2 / 3, 1.0))
            )
            found[name] = second, last
        return found


def main() -> int:
    """Run it, and print what was wrong. Returns the exit code: 1 where anything was."""
    cluster = Cluster("soak", report=print)
    cluster.down()  # a run that was killed may have left its objects
    try:
        cluster.up(f"fake:{NODES}", scheduler="plugin")
        stack.install(cluster)
        stack.start(cluster, settings=SETTINGS)
        cluster.service_start("admitter", instance=2, environment=SETTINGS)
        for name in NAMESPACES:
            cluster.kubectl("create", "namespace", name)
        wrong = _soak(cluster)
    finally:
        cluster.down()
    for words in wrong:
        print(f"WRONG: {words}")
    print(f"{len(wrong)} wrong")
    return 1 if wrong else 0


def _soak(cluster: Cluster) -> list[str]:
    soak, onlooker, memory = Soak(cluster), Onlooker(cluster), Memory(cluster)
    wrong: list[str] = []
    with onlooker.at_work():
        began = time.monotonic()
        with soak.at_work(soak.submit, soak.end_pods, soak.come_and_go, soak.disturb):
            while (passed := time.monotonic() - began) < SECONDS:
                time.sleep(LOOK_SECONDS)
                memory.look()
                if passed % 60 < LOOK_SECONDS:
                    print(f"{passed:.0f} s: {onlooker.runs} pods ran, {soak.faults.total()} faults", flush=True)
        held = memory.most()
        for name in COMPONENTS:
            cluster.component_start(name)
        cluster.kubectl("delete", "pods", "--all", "--namespace", "default", "--wait=false")
        wrong += _in_peace(soak, onlooker)
    for name, (second, last) in sorted(held.items()):
        print(f"{name}: {second:.0f} MB in the second third, {last:.0f} MB in the last")
        if last > GROWTH * second + SLACK_MB:
            wrong.append(f"{name} grew from {second:.0f} to {last:.0f} MB")
    print(f"{onlooker.runs} pods ran, {onlooker.written} changes seen, faults: {dict(soak.faults)}")
    return [*onlooker.wrong, *wrong]


def _in_peace(soak: Soak, onlooker: Onlooker) -> list[str]:
    """What is wrong once nothing disturbs anybody any more."""
    began, left = time.monotonic(), ["everything"]
    with soak.at_work(soak.end_pods):
        while left and time.monotonic() < began + PEACE_SECONDS:
            time.sleep(2)
            with suppress(*TROUBLE):
                left = soak.unfinished()
    print(f"{len(left)} jobs left after {time.monotonic() - began:.0f} s", flush=True)
    time.sleep(SETTLE_SECONDS)
    before = onlooker.written
    time.sleep(QUIET_SECONDS)
    wrong = [f"{name} has not completed" for name in left]
    if (more := onlooker.written - before) and not left:
        wrong.append(f"{more} changes in {QUIET_SECONDS:.0f} s in which nothing happened")
    return wrong + [f"{name} keeps the finalizer" for name in soak.held()]


if __name__ == "__main__":
    sys.exit(main())
