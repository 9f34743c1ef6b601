"""Decisions as tables: what is let in, changed, warned about and refused. The big table is in tests/integration."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from scavenger_api.job import ScavengerJobSpec
from scavenger_api.rules.bounds import Bounds, requested
from scavenger_api.rules.image import image_problem
from scavenger_api.rules.problem import MAX_WARNING, warning
from scavenger_api.selectors import LabelSelector
from scavenger_webhook.core.models import API_VERSION, MalformedReview, parse_review
from scavenger_webhook.core.review import MAX_PROBLEMS, NotOurs
from scavenger_webhook.core.snapshot import Facts, LowPriority, NodeFacts, QueueFacts, Rules
from scavenger_webhook.settings import WebhookSettings

from .builders import GI, Object, answer_to, facts, job, patched, pod, problems, rules

# --- pods ---

RAISED = {"priorityClassName": "ordinary-workload", "priority": 0, "preemptionPolicy": "PreemptLowerPriority"}


@pytest.mark.parametrize(
    ("spec", "known", "changed", "warned"),
    [
        ({"priority": 0}, facts(), True, False),
        ({"priorityClassName": "", "priority": 0}, facts(), True, False),
        ({"priorityClassName": "high", "priority": 5}, facts(), False, False),
        ({"priorityClassName": "just-above", "priority": -999}, facts(), False, False),
        ({"priorityClassName": "as-low", "priority": -1000}, facts(), True, True),
        ({"priorityClassName": "low", "priority": -1500}, facts(), True, True),
        ({"priorityClassName": "low", "priority": -1500}, rules(low_priority=LowPriority.WARN), False, True),
        ({"priorityClassName": "low"}, facts(), True, True),
        ({"priorityClassName": "unknown"}, facts(), False, False),
        ({"priorityClassName": "scavenger-preemptible", "priority": -2000}, facts(), False, False),
        ({"priorityClassName": "scavenger-non-preemptible", "priority": -1000}, facts(), False, False),
        # naming a class that does not exist would have every pod of the cluster refused
        ({"priority": 0}, facts(priority_classes={}), False, False),
        ({"priorityClassName": "low", "priority": -1500}, facts(priority_classes={}), False, True),
        # nor is a class that is itself too low of any use
        ({"priority": 0}, rules(ordinary_class="low"), False, False),
    ],
)
def test_pods(spec: Object, known: Facts, changed: bool, warned: bool) -> None:
    response = answer_to("pods", pod(**spec), known)

    assert response.allowed
    assert bool(response.warnings) == warned
    after = patched(pod(**spec), response)
    assert after == (pod(**(spec | RAISED)) if changed else pod(**spec))


def test_a_pod_that_exists_is_left_alone() -> None:
    assert answer_to("pods", pod(priority=0), operation="UPDATE").patch is None


def test_a_pod_that_is_raised_says_what_to_do() -> None:
    response = answer_to("pods", pod(priorityClassName="low", priority=-1500))

    assert response.warnings == (
        "PriorityClass low (-1500) does not outrank scavenger jobs: raised to ordinary-workload (0); "
        "name a class above -1000",
    )


# --- jobs ---


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({}, None),
        ({"queue": "open"}, None),
        ({"queue": "nowhere"}, "spec.queue"),
        ({"queue": "closed"}, "spec.queue"),
        ({"queue": "going"}, "spec.queue"),
        ({"queue": "small", "parallelism": 2}, None),
        ({"queue": "small", "parallelism": 3}, "spec.resources"),
        ({"terminationGracePeriodSeconds": 300}, None),
        ({"terminationGracePeriodSeconds": 301}, "spec.terminationGracePeriodSeconds"),
        ({"checkpointExitCode": 85}, None),
        ({"checkpointExitCode": 0}, "spec.checkpointExitCode"),
        ({"checkpointExitCode": 256}, "spec.checkpointExitCode"),
        ({"nodeSelector": {"a/b/c": "d"}}, "spec.nodeSelector[a/b/c]"),
        ({"nodeSelector": {"size": "s"}}, None),
        ({"tolerations": [{"operator": "Exists"}]}, None),
        ({"tolerations": [{"key": "a", "operator": "Equal", "value": "b c"}]}, "spec.tolerations[0].value"),
        (
            {"secrets": [{"name": "s", "mountPath": "/a/../b"}, {"name": "s", "mountPath": "/b"}]},
            "spec.secrets[1].mountPath",
        ),
    ],
)
def test_jobs(spec: Object, field: str | None) -> None:
    response = answer_to("scavengerjobs", job(**spec), rules(bounds=Bounds(tolerated=None)))

    assert response.allowed == (field is None), problems(response)
    assert list(problems(response)) == ([field] if field else [])


def test_all_errors_at_once_and_each_says_what_to_do() -> None:
    response = answer_to(
        "scavengerjobs",
        job(
            queue="nowhere",
            image="Example.com/App",
            terminationGracePeriodSeconds=999,
            resources={"requests": {"cpu": "2M", "memory": "1"}},
        ),
    )

    found = problems(response)
    assert set(found) == {
        "spec.queue",
        "spec.image",
        "spec.terminationGracePeriodSeconds",
        "spec.resources.requests[cpu]",
        "spec.resources.requests[memory]",
    }
    assert response.status is not None
    assert (response.status.code, response.status.reason) == (422, "Invalid")
    assert all(message in response.status.message for message in found.values())
    assert found["spec.queue"] == (
        "there is no queue 'nowhere'; choose another queue (`kubectl get scavengerqueues` lists them)"
    )


def test_a_default_queue_is_always_there_unless_one_of_that_name_is_closed() -> None:
    assert answer_to("scavengerjobs", job(queue="default"), facts(queues={})).allowed
    closed = facts(queues={"default": QueueFacts("default", facts().queues["closed"].state)})
    assert problems(answer_to("scavengerjobs", job(queue="default"), closed)) == {
        "spec.queue": "queue default is closed and takes no new jobs; wait until it is open, or choose another queue "
        "(`kubectl get scavengerqueues` lists them)"
    }


@pytest.mark.parametrize(
    ("written", "most", "refused"),
    [
        ("30m", 3600, False),
        ("1h", 3600, False),
        ("3601s", 3600, True),
        ("7d", 3600, True),
        ("168h", 7 * 86400, False),
        ("9" * 20 + "d", 3600, False),  # the definition's to refuse
    ],
)
def test_the_longest_promise_that_the_administrator_allows(written: str, most: int, refused: bool) -> None:
    response = answer_to("scavengerjobs", job(interruptionAfter=written), rules(bounds=Bounds(timedelta(seconds=most))))
    told = (
        f"{written} is more than the 1h that the administrator allows, as so much would be lost at once; write 1h or "
    )
    assert problems(response) == (
        {"spec.interruptionAfter": told + "less, and checkpoints as often"} if refused else {}
    )


def test_tolerations_that_the_administrator_allows() -> None:
    tolerations = [
        {"key": "gpu", "operator": "Exists"},
        {"key": "db", "operator": "Equal", "value": "x", "effect": "NoExecute"},
        {"operator": "Exists"},
    ]
    assert len(problems(answer_to("scavengerjobs", job(tolerations=tolerations)))) == 3, "none, unless told otherwise"
    assert answer_to("scavengerjobs", job(tolerations=tolerations), rules(bounds=Bounds(tolerated=None))).allowed
    bounded = rules(bounds=Bounds(tolerated=("gpu", "spot")))
    refused = problems(answer_to("scavengerjobs", job(tolerations=tolerations), bounded))
    assert refused == {
        "spec.tolerations[1].key": "it tolerates taints 'db', which the administrator does not allow scavenger jobs; "
        "name one of gpu, spot, or remove it",
        "spec.tolerations[2].key": "it tolerates every taint, as it names no key, which the administrator does not "
        "allow scavenger jobs; name one of gpu, spot, or remove it",
    }
    none = problems(answer_to("scavengerjobs", job(tolerations=tolerations[:1]), rules(bounds=Bounds())))
    assert none["spec.tolerations[0].key"].endswith("does not allow scavenger jobs; remove it")


def test_the_taint_of_a_resource_that_is_asked_for_may_be_written() -> None:
    asked = {"requests": {"cpu": "1", "memory": "1Gi", "vendor.com/gpu": "1"}}
    tolerations = [
        {"key": "vendor.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "vendor.com/gpu", "operator": "Exists"},
        {"key": "vendor.com/fpga", "operator": "Exists", "effect": "NoSchedule"},
    ]
    refused = problems(answer_to("scavengerjobs", job(resources=asked, tolerations=tolerations)))
    assert sorted(refused) == ["spec.tolerations[1].key", "spec.tolerations[2].key"]


def test_settings_become_rules() -> None:
    assert WebhookSettings.load([]).rules() == Rules()
    told = WebhookSettings.load(["--max-interruption-after=1d", "--allowed-tolerations=gpu,spot"]).rules().bounds
    assert (told.max_interval, told.tolerated) == (timedelta(days=1), ("gpu", "spot"))
    assert WebhookSettings.load(["--allowed-tolerations=*"]).rules().bounds.tolerated is None


@pytest.mark.parametrize("queue", ["nowhere", "closed", "going", "chemistry"])
def test_no_refusal_names_another_queue(queue: str) -> None:
    """Whoever reaches the webhook's port may ask it, with no name of their own."""
    response = answer_to("scavengerjobs", job(queue=queue), restricted({}), userInfo={})
    assert response.status is not None
    others = {"open", "small", "closed", "going", "chemistry"} - {queue}
    assert not others & set(re.findall(r"[a-z]+", response.status.message.replace("until it is open", "")))


