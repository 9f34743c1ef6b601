"""The batch/v1 Job of a run, and the headless Service of a gang."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from scavenger_api import names, pod_names
from scavenger_api.checkpoints import COMPLETION_INDEX
from scavenger_api.job import Capacity, ScavengerJob, ScavengerJobSpec
from scavenger_api.podspec import VolumeMount
from scavenger_api.quantity import amount, amounts
from scavenger_api.reclaimed import RECLAIMED, asked_for, placed_by
from scavenger_api.requirements import ResourceRequirements
from scavenger_api.rules.template import OVERRIDDEN, keeps_its_node, restarts
from scavenger_api.template import TemplateMetadata
from scavenger_api.times import micros, parse_time
from scavenger_domain.node_affinity import LABEL_ARCHITECTURE, REQUIRED
from scavenger_domain.pod_security import Level
from scavenger_domain.requests import RECLAIMED_RESOURCES
from scavenger_domain.taints import of_resources

from scavenger_admitter.core.admission.placement.headroom import ANYWHERE, Target
from scavenger_admitter.core.snapshots import with_snapshots

MAX_ENV_BYTES: Final = 128 * 1024
"""What Linux lets one string of an environment have, the name and the closing NUL included (MAX_ARG_STRLEN: 32 pages).
With a longer one no program can be started."""

POD_DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
LOWEST_COST: Final = str(-(2**31))
"""For Karpenter, which takes the nodes first whose pods cost least; the Job controller does not look at it."""


def service_name(job: ScavengerJob) -> str:
    """The name of the gang's headless Service, and the subdomain of its pods."""
    return names.SERVICE_PREFIX + job.metadata.name


def peers(job: ScavengerJob) -> tuple[str, ...]:
    """DNS names of the pods in index order; for a single pod its host name, which it knows itself."""
    name, namespace, count = job.metadata.name, job.metadata.namespace, job.spec.parallelism
    if count == 1:
        return (pod_names.host_name(name, 0),)
    return tuple(f"{pod_names.host_name(name, i)}.{service_name(job)}.{namespace}.svc" for i in range(count))


def peers_value(job: ScavengerJob) -> str:
    """The value of SCAVENGER_PEERS: all names with commas between them. Where that is longer than an environment may
    have, the one pattern they follow, as Slurm writes host lists: `NAME-[0-2999].sj-NAME.NAMESPACE.svc`."""
    listed = ",".join(peers(job))
    if len(f"{names.ENV_PEERS}={listed}\0") <= MAX_ENV_BYTES:
        return listed
    name, namespace, last = job.metadata.name, job.metadata.namespace, job.spec.parallelism - 1
    return f"{name}-[0-{last}].{service_name(job)}.{namespace}.svc"


def job_manifest(
    job: ScavengerJob,
    *,
    restarts: int,
    run: str,
    max_grace_seconds: int,
    level: Level = Level.RESTRICTED,
    token: bool = False,
    user: int | None = None,
    target: Target = ANYWHERE,
    plain_names: bool = False,
    burstable: bool = False,
    snapshot_image: str = "",
    allowed_annotations: Collection[str] = (),
) -> dict[str, Any]:
    """The batch/v1 Job that runs the job once.

    It has the name of the ScavengerJob, so that the API itself refuses a second life beside the first.

    Args:
        job: the job.
        restarts: how often it has been interrupted.
        run: the place in the queue it is started from (`accounting.run_id` of queuedTimestamp): the identity of the
            run.
        max_grace_seconds: the administrator's bound of terminationGracePeriodSeconds.
        level: what its pods keep to; the job asks for nothing beyond (`breaches`).
        token: its pods get the token of their service account.
        user: the user id of its pods, where the job names none; None for the image's.
        target: the nodes its pods may go to.
        plain_names: as in `CreateJob`.
        burstable: its pods are not of QoS class Guaranteed.
        snapshot_image: of `snap`, for jobs with snapshots.
        allowed_annotations: keys of annotations that its pods may have although they keep a node (`keeps_its_node`).
    """
    labels = _labels(job)
    own = (job.spec.template.metadata if job.spec.template is not None else None) or TemplateMetadata()
    left_out = set(keeps_its_node(own.annotations)) - set(allowed_annotations)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": job.metadata.name,
            "namespace": job.metadata.namespace,
            "labels": labels,
            "annotations": {names.ANNOTATION_RUN: run, names.ANNOTATION_RESTARTS: str(restarts)},
            "ownerReferences": [job.owner_reference()],
        },
        "spec": {
            **_size(job.spec),
            "backoffLimit": 0,
            "managedBy": names.MANAGED_BY,
            "template": {
                "metadata": {
                    "labels": pod_labels(job),
                    "annotations": {
                        **{key: value for key, value in own.annotations.items() if key not in left_out},
                        **_program(job.spec),
                        # Also on the pods: they stay recognisable when their Job is deleted and they are orphaned.
                        names.ANNOTATION_RUN: run,
                        **_pod_suffix(job, run, plain=plain_names),
                        POD_DELETION_COST: LOWEST_COST,
                    },
                    "finalizers": [names.FINALIZER],
                },
                "spec": {
                    **of_qos_class(
                        _pod_spec(
                            job,
                            tuple(_own_env(job, restarts)),
                            min(job.spec.grace_seconds, max_grace_seconds),
                            level,
                            token,
                            target,
                            snapshot_image,
                        ),
                        job.spec.requests,
                        burstable,
                    ),
                    **_as_user(job.spec, user),
                },
            },
        },
    }


