"""Changes of what belongs to scavenger jobs and of what does not, by those who may and by those who may not."""

from __future__ import annotations

from typing import Any

from scavenger_testing.place import MASTERS, Object

from .table import Case
from .table_guard import ADMITTER, COVERED, FINALIZERS, ONLY, PRIORITIZER, REGULATOR, SJ


def u(
    name: str, patch: Object, *expected: str, kind: str = "pods", of: str = "scavenger", sub: str = "", **who: Any
) -> Case:
    return Case(name, kind, patch, expected, update=of, sub=sub, **who)


def labelled(**changed: str | None) -> Object:
    return {"metadata": {"labels": {f"scavenger.dev/{k.replace('_', '-')}": v for k, v in changed.items()}}}


def annotated(**changed: str | None) -> Object:
    return {"metadata": {"annotations": {f"scavenger.dev/{k.replace('_', '-')}": v for k, v in changed.items()}}}


def finalized(more: str) -> Object:
    """Held by somebody else, too."""
    return {"metadata": {"finalizers": [*FINALIZERS["finalizers"], more]}}


COLLECTOR = "system:serviceaccount:kube-system:generic-garbage-collector"
COVER = {"metadata": {"labels": COVERED}}
DO_NOT = "do not change"
FROZEN = "the spec of a scavenger job's Job does not change"
ONLY_OURS = "pods of ScavengerJobs only"
TWO: Object = {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}
RESIZED = {"spec": {"containers": [{"name": "main", "resources": TWO}]}}
STRATEGIC = "application/strategic-merge-patch+json"
RELEASED = {"metadata": {"$deleteFromPrimitiveList/finalizers": FINALIZERS["finalizers"]}}
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
    u("another label by the prioritizer", ANY, "scavenger.dev/preemption-class and", user=PRIORITIZER),
    u("what the budget leaves out, by the prioritizer", labelled(disruption_budget="none"), user=PRIORITIZER),
    u("what the budget leaves out, by a user", labelled(disruption_budget="none"), "changed by the prioritizer only"),
    u("another annotation of ours", annotated(restarts="9"), "do not change"),
    u("the grant whose capacity it has", annotated(grant="9"), "do not change"),
    u("the owners of a pod", {"metadata": {"ownerReferences": None}}, "changed by Kubernetes' own controllers only"),
    u(
        "another image",
        {"spec": {"containers": [{"name": "main", "image": "other"}]}},
        "does not change",
        patch_type=STRATEGIC,
    ),
    u("less time", {"spec": {"activeDeadlineSeconds": 1}}, "does not change"),
    u("other labels by way of the status", labelled(preemption_class=None), "do not change", sub="status"),
    u("annotations by way of the status", annotated(running_priority="0"), "do not change", sub="status"),
    u("the finalizer by way of the status", {"metadata": {"finalizers": None}}, "do not change", sub="status"),
    u("a user's own label by way of the status", ANY, sub="status"),
    u("what a kubelet says", {"status": {"message": "x"}}, sub="status"),
    u("what a kubelet says of an ordinary pod", {"status": {"message": "x"}}, of="ordinary", sub="status"),
    u("an ordinary pod made one of ours by way of the status", labelled(job="x"), DO_NOT, of="ordinary", sub="status"),
    u("an ordinary pod covered by way of the status", COVER, "do not change", of="ordinary", sub="status"),
    u("an ordinary pod made one of ours", labelled(job="x"), "denied request", of="ordinary"),
    u("an annotation on an ordinary pod", annotated(run="x"), "come with their pods", of="ordinary"),
    u("an interactive pod, said later", annotated(latency="interactive"), "may not be interactive", of="ordinary"),
    u("an owner for an ordinary pod", {"metadata": {"ownerReferences": [SJ]}}, "come with their pods", of="ordinary"),
    u(
        "an ordinary pod resized by the regulator",
        RESIZED,
        ONLY_OURS,
        of="ordinary",
        sub="resize",
        user=REGULATOR,
        patch_type=STRATEGIC,
    ),
    u("more pods for the admitter's Job", {"spec": {"parallelism": 200}}, FROZEN, kind="jobs"),
    u("the admitter's Job suspended", {"spec": {"suspend": True}}, FROZEN, kind="jobs"),
    u("the admitter's Job with a deadline", {"spec": {"activeDeadlineSeconds": 1}}, FROZEN, kind="jobs"),
    u("another run for the admitter's Job", annotated(run="x"), ONLY, kind="jobs"),
    u("restarts off the admitter's Job", annotated(restarts=None), "taken away by the admitter only", kind="jobs"),
    u("the owner off the admitter's Job", {"metadata": {"ownerReferences": None}}, "taken away by the", kind="jobs"),
    u(
        "the owner off the admitter's Job by the garbage collector",
        {"metadata": {"ownerReferences": None}},
        kind="jobs",
        user=COLLECTOR,
        groups=(MASTERS,),
    ),
    u("a user's own label on the admitter's Job", ANY, kind="jobs"),
    u("an owner for an ordinary Job", {"metadata": {"ownerReferences": [SJ]}}, ONLY, kind="jobs", of="ordinary"),
    u("a run for an ordinary Job", annotated(run="x"), ONLY, kind="jobs", of="ordinary"),
    u("an ordinary Job suspended", {"spec": {"suspend": True}}, kind="jobs", of="ordinary"),
    u("the finalizer by the admitter", RELEASED, user=ADMITTER, patch_type=STRATEGIC),
    u("all finalizers by the admitter", {"metadata": {"finalizers": None}}, "take off the finalizer", user=ADMITTER),
    u("one more finalizer by the admitter", finalized("example.com/more"), "take off the finalizer", user=ADMITTER),
    u("the finalizer by the prioritizer", RELEASED, user=PRIORITIZER, patch_type=STRATEGIC),
    u("the finalizer by the regulator", RELEASED, user=REGULATOR, patch_type=STRATEGIC),
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
    u("the status by an administrator", STATUS, "written by the components", kind="scavengerjobs", sub="status"),
    u("a class by the prioritizer", PREEMPTION, "is forbidden", kind="scavengerjobs", sub="status", user=PRIORITIZER),
    u(
        "the status of a queue",
        {"status": {"state": "Open"}},
        "written by the components",
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
