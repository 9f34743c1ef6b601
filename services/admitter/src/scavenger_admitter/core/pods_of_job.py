"""The pods of a Job that the admitter has itself (`spec.managedBy`): a function of the Job as the API server has it.

So any process can create what another one left out, and the same pod has the same name whoever creates it
(docs/designs/0020-the-admitter-makes-the-pods.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from scavenger_api import names
from scavenger_api.checkpoints import COMPLETION_INDEX
from scavenger_api.times import micros, parse_time

ENV_COMPLETION_INDEX: Final = "JOB_COMPLETION_INDEX"
"""What the Job controller calls the index in the environment of an Indexed Job."""
SUFFIX_LENGTH: Final = 5
"""As long as the random suffix that Kubernetes gives."""
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


def pods_of_job(batch: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The pods in the order of their indexes.

    Args:
        batch: the Job, as the API server answered.
    """
    return [_pod(batch, index) for index in range(batch["spec"].get("parallelism", 1))]


def pod_of_task(
    batch: Mapping[str, Any],
    index: int,
    *,
    queue: str,
    affinity: Mapping[str, Any],
    interrupted: bool = False,
    grant: int = 0,
) -> dict[str, Any]:
    """The pod of a task. Its name has no suffix: the API server refuses a second one, whoever tries
    (docs/designs/0023-arrays.md).

    Args:
        batch: the Job of the array, as the API server answered.
        index: of the task.
        queue: that its array is in now; the template names the one that it was in when its Job was created.
        affinity: of the pod, in place of what the template has.
        interrupted: whether others interrupted the last run of the task; its pod says so.
        grant: the number of the decision that gave it capacity; 0 for a pod that is not to be stored.
    """
    pod = _pod(batch, index)
    meta, spec = pod["metadata"], pod["spec"]
    meta["name"] = f"{batch['metadata']['name']}-{index}"
    meta["labels"] |= {names.LABEL_TASK: str(index), names.LABEL_QUEUE: queue}
    if interrupted:
        meta["annotations"][names.ANNOTATION_INTERRUPTED] = "true"
    if grant:
        meta["annotations"][names.ANNOTATION_GRANT] = str(grant)
    own = {
        names.ENV_TASK: str(index),
        names.ENV_TASKS: str(batch["spec"]["completions"]),
        names.ENV_PEERS: spec["hostname"],
    }
    first = [{"name": name, "value": value} for name, value in own.items()]
    not_kept = {*own, names.ENV_RESTARTS}  # how often each task has started again is kept nowhere
    for container in (one for kind in ("initContainers", "containers") for one in spec.get(kind, ())):
        container["env"] = [*first, *(one for one in container["env"] if one["name"] not in not_kept)]
    if affinity:
        spec["affinity"] = dict(affinity)
    return pod


def _pod(batch: Mapping[str, Any], index: int) -> dict[str, Any]:
    meta, template = batch["metadata"], batch["spec"]["template"]
    indexed = batch["spec"].get("completionMode") == "Indexed"
    member = {COMPLETION_INDEX: str(index)}
    given, spec = template["metadata"], template["spec"]
    host = f"{meta['name']}-{index}"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{host}-{_suffix(meta)}",
            "namespace": meta["namespace"],
            "labels": {**given["labels"], **(member if indexed else {})},
            "annotations": {**given["annotations"], **member},
            "finalizers": given["finalizers"],
            "ownerReferences": [
                {
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "name": meta["name"],
                    "uid": meta["uid"],
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            **spec,
            "hostname": host,
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


def _suffix(meta: Mapping[str, Any]) -> str:
    """It follows from the place in line, in microseconds, of which two runs of a job have the same last digits only
    where they are a multiple of 60.466176 seconds apart."""
    queued = parse_time(meta["annotations"][names.ANNOTATION_RUN])
    rest, text = micros(queued) if queued is not None else 0, ""
    while len(text) < SUFFIX_LENGTH:
        rest, digit = divmod(rest, len(_DIGITS))
        text = _DIGITS[digit] + text
    return text
