"""Snapshots: a program that writes no checkpoints runs under `snap`, which saves its state (docs/designs/0026)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from scavenger_api import names
from scavenger_api.job import ScavengerJob
from scavenger_domain.pod_ends import main_status
from scavenger_kube.kinds import Pod

NAME: Final = "scavenger-snapshot"
"""Of the init container and of the volume that `snap` is copied into."""
FOLDER: Final = "/.scavenger"

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
    program = next(one for one in pod["containers"] if one["name"] == job.spec.main_name)
    under_snap = {
        **{name: value for name, value in program.items() if name != "args"},
        "command": [
            *_snap(job, path, program.get("image", ""), grace_seconds),
            *program["command"],
            *program.get("args", ()),
        ],
        "volumeMounts": [*program.get("volumeMounts", ()), mount],
    }
    return {
        **pod,
        "initContainers": [_bring(program.get("resources"), image, mount), *pod.get("initContainers", ())],
        "containers": [under_snap if one is program else one for one in pod["containers"]],
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