def _size(spec: ScavengerJobSpec) -> dict[str, Any]:
    """How many pods the Job is for. That of an array has parallelism 0: a Job controller that takes it for its own,
    where the API server drops `managedBy`, creates nothing."""
    if spec.array is not None:
        return {"completionMode": "Indexed", "parallelism": 0, "completions": spec.array.tasks}
    if spec.parallelism == 1:
        return {}
    return {"completionMode": "Indexed", "parallelism": spec.parallelism, "completions": spec.parallelism}


def _pod_suffix(job: ScavengerJob, run: str, *, plain: bool) -> dict[str, str]:
    """The annotation of the template by which the admitter names the pods. A template does not change, so all pods that
    a Job ever has are named by the same rule."""
    if plain:
        return {}
    if job.spec.array is not None:
        suffix = pod_names.task_suffix(job.metadata.uid, job.metadata.name, job.spec.array.tasks)
    else:
        queued = parse_time(run)
        suffix = pod_names.run_suffix(micros(queued) if queued is not None else 0)
    return {names.ANNOTATION_POD_SUFFIX: suffix}


def task_affinity(template: dict[str, Any], target: Target) -> dict[str, Any]:
    """The affinity of a task's pod: what the template of its Job has, and where its start may go."""
    return _both(template["spec"].get("affinity", {}), _affinity(target))


def target_of(job: ScavengerJob, granted: Target, failed_starts: int) -> Target:
    """Where the pods of a start may go that was granted these nodes.

    Volumes may be bound to a zone or a node, and what else keeps a pod off a node the scheduler knows, not the plan. So
    a job with claims, or with neighbours to look for or to avoid, and one whose last start failed, may go
    wherever there is capacity.
    """
    return granted.unpinned() if failed_starts or job.spec.bound else granted


def _affinity(target: Target) -> dict[str, Any]:
    """By the names of nodes, as for pods of a DaemonSet: a label may say something else. One of the terms has to hold,
    and all of its fields; a field takes one value (validation of core/v1 NodeSelectorTerm)."""

    def field(operator: str, node: str) -> dict[str, Any]:
        return {"key": "metadata.name", "operator": operator, "values": [node]}

    terms = [{"matchFields": [field("In", node)]} for node in target.only]
    if not terms and target.never:
        terms = [{"matchFields": [field("NotIn", node) for node in target.never]}]
    wishes = (
        [field("In", target.rather)] if target.rather else [],
        [field("NotIn", node) for node in target.rather_not],
    )
    rather = [{"weight": 100, "preference": {"matchFields": fields}} for fields in wishes if fields]
    if target.rather_not_on:
        other = {"key": LABEL_ARCHITECTURE, "operator": "NotIn", "values": list(target.rather_not_on)}
        rather.append({"weight": 100, "preference": {"matchExpressions": [other]}})
    affinity = _given(
        **{REQUIRED: {"nodeSelectorTerms": terms} if terms else {}, PREFERRED: rather},
    )
    return _given(nodeAffinity=affinity)


def service_manifest(job: ScavengerJob) -> dict[str, Any] | None:
    """The headless Service that gives the pods of a gang their names; None for a single pod."""
    if job.spec.parallelism == 1:
        return None
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": service_name(job),
            "namespace": job.metadata.namespace,
            "labels": _labels(job),
            "ownerReferences": [job.owner_reference()],
        },
        "spec": {
            "clusterIP": "None",
            # Members look for each other before they are ready.
            "publishNotReadyAddresses": True,
            "selector": {names.LABEL_JOB: job.metadata.name},
        },
    }


