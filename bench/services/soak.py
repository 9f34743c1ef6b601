"""`make soak`: jobs and arrays come and go for minutes while services and the control plane are killed and silent.

The API server, etcd, the scheduler with the plugin and all services are real, the nodes are kwok's. An onlooker who
watches the API judges by the rules of `bench.services.judge`. In the peace after it every job completes, no pod keeps
the finalizer, nobody writes anything, and of deleted jobs nothing is left. In the last third services are left alone:
what a process holds is told from one that lasts, until all is quiet. No service may grow within its lives.

    SOAK_SECONDS of trouble, SOAK_JOBS and arrays at once, SOAK_NODES; BENCH_CHAOS_SEED
"""

from __future__ import annotations

import asyncio
import itertools
import math
import os
import re
import sys
import threading
import time
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, contextmanager, suppress
from typing import Final

import msgspec
import prometheus_client
from scavenger_admitter.writer import SCAVENGERJOBS
from scavenger_api import names
from scavenger_api.job import ScavengerJob
from scavenger_cluster import Cluster, stack
from scavenger_cluster.api import namespaced
from scavenger_cluster.kwok import RUN_SECONDS
from scavenger_kube.client import ApiClient
from scavenger_kube.kinds import Job, Pod
from scavenger_kube.resources import JOBS, PODS
from scavenger_runtime.cache import Change
from scavenger_runtime.informer import HANDLER_ERRORS, WATCH_ERRORS, Informer
from scavenger_testing.processes import cpu_seconds, resident_kb

from bench.figures import samples
from bench.services.bench_chaos import COMPONENTS, NAMESPACES, SERVICES, SETTINGS, TROUBLE, Chaos
from bench.services.harness import Object, followed, scavenger_job
from bench.services.judge import LEAST_SECONDS, Judge, slope, unexplained

SECONDS: Final = float(os.environ.get("SOAK_SECONDS", "1200"))
AT_ONCE: Final = int(os.environ.get("SOAK_JOBS", "1000"))
NODES: Final = int(os.environ.get("SOAK_NODES", "20"))
SPARED_SECONDS: Final = SECONDS / 3
"""At the end of the trouble, in which no service is killed or silent."""
PEACE_SECONDS: Final = 1800.0
"""In which all jobs have to complete, after the last fault."""
CONNECT_SECONDS: Final = 300.0
"""For the onlooker to see everything there is."""
QUIET_SECONDS: Final = 30.0
SETTLE_SECONDS: Final = 60.0
"""After the last job has completed, until nothing is written any more."""
GONE_SECONDS: Final = 180.0
"""After all jobs were deleted, until nothing is left of them."""
LOOK_SECONDS: Final = 5.0
WARM_SECONDS: Final = 120.0
"""Of the life of a process, in which its caches fill."""
MB_AN_HOUR: Final = 60.0
"""How much the memory of a service may grow within its lives, besides its caches: what so short a run tells from the
noise of a heap. One that keeps 10 KiB of each of three pods a second grows by 105 MiB an hour."""
MB_OF_A_POD: Final = 11 / 1024
"""In the heap of a service whose cache has it, with its share of its Job: 194 more pods were 2.2 MiB in the admitter,
and 10 KiB each in the prioritizer."""
LEFT: Final = ("scavengerjobs", "jobs", "pods", "services")
"""The budget of a namespace stays for a while: the next job that is protected there needs it again."""

MB: Final = 1024.0


