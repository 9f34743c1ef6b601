"""Installing, upgrading and uninstalling `ordinary-workload` on full nodes: no pod may lose its node to another one.

Each scenario runs with kube-scheduler as it comes and with the plugin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from scavenger_api import names
from scavenger_kube.errors import ApiError

from bench.scheduler import harness

if TYPE_CHECKING:
    from tests.integration.scheduler.conftest import Pool
else:
    Pool = Any

NODES: Final = 3
CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"
DEPLOYMENTS: Final = "/apis/apps/v1/namespaces/default/deployments"
SHIPPED: Final = harness.MANIFESTS / "base" / "priorityclasses.yaml"


def an_install_and_an_uninstall(pool: Pool) -> None:
    """Pods from before, from between and from afterwards leave each other alone, in a chain of replacements too."""
    with changed_classes(pool):
        uninstall(pool)
        pool.with_nodes(NODES, cpu="1")
        before = deploy(pool, NODES)
        install(pool)
        displaces_nobody(pool, "new", before)
        # A replacement is new. One of the two that wait takes the free node; the other must not displace a pod.
        first, *rest = sorted(before)
        pool.client.request("DELETE", f"{harness.PODS}/{first}")
        pool.until("the free node to be taken", lambda: len(running(pool)) == NODES)
        displaces_nobody(pool, "newer", set(rest))
        uninstall(pool)
        displaces_nobody(pool, "afterwards", running(pool))


def an_upgrade_from_a_class_of_1000(pool: Pool) -> None:
    """The value cannot change, so the class is deleted first. Pods that have 1000 keep it, and displace none later."""
    with changed_classes(pool):
        uninstall(pool)
        pool.with_nodes(NODES, cpu="1")
        pool.client.request("POST", CLASSES, former())
        pool.until("pods to get the class", lambda: rank(pool) == (names.PRIORITY_CLASS_ORDINARY, 1000))
        before = deploy(pool, NODES)
        uninstall(pool)
        install(pool)
        displaces_nobody(pool, "new", before)


def classes_of_the_cluster_s_own(pool: Pool) -> None:
    """Between 1 and 999: their pods outrank those that name no class, as before the install."""
    own = f"{pool.name}-own"
    pool.client.request("POST", CLASSES, {**class_named(own), "value": 500})
    try:
        pool.until("pods of the class to be let in", lambda: rank(pool, own) == (own, 500))
        pool.with_nodes(1, cpu="1")
        pool.submit(unranked(pool, "web"))
        pool.wait_running(f"{pool.name}-web")
        pool.submit(unranked(pool, "db", own))
        pool.wait_running(f"{pool.name}-db")
        displaces_nobody(pool, "new", {f"{pool.name}-db"})
    finally:
        pool.client.request("DELETE", f"{CLASSES}/{own}")


SCENARIOS: Final[tuple[Callable[[Pool], None], ...]] = (
    an_install_and_an_uninstall,
    an_upgrade_from_a_class_of_1000,
    classes_of_the_cluster_s_own,
)


def play(pool: Pool, scenario: Callable[[Pool], None]) -> None:
    """Run a scenario; its Deployment goes before the pods do."""
    try:
        scenario(pool)
    finally:
        pool.client.delete_all([f"{DEPLOYMENTS}/{pool.name}"])


# --- classes ---


@contextmanager
def changed_classes(pool: Pool) -> Iterator[None]:
    """The classes as shipped again afterwards."""
    try:
        yield
    finally:
        uninstall(pool)
        install(pool)


def install(pool: Pool) -> None:
    """The classes as the manifests have them."""
    pool.cluster.kubectl("apply", "--server-side", "-f", str(SHIPPED))
    wanted = (names.PRIORITY_CLASS_ORDINARY, names.PRIORITY_VALUES[names.PRIORITY_CLASS_ORDINARY])
    pool.until("pods to get the class", lambda: rank(pool) == wanted)


def uninstall(pool: Pool) -> None:
    """Without `ordinary-workload`."""
    pool.cluster.kubectl("delete", "priorityclass", names.PRIORITY_CLASS_ORDINARY, "--ignore-not-found")
    pool.until("pods to get no class", lambda: rank(pool) == ("", 0))


def former() -> dict[str, Any]:
    """The class as it was until its value became 0."""
    return {**class_named(names.PRIORITY_CLASS_ORDINARY), "value": 1000, "globalDefault": True}


def class_named(name: str) -> dict[str, Any]:
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}


def rank(pool: Pool, named: str = "") -> tuple[str, int]:
    """Class and priority that a pod gets at this moment; none of both where it is refused."""
    try:
        spec = pool.client.request("POST", f"{harness.PODS}?dryRun=All", unranked(pool, "probe", named))["spec"]
    except ApiError:  # the API server does not know the class yet
        return "?", -1
    return spec.get("priorityClassName", ""), spec["priority"]


# --- pods ---


def unranked(pool: Pool, name: str, named: str = "") -> dict[str, Any]:
    """A pod of one core for the nodes of the pool that names this class, or none."""
    body = pool.pods.ordinary(f"{pool.name}-{name}")
    del body["spec"]["priorityClassName"]
    if named:
        body["spec"]["priorityClassName"] = named
    return body


def deploy(pool: Pool, replicas: int) -> set[str]:
    """A Deployment that fills the nodes; returns the names of its pods when all run."""
    pod = unranked(pool, "web")
    template = {"metadata": {"labels": {**pod["metadata"]["labels"], "app": pool.name}}, "spec": pod["spec"]}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": pool.name}}, "template": template}
    meta = {"name": pool.name, "labels": {"pool": pool.name}}
    pool.client.request(
        "POST", DEPLOYMENTS, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}
    )
    pool.until("the Deployment to run", lambda: len(running(pool)) == replicas)
    return running(pool)


def running(pool: Pool) -> set[str]:
    return {name for name, pod in harness.listed(pool.cluster, pool.name).items() if harness.is_running(pod)}


def displaces_nobody(pool: Pool, name: str, others: set[str]) -> None:
    """A new pod that names no class finds no node, and kube-scheduler nominates none for it."""
    pool.submit(unranked(pool, name))
    pool.wait_unschedulable(f"{pool.name}-{name}")
    waiting = [pod for pod in harness.listed(pool.cluster, pool.name).values() if not pod["spec"].get("nodeName")]
    assert waiting
    assert not [pod["metadata"]["name"] for pod in waiting if pod["status"].get("nominatedNodeName")]
    assert others <= pool.living()
