"""The controller against the API server in memory: facts from caches; and settings, manifests, code of one mind."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from scavenger_api import names
from scavenger_api.evictions import ANNOTATION_EVICTION_REASON
from scavenger_api.reclaimed import RECLAIMED
from scavenger_kube.resources import NAMESPACES, NODES, PERSISTENTVOLUMECLAIMS
from scavenger_runtime.clock import SystemClock
from scavenger_testing import VirtualClock
from scavenger_testing.fake_api import FakeApi
from scavenger_webhook.app import MUTATE_PODS, VALIDATE_JOBS
from scavenger_webhook.authority_keeper import AUTHORITY_SECRET
from scavenger_webhook.controller import ClusterView
from scavenger_webhook.core.review import review
from scavenger_webhook.core.snapshot import LOW_PRIORITY, SCAVENGER_CLASSES, Rules
from scavenger_webhook.facts import PRIORITYCLASSES, SCAVENGERQUEUES
from scavenger_webhook.settings import WebhookSettings

from .builders import job, pod, request
from .waiting import running, until


async def test_facts_are_what_the_caches_hold_and_new_queues_are_asked_for() -> None:
    async with FakeApi(listens=False) as api:
        api.put(PRIORITYCLASSES, {"metadata": {"name": "ordinary-workload"}, "value": 0})
        api.put(SCAVENGERQUEUES, {"metadata": {"name": "small"}, "spec": {"quota": {"cpu": "1500m", "memory": "1Gi"}}})
        api.put(
            NODES, {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "x": "bad"}}}
        )
        view = ClusterView(api.client(), Rules(), SystemClock(), api_servers_only=True)
        asked = request("scavengerjobs", job(queue="late"))
        assert await view.facts_for(asked) is None, "nothing is known yet"
        async with running(*(informer.run() for informer in view.informers)):
            await asyncio.gather(*(informer.wait_synced() for informer in view.informers))
            found = await view.facts_for(request("pods", pod()))
            assert found is not None
            assert found.queues["small"].quota == {"cpu": 1500, "memory": 2**30}
            assert found.nodes[0].allocatable == {"cpu": 4000, "memory": 8 * 2**30}
            assert found.priority_classes["ordinary-workload"].preemption_policy == "PreemptLowerPriority"

            before = api.count("GET", "scavengerqueues/late")
            for _ in range(3):
                known = await view.facts_for(asked)
                assert known is not None
                assert known.queue("late") is None
            assert api.count("GET", "scavengerqueues/late") == before + 1, "not asked for again within a second"

            api.close_watches()
            api.put(SCAVENGERQUEUES, {"metadata": {"name": "newer"}, "spec": {}})
            fresh = await view.facts_for(request("scavengerjobs", job(queue="newer")))
            assert fresh is not None
            assert fresh.queue("newer") is not None

            api.remove(NODES, None, "n")
            await until("the node is gone", lambda: view.facts().nodes == ())


async def test_claims_that_are_not_there_are_told_when_a_job_is_created() -> None:
    async with FakeApi(listens=False) as api:
        api.put(PERSISTENTVOLUMECLAIMS, {"metadata": {"name": "there", "namespace": "ns"}})
        view = ClusterView(api.client(), Rules(), VirtualClock(), api_servers_only=True)
        mounts = [{"name": name, "mountPath": f"/{name}"} for name in ("there", "absent", "no/name")]
        made = request("scavengerjobs", job(persistentVolumeClaims=mounts), namespace="ns")
        async with running(*(informer.run() for informer in view.informers)):
            await asyncio.gather(*(informer.wait_synced() for informer in view.informers))
            found = await view.facts_for(made)
            assert found is not None
            assert found.absent_claims == ("absent",)
            made = request("scavengerjobs", job(persistentVolumeClaims=mounts[:2]), namespace="ns")
            [told] = review(made, found).warnings or ()
            assert "persistentvolumeclaim 'absent' not found" in told
            api.fail(403, times=9, methods={"GET"}, path="/persistentvolumeclaims", reason="Forbidden")
            unknown = await view.facts_for(made)
            assert unknown is not None
            assert unknown.absent_claims == ()


async def test_the_labels_of_a_namespace_are_asked_for_where_a_queue_has_a_selector() -> None:
    async with FakeApi(listens=False) as api:
        clock = VirtualClock()
        api.put(NAMESPACES, {"metadata": {"name": "ns", "labels": {"team": "blue"}}})
        spec = {"namespaceSelector": {"matchLabels": {"team": "blue"}}}
        api.put(SCAVENGERQUEUES, {"metadata": {"name": "own"}, "spec": spec})
        api.put(SCAVENGERQUEUES, {"metadata": {"name": "all"}, "spec": {}})
        view = ClusterView(api.client(), Rules(), clock, api_servers_only=True)
        async with running(*(informer.run() for informer in view.informers)):
            await asyncio.gather(*(informer.wait_synced() for informer in view.informers))

            async def labels(queue: str, namespace: str = "ns") -> dict[str, str] | None:
                found = await view.facts_for(request("scavengerjobs", job(queue=queue), namespace=namespace))
                return None if found is None else dict(found.namespace_labels or {})

            assert await labels("all") == {}
            assert await labels("nowhere") == {}
            assert api.count("GET", "/namespaces/") == 0
            assert [await labels("own") for _ in range(3)] == [{"team": "blue"}] * 3
            assert api.count("GET", "/namespaces/") == 1, "not asked for again within a second"
            assert await labels("own", "../nodes") == {}, "no path is made of what is no name"
            assert await labels("own", "gone") == {}

            api.put(NAMESPACES, {"metadata": {"name": "ns", "labels": {"team": "red"}}})
            await clock.advance(2)
            assert await labels("own") == {"team": "red"}
            await clock.advance(2)
            api.fail(403, times=1, methods={"GET"}, path="/namespaces/")
            assert await labels("own") is None, "not known: try again"
            api.fail(403, times=1, methods={"GET"}, path="/namespaces/")
            stays = request("scavengerjobs", job(queue="own", suspend=True), old=job(queue="own"), operation="UPDATE")
            assert await view.facts_for(stays) is not None, "a job is not judged again"


@pytest.mark.parametrize("api_servers_only", [True, False])
async def test_the_queue_of_a_namespace_is_asked_for_where_a_job_names_none(*, api_servers_only: bool) -> None:
    """Where anybody can ask, nothing is looked up for a request, and no label is told."""
    async with FakeApi(listens=False) as api:
        clock = VirtualClock()
        api.put(NAMESPACES, {"metadata": {"name": "ns", "labels": {names.LABEL_ADOPT_QUEUE: "night"}}})
        api.put(NAMESPACES, {"metadata": {"name": "bare"}})
        view = ClusterView(api.client(), Rules(), clock, api_servers_only=api_servers_only)
        async with running(*(informer.run() for informer in view.informers)):
            await asyncio.gather(*(informer.wait_synced() for informer in view.informers))

            async def queue(namespace: str, **labels: str) -> str | None:
                asked = request("jobs", {"metadata": {"labels": labels}, "spec": {}}, namespace=namespace)
                found = await view.facts_for(asked)
                return None if found is None else found.adopt_queue

            assert await queue("ns", **{names.LABEL_QUEUE: "q"}) is None
            assert api.count("GET", "/namespaces/") == 0
            assert await queue("ns") == ("night" if api_servers_only else None)
            assert await queue("bare") == (names.DEFAULT_QUEUE if api_servers_only else None)
            await clock.advance(2)
            api.fail(403, times=1, methods={"GET"}, path="/namespaces/")
            assert await queue("ns") is None


@pytest.mark.parametrize(
    ("spec", "asked"),
    [
        ({}, False),
        ({"runAsUser": 1}, False),
        ({"runAsUser": 0}, True),
        ({"securityContext": {}}, False),
        ({"securityContext": {"allowPrivilegeEscalation": True}}, True),
        ({"securityContext": {"runAsNonRoot": False}, "queue": "nowhere"}, True),
        ({"securityContext": {"runAsNonRoot": False}, "queue": "../nodes"}, True),
    ],
    ids=str,
)
async def test_the_labels_of_a_namespace_are_asked_for_where_a_job_asks_for_rights(
    spec: dict[str, Any], asked: bool
) -> None:
    async with FakeApi(listens=False) as api:
        labels = {"scavenger.dev/pod-security": "baseline"}
        api.put(NAMESPACES, {"metadata": {"name": "ns", "labels": labels}})
        view = ClusterView(api.client(), Rules(), VirtualClock(), api_servers_only=True)
        async with running(*(informer.run() for informer in view.informers)):
            await asyncio.gather(*(informer.wait_synced() for informer in view.informers))
            found = await view.facts_for(request("scavengerjobs", job(**spec)))
            assert found is not None
            assert found.namespace_labels == (labels if asked else {})
            changed = await view.facts_for(request("scavengerjobs", job(**spec), old=job(**spec), operation="UPDATE"))
            assert changed is not None
            assert changed.namespace_labels == {}


@pytest.mark.parametrize("name", ["../nodes", "A", "", "x" * 64, 7, None])
async def test_no_path_is_made_of_what_is_no_name(name: object) -> None:
    async with FakeApi(listens=False) as api:
        view = ClusterView(api.client(), Rules(), SystemClock(), api_servers_only=True)
        async with running(*(informer.run() for informer in view.informers)):
            await asyncio.gather(*(informer.wait_synced() for informer in view.informers))
            seen = len(api.requests)
            await view.facts_for(request("scavengerjobs", job(queue=name)))
            assert [r.path for r in api.requests[seen:] if "watch" not in r.query] == []


# --- where anybody can ask ---

SECRETIVE: list[dict[str, Any]] = [
    {"resources": {"requests": {"cpu": "3", "memory": "1Gi"}}},
    {"resources": {"requests": {"cpu": "7777", "memory": "1Gi"}}},
    {"queue": "small", "resources": {"requests": {"cpu": "3", "memory": "1Gi"}}},
    {"queue": "blue"},
    {"nodeSelector": {"disk": "ssd"}},
    {"capacity": "Reclaimed", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}},
    {"persistentVolumeClaims": [{"name": "absent", "mountPath": "/a"}]},
    {"runAsUser": 0},
    {"template": {"spec": {"volumes": [{"name": "a", "persistentVolumeClaim": {"claimName": "absent"}}]}}},
]


@pytest.mark.parametrize("spec", SECRETIVE, ids=str)
async def test_an_answer_to_anybody_is_the_same_whatever_the_cluster_has(spec: dict[str, Any]) -> None:
    """So no number of questions tells a size, a quota, a label or a claim; and no question is passed on."""

    async def answer(*, large: bool) -> object:
        async with FakeApi(listens=False) as api:
            cpu, there = ("9999", "absent") if large else ("1", "other")
            allocatable = {"cpu": cpu, "memory": "999Gi"}
            if large:
                allocatable |= {extended: "9999999" for extended, _ in RECLAIMED.values()}
            node = {"metadata": {"name": "n", "labels": {"disk": "ssd" if large else "hdd"}}}
            api.put(NODES, {**node, "status": {"allocatable": allocatable}})
            api.put(SCAVENGERQUEUES, {"metadata": {"name": "small"}, "spec": {"quota": {"cpu": cpu}}})
            selector = {"namespaceSelector": {"matchLabels": {"team": "blue"}}}
            api.put(SCAVENGERQUEUES, {"metadata": {"name": "blue"}, "spec": selector})
            labels = {"team": "blue", "scavenger.dev/pod-security": "baseline"} if large else {}
            api.put(NAMESPACES, {"metadata": {"name": "ns", "labels": labels}})
            api.put(PERSISTENTVOLUMECLAIMS, {"metadata": {"name": there, "namespace": "ns"}})
            view = ClusterView(api.client(), Rules(), SystemClock(), api_servers_only=False)
            async with running(*(informer.run() for informer in view.informers)):
                await asyncio.gather(*(informer.wait_synced() for informer in view.informers))
                seen = len(api.requests)
                asked = request("scavengerjobs", job(**spec), namespace="ns")
                known = await view.facts_for(asked)
                assert known is not None
                assert [r.path for r in api.requests[seen:] if "watch" not in r.query] == []
                return review(asked, known)

    assert await answer(large=True) == await answer(large=False)


async def test_anybody_is_told_of_root_by_a_warning_as_labels_are_not_looked_up() -> None:
    async with FakeApi(listens=False) as api:
        view = ClusterView(api.client(), Rules(), SystemClock(), api_servers_only=False)
        async with running(*(informer.run() for informer in view.informers)):
            await asyncio.gather(*(informer.wait_synced() for informer in view.informers))
            asked = request("scavengerjobs", job(runAsUser=0))
            known = await view.facts_for(asked)
            assert known is not None
            [told] = review(asked, known).warnings or ()
            assert told.startswith("the job waits unless its namespace allows this: spec.runAsUser: 0 is root")
            assert told.endswith("label the namespace scavenger.dev/pod-security=baseline")


async def test_a_new_queue_is_waited_for_without_a_request() -> None:
    async with FakeApi(listens=False) as api:
        view = ClusterView(api.client(), Rules(), SystemClock(), api_servers_only=False)
        async with running(*(informer.run() for informer in view.informers)):
            await asyncio.gather(*(informer.wait_synced() for informer in view.informers))
            asked = request("scavengerjobs", job(queue="newer"))
            refused = await view.facts_for(asked)
            assert refused is not None
            assert refused.queue("newer") is None
            answer = asyncio.create_task(view.facts_for(asked))
            await asyncio.sleep(0)
            api.put(SCAVENGERQUEUES, {"metadata": {"name": "newer"}, "spec": {}})
            found = await answer
            assert found is not None
            assert found.queue("newer") is not None
            assert api.count("GET", "scavengerqueues/newer") == 0


# --- settings ---


def test_settings_say_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        WebhookSettings.load(["--shutdown-delay=30", "--shutdown-timeout=10"])
    assert "shutdown-timeout > shutdown-delay" in capsys.readouterr().err
    made = WebhookSettings.load(["--namespace=elsewhere", "--tls-names=127.0.0.1,me", "--low-priority=warn"])
    assert made.certificate_rules().names[0] == "scavenger-webhook-admission.elsewhere.svc"
    assert made.certificate_rules().names[-2:] == ("127.0.0.1", "me")
    assert made.rules().low_priority == "warn"


def test_configurations_and_policies_name_what_the_code_names() -> None:
    manifests = Path(__file__).resolve().parents[3] / "manifests"
    folder = manifests / "webhook"
    configurations = (folder / "configurations.yaml").read_text()
    assert f"path: {MUTATE_PODS}\n" in configurations
    assert f"path: {VALIDATE_JOBS}\n" in configurations
    assert f"object.spec.priority <= {LOW_PRIORITY})" in configurations
    assert f"resourceNames: [{AUTHORITY_SECRET}]\n" in (folder / "rbac.yaml").read_text()
    policies = "".join(path.read_text() for path in sorted((manifests / "base").glob("guard-*.yaml")))
    for text in (configurations, policies):
        assert all(f"'{name}'" in text for name in SCAVENGER_CLASSES)
    marks = (names.FINALIZER, names.LABEL_PREEMPTION_CLASS, names.ANNOTATION_RUNNING_PRIORITY, names.ANNOTATION_RUN)
    for mark in (*marks, ANNOTATION_EVICTION_REASON):
        assert f"'{mark}'" in policies
