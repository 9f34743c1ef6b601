"""The plugin beside DefaultPreemption: scheduling throughput, how long a preemptor waits, and what is lost for it.

Both schedulers work in turn on the same control plane and the same 1,000 fake nodes, A B B A, so that only their ratios
mean something. DefaultPreemption gets what the project gives to an unmodified scheduler: a PodDisruptionBudget over the
non-preemptible jobs.
"""

from __future__ import annotations

import http.client
import json
import math
import os
import random
import ssl
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from scavenger_api import names
from scavenger_cluster import Cluster
from scavenger_cluster.waiting import wait_for

from bench.scheduler import harness

NODE_COUNT: Final = int(os.environ.get("BENCH_NODES", "1000"))
THROUGHPUT_PODS: Final = int(os.environ.get("BENCH_PODS", "1200"))
THROUGHPUT_TURNS: Final = 6
JOBS_PER_NODE: Final = 2
PREEMPTORS: Final = int(os.environ.get("BENCH_PREEMPTORS", "200"))
PREEMPTION_TURNS: Final = 4
PER_SECOND: Final = 8
PREEMPTIBLE_PERCENT: Final = 33
MAX_RISK: Final = 3600
POOL: Final = "bench"
BUDGET: Final = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/bench"

Figure = dict[str, Any]


class Turn(NamedTuple):
    """What one scheduler did for the preemptors on a full cluster."""

    waits: list[float]
    """Seconds from creation to binding, of each preemptor."""
    lost: float
    """CPU-seconds that were at risk in the victims."""
    victims: int
    decision: float
    """Seconds a decision took, on the average: what is left when nothing else on the machine counts."""


def run() -> list[Figure]:
    """The figures; brings up a cluster of its own and takes it down."""
    if PREEMPTORS > NODE_COUNT * JOBS_PER_NODE * PREEMPTIBLE_PERCENT / 100:
        raise ValueError(f"BENCH_PREEMPTORS={PREEMPTORS} is more than there are preemptible jobs on {NODE_COUNT} nodes")
    cluster = Cluster("bench-sched", report=lambda line: None)
    try:
        cluster.up("fake:1", fake_cpu="0")
        harness.install_base(cluster)
        nodes = [f"node-{i:04d}" for i in range(NODE_COUNT)]
        cluster.client.create_all(harness.NODES, (harness.node(name, POOL, "4") for name in nodes))
        wait_for("the nodes", lambda: _untainted(cluster), timeout=120)
        return [*_throughput(cluster), *_preemption(cluster, nodes)]
    finally:
        cluster.down()


def _untainted(cluster: Cluster) -> bool:
    items = cluster.client.get(f"{harness.NODES}?labelSelector=pool%3D{POOL}")["items"]
    return not any(item["spec"].get("taints") for item in items)


def _schedulers(cluster: Cluster) -> dict[str, Callable[[], None]]:
    return {
        "stock": lambda: cluster.use_scheduler("stock"),
        "plugin": lambda: cluster.use_scheduler("plugin"),
    }


def _in_turn(
    cluster: Cluster, measure: Callable[[Cluster, Callable[[], None], int], Any], turns: int
) -> dict[str, list[Any]]:
    """Measures the schedulers in turn, A B B A and so on, so that what drifts falls on both.

    The number of the turn goes into the names of the pods: what a fake kubelet still writes about a pod of the last
    turn must not hit one of this.
    """
    starts = _schedulers(cluster)
    measured: dict[str, list[Any]] = {name: [] for name in starts}
    for turn in range(turns):
        name = ("stock", "plugin", "plugin", "stock")[turn % 4]
        began = time.monotonic()
        measured[name].append(measure(cluster, starts[name], turn))
        took = f"turn {turn + 1} of {turns} took {time.monotonic() - began:.0f} s"
        print(f"  {name}, {took}", file=sys.stderr, flush=True)
    return measured


# --- throughput ---


