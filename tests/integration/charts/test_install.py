"""Every chart by the real helm onto a real cluster: install, use, upgrade, uninstall, and nothing left behind."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from scavenger_api import names
from scavenger_cluster import Cluster, service_images, stack
from scavenger_cluster.errors import ClusterError
from scavenger_testing import pages
from scavenger_testing.waiting import wait
from scavenger_testing.world import scavenger_job

from .board import shows_the_cluster
from .conftest import ROOT, SYSTEM, Helm, get
from .looks import every_page_is_right
from .published import REGISTRY_OF_THE_PAGES, published
from .readme import (
    DOCS,
    installs_and_interrupts_a_job,
    shows_it_on_a_dashboard,
    uses_the_command_line,
    writes_a_job,
)
from .shell import Shell

pytestmark = [pytest.mark.cpu, pytest.mark.timeout(900)]  # images are built and unpacked

SERVICES = ("admitter", "regulator", "prioritizer", "webhook", "board")
CHARTS = ("crds", "base", *SERVICES, "scheduler")
FINALIZER = "scavenger.dev/interruption-record"
SCHEDULER = "scavenger-scheduler"
CLUSTER_SCOPED = (
    "clusterroles,clusterrolebindings,priorityclasses,"
    "validatingadmissionpolicies,validatingadmissionpolicybindings,"
    "mutatingadmissionpolicies,mutatingadmissionpolicybindings,"
    "mutatingwebhookconfigurations,validatingwebhookconfigurations"
)


def ours(cluster: Cluster, kinds: str, *words: str) -> list[str]:
    """Names of the objects of these kinds that any chart or service of ours has made."""
    found = get(cluster, kinds, *words)["items"]
    return sorted(f"{o['kind']}/{o['metadata']['name']}" for o in found if "scavenger" in o["metadata"]["name"])


def definitions(cluster: Cluster) -> list[str]:
    return cluster.kubectl("get", "crd", "-o", "name", "-l", "app.kubernetes.io/part-of=scavenger-jobs").split()


# --- the API server's part ---


def test_install_and_uninstall_leave_nothing_cluster_wide(cluster: Cluster, helm: Helm) -> None:
    for chart in CHARTS:
        helm.install(chart, *(["--set=replicas=0"] if chart in (*SERVICES, "scheduler") else []))
    assert len(definitions(cluster)) == 2
    assert "ClusterRole/scavenger-regulator" in ours(cluster, CLUSTER_SCOPED)

    for chart in reversed(CHARTS):
        helm.uninstall(chart, "--no-hooks")  # there may be no node here for the hook to run on
    assert not [name for name in ours(cluster, CLUSTER_SCOPED) if name != "PriorityClass/ordinary-workload"]
    assert not ours(cluster, "deployments,services,serviceaccounts,roles,rolebindings,poddisruptionbudgets", "-A")
    assert len(definitions(cluster)) == 2, "kept"

    helm.install("crds", "--set=keep=false")  # adopts what was kept
    helm.uninstall("crds")  # helm 4.3's --wait gives up on a CustomResourceDefinition that is still terminating
    wait("no definition left", lambda: not definitions(cluster), describe=helm.describe)


def test_a_class_of_another_value_is_not_installed_over(cluster: Cluster, helm: Helm) -> None:
    """The value of a class cannot change: helm would fail half way, or leave pods of two ranks."""
    delete = "kubectl delete priorityclass ordinary-workload"
    cluster.kubectl("create", "priorityclass", "ordinary-workload", "--value=1000")
    try:
        said = helm.refused(*helm.installation("base", "--set=defaultQueue.create=false"))
    finally:
        cluster.kubectl(*delete.split()[1:])
    assert "the PriorityClass ordinary-workload has the value 1000" in said
    assert delete in said
    helm.install("base", "--set=defaultQueue.create=false")
    assert get(cluster, "priorityclass", "ordinary-workload")["value"] == 0
    helm.uninstall("base")


def test_the_default_queue_is_the_administrators(cluster: Cluster, helm: Helm) -> None:
    """Its weight survives upgrades, it survives the uninstall, and one that somebody else made is left alone."""

    def weight() -> int:
        return int(get(cluster, "scavengerqueue", "default")["spec"]["weight"])

    helm.install("crds")
    helm.install("base")
    assert weight() == 1
    cluster.kubectl("patch", "scavengerqueue", "default", "--type=merge", "-p", '{"spec": {"weight": 5}}')
    helm.install("base")
    helm.install("base", "--set", "labels.team=batch")
    assert weight() == 5
    assert get(cluster, "scavengerqueue", "default")["metadata"]["labels"]["team"] == "batch"
    helm.uninstall("base")
    assert weight() == 5
    helm.install("base")
    assert weight() == 5
    helm.uninstall("base")
    cluster.kubectl("delete", "scavengerqueue", "default")
    queue = "apiVersion: scavenger.dev/v1alpha1\nkind: ScavengerQueue\nmetadata: {name: default}\nspec: {weight: 7}"
    cluster.kubectl("create", "-f", "-", input=queue)
    helm.install("base")
    helm.uninstall("base")
    assert weight() == 7
    helm.uninstall("crds")


def test_what_kustomize_installed_helm_takes_over(cluster: Cluster, helm: Helm) -> None:
    cluster.kubectl("apply", "--server-side", "-k", str(ROOT / "manifests" / "admitter"))
    before = get(cluster, "deployment", "scavenger-admitter", "-n", SYSTEM)

    helm.install("admitter", "--take-ownership", "--set=replicas=0", "--force-conflicts")
    after = get(cluster, "deployment", "scavenger-admitter", "-n", SYSTEM)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["spec"] == before["spec"] | {"replicas": 0}

    helm.install("admitter", "--set=settings.workers=8", "--set=replicas=0")
    changed = get(cluster, "deployment", "scavenger-admitter", "-n", SYSTEM)
    assert {"name": "SCAVENGER_WORKERS", "value": "8"} in changed["spec"]["template"]["spec"]["containers"][0]["env"]
    helm.uninstall("admitter", "--no-hooks")


def test_uninstall_that_cannot_clean_up_deletes_nothing_and_can_be_repeated(cluster: Cluster, helm: Helm) -> None:
    absent = ("--set=replicas=0", "--set=image.tag=absent", "--set=uninstall.timeoutSeconds=2")
    helm.install("admitter", *absent)

    assert "scavenger-admitter-uninstall" in helm.refused("uninstall", "scavenger-admitter")
    assert ours(cluster, "deployments,serviceaccounts", "-n", SYSTEM) == [
        "Deployment/scavenger-admitter",
        "ServiceAccount/scavenger-admitter",
    ]
    helm.uninstall("admitter", "--no-hooks")
    left = ours(cluster, "deployments,serviceaccounts,roles,rolebindings,jobs", "-n", SYSTEM)
    assert left == ["Job/scavenger-admitter-uninstall"], "the failed Job, to be looked at"
    cluster.kubectl("delete", "-n", SYSTEM, "job", "scavenger-admitter-uninstall")


# --- with a kubelet ---


@pytest.fixture(scope="module")
def registry(cluster: Cluster) -> Iterator[str]:
    """The address of a registry on loopback that has a release of this checkout."""
    with published(cluster) as address:
        yield address


@pytest.fixture
def shell(cluster: Cluster, helm: Helm, tmp_path: Path) -> Shell:
    folder = tmp_path / "bin"
    folder.mkdir()
    return Shell(cluster, helm, folder)


def pulled(cluster: Cluster) -> set[str]:
    """The images that the node did not have, and got from a registry."""
    said = [event["message"] for event in get(cluster, "events", "-A", "--field-selector=reason=Pulled")["items"]]
    return {found[1] for message in said if (found := re.match('Successfully pulled image "(.+?)"', message))}


@pytest.mark.real
@pytest.mark.parametrize(
    "every_page", [False, pytest.param(True, marks=pytest.mark.long)], ids=["the README", "every page"]
)
def test_life_of_an_installation(
    cluster: Cluster,
    helm: Helm,
    shell: Shell,
    registry: str,
    chromium: str | None,
    prometheus_program: Path,
    tmp_path: Path,
    every_page: bool,
) -> None:
    """As the README has it, on a cluster with nothing of ours: install, a job, a dashboard, the board, and away again.
    Its commands are what runs, word by word: the node pulls what they name. The upgrade is to a published chart."""
    cluster.kubectl("delete", "namespace", SYSTEM, "--timeout=110s", timeout=120)  # the page makes it
    (leave,) = pages.blocks(DOCS / "uninstall.md", "## One release")
    (for_good,) = pages.blocks(DOCS / "uninstall.md", "## The CRDs, too")
    installs_and_interrupts_a_job(cluster, shell)
    images = {f"{REGISTRY_OF_THE_PAGES}/scavenger/{name}:{service_images.version()}" for name in SERVICES}
    assert pulled(cluster) >= images, "nothing was there before"
    writes_a_job(cluster, shell, tmp_path, lambda name, phase: wait_phase(cluster, helm, name, phase))
    uses_the_command_line(shell)
    shows_it_on_a_dashboard(cluster, shell, prometheus_program, tmp_path)
    if every_page:
        every_page_is_right(shell, tmp_path)

    refuses_a_bad_job(cluster)
    generation = get(cluster, "deployment", "scavenger-admitter", "-n", SYSTEM)["metadata"]["generation"]
    changes = ("settings.explainAfter=2s", "replicas=1")
    upgrade = ("upgrade", "scavenger", *published_chart(registry), "--reset-then-reuse-values", "--wait")
    helm(*upgrade, *(f"--set=scavenger-admitter.{change}" for change in changes))
    changed = get(cluster, "deployment", "scavenger-admitter", "-n", SYSTEM)
    assert changed["metadata"]["generation"] == generation + 1

    def ready_replicas() -> int:
        return int(get(cluster, "deployment", "scavenger-admitter", "-n", SYSTEM)["status"].get("readyReplicas", 0))

    wait("one replica, which is ready", lambda: ready_replicas() == 1, describe=helm.describe)

    start(cluster, helm, "long", "--seconds=3600", "--steps=100000")
    shows_the_cluster(shell, chromium, "research/long")
    uninstall_everything(cluster, shell, leave)

    def held() -> list[dict[str, Any]]:
        return [pod for pod in get(cluster, "pods", "-n", "research")["items"] if pod["metadata"].get("finalizers")]

    # That of the Job controller goes soon; of ours nobody would take it off.
    wait("no finalizer", lambda: not held(), describe=helm.describe)
    wait("no Job", lambda: not get(cluster, "jobs", "-n", "research")["items"], describe=helm.describe)
    kept = {job["metadata"]["name"] for job in get(cluster, "scavengerjobs", "-n", "research")["items"]}
    assert kept >= {"simulation", "pi", "long"}, "as their definition is"
    shell.paste(for_good)
    assert not definitions(cluster)
    assert SYSTEM not in cluster.kubectl("get", "namespaces", "-o", "name")
    assert not ours(cluster, f"{CLUSTER_SCOPED},flowschemas,prioritylevelconfigurations")
    delete_research(cluster)


def published_chart(registry: str) -> list[str]:
    """What helm is told on the page to install from a registry, with the address of this one."""
    publishing, *_ = pages.blocks(DOCS / "publish.md", "# Publish a release")
    words = re.search(r"oci://\S+ --version \S+", publishing)
    assert words is not None
    return [*words[0].replace(f"{REGISTRY_OF_THE_PAGES}/team", registry).split(), "--plain-http"]


def delete_research(cluster: Cluster) -> None:
    cluster.kubectl("delete", "namespace", "research", "--timeout=180s", timeout=200)


def refuses_a_bad_job(cluster: Cluster) -> None:
    """Through its Service, by a replica in a pod, under the authority that the replicas have agreed on."""

    def answer() -> str:
        """What is said of it; empty while the API server does not know of the webhook yet, and so has nothing against
        it. Until the node knows where the Service leads, it says that the webhook cannot be reached."""
        try:
            cluster.kubectl("apply", "-n", "research", "--dry-run=server", "-f", "-", input=yaml.safe_dump(bad))
        except ClusterError as error:
            return str(error)
        return ""

    bad = scavenger_job("bad", "run", queue="nowhere")
    wait("it to be refused", lambda: "there is no queue 'nowhere'; choose another queue" in answer(), describe=answer)
    with pytest.raises(ClusterError, match="there is no queue 'nowhere'; choose another queue"):
        apply(cluster, bad)


def apply(cluster: Cluster, body: dict[str, Any]) -> None:
    cluster.kubectl("apply", "-n", "research", "-f", "-", input=yaml.safe_dump(body))


def start(cluster: Cluster, helm: Helm, name: str, *arguments: str) -> None:
    """Start a scavenger job and wait until it runs."""
    apply(cluster, scavenger_job(name, "run", "--dir=/tmp/c", *arguments, cpu="100m"))
    wait_phase(cluster, helm, name, "Running")
    pods = get(cluster, "pods", "-n", "research", "-l", f"scavenger.dev/job={name}")["items"]
    assert [pod["metadata"]["finalizers"].count(FINALIZER) for pod in pods] == [1]


def wait_phase(cluster: Cluster, helm: Helm, name: str, phase: str) -> None:
    def status() -> dict[str, Any]:
        return dict(get(cluster, "scavengerjob", name, "-n", "research").get("status", {}))

    def describe() -> str:
        return f"{status()}\n{helm.describe()}"

    wait(f"{name} {phase}", lambda: status().get("phase") == phase, 300, describe)


def uninstall_everything(cluster: Cluster, shell: Shell, leave: str) -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {
            "name": names.DISRUPTION_BUDGET,
            "labels": {names.LABEL_MANAGED_BY: names.PRIORITIZER},
        },
        "spec": {"minAvailable": 1000000, "selector": {"matchLabels": {"scavenger.dev/preemption-class": "x"}}},
    }
    apply(cluster, budget)  # as the prioritizer would have made it
    shell.paste(leave)
    assert not ours(cluster, "poddisruptionbudgets", "-n", "research")
    assert not ours(cluster, "configmaps", "-n", SYSTEM)
    assert not ours(cluster, CLUSTER_SCOPED)
    left = ours(cluster, "deployments,services,serviceaccounts,roles,rolebindings,jobs,poddisruptionbudgets", "-A")
    assert not left, "what the hooks have made goes with them"
    assert len(definitions(cluster)) == 2


# --- the second scheduler ---


def placed(name: str, priority_class: str, share: float, cores: float, **job: Any) -> dict[str, Any]:
    """A pod that asks the second scheduler for a share of the node's cores."""
    sleep = "import signal, time; signal.signal(signal.SIGTERM, lambda *_: exit(0)); time.sleep(3600)"
    main = {
        "name": "main",
        "image": stack.COUNTER_IMAGE,
        "command": ["python3", "-c", sleep],
        "resources": {"requests": {"cpu": f"{int(share * cores * 1000)}m"}},
    }
    spec = {"schedulerName": SCHEDULER, "priorityClassName": priority_class, "terminationGracePeriodSeconds": 2}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **job},
        "spec": {**spec, "containers": [main]},
    }


