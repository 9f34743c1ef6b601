"""Mount paths: what they would hide in the image, and in each other."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Final

from scavenger_api.job import ScavengerJobSpec
from scavenger_api.podspec import VolumeMount
from scavenger_api.rules.problem import Problem, shown, warning

SYSTEM_FOLDERS: Final = {
    "/": "everything",
    "/bin": "the programs",
    "/boot": "the boot files",
    "/dev": "the devices",
    "/etc": "the configuration (resolv.conf, passwd, certificates)",
    "/lib": "the libraries",
    "/lib64": "the libraries",
    "/proc": "the kernel's view of the processes",
    "/run": "the run-time state",
    "/sbin": "the programs",
    "/sys": "the kernel's view of the devices",
    "/usr": "the programs and libraries",
    "/usr/bin": "the programs",
    "/usr/lib": "the libraries",
    "/usr/local": "what the image's author has installed",
    "/usr/local/bin": "what the image's author has installed",
    "/var": "the system's state",
    "/var/run": "the run-time state",
    "/var/run/secrets/kubernetes.io/serviceaccount": "the service account's token",
}

KERNEL_FOLDERS: Final = ("/proc", "/sys", "/dev")
"""Nothing under these can be mounted over without consequences either."""


def mounts_of(spec: ScavengerJobSpec) -> Iterator[tuple[str, VolumeMount]]:
    """Every mount of a job with the path of its field."""
    for kind, mounts in (
        ("persistentVolumeClaims", spec.persistent_volume_claims),
        ("configMaps", spec.config_maps),
        ("secrets", spec.secrets),
    ):
        for index, mount in enumerate(mounts or ()):
            yield f"spec.{kind}[{index}]", mount


def normal(path: str) -> str:
    """The path without doubled slashes, `.` and `..`, and without a slash at the end."""
    return "/" + posixpath.normpath(path).lstrip("/")


def mount_problems(spec: ScavengerJobSpec) -> Iterator[Problem]:
    """Two mounts at one place: different strings, so that the API server sees no clash, and the same folder."""
    taken: dict[str, str] = {}
    for field, mount in mounts_of(spec):
        path = normal(mount.mount_path)
        if path in taken:
            text = f"{shown(mount.mount_path)} is the same folder as {taken[path]}.mountPath; choose another one"
            yield Problem(f"{field}.mountPath", text)
        taken.setdefault(path, field)


def mount_warnings(spec: ScavengerJobSpec) -> Iterator[str]:
    """Mounts that hide a folder which programs rely on."""
    for field, mount in mounts_of(spec):
        path = normal(mount.mount_path)
        if path in SYSTEM_FOLDERS:
            yield warning(
                f"{field}.mountPath: {path} hides {SYSTEM_FOLDERS[path]} of the image; "
                "mount into a folder of its own, as /data"
            )
        elif path.startswith(tuple(f"{folder}/" for folder in KERNEL_FOLDERS)) and path != "/dev/shm":
            yield warning(f"{field}.mountPath: {path} lies in a folder of the kernel; mount elsewhere, as /data")
