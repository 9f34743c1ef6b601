"""A cluster with everything installed, and a user who has `edit` in one namespace of it and nothing else.

What the user does is asked twice: by impersonation, where a table of requests is sent without effect (dry run passes
all of admission), and with kubectl and a token of the user's own, where things have to happen.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest
from scavenger_api import names
from scavenger_cluster import Cluster, stack
from scavenger_cluster.build import ensure_tools
from scavenger_testing.cluster_names import cluster_name
from scavenger_testing.place import MERGE_PATCH, Answer, Object, Place, Server, namespace, pod
from scavenger_testing.waiting import wait

NODES: Final = 4
CPUS: Final = 8
LAST_NODE: Final = f"fake-{NODES - 1:03}"
UNSEEN: Final = "kube-public"
"""The namespace of the pod that no scheduler looks at."""
TENANT: Final = "tenant"
GROUPS: Final = ("system:authenticated",)
SERVICES: Final = ("webhook", "admitter", "prioritizer", "regulator")
SETTINGS: Final = {
    "PYTEST_CURRENT_TEST": "",  # or every test would have another environment
    "SCAVENGER_START_BACKOFF": "1",
    "SCAVENGER_LEASE_DURATION": "60",
    "SCAVENGER_RENEW_DEADLINE": "50",
    "SCAVENGER_RETRY_PERIOD": "1",
    # what the administrator allows
    "SCAVENGER_MAX_INTERRUPTION_AFTER": "2h",
    # the regulator decides every two seconds, by what is requested: fake nodes measure nothing
    "SCAVENGER_PERIOD": "2",
    "SCAVENGER_HISTORY_MIN_SAMPLES": "100000",
    "SCAVENGER_LEVEL_STEP": "0",
    "SCAVENGER_COOLDOWN": "2",
    # nobody is protected, whenever the prioritizer gets to it: what a user may do to a pod is then always the same
    "SCAVENGER_FLOOR": "100",
    "SCAVENGER_FALLBACK_PREEMPTIBLE_PERCENT": "100",
    "SCAVENGER_YIELD_AT_CHECKPOINT": "false",
}


@dataclass(frozen=True)
class Tenant:
    """The user: what is sent under that name, in the user's own namespace or another."""

    place: Place
    token: str
    kubectl: Path
    folder: Path

    def __call__(self, method: str, path: str, body: object = None, *, patch: bool = False) -> Answer:
        """One request without effect that passes all of admission; `path` below the API, `{ns}` is the namespace."""
        kind = MERGE_PATCH if patch else "application/json"
        if method == "DELETE" and isinstance(body, dict):
            body = {**body, "dryRun": ["All"]}  # with a body, the query is not asked
        query = "&" if "?" in path else "?"
        full = f"{path.replace('{ns}', self.place.namespace)}{query}dryRun=All"
        return self.place.server(method, full, body, user=TENANT, groups=GROUPS, content_type=kind)

    def run(self, *words: str, stdin: object = None) -> subprocess.CompletedProcess[str]:
        """Run kubectl with the user's token. A refusal is an answer, not an exception."""
        layout = self.place.cluster.layout
        return subprocess.run(
            [
                str(self.kubectl),
                "--kubeconfig=/dev/null",
                f"--cache-dir={self.folder}",
                f"--server={self.place.cluster.state.server}",
                f"--certificate-authority={layout.pki / 'ca.crt'}",
                f"--token={self.token}",
                f"--namespace={self.place.namespace}",
                *words,
            ],
            input=None if stdin is None else json.dumps(stdin),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def ok(self, *words: str, stdin: object = None) -> str:
        done = self.run(*words, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="package")
def cluster() -> Iterator[Cluster]:
    """Fake nodes, and all four services under their own accounts."""
    found = Cluster(cluster_name("it-tenants"), report=lambda line: None)
    try:
        found.up(f"fake:{NODES}", fake_cpu=str(CPUS), fake_memory="64Gi", fake_pods=200)
        stack.install(found)
        stack.start(found, SERVICES, SETTINGS)
        leave_unseen(found)
        yield found
    finally:
        found.down()


def leave_unseen(cluster: Cluster) -> None:
    """A pod of a scheduler that nobody runs, for all of the last node. It holds capacity for a minute, which the tests
    before test_unseen.py have no need of."""
    whole = [{"name": "main", "image": "none", "resources": {"requests": {"cpu": str(CPUS - 1)}}}]
    where = {"kubernetes.io/hostname": LAST_NODE}
    unseen = pod("unseen", schedulerName="nobody", nodeSelector=where, containers=whole)
    cluster.client.request("POST", f"/api/v1/namespaces/{UNSEEN}/pods", unseen)


def cores(count: int) -> Object:
    """The resources of a ScavengerJob."""
    return {"requests": {"cpu": str(count), "memory": "64Mi"}}


@pytest.fixture(scope="package")
def server(cluster: Cluster) -> Iterator[Server]:
    made = Server(cluster.kubeconfig)
    yield made
    made.close()


@pytest.fixture(scope="module")
def tenant(cluster: Cluster, server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenant]:
    """The user in a namespace of the module."""
    with made(cluster, server, tmp_path_factory.mktemp("kubectl")) as found:
        yield found


@contextmanager
def made(cluster: Cluster, server: Server, folder: Path) -> Iterator[Tenant]:
    """A namespace where the user has `edit`, by a RoleBinding as an administrator writes it; gone afterwards."""
    with namespace(cluster, server) as place:
        account = f"system:serviceaccount:{place.namespace}:{TENANT}"
        assert place.create("serviceaccounts", {"metadata": {"name": TENANT}}).allowed
        binding: Object = {
            "metadata": {"name": "tenant-edits"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
            "subjects": [
                {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": who} for who in (TENANT, account)
            ],
        }
        rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{place.namespace}/rolebindings"
        assert server("POST", rbac, binding).allowed
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
        answer = server("POST", place.path("serviceaccounts", TENANT, sub="token"), asked)
        assert answer.allowed, answer
        kubectl = ensure_tools(["kubectl"], lambda line: None)["kubectl"]
        found = Tenant(place, answer.body["status"]["token"], Path(kubectl), folder)
        wait("the user may edit", lambda: found("POST", "/api/v1/namespaces/{ns}/configmaps", named("probe")).allowed)
        yield found


def named(name: str, **rest: Any) -> Object:
    """Metadata and what else there is."""
    return {"metadata": {"name": name}, **rest}


def elsewhere(tenant: Tenant, namespace: str) -> Place:
    """The same cluster, another namespace, as the administrator."""
    return replace(tenant.place, namespace=namespace)


def phase(place: Place, name: str) -> str:
    """The phase of a ScavengerJob."""
    return str(place.get("scavengerjobs", name).get("status", {}).get("phase"))


def pods_of(place: Place, name: str) -> list[Object]:
    """The pods of a ScavengerJob."""
    return [p for p in place.items("pods") if p["metadata"].get("labels", {}).get(names.LABEL_JOB) == name]