class Soak(Chaos):
    """Users without end: they delete what is done, and submit as much again."""

    services: tuple[str, ...] = (*SERVICES, "admitter-2", "admitter-2")

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

    def spare_services(self) -> None:
        """From here on it happens to the control plane, to pods and to Jobs only."""
        self.services = ()

    def unfinished(self) -> list[str]:
        """The jobs that are not Completed."""
        return [f"{namespace}/{name}" for (namespace, name), done in self._there().items() if not done]

    def delete_all(self) -> None:
        """Users delete all that is done."""
        self._cluster.client.delete_all(namespaced("scavengerjobs", *key) for key in self._there())

    def held(self) -> list[str]:
        """The pods that our finalizer keeps."""
        pods = [pod for one in NAMESPACES for pod in self._cluster.client.get(namespaced("pods", one))["items"]]
        return [pod["metadata"]["name"] for pod in pods if names.FINALIZER in pod["metadata"].get("finalizers", ())]

    def left(self) -> list[str]:
        """What there is of jobs."""
        return [
            f"{kind} {namespace}/{one['metadata']['name']}"
            for kind, namespace in itertools.product(LEFT, NAMESPACES)
            for one in self._cluster.client.get(namespaced(kind, namespace))["items"]
        ]

    def _one(self, number: int) -> Object:
        amounts = {"cpu": self._draw("1", "2", "4"), "memory": "64Mi"}
        main = {"name": "main", "image": "none", "resources": {"requests": amounts, "limits": amounts}}
        runs = {RUN_SECONDS: str(self._draw(*range(5, 45)))}
        template = {
            "metadata": {"annotations": runs},
            "spec": {"terminationGracePeriodSeconds": self._draw(1, 5), "containers": [main]},
        }
        job = scavenger_job(number, "soak")
        job["spec"] = {"template": template, "parallelism": self._draw(1, 1, 1, 2, 4)}
        if self._draw(True, *[False] * 19):
            job["spec"] |= {"parallelism": 1, "array": {"tasks": self._draw(5, 20, 50)}}
        return job


