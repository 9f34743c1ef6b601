"""doctor: problems of the cluster and of the installation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar
from urllib.parse import quote

import msgspec
import typer
from scavenger_api import names
from scavenger_api.reasons import WaitReason
from scavenger_api.shunned_nodes import shunned_nodes
from scavenger_api.states import ConditionType
from scavenger_domain.adopted import claimed
from scavenger_domain.release import LABEL_OF
from scavenger_kube import resources
from scavenger_kube.errors import NotFound, Unavailable
from scavenger_kube.kinds import ConfigMap, Node, ObjectMeta, Pod, Struct

from scavenger_cli import paths
from scavenger_cli.access import Access, cluster_command
from scavenger_cli.commands.showing import MAX_WIDTH, width
from scavenger_cli.exits import CliError, ExitCode
from scavenger_cli.forms import DATA, Format, output_of, print_data
from scavenger_cli.gather import Deployment, NodeUse, Reader
from scavenger_cli.manifests import KINDS
from scavenger_cli.objects import Job, LabelSelector, decode, decode_items, raw_items
from scavenger_cli.options import OutputOption
from scavenger_cli.output import note, say, say_styled
from scavenger_cli.words import plural

if TYPE_CHECKING:
    from scavenger_cli.examination import Cluster
    from scavenger_cli.installation import Installation

KUEUE: Final = "/api/v1/namespaces/kueue-system/configmaps/kueue-manager-config"
LOCAL_QUEUES: Final = "/apis/kueue.x-k8s.io/v1beta1/localqueues"
AUTOSCALER: Final = "/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status"
ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
MUTATING_WEBHOOKS: Final = f"{ADMISSION}/mutatingwebhookconfigurations"
POLICY_BINDINGS: Final = f"{ADMISSION}/mutatingadmissionpolicybindings"
ADOPTS: Final = "scavenger-adopt"
"""The policy that adopts Jobs."""
RANKING_POLICY: Final = f"{ADMISSION}/mutatingadmissionpolicies/scavenger-pods-rank"
CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"

T = TypeVar("T")


class Class(Struct, frozen=True, gc=False, rename="camel"):
    """scheduling.k8s.io/v1 PriorityClass."""

    metadata: ObjectMeta = ObjectMeta()
    value: int = 0
    global_default: bool = False


@cluster_command
def doctor(
    access: Access,
    install: Annotated[bool, typer.Option("--install", help="Print a line for each part of the installation.")] = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Find problems of the cluster.

    It checks for budgets and finalizers of absent components, settings of autoscalers, Kueue and service meshes,
    PriorityClasses, schedulers, metrics and versions. It only reads. It lists what you may not read. The exit code is 6
    when there is something to fix.

    With --install it reports the state of each part of the installation: components, images, metrics, classes,
    scheduler, budgets, webhook, versions, nodes and devices. The exit code is 1 when it could not check a part.

    \b
    Examples:
      kubectl sj doctor
      kubectl sj doctor --install
      kubectl sj doctor -o json
    """
    from scavenger_cli import render
    from scavenger_cli.examination import examine

    form = output_of(output, "doctor", DATA)
    reader = Reader(access)
    cluster = _read(access, reader)
    if install:
        _installation(access, reader, cluster, form)
        return
    found = examine(cluster)
    if form.table:
        for one in found:
            lines = [("what", one.text), ("remedy", one.remedy)]
            say("\n".join([one.name, *render.pairs(lines, min(width(), MAX_WIDTH), indent="  ")]))
        if not found:
            say("nothing found")
        for text in render.wrap(", ".join(reader.read) or "nothing", width(), first="looked at: ", rest="  "):
            say(text)
    else:
        print_data({"ailments": [asdict(one) for one in found], **_read_data(reader)}, form)
    _end(reader, sum(not one.advice for one in found), table=form.table)


def _read_data(reader: Reader) -> dict[str, Any]:
    return {"lookedAt": reader.read, "notPermitted": reader.unreadable}


def _end(reader: Reader, faults: int, *, table: bool) -> None:
    """Say what was not read. Raises CliError where something has to be mended."""
    for what in reader.unreadable if table else ():
        note(f"not permitted to read {what}")
    if faults:
        raise CliError(f"{plural(faults, 'problem')} to mend", code=ExitCode.FOUND)