@pytest.mark.long
@pytest.mark.real
def test_the_image_of_the_scheduler_schedules_and_preempts_beside_the_unmodified_one(
    cluster: Cluster, helm: Helm
) -> None:
    service_images.load(cluster, ["scheduler"])
    stack.build_images(cluster)
    helm.install("crds")
    helm.install("base", "--set=guard.enabled=false")  # scavenger pods are made by hand here
    helm.install("scheduler", "--wait", "--timeout=300s")

    def leader() -> str:
        words = ("lease", SCHEDULER, "-n", SYSTEM, "--ignore-not-found", "-o=jsonpath={.spec.holderIdentity}")
        return cluster.kubectl("get", *words)

    found = wait("somebody to lead", leader, describe=helm.describe)
    assert found.startswith(f"{SCHEDULER}-"), "a pod of the Deployment leads"
    cluster.kubectl("create", "namespace", "research")
    # Before that no pod is taken.
    cluster.kubectl("wait", "--for=create", "serviceaccount/default", "-n", "research", "--timeout=110s")
    (node,) = get(cluster, "nodes")["items"]
    cores = float(node["status"]["allocatable"]["cpu"])

    def phase(name: str) -> str:
        return cluster.kubectl(
            "get", "pod", name, "-n", "research", "--ignore-not-found", "-o=jsonpath={.status.phase}"
        )

    def run(body: dict[str, Any]) -> None:
        name = body["metadata"]["name"]
        apply(cluster, body)
        wait(f"{name} to run", lambda: phase(name) == "Running", describe=helm.describe)

    for name, risk in (("cheap", "10"), ("dear", "1000")):  # the unmodified one would take the younger
        labels = {"scavenger.dev/job": name, "scavenger.dev/preemption-class": "preemptible"}
        notes = {"scavenger.dev/running-priority": risk}
        run(placed(name, "scavenger-preemptible", 0.4, cores, labels=labels, annotations=notes))
    run(placed("web", "ordinary-workload", 0.35, cores))

    wait("cheap to be gone", lambda: not phase("cheap"), describe=helm.describe)
    assert phase("dear") == "Running"

    def preemptions() -> list[dict[str, Any]]:
        events = get(cluster, "events", "-n", "research")["items"]
        return [e for e in events if e["reason"] == "PreemptedBy" and e["involvedObject"]["name"] == "cheap"]

    (told,) = wait("the event", preemptions, describe=helm.describe)
    assert "research/web" in told["message"]
    assert told["reportingComponent"] == SCHEDULER
    delete_research(cluster)
    helm.uninstall("scheduler", "--wait")
    for chart in ("base", "crds"):
        helm.uninstall(chart)
    assert not ours(cluster, f"{CLUSTER_SCOPED},rolebindings", "-A")
