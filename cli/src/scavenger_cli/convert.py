"""Jobs of Kubernetes and its neighbours as ScavengerJobs, and what has no place there or changes its meaning. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from copy import deepcopy
from typing import Any, Final

from scavenger_api import names
from scavenger_api.indexes import MAX_COUNT
from scavenger_api.rules.template import KEEPS_NO_NODE, OVERRIDDEN, REFUSED, keeps_its_node, overridden

from scavenger_cli.exits import CliError, ExitCode
from scavenger_cli.foreign_pods import own_pod
from scavenger_cli.manifests import VOLCANO, Manifest

Lines = list[str]

_KEPT: Final = ("suspend", "ttlSecondsAfterFinished", "activeDeadlineSeconds")
"""Fields of a Job that mean the same in a ScavengerJob."""

_BACKOFF_LIMIT: Final = 6
"""A Job's default; a ScavengerJob has none."""

_CHANGED: Final = {
    "manualSelector": "left out: the pods have labels of the admitter",
    "podReplacementPolicy": "left out: a pod is replaced when it has ended",
}
_NO_PLACE: Final = "left out: a ScavengerJob has nothing like it"
_READ: Final = {
    *_KEPT,
    "backoffLimit",
    "podFailurePolicy",
    "template",
    "parallelism",
    "completions",
    "completionMode",
    "backoffLimitPerIndex",
    "selector",
}
_SAME: Final = {"podReplacementPolicy": "Failed", "manualSelector": False}
"""Values that say what a ScavengerJob does anyway."""
_WRITTEN_BY_OTHERS: Final = {
    "kubectl.kubernetes.io/last-applied-configuration",
    "batch.kubernetes.io/job-tracking",
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
    "controller-uid",
    "job-name",
}
"""Labels and annotations that kubectl and the API server write."""


def converted(manifest: Manifest) -> tuple[Manifest, Lines]:
    """An object of a kind that `convert` takes as a ScavengerJob, and a line for all that was left out or changes
    its meaning.

    Raises:
        CliError: when it is no such object, or its pods are no gang of pods that are alike.
    """
    job, where, manifest, lines = _read(manifest)
    spec: Manifest = {name: job[name] for name in _KEPT if name in job}
    if (tasks := _tasks(job, where, lines)) is not None:
        spec["array"] = tasks
    elif (pods := _pods(job, where, lines)) != 1:
        spec["parallelism"] = pods
    for name, value in job.items():
        if name not in _READ and (name not in _SAME or value != _SAME[name]):
            lines.append(f"{where}.{name}: {_CHANGED.get(name, _NO_PLACE)}")
    if limit := _limit(job, tasks, where, lines):
        spec["backoffLimit"] = limit
    spec |= _policy(job, f"{where}.podFailurePolicy.rules", lines)
    for name in names.NOT_WITH_ARRAY if tasks is not None else ():
        if spec.pop(name, None) is not None:
            lines.append(f"{where}.{name}: left out: an array cannot have it")
    spec["template"] = _template(_spec(job, "template"), f"{where}.template." if where else "", lines)
    metadata = _metadata(manifest)
    if "parallelism" in spec:
        lines += _peers(job, spec["template"]["spec"], metadata.get("name", ""))
    if manifest["kind"] == "PyTorchJob":
        lines += _find_each_other(spec["template"]["spec"], metadata.get("name", ""))
    return {"apiVersion": names.API_VERSION, "kind": "ScavengerJob", "metadata": metadata, "spec": spec}, lines


def _read(manifest: Manifest) -> tuple[Manifest, str, Manifest, Lines]:
    """spec of a Job that an object stands for, where it stands, the object as its user wrote it, and lines about it."""
    lines: Lines = []
    if manifest["kind"] == "Pod":
        own, lines = own_pod(manifest)
        marks = {kind: own["metadata"][kind] for kind in ("labels", "annotations")}
        template = {**own, "metadata": marks}
        manifest = {**manifest, **own, "spec": {"template": template, "backoffLimit": 0}}
    of_volcano = manifest["apiVersion"].startswith(VOLCANO)
    read = _of_a_volcano_job if of_volcano else _AS_A_JOB[manifest["kind"]]
    job, where = read(_spec(manifest, "spec"), lines)
    return job, where, manifest, lines


