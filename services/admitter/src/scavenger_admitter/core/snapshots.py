"""Snapshots: a program that writes no checkpoints runs under `snap`, which saves its state (docs/designs/0026)."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any, Final

from scavenger_api import names
from scavenger_api.job import ScavengerJob, ScavengerJobSpec
from scavenger_domain.pod_ends import main_status
from scavenger_kube.kinds import Pod

NAME: Final = "scavenger-snapshot"
"""Of the init container and of the volume that `snap` is copied into."""
FOLDER: Final = "/.scavenger"
KEY: Final = "scavenger-snapshot-key"
"""Of the volume with the key."""
KEY_FOLDER: Final = "/.scavenger-key"
KEY_TYPE: Final = "scavenger.dev/snapshot-key"
"""Of the Secret with the key."""
KEY_BYTES: Final = 32
"""As many as the SHA-256 has that it signs by."""

_SAYS: Final = "snap: "


def with_snapshots(pod: dict[str, Any], job: ScavengerJob, image: str, grace_seconds: int) -> dict[str, Any]:
    """The pod with its program under `snap`, and an init container that brings `snap`.

    Args:
        pod: spec of a pod template, as the user wrote it.
        job: the job, which has snapshots and nothing wrong with them.
        image: of `snap`.
        grace_seconds: the grace period of the pod.
    """
    path = job.spec.snapshot_path
    assert path is not None, "no volume for snapshots"
    mount = {"name": NAME, "mountPath": FOLDER}
    key = {"name": KEY, "mountPath": _key_folder(job), "readOnly": True}
    program = next(one for one in pod["containers"] if one["name"] == job.spec.main_name)
    under_snap = {
        **{name: value for name, value in program.items() if name != "args"},
        "command": [
            *_snap(job, path, program.get("image", ""), grace_seconds),
            *program["command"],
            *program.get("args", ()),
        ],
        "volumeMounts": [*program.get("volumeMounts", ()), mount, key],
    }
    # No other container mounts the key. It is readable for all users of this one: the admitter does not know which one
    # the image has.
    secret = {"secretName": key_name(job), "defaultMode": 0o444}
    return {
        **pod,
        "initContainers": [_bring(program.get("resources"), image, mount), *pod.get("initContainers", ())],
        "containers": [under_snap if one is program else one for one in pod["containers"]],
        "volumes": [*pod.get("volumes", ()), {"name": NAME, "emptyDir": {}}, {"name": KEY, "secret": secret}],
    }


def key_name(job: ScavengerJob) -> str:
    """The name of the Secret with the key that signs the snapshots of a job."""
    return f"{job.metadata.name}-snapshot-key"


def key_manifest(job: ScavengerJob, key: bytes) -> dict[str, Any]:
    """The Secret with the key that signs the snapshots of a job. It says whose it is: the admitter, which may not read
    Secrets, cannot find out, so `snap` does (docs/designs/0026-snapshots.md).

    Args:
        job: with snapshots.
        key: `KEY_BYTES` random ones.
    """
    data = {"key": key, "owner": job.metadata.uid.encode()}
    if job.status.running_timestamps and not _task_folder(job.spec):  # what it has saved is from before there were keys
        data["adopt"] = b"true"
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": key_name(job),
            "namespace": job.metadata.namespace,
            "labels": {names.LABEL_JOB: job.metadata.name},
            "ownerReferences": [job.owner_reference()],
        },
        "type": KEY_TYPE,
        "immutable": True,
        "data": {name: base64.b64encode(value).decode() for name, value in data.items()},
    }


def _key_folder(job: ScavengerJob) -> str:
    """Where the key is mounted. The folder has the name of the Secret, for messages."""
    return f"{KEY_FOLDER}/{key_name(job)}"


def _task_folder(spec: ScavengerJobSpec) -> str:
    """The folder of a task below that of its array; empty for a job."""
    return f"/$({names.ENV_TASK})" if spec.array is not None else ""


def _snap(job: ScavengerJob, path: str, image: str, grace_seconds: int) -> list[str]:
    spec, meta, base = job.spec, job.metadata, path.rstrip("/") or "/"
    shared, task = f"{path.rstrip('/')}/.snapshot", _task_folder(spec)
    return [
        f"{FOLDER}/snap",
        "run",
        f"--base={base}",
        f"--dir={shared}/{meta.namespace}_{meta.uid}{task}",
        f"--key={_key_folder(job)}",
        *([f"--adopt={shared}/{meta.name}"] if not task else ()),
        f"--every={spec.checkpoint_interval.total_seconds():g}s",
        f"--grace={grace_seconds}s",
        f"--exit-code={spec.saved_exit_code}",
        f"--owner={meta.uid}{task}",
        f"--image-id={image}",
        "--",
    ]


def _bring(resources: Any, image: str, mount: dict[str, Any]) -> dict[str, Any]:
    """Asks for what the program asks for: a pod needs the larger of both, so it needs no more by this."""
    return {
        "name": NAME,
        "image": image,
        "args": ["install", FOLDER],
        "volumeMounts": [mount],
        **({"resources": resources} if resources else {}),
    }


def warnings_of(pods: Iterable[Pod]) -> str:
    """What `snap` warned of in the termination messages of these pods, one sentence for each kind of warning."""
    statuses = (main_status(pod) for pod in pods)
    ended = (status.state.terminated for status in statuses if status is not None)
    lines = (line for one in ended if one is not None for line in one.message.splitlines())
    return "; ".join(dict.fromkeys(line.removeprefix(_SAYS) for line in lines if line.startswith(_SAYS)))
