"""What a user with `edit` in one namespace may try against everybody else, and beside it what is honest and works."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from scavenger_testing.place import Object, job, pod

CORE: Final = "/api/v1/namespaces/{ns}"
BATCH: Final = "/apis/batch/v1/namespaces/{ns}"
SCAVENGER: Final = "/apis/scavenger.dev/v1alpha1/namespaces/{ns}"
POLICY: Final = "/apis/policy/v1/namespaces/{ns}"
MONTH: Final = 30 * 24 * 3600
LABELS: Final = {"scavenger.dev/job": "mine", "scavenger.dev/queue": "default"}
CLASS: Final = {**LABELS, "scavenger.dev/preemption-class": "non-preemptible"}


@dataclass(frozen=True)
class Attempt:
    """One request. `about`: what it is aimed at. `refused`: parts of the answer's message; none where it is let in.

    In path and body: {ns} the user's namespace, {other} a neighbour's, {pod} the pod of the ScavengerJob `mine`, {uid}
    the uid of that ScavengerJob.
    """

    about: str
    name: str
    method: str
    path: str
    body: object = None
    refused: tuple[str, ...] = ()

    @property
    def patch(self) -> bool:
        """Whether the body is a merge patch."""
        return self.method == "PATCH"


def meta(**fields: Any) -> Object:
    """A merge patch of metadata."""
    return {"metadata": fields}


def forged(*, labels: Object | None = None, inside: Object | None = None, **fields: Any) -> Object:
    """A batch/v1 Job of the user's own, with marks as the admitter's has them."""
    template = {
        "metadata": inside or {},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "forged", "labels": labels or {}, **fields},
        "spec": {"template": template},
    }


def owner(uid: str = "{uid}") -> list[Object]:
    """As the admitter's Jobs have it."""
    return [
        {
            "apiVersion": "scavenger.dev/v1alpha1",
            "kind": "ScavengerJob",
            "name": "mine",
            "uid": uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


def eviction(grace: int | None = None) -> Object:
    """An eviction of the pod of `mine`."""
    options: Object = {} if grace is None else {"deleteOptions": {"gracePeriodSeconds": grace}}
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "{pod}", "namespace": "{ns}"},
        **options,
    }


def submit(about: str, name: str, *refused: str, **spec: Any) -> Attempt:
    """A ScavengerJob that is created."""
    return Attempt(about, name, "POST", f"{SCAVENGER}/scavengerjobs", job("new", **spec), refused)


def change(about: str, name: str, kind: str, patch: object, *refused: str, of: str = "mine", sub: str = "") -> Attempt:
    """A change of what is there: of `mine` or its Job, or of its pod."""
    root = {"pods": CORE, "jobs": BATCH, "scavengerjobs": SCAVENGER, "services": CORE}[kind]
    return Attempt(about, name, "PATCH", "/".join(part for part in (root, kind, of, sub) if part), patch, refused)


SLOW: Final = ("grace",)
MADE: Final = ("made by the admitter only",)
FINALIZERS: Final = meta(finalizers=["scavenger.dev/interruption-record"])
BUDGET: Final = {
    "metadata": {"name": "mine"},
    "spec": {"minAvailable": "100%", "selector": {"matchLabels": {"scavenger.dev/job": "mine"}}},
}


def labelled(name: str, value: str | None) -> Object:
    """A merge patch of one label of ours."""
    return meta(labels={f"scavenger.dev/{name}": value})


def annotated(name: str, value: str) -> Object:
    """A merge patch of one annotation of ours."""
    return meta(annotations={f"scavenger.dev/{name}": value})