def _find_each_other(pod: Manifest, name: str) -> Iterator[str]:
    """The variables of torch.distributed, which the operator sets (pkg/controller.v1/pytorch/envvar.go)."""
    if not name:
        yield "spec.pytorchReplicaSpecs: MASTER_ADDR is not known before the job has a name; see SCAVENGER_PEERS"
    values = {
        "MASTER_ADDR": f"{name}-0.{names.SERVICE_PREFIX}{name}" if name else "",
        "MASTER_PORT": "23456",
        "WORLD_SIZE": f"$({names.ENV_PARALLELISM})",
        "RANK": f"$({names.ENV_INDEX})",
    }
    for container in pod.get("containers") or ():
        own = container.get("env") or []
        there = {one.get("name") for one in own}
        ours = [{"name": key, "value": text} for key, text in values.items() if text and key not in there]
        container["env"] = [*ours, *own]


def _of_a_job(spec: Manifest, _: Lines) -> tuple[Manifest, str]:
    return spec, "spec"


def _of_a_pod(spec: Manifest, _: Lines) -> tuple[Manifest, str]:
    return spec, ""


def _of_a_cron_job(spec: Manifest, lines: Lines) -> tuple[Manifest, str]:
    lines += [f"spec.{name}: {_NO_PLACE}" for name in spec if name != "jobTemplate"]
    return _spec(_spec(spec, "jobTemplate"), "spec"), "spec.jobTemplate.spec"


def _of_a_job_set(spec: Manifest, lines: Lines) -> tuple[Manifest, str]:
    """All Jobs of a JobSet start and end together, as a gang does. Fields: jobset.x-k8s.io/v1alpha2."""
    jobs, where = spec.get("replicatedJobs"), "spec.replicatedJobs[0].template.spec"
    if not isinstance(jobs, list) or len(jobs) != 1 or not isinstance(jobs[0], dict):
        raise CliError(f"spec.replicatedJobs: {_UNLIKE}", _ALIKE, ExitCode.USAGE)
    job, replicas = _spec(_spec(jobs[0], "template"), "spec"), jobs[0].get("replicas", 1)
    job.setdefault("completionMode", "Indexed")  # as the webhook of JobSet does
    pods = _pods(job, where, [])
    if isinstance(replicas, int) and isinstance(pods, int) and replicas > 1:
        lines.append(
            f"spec.replicatedJobs[0].replicas: {replicas} Jobs of {pods} pods are one gang of {replicas * pods}"
        )
        job["parallelism"] = job["completions"] = replicas * pods
    restarts = spec.get("failurePolicy") or {}
    if isinstance(restarts, dict) and "maxRestarts" in restarts:
        job["backoffLimit"] = restarts["maxRestarts"]
    job |= {name: spec[name] for name in _KEPT if name in spec}
    lines += _others(spec, "spec", (*_KEPT, "replicatedJobs", "failurePolicy"))
    lines += _others(restarts, "spec.failurePolicy", ("maxRestarts",))
    lines += _others(jobs[0], "spec.replicatedJobs[0]", ("name", "replicas", "template"))
    return job, where


def _others(of: Any, where: str, read: Collection[str]) -> Lines:
    """A line for each field that is not read."""
    return [f"{where}.{name}: {_NO_PLACE}" for name in (of if isinstance(of, dict) else ()) if name not in read]


