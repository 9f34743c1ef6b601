"""How clients of Jobs tell that one has succeeded or failed: pure functions of a Job and the pods of its namespace.

Each says in own words what the client does, as its source has it. docs/clients.md says from where, and what follows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

Object = Mapping[str, Any]


class Seen(StrEnum):
    """What a client takes a Job for."""

    RUNS = "runs"
    DONE = "done"
    FAILED = "failed"


Rule = Callable[[Object, Sequence[Object]], Seen]


@dataclass(frozen=True, slots=True)
class Client:
    """A client of Jobs.

    Attributes:
        name: as docs/clients.md has it.
        rule: what it takes a Job for.
        one_pod: it creates Jobs of one pod only.
        reads_pods: it looks at the pods of a Job as well as at its status.
    """

    name: str
    rule: Rule
    one_pod: bool = False
    reads_pods: bool = False


def by_conditions(job: Object, _pods: Sequence[Object]) -> Seen:
    """Complete or Failed is True: kubectl wait, the CronJob controller, Flux, and Helm 4."""
    stated = {one["type"]: one["status"] for one in _conditions(job)}
    if stated.get("Failed") == "True":
        return Seen.FAILED
    return Seen.DONE if stated.get("Complete") == "True" else Seen.RUNS


def by_types(job: Object, _pods: Sequence[Object]) -> Seen:
    """A condition Complete or Failed is there, whatever its status: Argo CD, and the metrics of kube-state-metrics that
    KubeJobFailed looks at."""
    types = {one["type"] for one in _conditions(job)}
    if "Failed" in types:
        return Seen.FAILED
    return Seen.DONE if "Complete" in types else Seen.RUNS


def snakemake(job: Object, pods: Sequence[Object]) -> Seen:
    """At most one pod may have the label `job-name`. The exit code of its container counts as much as the status."""
    own = _labelled(job, pods)
    if len(own) > 1:
        return Seen.FAILED
    codes = [_exit_code(pod) for pod in own]
    if _count(job, "failed") > 0 or any(code not in (None, 0) for code in codes):
        return Seen.FAILED
    return Seen.DONE if _count(job, "succeeded") > 0 or 0 in codes else Seen.RUNS


def nextflow(job: Object, pods: Sequence[Object]) -> Seen:
    """The container of the newest pod with the label `job-name` decides. Without a pod, the status does."""
    own = _labelled(job, pods)
    if own:
        code = _exit_code(max(own, key=lambda pod: str(pod["metadata"]["creationTimestamp"])))
        return Seen.RUNS if code is None else Seen.FAILED if code else Seen.DONE
    if _count(job, "succeeded") == 1:
        return Seen.DONE if by_conditions(job, pods) is Seen.DONE else Seen.FAILED
    return Seen.FAILED if _count(job, "failed") > 0 else Seen.RUNS


def argo_workflows(job: Object, _pods: Sequence[Object]) -> Seen:
    """A resource template with the conditions of its examples: `status.failed > 0` fails, `status.succeeded > 0` is
    success, and a Job that is gone is an error."""
    if _count(job, "failed") > 0:
        return Seen.FAILED
    return Seen.DONE if _count(job, "succeeded") > 0 else Seen.RUNS


def helm_3(job: Object, _pods: Sequence[Object]) -> Seen:
    """`--wait-for-jobs`: more failures than backoffLimit, or as many successes as completions. A Job without
    completions is done at once. Helm 4 does the same with `--wait=legacy`."""
    spec = job["spec"]
    if _count(job, "failed") > spec["backoffLimit"]:
        return Seen.FAILED
    completions = spec.get("completions")
    return Seen.RUNS if completions is not None and _count(job, "succeeded") < completions else Seen.DONE


def job_set(children: Iterable[Object]) -> Seen:
    """A JobSet without policies, by its child Jobs: one that has failed fails it, or with `maxRestarts` is a restart
    (`executeFailurePolicy`). It is complete with all of them (`executeSuccessPolicy`). A TrainJob copies this."""
    seen = {by_conditions(child, ()) for child in children}
    if Seen.FAILED in seen:
        return Seen.FAILED
    return Seen.DONE if seen == {Seen.DONE} else Seen.RUNS


CLIENTS: Final = (
    Client("kubectl wait", by_conditions),
    Client("CronJob", by_conditions),
    Client("Flux, Helm 4", by_conditions),
    Client("Helm 3 `--wait-for-jobs`, Helm 4 `--wait=legacy`", helm_3),
    Client("Argo CD", by_types),
    Client("kube-state-metrics, KubeJobFailed", by_types),
    Client("Argo Workflows, resource template", argo_workflows, one_pod=True),
    Client("Snakemake", snakemake, one_pod=True, reads_pods=True),
    Client("Nextflow, Job mode", nextflow, one_pod=True, reads_pods=True),
)


def _conditions(job: Object) -> Iterable[Object]:
    return (job.get("status") or {}).get("conditions") or ()


def _count(job: Object, name: str) -> int:
    return int((job.get("status") or {}).get(name) or 0)


def _labelled(job: Object, pods: Iterable[Object]) -> list[Object]:
    name = job["metadata"]["name"]
    return [pod for pod in pods if (pod["metadata"].get("labels") or {}).get("job-name") == name]


def _exit_code(pod: Object) -> int | None:
    """Of the first container; None while it has not ended."""
    stated = (pod.get("status") or {}).get("containerStatuses") or ()
    ended = stated[0].get("state", {}).get("terminated") if stated else None
    return int(ended["exitCode"]) if ended is not None else None
