"""Snapshots: a program that writes no checkpoints runs under `snap`, which saves its state (docs/designs/0026)."""

from __future__ import annotations

from typing import Any, Final

from scavenger_api import names
from scavenger_api.job import ScavengerJob, ScavengerJobSpec

NAME: Final = "scavenger-snapshot"
"""Of the init container and of the volume that `snap` is copied into."""
FOLDER: Final = "/.scavenger"


def with_snapshots(pod: dict[str, Any], job: ScavengerJob, image: str, grace_seconds: int) -> dict[str, Any]:
    """The pod with its program under `snap`, and an init container that brings `snap`.

    Args:
        pod: spec of a pod template, as the user wrote it.
        job: the job, which has snapshots and nothing wrong with them.
        image: of `snap`.
        grace_seconds: the grace period of the pod.
    """
    spec, path = job.spec, job.spec.snapshot_path
    assert path is not None, "no volume for snapshots"
    mount = {"name": NAME, "mountPath": FOLDER}
    containers = [
        {
            **{name: value for name, value in container.items() if name != "args"},
            "command": [
                *_snap(job, path, container.get("image", ""), grace_seconds),
                *container["command"],
                *container.get("args", ()),
            ],
            "volumeMounts": [*container.get("volumeMounts", ()), mount],
        }
        if container["name"] == spec.main_name
        else container
        for container in pod["containers"]
    ]
    return {
        **pod,
        "initContainers": [_bring(spec, containers, image, mount), *pod.get("initContainers", ())],
        "containers": containers,
        "volumes": [*pod.get("volumes", ()), {"name": NAME, "emptyDir": {}}],
    }


def _snap(job: ScavengerJob, path: str, image: str, grace_seconds: int) -> list[str]:
    spec = job.spec
    folder = f"{path.rstrip('/')}/.snapshot/{job.metadata.name}"
    if spec.array is not None:
        folder += f"/$({names.ENV_TASK})"
    return [
        f"{FOLDER}/snap",
        "run",
        f"--dir={folder}",
        f"--every={spec.checkpoint_interval.total_seconds():g}s",
        f"--grace={grace_seconds}s",
        f"--exit-code={spec.saved_exit_code}",
        f"--owner={job.metadata.uid}",
        f"--image-id={image}",
        "--",
    ]


def _bring(
    spec: ScavengerJobSpec, containers: list[dict[str, Any]], image: str, mount: dict[str, Any]
) -> dict[str, Any]:
    """Asks for what the program asks for: a pod needs the larger of both, so it needs no more by this."""
    (program,) = (one for one in containers if one["name"] == spec.main_name)
    resources = program.get("resources")
    return {
        "name": NAME,
        "image": image,
        "args": ["install", FOLDER],
        "volumeMounts": [mount],
        **({"resources": resources} if resources else {}),
    }
