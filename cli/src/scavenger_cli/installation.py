"""What an administrator looks at in the first hour: each part of an installation, and whether it works. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, Final

from scavenger_api import names
from scavenger_api.levels import Visibility
from scavenger_api.rules.image import tag_of
from scavenger_api.shared_settings import FIELDS, Reading, SharedSettings, flag_field, key_of
from scavenger_domain.ailments import Ailment, some
from scavenger_domain.nodes import available, counts, keeping_out
from scavenger_domain.pulls import NO_IMAGE
from scavenger_domain.taints import blocking
from scavenger_kube.kinds import Node, ObjectMeta, Pod, Struct

from scavenger_cli.examination import Cluster, examine
from scavenger_cli.objects import LabelSelector
from scavenger_cli.paths import PART_OF_US
from scavenger_cli.remedies import INSTALL
from scavenger_cli.words import age, plural

CONTROL_PLANE: Final = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
"""Keys of the taints that keep workloads off the control plane: the load does not need these nodes."""
APPLY_CRDS: Final = "helm show crds CHART | kubectl apply --server-side --force-conflicts -f -"
LISTENS: Final = {"SCAVENGER_HEALTH_ADDRESS": "healthAddress", "SCAVENGER_ADDRESS": "address"}
"""Where components listen: variables of their containers, and settings of the charts."""
METRICS_API: Final = "metrics-api"
"""The regulator's `--source` by default."""


class State(StrEnum):
    """What a check came to."""

    OK = "ok"
    NOTE = "note"
    """Nothing is broken; an administrator should know it."""
    MEND = "mend"
    UNKNOWN = "unknown"
    """What it takes may not be read."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table.

    Attributes:
        check: what was looked at.
        state: what that came to.
        text: the facts.
        remedy: what helps; empty where nothing has to be done.
    """

    check: str
    state: State
    text: str
    remedy: str = ""


class ServiceReference(Struct, frozen=True, gc=False, rename="camel"):
    """clientConfig.service of a webhook."""

    name: str = ""
    namespace: str = ""


class ClientConfig(Struct, frozen=True, gc=False, rename="camel"):
    """clientConfig of a webhook: where it answers, and by whose certificates."""

    service: ServiceReference | None = None
    ca_bundle: str = ""


class Rule(Struct, frozen=True, gc=False, rename="camel"):
    """What the API server asks a webhook about."""

    resources: tuple[str, ...] = ()


class Webhook(Struct, frozen=True, gc=False, rename="camel"):
    """webhooks[] of a configuration."""

    client_config: ClientConfig = ClientConfig()
    rules: tuple[Rule, ...] = ()
    namespace_selector: LabelSelector = LabelSelector()

    def asks_about(self, kind: str) -> bool:
        """Whether the API server asks it about objects of a kind, by its plural."""
        return any(kind in rule.resources for rule in self.rules)


class WebhookConfiguration(Struct, frozen=True, gc=False, rename="camel"):
    """admissionregistration.k8s.io/v1 MutatingWebhookConfiguration or ValidatingWebhookConfiguration."""

    metadata: ObjectMeta = ObjectMeta()
    webhooks: tuple[Webhook, ...] = ()


class MatchResources(Struct, frozen=True, gc=False, rename="camel"):
    """matchResources of the binding of a policy."""

    namespace_selector: LabelSelector = LabelSelector()


class PolicyBindingSpec(Struct, frozen=True, gc=False, rename="camel"):
    """spec of the binding of a policy."""

    policy_name: str = ""
    match_resources: MatchResources = MatchResources()


