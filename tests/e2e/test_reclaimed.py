"""Jobs on what others requested and do not use: on a real kubelet, with real figures and all services.

One node whose room is requested by an ordinary Deployment that idles. The kernel, the kubelet and metrics-server are
what is tested as much as the services; the regulator's period is 5 seconds here, so that a minute is twelve of them.
"""

from __future__ import annotations

import sys
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from scavenger_api.levels_text import CROWDED_NODES
from scavenger_cluster import Cluster, stack
from scavenger_testing.cluster_names import cluster_name

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.figures import yielded_after
from bench.reclaimed import bench_memory
from bench.reclaimed.groups import PodGroup, watch
from bench.reclaimed.harness import QUICK, Ordinary, Place, up, whole_node

pytestmark = [pytest.mark.real, pytest.mark.cpu, pytest.mark.timeout(600), pytest.mark.long]

SHORT = "sum(range(60_000_000))"
"""A job of a few CPU seconds that ends by itself."""
BURST_SECONDS = 20.0
BURN_SECONDS = 15.0
BURSTS = 3
"""Tried, where programs outside of the cluster leave so little CPU that one is over before both looks."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One real node with metrics."""
    name = cluster_name("e2e-reclaimed")
    try:
        yield up(name)
    finally:
        Cluster(name).down()


@pytest.fixture
def place(cluster: Cluster) -> Iterator[Place]:
    """A fresh namespace, and a regulator that has not seen the node before."""
    with Place(cluster, f"reclaimed-{uuid.uuid4().hex[:8]}") as found:
        yield found


@contextmanager
def offers(place: Place) -> Iterator[list[dict[str, int]]]:
    """What the node offers, read over and over for the length of a block."""
    seen: list[dict[str, int]] = []
    over = threading.Event()

    def read() -> None:
        while not over.wait(0.3):
            seen.append(place.offered())

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield seen
    finally:
        over.set()
        reader.join()


def share_of_ordinary(place: Place, web: Ordinary, groups: Sequence[PodGroup]) -> float:
    """What an ordinary pod gets of the CPU that the pods of the node get while all want everything.

    By the kernel's books, not by what was computed: what else the machine does takes CPU, caches and clock from all of
    them alike. Both looks are within the burst, and some CPU time apart rather than some time. `make bench
    ONLY=reclaimed` says what it is in throughput.
    """

    def used() -> tuple[float, float]:
        return web.group().cpu_seconds(), sum(group.cpu_seconds() for group in groups)

    def more(since: float, seconds: float, burning: Future[float]) -> bool:
        return used()[0] > since + seconds or burning.done()

    for _ in range(BURSTS):
        with ThreadPoolExecutor(1) as pool:
            idle = used()[0]
            burning = pool.submit(web.burn, BURN_SECONDS)
            place.wait("it burns", partial(more, idle, 0.5, burning), 60)
            before = used()
            place.wait("two more CPU-seconds", partial(more, before[0], 2, burning), 60)
            after = used()
            within = not burning.done()
        if within:
            ordinary, jobs = (now - then for now, then in zip(after, before, strict=True))
            return ordinary / (ordinary + jobs)
    raise AssertionError(f"in {BURSTS} bursts of {BURN_SECONDS} s there was no CPU for it, by whomever it was taken")


def assert_ordinary_work_first(place: Place, web: Ordinary, groups: Sequence[PodGroup]) -> None:
    """Two of six looks show ordinary work as if the jobs were not there; with equal weights none ever does.

    Programs outside of the cluster may keep the web server from a CPU for a moment, and the jobs take what it cannot.
    """
    shares: list[float] = []
    while sum(share >= 0.9 for share in shares) < 2:
        assert len(shares) < 6, f"{shares}: ordinary work goes on as if the jobs were not there"
        shares.append(share_of_ordinary(place, web, groups))