def pod_labels(job: ScavengerJob) -> dict[str, str]:
    """The labels of the pods of a job, as they are created."""
    written = job.spec.template.metadata if job.spec.template is not None else None
    own = written.labels if written is not None else {}
    return {**own, **_labels(job), names.LABEL_PREEMPTION_CLASS: names.PREEMPTIBLE}


def _labels(job: ScavengerJob) -> dict[str, str]:
    return {names.LABEL_JOB: job.metadata.name, names.LABEL_QUEUE: job.spec.queue}


def _program(spec: ScavengerJobSpec) -> dict[str, str]:
    """Which container runs the program, for `kubectl logs` and the components, where it is not called main."""
    return {} if spec.main_name == names.MAIN_CONTAINER else {names.ANNOTATION_DEFAULT_CONTAINER: spec.main_name}


def _pod_spec(
    job: ScavengerJob,
    env: tuple[dict[str, Any], ...],
    grace_seconds: int,
    level: Level,
    token: bool,
    target: Target,
    snapshot_image: str,
) -> dict[str, Any]:
    """What the user wrote, and over it what is ours in every pod (docs/api.md lists it)."""
    spec = job.spec
    written = _written_pod(spec)
    if spec.snapshot is not None:
        written = with_snapshots(written, job, snapshot_image, grace_seconds)
    return {
        **{name: value for name, value in written.items() if name not in OVERRIDDEN and name != "serviceAccount"},
        "restartPolicy": "Never",
        # Its number is filled in by the API; a manifest must not name it.
        "priorityClassName": names.PRIORITY_CLASS_PREEMPTIBLE,
        "terminationGracePeriodSeconds": grace_seconds,
        # Jobs run whatever image a user chose. Which accounts they may act as, the administrator says on the namespace.
        "automountServiceAccountToken": token and written.get("automountServiceAccountToken", True),
        **{
            kind: [_container(spec, _ending_once(kind, container), env, level) for container in written[kind]]
            for kind in ("initContainers", "containers")
            if written.get(kind)
        },
        **_given(
            subdomain=service_name(job) if spec.parallelism > 1 else None,
            serviceAccountName=spec.account,
            tolerations=[
                *written.get("tolerations", ()),
                *({"key": t.key, "operator": t.operator, "effect": t.effect} for t in of_resources(spec.requests)),
            ],
            affinity=_both(written.get("affinity", {}), _affinity(target)),
        ),
    }


def _as_user(spec: ScavengerJobSpec, user: int | None) -> dict[str, Any]:
    """The security context of the pod with a user id, where the administrator has one and the job names none."""
    context: dict[str, Any] = _written_pod(spec).get("securityContext", {})
    return {"securityContext": {"runAsUser": user, **context}} if user is not None else {}


def _written_pod(spec: ScavengerJobSpec) -> dict[str, Any]:
    """spec of the pod template that the job has, or that its fields are short for."""
    if spec.written_template is not None:
        found: dict[str, Any] = spec.written_template["spec"]
        return found
    volumes, mounts = _volumes(spec)
    container = {
        "name": names.MAIN_CONTAINER,
        "image": spec.image,
        **_given(
            resources=_resources(spec.resources) if spec.resources is not None else None,
            env=[variable.to_dict() for variable in spec.env or ()],
            command=list(spec.command or ()),
            args=list(spec.args or ()),
            envFrom=[source.to_dict() for source in spec.env_from or ()],
            imagePullPolicy=spec.image_pull_policy,
            securityContext=spec.security_context.to_dict() if spec.security_context is not None else None,
            volumeMounts=mounts,
        ),
    }
    return {
        "containers": [container],
        **_given(
            volumes=volumes,
            nodeSelector=spec.node_selector,
            tolerations=[toleration.to_dict() for toleration in spec.tolerations or ()],
            imagePullSecrets=[secret.to_dict() for secret in spec.image_pull_secrets or ()],
            securityContext=_given(runAsUser=spec.run_as_user, runAsGroup=spec.run_as_group, fsGroup=spec.fs_group),
        ),
    }


def _resources(resources: ResourceRequirements) -> dict[str, dict[str, str]]:
    """In the short form one side fills in the other."""
    return {"requests": resources.effective(), "limits": resources.most()}


