"""What belongs to scavenger jobs, written by those who may and by those who may not."""

from __future__ import annotations

from typing import Any

from .conftest import JOB_CONTROLLER, MASTERS, Object, account, pod, pod_spec
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
SCAVENGER: Object = {
    "meta": {
        "labels": LABELS,
        "ownerReferences": [
            {
                "apiVersion": "scavenger.dev/v1alpha1",
                "kind": "ScavengerJob",
                "name": "j",
                "uid": "1-2",
                "controller": True,
            }
        ],
    },
    "tmeta": {"labels": {**LABELS, "scavenger.dev/preemption-class": "preemptible"}, **FINALIZERS},
    **CLASS,
}
AMOUNT = {"scavenger.dev/reclaimed-cpu": "1000"}
RECLAIMED = {"limits": AMOUNT}
ONLY = "written by the admitter only; create a ScavengerJob instead"
REMEDY = "written by the admitter only; submit a ScavengerJob with capacity: Reclaimed instead"


def container(name: str, resources: Object) -> Object:
    return {"name": name, "image": "n", "resources": resources}


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
        "label scavenger.dev/queue=q: " + ONLY,
        meta={"labels": {"scavenger.dev/queue": "q"}},
    ),
    w("CronJob with the class", "CronJob", ONLY, **CLASS),
    w("a Job by the prioritizer", "Job", "cannot create resource", user=PRIORITIZER, **SCAVENGER),
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
        **SCAVENGER,
        containers=[container("main", {"requests": {"cpu": "0"}, "limits": {**AMOUNT, "cpu": "1"}})],
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
        workload("Job", **{**SCAVENGER, "meta": {"labels": LABELS}}),
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

