"""Two preemptors, slow victims, lost nodes, missing labels: nobody goes for nothing, and nobody waits for ever."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from scavenger_api import names
from scavenger_cluster import Cluster
from scavenger_cluster.ports import any_free_port

from bench.scheduler import harness

if TYPE_CHECKING:
    from tests.integration.scheduler.conftest import Pool
else:
    Pool = Any

STOP_SECONDS = "kwok.scavenger.dev/stop-seconds"
pytestmark = [pytest.mark.timeout(600), pytest.mark.long]


def full(pool: Pool, count: int) -> list[str]:
    """Nodes of one core, a job on each: the further down the list, the more it would lose."""
    nodes = pool.with_nodes(count, cpu="1")
    jobs = [f"{node}-y" for node in nodes]
    bodies = [pool.pods.scavenger(job, n, 10 * i) for i, (job, n) in enumerate(zip(jobs, nodes, strict=True))]
    for body in bodies:
        body["metadata"]["annotations"][STOP_SECONDS] = "3"
    pool.run(*bodies)
    return jobs


def gone(pool: Pool, jobs: list[str]) -> set[str]:
    return set(jobs) - pool.living()


def test_two_preemptors_at_once_take_one_victim_each(pool: Pool) -> None:
    pool.pods.grace = 4
    jobs = full(pool, 6)
    webs = [f"{pool.name}-web-{i}" for i in range(2)]
    pool.submit(*(pool.pods.ordinary(web) for web in webs))
    pool.wait_running(*webs)
    assert gone(pool, jobs) == set(jobs[:2])


def test_a_victim_slow_to_go_is_waited_for_whatever_happens_meanwhile(pool: Pool) -> None:
    pool.pods.grace = 8
    jobs = full(pool, 4)
    # The finalizer keeps what is left of it: its status says when it ended.
    pool.patch(jobs[0], {"metadata": {"annotations": {STOP_SECONDS: "7"}, "finalizers": [names.FINALIZER]}})
    web = f"{pool.name}-web"
    pool.submit(pool.pods.ordinary(web))
    pool.until("the victim to be chosen", lambda: gone(pool, jobs))
    # Reasons to look again, each of which might tempt it to take another one.
    pool.patch(jobs[0], {"metadata": {"labels": {names.LABEL_PREEMPTION_CLASS: names.NON_PREEMPTIBLE}}})
    pool.patch(jobs[3], {"metadata": {"annotations": {names.ANNOTATION_RUNNING_PRIORITY: "0"}}})
    pool.patch(web, {"metadata": {"labels": {"touched": "yes"}}})
    pool.with_nodes(1, cpu="0")
    pool.wait_running(web)
    victim, preemptor = pool.pod(jobs[0]), pool.pod(web)
    assert victim is not None
    assert preemptor is not None
    ended = victim["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"]
    scheduled = next(c for c in preemptor["status"]["conditions"] if c["type"] == "PodScheduled")
    assert ended <= scheduled["lastTransitionTime"]
    assert gone(pool, jobs) == {jobs[0]}


def test_a_victim_held_by_a_finalizer_holds_nobody_up(pool: Pool) -> None:
    pool.pods.grace = 1
    nodes = pool.with_nodes(2, cpu="1")
    held = pool.pods.scavenger(f"{pool.name}-held", nodes[0], 1)
    held["metadata"]["finalizers"] = [names.FINALIZER]
    pool.run(held, pool.pods.scavenger(f"{pool.name}-other", nodes[1], 2))
    pool.submit(pool.pods.ordinary(f"{pool.name}-web"))
    pool.wait_running(f"{pool.name}-web")
    pod = pool.pod(f"{pool.name}-held")
    assert pod is not None
    assert pod["status"]["phase"] == "Failed"
    assert f"{pool.name}-other" in pool.living()


def test_a_preemptor_whose_node_is_lost_takes_exactly_one_more(pool: Pool) -> None:
    pool.pods.grace = 300
    jobs = full(pool, 4)
    pool.patch(jobs[0], {"metadata": {"annotations": {STOP_SECONDS: "290"}}})
    web = f"{pool.name}-web"
    pool.submit(pool.pods.ordinary(web))
    pool.until("the victim to be chosen", lambda: gone(pool, jobs))
    pool.client.request(
        "PATCH", f"{harness.NODES}/{pool.nodes[0]}", {"spec": {"unschedulable": True}}, harness.MERGE_PATCH
    )
    pool.wait_running(web)
    assert gone(pool, jobs) == set(jobs[:2])


def test_labels_missing_and_annotations_of_garbage(pool: Pool) -> None:
    nodes = pool.with_nodes(6, cpu="1")
    bodies = [
        pool.pods.scavenger(f"{node}-y", node, risk)
        for node, risk in zip(nodes, ("NaN", "-1", "Inf", "rubbish", "1e308", 1_000_000), strict=True)
    ]
    del bodies[3]["metadata"]["labels"][names.LABEL_PREEMPTION_CLASS]
    del bodies[2]["metadata"]["labels"][names.LABEL_JOB]
    bodies[1]["metadata"]["labels"][names.LABEL_PREEMPTION_CLASS] = "nonsense"
    pool.run(*bodies)
    webs = [f"{pool.name}-web-{i}" for i in range(5)]
    pool.submit(*(pool.pods.ordinary(web) for web in webs))
    pool.wait_running(*webs)
    # What has just started has next to nothing at risk, a million CPU-seconds are more, and 1e308 is a figure.
    assert pool.living() == {f"{nodes[4]}-y", *webs}


def test_scavenger_pods_never_preempt_and_a_label_alone_makes_nobody_one(pool: Pool) -> None:
    jobs = full(pool, 1)
    pushy = pool.pods.ordinary(f"{pool.name}-pushy")
    pushy["metadata"]["labels"][names.LABEL_JOB] = "pushy"
    pushy["spec"]["priorityClassName"] = names.PRIORITY_CLASS_NON_PREEMPTIBLE
    pool.submit(pushy)

    def turned_down() -> bool:
        pod = pool.pod(pushy["metadata"]["name"])
        return pod is not None and any(
            "scavenger pods never preempt" in c.get("message", "") for c in pod["status"].get("conditions", [])
        )

    pool.until("the pod to be turned down", turned_down)
    assert pool.living() == {*jobs, pushy["metadata"]["name"]}

    labelled = pool.pods.ordinary(f"{pool.name}-labelled")
    labelled["metadata"]["labels"][names.LABEL_JOB] = "pushy"
    pool.submit(labelled)
    pool.wait_running(labelled["metadata"]["name"])


def test_a_waiting_pod_is_tried_again_when_a_job_becomes_preemptible_or_itself_interactive(pool: Pool) -> None:
    nodes = pool.with_nodes(2, cpu="1")
    jobs = [pool.pods.scavenger(f"{node}-n", node, 5, preemptible=False) for node in nodes]
    pool.run(*jobs)
    webs = [f"{pool.name}-web-{i}" for i in range(2)]
    began = time.monotonic()
    pool.submit(pool.pods.ordinary(webs[0]))
    pool.wait_unschedulable(webs[0])
    pool.patch(f"{nodes[1]}-n", {"metadata": {"labels": {names.LABEL_PREEMPTION_CLASS: names.PREEMPTIBLE}}})
    pool.wait_running(webs[0])
    assert time.monotonic() - began < pool.wait_seconds, "by its waiting alone it would not run before"
    assert f"{nodes[0]}-n" in pool.living()

    began = time.monotonic()
    pool.submit(pool.pods.ordinary(webs[1]))
    pool.wait_unschedulable(webs[1])
    pool.patch(webs[1], {"metadata": {"annotations": {names.ANNOTATION_LATENCY: names.LATENCY_INTERACTIVE}}})
    pool.wait_running(webs[1])
    assert time.monotonic() - began < pool.wait_seconds


def test_the_victim_learns_for_whom_it_had_to_go_and_the_figures_count_it(cluster: Cluster, pool: Pool) -> None:
    lost = 'scavenger_scheduler_preemption_lost_cpu_seconds_total{class="preemptible"}'
    taken = 'scavenger_scheduler_preemption_victims_total{class="preemptible"}'
    attempts = 'scavenger_scheduler_preemption_attempts_total{result="preempted"}'
    nodes = pool.with_nodes(2, cpu="1")
    pool.run(*pool.pods.gang(f"{pool.name}-gang", nodes, 42))
    before = harness.figures(cluster, "scavenger_scheduler")
    pool.submit(pool.pods.ordinary(f"{pool.name}-web"))
    pool.wait_running(f"{pool.name}-web")
    after = harness.figures(cluster, "scavenger_scheduler")
    assert [after[n] - before[n] for n in (lost, taken, attempts)] == [42, 1, 1]
    assert after["scavenger_scheduler_preemption_decision_duration_seconds_count"] > 0

    def notes() -> list[str]:
        items = cluster.client.get("/apis/events.k8s.io/v1/namespaces/default/events")["items"]
        return [
            item["note"]
            for item in items
            if item["reason"] == "PreemptedBy" and item["regarding"]["name"].startswith(pool.name)
        ]

    (note,) = pool.until("the event", notes)
    assert f"default/{pool.name}-web" in note
    assert "42 CPU-seconds" in note


def test_beside_the_unmodified_scheduler_with_the_rights_and_configuration_it_ships_with(
    cluster: Cluster, pool: Pool
) -> None:
    harness.start_second(cluster, any_free_port())
    jobs = full(pool, 2)
    pool.patch(jobs[0], {"metadata": {"labels": {names.LABEL_PREEMPTION_CLASS: names.NON_PREEMPTIBLE}}})
    web = pool.pods.ordinary(f"{pool.name}-web")
    web["spec"]["schedulerName"] = names.SCHEDULER
    pool.submit(web)
    try:
        pool.wait_running(f"{pool.name}-web")
        assert gone(pool, jobs) == {jobs[1]}
        assert "forbidden" not in harness.second_log(cluster).lower()
        lease = "/apis/coordination.k8s.io/v1/namespaces/scavenger-system/leases/scavenger-scheduler"
        assert cluster.client.get(lease)["spec"]["holderIdentity"]
    finally:
        harness.stop_second(cluster)


def test_nothing_panicked_or_was_forbidden(cluster: Cluster) -> None:
    text = cluster.processes.log("kube-scheduler").read_text().lower()
    assert "panic" not in text
    assert "forbidden" not in text