def _throughput(cluster: Cluster) -> list[Figure]:
    """The ratio is the median over pairs of neighbouring turns: on a shared machine one turn alone says little.

    Binding is all that is measured, so nobody else works on the pods: neither their kubelets nor any controller.
    """
    idle = ("kcm", "kwok")
    for component in idle:
        cluster.component_stop(component)
    turns = _in_turn(cluster, _pods_per_second, THROUGHPUT_TURNS)
    for component in reversed(idle):  # the kubelets first: who watches them may not find them silent
        cluster.component_start(component)
    wait_for("the nodes", lambda: _untainted(cluster), timeout=120)
    rates = {name: [rate for rate, _ in values] for name, values in turns.items()}
    costs = {name: [cost for _, cost in values] for name, values in turns.items()}
    return [
        *(
            {"name": f"scheduler.throughput.{name}", "value": statistics.median(values), "unit": "pods/s", "goal": None}
            for name, values in rates.items()
        ),
        {
            "name": "scheduler.throughput_ratio",
            "value": _median_ratio(rates["plugin"], rates["stock"]),
            "unit": "ratio",
            "goal": ">= 0.95",
        },
        {
            "name": "scheduler.cpu_per_pod_ratio",
            "value": _median_ratio(costs["plugin"], costs["stock"]),
            "unit": "ratio",
            "goal": None,
        },
    ]


def _median_ratio(plugin: list[float], stock: list[float]) -> float:
    return statistics.median(ours / theirs for ours, theirs in zip(plugin, stock, strict=True))


def _pods_per_second(cluster: Cluster, start: Callable[[], None], turn: int) -> tuple[float, float]:
    """How fast a queue of waiting pods is bound, from the first to the last, and the scheduler's CPU time for each."""
    cluster.component_stop("scheduler")
    pods = harness.Pods(POOL)
    cluster.client.create_all(harness.PODS, (pods.ordinary(f"p-{turn}-{i}", "1") for i in range(THROUGHPUT_PODS)))
    start()
    first = last = 0.0
    done = already = 0
    deadline = time.monotonic() + 180
    while done < THROUGHPUT_PODS:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{done} of {THROUGHPUT_PODS} pods bound after 180 s")
        figures = harness.figures(cluster, "scheduler_schedule_attempts_total")
        done = int(sum(v for k, v in figures.items() if 'result="scheduled"' in k))
        last = time.monotonic()
        if done and not first:
            first, already = last, done
        time.sleep(0.1)  # a scheduler that is asked all the time has less time to schedule
    cpu = harness.figures(cluster, "process_cpu_seconds_total")["process_cpu_seconds_total"]
    harness.clean(cluster, POOL, ())
    return (THROUGHPUT_PODS - already) / (last - first), cpu / THROUGHPUT_PODS


# --- preemption ---


def _preemption(cluster: Cluster, nodes: list[str]) -> list[Figure]:
    cluster.client.apply(
        BUDGET,
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "bench", "namespace": "default"},
            "spec": {
                "minAvailable": 1_000_000,
                "selector": {"matchLabels": {names.LABEL_PREEMPTION_CLASS: names.NON_PREEMPTIBLE}},
            },
        },
    )
    rounds = _in_turn(cluster, lambda cluster, start, turn: _preempt(cluster, nodes, start, turn), PREEMPTION_TURNS)
    figures: list[Figure] = []
    p99, lost = {}, {}
    for name, results in rounds.items():
        waits = [wait for turn in results for wait in turn.waits]
        # Of the better turn: what else the machine has to do only ever makes the slowest pods slower.
        p99[name] = min(_percentile(turn.waits, 99) for turn in results)
        lost[name] = sum(turn.lost for turn in results)
        victims = sum(turn.victims for turn in results)
        decision = 1000 * min(turn.decision for turn in results)
        beginning = f"scheduler.preempt.{name}"
        figures += [
            {"name": f"{beginning}.p50", "value": _percentile(waits, 50), "unit": "s", "goal": None},
            {"name": f"{beginning}.p99", "value": p99[name], "unit": "s", "goal": None},
            {"name": f"{beginning}.decision", "value": decision, "unit": "ms", "goal": None},
            {
                "name": f"{beginning}.lost",
                "value": lost[name] / len(results),
                "unit": "CPU-s",
                "goal": None,
            },
            {
                "name": f"{beginning}.victims_over_minimum",
                "value": victims / (PREEMPTORS * len(results)),
                "unit": "ratio",
                "goal": "<= 1.0",
            },
        ]
    return [
        *figures,
        {
            "name": "scheduler.preempt.p99_ratio",
            "value": p99["plugin"] / p99["stock"],
            "unit": "ratio",
            "goal": "<= 1.1",
        },
        {
            "name": "scheduler.preempt.lost_ratio",
            "value": lost["plugin"] / lost["stock"],
            "unit": "ratio",
            "goal": None,
        },
    ]