def test_jobs_run_under_an_idle_deployment_and_give_way_when_it_works(place: Place) -> None:
    web = Ordinary(place, "web", whole_node())
    place.wait_offer(cpu=1200, memory=128)
    place.submit("short", cpu=400, memory=64, code=SHORT)
    place.submit("long", cpu=800, memory=64)
    place.wait_phase("short", "Completed")
    place.wait("long runs", lambda: place.running(["long"]))
    lives, groups = place.lives(["long"]), place.groups(["long"])

    assert_ordinary_work_first(place, web, groups)

    # A burst that every figure shows: the job gives way at once, uses next to nothing, and nobody interrupts it.
    with ThreadPoolExecutor(2) as readers:
        watches = [readers.submit(watch, of, BURST_SECONDS, 0.02) for of in ([web.group()], groups)]
        web.burn(BURST_SECONDS)
        demand, samples = (one.result() for one in watches)
    began = next(at for at, used in demand if used > demand[0][1] + 0.05)
    assert yielded_after(samples, began, cores=0.1, span=0.1) < 2
    later = [(at, used) for at, used in samples if began + 2 <= at <= began + BURST_SECONDS - 1]
    assert (later[-1][1] - later[0][1]) / (later[-1][0] - later[0][0]) < 0.1
    before = groups[0].cpu_seconds()
    place.wait("it goes on", lambda: groups[0].cpu_seconds() > before + 1, 60)
    time.sleep(10)  # the burst has reached the metrics by now, and the regulator
    assert place.lives(["long"]) == lives
    assert place.phase("long") == "Running"
    assert place.interruptions("long") == 0
    assert web.untouched()


def test_jobs_leave_before_an_ordinary_pod_runs_out_of_memory(place: Place) -> None:
    figures = {figure["name"]: figure["value"] for figure in bench_memory.memory_figures(place, rounds=1)}
    assert figures["reclaimed.memory_rounds"] == 1, "the ordinary pod was killed or evicted"


def test_nobody_goes_because_figures_are_missing(place: Place) -> None:
    """A load that flaps, metrics that stop, a regulator that is killed: figures stay within bounds, jobs stay in place,
    and nothing new comes until there are figures again."""
    jobs = ["one", "two"]
    web = Ordinary(place, "web", whole_node())
    place.wait_offer(cpu=800, memory=256)
    for job in jobs:
        place.submit(job, cpu=200, memory=64)
    place.wait("both run", lambda: place.running(jobs))
    lives, bounds = place.lives(jobs), place.allocatable()
    with offers(place) as seen:
        for _ in range(5):
            web.ask("/burn", seconds=1, processes=1)
            time.sleep(1)
        place.cluster.component_stop("metrics-server")
        try:
            place.wait("the regulator says so", lambda: place.published("state") == "Blind", 60)
            place.submit("late", cpu=100, memory=64)
            place.cluster.service_kill("regulator")
            stack.start(place.cluster, ["regulator"], QUICK)
            time.sleep(15)  # three periods
            assert place.phase("late") == "Waiting"
            assert place.lives(jobs) == lives
            place.wait("many looks at the offer", lambda: len(seen) > 60)
        finally:
            place.cluster.component_start("metrics-server")
        place.wait_phase("late", "Running", timeout=300)
    assert place.lives(jobs) == lives
    for resource, most in bounds.items():
        assert all(0 <= offered.get(resource, 0) <= most for offered in seen), (resource, most, seen)
    assert web.untouched()


def test_a_kubelet_that_restarts_keeps_its_jobs(place: Place) -> None:
    """A kubelet that starts asks of every pod anew whether it fits, the running ones too, by what the node shows then.

    What fits no more it ends (phase Failed, OutOfscavenger.dev/reclaimed-cpu). So a node that has less to offer than is
    placed there is to be named crowded, and to go on showing what is placed.
    """
    web = Ordinary(place, "web", whole_node())
    place.wait_offer(cpu=1000, memory=128)
    place.submit("one", cpu=1000, memory=64)
    place.wait("it runs", lambda: place.running(["one"]))
    lives = place.lives(["one"])
    place.wait("it is crowded", lambda: web.burn(4) and place.published(CROWDED_NODES), 60)
    assert place.offered()["cpu"] >= 1000
    place.cluster.component_kill("node1/kubelet")
    place.cluster.node_start("node1")
    time.sleep(10)  # a refusal takes five seconds to be seen
    assert place.lives(["one"]) == lives
    assert web.untouched()
