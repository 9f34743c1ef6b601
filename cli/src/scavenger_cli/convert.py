"""Jobs of Kubernetes and its neighbours as ScavengerJobs, and what has no place there or changes its meaning. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Final

from scavenger_api import names
from scavenger_api.rules.template import KEEPS_NO_NODE, OVERRIDDEN, REFUSED, keeps_its_node, overridden

from scavenger_cli.exits import CliError, ExitCode
from scavenger_cli.foreign_pods import own_pod
from scavenger_cli.manifests import Manifest

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
    lines: Lines = []
    if manifest["kind"] == "Pod":
        own, lines = own_pod(manifest)
        marks = {kind: own["metadata"][kind] for kind in ("labels", "annotations")}
        manifest = {**own, "kind": "Pod", "spec": {"template": {**own, "metadata": marks}, "backoffLimit": 0}}
    job, where = _AS_A_JOB[manifest["kind"]](_spec(manifest, "spec"), lines)
    spec: Manifest = {name: job[name] for name in _KEPT if name in job}
    if (pods := _pods(job, where, lines)) != 1:
        spec["parallelism"] = pods
    for name, value in job.items():
        if name not in _READ and (name not in _SAME or value != _SAME[name]):
            lines.append(f"{where}.{name}: {_CHANGED.get(name, _NO_PLACE)}")
    if limit := job.get("backoffLimit", _BACKOFF_LIMIT):
        spec["backoffLimit"] = limit
    spec |= _policy(job, f"{where}.podFailurePolicy.rules", lines)
    spec["template"] = _template(_spec(job, "template"), f"{where}.template." if where else "", lines)
    metadata = _metadata(manifest)
    if manifest["kind"] == "PyTorchJob":
        lines += _find_each_other(spec["template"]["spec"], metadata.get("name", ""))
    return {"apiVersion": names.API_VERSION, "kind": "ScavengerJob", "metadata": metadata, "spec": spec}, lines


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
    lines += [f"spec.{name}: {_NO_PLACE}" for name in spec if name not in (*_KEPT, "replicatedJobs", "failurePolicy")]
    return job, where


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
    job = {"template": first.get("template"), "parallelism": pods, "completions": pods, "backoffLimit": 0}
    job |= {name: policy[name] for name in (*_KEPT, "backoffLimit") if name in policy}
    lines += [f"spec.{name}: {_NO_PLACE}" for name in spec if name not in ("pytorchReplicaSpecs", "runPolicy")]
    return job, f"spec.pytorchReplicaSpecs.{next(iter(roles), '')}"


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
}
"""spec of a Job, and where it stands, by kind."""


def _spec(of: Manifest, name: str) -> Manifest:
    found = of.get(name)
    if not isinstance(found, dict):
        raise CliError(f"{name} is missing or not a mapping", code=ExitCode.USAGE)
    return deepcopy(found)


def _pods(job: Manifest, where: str, lines: Lines) -> Any:
    """How many pods run at once, which a gang has."""
    parallelism, completions = job.get("parallelism", 1), job.get("completions")
    pods = parallelism if completions is None else completions
    if not isinstance(pods, int) or not isinstance(parallelism, int) or pods == 1 == parallelism:
        return pods
    if pods > parallelism:
        raise CliError(
            f"{where}.completions: {pods} tasks, {parallelism} at a time, are no gang",
            "make a Job of one completion for each task, and convert that",
            ExitCode.USAGE,
        )
    if pods > 1:
        lines.append(f"{where}.parallelism: the {pods} pods are one gang: all run or none, and all must succeed")
    return pods


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
