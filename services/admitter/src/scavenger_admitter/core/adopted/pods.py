"""The pods of an adopted Job: its template as the user wrote it, and over it no more than the admitter needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from scavenger_api import names, pod_names
from scavenger_api.checkpoints import COMPLETION_INDEX, INDEX_FAILURES
from scavenger_api.duration import parse_duration
from scavenger_api.promises import frozen_promises
from scavenger_domain.adopted import INDEXED

from scavenger_admitter.core.pods_of_job import ENV_COMPLETION_INDEX, owner_reference

MAX_NAME: Final = 63
"""Characters of the name of a pod: it becomes a host name (the Job controller cuts its own at the same length)."""
ORDINALS: Final = 36**4
"""Pods of one Job have so many different names where these do not name an index."""

_TAKEN_BY_US: Final = frozenset({"priority", "preemptionPolicy", "priorityClassName"})


def name_of(job: str, uid: str, index: int, tasks: int, *, indexed: bool) -> str:
    """The name of a pod: the same in all lives of its task, so that the API server refuses a second one.

    Args:
        job: name of the Job.
        uid: of the Job.
        index: of the task.
        tasks: how many there are.
        indexed: whether users know the index.
    """
    if indexed:
        name = pod_names.pod_name(job, index, pod_names.task_suffix(uid, job, tasks))
        if len(name) <= MAX_NAME:
            return name
        job = pod_names.host_name(job, index)
    ending = f"-x{_ordinal(uid, index)}"
    return job[: MAX_NAME - len(ending)] + ending


def _ordinal(uid: str, index: int) -> str:
    """Four digits of base 36. No two tasks of a Job have the same."""
    return pod_names.short_name((pod_names.number_of(uid) + index) % ORDINALS)


def adopted_pod(
    batch: Mapping[str, Any],
    index: int,
    *,
    run: str,
    queue: str,
    affinity: Mapping[str, Any],
    grace_seconds: int,
    interrupted: bool = False,
    failures: int | None = None,
    grant: int = 0,
    gang: bool = False,
) -> dict[str, Any]:
    """The pod of a task, or of a member of a gang.

    Args:
        batch: the Job, as the API server answered.
        index: of the task, or the member.
        run: the place of the Job in the queue, by which its pods are told from those of an earlier Job of its name.
        queue: of the Job.
        affinity: of the pod: what the template has, and where its start may go.
        grace_seconds: between SIGTERM and SIGKILL.
        interrupted: whether others interrupted the last run of the task.
        failures: how often the task failed before, where each has retries of its own; else None.
        grant: the number of the decision that gave it capacity; 0 for a pod that is not to be stored.
        gang: it is no unit by itself, so it has no label of a task.
    """
    meta, spec = batch["metadata"], batch["spec"]
    template = spec["template"]
    given, indexed = template.get("metadata") or {}, spec.get("completionMode") == INDEXED
    tasks = spec.get("completions") or spec.get("parallelism") or 1
    member = {COMPLETION_INDEX: str(index)} if indexed else {}
    failed = {} if failures is None else {INDEX_FAILURES: str(failures)}
    promises = frozen_promises(meta.get("annotations") or {})
    interval_seconds = max(1, int(parse_duration(promises[names.ANNOTATION_INTERRUPTION_AFTER]).total_seconds()))
    notes = {
        **promises,
        names.ANNOTATION_RUN: run,
        **({names.ANNOTATION_GRANT: str(grant)} if grant else {}),
        **({names.ANNOTATION_INTERRUPTED: "true"} if interrupted else {}),
    }
    ours = {
        names.LABEL_JOB: meta["name"],
        names.LABEL_KIND: names.KIND_JOB,
        names.LABEL_QUEUE: queue,
        **({} if gang else {names.LABEL_TASK: str(index)}),
        names.LABEL_PREEMPTION_CLASS: names.PREEMPTIBLE,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name_of(meta["name"], meta["uid"], index, tasks, indexed=indexed),
            "namespace": meta["namespace"],
            "labels": {**(given.get("labels") or {}), **member, **ours},
            "annotations": {**(given.get("annotations") or {}), **member, **failed, **notes},
            "finalizers": [*(given.get("finalizers") or ()), names.FINALIZER],
            "ownerReferences": [owner_reference(meta)],
        },
        "spec": {
            **{name: value for name, value in template["spec"].items() if name not in _TAKEN_BY_US},
            "priorityClassName": names.PRIORITY_CLASS_PREEMPTIBLE,
            "terminationGracePeriodSeconds": grace_seconds,
            **({"affinity": dict(affinity)} if affinity else {}),
            **({"hostname": pod_names.host_name(meta["name"], index)} if indexed else {}),
            **{
                kind: [_container(one, interval_seconds, indexed=indexed) for one in template["spec"][kind]]
                for kind in ("initContainers", "containers")
                if template["spec"].get(kind)
            },
        },
    }


def _container(written: Mapping[str, Any], interval_seconds: int, *, indexed: bool) -> dict[str, Any]:
    """A container with the variables that it has not: its own are as they are."""
    env = list(written.get("env") or ())
    own = {variable.get("name") for variable in env}
    if indexed and ENV_COMPLETION_INDEX not in own:
        source = {"fieldRef": {"fieldPath": f"metadata.labels['{COMPLETION_INDEX}']"}}
        env.append({"name": ENV_COMPLETION_INDEX, "valueFrom": source})
    if names.ENV_CHECKPOINT_INTERVAL not in own:
        env.append({"name": names.ENV_CHECKPOINT_INTERVAL, "value": str(interval_seconds)})
    return {**written, "env": env}