class Onlooker:
    """Sees what the API shows, and has it judged.

    Attributes:
        judge: knows what is wrong.
        written: how many changes of ScavengerJobs, Jobs and pods there were.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._began = time.monotonic()
        self._synced, self._over = threading.Event(), threading.Event()
        self.judge = Judge()
        self.written = 0

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """It looks on for the length of a block; an error of it is raised at the end."""
        with ThreadPoolExecutor(1) as pool:
            found = pool.submit(lambda: asyncio.run(self._look_on()))
            try:
                if not self._synced.wait(CONNECT_SECONDS):
                    raise TimeoutError("the onlooker sees nothing")
                yield
            finally:
                self._over.set()
        found.result()

    @property
    def now(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self._began

    async def _look_on(self) -> None:
        async with AsyncExitStack() as stays:
            client = await stays.enter_async_context(
                await ApiClient.connect(kubeconfig=str(self._cluster.kubeconfig), user_agent="soak")
            )
            pods = Informer(client, PODS, label_selector=names.LABEL_JOB)
            await stays.enter_async_context(followed(pods, self._on_pod))
            await stays.enter_async_context(followed(Informer(client, SCAVENGERJOBS), self._on_job))
            await stays.enter_async_context(followed(Informer(client, JOBS), self._on_batch))
            self._synced.set()
            broke = -1.0  # what was before was not seen
            while not self._over.is_set():
                await asyncio.sleep(1)
                before, broke = broke, counted(WATCH_ERRORS, informer=pods.name)
                self.judge.follow(int(pods.version) if pods.version else None, self.now, broke=broke > before)
                for job in self.judge.doubts(self.now):
                    with suppress(*TROUBLE):  # it is asked again
                        self.judge.confirm(job, await asyncio.to_thread(self._list, job), self.now)
                self.judge.settle()
        if counted(HANDLER_ERRORS):
            raise RuntimeError("the judge cannot judge what it sees: the log says why")
        self.judge.judge_order()

    def _list(self, job: str) -> list[Pod]:
        namespace, _, name = job.partition("/")
        found = self._cluster.client.get(f"{namespaced('pods', namespace)}?labelSelector={names.LABEL_JOB}={name}")
        return [msgspec.convert(one, Pod) for one in found["items"]]

    def _on_batch(self, change: Change[Job]) -> None:
        self.written += 1
        self.judge.batch(change.obj, self.now)

    def _on_job(self, change: Change[ScavengerJob]) -> None:
        self.written += 1
        if change.new is not None:
            self.judge.job(change.old, change.new, self.now)

    def _on_pod(self, change: Change[Pod]) -> None:
        self.written += 1
        self.judge.pod(change.obj, self.now, gone=change.new is None)


def counted(counter: prometheus_client.Counter, **labels: str) -> float:
    """What a counter of this process says, over all further labels."""
    found = (one for metric in counter.collect() for one in metric.samples if one.name.endswith("_total"))
    return sum(one.value for one in found if labels.items() <= one.labels.items())


def by_label(exposition: str, name: str, label: str) -> Counter[str]:
    """What a service says of itself under this name, summed up by a label of it."""
    found = Counter[str]()
    for labels, value in samples(exposition, name):
        found[labels[label]] += round(value)
    return found


class Use:
    """What the processes of the cluster use, over the run; by process, and by life of it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._began = time.monotonic()
        # Whoever begins to lead fills what a standby does not have: that is a life of its own.
        self._memory: defaultdict[str, defaultdict[tuple[int, bool], list[tuple[float, float, int]]]] = defaultdict(
            lambda: defaultdict(list)
        )
        self._cpu: defaultdict[str, dict[int, tuple[float, float]]] = defaultdict(dict)
        self._requests: defaultdict[str, dict[int, Counter[str]]] = defaultdict(dict)

    def look(self) -> None:
        """Note it now; a process that is dead at this moment is left out."""
        now, processes = time.monotonic() - self._began, self._cluster.processes
        for name in processes.names():
            with suppress(*TROUBLE, StopIteration):
                if (identity := processes.running(name)) is None:
                    continue
                pid, used = identity.pid, cpu_seconds(identity.pid)
                before = used if now < LOOK_SECONDS else 0.0  # it did not begin with us
                self._cpu[name][pid] = self._cpu[name].get(pid, (before, 0.0))[0], used
                said = self._metrics(name) if name.startswith("service/") else ""
                leads = any(value for _, value in samples(said, "scavenger_leader"))
                pods = by_label(said, "scavenger_informer_objects", "informer")["pods"]
                self._memory[name][pid, leads].append((now, resident_kb(pid) / MB, pods))
                if said:
                    self._requests[name][pid] = by_label(said, "scavenger_api_requests_total", "method")

    def look_for(self, seconds: float) -> None:
        """Note it again and again for so long."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.look()
            time.sleep(min(LOOK_SECONDS, left))

    def _metrics(self, name: str) -> str:
        """What a service says of itself."""
        url = f"http://127.0.0.1:{self._cluster.state.service_ports[name]}/metrics"
        with urllib.request.urlopen(url, timeout=2) as response:
            return str(response.read(), "utf-8")

    def requests(self) -> dict[str, Counter[str]]:
        """By service and method how many were sent; what a process sent in its last seconds is missing."""
        return {name: sum(lives.values(), Counter[str]()) for name, lives in sorted(self._requests.items())}

    def cores(self) -> dict[str, float]:
        """By process how many it used, on average."""
        seconds = time.monotonic() - self._began
        used = {name: sum(last - first for first, last in lives.values()) for name, lives in self._cpu.items()}
        return {name: found / seconds for name, found in sorted(used.items())}

    def memory(self) -> Iterator[tuple[str, str, float]]:
        """By process its name, what it held, and by how many MiB an hour it grew within its lives, besides what its
        caches have, in the second half of the run and once it was warm; NaN where no life of it was warm for
        `LEAST_SECONDS`."""
        half = (time.monotonic() - self._began) / 2
        for name, lives in sorted(self._memory.items()):
            held = [mb for seen in lives.values() for _, mb, _ in seen]
            first, last = next(iter(lives.values())), list(lives.values())[-1]
            warm = [
                [
                    (at / 3600, mb)
                    for at, mb in unexplained(seen, MB_OF_A_POD)
                    if at >= half and at - seen[0][0] >= WARM_SECONDS
                ]
                for seen in lives.values()
            ]
            text = f"{first[0][1]:.0f} MiB at first, at most {max(held):.0f}, {last[-1][1]:.0f} at last"
            ranges = [(seen[0], seen[-1]) for seen in warm if len(seen) > 1]
            spans = ", ".join(f"{b[1]:.1f} to {e[1]:.1f} in {3600 * (e[0] - b[0]):.0f} s" for b, e in ranges)
            yield name, f"{text}; {len(lives)} lives; besides pods, warm: {spans or 'none'}", slope(warm)


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
    for words, history in wrong.items():
        print(f"WRONG: {words}", *history, sep="\n    ")
    print(f"{len(wrong)} wrong")
    return 1 if wrong else 0


def _soak(cluster: Cluster) -> dict[str, list[str]]:
    """What was wrong, each with the history of its object."""
    soak, onlooker, use = Soak(cluster), Onlooker(cluster), Use(cluster)
    wrong: list[str] = []
    with onlooker.at_work():
        began, said = time.monotonic(), 0.0
        with soak.at_work(soak.submit, soak.come_and_go, soak.disturb):
            while (passed := time.monotonic() - began) < SECONDS:
                if passed >= SECONDS - SPARED_SECONDS:
                    soak.spare_services()
                use.look()
                if passed >= said:
                    said = passed + 60
                    counts = ", ".join(f"{count} {what}" for what, count in onlooker.judge.seen.items())
                    print(f"{passed:.0f} s: {soak.faults.total()} faults, {counts}", flush=True)
                time.sleep(LOOK_SECONDS)
        _used(use)
        for name in COMPONENTS:
            cluster.component_start(name)
        cluster.kubectl("delete", "pods", "--all", "--namespace", "default", "--wait=false")
        wrong += _in_peace(soak, onlooker, use)
        wrong += _grown(use)
    print("seen:", ", ".join(f"{count} {what}" for what, count in onlooker.judge.seen.items()))
    print(f"{onlooker.written} changes seen; faults:", dict(sorted(soak.faults.items())))
    for name in (*stack.existing_services(), "admitter-2"):
        ends = Counter(re.findall(r"supervisor: ended (.*), starting again", cluster.service_logs(name)))
        print(f"{name} ended, and was started again: {dict(ends)}")
    return {**onlooker.judge.wrong, **{words: [] for words in wrong}}


def _grown(use: Use) -> list[str]:
    """Print what processes held. Returns the services that grew."""
    wrong: list[str] = []
    for name, held, grew in use.memory():
        none = f"no verdict about memory, as no life was warm for {LEAST_SECONDS:.0f} s"
        print(f"{name}: {held}: {none if math.isnan(grew) else f'{grew:.0f} MiB an hour'}")
        if name.startswith("service/") and grew > MB_AN_HOUR:
            wrong.append(f"{name} grows by {grew:.0f} MiB an hour: {held}")
    return wrong


def _used(use: Use) -> None:
    """Print what was used in the trouble."""
    for name, found in use.requests().items():
        rates = ", ".join(f"{method} {count / SECONDS:.1f}" for method, count in sorted(found.items()))
        print(f"{name}: {found.total() / SECONDS:.1f} requests a second: {rates}")
    cores = use.cores()
    print(f"{sum(cores.values()):.2f} cores:", ", ".join(f"{name} {used:.2f}" for name, used in cores.items()))


def _in_peace(soak: Soak, onlooker: Onlooker, use: Use) -> list[str]:
    """What is wrong once nothing disturbs anybody any more."""
    began, left = time.monotonic(), ["everything"]
    while left and time.monotonic() < began + PEACE_SECONDS:
        use.look_for(LOOK_SECONDS)
        with suppress(*TROUBLE):
            left = soak.unfinished()
    print(f"{len(left)} jobs left after {time.monotonic() - began:.0f} s", flush=True)
    use.look_for(SETTLE_SECONDS)
    before, asked = onlooker.written, use.requests()
    use.look_for(QUIET_SECONDS)
    use.look()
    wrong = [f"{name} has not completed" for name in left]
    if (more := onlooker.written - before) and not left:
        wrong.append(f"{more} changes in {QUIET_SECONDS:.0f} s in which nothing happened")
    for name, found in use.requests().items():
        sent = found - asked[name]
        print(f"{name} in quiet, in {QUIET_SECONDS:.0f} s: {dict(sent)}")
        if sent.total() >= QUIET_SECONDS and not left:
            wrong.append(f"{name} sends {sent.total()} requests in {QUIET_SECONDS:.0f} s in which nothing happened")
    wrong += [f"{name} keeps the finalizer" for name in soak.held()]
    soak.delete_all()
    began = time.monotonic()
    while (left := soak.left()) and time.monotonic() < began + GONE_SECONDS:
        time.sleep(2)
    print(f"{len(left)} objects left {time.monotonic() - began:.0f} s after all jobs were deleted", flush=True)
    return wrong + [f"{one} is left" for one in left]


if __name__ == "__main__":
    sys.exit(main())
