"""What of a cluster bites with scavenger jobs, each with its remedy. Pure: what was read in, ailments out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from scavenger_api import names
from scavenger_api.levels import LevelsView, Visibility
from scavenger_api.times import parse_time
from scavenger_domain.nodes import karpenter_made
from scavenger_kube.kinds import Node, ObjectMeta, Pod
from scavenger_kube.resources import Lease

from scavenger_cli.words import age, plural

SILENT_AFTER: Final = timedelta(seconds=names.LEADER_SILENT_SECONDS)
LEADERS: Final = (names.ADMITTER, names.REGULATOR, names.PRIORITIZER)
KUEUE_MANAGES: Final = "manageJobsWithoutQueueName: true"
SCHEDULERS: Final = ("", "default-scheduler", names.SCHEDULER)
RUNBOOK: Final = "run the command of docs/runbooks.md#scavengernoleader"
MOST_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class Ailment:
    """Something that bites: what it is, on what, and what helps."""

    name: str
    text: str
    remedy: str


@dataclass(frozen=True)
class Cluster:
    """What was read. None: it may not be read, or is not there.

    Attributes:
        now: the moment.
        leases: of the services.
        budgets: namespaces with a PodDisruptionBudget of the prioritizer.
        job_pods: pods of scavenger jobs, ended ones as well.
        pods: all pods that have not ended.
        nodes: all nodes.
        levels: as published.
        kueue: the configuration of Kueue's manager.
        namespaces: metadata of all of them.
        job_namespaces: those with ScavengerJobs.
        classes: the PriorityClasses and their values.
        images: of the services, by name.
    """

    now: datetime
    leases: Sequence[Lease] | None = None
    budgets: Sequence[str] | None = None
    job_pods: Sequence[Pod] | None = None
    pods: Sequence[Pod] | None = None
    nodes: Sequence[Node] | None = None
    levels: LevelsView | None = None
    kueue: str | None = None
    namespaces: Sequence[ObjectMeta] | None = None
    job_namespaces: Collection[str] = ()
    classes: Mapping[str, int] | None = None
    images: Mapping[str, Sequence[str]] = field(default_factory=dict)


def examine(cluster: Cluster) -> list[Ailment]:
    """All that bites, what hangs others first."""
    return [
        *_silent(cluster),
        *_stale_budgets(cluster),
        *_stale_finalizers(cluster),
        *_autoscaler(cluster),
        *_kueue(cluster),
        *_mesh(cluster),
        *_classes(cluster),
        *_schedulers(cluster),
        *_measurements(cluster),
        *_versions(cluster),
    ]


def silent(cluster: Cluster) -> dict[str, datetime | None]:
    """The services whose Lease nobody renews, and when it was renewed last."""
    found = {}
    for lease in cluster.leases or ():
        seen = parse_time(lease.spec.renew_time)
        gone = not lease.spec.holder_identity or seen is None or cluster.now - seen > SILENT_AFTER
        if lease.metadata.name in LEADERS and gone:
            found[lease.metadata.name] = seen
    return found


def _silent(cluster: Cluster) -> Iterator[Ailment]:
    for service, seen in silent(cluster).items():
        since = f"has not led for {age(seen, cluster.now)}" if seen is not None else "does not lead"
        look = f"kubectl -n {names.SYSTEM_NAMESPACE} get pods -l app.kubernetes.io/name={service}"
        yield Ailment("ServiceAway", f"{service} {since}", f"{look}; docs/runbooks.md#scavengernoleader")


def _stale_budgets(cluster: Cluster) -> Iterator[Ailment]:
    away = names.PRIORITIZER in silent(cluster) or not any(
        lease.metadata.name == names.PRIORITIZER for lease in cluster.leases or ()
    )
    if cluster.budgets and cluster.leases is not None and away:
        yield Ailment(
            "StaleBudgets",
            f"PodDisruptionBudgets {names.DISRUPTION_BUDGET} in {_some(cluster.budgets)} refuse evictions, and no "
            "prioritizer leads that would remove them: drains hang",
            RUNBOOK,
        )


def _stale_finalizers(cluster: Cluster) -> Iterator[Ailment]:
    if names.ADMITTER not in silent(cluster):
        return
    held = [
        pod.metadata.key
        for pod in cluster.job_pods or ()
        if names.FINALIZER in pod.metadata.finalizers and pod.metadata.deletion_timestamp is not None and pod.ended
    ]
    if held:
        text = f"the finalizer keeps pods that are deleted, and no admitter leads: {_some(held)}"
        yield Ailment("StaleFinalizers", text, RUNBOOK)


def _autoscaler(cluster: Cluster) -> Iterator[Ailment]:
    made = [node.metadata.name for node in cluster.nodes or () if karpenter_made(node)]
    if made and cluster.budgets:
        yield Ailment(
            "BudgetsKeepNodes",
            f"Karpenter looks after {plural(len(made), 'node')} and does not remove nodes with non-preemptible jobs "
            f"beside ordinary pods: these jobs have a PodDisruptionBudget in {_some(cluster.budgets)}",
            "with scavenger-scheduler for all pods: helm upgrade scavenger-prioritizer … --reuse-values --set "
            "settings.budgets=false; else docs/faq.md says what is left",
        )


def _kueue(cluster: Cluster) -> Iterator[Ailment]:
    if cluster.kueue is not None and KUEUE_MANAGES in cluster.kueue:
        yield Ailment(
            "KueueManagesJobs",
            "Kueue suspends Jobs without a queue (manageJobsWithoutQueueName), those of ScavengerJobs as well: they "
            "never start",
            "set manageJobsWithoutQueueName to false, or leave these namespaces out by managedJobsNamespaceSelector",
        )


def _mesh(cluster: Cluster) -> Iterator[Ailment]:
    found = [meta.name for meta in cluster.namespaces or () if meta.name in cluster.job_namespaces and _injects(meta)]
    if found:
        yield Ailment(
            "MeshInjection",
            f"a service mesh adds a container to pods in {_some(found)}: its requests are not planned with, and it "
            "takes part of what a job asked for",
            "run jobs in a namespace without injection, or take the label off: kubectl label namespace NAME "
            "istio-injection- istio.io/rev-",
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
            + (f" and those of {_some(between)}" if between else ""),
            f"kubectl delete priorityclass {names.PRIORITY_CLASS_ORDINARY}, then upgrade scavenger-base",
        )
    least = names.PRIORITY_VALUES[names.PRIORITY_CLASS_NON_PREEMPTIBLE]
    low = [name for name, value in classes.items() if value <= least and name not in names.PRIORITY_VALUES]
    if low:
        yield Ailment(
            "LowClasses",
            f"pods of {_some(low)} do not outrank scavenger jobs, and displace none: the value is {least} or less",
            f"give these pods a class above {least}",
        )


def _schedulers(cluster: Cluster) -> Iterator[Ailment]:
    found = {pod.spec.scheduler_name for pod in cluster.pods or ()} - set(SCHEDULERS)
    if found:
        yield Ailment(
            "ForeignScheduler",
            f"pods name the scheduler {_some(found)}, which need not know classes and budgets of scavenger jobs",
            "where such pods wait for room, see whether their scheduler preempts by priority",
        )


def _measurements(cluster: Cluster) -> Iterator[Ailment]:
    if cluster.levels is not None and cluster.levels.visibility in (Visibility.STALE, Visibility.BLIND):
        yield Ailment(
            "NoMeasurement",
            f"nothing new starts: {cluster.levels.reason}",
            "docs/runbooks.md#scavengerblind; kubectl top nodes shows whether metrics are served",
        )


def _versions(cluster: Cluster) -> Iterator[Ailment]:
    versions: dict[str, list[str]] = {}
    for service, images in sorted(cluster.images.items()):
        for image in images:
            versions.setdefault(image.partition("@")[0].rpartition(":")[2], []).append(service)
    if len(versions) > 1:
        text = "; ".join(f"{version}: {_some(services)}" for version, services in sorted(versions.items()))
        yield Ailment("VersionsDiffer", f"services run different versions: {text}", "upgrade all charts to one version")


def _some(found: Iterable[str]) -> str:
    """Names in order, the first few of them."""
    listed = sorted(set(found))
    more = f" and {len(listed) - MOST_NAMED} more" if len(listed) > MOST_NAMED else ""
    return ", ".join(listed[:MOST_NAMED]) + more