def _installation(access: Access, reader: Reader, cluster: Cluster, form: Format) -> None:
    """Print the table of --install. Raises CliError where a part has to be mended, or could not be looked at."""
    from scavenger_cli import render
    from scavenger_cli.installation import State, check

    rows = check(_seen(access, reader, cluster))
    if form.table:
        longest = max(len(row.check) for row in rows)
        colours = {State.OK: "green", State.MEND: "red", State.NOTE: "cyan", State.UNKNOWN: "yellow"}
        for row in rows:
            label = f"{row.check:<{longest}}  {row.state:<7}"
            text = row.text + (f" → {row.remedy}" if row.remedy else "")
            lines = "\n".join(render.pairs([(label, text)], min(width(), MAX_WIDTH)))
            say_styled(lines, str(row.state), colours[row.state])
    else:
        print_data({"checks": [asdict(row) for row in rows], **_read_data(reader)}, form)
    _end(reader, sum(row.state is State.MEND for row in rows), table=form.table)
    if unknown := [row.check for row in rows if row.state is State.UNKNOWN]:
        raise CliError(f"not looked at: {', '.join(unknown)}", "your account may not read what this takes")


def _seen(access: Access, reader: Reader, cluster: Cluster) -> Installation:
    """What --install looks at beside what `doctor` does."""
    from scavenger_cli.installation import EndpointSlice, Installation, WebhookConfiguration
    from scavenger_cli.main import own_version

    get, ours = access.client.get, {"labelSelector": paths.PART_OF_US}

    def items(what: str, path: str, kind: type[Any], params: dict[str, str]) -> Any:
        return reader.optional(what, lambda: decode_items(get(path, params), kind))

    def measured() -> list[str]:
        """Nodes that the metrics API has figures of; none where that API is not served (a broken one answers 503)."""
        try:
            return [use.metadata.name for use in decode_items(get(paths.NODE_METRICS), NodeUse)]
        except (NotFound, Unavailable, msgspec.DecodeError):
            return []

    mutating = items("webhooks that change", MUTATING_WEBHOOKS, WebhookConfiguration, ours)
    refusing = items("webhooks that refuse", f"{ADMISSION}/validatingwebhookconfigurations", WebhookConfiguration, ours)
    services = [hook.client_config.service for one in (*(mutating or ()), *(refusing or ())) for hook in one.webhooks]
    behind = next(((one.namespace, one.name) for one in services if one is not None), None)
    endpoints = None
    if behind is not None:
        path = f"/apis/discovery.k8s.io/v1/namespaces/{quote(behind[0])}/endpointslices"
        labelled = {"labelSelector": f"kubernetes.io/service-name={behind[1]}"}
        endpoints = items("EndpointSlices of the webhook", path, EndpointSlice, labelled)
    regulator = next((one for one in cluster.deployments or () if one.metadata.name == names.REGULATOR), None)
    tolerated = regulator.variable("SCAVENGER_TOLERATED_TAINTS") if regulator is not None else ""
    return Installation(
        cluster,
        namespace=access.system_namespace,
        version=own_version(),
        mutating=mutating,
        validating=refusing,
        ranking_policy=reader.optional("the policy that ranks pods", lambda: _there(lambda: get(RANKING_POLICY))),
        endpoints=endpoints,
        measured=reader.optional("metrics of nodes", measured),
        missing_fields=reader.optional("CustomResourceDefinitions", lambda: _missing_fields(access)),
        tolerated_taints=[key.strip() for key in tolerated.split(",") if key.strip()],
        unreadable=tuple(reader.unreadable),
        settings=reader.optional(f"the ConfigMap {names.SETTINGS_CONFIGMAP}", lambda: access.settings_data),
    )


def _missing_fields(access: Access) -> list[str]:
    """Fields that this program knows and the CRDs of the cluster lack. Raises ApiError."""
    from scavenger_cli.installation import lacking
    from scavenger_cli.lint.check import schema_of

    found: list[str] = []
    for kind in KINDS:
        path = f"{CRDS}/{kind.lower()}s.{names.GROUP}"
        body = _unless_missing(lambda path=path: msgspec.json.decode(access.client.get(path)))  # type: ignore[misc]
        versions = body["spec"]["versions"] if body is not None else ()
        served: dict[str, Any] = next(
            (one["schema"]["openAPIV3Schema"] for one in versions if one["name"] == names.VERSION), {}
        )
        found += lacking(schema_of(kind), served, kind)
    return found