def restricted(labels: dict[str, str]) -> Facts:
    """A queue for the namespaces of one team, and a namespace with these labels."""
    selector = LabelSelector(match_labels={"team": "chemistry"})
    queues = {**facts().queues, "chemistry": QueueFacts("chemistry", selector=selector)}
    return facts(queues=queues, namespace_labels=labels)


def test_a_queue_takes_jobs_of_the_namespaces_that_it_selects() -> None:
    refused = problems(answer_to("scavengerjobs", job(queue="chemistry"), restricted({"team": "physics"})))
    assert refused == {
        "spec.queue": "queue chemistry is not for jobs of this namespace; choose another queue (`kubectl get "
        "scavengerqueues` lists them), or ask the administrator to change its spec.namespaceSelector or the labels of "
        "the namespace"
    }
    assert answer_to("scavengerjobs", job(queue="chemistry"), restricted({"team": "chemistry"})).allowed
    assert answer_to("scavengerjobs", job(queue="open"), restricted({})).allowed


BASELINE = {"scavenger.dev/pod-security": "baseline"}
ASKING = {"runAsUser": 0, "securityContext": {"runAsNonRoot": False, "capabilities": {"add": ["CHOWN"]}}}


def test_what_a_namespace_does_not_allow_is_refused_field_by_field_with_the_remedy() -> None:
    refused = problems(answer_to("scavengerjobs", job(**ASKING)))
    assert list(refused) == [
        "spec.runAsUser",
        "spec.securityContext.runAsNonRoot",
        "spec.securityContext.capabilities.add",
    ]
    assert refused["spec.runAsUser"] == (
        "0 is root, which PodSecurity restricted forbids; write another id, such as 65532, or ask an administrator to "
        "label the namespace scavenger.dev/pod-security=baseline"
    )
    assert answer_to("scavengerjobs", job(**ASKING), facts(namespace_labels=BASELINE)).allowed