def _preempt(cluster: Cluster, nodes: list[str], start: Callable[[], None], turn: int) -> Turn:
    """Lets the preemptors loose on a full cluster, and cleans it afterwards."""
    cluster.component_stop("scheduler")
    risks = _fill(cluster, nodes, turn)
    start()
    webs = [harness.Pods(POOL).ordinary(f"web-{turn}-{i:03d}", "2") for i in range(PREEMPTORS)]
    with _bindings(cluster) as bound:
        created = {}
        began = time.monotonic()
        for i, web in enumerate(webs):
            time.sleep(max(0.0, began + i / PER_SECOND - time.monotonic()))
            created[web["metadata"]["name"]] = time.monotonic()
            cluster.client.request("POST", harness.PODS, web)
        wait_for("all preemptors to be bound", lambda: created.keys() <= bound.keys(), timeout=120)
    gone = risks.keys() - harness.living(cluster, POOL)
    waits = [bound[name] - created[name] for name in created]
    decision = _decision_seconds(cluster)
    harness.clean(cluster, POOL, ())
    return Turn(waits, sum(risks[name] for name in gone), len(gone), decision)


def _decision_seconds(cluster: Cluster) -> float:
    """How long PostFilter took on the average since the scheduler was started."""
    metric = "scheduler_framework_extension_point_duration_seconds"
    found = harness.figures(cluster, metric)

    def total(what: str) -> float:
        return sum(v for k, v in found.items() if k.startswith(f"{metric}_{what}{{") and '"PostFilter"' in k)

    return total("sum") / total("count")


def _fill(cluster: Cluster, nodes: list[str], turn: int) -> dict[str, int]:
    """Jobs on every node, the least at risk of them preemptible, as the prioritizer would have it."""
    pods, figures = harness.Pods(POOL), random.Random(7)
    jobs = {f"{node}-{turn}{i}": figures.randrange(1, MAX_RISK) for node in nodes for i in range(JOBS_PER_NODE)}
    ranked = sorted(jobs, key=lambda name: jobs[name])
    preemptible = set(ranked[: math.ceil(len(ranked) * PREEMPTIBLE_PERCENT / 100)])
    bodies = [
        pods.scavenger(name, name.rpartition("-")[0], risk, preemptible=name in preemptible, cpu="2")
        for name, risk in jobs.items()
    ]
    figures.shuffle(bodies)  # the youngest is not the last node's
    cluster.client.create_all(harness.PODS, bodies)
    harness.wait_until_running(cluster, POOL, jobs, timeout=300, interval=1)
    return jobs


@contextmanager
def _bindings(cluster: Cluster) -> Iterator[dict[str, float]]:
    """When each pod got its node, by this machine's clock, as a watch shows it."""
    pki = cluster.layout.pki
    context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
    context.load_cert_chain(str(pki / "admin.crt"), str(pki / "admin.key"))
    host, port = cluster.state.server.removeprefix("https://").split(":")
    connection = http.client.HTTPSConnection(host, int(port), context=context)
    version = cluster.client.get(f"{harness.PODS}?limit=1")["metadata"]["resourceVersion"]
    ordinary = "fieldSelector=spec.schedulerName%3Ddefault-scheduler"
    connection.request("GET", f"{harness.PODS}?watch=1&resourceVersion={version}&{ordinary}")
    response = connection.getresponse()
    bound: dict[str, float] = {}

    def follow() -> None:
        try:
            for line in response:
                now = time.monotonic()
                pod = json.loads(line)["object"]
                if pod.get("spec", {}).get("nodeName"):
                    bound.setdefault(pod["metadata"]["name"], now)
        except (OSError, ValueError, AttributeError, http.client.HTTPException):
            return  # the connection was closed: all have been seen

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield bound
    finally:
        if connection.sock is not None:
            connection.sock.shutdown(2)
        thread.join(timeout=5)
        connection.close()


def _percentile(values: list[float], percent: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


if __name__ == "__main__":
    print(json.dumps(run(), indent=2))
