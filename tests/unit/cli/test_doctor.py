"""`kubectl sj doctor`: what of a cluster bites, each with its remedy."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from scavenger_api import names
from scavenger_api.times import format_time
from scavenger_cli.examination import Cluster, examine
from scavenger_cli.kueue import KueueConfiguration, parse
from scavenger_cli.objects import LabelSelector, LabelSelectorRequirement
from scavenger_domain.release import LABEL_OF
from scavenger_kube.kinds import ObjectMeta
from scavenger_kube.resources import Lease, LeaseSpec
from scavenger_testing import builders

from .cases import NOW, ago, levels
from .conftest import Answer, Run, Server, listed, status

BLIND = {"state": "Blind", "message": "the metrics API does not answer"}


def lease(service: str, renewed: float = 5, holder: str = "pod-1") -> Lease:
    return Lease(metadata=ObjectMeta(name=service), spec=LeaseSpec(holder, ago(renewed)))


def leases(**silent: float) -> list[Lease]:
    services = ("admitter", "prioritizer", "regulator")
    return [lease(f"scavenger-{name}", silent.get(name, 5)) for name in services]


def held(*, deleted: bool = True, phase: str = "Succeeded") -> Any:
    stamp = ago(60) if deleted else None
    return builders.pod("p", namespace="lab", phase=phase, finalizers=[names.FINALIZER], deleted=stamp)


KARPENTER = builders.node("n1", labels={"karpenter.sh/nodepool": "default"})
LEAVING = builders.node("n1", taints=[{"key": "DeletionCandidateOfClusterAutoscaler", "effect": "PreferNoSchedule"}])
NEVER = {"scavenger-admitter": "never", "scavenger-prioritizer": "auto"}
LAB = ObjectMeta(name="lab", labels={"kubernetes.io/metadata.name": "lab", "team": "blue"})
MESH = ObjectMeta(name="lab", labels={"istio-injection": "enabled"})
LINKERD = ObjectMeta(name="lab", annotations={"linkerd.io/inject": "enabled"})
CLASSES = dict(names.PRIORITY_VALUES)


def adopted(age: float, *conditions: dict[str, Any], queue: str = "default", **spec: Any) -> dict[str, Any]:
    labels = {names.LABEL_QUEUE: queue} if queue else {}
    meta = {"namespace": "lab", "name": "a", "uid": "u", "creationTimestamp": ago(age), "labels": labels}
    wanted = {"managedBy": names.MANAGED_BY_ADOPTER, **spec}
    return {"metadata": meta, "spec": wanted, "status": {"conditions": list(conditions)}}


def ledger(age: float, reason: str = "Running") -> dict[str, Any]:
    return {"type": names.CONDITION_LEDGER, "status": "False", "reason": reason, "lastProbeTime": ago(age)}


DONE: dict[str, Any] = {"type": "Complete", "status": "True"}
COPY = {"metadata": {"namespace": "lab", "name": "a-r0000", "labels": {LABEL_OF: "a"}}, "spec": {}}

CASES: list[tuple[str, dict[str, Any], list[str]]] = [
    ("nothing is known", {}, []),
    ("all is well", {"leases": leases(), "budgets": ["lab"], "classes": CLASSES, "levels": levels()}, []),
    ("a service is away", {"leases": leases(regulator=61)}, ["ServiceAway"]),
    ("nobody holds the Lease", {"leases": [lease("scavenger-admitter", holder="")]}, ["ServiceAway"]),
    ("stale budgets", {"leases": leases(prioritizer=90), "budgets": ["lab"]}, ["ServiceAway", "StaleBudgets"]),
    ("budgets of a prioritizer that was removed", {"leases": [], "budgets": ["lab"]}, ["StaleBudgets"]),
    ("a budget of somebody else", {"leases": leases(), "foreign_budgets": ["lab"]}, ["BudgetNameTaken"]),
    ("budgets, and Leases may not be read", {"leases": None, "budgets": ["lab"]}, []),
    ("stale finalizers", {"leases": leases(admitter=90), "job_pods": [held()]}, ["ServiceAway", "StaleFinalizers"]),
    ("a pod that still runs", {"leases": leases(admitter=90), "job_pods": [held(phase="Running")]}, ["ServiceAway"]),
    ("the admitter is about to record it", {"leases": leases(), "job_pods": [held()]}, []),
    ("a Job that nobody runs", {"leases": leases(), "batch_jobs": [adopted(70)]}, ["UntouchedJobs"]),
    ("a new Job", {"leases": leases(), "batch_jobs": [adopted(50)]}, []),
    ("an adopted Job runs", {"leases": leases(), "batch_jobs": [adopted(9999, ledger(5000))]}, []),
    ("an adopted Job ran", {"leases": [], "batch_jobs": [adopted(9999, ledger(70))]}, ["UntouchedJobs"]),
    ("an adopted Job is done", {"leases": [], "batch_jobs": [adopted(9999, ledger(70), DONE)]}, []),
    ("a Job of somebody else", {"leases": [], "batch_jobs": [adopted(9999, managedBy="example.org/x")]}, []),
    ("a copy is left", {"leases": leases(), "batch_jobs": [COPY]}, ["HalfReleased"]),
    ("Karpenter and budgets", {"leases": leases(), "nodes": [KARPENTER], "budgets": ["a"]}, ["BudgetsKeepNodes"]),
    ("Karpenter without budgets", {"leases": leases(), "nodes": [KARPENTER], "budgets": []}, []),
    ("Karpenter, and it may not remove", {"nodes": [KARPENTER], "keep_scale_down": NEVER}, ["KeepScaleDownOff"]),
    ("Cluster Autoscaler's taint", {"nodes": [LEAVING], "keep_scale_down": NEVER}, ["KeepScaleDownOff"]),
    ("Cluster Autoscaler's status", {"autoscaler_status": True, "keep_scale_down": NEVER}, ["KeepScaleDownOff"]),
    ("no autoscaler", {"nodes": [builders.node("n1")], "keep_scale_down": NEVER}, []),
    ("by default", {"nodes": [KARPENTER], "keep_scale_down": {"scavenger-admitter": ""}}, []),
    ("a setting of another service", {"nodes": [KARPENTER], "keep_scale_down": {"webhook": "never"}}, []),
    ("a node that refuses pods", {"nodes": [builders.node("n1")], "shunned": {"n1": "no device"}}, ["NodesRefusePods"]),
    ("a node that is gone", {"nodes": [builders.node("n1")], "shunned": {"n2": "no device"}}, []),
    ("Kueue", {"kueue": KueueConfiguration(manages_all=True)}, ["KueueManagesJobs"]),
    ("Kueue leaves Jobs alone", {"kueue": KueueConfiguration()}, []),
    ("jobs that need a feature gate", {"incomplete": "the API server drops it"}, ["InstallationIncomplete"]),
    ("a mesh", {"namespaces": [MESH], "job_namespaces": ["lab"]}, ["MeshInjection"]),
    ("another mesh", {"namespaces": [LINKERD], "job_namespaces": ["lab"]}, ["MeshInjection"]),
    ("a mesh where no jobs are", {"namespaces": [MESH], "job_namespaces": ["other"]}, []),
    ("an old ordinary class", {"classes": CLASSES | {"ordinary-workload": 1000, "mid": 10}}, ["OrdinaryClassValue"]),
    ("a low class", {"classes": CLASSES | {"batch": -1000}}, ["LowClasses"]),
    ("a class just above", {"classes": CLASSES | {"batch": -999}}, []),
    ("a foreign scheduler", {"pods": [builders.pod("p", scheduler="volcano")]}, ["ForeignScheduler"]),
    ("our scheduler", {"pods": [builders.pod("p", scheduler="scavenger-scheduler")]}, []),
    ("no measurement", {"levels": levels(**BLIND)}, ["NoMeasurement"]),
    ("old levels", {"levels": levels(observedAt=ago(600))}, ["NoMeasurement"]),
    ("cooling down", {"levels": levels(admit="false")}, []),
    ("one version", {"images": {"a": ["r/a:0.2.0"], "b": ["r:5000/b:0.2.0"]}}, []),
    ("one version with digests", {"images": {"a": ["r/a:0.2.0@sha256:1"], "b": ["r/b:0.2.0@sha256:2"]}}, []),
    ("digests alone", {"images": {"a": ["r/a@sha256:1"], "b": ["r:5000/b@sha256:2"]}}, []),
    ("two versions", {"images": {"a": ["r/a:0.2.0"], "b": ["r/b:0.1.0"]}}, ["VersionsDiffer"]),
]


@pytest.mark.parametrize(("name", "seen", "expected"), CASES, ids=[case[0] for case in CASES])
def test_what_bites(name: str, seen: dict[str, Any], expected: list[str]) -> None:
    found = examine(Cluster(NOW, **seen))
    assert [one.name for one in found] == expected
    assert all(one.text and one.remedy for one in found)


SERVED = LabelSelector(
    match_expressions=(LabelSelectorRequirement(names.LABEL_ADOPT, "In", (names.ADOPT_LABELLED, names.ADOPT_ALL)),)
)
EVERYWHERE = LabelSelector(
    match_expressions=(LabelSelectorRequirement(names.LABEL_ADOPT, "NotIn", (names.ADOPT_NEVER,)),)
)
WAITS = adopted(9999, ledger(70, "Waiting"))
NOT_SERVED = {"namespaces": [LAB], "serving": [SERVED]}


@pytest.mark.parametrize(
    ("job", "seen", "words"),
    [
        (adopted(70, ledger(65)), {"leases": []}, "no admitter leads"),
        (adopted(70, ledger(65)), {"adopts": False}, "adoption is off"),
        (adopted(70, ledger(50)), {"adopts": False}, ""),
        (adopted(70), {"adopts": True}, "the admitter does not run them"),
        (adopted(70, queue=""), {}, "no component runs a Job with their spec.managedBy and labels"),
        (adopted(70, managedBy=names.MANAGED_BY), {}, "no component runs"),
        (adopted(70, managedBy="scavenger.dev/other"), {}, "no component runs"),
        (WAITS, NOT_SERVED, "their namespace is not served"),
        (WAITS, {**NOT_SERVED, "serving": [EVERYWHERE]}, ""),
        (WAITS, {**NOT_SERVED, "serving": [SERVED, EVERYWHERE]}, ""),
        (WAITS, {**NOT_SERVED, "serving": None}, ""),
        (WAITS, {**NOT_SERVED, "namespaces": None}, ""),
        (adopted(9999, ledger(70)), NOT_SERVED, ""),
    ],
)
def test_what_keeps_an_adopted_job_from_running(job: dict[str, Any], seen: dict[str, Any], words: str) -> None:
    found = examine(Cluster(NOW, **{"leases": leases(), **seen, "batch_jobs": [job]}))
    assert [words in one.text for one in found] == ([True] if words else [])
    assert all("lab/a" in one.text for one in found)


def kueue(text: str, *, local_queues: tuple[str, ...] = (), meta: ObjectMeta = LAB) -> list[str]:
    """What is found of Kueue where jobs are in one namespace."""
    configured = parse({"controller_manager_config.yaml": f"kind: Configuration\n{text}"})
    assert configured is not None
    found = examine(
        Cluster(NOW, kueue=configured, namespaces=[meta], job_namespaces={meta.name}, local_queues=local_queues)
    )
    assert {one.name for one in found} <= {"KueueManagesJobs"}
    return [one.text for one in found]


ALL = "manageJobsWithoutQueueName: true"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (ALL, "suspends Jobs without a queue"),
        ("manageJobsWithoutQueueName:   true  # as agreed", "suspends Jobs without a queue"),
        (f"{ALL}\nintegrations: {{frameworks: [pod]}}", "holds pods by a scheduling gate"),
        (f"{ALL}\nintegrations: {{frameworks: [pod, batch/job]}}", "suspends Jobs"),
        (f"{ALL}\nmanagedJobsNamespaceSelector: {{matchLabels: {{team: blue}}}}", "in lab"),
    ],
)
def test_kueue_manages_jobs(text: str, words: str) -> None:
    (found,) = kueue(text)
    assert words in found


@pytest.mark.parametrize(
    "text",
    [
        "manageJobsWithoutQueueName: false",
        "#manageJobsWithoutQueueName: true",
        f"{ALL}\nintegrations: {{frameworks: [ray.io/rayjob]}}",
        f"{ALL}\nmanagedJobsNamespaceSelector: {{matchLabels: {{team: red}}}}",
        f"{ALL}\nmanagedJobsNamespaceSelector:\n"
        "  matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system, lab]}]",
    ],
)
def test_kueue_leaves_these_alone(text: str) -> None:
    assert kueue(text) == []


def test_by_default_kueue_leaves_its_own_namespace_alone() -> None:
    own = ObjectMeta(name="queues", labels={"kubernetes.io/metadata.name": "queues"})
    assert kueue(f"{ALL}\nnamespace: queues", meta=own) == []
    assert len(kueue(ALL, meta=own)) == 1


def test_a_default_local_queue_takes_jobs_of_its_namespace() -> None:
    (found,) = kueue("namespace: kueue-system", local_queues=("lab", "other"))
    assert "in lab until its LocalQueue default" in found
    assert kueue("namespace: kueue-system", local_queues=("other",)) == []
    assert len(kueue(ALL, local_queues=("lab",))) == 1


def test_a_configuration_that_cannot_be_read_is_none() -> None:
    assert parse({"a": "{", "b": "kind: Configuration\nintegrations: 3"}) is None
    assert parse({"a": "- 1", "c": "kind: Configuration"}) == KueueConfiguration()


def test_the_old_class_names_those_that_it_outranks() -> None:
    found = examine(Cluster(NOW, classes=CLASSES | {"ordinary-workload": 1000, "mid": 10}))
    assert "those of mid" in found[0].text


def _answers(server: Server) -> None:
    empty = listed()
    for path in (
        "/apis/coordination.k8s.io/v1/namespaces/scavenger-system/leases",
        "/api/v1/nodes",
        "/api/v1/pods",
        "/api/v1/namespaces",
        "/apis/scavenger.dev/v1alpha1/scavengerjobs",
        "/apis/apps/v1/namespaces/scavenger-system/deployments",
    ):
        server.on(path, empty)
    meta = {"name": names.DISRUPTION_BUDGET, "labels": {names.LABEL_MANAGED_BY: names.PRIORITIZER}}
    budgets = listed(
        {"metadata": {**meta, "namespace": "lab"}}, {"metadata": {**meta, "namespace": "theirs", "labels": {}}}
    )
    server.on("/apis/policy/v1/poddisruptionbudgets", budgets)
    server.on("/apis/scheduling.k8s.io/v1/priorityclasses", Answer(403, status(403, "Forbidden", "no")))
    for missing in (
        "/api/v1/namespaces/kueue-system/configmaps/kueue-manager-config",
        "/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status",
        "/api/v1/namespaces/scavenger-system/configmaps/scavenger-levels",
    ):
        server.on(missing, Answer(404, status(404, "NotFound", "none")))


def test_the_command(server: Server, sj: Run) -> None:
    _answers(server)
    code, out, err = sj("doctor")
    assert code == 6
    assert "error: 2 problems to mend" in err
    assert "StaleBudgets" in out
    assert "the configuration of Kueue, Deployments of the components (0), budgets (2), " in " ".join(out.split())
    assert "scavengernoleader" in out
    assert "not permitted to read priority classes" in err
    code, out, _ = sj("doctor", "-o", "json")
    data = json.loads(out)
    assert [one["name"] for one in data["ailments"]] == ["StaleBudgets", "BudgetNameTaken"]
    assert ["theirs" in one["text"] for one in data["ailments"]] == [False, True]
    assert data["notPermitted"] == ["priority classes"]
    assert "nodes (0)" in data["lookedAt"]


def test_the_command_reads_settings_and_kueue(server: Server, sj: Run) -> None:
    _answers(server)
    env = [{"name": "SCAVENGER_NAMESPACE", "valueFrom": {}}, {"name": "SCAVENGER_KEEP_SCALE_DOWN", "value": "never"}]
    template = {"spec": {"containers": [{"image": "r/scavenger-admitter:0.2.0", "env": env}]}}
    admitter = {"metadata": {"name": names.ADMITTER}, "spec": {"template": template}}
    server.on("/apis/apps/v1/namespaces/scavenger-system/deployments", listed(admitter))
    server.on("/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status", Answer(body={"data": {}}))
    meta = {"name": "lab", "labels": {"kubernetes.io/metadata.name": "lab"}}
    server.on("/api/v1/namespaces", listed({"metadata": meta}))
    lacks = {"type": "Admitted", "status": "False", "reason": "InstallationIncomplete", "message": "a feature gate"}
    job = builders.scavengerjob_dict("a", namespace="lab", status={"phase": "Waiting", "conditions": [lacks]})
    server.on("/apis/scavenger.dev/v1alpha1/scavengerjobs", listed(job))
    config = {"controller_manager_config.yaml": "kind: Configuration\n"}
    server.on("/api/v1/namespaces/kueue-system/configmaps/kueue-manager-config", Answer(body={"data": config}))
    queue = {"metadata": {"name": "default", "namespace": "lab"}}
    server.on("/apis/kueue.x-k8s.io/v1beta1/localqueues", listed(queue))
    code, out, err = sj("doctor", "-o", "json")
    assert (code, err) == (6, "error: 4 problems to mend\n")
    assert [one["name"] for one in json.loads(out)["ailments"]] == [
        "StaleBudgets",
        "BudgetNameTaken",
        "KeepScaleDownOff",
        "InstallationIncomplete",
        "KueueManagesJobs",
    ]


def test_the_command_says_which_adopted_jobs_nobody_runs(server: Server, sj: Run) -> None:
    _answers(server)
    server.on("/apis/policy/v1/poddisruptionbudgets", listed())
    waits = builders.adopted_job_dict("a", namespace="lab", created=ago(9999))
    waits["status"] = {"conditions": [ledger(70, "Waiting") | {"message": '{"v":1}'}]}
    server.on("/apis/batch/v1/jobs", listed(waits, adopted(9999, managedBy="example.org/x")))
    lease = {
        "metadata": {"name": names.ADMITTER},
        "spec": {"holderIdentity": "pod-1", "renewTime": format_time(datetime.now(UTC))},
    }
    server.on("/apis/coordination.k8s.io/v1/namespaces/scavenger-system/leases", listed(lease))
    server.on("/api/v1/namespaces", listed({"metadata": {"name": "lab"}}, {"metadata": {"name": "other"}}))
    where = {"matchExpressions": [{"key": names.LABEL_ADOPT, "operator": "Exists"}]}
    spec = {"policyName": "scavenger-adopt", "matchResources": {"namespaceSelector": where}}
    admission = "/apis/admissionregistration.k8s.io/v1"
    server.on(f"{admission}/mutatingadmissionpolicybindings", listed({"metadata": {"name": "a"}, "spec": spec}))
    data = json.loads(sj("doctor", "-o", "json")[1])
    (found,) = data["ailments"]
    assert "their namespace is not served" in found["text"]
    hook = {"name": "jobs", "rules": [{"resources": ["jobs"]}], "namespaceSelector": {}}
    server.on(f"{admission}/mutatingwebhookconfigurations", listed({"metadata": {"name": "b"}, "webhooks": [hook]}))
    assert json.loads(sj("doctor", "-o", "json")[1])["ailments"] == []
    admitter = {"metadata": {"name": names.ADMITTER}, "spec": {"template": {"spec": {"containers": [{"image": "i"}]}}}}
    server.on("/apis/apps/v1/namespaces/scavenger-system/deployments", listed(admitter))
    assert "adoption is off" in json.loads(sj("doctor", "-o", "json")[1])["ailments"][0]["text"]


def test_advice_alone_is_no_reason_to_fail(server: Server, sj: Run) -> None:
    _answers(server)
    server.on("/apis/policy/v1/poddisruptionbudgets", listed())
    assert sj("doctor")[1].startswith("nothing found\nlooked at: ")
    server.on("/api/v1/pods", listed(builders.pod_dict("p", namespace="lab", scheduler="volcano")))
    code, out, err = sj("doctor")
    assert (code, err) == (0, "not permitted to read priority classes\n")
    assert "ForeignScheduler" in out