def _of_a_pytorch_job(spec: Manifest, lines: Lines) -> tuple[Manifest, str]:
    """Master and workers run the same program, and rank 0 is the master. Fields: kubeflow.org/v1."""
    replicas = _spec(spec, "pytorchReplicaSpecs")
    roles = {role: _spec(replicas, role) for role in replicas}
    first = next(iter(roles.values()), {})
    if any(one.get("template") != first.get("template") for one in roles.values()):
        raise CliError(f"spec.pytorchReplicaSpecs: {_UNLIKE}", _ALIKE, ExitCode.USAGE)
    policy = spec.get("runPolicy") or {}
    counts = [one.get("replicas", 1) for one in roles.values()]
    if not all(isinstance(count, int) for count in counts):
        raise CliError("spec.pytorchReplicaSpecs: replicas is not a number", code=ExitCode.USAGE)
    pods = sum(counts)
    job = {"template": first.get("template"), "backoffLimit": 0, **_gang_of(pods)}
    job |= {name: policy[name] for name in (*_KEPT, "backoffLimit") if name in policy}
    lines += _others(spec, "spec", ("pytorchReplicaSpecs", "runPolicy"))
    lines += _others(policy, "spec.runPolicy", (*_KEPT, "backoffLimit"))
    for role, one in roles.items():
        where = f"spec.pytorchReplicaSpecs.{role}"
        lines += _others(one, where, ("replicas", "template", "restartPolicy"))
        if one.get("restartPolicy", "Never") != "Never":
            lines.append(f"{where}.restartPolicy: {one['restartPolicy']} is left out: {_STARTS_AGAIN}")
    return job, f"spec.pytorchReplicaSpecs.{next(iter(roles), '')}"


def _gang_of(pods: int) -> Manifest:
    """The fields of a Job whose pods know their index."""
    return {"parallelism": pods, "completions": pods, "completionMode": "Indexed"}


def _of_a_volcano_job(spec: Manifest, lines: Lines) -> tuple[Manifest, str]:
    """All its pods run the same program: a gang, or where one of them may run alone, tasks. Fields:
    batch.volcano.sh/v1alpha1."""
    tasks = spec.get("tasks")
    if not isinstance(tasks, list) or not tasks or not all(isinstance(one, dict) for one in tasks):
        raise CliError("spec.tasks is missing or no list of tasks", code=ExitCode.USAGE)
    first, where = tasks[0], "spec.tasks[0]"
    if any(one.get("template") != first.get("template") for one in tasks):
        raise CliError(f"spec.tasks: {_UNLIKE}", _ALIKE, ExitCode.USAGE)
    counts = [one.get("replicas", 1) for one in tasks]
    if not all(isinstance(count, int) for count in counts):
        raise CliError("spec.tasks: replicas is not a number", code=ExitCode.USAGE)
    pods = sum(counts)
    least = spec.get("minAvailable", pods)
    job = {"template": first.get("template"), "backoffLimit": spec.get("maxRetry", _VOLCANO_RETRIES), **_gang_of(pods)}
    job |= {name: spec[name] for name in _KEPT if name in spec}
    if least == 1 < pods:
        job["completionMode"] = "NonIndexed"
    elif least != pods:
        lines.append(f"spec.minAvailable: {least} becomes {pods}: all pods of a gang run, or none")
    if "queue" in spec:
        lines.append(f"spec.queue: {spec['queue']} is left out: name a ScavengerQueue as spec.queue")
    read = ("tasks", "minAvailable", "maxRetry", "queue", "schedulerName", *_KEPT)
    lines += _others(spec, "spec", read)
    for at, one in enumerate(tasks):
        lines += _others(one, f"spec.tasks[{at}]", ("name", "replicas", "template", "minAvailable"))
    name, index = ("VC_TASK_INDEX", "VK_TASK_INDEX"), f"$({names.ENV_TASK if least == 1 < pods else names.ENV_INDEX})"
    pod = _spec(_spec(job, "template"), "spec")
    for container in pod.get("containers") or ():
        container["env"] = [*({"name": one, "value": index} for one in name), *(container.get("env") or [])]
    job["template"] = {**_spec(job, "template"), "spec": pod}
    return job, where


def _of_a_ray_job(_: Manifest, __: Lines) -> tuple[Manifest, str]:
    """Its head starts work on its workers. Fields: ray.io/v1."""
    raise CliError(
        "spec.rayClusterSpec: a head and its workers are not alike, and pods that are not alike are no gang",
        "KubeRay runs it; of work that is tasks without each other, make an array",
        ExitCode.USAGE,
    )


def _of_a_spark_application(_: Manifest, __: Lines) -> tuple[Manifest, str]:
    """Its driver creates its executors. Fields: sparkoperator.k8s.io."""
    raise CliError(
        "spec.driver: a driver creates its executors by the API, and a ScavengerJob has one set of equal pods",
        "the Spark operator runs it; with master local[N] one pod of N cpu is the whole application",
        ExitCode.USAGE,
    )


