"""The pods of a Job that the admitter has itself (`spec.managedBy`): a function of the Job as the API server has it.

So any process can create what another one left out, and the same pod has the same name, whichever process creates it
(docs/designs/0020-the-admitter-makes-the-pods.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from scavenger_api import names, pod_names
from scavenger_api.checkpoints import COMPLETION_INDEX
from scavenger_api.times import micros, parse_time

ENV_COMPLETION_INDEX: Final = "JOB_COMPLETION_INDEX"
"""What the Job controller calls the index in the environment of an Indexed Job."""


def pods_of_job(batch: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The pods in the order of their indexes.

    Args:
        batch: the Job, as the API server answered.
    """
    given = _suffix(batch)
    if pod_names.RUN_SUFFIX.fullmatch(given) is None:  # a Job from before there were suffixes in templates
        queued = parse_time(batch["metadata"]["annotations"][names.ANNOTATION_RUN])
        given = pod_names.older_run_suffix(micros(queued) if queued is not None else 0)
    return [_pod(batch, index, given) for index in range(batch["spec"].get("parallelism", 1))]


def pod_of_task(
    batch: Mapping[str, Any],
    index: int,
    *,
    queue: str,
    affinity: Mapping[str, Any],
    interrupted: bool = False,
    restarts: int = 0,
    grant: int = 0,
    number: int | None = None,
) -> dict[str, Any]:
    """The pod of a task. All its lives have one name: the API server refuses a second one, whichever process tries
    (docs/designs/0023-arrays.md).

    Args:
        batch: the Job of the array, as the API server answered.
        index: of the task.
        queue: that its array is in now; the template names the one that it was in when its Job was created.
        affinity: of the pod, in place of what the template has.
        interrupted: whether others interrupted the last run of the task; its pod says so.
        restarts: how often the task was interrupted before, which its program is told.
        grant: the number of the decision that gave it capacity; 0 for a pod that is not to be stored.
        number: what the user calls the task; None for its index.
    """
    pod = _pod(batch, index, task_suffix(batch))
    meta, spec = pod["metadata"], pod["spec"]
    meta["labels"] |= {names.LABEL_TASK: str(index), names.LABEL_QUEUE: queue}
    if interrupted:
        meta["annotations"][names.ANNOTATION_INTERRUPTED] = "true"
    if grant:
        meta["annotations"][names.ANNOTATION_GRANT] = str(grant)
    number = index if number is None else number
    meta["annotations"][names.ANNOTATION_INDEX] = str(number)
    own = {
        names.ENV_TASK: str(number),
        names.ENV_TASKS: str(batch["spec"]["completions"]),
        names.ENV_PEERS: spec["hostname"],
        names.ENV_RESTARTS: str(restarts),
    }
    first = [{"name": name, "value": value} for name, value in own.items()]
    for container in (one for kind in ("initContainers", "containers") for one in spec.get(kind, ())):
        container["env"] = [*first, *(one for one in container["env"] if one["name"] not in own)]
    if affinity:
        spec["affinity"] = dict(affinity)
    return pod


def task_suffix(batch: Mapping[str, Any]) -> str:
    """The suffix of the pods of an array; empty where its Job names none. batch: as in `pods_of_job`."""
    given = _suffix(batch)
    return given if pod_names.TASK_SUFFIX.fullmatch(given) else ""


def _suffix(batch: Mapping[str, Any]) -> str:
    return str(batch["spec"]["template"]["metadata"]["annotations"].get(names.ANNOTATION_POD_SUFFIX, ""))


def owner_reference(meta: Mapping[str, Any]) -> dict[str, Any]:
    """By which a pod belongs to its Job, as the Job controller writes it. meta: metadata of the Job."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _pod(batch: Mapping[str, Any], index: int, suffix: str) -> dict[str, Any]:
    meta, template = batch["metadata"], batch["spec"]["template"]
    indexed = batch["spec"].get("completionMode") == "Indexed"
    member = {COMPLETION_INDEX: str(index)}
    given, spec = template["metadata"], template["spec"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_names.pod_name(meta["name"], index, suffix),
            "namespace": meta["namespace"],
            "labels": {**given["labels"], **(member if indexed else {})},
            "annotations": {**given["annotations"], **member},
            "finalizers": given["finalizers"],
            "ownerReferences": [owner_reference(meta)],
        },
        "spec": {
            **spec,
            "hostname": pod_names.host_name(meta["name"], index),
            **{
                kind: [_member(one, index) if indexed else one for one in spec[kind]]
                for kind in ("initContainers", "containers")
                if kind in spec
            },
        },
    }


def _member(container: Mapping[str, Any], index: int) -> dict[str, Any]:
    env = [{"name": ENV_COMPLETION_INDEX, "value": str(index)}, *container.get("env", ())]
    return {**container, "env": env}
