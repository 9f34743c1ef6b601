"""What belongs to scavenger jobs, written by those who may and by those who may not."""

from __future__ import annotations

from typing import Any

from scavenger_testing.place import JOB_CONTROLLER, MASTERS, Object, account, pod, pod_spec

from .table import Case

ADMITTER, PRIORITIZER, REGULATOR = account("admitter"), account("prioritizer"), account("regulator")
CLASS: Object = {"priorityClassName": "scavenger-preemptible"}
COVERED = {"scavenger.dev/preemption-class": "non-preemptible"}
LABELS = {"scavenger.dev/job": "j", "scavenger.dev/queue": "default"}
FINALIZERS = {"finalizers": ["scavenger.dev/interruption-record"]}


def template(meta: Object | None = None, **spec: Any) -> Object:
    return {"metadata": {"labels": {"app": "a"}, **(meta or {})}, "spec": pod_spec(**spec)}


def workload(kind: str, meta: Object | None = None, tmeta: Object | None = None, **spec: Any) -> Object:
    labels = {"app": "a", **(tmeta or {}).get("labels", {})}
    inside = template({**(tmeta or {}), "labels": labels}, **spec)
    selector: Object = {"selector": {"matchLabels": {"app": "a"}}}
    if kind in ("Job", "CronJob"):
        inside["spec"]["restartPolicy"] = "Never"
        selector = {}
    whole: Object = {**selector, "template": inside}
    if kind == "CronJob":
        whole = {"schedule": "0 0 * * *", "jobTemplate": {"spec": whole}}
    version = "batch/v1" if "Job" in kind else "apps/v1"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "w", **(meta or {})}, "spec": whole}


def w(name: str, kind: str, *expected: str, user: str = "", **what: Any) -> Case:
    return Case(name, f"{kind.lower()}s", workload(kind, **what), expected, user=user)