def _ending_once(kind: str, written: dict[str, Any]) -> dict[str, Any]:
    again = restarts(kind, written)
    return {name: value for name, value in written.items() if name not in again}


def _container(
    spec: ScavengerJobSpec, written: dict[str, Any], env: tuple[dict[str, Any], ...], level: Level
) -> dict[str, Any]:
    own = [variable["name"] for variable in env]
    return {
        **written,
        "env": [*env, *(variable for variable in written.get("env", ()) if variable.get("name") not in own)],
        **_given(
            resources=_placed(spec, written.get("resources", {})),
            securityContext=_security_context(written.get("securityContext", {}), spec, level),
        ),
    }


def _both(wanted: dict[str, Any], ours: dict[str, Any]) -> dict[str, Any]:
    """What the user wants of nodes and neighbours, and the nodes that the start is bound to: both hold. One of the
    user's terms and one of the admitter's make a term together, as terms are alternatives."""
    if not wanted or not ours:
        return wanted or ours
    theirs, own = wanted.get("nodeAffinity", {}), ours["nodeAffinity"]
    terms = [
        {field: [*one.get(field, ()), *other.get(field, ())] for field in {**one, **other}}
        for one in theirs.get(REQUIRED, {}).get("nodeSelectorTerms", ())
        for other in own.get(REQUIRED, {}).get("nodeSelectorTerms", ())
        if one
    ]
    required = {"nodeSelectorTerms": terms} if terms else theirs.get(REQUIRED) or own.get(REQUIRED)
    node = _given(
        **{REQUIRED: required, PREFERRED: [*theirs.get(PREFERRED, ()), *own.get(PREFERRED, ())]},
    )
    return {**wanted, "nodeAffinity": node}


def _security_context(given: dict[str, Any], spec: ScavengerJobSpec, level: Level) -> dict[str, Any]:
    """What the container asks for, and at level restricted all that PodSecurity wants to see written down."""
    if level is Level.BASELINE:
        return given
    of_pod = spec.template.spec.security_context if spec.template is not None else {}
    return {
        "seccompProfile": of_pod.get("seccompProfile") or {"type": "RuntimeDefault"},
        **given,
        "runAsNonRoot": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {**given.get("capabilities", {}), "drop": ["ALL"]},
    }


def _placed(spec: ScavengerJobSpec, resources: dict[str, Any]) -> dict[str, Any]:
    """Requests and limits of a container. On reclaimed capacity cpu and memory are requested as 0, as they are not set
    aside. The two extended resources that stand for them are what the pod is placed by."""
    if spec.capacity is Capacity.GUARANTEED:
        return resources
    asked = asked_for(resources.get("requests"), resources.get("limits"))
    placed = {name: str(value) for name, value in placed_by(amounts(asked)).items() if name in RECLAIMED_RESOURCES}
    # Written down, not left out: what is missing would be filled in from the limits.
    nothing = {name: "0" for name in RECLAIMED if name in asked}
    return {"requests": {**asked, **nothing, **placed}, "limits": {**asked, **placed}} if asked else {}


def of_qos_class(pod: dict[str, Any], requests: Mapping[str, int], burstable: bool) -> dict[str, Any]:
    """A pod that is Burstable for a millicore, where all its containers have their requests as limits.

    In a node's out-of-memory the kernel looks at oom_score_adj: -997 for Guaranteed pods, 3 to 999 for Burstable ones
    (kubelet pkg/kubelet/qos GetContainerOOMScoreAdjust). So it would take regular pods before the scavengers.

    Args:
        pod: spec of the pod.
        requests: what it requests, millicores of cpu and bytes of memory.
        burstable: whether it may be changed.
    """
    if not burstable or any(_unequal(one) for one in (pod, *pod.get("initContainers", ()), *pod["containers"])):
        return pod  # is Burstable by itself
    if whole := pod.get("resources"):  # decides alone, and no container may have more
        # The API server fills in a request as a whole from what containers request, and only then from the limit.
        limits = whole.get("limits", {})
        filled = {name: text for name, text in limits.items() if amount(name, text) == requests.get(name)}
        return {**pod, "resources": _a_millicore_more(whole, filled) or whole}
    first, *others = pod["containers"]
    own = first.get("resources", {})
    more = _a_millicore_more(own, own.get("limits", {}))
    return {**pod, "containers": [{**first, "resources": more}, *others]} if more else pod


