"""How long a preemptor waits, and what is lost for it: the plugin beside DefaultPreemption.

Both work in turn on the same control plane and the same 1,000 full fake nodes. DefaultPreemption gets what the project
gives to an unmodified scheduler: a PodDisruptionBudget over the non-preemptible jobs.
"""

from __future__ import annotations

import http.client
import json
import math
import os
import random
import ssl
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from scavenger_api import names
from scavenger_cluster import Cluster
from scavenger_cluster.scheduler import PLUGIN, STOCK
from scavenger_cluster.waiting import wait_for

from bench.figures import percentile
from bench.scheduler import harness, turns

NODE_COUNT: Final = int(os.environ.get("BENCH_NODES", "1000"))
JOBS_PER_NODE: Final = 2
PREEMPTORS: Final = int(os.environ.get("BENCH_PREEMPTORS", "200"))
PAIRS: Final = int(os.environ.get("BENCH_PAIRS", "10"))
PER_SECOND: Final = 8
PREEMPTIBLE_PERCENT: Final = 33
MAX_RISK: Final = 3600
POOL: Final = turns.POOL
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
    with turns.nodes("bench-preempt", NODE_COUNT) as (cluster, nodes):
        cluster.client.apply(BUDGET, _budget())
        rounds = turns.in_turn(cluster, lambda cluster, start, turn: _preempt(cluster, nodes, start, turn), PAIRS)
    figures: list[Figure] = []
    for kind, results in rounds.items():
        waits = [wait for turn in results for wait in turn.waits]
        victims = sum(turn.victims for turn in results)
        beginning = f"scheduler.preempt.{kind}"
        figures += [
            {"name": f"{beginning}.p50", "value": percentile(waits, 50), "unit": "s", "goal": None},
            {"name": f"{beginning}.p99", "value": percentile(waits, 99), "unit": "s", "goal": None},
            {
                "name": f"{beginning}.decision",
                "value": 1000 * min(turn.decision for turn in results),
                "unit": "ms",
                "goal": None,
            },
            {
                "name": f"{beginning}.lost",
                "value": statistics.mean(turn.lost for turn in results),
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
    p99 = {kind: [percentile(turn.waits, 99) for turn in results] for kind, results in rounds.items()}
    lost = {kind: [turn.lost for turn in results] for kind, results in rounds.items()}
    return [
        *figures,
        *turns.ratio("scheduler.preempt.p99_ratio", p99[PLUGIN], p99[STOCK], "<= 1.1"),
        *turns.ratio("scheduler.preempt.lost_ratio", lost[PLUGIN], lost[STOCK], None),
    ]


def _budget() -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "bench", "namespace": "default"},
        "spec": {
            "minAvailable": 1_000_000,
            "selector": {"matchLabels": {names.LABEL_PREEMPTION_CLASS: names.NON_PREEMPTIBLE}},
        },
    }


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


if __name__ == "__main__":
    print(json.dumps(run(), indent=2))