OWNER = {"ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "w", "uid": "1-2", "controller": True}]}
SJ: Object = {
    "apiVersion": "scavenger.dev/v1alpha1",
    "kind": "ScavengerJob",
    "name": "j",
    "uid": "1-2",
    "controller": True,
}
META: Object = {"name": "j", "labels": LABELS, "ownerReferences": [SJ]}
UNPRIVILEGED = {"allowPrivilegeEscalation": False, "runAsNonRoot": True}
"""What the admitter writes into each container, of what the guard wants to see."""


def container(name: str, resources: Object) -> Object:
    return {"name": name, "image": "n", "resources": resources, "securityContext": UNPRIVILEGED}


SCAVENGER: Object = {
    "containers": [container("main", {})],
    "meta": META,
    "tmeta": {"labels": {**LABELS, "scavenger.dev/preemption-class": "preemptible"}, **FINALIZERS},
    "automountServiceAccountToken": False,
    **CLASS,
}
INTERACTIVE = {"scavenger.dev/latency": "interactive"}
AMOUNT = {"scavenger.dev/reclaimed-cpu": "1000"}
RECLAIMED = {"limits": AMOUNT}
ONLY = "written by the admitter only; create a ScavengerJob instead"
REMEDY = "written by the admitter only; submit a ScavengerJob with capacity: Reclaimed instead"


def capable(**capabilities: list[str]) -> Object:
    """A container that says which capabilities it is to have."""
    return {**container("main", {}), "securityContext": {**UNPRIVILEGED, "capabilities": capabilities}}


def reclaiming(kind: str, where: str, resources: Object) -> Case:
    """A workload of an ordinary user whose pods would take reclaimed capacity, in one kind of container."""
    asked = f"{where}[asks].resources scavenger.dev/*: "
    inside: Object = {"containers": [container("m", {})], where: [container("asks", resources)]}
    return w(f"{kind} on reclaimed capacity, {where}", kind, asked + REMEDY, **inside)


WORKLOADS = [
    w("an ordinary Deployment", "Deployment"),
    w("an ordinary Job", "Job"),
    w("an ordinary CronJob", "CronJob"),
    w("the admitter's Job", "Job", user=ADMITTER, **SCAVENGER),
    w("the same by an administrator", "Job", "label scavenger.dev/job=j", ONLY, **SCAVENGER),
    w("Job with the class", "Job", "priorityClassName scavenger-preemptible: " + ONLY, **CLASS),
    w(
        "Job with the other class",
        "Job",
        "scavenger-non-preemptible: " + ONLY,
        priorityClassName="scavenger-non-preemptible",
    ),
    w("Deployment with the class", "Deployment", ONLY, **CLASS),
    w("StatefulSet with the class", "StatefulSet", ONLY, **CLASS),
    w("DaemonSet with the class", "DaemonSet", ONLY, **CLASS),
    w(
        "ReplicaSet with the label",
        "ReplicaSet",
        "label scavenger.dev/preemption-class=non-preemptible: " + ONLY,
        tmeta={"labels": COVERED},
    ),
    w("Job with the finalizer", "Job", "finalizer scavenger.dev/interruption-record: " + ONLY, tmeta=FINALIZERS),
    w(
        "Job with the label on itself",
        "Job",
        "metadata.labels[scavenger.dev/queue]: Jobs of this namespace are not adopted",
        "create a ScavengerJob instead",
        meta={"labels": {"scavenger.dev/queue": "q"}},
    ),
    w("CronJob with the class", "CronJob", ONLY, **CLASS),
    w("a Job by the prioritizer", "Job", "cannot create resource", user=PRIORITIZER, **SCAVENGER),
    w(
        "Job of a ScavengerJob",
        "Job",
        "owner ScavengerJob j 1-2 as controller: " + ONLY,
        meta={"ownerReferences": [SJ]},
    ),
    w(
        "Job of a run",
        "Job",
        "annotation scavenger.dev/run=1: " + ONLY,
        meta={"annotations": {"scavenger.dev/run": "1"}},
    ),
    w(
        "Job whose pods are of a run",
        "Job",
        "template annotation scavenger.dev/run=1: " + ONLY,
        tmeta={"annotations": {"scavenger.dev/run": "1"}},
    ),
    w("Deployment of a ScavengerJob", "Deployment", ONLY, meta={"ownerReferences": [SJ]}),
    w("CronJob with an annotation", "CronJob", ONLY, meta={"annotations": {"scavenger.dev/restarts": "9"}}),
    w("Deployment of interactive pods", "Deployment", tmeta={"annotations": INTERACTIVE}),
    Case(
        "PodTemplate with the class",
        "podtemplates",
        {"metadata": {"name": "t"}, "template": template(**CLASS)},
        (ONLY,),
    ),
    Case(
        "reclaimed capacity",
        "jobs",
        {
            **workload("Job"),
            "spec": {
                "template": {
                    "spec": {
                        "restartPolicy": "Never",
                        "containers": [{"name": "m", "image": "n", "resources": RECLAIMED}],
                    }
                }
            },
        },
        ("containers[m].resources scavenger.dev/*: " + REMEDY,),
    ),
    reclaiming("Deployment", "containers", {"requests": AMOUNT, "limits": AMOUNT}),
    reclaiming("StatefulSet", "initContainers", {"limits": AMOUNT}),
    reclaiming("DaemonSet", "containers", {"limits": {"scavenger.dev/reclaimed-memory": "64"}}),
    reclaiming("ReplicaSet", "initContainers", {"limits": {"scavenger.dev/reclaimed-memory": "64"}}),
    reclaiming("CronJob", "containers", {"limits": AMOUNT}),
    Case(
        "PodTemplate on reclaimed capacity",
        "podtemplates",
        {"metadata": {"name": "t"}, "template": template(initContainers=[container("i", {"limits": AMOUNT})])},
        ("initContainers[i].resources scavenger.dev/*: " + REMEDY,),
    ),
    Case(
        "ReplicationController on reclaimed capacity",
        "replicationcontrollers",
        {
            "metadata": {"name": "w"},
            "spec": {"selector": {"app": "a"}, "template": template(containers=[container("m", {"limits": AMOUNT})])},
        },
        ("containers[m].resources scavenger.dev/*: " + REMEDY,),
    ),
    # Kubernetes knows none but cpu, memory and huge pages for the whole pod; the guard looks, should that change.
    w("reclaimed capacity for the whole pod", "Job", "scavenger.dev/", resources={"limits": {"cpu": "1", **AMOUNT}}),
    w(
        "the admitter's Job on reclaimed capacity",
        "Job",
        user=ADMITTER,
        **{
            **SCAVENGER,
            "containers": [container("main", {"requests": {"cpu": "0"}, "limits": {**AMOUNT, "cpu": "1"}})],
        },
    ),
    w(
        "a Job on reclaimed capacity by the regulator",
        "Job",
        "cannot create resource",
        user=REGULATOR,
        containers=[container("m", {"limits": AMOUNT})],
    ),
    Case(
        "the admitter's Job without an owner",
        "jobs",
        workload("Job", **{**SCAVENGER, "meta": {"name": "j", "labels": LABELS}}),
        ("belongs to a ScavengerJob",),
        user=ADMITTER,
    ),
    Case(
        "the admitter's Job with the node's network",
        "jobs",
        workload("Job", **SCAVENGER, hostNetwork=True),
        ("get nothing of the node",),
        user=ADMITTER,
    ),
    w(
        "the admitter's Job with one of root's",
        "Job",
        user=ADMITTER,
        **{**SCAVENGER, "containers": [capable(add=["CHOWN"])]},
    ),
    w(
        "the admitter's Job with one of the node's",
        "Job",
        "get nothing of the node",
        user=ADMITTER,
        **{**SCAVENGER, "containers": [capable(add=["SYS_ADMIN"], drop=["ALL"])]},
    ),
    Case(
        "the admitter's Job of another class",
        "jobs",
        workload("Job", **{**SCAVENGER, "priorityClassName": "system-node-critical"}),
        ("have the class scavenger-preemptible",),
        user=ADMITTER,
    ),
]

PRIORITY_CLASSES = {"low": -1500, "high": 5000, "just-above": -999}
"""That pods of these rows name, with their values."""

MADE = "are made by the admitter only"
PODS = [
    Case("an ordinary pod", "pods", pod(), check={"priority": 0, "priorityClassName": "ordinary-workload"}),
    Case("an ordinary pod with limits as a whole", "pods", pod(resources={"limits": {"cpu": "1", "memory": "1Gi"}})),
    Case("a pod of a class of its own", "pods", pod(priorityClassName="high"), check={"priority": 5000}),
    Case(
        "a pod of a low class",
        "pods",
        pod(priorityClassName="low"),
        warned="PriorityClass low (-1500) does not outrank scavenger jobs: raised to ordinary-workload (0)",
        check={"priority": 0, "priorityClassName": "ordinary-workload", "preemptionPolicy": "PreemptLowerPriority"},
    ),
    Case("a pod just above", "pods", pod(priorityClassName="just-above"), check={"priority": -999}),
    Case(
        "a pod of the system", "pods", pod(priorityClassName="system-cluster-critical"), check={"priority": 2000000000}
    ),
    Case(
        "an interactive pod",
        "pods",
        pod(meta={"annotations": {"scavenger.dev/latency": "interactive"}}),
        ("pods of this namespace may not be interactive",),
    ),
    Case("a bare pod with the class", "pods", pod(**CLASS), (MADE,)),
    Case("a bare pod with the label", "pods", pod(meta={"labels": LABELS}), (MADE,)),
    Case("a bare pod that nobody could evict", "pods", pod(meta={"labels": COVERED}), (MADE,)),
    Case("a bare pod with the finalizer", "pods", pod(meta=FINALIZERS), (MADE,)),
    Case("a bare pod of a run", "pods", pod(meta={"annotations": {"scavenger.dev/run": "1"}}), (MADE,)),
    Case("a bare pod of a ScavengerJob", "pods", pod(meta={"ownerReferences": [SJ]}), (MADE,)),
    Case(
        "a bare pod on reclaimed capacity",
        "pods",
        pod(containers=[container("m", {"limits": AMOUNT})]),
        ("containers[m].resources scavenger.dev/*: ", MADE, "submit a ScavengerJob with capacity: Reclaimed instead"),
    ),
    Case(
        "a bare pod with an init container on reclaimed capacity",
        "pods",
        pod(initContainers=[container("i", {"requests": AMOUNT, "limits": AMOUNT})]),
        ("initContainers[i].resources scavenger.dev/*: ", MADE),
    ),
    Case(
        "another controller's pod on reclaimed capacity",
        "pods",
        pod(containers=[container("m", {"limits": AMOUNT})]),
        (MADE,),
        user="system:serviceaccount:kube-system:replicaset-controller",
        groups=(MASTERS,),
    ),
    Case(
        "the Job controller's pod on reclaimed capacity",
        "pods",
        pod(
            meta={"labels": LABELS, **OWNER, **FINALIZERS},
            **CLASS,
            containers=[container("m", {"requests": {"cpu": "0"}, "limits": {**AMOUNT, "cpu": "1"}})],
        ),
        user=JOB_CONTROLLER,
        groups=(MASTERS,),
        check={"priority": -2000},
    ),
    Case(
        "the Job controller's pod",
        "pods",
        pod(meta={"labels": LABELS, **OWNER, **FINALIZERS}, **CLASS),
        user=JOB_CONTROLLER,
        groups=(MASTERS,),
        check={"priority": -2000},
    ),
    Case(
        "the Job controller's pod of no Job",
        "pods",
        pod(meta={"labels": LABELS}),
        (MADE,),
        user=JOB_CONTROLLER,
        groups=(MASTERS,),
    ),
    Case(
        "another controller's pod",
        "pods",
        pod(meta={"labels": LABELS, **OWNER}),
        (MADE,),
        user="system:serviceaccount:kube-system:replicaset-controller",
        groups=(MASTERS,),
    ),
]

LOW = "does not outrank scavenger jobs; choose one above -1000, or have the class named in guard.lowPriorityClasses"


def c(about: str, value: int, *expected: str, user: str = "", **meta: Any) -> Case:
    """A PriorityClass that is made."""
    body = {"metadata": meta or {"name": "new"}, "value": value}
    return Case(about, "priorityclasses", body, expected, user=user, groups=(MASTERS,) if user else ())


CLASSES = [
    c("a class above scavenger jobs", -999),
    c("a class as low as scavenger jobs", -1000, f"value: -1000 {LOW}"),
    c("a class below scavenger jobs", -(2**31), f"value: -2147483648 {LOW}"),
    c("a low class whose name is made up", -1500, LOW, generateName="new-"),
    c("a low class named as ours", -1500, LOW, name="scavenger-preemptible-too"),
    c("a low class by the Job controller", -1500, LOW, user=JOB_CONTROLLER),
]