def _there(read: Callable[[], object]) -> bool:
    return _unless_missing(read) is not None


def _read(access: Access, reader: Reader) -> Cluster:
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

    def batch_jobs() -> list[dict[str, Any]]:
        """Jobs of users that are adopted, or that a release has made."""
        params = {"labelSelector": f"!{names.LABEL_JOB}"}
        body = _unless_missing(lambda: get(resources.JOBS.path(), params))
        found = raw_items(body) if body is not None else ()
        return [job for job in found if claimed(job) or LABEL_OF in (job["metadata"].get("labels") or {})]

    configured = data_of("the configuration of Kueue", KUEUE)
    queues = reader.optional("the LocalQueues of Kueue", local_queues) if configured is not None else None
    deployments = reader.services()
    services = deployments or ()
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
        batch_jobs=reader.optional("adopted Jobs", batch_jobs) or (),
        adopts=_adopts(services),
        serving=reader.optional("where Jobs are adopted", lambda: _serving(access)),
        job_pods=items("pods of jobs", paths.PODS, Pod, {"labelSelector": names.LABEL_JOB}),
        pods=reader.pods(),
        nodes=items("nodes", paths.NODES, Node),
        levels=reader.levels(now),
        shunned=shunned_nodes(data_of("nodes that refuse pods", paths.nodes(access.system_namespace)) or {}),
        autoscaler_status=data_of("the status of Cluster Autoscaler", AUTOSCALER) is not None,
        keep_scale_down={one.metadata.name: one.variable("SCAVENGER_KEEP_SCALE_DOWN") for one in services},
        kueue=parse(configured) if configured is not None else None,
        local_queues={meta.namespace for meta in _metadata(queues) or ()},
        namespaces=_metadata(items("namespaces", resources.NAMESPACES.path(), resources.Namespace)),
        job_namespaces={job.namespace for job in jobs},
        incomplete=next(filter(None, map(_incomplete, jobs)), ""),
        classes=None if classes is None else {one.metadata.name: one.value for one in classes},
        images={one.metadata.name: one.images for one in services},
        default_class=next((one.metadata.name for one in classes or () if one.global_default), ""),
        deployments=deployments,
    )


def _adopts(services: Sequence[Deployment]) -> bool | None:
    """Whether the admitter runs adopted Jobs; None where no Deployment says so."""
    admitter = next((one for one in services if one.metadata.name == names.ADMITTER), None)
    return admitter.variable("SCAVENGER_ADOPT") == "true" if admitter is not None else None


def _serving(access: Access) -> list[LabelSelector]:
    """Selectors of the namespaces in which a policy or the webhook adopts Jobs. Raises ApiError."""
    from scavenger_cli.installation import PolicyBinding, WebhookConfiguration

    def ours(path: str, kind: type[T]) -> list[T]:
        params = {"labelSelector": paths.PART_OF_US}
        return _unless_missing(lambda: decode_items(access.client.get(path, params), kind)) or []

    hooks = [hook for one in ours(MUTATING_WEBHOOKS, WebhookConfiguration) for hook in one.webhooks]
    bindings = [one.spec for one in ours(POLICY_BINDINGS, PolicyBinding) if one.spec.policy_name == ADOPTS]
    return [
        *(hook.namespace_selector for hook in hooks if hook.asks_about("jobs")),
        *(spec.match_resources.namespace_selector for spec in bindings),
    ]


def _incomplete(job: Job) -> str:
    """What a job says that does not start for want of a part of the installation; empty of any other."""
    admitted = job.condition(ConditionType.ADMITTED)
    if admitted is None or admitted.reason != WaitReason.INSTALLATION_INCOMPLETE:
        return ""
    return admitted.message


def _metadata(found: Any) -> Any:
    return None if found is None else [one.metadata for one in found]


def _unless_missing(read: Callable[[], T]) -> T | None:
    try:
        return read()
    except NotFound:
        return None