def _of_an_mpi_job(_: Manifest, __: Lines) -> tuple[Manifest, str]:
    """Its launcher starts its workers by their names. Fields: kubeflow.org."""
    raise CliError(
        "spec.mpiReplicaSpecs: a launcher and its workers are not alike, and pods that are not alike are no gang",
        "let each pod start a rank, without a launcher, as demo-apps/mpi does, and convert a Job of that",
        ExitCode.USAGE,
    )


_UNLIKE: Final = "pods that are not alike are no gang"
_ALIKE: Final = "write one program for all pods, which looks at SCAVENGER_INDEX, as demo-apps/mpi does"
_AS_A_JOB: Final = {
    "Job": _of_a_job,
    "CronJob": _of_a_cron_job,
    "JobSet": _of_a_job_set,
    "MPIJob": _of_an_mpi_job,
    "Pod": _of_a_pod,
    "PyTorchJob": _of_a_pytorch_job,
    "RayJob": _of_a_ray_job,
    "SparkApplication": _of_a_spark_application,
}
"""spec of a Job, and where it stands, by kind."""
_STARTS_AGAIN: Final = "a pod that fails starts again with the whole gang, as often as backoffLimit says"
_VOLCANO_RETRIES: Final = 3
"""Volcano's default of maxRetry."""


def _spec(of: Manifest, name: str) -> Manifest:
    found = of.get(name)
    if not isinstance(found, dict):
        raise CliError(f"{name} is missing or not a mapping", code=ExitCode.USAGE)
    return deepcopy(found)


def _tasks(job: Manifest, where: str, lines: Lines) -> Manifest | None:
    """`spec.array` of a Job whose pods do without each other; None for one pod, and for pods that know their index
    and run all at once, which may be a gang."""
    parallelism, completions = job.get("parallelism", 1), job.get("completions")
    indexed = job.get("completionMode") == "Indexed"
    if not isinstance(parallelism, int) or not isinstance(completions, int | None):
        return None
    tasks = parallelism if completions is None else completions
    if tasks <= 1 or parallelism < 1 or (indexed and parallelism >= tasks):
        return None
    if completions is None:
        lines.append(
            f"{where}.parallelism: the {tasks} workers of a queue are {tasks} tasks; one that is interrupted starts "
            "again, also when the queue is empty"
        )
    found: Manifest = {"tasks": tasks, **({"maxRunning": parallelism} if parallelism < tasks else {})}
    return found if "backoffLimitPerIndex" in job else {**found, "failFast": True}


def _limit(job: Manifest, tasks: Manifest | None, where: str, lines: Lines) -> Any:
    """`backoffLimit`, which counts for each task of an array, and for a Job as a whole."""
    if tasks is None:
        return job.get("backoffLimit", _BACKOFF_LIMIT)
    name = "backoffLimitPerIndex" if "backoffLimitPerIndex" in job else "backoffLimit"
    limit = job.get(name, _BACKOFF_LIMIT)
    if not isinstance(limit, int):
        return limit
    most = min(limit, MAX_COUNT)
    if most != limit:
        lines.append(f"{where}.{name}: {limit} becomes {MAX_COUNT}, the most that a task of an array has")
    elif name == "backoffLimit" and limit:
        lines.append(f"{where}.backoffLimit: {limit} is for each task, and not for all together")
    return most


def _pods(job: Manifest, where: str, lines: Lines) -> Any:
    """How many pods run at once, which a gang has."""
    parallelism, completions = job.get("parallelism", 1), job.get("completions")
    pods = parallelism if completions is None else completions
    if isinstance(pods, int) and isinstance(parallelism, int) and pods > 1:
        lines.append(f"{where}.parallelism: the {pods} pods are one gang: all run or none, and all must succeed")
    return pods