STOPPING: Final = [
    Attempt("stopping", "its pod deleted", "DELETE", f"{CORE}/pods/{{pod}}"),
    Attempt("stopping", "its pod deleted at once", "DELETE", f"{CORE}/pods/{{pod}}", {"gracePeriodSeconds": 0}),
    Attempt(
        "stopping", "its pod deleted in a month", "DELETE", f"{CORE}/pods/{{pod}}", {"gracePeriodSeconds": MONTH}, SLOW
    ),
    Attempt(
        "stopping",
        "all its pods deleted in a month",
        "DELETE",
        f"{CORE}/pods?labelSelector=scavenger.dev/job=mine",
        {"gracePeriodSeconds": MONTH},
        SLOW,
    ),
    Attempt("stopping", "its pod evicted", "POST", f"{CORE}/pods/{{pod}}/eviction", eviction()),
    Attempt("stopping", "its pod evicted in a month", "POST", f"{CORE}/pods/{{pod}}/eviction", eviction(MONTH), SLOW),
    Attempt(
        "stopping", "an ordinary pod deleted in a month", "DELETE", f"{CORE}/pods/bare", {"gracePeriodSeconds": MONTH}
    ),
    submit("stopping", "a job with five minutes of grace", terminationGracePeriodSeconds=300),
    submit(
        "stopping",
        "a job with a month of grace",
        "spec.terminationGracePeriodSeconds",
        terminationGracePeriodSeconds=MONTH,
    ),
]

REWRITING: Final = [
    Attempt("rewriting", "its Job deleted", "DELETE", f"{BATCH}/jobs/mine"),
    change("rewriting", "an annotation of one's own on its Job", "jobs", meta(annotations={"team": "a"})),
    change("rewriting", "more pods", "jobs", {"spec": {"parallelism": 200, "completions": 200}}, "Job"),
    change("rewriting", "fewer pods", "jobs", {"spec": {"parallelism": 0}}, "Job"),
    change("rewriting", "its Job suspended", "jobs", {"spec": {"suspend": True}}, "Job"),
    change("rewriting", "tried again for ever", "jobs", {"spec": {"backoffLimit": 100}}, "Job"),
    change("rewriting", "gone as soon as it has ended", "jobs", {"spec": {"ttlSecondsAfterFinished": 0}}, "Job"),
    change(
        "rewriting",
        "its Job's annotations of ours",
        "jobs",
        meta(annotations={"scavenger.dev/restarts": "2000000000"}),
        "scavenger.dev/restarts",
    ),
    change(
        "rewriting",
        "annotations of its Job's pods",
        "jobs",
        {"spec": {"template": {"metadata": {"annotations": {"scavenger.dev/run": "x"}}}}},
        "scavenger.dev/run",
    ),
    change("rewriting", "its Job without an owner", "jobs", meta(ownerReferences=None), "Job"),
    change("rewriting", "its Job without labels", "jobs", meta(labels=None), "the admitter only"),
    change("rewriting", "its status", "scavengerjobs", {"status": {"interruptedCount": 9}}, "forbidden", sub="status"),
    change("rewriting", "its resources", "scavengerjobs", {"spec": {"parallelism": 200}}, "immutable"),
    change("rewriting", "it suspended", "scavengerjobs", {"spec": {"suspend": True}}),
]

POD: Final = "{pod}"
MARKS: Final = [
    change("marks", "a label of one's own on its pod", "pods", meta(labels={"team": "a"}), of=POD),
    change("marks", "a checkpoint reported", "pods", annotated("last-checkpoint", "2026-01-01T00:00:00Z"), of=POD),
    change("marks", "protected", "pods", labelled("preemption-class", "always"), "prioritizer only", of=POD),
    change("marks", "without a class", "pods", labelled("preemption-class", None), "prioritizer only", of=POD),
    change("marks", "no scavenger pod any more", "pods", labelled("job", None), "do not change", of=POD),
    change("marks", "of another queue", "pods", labelled("queue", "theirs"), "do not change", of=POD),
    change("marks", "much at risk", "pods", annotated("running-priority", "9e9"), "prioritizer only", of=POD),
    change("marks", "it was once large", "pods", annotated("requested-cpu", "9000000m"), "admitter only", of=POD),
    change("marks", "a note of the regulator's", "pods", annotated("eviction-reason", "{}"), "regulator only", of=POD),
    change("marks", "another run", "pods", annotated("run", "x"), "does not change", of=POD),
    change("marks", "a bare pod with the finalizer", "pods", FINALIZERS, "not added later", of="bare"),
    change("marks", "a bare pod as one of the job", "pods", meta(labels=CLASS), "scavenger-guard-", of="bare"),
    change("marks", "a bare pod of the job", "pods", meta(ownerReferences=owner()), "come with their pods", of="bare"),
    change("marks", "an ordinary Job labelled", "jobs", meta(labels=LABELS), "scavenger.dev/job", of="ordinary"),
    change("marks", "an ordinary Job owned", "jobs", meta(ownerReferences=owner()), "ScavengerJob", of="ordinary"),
]

