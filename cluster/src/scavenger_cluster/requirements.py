"""What real nodes need of the machine, and getting it."""

from __future__ import annotations

import os
import platform
import re
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from scavenger_cluster import cgroups
from scavenger_cluster.errors import CommandError, MissingRequirementError
from scavenger_cluster.layout import cache_dir
from scavenger_cluster.locking import locked
from scavenger_cluster.shell import find_program, run, succeeds

CAP_SYS_RESOURCE = 24
CNI_DIRS = ("/usr/lib/cni", "/opt/cni/bin")
NODE_PACKAGES = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "iptables": "iptables",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "unshare": "util-linux",
}
CNI_PACKAGE = "containernetworking-plugins"
DPKG_SECONDS = 300
"""For how long somebody else's dpkg is waited for, each time: a test on a cluster has three times as long."""
IMAGE_PACKAGES = {"buildah": "buildah", "debootstrap": "debootstrap", "skopeo": "skopeo"}


def cni_plugin_dir() -> str | None:
    """Return the folder with the CNI plugins."""
    return next((folder for folder in CNI_DIRS if (Path(folder) / "ptp").exists()), None)


def missing_node_packages() -> list[str]:
    """Return the Debian packages that real nodes need and this machine lacks."""
    missing = {package for program, package in NODE_PACKAGES.items() if find_program(program) is None}
    if cni_plugin_dir() is None:
        missing.add(CNI_PACKAGE)
    return sorted(missing)


def missing_image_packages() -> list[str]:
    """Return the Debian packages that building and pushing images need and this machine lacks."""
    return sorted({package for program, package in IMAGE_PACKAGES.items() if find_program(program) is None})


def check_platform() -> None:
    """Raise MissingRequirementError where no cluster can run, with real nodes or without."""
    if not is_linux():
        raise MissingRequirementError(
            "the embedded cluster runs on Linux only; elsewhere use a Kubernetes of your own, "
            "for instance kind (docker-compose.kind.yml, see docs/install.md)"
        )


def is_linux() -> bool:
    """Tell whether this is Linux: processes are known from /proc, and started by the `env` of GNU coreutils."""
    return platform.system() == "Linux"


def check_image_building() -> None:
    """Raise MissingRequirementError for a user that cannot build images."""
    if os.geteuid() != 0:
        raise MissingRequirementError(
            "building images needs root (debootstrap makes the base as root, and buildah mounts it); "
            "without root there are only fake nodes, which need no images"
        )


def obstacles() -> list[str]:
    """Return what makes real nodes impossible here and no package would cure; empty if nothing does."""
    found = []
    if os.geteuid() != 0:
        found.append("not root")
        return found
    if not cgroups.ROOT.is_dir() or not cgroups.hierarchies():
        found.append("no cgroups")
    elif not _cgroups_writable():
        found.append("cgroups cannot be written")
    if find_program("unshare") and not succeeds(["unshare", "--net", "--mount", "true"]):
        found.append("network or mount namespaces cannot be made")
    return found


def install(packages: Sequence[str], report: Callable[[str], None], *, allowed: bool) -> None:
    """Install Debian packages with apt-get; MissingRequirementError if that is not allowed or fails."""
    if not packages:
        return
    names = " ".join(packages)
    advice = f"missing packages: {names}; install them with: apt-get install {names}"
    if not allowed:
        raise MissingRequirementError(f"{advice} (or leave out --no-install)")
    if os.geteuid() != 0 or find_program("apt-get") is None:
        raise MissingRequirementError(advice)
    report(f"installing missing packages with apt-get: {names}")
    try:
        with apt_lock(lambda: report("waiting for another apt-get to finish")):
            _install(packages)
    except CommandError as error:
        raise MissingRequirementError(f"{advice}\n{error}") from error


def apt_lock(on_wait: Callable[[], None] = lambda: None) -> AbstractContextManager[None]:
    """Hold what keeps two of us from running apt-get at a time: it waits for no other that updates package lists."""
    return locked(cache_dir() / "apt.lock", on_wait)


def _install(packages: Sequence[str]) -> None:
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    options = ["--yes", "--no-install-recommends", f"--option=DPkg::Lock::Timeout={DPKG_SECONDS}"]
    command = ["apt-get", "install", *options, *packages]
    try:
        run(command, env=env, timeout=DPKG_SECONDS + 900)
    except CommandError:
        run(["apt-get", "update"], env=env, timeout=300)
        run(command, env=env, timeout=DPKG_SECONDS + 900)


def may_lower_oom_scores(status: Path = Path("/proc/self/status")) -> bool:
    """Tell whether we have CAP_SYS_RESOURCE."""
    match = re.search(r"^CapEff:\s*([0-9a-f]+)$", status.read_text(), re.MULTILINE)
    return bool(match and int(match.group(1), 16) >> CAP_SYS_RESOURCE & 1)


def _cgroups_writable() -> bool:
    try:
        for hierarchy in cgroups.hierarchies():
            Path(tempfile.mkdtemp(prefix="scavenger-probe-", dir=hierarchy)).rmdir()
    except OSError:
        return False
    return True
