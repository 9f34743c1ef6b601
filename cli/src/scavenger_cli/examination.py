"""What of a cluster bites with scavenger jobs, each with its remedy. Pure: what was read in, ailments out."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from scavenger_api import names
from scavenger_api.levels import LevelsView
from scavenger_api.states import Phase
from scavenger_api.times import parse_time
from scavenger_domain.adopted import adopted, claimed
from scavenger_domain.ailments import (
    Ailment,
    Untouched,
    foreign_budgets,
    half_released,
    no_measurement,
    nodes_refuse_pods,
    some,
    stale_budgets,
    stale_finalizers,
    untouched_jobs,
    versions_differ,
)
from scavenger_domain.last_word import SILENT_AFTER
from scavenger_domain.last_word import silent as has_gone
from scavenger_domain.nodes import autoscaled, karpenter_made
from scavenger_domain.release import LABEL_OF, finished, ledger_condition
from scavenger_domain.selectors import Selector, selects
from scavenger_kube.kinds import Node, ObjectMeta, Pod
from scavenger_kube.resources import Lease

from scavenger_cli.gather import Deployment
from scavenger_cli.kueue import KueueConfiguration
from scavenger_cli.words import age, plural

LEADERS: Final = (names.ADMITTER, names.REGULATOR, names.PRIORITIZER)
SCHEDULERS: Final = ("", "default-scheduler", names.SCHEDULER)
KEEPERS: Final = {
    names.ADMITTER: "jobs start on nodes that it would remove",
    names.PRIORITIZER: "budgets keep nodes that have only jobs",
}
"""Services with the setting keepScaleDown, and what happens where it is off."""


@dataclass(frozen=True)
class Cluster:
    """What was read. None: it may not be read, or is not there.

    Attributes:
        now: the moment.
        leases: of the components.
        budgets: namespaces with a PodDisruptionBudget of the prioritizer.
        foreign_budgets: namespaces with one of its name that has another owner.
        batch_jobs: batch/v1 Jobs that are adopted, or that a release has made, as the API server has them.
        adopts: whether the admitter runs such Jobs.
        serving: in which namespaces new Jobs are adopted, as selectors.
        job_pods: pods of scavenger jobs, ended ones as well.
        pods: all pods that have not ended.
        nodes: all nodes.
        levels: as published.
        shunned: nodes on which no job starts as they have refused pods, and what each has said.
        autoscaler_status: whether Cluster Autoscaler has written its ConfigMap.
        keep_scale_down: the setting, of the components that have it, by name.
        kueue: the configuration of Kueue's manager.
        local_queues: namespaces in which Kueue has a LocalQueue `default`.
        namespaces: metadata of all of them.
        job_namespaces: those with ScavengerJobs.
        incomplete: what a job says that does not start for want of a part of the installation; empty where none does.
        classes: the PriorityClasses and their values.
        images: of the components, by name.
        default_class: the PriorityClass of pods that name none; empty without one.
        deployments: of the components.
    """

    now: datetime
    leases: Sequence[Lease] | None = None
    budgets: Sequence[str] | None = None
    foreign_budgets: Sequence[str] = ()
    batch_jobs: Sequence[Mapping[str, Any]] = ()
    adopts: bool | None = None
    serving: Sequence[Selector] | None = None
    job_pods: Sequence[Pod] | None = None
    pods: Sequence[Pod] | None = None
    nodes: Sequence[Node] | None = None
    levels: LevelsView | None = None
    shunned: Mapping[str, str] = field(default_factory=dict)
    autoscaler_status: bool = False
    keep_scale_down: Mapping[str, str] = field(default_factory=dict)
    kueue: KueueConfiguration | None = None
    local_queues: Collection[str] = ()
    namespaces: Sequence[ObjectMeta] | None = None
    job_namespaces: Collection[str] = ()
    incomplete: str = ""
    classes: Mapping[str, int] | None = None
    images: Mapping[str, Sequence[str]] = field(default_factory=dict)
    default_class: str = ""
    deployments: Sequence[Deployment] | None = None


def examine(cluster: Cluster) -> list[Ailment]:
    """All that bites, what hangs others first."""
    return [
        *_silent(cluster),
        *_stale_budgets(cluster),
        *foreign_budgets(cluster.foreign_budgets),
        *_stale_finalizers(cluster),
        *_adopted(cluster),
        *_shunned(cluster),
        *_autoscaler(cluster),
        *_keep_scale_down_off(cluster),
        *_incomplete(cluster),
        *_kueue(cluster),
        *_mesh(cluster),
        *_classes(cluster),
        *_schedulers(cluster),
        *(no_measurement(cluster.levels.unmeasured_pools) if cluster.levels is not None else ()),
        *versions_differ(cluster.images),
    ]


def silent(cluster: Cluster) -> dict[str, datetime | None]:
    """The components whose Lease is not renewed, and when it was renewed last."""
    found = {}
    for lease in cluster.leases or ():
        seen = parse_time(lease.spec.renew_time)
        if lease.metadata.name in LEADERS and (not lease.spec.holder_identity or has_gone(seen, cluster.now)):
            found[lease.metadata.name] = seen
    return found


def _silent(cluster: Cluster) -> Iterator[Ailment]:
    for service, seen in silent(cluster).items():
        since = f"has not led for {age(seen, cluster.now)}" if seen is not None else "does not lead"
        look = f"kubectl -n {names.SYSTEM_NAMESPACE} get pods -l app.kubernetes.io/name={service}"
        yield Ailment("ServiceAway", f"{service} {since}", f"{look}; docs/runbooks.md#scavengernoleader")


def _led(cluster: Cluster, service: str) -> bool:
    """Whether the component leads, or Leases may not be read."""
    if cluster.leases is None:
        return True
    return service not in silent(cluster) and any(lease.metadata.name == service for lease in cluster.leases)


def _stale_budgets(cluster: Cluster) -> Iterator[Ailment]:
    return stale_budgets(cluster.budgets or (), led=_led(cluster, names.PRIORITIZER))


def _stale_finalizers(cluster: Cluster) -> Iterator[Ailment]:
    held = [
        pod.metadata.key
        for pod in cluster.job_pods or ()
        if names.FINALIZER in pod.metadata.finalizers and pod.metadata.deletion_timestamp is not None and pod.ended
    ]
    return stale_finalizers(held, led=_led(cluster, names.ADMITTER))


def _adopted(cluster: Cluster) -> Iterator[Ailment]:
    still: dict[Untouched, list[str]] = {}
    copies = []
    for job in cluster.batch_jobs:
        meta = job["metadata"]
        if (of := (meta.get("labels") or {}).get(LABEL_OF)) is not None:
            copies.append(f"{meta['namespace']}/{of}")
        elif claimed(job) and not finished(job) and (why := _untouched(cluster, job)) is not None:
            still.setdefault(why, []).append(f"{meta['namespace']}/{meta['name']}")
    yield from untouched_jobs(still)
    yield from half_released(copies)


def _untouched(cluster: Cluster, job: Mapping[str, Any]) -> Untouched | None:
    """What is in the way of an adopted Job. A status is written when something happens: where an admitter looks at the
    Job, its age says nothing."""
    meta, ledger = job["metadata"], ledger_condition(job)
    labels = meta.get("labels") or {}
    said = parse_time(ledger.get("lastProbeTime") or meta.get("creationTimestamp"))
    if said is None or cluster.now - said <= SILENT_AFTER:
        return None
    if not adopted(job) or names.LABEL_QUEUE not in labels:
        return Untouched.UNKNOWN
    if not _led(cluster, names.ADMITTER):
        return Untouched.NO_ADMITTER
    if cluster.adopts is False:
        return Untouched.OFF
    if not ledger:
        return Untouched.UNSEEN
    waits = ledger.get("reason") != Phase.RUNNING
    return Untouched.UNSERVED if waits and not _is_served(cluster, meta["namespace"]) else None


def _is_served(cluster: Cluster, namespace: str) -> bool:
    """Whether Jobs of a namespace are adopted, or that is not known."""
    labels = next((one.labels for one in cluster.namespaces or () if one.name == namespace), None)
    if labels is None or cluster.serving is None:
        return True
    return any(selects(one, labels) for one in cluster.serving)


def _shunned(cluster: Cluster) -> Iterator[Ailment]:
    there = None if cluster.nodes is None else {node.metadata.name for node in cluster.nodes}
    return nodes_refuse_pods(cluster.shunned, there)


def _autoscaler(cluster: Cluster) -> Iterator[Ailment]:
    made = [node.metadata.name for node in cluster.nodes or () if karpenter_made(node)]
    if made and cluster.budgets:
        yield Ailment(
            "BudgetsKeepNodes",
            f"Karpenter looks after {plural(len(made), 'node')} and does not remove nodes with non-preemptible jobs "
            f"beside regular pods: these jobs have a PodDisruptionBudget in {some(cluster.budgets)}",
            "with scavenger-scheduler for all pods: helm upgrade scavenger-prioritizer … --reuse-values --set "
            "settings.budgets=false; else docs/faq.md says what is left",
            advice=True,
        )


def _keep_scale_down_off(cluster: Cluster) -> Iterator[Ailment]:
    seen = [node.metadata.name for node in cluster.nodes or () if autoscaled(node)]
    off = [name for name in KEEPERS if cluster.keep_scale_down.get(name) == "never"]
    if not off or not (seen or cluster.autoscaler_status):
        return
    where = f"at {some(seen)}" if seen else "by its ConfigMap kube-system/cluster-autoscaler-status"
    yield Ailment(
        "KeepScaleDownOff",
        f"an autoscaler is seen {where}, and keepScaleDown is never: {' and '.join(KEEPERS[name] for name in off)}",
        "; ".join(f"helm upgrade {name} … --reuse-values --set settings.keepScaleDown=auto" for name in off),
        advice=True,
    )


def _incomplete(cluster: Cluster) -> Iterator[Ailment]:
    if cluster.incomplete:
        yield Ailment(
            "InstallationIncomplete",
            f"jobs do not start: {cluster.incomplete}",
            "install the chart scavenger-base; where API servers drop spec.managedBy of Jobs, remove "
            "JobManagedBy=false from their --feature-gates",
        )


def _kueue(cluster: Cluster) -> Iterator[Ailment]:
    kueue = cluster.kueue
    if kueue is None or not kueue.integrates:
        return
    of_jobs = [meta for meta in cluster.namespaces or () if meta.name in cluster.job_namespaces]
    managed = [meta.name for meta in of_jobs if selects(kueue.selector, meta.labels)]
    does = "suspends Jobs" if kueue.suspends else "holds pods by a scheduling gate"
    if kueue.manages_all and (managed or not of_jobs):
        where = f"in {some(managed)}" if managed else "in the namespaces of managedJobsNamespaceSelector"
        yield Ailment(
            "KueueManagesJobs",
            f"Kueue {does} without a queue (manageJobsWithoutQueueName) {where}, those of ScavengerJobs as well: they "
            "never start",
            "exclude these namespaces by managedJobsNamespaceSelector of Kueue, or set manageJobsWithoutQueueName to "
            "false; docs/faq.md",
        )
    if by_default := [name for name in managed if name in cluster.local_queues and not kueue.manages_all]:
        yield Ailment(
            "KueueManagesJobs",
            f"Kueue {does} in {some(by_default)} until its LocalQueue default admits them, those of ScavengerJobs as "
            "well: two queues decide on one job",
            "give scavenger jobs a namespace without a LocalQueue default, or exclude it by "
            "managedJobsNamespaceSelector of Kueue; docs/faq.md",
        )


def _mesh(cluster: Cluster) -> Iterator[Ailment]:
    found = [meta.name for meta in cluster.namespaces or () if meta.name in cluster.job_namespaces and _injects(meta)]
    if found:
        yield Ailment(
            "MeshInjection",
            f"a service mesh adds its proxy to the pods of jobs in {some(found)}. The proxy's requests come on top of "
            "what a job asks for, and count in quotas and shares. A program has no network until the proxy is ready",
            "where jobs need no mesh, label their pods by spec.template.metadata: sidecar.istio.io/inject: "
            '"false" (Istio), or annotate linkerd.io/inject: disabled (Linkerd). Where jobs need a mesh without a CNI '
            "plugin, name its image in guard.injectedImages of the chart scavenger-base",
            advice=True,
        )


def _injects(meta: ObjectMeta) -> bool:
    by_label = meta.labels.get("istio-injection") == "enabled" or "istio.io/rev" in meta.labels
    return by_label or meta.annotations.get("linkerd.io/inject") == "enabled"


def _classes(cluster: Cluster) -> Iterator[Ailment]:
    classes = cluster.classes or {}
    ordinary = classes.get(names.PRIORITY_CLASS_ORDINARY, 0)
    between = [name for name, value in classes.items() if 0 < value < ordinary]
    if ordinary:
        yield Ailment(
            "OrdinaryClassValue",
            f"{names.PRIORITY_CLASS_ORDINARY} has the value {ordinary}: pods with it preempt pods without a class"
            + (f" and those of {some(between)}" if between else ""),
            f"kubectl delete priorityclass {names.PRIORITY_CLASS_ORDINARY}, then upgrade scavenger-base",
        )
    least = names.PRIORITY_VALUES[names.PRIORITY_CLASS_NON_PREEMPTIBLE]
    low = [name for name, value in classes.items() if value <= least and name not in names.PRIORITY_VALUES]
    if low:
        yield Ailment(
            "LowClasses",
            f"pods of {some(low)} do not outrank scavenger jobs, and displace none: the value is {least} or less",
            f"give these pods a class above {least}",
            advice=True,
        )


def _schedulers(cluster: Cluster) -> Iterator[Ailment]:
    found = {pod.spec.scheduler_name for pod in cluster.pods or ()} - set(SCHEDULERS)
    if found:
        yield Ailment(
            "ForeignScheduler",
            f"pods name the scheduler {some(found)}, which need not know classes and budgets of scavenger jobs",
            "where such pods wait for capacity, see whether their scheduler preempts by priority",
            advice=True,
        )