def _peers(job: Manifest, pod: Manifest, name: str) -> Iterator[str]:
    """Host names of other members, which get the Service of the gang in place of the Job's own subdomain."""
    subdomain = _spec(_spec(job, "template"), "spec").get("subdomain")
    ours = f"{names.SERVICE_PREFIX}{name}"
    changed = False

    def found(text: Any) -> Any:
        nonlocal changed
        if not isinstance(text, str) or not subdomain or not name:
            return text
        host = rf"(?<![\w.-])({re.escape(name)}-(?:[0-9]+|\$\(?\{{?\w+\}}?\)?))\.{re.escape(str(subdomain))}(?![\w-])"
        new = re.sub(host, rf"\g<1>.{ours}", text)
        changed |= new != text
        return new

    for container in pod.get("containers") or ():
        for kind in ("command", "args"):
            if isinstance(container.get(kind), list):
                container[kind] = [found(word) for word in container[kind]]
        for variable in container.get("env") or ():
            if "value" in variable:
                variable["value"] = found(variable["value"])
                if variable.get("name") == "MASTER_ADDR" and ours not in str(variable["value"]):
                    yield (
                        f"env MASTER_ADDR: {variable['value']} may not be found: the first member of the gang is "
                        f"{name or 'NAME'}-0.{ours}, and SCAVENGER_PEERS has all"
                    )
    if changed:
        yield f"{name}-N.{subdomain} becomes {name}-N.{ours}: the Service of the gang has that name"


def _policy(job: Manifest, where: str, lines: Lines) -> Manifest:
    """podFailurePolicy, without the rules that have no place."""
    if not job.get("podFailurePolicy"):
        return {}
    rules = _spec(job, "podFailurePolicy").get("rules") or []
    kept = []
    for index, rule in enumerate(rules if isinstance(rules, list) else ()):
        if not isinstance(rule, dict) or rule.get("action") == "FailIndex":
            lines.append(f"{where}[{index}]: left out: a gang has no index that fails alone")
            continue
        conditions = rule.get("onPodConditions") or ()
        if rule.get("action") == "FailJob" and any(_interrupts(one) for one in conditions):
            lines.append(f"{where}[{index}]: never matches: an interruption is no failure")
        kept.append(rule)
    return {"podFailurePolicy": {"rules": kept}} if kept else {}


def _interrupts(condition: object) -> bool:
    return isinstance(condition, dict) and condition.get("type") == "DisruptionTarget"


def _metadata(manifest: Manifest) -> Manifest:
    metadata = _spec(manifest, "metadata")
    kept = {name: metadata[name] for name in ("name", "generateName", "namespace") if metadata.get(name)}
    return kept | _marks(metadata)


def _marks(metadata: Manifest) -> Manifest:
    """The labels and annotations that a user wrote."""
    found: Manifest = {}
    for kind in ("labels", "annotations"):
        entries = metadata.get(kind) or {}
        if not isinstance(entries, dict):
            raise CliError(f"metadata.{kind} is not a mapping", code=ExitCode.USAGE)
        if own := {key: value for key, value in entries.items() if key not in _WRITTEN_BY_OTHERS}:
            found[kind] = own
    return found


def _template(template: Manifest, where: str, lines: Lines) -> Manifest:
    pod = _spec(template, "spec")
    for name, text in REFUSED.items():
        if pod.pop(name, None) is not None:
            lines.append(f"{where}spec.{name}: left out: {text}")
    for name, becomes in overridden(pod):
        if pod[name] is not None:
            lines.append(f"{where}spec.{name}: {pod[name]} is left out: {becomes}")
    pod = {name: value for name, value in pod.items() if name not in OVERRIDDEN}
    lines += _program(pod, where)
    metadata = _spec(template, "metadata") if template.get("metadata") else {}
    for name, there in metadata.items():
        if there and name not in ("labels", "annotations"):
            lines.append(f"{where}metadata.{name}: {_NO_PLACE}")
    marks = _marks(metadata)
    lines += [
        f"{where}metadata.annotations[{key}]: {KEEPS_NO_NODE}" for key in keeps_its_node(marks.get("annotations", {}))
    ]
    return {**({"metadata": marks} if marks else {}), "spec": pod}


def _program(pod: Manifest, where: str) -> Iterator[str]:
    containers = pod.get("containers")
    if isinstance(containers, list) and len(containers) > 1 and isinstance(containers[0], dict):
        yield (
            f"{where}spec.containers: the first, {containers[0].get('name')}, is the program and ends the run; write "
            "spec.mainContainer where another is"
        )