class PolicyBinding(Struct, frozen=True, gc=False, rename="camel"):
    """admissionregistration.k8s.io/v1 MutatingAdmissionPolicyBinding."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PolicyBindingSpec = PolicyBindingSpec()


class EndpointConditions(Struct, frozen=True, gc=False, rename="camel"):
    """conditions of an endpoint."""

    ready: bool | None = None


class Endpoint(Struct, frozen=True, gc=False, rename="camel"):
    """endpoints[] of an EndpointSlice: a pod behind a Service."""

    conditions: EndpointConditions = EndpointConditions()


class EndpointSlice(Struct, frozen=True, gc=False, rename="camel"):
    """discovery.k8s.io/v1 EndpointSlice."""

    metadata: ObjectMeta = ObjectMeta()
    address_type: str = ""
    endpoints: tuple[Endpoint, ...] = ()

    @property
    def ready(self) -> int:
        """Pods that answer; null means ready."""
        return sum(one.conditions.ready is not False for one in self.endpoints)


@dataclass(frozen=True)
class Installation:
    """What was read. None: it may not be read.

    Attributes:
        cluster: what `doctor` looks at anyway.
        namespace: of the components.
        version: of this program.
        mutating: the configurations of the webhook that change objects; empty where there is none.
        validating: those that refuse objects.
        ranking_policy: whether the policy that ranks pods is there.
        endpoints: EndpointSlices of the webhook's Service.
        measured: nodes that the metrics API has figures of; empty where that API is not served.
        missing_fields: fields that this program knows and the CRDs of the cluster lack.
        tolerated_taints: keys of taints that take no node out of the load.
        unreadable: what else may not be read, in words.
        settings: the ConfigMap with what all components read alike; empty without one.
    """

    cluster: Cluster
    namespace: str = names.SYSTEM_NAMESPACE
    version: str = ""
    mutating: Sequence[WebhookConfiguration] | None = None
    validating: Sequence[WebhookConfiguration] | None = None
    ranking_policy: bool | None = None
    endpoints: Sequence[EndpointSlice] | None = None
    measured: Collection[str] | None = None
    missing_fields: Sequence[str] | None = None
    tolerated_taints: Collection[str] = ()
    unreadable: Collection[str] = ()
    settings: Mapping[str, str] | None = None

    @cached_property
    def shared(self) -> Reading:
        """What all components read alike, and what of it they cannot use."""
        return SharedSettings().read(self.settings or {})

    @cached_property
    def used(self) -> frozenset[str]:
        """Nodes with a pod of a scavenger job: these count, whatever taints they have."""
        return frozenset(pod.spec.node_name for pod in self.cluster.job_pods or () if not pod.ended)


Found = Iterator[tuple[State, str, str]]


def check(seen: Installation) -> list[Row]:
    """One row or more for each part of an installation, in the order in which they build on each other."""
    ailments = examine(seen.cluster)
    rows = []
    for name, of_check, look in CHECKS:
        bad = [_of(one) for one in ailments if one.name in of_check]
        found = [*bad, *look(seen)]
        worst = [one for one in found if one[0] is not State.OK]
        rows += [Row(name, *one) for one in worst or found[:1]]
    return rows


def _of(ailment: Ailment) -> tuple[State, str, str]:
    return State.NOTE if ailment.advice else State.MEND, ailment.text, ailment.remedy


def _unknown(what: str) -> tuple[State, str, str]:
    return State.UNKNOWN, f"you may not read {what}", "ask an administrator of the cluster to run this command"


def _components(seen: Installation) -> Found:
    if seen.cluster.deployments is None:
        yield _unknown("Deployments of the components")
        return
    there = {one.metadata.name: one for one in seen.cluster.deployments}
    if not there:
        yield State.MEND, f"there is no component in namespace {seen.namespace}", f"{INSTALL}, or --system-namespace"
        return
    for name, one in there.items():
        if one.status.ready_replicas < min(1, one.spec.replicas):
            look = f"kubectl -n {seen.namespace} describe pods -l app.kubernetes.io/name={name}"
            yield State.MEND, f"no pod of {name} is ready", look
    if seen.cluster.leases is None:
        yield _unknown("Leases of the components")
    for name in (names.ADMITTER, names.REGULATOR, names.PRIORITIZER):
        if name not in there:
            does = {names.ADMITTER: "no job starts", names.REGULATOR: "fixed levels hold, and no job leaves"}
            state = State.MEND if name == names.ADMITTER else State.NOTE
            yield state, f"{name} is not installed: {does.get(name, 'all jobs stay preemptible')}", INSTALL
    yield State.OK, ", ".join(f"{n} {one.status.ready_replicas}/{one.spec.replicas}" for n, one in there.items()), ""


def _images(seen: Installation) -> Found:
    if seen.cluster.pods is None:
        yield _unknown("pods")
        return
    ours = [pod for pod in seen.cluster.pods if pod.metadata.namespace == seen.namespace and _part_of_us(pod)]
    for pod in ours:
        images = {one.name: one.image for one in (*pod.spec.init_containers, *pod.spec.containers)}
        for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
            waiting = status.state.waiting
            if waiting is not None and waiting.reason in NO_IMAGE:
                text = f"pod {pod.metadata.name} on {pod.spec.node_name} cannot pull {images.get(status.name, '')}: "
                remedy = "push the images, or set global.image.registry and imagePullSecrets (docs/install.md)"
                yield State.MEND, text + (waiting.message or waiting.reason), remedy
    started = [pod for pod in ours if pod.status.phase == "Running"]
    yield State.OK, f"{plural(len(started), 'pod')} of the components have theirs", ""


def _part_of_us(pod: Pod) -> bool:
    label, _, value = PART_OF_US.partition("=")
    return pod.metadata.labels.get(label) == value


def _addresses(seen: Installation) -> Found:
    if seen.cluster.deployments is None:
        yield _unknown("Deployments of the components")
        return
    ipv6 = any(one.address_type == "IPv6" for one in seen.endpoints or ())
    for one in seen.cluster.deployments:
        for variable, setting in LISTENS.items():
            value = one.variable(variable)
            if "." in value and not value.startswith("127."):  # what listens on loopback is meant for the pod alone
                text = f"{one.metadata.name} listens on {value} alone, where no kubelet of an IPv6 cluster asks"
                yield State.MEND if ipv6 else State.NOTE, text, f"remove settings.{setting} of its chart"
    yield State.OK, "the components listen on IPv6 and IPv4", ""


def _metrics(seen: Installation) -> Found:
    view = seen.cluster.levels
    if view is None:
        yield _unknown("the levels")
        return
    if view.visibility is Visibility.ABSENT:
        yield State.NOTE, "no regulator has published levels: fixed ones hold", "see the components"
        return
    source = view.levels.source if view.levels is not None else ""
    if view.on_requests:
        yield (
            State.NOTE,
            "use is not measured, so requests count as load",
            "install metrics-server (docs/install.md)",
        )
    if source == METRICS_API:
        yield from _unmeasured(seen)
    if view.observed_at is not None:
        yield State.OK, f"measured {age(view.observed_at, seen.cluster.now)} ago, by {source or 'the regulator'}", ""


def _unmeasured(seen: Installation) -> Found:
    if seen.measured is None:
        yield _unknown("metrics of nodes")
        return
    nodes = [node.metadata.name for node in seen.cluster.nodes or () if _counts(seen, node)]
    if bare := [name for name in nodes if name not in seen.measured]:
        # In a large cluster some node has always just joined; without enough of them the regulator measures nothing.
        state = State.NOTE if len(bare) < len(nodes) else State.MEND
        text = f"{len(bare)} of {len(nodes)} nodes in the load have no metrics: {some(bare)}"
        yield state, text, "kubectl -n kube-system logs deployment/metrics-server"


def _counts(seen: Installation, node: Node) -> bool:
    return counts(node, seen.tolerated_taints, holds=node.metadata.name in seen.used)


def _classes(seen: Installation) -> Found:
    classes = seen.cluster.classes
    if classes is None:
        yield _unknown("priority classes")
        return
    if missing := [name for name in names.PRIORITY_VALUES if name not in classes]:
        yield State.MEND, f"there is no PriorityClass {some(missing)}", "install charts/scavenger-base"
    value = classes.get(seen.cluster.default_class, 0)
    text = f"pods without a class get {seen.cluster.default_class or 'none'} ({value})"
    if value <= names.PRIORITY_VALUES[names.PRIORITY_CLASS_NON_PREEMPTIBLE]:
        yield State.MEND, f"{text}, which does not outrank scavenger jobs", "make another class the default"
    yield State.OK, text, ""


def _ranks(seen: Installation) -> Found:
    if seen.mutating is None or seen.ranking_policy is None:
        yield _unknown("webhook configurations, or admission policies")
    elif any(hook.asks_about("pods") for one in seen.mutating for hook in one.webhooks):
        yield State.OK, "the webhook gives pods a class that have none, or a low one", ""
    elif seen.ranking_policy:
        yield State.OK, "a policy of the API server gives pods a class that have none, or a low one", ""
    else:
        yield State.OK, "their PriorityClass, which nothing changes", ""


def _scheduler(seen: Installation) -> Found:
    if seen.cluster.pods is None:
        yield _unknown("pods")
        return
    found = Counter(pod.spec.scheduler_name or "default-scheduler" for pod in seen.cluster.pods)
    there = seen.cluster.deployments
    if names.SCHEDULER in found and there is not None and names.SCHEDULER not in {one.metadata.name for one in there}:
        text = f"{plural(found[names.SCHEDULER], 'pod')} name {names.SCHEDULER}, which has no Deployment here"
        yield State.NOTE, text, "see whether it runs elsewhere (docs/scheduler.md)"
    told = ", ".join(f"{name}: {plural(number, 'pod')}" for name, number in sorted(found.items()))
    yield State.OK, told or "there is no pod", ""


def _budgets(seen: Installation) -> Found:
    if seen.cluster.budgets is None:
        yield _unknown("budgets")
    elif not (number := len(seen.cluster.budgets)):
        yield State.OK, "no namespace has non-preemptible jobs", ""
    else:
        has = "has" if number == 1 else "have"
        text = f"{plural(number, 'namespace')} with non-preemptible jobs {has} one"
        yield State.OK, f"{text}; docs/alerts.md has the silence for alerts about them", ""


def _webhook(seen: Installation) -> Found:
    if seen.mutating is None or seen.validating is None:
        yield _unknown("webhook configurations")
        return
    hooks = [hook.client_config for one in (*seen.mutating, *seen.validating) for hook in one.webhooks]
    if not hooks:
        yield State.NOTE, "it is not installed: the API server's own rules check jobs", ""
        return
    if any(not hook.ca_bundle for hook in hooks):
        yield State.MEND, "its configuration has no caBundle: the API server does not trust it", "docs/webhook.md"
    if any(hook.service is None for hook in hooks):
        yield State.NOTE, "it is reached by a URL, which is not looked at here", ""
    elif seen.endpoints is None:
        yield _unknown("EndpointSlices of the webhook")
    elif not (ready := sum(one.ready for one in seen.endpoints)):
        text = "its Service has no ready pod: new ScavengerJobs are refused"
        yield State.MEND, text, f"kubectl -n {seen.namespace} get pods -l app.kubernetes.io/name={names.WEBHOOK}"
    else:
        yield State.OK, f"{plural(ready, 'pod')} behind its Service", ""


def _versions(seen: Installation) -> Found:
    if seen.missing_fields is None:
        yield _unknown("CustomResourceDefinitions")
        return
    tags = {tag_of(image) for images in seen.cluster.images.values() for image in images} - {""}
    if seen.missing_fields:
        text = f"the CRDs lack fields that kubectl sj {seen.version} knows: {some(seen.missing_fields)}"
        state = State.MEND if tags == {seen.version} else State.NOTE
        yield state, text, f"{APPLY_CRDS}; or use kubectl sj of the components' version"
    theirs = ", ".join(sorted(tags)) or "by digest"
    yield State.OK, f"components {theirs}; kubectl sj {seen.version}; CRDs have all its fields", ""


def _nodes(seen: Installation) -> Found:
    nodes = seen.cluster.nodes
    if nodes is None or seen.cluster.job_pods is None:
        yield _unknown("nodes, or pods of jobs")
        return
    out = [node for node in nodes if available(node) and not _counts(seen, node)]
    pools: dict[str, list[Node]] = {}
    for node in out:
        for key in _keeping(node, seen.tolerated_taints):
            pools.setdefault(key, []).append(node)
    for key, found in sorted(pools.items()):
        devices = _devices(found)
        are = "is" if len(found) == 1 else "are"
        text = f"{plural(len(found), 'node')} with the taint {key} {are} in no load, and no job starts there"
        text += f": {some(node.metadata.name for node in found)}" + (
            f", with {', '.join(sorted(devices))}" if devices else ""
        )
        where = (
            "settings.toleratedTaints of scavenger-regulator and scavenger-admitter, "
            "and settings.allowedTolerations of scavenger-admitter and scavenger-webhook"
        )
        yield State.NOTE, text, f"where scavenger jobs may run on them: {where}"
    yield State.OK, f"{len(nodes) - len(out)} of {len(nodes)} nodes are in the load", ""


def _keeping(node: Node, tolerated: Collection[str]) -> list[str]:
    """Keys of the taints that take a node out of the load; none where it belongs to the control plane."""
    if any(taint.key in CONTROL_PLANE for taint in blocking(node.spec.taints)):
        return []
    return list(keeping_out(node, tolerated))


def _devices(nodes: Iterable[Node]) -> set[str]:
    return {
        name
        for node in nodes
        for name, amount in node.status.allocatable.items()
        if "/" in name and str(amount) != "0" and not name.startswith(f"{names.GROUP}/")
    }


def _weights(seen: Installation) -> Found:
    if seen.cluster.nodes is None:
        yield _unknown("nodes")
        return
    devices = _devices(seen.cluster.nodes)
    weights = seen.shared.settings.resource_weights
    bare = [name for name in devices if not weights.of(name)]
    if bare:
        text = f"{some(bare)} have no weight: an interruption counts the CPU beside them alone as lost"
        yield State.NOTE, text, "resourceWeights of charts/scavenger-base"
    yield State.OK, f"{', '.join(sorted(devices)) or 'there are no devices'}", ""


def _settings(seen: Installation) -> Found:
    if seen.settings is None:
        yield _unknown(f"the ConfigMap {names.SETTINGS_CONFIGMAP}")
        return
    for key, problem in seen.shared.problems.items():
        text = (
            f"{key} in the ConfigMap {names.SETTINGS_CONFIGMAP}: {problem}; the last good value stays, or the default"
        )
        yield State.MEND, text, f"{key} of charts/scavenger-base"
    if strange := sorted(seen.settings.keys() - FIELDS.keys()):
        text = f"the ConfigMap {names.SETTINGS_CONFIGMAP} has {some(strange)}, which this version does not know"
        yield State.NOTE, text, f"its keys are {', '.join(FIELDS)}"
    for one in seen.cluster.deployments or ():
        own = [field for field in FIELDS.values() if one.variable(f"SCAVENGER_{flag_field(field)}".upper())]
        if own:
            flags, keys = (", ".join(key_of(name) for name in fields) for fields in (map(flag_field, own), own))
            text = f"{one.metadata.name} has {flags} of its own, which the next version does not have"
            yield State.NOTE, text, f"leave that out of its settings, and set {keys} of charts/scavenger-base"
    told = (f"{key} {value or 'the defaults'}" for key, value in seen.shared.settings.to_data().items())
    yield (
        State.OK,
        ", ".join(told) if seen.settings else f"no ConfigMap {names.SETTINGS_CONFIGMAP}: the defaults hold",
        "",
    )


def _neighbours(seen: Installation) -> Found:
    kueue = [what for what in seen.unreadable if "Kueue" in what]
    if seen.cluster.namespaces is None or kueue:
        yield _unknown(some(kueue) if kueue else "namespaces")
    else:
        yield State.OK, "no Kueue or service mesh takes hold of jobs", ""


CHECKS: Final[tuple[tuple[str, tuple[str, ...], Callable[[Installation], Found]], ...]] = (
    (
        "components",
        ("ServiceAway", "StaleFinalizers", "InstallationIncomplete", "UntouchedJobs", "HalfReleased"),
        _components,
    ),
    ("images", (), _images),
    ("addresses", (), _addresses),
    ("metrics", ("NoMeasurement",), _metrics),
    ("classes", ("OrdinaryClassValue", "LowClasses"), _classes),
    ("who ranks pods", (), _ranks),
    ("scheduler", ("ForeignScheduler",), _scheduler),
    ("budgets", ("StaleBudgets", "BudgetNameTaken", "BudgetsKeepNodes"), _budgets),
    ("webhook", (), _webhook),
    ("versions", ("VersionsDiffer",), _versions),
    ("nodes", ("KeepScaleDownOff",), _nodes),
    ("settings", (), _settings),
    ("devices", (), _weights),
    ("neighbours", ("KueueManagesJobs", "MeshInjection"), _neighbours),
)
"""Each check: its name, the ailments of `doctor` that belong to it, and what it looks at beside them."""


def lacking(known: Mapping[str, Any], served: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Fields of a schema that another one lacks, the outermost of each branch, such as `spec.array`."""
    theirs = served.get("properties") or {}
    for name, inner in (known.get("properties") or {}).items():
        where = f"{path}.{name}".lstrip(".")
        if name not in theirs:
            yield where
        else:
            yield from lacking(inner, theirs[name], where)
    if "items" in known and "items" in served:
        yield from lacking(known["items"], served["items"], f"{path}[]")