def test_a_job_stays_changeable_when_its_namespace_allows_less_than_it_once_did() -> None:
    old = job(**ASKING)
    assert answer_to("scavengerjobs", job(**ASKING, suspend=True), old=old, operation="UPDATE").allowed


def test_a_job_is_not_moved_to_a_queue_that_is_not_for_it_and_stays_changeable_in_one() -> None:
    old = job(queue="open")
    moved = answer_to("scavengerjobs", job(queue="chemistry"), restricted({}), old=old, operation="UPDATE")
    assert set(problems(moved)) == {"spec.queue"}
    stays = job(queue="chemistry", suspend=True)
    old = job(queue="chemistry")
    assert answer_to("scavengerjobs", stays, restricted({}), old=old, operation="UPDATE").allowed


@pytest.mark.parametrize(
    ("old", "new", "allowed"),
    [
        ({"queue": "open"}, {"queue": "small"}, True),
        ({"queue": "open"}, {"queue": "closed"}, False),
        ({"queue": "closed"}, {"queue": "closed", "suspend": True}, True),
        ({"queue": "gone"}, {"queue": "gone", "ttlSecondsAfterFinished": 1}, True),
        # the rest of the spec cannot change: not judged again by rules that may have become stricter
        ({"terminationGracePeriodSeconds": 999}, {"terminationGracePeriodSeconds": 999, "queue": "open"}, True),
    ],
)
def test_changes(old: Object, new: Object, allowed: bool) -> None:
    response = answer_to("scavengerjobs", job(**new), old=job(**old), operation="UPDATE")

    assert response.allowed == allowed