FORGING: Final = [
    Attempt("forging", "an ordinary Job", "POST", f"{BATCH}/jobs", forged()),
    Attempt("forging", "an ordinary pod", "POST", f"{CORE}/pods", pod("another")),
    Attempt("forging", "a Job with our labels", "POST", f"{BATCH}/jobs", forged(labels=LABELS), ("scavenger.dev/job",)),
    Attempt(
        "forging", "a Job of the job's", "POST", f"{BATCH}/jobs", forged(ownerReferences=owner()), ("ScavengerJob",)
    ),
    Attempt(
        "forging",
        "a Job that has restarted two thousand million times",
        "POST",
        f"{BATCH}/jobs",
        forged(annotations={"scavenger.dev/restarts": "2000000000"}),
        ("scavenger.dev/restarts",),
    ),
    Attempt(
        "forging",
        "a Job whose pods have our labels",
        "POST",
        f"{BATCH}/jobs",
        forged(inside={"labels": CLASS}),
        ("scavenger.dev/",),
    ),
    Attempt("forging", "a bare pod with our labels", "POST", f"{CORE}/pods", pod(meta={"labels": CLASS}), MADE),
    Attempt(
        "forging", "a pod of the class", "POST", f"{CORE}/pods", pod(priorityClassName="scavenger-preemptible"), MADE
    ),
    Attempt(
        "forging",
        "a pod nobody may preempt for",
        "POST",
        f"{CORE}/pods",
        pod(priorityClassName="scavenger-non-preemptible"),
        MADE,
    ),
    Attempt(
        "forging",
        "a pod on reclaimed capacity",
        "POST",
        f"{CORE}/pods",
        pod(
            containers=[
                {"name": "m", "image": "n", "resources": {"limits": {"scavenger.dev/reclaimed-cpu": "64000"}}},
            ]
        ),
        MADE,
    ),
    Attempt("forging", "a budget of one's own", "POST", f"{POLICY}/poddisruptionbudgets", BUDGET),
]

QUEUES: Final = [
    submit("queues", "a queue for everybody", queue="everybodys"),
    submit("queues", "a queue for others", "spec.queue", "theirs", queue="theirs"),
    submit("queues", "a queue that is not there", "spec.queue", queue="nowhere"),
    change("queues", "moved to everybody's", "scavengerjobs", {"spec": {"queue": "everybodys"}}, of="asleep"),
    change("queues", "moved to the others'", "scavengerjobs", {"spec": {"queue": "theirs"}}, "spec.queue", of="asleep"),
    Attempt(
        "queues",
        "a queue made",
        "POST",
        "/apis/scavenger.dev/v1alpha1/scavengerqueues",
        {"metadata": {"name": "mine"}, "spec": {"weight": 1000}},
        ("forbidden",),
    ),
    Attempt(
        "queues",
        "a queue's weight",
        "PATCH",
        "/apis/scavenger.dev/v1alpha1/scavengerqueues/everybodys",
        {"spec": {"weight": 1000}},
        ("forbidden",),
    ),
    Attempt("queues", "the namespace's labels", "PATCH", CORE, meta(labels={"team": "others"}), ("forbidden",)),
]

