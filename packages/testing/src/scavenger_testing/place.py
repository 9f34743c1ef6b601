"""One namespace of a real cluster, in which any user asks the API server for anything, and objects to ask for."""

from __future__ import annotations

import http.client
import json
import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from scavenger_api import names
from scavenger_cluster import Cluster
from scavenger_kube.kubeconfig import load
from scavenger_kube.nesting import readable

from scavenger_testing.waiting import TIMEOUT, TRY_AGAIN, wait

Object = dict[str, Any]

MERGE_PATCH: Final = "application/merge-patch+json"
MASTERS: Final = "system:masters"
JOB_CONTROLLER: Final = "system:serviceaccount:kube-system:job-controller"
GROUPS: Final = {
    "scavengerjobs": "/apis/scavenger.dev/v1alpha1",
    "scavengerqueues": "/apis/scavenger.dev/v1alpha1",
    "jobs": "/apis/batch/v1",
    "cronjobs": "/apis/batch/v1",
    "deployments": "/apis/apps/v1",
    "replicasets": "/apis/apps/v1",
    "statefulsets": "/apis/apps/v1",
    "daemonsets": "/apis/apps/v1",
    "priorityclasses": "/apis/scheduling.k8s.io/v1",
    "poddisruptionbudgets": "/apis/policy/v1",
    "validatingadmissionpolicies": "/apis/admissionregistration.k8s.io/v1",
    "mutatingadmissionpolicies": "/apis/admissionregistration.k8s.io/v1",
    "validatingwebhookconfigurations": "/apis/admissionregistration.k8s.io/v1",
    "mutatingwebhookconfigurations": "/apis/admissionregistration.k8s.io/v1",
    "clusterroles": "/apis/rbac.authorization.k8s.io/v1",
    "clusterrolebindings": "/apis/rbac.authorization.k8s.io/v1",
    "leases": "/apis/coordination.k8s.io/v1",
}
CLUSTER_SCOPED: Final = frozenset(
    {
        "clusterrolebindings",
        "clusterroles",
        "mutatingadmissionpolicies",
        "mutatingwebhookconfigurations",
        "namespaces",
        "nodes",
        "priorityclasses",
        "scavengerqueues",
        "validatingadmissionpolicies",
        "validatingwebhookconfigurations",
    }
)


def path_of(kind: str, namespace: str = "", name: str = "", sub: str = "") -> str:
    """Where a collection, an object or a subresource is. kind: its plural; namespace: not asked where it has none."""
    root = GROUPS.get(kind, "/api/v1")
    where = "" if kind in CLUSTER_SCOPED else f"/namespaces/{namespace}"
    return "/".join(part for part in (f"{root}{where}", kind, name, sub) if part)


def account(service: str) -> str:
    """The user name of a component."""
    return f"system:serviceaccount:{names.SYSTEM_NAMESPACE}:scavenger-{service}"


@dataclass(frozen=True)
class Answer:
    """What the API server said."""

    code: int
    body: Object
    warnings: list[str] = field(default_factory=list)

    @property
    def allowed(self) -> bool:
        """Whether it was done."""
        return self.code < 300

    @property
    def message(self) -> str:
        """Of the metav1.Status of a refusal."""
        return str(self.body.get("message", ""))

    @property
    def causes(self) -> list[str]:
        """The fields that a refusal is about."""
        return [cause["field"] for cause in (self.body.get("details") or {}).get("causes") or ()]


class Server:
    """The API server, asked as any user, over one connection: kubectl takes a tenth of a second to start alone.

    kubeconfig: of an administrator.
    """

    def __init__(self, kubeconfig: Path) -> None:
        found = load(str(kubeconfig))
        host = found.server.removeprefix("https://")
        self._connection = http.client.HTTPSConnection(host, timeout=TIMEOUT, context=found.ssl_context())

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def __call__(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        user: str = "",
        groups: tuple[str, ...] = (),
        content_type: str = "application/json",
    ) -> Answer:
        """One request. body: JSON, or what is sent as JSON. user: "" for the administrator; others have the rights
        of that account and groups."""
        head = [("Content-Type", content_type), ("Accept", "application/json")]
        if user:
            head += [("Impersonate-User", user)]
            if user.startswith("system:serviceaccount:"):
                groups = (*groups, "system:serviceaccounts", "system:authenticated")
            head += [("Impersonate-Group", group) for group in groups]
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        for attempt in (1, 2):
            try:
                self._connection.putrequest(method, path)
                for name, value in (*head, ("Content-Length", str(len(data)))):
                    self._connection.putheader(name, value)
                self._connection.endheaders(data)
                response = self._connection.getresponse()
                text = readable(response.read()).decode()
                break
            except (http.client.HTTPException, OSError):
                self._connection.close()  # the API server was restarted since
                if attempt == 2:
                    raise
        warnings = re.findall(r'299 \S+ "((?:[^"\\]|\\.)*)"', ", ".join(response.headers.get_all("Warning") or ()))
        found = json.loads(text) if text.startswith("{") else {"message": text}
        return Answer(response.status, found, [re.sub(r"\\(.)", r"\1", warning) for warning in warnings])


