"""The scheduler plugin on a real control plane: who has to go, when, and for whom."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any

import pytest
from scavenger_api import names

if TYPE_CHECKING:
    from tests.integration.scheduler.conftest import Pool
else:
    Pool = Any

STOP_SECONDS = "kwok.scavenger.dev/stop-seconds"
pytestmark = pytest.mark.timeout(600)


def test_the_least_at_risk_of_a_hundred_nodes_go_fifty_of_fifty(pool: Pool) -> None:
    nodes = pool.with_nodes(100)
    risks = random.Random(7).sample(range(1, 100_000), 100)
    pods = pool.pods
    cheap = [pods.scavenger(f"{node}-y", node, risk) for node, risk in zip(nodes, risks, strict=True)]
    kept = [pods.scavenger(f"{node}-n", node, 0, preemptible=False) for node in nodes]
    pool.run(*cheap, *kept)
    least = sorted(zip(risks, cheap, strict=True), key=lambda pair: pair[0])[:50]

    webs = [f"{pool.name}-web-{number}" for number in range(50)]
    for web in webs[:5]:  # one at a time: in order
        pool.submit(pods.ordinary(web))
        pool.wait_running(web)
    gone = {pod["metadata"]["name"] for pod in cheap} - pool.living()
    assert gone == {pod["metadata"]["name"] for _, pod in least[:5]}

    pool.submit(*(pods.ordinary(web) for web in webs[5:]))  # all at once
    pool.wait_running(*webs)
    gone = {pod["metadata"]["name"] for pod in [*cheap, *kept]} - pool.living()
    assert gone == {pod["metadata"]["name"] for _, pod in least}


@pytest.mark.long
def test_an_interactive_pod_takes_a_non_preemptible_job_at_once_and_an_ordinary_one_waits(pool: Pool) -> None:
    nodes = pool.with_nodes(2, cpu="1")
    pool.pods.grace = 2
    jobs = [
        pool.pods.scavenger(f"{node}-n", node, risk, preemptible=False)
        for node, risk in zip(nodes, (10, 20), strict=True)
    ]
    pool.run(*jobs)
    pool.client.apply(
        f"/apis/policy/v1/namespaces/default/poddisruptionbudgets/{pool.name}",
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": pool.name},
            "spec": {
                "minAvailable": 1_000_000,
                "selector": {"matchLabels": {names.LABEL_PREEMPTION_CLASS: names.NON_PREEMPTIBLE}},
            },
        },
    )
    try:
        ordinary, interactive = f"{pool.name}-ordinary", f"{pool.name}-interactive"
        began = time.monotonic()
        pool.submit(pool.pods.ordinary(ordinary))
        pool.wait_unschedulable(ordinary)
        pool.submit(pool.pods.interactive(interactive))
        pool.wait_running(interactive)
        assert time.monotonic() - began < pool.wait_seconds, "it did not wait"
        assert pool.living() == {f"{nodes[1]}-n", ordinary, interactive}

        # Far below the five minutes after which the scheduler looks again by itself.
        timeout = pool.wait_seconds + 60
        pool.until("the ordinary pod's victim to go", lambda: f"{nodes[1]}-n" not in pool.living(), timeout)
        assert time.monotonic() - began >= pool.wait_seconds
        pool.wait_running(ordinary)
    finally:
        pool.client.delete(f"/apis/policy/v1/namespaces/default/poddisruptionbudgets/{pool.name}")


@pytest.mark.parametrize(("single", "goes"), [(110, "single"), (792, "single"), (801, "gang")])
def test_a_gang_of_eight_counts_as_a_whole_and_once(pool: Pool, single: int, goes: str) -> None:
    nodes = pool.with_nodes(16, cpu="1")
    gang = pool.pods.gang(f"{pool.name}-gang", nodes[:8], 800)
    singles = [pool.pods.scavenger(f"{pool.name}-single-{i}", nodes[8 + i], single + i) for i in range(8)]
    pool.run(*gang, *singles)
    before = pool.living()
    pool.submit(pool.pods.ordinary(f"{pool.name}-web"))
    pool.wait_running(f"{pool.name}-web")
    (gone,) = before - pool.living()
    assert gone == f"{pool.name}-single-0" if goes == "single" else gone.startswith(f"{pool.name}-gang-")


def test_while_the_figures_of_a_gang_are_being_written_the_largest_counts(pool: Pool) -> None:
    nodes = pool.with_nodes(4, cpu="1")
    gang = pool.pods.gang(f"{pool.name}-gang", nodes[:3], 10)
    gang[1]["metadata"]["annotations"][names.ANNOTATION_RUNNING_PRIORITY] = "40"
    del gang[2]["metadata"]["annotations"][names.ANNOTATION_RUNNING_PRIORITY]
    single = pool.pods.scavenger(f"{pool.name}-single", nodes[3], 30)
    pool.run(*gang, single)
    pool.submit(pool.pods.ordinary(f"{pool.name}-web"))
    pool.wait_running(f"{pool.name}-web")
    assert pool.living() == {*(pod["metadata"]["name"] for pod in gang), f"{pool.name}-web"}


def test_pods_of_a_broken_gang_go_before_another_job_does(pool: Pool) -> None:
    nodes = pool.with_nodes(9, cpu="1")
    gang = pool.pods.gang(f"{pool.name}-gang", nodes[:8], 800)
    for pod in gang:
        pod["metadata"]["annotations"][STOP_SECONDS] = "0"
        pod["metadata"]["finalizers"] = [names.FINALIZER]
    pool.pods.grace = 5
    pool.run(*gang, pool.pods.scavenger(f"{pool.name}-single", nodes[8], 810))
    webs = [f"{pool.name}-web-{i}" for i in range(8)]
    pool.submit(*(pool.pods.ordinary(web) for web in webs))
    pool.wait_running(*webs)
    assert f"{pool.name}-single" in pool.living()