PROMISES: Final = [
    submit("promises", "a checkpoint every hour", interruptionAfter="1h"),
    submit("promises", "a checkpoint a week", "spec.interruptionAfter", interruptionAfter="168h"),
    submit("promises", "a gang of ten", parallelism=10),
    submit("promises", "more than there is", "spec.", parallelism=100000),
]

PRIVILEGES: Final = [
    submit("privileges", "a user of its own", runAsUser=1000),
    submit("privileges", "a read-only file system", securityContext={"readOnlyRootFilesystem": True}),
    submit("privileges", "privileged", "spec.securityContext", securityContext={"privileged": True}),
    submit(
        "privileges",
        "more capabilities",
        "spec.securityContext",
        securityContext={"capabilities": {"add": ["SYS_ADMIN"]}},
    ),
    submit("privileges", "escalation", "spec.securityContext", securityContext={"allowPrivilegeEscalation": True}),
    submit(
        "privileges", "no seccomp", "spec.securityContext", securityContext={"seccompProfile": {"type": "Unconfined"}}
    ),
    submit("privileges", "root", "spec.runAsUser", runAsUser=0),
]

BOUNDS: Final = [
    submit("bounds", "a variable of 4 KiB", env=[{"name": "A", "value": "x" * 4096}]),
    submit("bounds", "a spec of 1 MB", "spec", env=[{"name": f"A{n}", "value": "x" * 32768} for n in range(32)]),
    submit(
        "bounds",
        "every taint tolerated",
        "spec.tolerations[0].key",
        "every taint",
        tolerations=[{"operator": "Exists"}],
    ),
    submit(
        "bounds",
        "the taint of the control plane tolerated",
        "node-role.kubernetes.io/control-plane",
        tolerations=[{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}],
    ),
    Attempt(
        "bounds",
        "a pod that displaces at once",
        "POST",
        f"{CORE}/pods",
        pod("urgent", {"annotations": {"scavenger.dev/latency": "interactive"}}),
        ("may not be interactive",),
    ),
    change("bounds", "one that does so later", "pods", annotated("latency", "interactive"), "interactive", of="bare"),
    Attempt(
        "bounds",
        "the namespace's accounts",
        "PATCH",
        CORE,
        meta(annotations={"scavenger.dev/service-accounts": "default"}),
        ("forbidden",),
    ),
]

RIGHTS: Final = [
    Attempt("rights", "one's own jobs", "GET", f"{SCAVENGER}/scavengerjobs"),
    *(
        Attempt("rights", name, method, path, body, ("forbidden",))
        for name, method, path, body in (
            ("a neighbour's jobs", "GET", "/apis/scavenger.dev/v1alpha1/namespaces/{other}/scavengerjobs", None),
            (
                "a neighbour's job",
                "DELETE",
                "/apis/scavenger.dev/v1alpha1/namespaces/{other}/scavengerjobs/honest",
                None,
            ),
            (
                "a job at the neighbour's",
                "POST",
                "/apis/scavenger.dev/v1alpha1/namespaces/{other}/scavengerjobs",
                job(),
            ),
            ("the levels", "GET", "/api/v1/namespaces/scavenger-system/configmaps/scavenger-levels", None),
            (
                "the levels written",
                "PATCH",
                "/api/v1/namespaces/scavenger-system/configmaps/scavenger-levels",
                {"data": {"admit": "false"}},
            ),
            (
                "the admitter's Lease",
                "DELETE",
                "/apis/coordination.k8s.io/v1/namespaces/scavenger-system/leases/scavenger-admitter",
                None,
            ),
            ("a node's offer", "PATCH", "/api/v1/nodes/fake-000/status", {"status": {"capacity": {"a/b": "1"}}}),
            (
                "the guard",
                "DELETE",
                "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/scavenger-guard",
                None,
            ),
        )
    ),
]

ATTEMPTS: Final = [
    *STOPPING,
    *REWRITING,
    *MARKS,
    *FORGING,
    *QUEUES,
    *PROMISES,
    *PRIVILEGES,
    *BOUNDS,
    *RIGHTS,
]