MADE = "are made by the Job controller only"
PODS = [
    Case("an ordinary pod", "pods", pod(), check={"priority": 1000, "priorityClassName": "ordinary-workload"}),
    Case("an ordinary pod with limits as a whole", "pods", pod(resources={"limits": {"cpu": "1", "memory": "1Gi"}})),
    Case("a pod of a class of its own", "pods", pod(priorityClassName="high"), check={"priority": 5000}),
    Case(
        "a pod of a low class",
        "pods",
        pod(priorityClassName="low"),
        warned="PriorityClass low (-1500) does not outrank scavenger jobs: raised to ordinary-workload (1000)",
        check={"priority": 1000, "priorityClassName": "ordinary-workload", "preemptionPolicy": "PreemptLowerPriority"},
    ),
    Case("a pod just above", "pods", pod(priorityClassName="just-above"), check={"priority": -999}),
    Case(
        "a pod of the system", "pods", pod(priorityClassName="system-cluster-critical"), check={"priority": 2000000000}
    ),
    Case(
        "an interactive pod",
        "pods",
        pod(meta={"annotations": {"scavenger.dev/latency": "interactive"}}),
        check={"priority": 1000},
    ),
    Case("a bare pod with the class", "pods", pod(**CLASS), (MADE,)),
    Case("a bare pod with the label", "pods", pod(meta={"labels": LABELS}), (MADE,)),
    Case("a bare pod that nobody could evict", "pods", pod(meta={"labels": COVERED}), (MADE,)),
    Case("a bare pod with the finalizer", "pods", pod(meta=FINALIZERS), (MADE,)),
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


def u(
    name: str, patch: Object, *expected: str, kind: str = "pods", of: str = "scavenger", sub: str = "", **who: Any
) -> Case:
    return Case(name, kind, patch, expected, update=of, sub=sub, **who)


def labelled(**changed: str | None) -> Object:
    return {"metadata": {"labels": {f"scavenger.dev/{k.replace('_', '-')}": v for k, v in changed.items()}}}


def annotated(**changed: str | None) -> Object:
    return {"metadata": {"annotations": {f"scavenger.dev/{k.replace('_', '-')}": v for k, v in changed.items()}}}


ANY = {"metadata": {"labels": {"mine": "1"}, "annotations": {"mine": "1"}}}
STATUS = {"status": {"message": "x"}}
PREEMPTION = {"status": {"preemption": {"class": "preemptible", "runningPriority": 1}}}

UPDATES = [
    u("a user's own label", ANY),
    u("the class by the prioritizer", labelled(preemption_class="non-preemptible"), user=PRIORITIZER),
    u("the class by a user", labelled(preemption_class="non-preemptible"), "changed by the prioritizer only"),
    u("the class taken away", labelled(preemption_class=None), "changed by the prioritizer only"),
    u(
        "the class by the admitter",
        labelled(preemption_class="non-preemptible"),
        "denied request",
        user=ADMITTER,
    ),
    u("the job of a pod", labelled(job="other"), "do not change"),
    u("the queue taken away", labelled(queue=None), "do not change"),
    u("a new label of ours", labelled(other="x"), "do not change"),
    u("the priority by the prioritizer", annotated(running_priority="7"), user=PRIORITIZER),
    u("the priority by a user", annotated(running_priority="0"), "changed by the prioritizer only"),
    u("a checkpoint by a user", annotated(last_checkpoint="2026-01-01T00:00:00Z")),
    u("a reason by the regulator", annotated(eviction_reason="{}"), user=REGULATOR),
    u("a reason by a user", annotated(eviction_reason="{}"), "written by the regulator only"),
    u("another run", annotated(run="x"), "does not change"),
    u("another label by the prioritizer", ANY, "changes scavenger.dev/preemption-class only", user=PRIORITIZER),
    u("the finalizer by the admitter", {"metadata": {"finalizers": None}}, user=ADMITTER),
    u("the finalizer by who repairs", {"metadata": {"finalizers": None}}),
    u("labels by way of the status", labelled(job="other"), "do not change", sub="status"),
    u("an ordinary pod's own label", ANY, of="ordinary"),
    u("a label on an ordinary pod", labelled(preemption_class="non-preemptible"), "prioritizer only", of="ordinary"),
    u("the finalizer on an ordinary pod", {"metadata": FINALIZERS}, "is not added later", of="ordinary"),
    u("an ordinary pod by the prioritizer", ANY, "pods of ScavengerJobs only", of="ordinary", user=PRIORITIZER),
    u("an ordinary pod by the admitter", ANY, "pods of ScavengerJobs only", of="ordinary", user=ADMITTER),
    u("an ordinary pod by the regulator", ANY, "pods of ScavengerJobs only", of="ordinary", user=REGULATOR),
    u("labels on an ordinary Job", labelled(job="x"), ONLY, kind="jobs", of="ordinary"),
    u("labels off the admitter's Job", labelled(job=None), "taken away by the admitter only", kind="jobs"),
    u("an ordinary Job's own label", ANY, kind="jobs", of="ordinary"),
    u("the status by the admitter", STATUS, kind="scavengerjobs", sub="status", user=ADMITTER),
    u("the status by an administrator", STATUS, "written by the services", kind="scavengerjobs", sub="status"),
    u("the preemption by the prioritizer", PREEMPTION, kind="scavengerjobs", sub="status", user=PRIORITIZER),
    u(
        "the phase by the prioritizer",
        {"status": {"phase": "Failed"}},
        "preemption only",
        kind="scavengerjobs",
        sub="status",
        user=PRIORITIZER,
    ),
    u(
        "the status of a queue",
        {"status": {"state": "Open"}},
        "written by the services",
        kind="scavengerqueues",
        of="open",
        sub="status",
    ),
    u("a job moved to an open queue", {"spec": {"queue": "open"}}, kind="scavengerjobs", of="moving"),
    u(
        "a job moved to a closed queue",
        {"spec": {"queue": "closed"}},
        "takes no new jobs",
        kind="scavengerjobs",
        of="moving",
    ),
    u("a job in a closed queue suspended", {"spec": {"suspend": False}}, kind="scavengerjobs", of="stranded"),
]