def _unequal(part: dict[str, Any]) -> bool:
    """Whether a container, or the pod as a whole, requests less CPU or memory than its limit."""
    sides = part.get("resources", {})
    requests, limits = sides.get("requests", {}), sides.get("limits", {})
    return any(n in requests and n in limits and amount(n, requests[n]) < amount(n, limits[n]) for n in RECLAIMED)


def with_equal_limits(pod: dict[str, Any]) -> dict[str, Any] | None:
    """The pod without the millicore that makes it Burstable; None where it has none.

    A LimitRange that allows no more CPU than a job requests, or no ratio above 1, refuses the pod for that millicore.

    Args:
        pod: the pod.
    """
    spec = pod["spec"]
    if whole := _a_millicore_less(spec.get("resources", {})):
        return {**pod, "spec": {**spec, "resources": whole}}
    first, *others = spec["containers"]
    if own := _a_millicore_less(first.get("resources", {})):
        return {**pod, "spec": {**spec, "containers": [{**first, "resources": own}, *others]}}
    return None


def _a_millicore_less(resources: dict[str, Any]) -> dict[str, Any]:
    """Resources with a CPU limit as their request; nothing where it is not a millicore above."""
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    if "cpu" not in limits or "cpu" not in requests:
        return {}
    if amount("cpu", limits["cpu"]) != amount("cpu", requests["cpu"]) + 1:
        return {}
    return {**resources, "limits": {**limits, "cpu": requests["cpu"]}}


def _a_millicore_more(resources: dict[str, Any], filled: Mapping[str, Any]) -> dict[str, Any]:
    """Resources with a CPU limit above the request; nothing where it is not the same as the request.

    Args:
        resources: of a container, or of the pod as a whole.
        filled: the limits from which requests are filled in that are missing.
    """
    limits, requests = resources.get("limits", {}), {**filled, **resources.get("requests", {})}
    if "cpu" not in limits or "cpu" not in requests:
        return {}
    limit, request = (amount("cpu", side["cpu"]) for side in (limits, requests))
    if limit != request:
        return {}
    # Written down, as a request that is missing is filled in from the limit.
    return {**resources, "requests": requests, "limits": {**limits, "cpu": f"{limit + 1}m"}}


def _own_env(job: ScavengerJob, restarts: int) -> Iterator[dict[str, Any]]:
    """First in the list, so that the user's variables may refer to them as `$(SCAVENGER_INDEX)`."""
    index = {"valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{COMPLETION_INDEX}']"}}}
    yield {"name": names.ENV_INDEX, **({"value": "0"} if job.spec.parallelism == 1 else index)}
    yield {"name": names.ENV_PARALLELISM, "value": str(job.spec.parallelism)}
    yield {"name": names.ENV_PEERS, "value": peers_value(job)}
    yield {"name": names.ENV_RESTARTS, "value": str(restarts)}
    yield {"name": names.ENV_CHECKPOINT_INTERVAL, "value": _seconds(job.spec)}


def _seconds(spec: ScavengerJobSpec) -> str:
    return str(max(1, int(spec.checkpoint_interval.total_seconds())))


def _volumes(spec: ScavengerJobSpec) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The volumes and their mounts. An object that is mounted twice is one volume: a claim that may be written by one
    pod only, and a Secret that changes, are the same under both paths."""
    volumes: dict[tuple[str, str], dict[str, Any]] = {}
    mounts = []
    for kind, mount, source in _sources(spec):
        count = sum(1 for known, _ in volumes if known == kind)
        volume = volumes.setdefault((kind, mount.name), {"name": f"{kind}-{count}", **source})
        optional = _given(subPath=mount.sub_path, readOnly=mount.read_only)
        mounts.append({"name": volume["name"], "mountPath": mount.mount_path, **optional})
    return list(volumes.values()), mounts


def _sources(spec: ScavengerJobSpec) -> Iterator[tuple[str, VolumeMount, dict[str, Any]]]:
    for mount in spec.persistent_volume_claims or ():
        yield "pvc", mount, {"persistentVolumeClaim": {"claimName": mount.name}}
    for mount in spec.config_maps or ():
        yield "configmap", mount, {"configMap": {"name": mount.name}}
    for mount in spec.secrets or ():
        yield "secret", mount, {"secret": {"secretName": mount.name}}


def _given(**fields: Any) -> dict[str, Any]:
    """Only what is set: everything else is left to Kubernetes' own defaults."""
    return {name: value for name, value in fields.items() if value is not None and value not in ({}, [])}
