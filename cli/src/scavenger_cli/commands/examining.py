"""doctor: what of the cluster bites."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from scavenger_api import names
from scavenger_kube import resources
from scavenger_kube.errors import NotFound
from scavenger_kube.kinds import ConfigMap, Node, ObjectMeta, Pod, Struct

from scavenger_cli import paths
from scavenger_cli.access import Access, cluster_command
from scavenger_cli.commands.showing import MAX_WIDTH, width
from scavenger_cli.forms import DATA, Format, output_of, print_data
from scavenger_cli.gather import Reader
from scavenger_cli.objects import decode, decode_items
from scavenger_cli.options import OutputOption
from scavenger_cli.output import note, say

KUEUE: Final = "/api/v1/namespaces/kueue-system/configmaps/kueue-manager-config"
LOCAL_QUEUES: Final = "/apis/kueue.x-k8s.io/v1beta1/localqueues"
AUTOSCALER: Final = "/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status"
CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"

T = TypeVar("T")


class Class(Struct, frozen=True, gc=False):
    """scheduling.k8s.io/v1 PriorityClass."""

    metadata: ObjectMeta = ObjectMeta()
    value: int = 0


@cluster_command
def doctor(access: Access, output: OutputOption = Format.TABLE) -> None:
    """Say what of the cluster bites.

    Marks of services that are away, settings of autoscalers, Kueue and meshes, priority classes, schedulers, metrics
    and versions. It reads and changes nothing; what you may not read it leaves out, and says so.

    \b
    Examples:
      kubectl sj doctor
      kubectl sj doctor -o json
    """
    from scavenger_cli import render
    from scavenger_cli.examination import examine

    form = output_of(output, "doctor", DATA)
    reader = Reader(access)
    found = examine(_read(access, reader))
    if not form.table:
        ailments = [{"name": one.name, "text": one.text, "remedy": one.remedy} for one in found]
        print_data({"ailments": ailments, "notPermitted": reader.unreadable}, form)
        return
    for one in found:
        lines = [("what", one.text), ("remedy", one.remedy)]
        say("\n".join([one.name, *render.pairs(lines, min(width(), MAX_WIDTH), indent="  ")]))
    if not found:
        say("nothing found")
    for what in reader.unreadable:
        note(f"not permitted to read {what}")


def _read(access: Access, reader: Reader) -> Any:
    from scavenger_cli.examination import Cluster
    from scavenger_cli.kueue import parse

    get, now = access.client.get, access.now()

    def items(what: str, path: str, kind: type[Any], params: dict[str, str] | None = None) -> Any:
        return reader.optional(what, lambda: decode_items(get(path, params), kind))

    def data_of(what: str, path: str) -> Any:
        """The data of a ConfigMap; None where it is missing, or may not be read."""
        return reader.optional(what, lambda: _unless_missing(lambda: decode(get(path), ConfigMap).data))

    def local_queues() -> Any:
        default = {"fieldSelector": "metadata.name=default"}
        return _unless_missing(lambda: decode_items(get(LOCAL_QUEUES, default), resources.Namespace))

    configured = data_of("the configuration of Kueue", KUEUE)
    queues = reader.optional("the LocalQueues of Kueue", local_queues) if configured is not None else None
    services = reader.services() or ()
    budget = {"fieldSelector": f"metadata.name={names.DISRUPTION_BUDGET}"}
    leases = resources.LEASES.path(access.system_namespace)
    budgets = items("budgets", resources.PODDISRUPTIONBUDGETS.path(), resources.PodDisruptionBudget, budget)
    classes = items("priority classes", CLASSES, Class)
    jobs = reader.all_jobs() or ()
    return Cluster(
        now,
        leases=items("leases", leases, resources.Lease),
        budgets=None if budgets is None else [one.metadata.namespace for one in budgets if one.ours],
        foreign_budgets=[one.metadata.namespace for one in budgets or () if not one.ours],
        job_pods=items("pods of jobs", paths.PODS, Pod, {"labelSelector": names.LABEL_JOB}),
        pods=reader.pods(),
        nodes=items("nodes", paths.NODES, Node),
        levels=reader.levels(now),
        autoscaler_status=data_of("the status of Cluster Autoscaler", AUTOSCALER) is not None,
        keep_scale_down={one.metadata.name: one.variable("SCAVENGER_KEEP_SCALE_DOWN") for one in services},
        kueue=parse(configured) if configured is not None else None,
        local_queues={meta.namespace for meta in _metadata(queues) or ()},
        namespaces=_metadata(items("namespaces", resources.NAMESPACES.path(), resources.Namespace)),
        job_namespaces={job.namespace for job in jobs},
        classes=None if classes is None else {one.metadata.name: one.value for one in classes},
        images={one.metadata.name: one.images for one in services},
    )


def _metadata(found: Any) -> Any:
    return None if found is None else [one.metadata for one in found]


def _unless_missing(read: Callable[[], T]) -> T | None:
    try:
        return read()
    except NotFound:
        return None