def may(
    server: Server, service: str, verb: str, group: str, resource: str, name: str = "", namespace: str = ""
) -> bool:
    """Whether RBAC lets a component do this. resource: its plural, or PLURAL/SUBRESOURCE."""
    plural, _, sub = resource.partition("/")
    asked = {"verb": verb, "group": group, "resource": plural, "subresource": sub, "name": name, "namespace": namespace}
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{names.SYSTEM_NAMESPACE}", "system:authenticated"]
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": account(service), "groups": groups, "resourceAttributes": asked},
    }
    answer = server("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
    assert answer.code == 201, answer
    return bool(answer.body["status"]["allowed"])


@dataclass
class Place:
    """A namespace to try things in. `try_*` change nothing (dry run), but pass all admission."""

    cluster: Cluster
    server: Server
    namespace: str

    def path(self, kind: str, name: str = "", namespace: str | None = None, sub: str = "") -> str:
        """Of a collection, an object or a subresource; kind: its plural."""
        return path_of(kind, namespace or self.namespace, name, sub)

    def try_create(self, kind: str, body: Object, *, namespace: str | None = None, **who: Any) -> Answer:
        """Create an object without effect."""
        return self.server("POST", self.path(kind, namespace=namespace) + "?dryRun=All", body, **who)

    def try_patch(
        self, kind: str, name: str, patch: object, *, sub: str = "", content_type: str = MERGE_PATCH, **who: Any
    ) -> Answer:
        """Change an object without effect."""
        path = self.path(kind, name, sub=sub) + "?dryRun=All"
        return self.server("PATCH", path, patch, content_type=content_type, **who)

    def create(self, kind: str, body: Object, *, namespace: str | None = None, **who: Any) -> Answer:
        """Create an object."""
        return self.server("POST", self.path(kind, namespace=namespace), body, **who)

    def patch(self, kind: str, name: str, patch: object, *, sub: str = "", **who: Any) -> Answer:
        """Change an object by a merge patch."""
        path = self.path(kind, name, sub=sub)
        return self.server("PATCH", path, patch, content_type=MERGE_PATCH, **who)

    def get(self, kind: str, name: str = "") -> Object:
        """An object, or a list of all, as the administrator. A server that is busy or comes up is asked again."""

        def ask() -> Answer | None:
            answer = self.server("GET", self.path(kind, name))
            return None if answer.code in TRY_AGAIN else answer

        answer: Answer = wait("an answer", ask)
        assert answer.allowed, answer
        return answer.body

    def items(self, kind: str) -> list[Object]:
        """All objects of a kind, as the administrator."""
        return list(self.get(kind)["items"])

    def delete(self, kind: str, name: str, propagation: str = "Background") -> Answer:
        """Delete an object, as the administrator."""
        return self.server("DELETE", self.path(kind, name), {"propagationPolicy": propagation})

    def wait(self, what: str, condition: Callable[[], Any], timeout: float = TIMEOUT) -> None:
        """Wait in real time; where it fails, the end of the webhook's log is told."""
        wait(what, condition, timeout, lambda: self.cluster.service_logs("webhook")[-3000:])


# --- objects ------------------------------------------------------------------------------------------


def job(name: str = "j", **spec: Any) -> Object:
    """A ScavengerJob that is as it should be, but for what the test says."""
    whole = {
        "image": "registry.example.com/team/app:1.2",
        "resources": {"requests": {"cpu": "1", "memory": "64Mi"}},
        "terminationGracePeriodSeconds": 1,
        **spec,
    }
    return {
        "apiVersion": names.API_VERSION,
        "kind": "ScavengerJob",
        "metadata": {"name": name},
        "spec": {key: value for key, value in whole.items() if value is not None},
    }


def pod_spec(**spec: Any) -> Object:
    """The spec of a pod with one container."""
    return {"containers": [{"name": "main", "image": "none"}], **spec}


SIZED: Final[Object] = {"requests": {"cpu": "1", "memory": "64Mi"}}


def sized_spec(**spec: Any) -> Object:
    """The same, with a container that says what it needs."""
    return pod_spec(containers=[{"name": "main", "image": "none", "resources": SIZED}], **spec)


def pod(name: str = "p", meta: Object | None = None, **spec: Any) -> Object:
    """A pod; meta: more metadata, spec: more fields of its spec."""
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **(meta or {})}, "spec": pod_spec(**spec)}


@contextmanager
def namespace(cluster: Cluster, server: Server, **labels: str) -> Iterator[Place]:
    """A new namespace, deleted afterwards. Labels that it is born with are seen by every client."""
    name = f"it-{uuid.uuid4().hex[:8]}"
    made = Place(cluster, server, name)
    assert server("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}}).allowed
    wait("its service account", lambda: made.server("GET", made.path("serviceaccounts", "default")).allowed)
    yield made
    server("DELETE", f"/api/v1/namespaces/{name}")