def test_a_job_that_is_being_deleted_is_left_alone() -> None:
    leaving = job(queue="closed")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    assert answer_to("scavengerjobs", leaving, old=job(queue="open"), operation="UPDATE").allowed
    assert answer_to("scavengerjobs", None, old=job(queue="nowhere"), operation="DELETE").allowed


@pytest.mark.parametrize(
    ("requests", "selector", "text"),
    [
        ({"cpu": "16", "memory": "8Gi"}, {}, None),
        (
            {"cpu": "17", "memory": "1Gi"},
            {},
            "no node has the capacity for one pod, even empty: it asks for 17 of cpu, and none has so much",
        ),
        ({"cpu": "16", "memory": "64Gi"}, {}, "no node has all of it together"),
        ({"cpu": "5", "memory": "1Gi"}, {"size": "l"}, "no node with those labels has the capacity"),
        ({"cpu": "1", "memory": "1Gi"}, {"size": "xl"}, "spec.nodeSelector: no node has size=xl"),
        (
            {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"},
            {},
            "it asks for 1 of nvidia.com/gpu, and none has so much",
        ),
    ],
)
def test_room_on_the_largest_node(requests: dict[str, str], selector: dict[str, str], text: str | None) -> None:
    response = answer_to("scavengerjobs", job(resources={"requests": requests}, nodeSelector=selector))

    assert response.allowed
    assert [text is not None and text in found for found in response.warnings or ()] == ([True] if text else [])


CPU, MEMORY = "scavenger.dev/reclaimed-cpu", "scavenger.dev/reclaimed-memory"
OFFERS = (
    NodeFacts("thin", {"size": "s"}, {"cpu": 16_000, "memory": 8 * GI, CPU: 3000, MEMORY: 512}),
    NodeFacts("wide", {"size": "l"}, {"cpu": 4_000, "memory": 64 * GI, CPU: 0, MEMORY: 16 * 1024}),
)
NO_OFFER = "no node offers reclaimed capacity: the regulator publishes it when started with --reclaimed"


@pytest.mark.parametrize(
    ("capacity", "limits", "selector", "nodes", "expected"),
    [
        ("Guaranteed", {"cpu": "4", "memory": "1Gi"}, {}, OFFERS, []),
        ("Reclaimed", {"cpu": "3", "memory": "512Mi"}, {}, OFFERS, []),
        ("Reclaimed", {"cpu": "1", "memory": "64Mi"}, {}, None, [NO_OFFER]),
        ("Reclaimed", {"cpu": "1", "memory": "64Mi"}, {}, (), []),
        (
            "Reclaimed",
            {"cpu": "3001m", "memory": "512Mi"},
            {},
            OFFERS,
            ["no node now offers reclaimed capacity for one pod, so the job waits: it asks for 3001m of cpu, "],
        ),
        ("Reclaimed", {"cpu": "1", "memory": "536870913"}, {}, OFFERS, ["no node offers both together"]),
        ("Reclaimed", {"cpu": "1", "memory": "1Gi"}, {"size": "l"}, OFFERS, ["no node with those labels now offers"]),
        ("Reclaimed", {"cpu": "17", "memory": "1Gi"}, {}, OFFERS, ["no node has the capacity for one pod, even empty"]),
        (
            "Reclaimed",
            {"cpu": "17", "memory": "1Gi"},
            {},
            None,
            ["no node has the capacity for one pod, even empty", NO_OFFER],
        ),
    ],
)
def test_what_is_offered_of_reclaimed_capacity(
    capacity: str,
    limits: dict[str, str],
    selector: dict[str, str],
    nodes: tuple[NodeFacts, ...] | None,
    expected: list[str],
) -> None:
    known = facts() if nodes is None else facts(nodes=nodes)
    spec = {"resources": {"limits": limits}, "capacity": capacity, "nodeSelector": selector}
    response = answer_to("scavengerjobs", job(**spec), known)

    assert response.allowed
    warned = response.warnings or ()
    assert len(warned) == len(expected)
    assert all(text in found for text, found in zip(expected, warned, strict=True))


@pytest.mark.parametrize(
    ("capacity", "requests", "limits", "field"),
    [
        ("Reclaimed", {"cpu": "0", "memory": "0"}, {"cpu": "1", "memory": "64Mi"}, None),
        ("Reclaimed", {"cpu": "0m", "memory": "0Gi"}, {"cpu": "1", "memory": "64Mi"}, None),
        ("Reclaimed", {"memory": "0"}, {"cpu": "1"}, "spec.resources.requests[memory]"),
        ("Reclaimed", {"memory": "1"}, {"cpu": "1", "memory": "64Mi"}, "spec.resources.requests[memory]"),
        ("Guaranteed", {"memory": "0"}, {"cpu": "1", "memory": "64Mi"}, "spec.resources.requests[memory]"),
    ],
)
def test_on_reclaimed_capacity_nothing_need_be_requested(
    capacity: str, requests: dict[str, str], limits: dict[str, str], field: str | None
) -> None:
    spec = {"resources": {"requests": requests, "limits": limits}, "capacity": capacity}

    assert set(problems(answer_to("scavengerjobs", job(**spec)))) == ({field} if field else set())


@pytest.mark.parametrize("limits", [{}, {"cpu": "3", "memory": "1Gi"}, {"nvidia.com/gpu": "2", "cpu": "1500m"}])
@pytest.mark.parametrize("requests", [{}, {"cpu": "0", "memory": "0"}, {"cpu": "1"}, {"memory": "64Mi", "cpu": "0"}])
def test_what_a_pod_asks_for_is_as_the_contract_has_it(requests: dict[str, str], limits: dict[str, str]) -> None:
    spec = ScavengerJobSpec.model_validate({"image": "i", "resources": {"requests": requests, "limits": limits}})

    assert {r: v for r, v in requested(spec).items() if v} == {r: v for r, v in spec.requests.items() if v}


def test_reclaimed_capacity_counts_in_the_quota_of_its_queue() -> None:
    spec = {"resources": {"requests": {"cpu": "0"}, "limits": {"cpu": "3", "memory": "1Mi"}}, "capacity": "Reclaimed"}
    response = answer_to("scavengerjobs", job(**spec, queue="small"), facts(nodes=OFFERS))

    assert "asks for 3 of cpu, more than queue small may use:" in problems(response)["spec.resources"]


def test_no_nodes_yet_is_no_reason_to_warn() -> None:
    response = answer_to("scavengerjobs", job(resources={"requests": {"cpu": "99", "memory": "1Gi"}}), facts(nodes=()))

    assert response.warnings is None


@pytest.mark.parametrize(
    ("path", "warned"),
    [
        ("/data", False),
        ("/etc/app", False),
        ("/var/lib/app", False),
        ("/dev/shm", False),
        ("/", True),
        ("//", True),
        ("/etc/", True),
        ("/usr/../etc", True),
        ("/proc/1", True),
        ("/var/run/secrets/kubernetes.io/serviceaccount", True),
    ],
)
def test_mounts_that_hide_system_folders(path: str, warned: bool) -> None:
    response = answer_to("scavengerjobs", job(configMaps=[{"name": "c", "mountPath": path}]))

    assert response.allowed
    assert bool(response.warnings) == warned


@pytest.mark.parametrize(
    ("side", "resource", "quantity", "part"),
    [
        ("requests", "memory", "1Mi", None),
        ("requests", "memory", "1023Ki", "with which no container starts"),
        ("limits", "memory", "64000000500m", None),
        ("requests", "memory", "1.2Gi", None),
        ("requests", "memory", "512m", "fraction of a byte"),
        ("requests", "cpu", "1m", None),
        ("requests", "cpu", "1e-4", None),
        ("requests", "memory", "1e30", "more than Kubernetes can count"),
        ("requests", "hugepages-1Gi", "2Gi", None),
        ("requests", "hugepages-1Gi", "1536Mi", "not a multiple of the page size"),
        ("requests", "requests.x/gpu", "1", "no device is called so"),
        ("requests", "example.com/Gpu_a.1", "1", None),
        ("requests", "example.com/a/b", "1", "before the slash stands a domain"),
    ],
)
def test_quantities(side: str, resource: str, quantity: str, part: str | None) -> None:
    amounts = {"cpu": "1", "memory": "64Mi"} | {resource: quantity}
    found = problems(answer_to("scavengerjobs", job(resources={side: amounts})))

    assert list(found) == ([f"spec.resources.{side}[{resource}]"] if part else [])
    assert part is None or part in found[f"spec.resources.{side}[{resource}]"]


def test_a_job_that_is_none_is_refused_by_field_and_its_values_are_not_repeated() -> None:
    secret = "hunter2"
    bad = job(env=[{"name": "PASSWORD", "value": {"a": secret}}], parallelism="many")
    response = answer_to("scavengerjobs", bad)

    assert set(problems(response)) == {"spec.env[0].value", "spec.parallelism"}
    assert secret not in response.model_dump_json()


def test_so_many_problems_are_cut_short() -> None:
    claims = [{"name": "d", "mountPath": "/d"} for _ in range(MAX_PROBLEMS + 3)]
    response = answer_to("scavengerjobs", job(persistentVolumeClaims=claims))

    assert response.status is not None
    assert response.status.message.endswith(", and 2 more]")


# --- images ---


@pytest.mark.parametrize(
    "reference",
    [
        "app",
        "app:1",
        "library/app:latest",
        "localhost/app",
        "localhost:5000/app:v1",
        "example.com/a/b/c:1.2-rc.3_4",
        "example.com:443/a@sha256:" + "0" * 64,
        "[2001:db8::1]:5000/app",
        "EXAMPLE.com/app",
        "a__b/c--d/e.f",
        "app@sha512:" + "f" * 128,
    ],
)
def test_good_images(reference: str) -> None:
    assert image_problem(reference) is None


@pytest.mark.parametrize(
    "reference",
    [
        "",
        "app:",
        "app@",
        ":1",
        "/app",
        "app/",
        "App",
        "example.com/App",
        "http://example.com/app",
        "a___b",
        "a..b",
        "-app",
        "app:-1",
        "app:" + "x" * 129,
        "app@sha256:" + "0" * 63,
        "app@sha256:" + "G" * 64,
        "app@md5:" + "0" * 32,
        "example.com:port/app",
        "ex_ample.com/app",
        "a" * 256,
        "0" * 64,
        "app\u00e9",
    ],
)
def test_bad_images_say_how_to_write_them(reference: str) -> None:
    problem = image_problem(reference)

    assert problem
    assert len(problem) > 20


# --- quotas ---

SCOPE = {
    "scopeName": "PriorityClass",
    "operator": "NotIn",
    "values": ["scavenger-non-preemptible", "scavenger-preemptible"],
}
HIGH = {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}
BEST_EFFORT = {"scopeName": "BestEffort", "operator": "Exists"}


@pytest.mark.parametrize(
    ("spec", "selector", "warned"),
    [
        ({"hard": {"requests.cpu": "4", "limits.memory": "8Gi", "pods": "10"}}, [SCOPE], False),
        ({"hard": {"pods": "1"}, "scopeSelector": {}}, [SCOPE], False),
        ({"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [BEST_EFFORT]}}, [BEST_EFFORT, SCOPE], False),
        ({"hard": {"cpu": "4"}, "scopeSelector": {"matchExpressions": [HIGH]}}, [HIGH], False),
        ({"hard": {"cpu": "4"}, "scopeSelector": {"matchExpressions": [SCOPE]}}, [SCOPE], False),
        ({"hard": {"services": "4"}}, None, False),
        ({"hard": {"cpu": "4", "services": "4"}}, None, True),
        ({"hard": {"cpu": "4", "requests.nvidia.com/gpu": "4", "count/pods": "9"}}, [SCOPE], False),
        ({"hard": {"requests.hugepages-2Mi": "1Gi", "hugepages-1Gi": "4Gi"}}, [SCOPE], False),
        ({"hard": {"requests.deviceclass.resource.kubernetes.io/gpu": "4"}}, [SCOPE], False),
        ({"hard": {"cpu": "4", "requests.ephemeral-storage": "4Gi"}}, None, True),
        ({"hard": {"cpu": "4", "requests.kubernetes.io/batch": "4"}}, None, True),
        ({"hard": {"pods": "4", "count/deployments.apps": "4"}}, None, True),
        ({"hard": {"gold.storageclass.storage.k8s.io/requests.storage": "4Gi"}}, None, False),
        ({}, None, False),
    ],
)
@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
def test_quotas(spec: Object, selector: list[Object] | None, warned: bool, operation: str) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": spec}
    response = answer_to("resourcequotas", quota, operation=operation, old=quota)

    result = patched(quota, response)
    after, added = result["spec"].get("scopeSelector"), "annotations" in result["metadata"]
    assert response.allowed
    assert added == (after != spec.get("scopeSelector")), "what is not ours is not marked"
    assert after == ({"matchExpressions": selector} if selector else None)
    assert bool(response.warnings) == warned


def test_the_mark_leaves_other_annotations() -> None:
    meta = {"name": "q", "annotations": {"team": "blue"}}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": {"hard": {"pods": "1"}}}
    after = patched(quota, answer_to("resourcequotas", quota, operation="CREATE"))["metadata"]["annotations"]
    assert after == {"team": "blue", "scavenger.dev/quota-scope": "added"}


# --- the envelope ---


def test_what_no_rule_sends_here_is_not_answered() -> None:
    with pytest.raises(NotOurs, match="configmaps are not reviewed here"):
        answer_to("configmaps", {})


@pytest.mark.parametrize(
    ("body", "part"),
    [
        (b"", "expected an AdmissionReview"),
        (b"[]", "expected an AdmissionReview"),
        (b'{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","request":{}}', "apiVersion: "),
        (b'{"apiVersion":"admission.k8s.io/v1","kind":"Review","request":{}}', "kind: "),
        (b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}', "request: "),
        (b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":""}}', "request.uid: "),
    ],
)
def test_what_is_no_review(body: bytes, part: str) -> None:
    with pytest.raises(MalformedReview, match=part):
        parse_review(body)


def test_a_review_of_an_object_with_deep_managed_fields_is_read() -> None:
    """The API server stores them 10,000 levels deep, and asks about each later write of that object."""
    deep = '{"a":' * 3000 + "{}" + "}" * 3000
    pod = f'{{"metadata":{{"name":"p","managedFields":[{{"fieldsV1":{deep}}}]}},"spec":{{"nodeName":"n"}}}}'
    request = f'{{"uid":"u","resource":{{"version":"v1","resource":"pods"}},"operation":"UPDATE","object":{pod}}}'
    found = parse_review(f'{{"apiVersion":"{API_VERSION}","kind":"AdmissionReview","request":{request}}}'.encode())

    assert found.object is not None
    assert (found.object["metadata"]["name"], found.object["spec"]) == ("p", {"nodeName": "n"})


def test_warnings_are_one_line_of_what_http_can_carry() -> None:
    text = warning("a\nb\x00c" + "d" * 400)

    assert text.startswith("a b c")
    assert len(text) == MAX_WARNING
    assert text.isprintable()


def test_nodes_are_found_by_what_they_have_together() -> None:
    one = NodeFacts("one", {}, {"cpu": 1000, "memory": GI})
    assert answer_to("scavengerjobs", job(), facts(nodes=(one,))).warnings is None
