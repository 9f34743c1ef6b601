"""Programs out of Debian packages that are not to be installed: Prometheus' package would start a daemon."""

from __future__ import annotations

import tempfile
from pathlib import Path

from scavenger_cluster.errors import CommandError
from scavenger_cluster.layout import cache_dir
from scavenger_cluster.requirements import apt_lock
from scavenger_cluster.shell import find_program, run


def program(package: str, name: str) -> Path | None:
    """The program of that name: installed, or unpacked from its package into the cache, whose folder names its version.

    None where there is neither the program nor a way to download packages (`apt-get download` needs no root).
    """
    installed = find_program(name)
    if installed is not None:
        return Path(installed)
    cache = cache_dir() / "debian"
    return _unpacked(cache, package, name) or _download(cache, package, name)


def _unpacked(cache: Path, package: str, name: str) -> Path | None:
    return max(cache.glob(f"{package}_*/usr/bin/{name}"), default=None)


def _download(cache: Path, package: str, name: str) -> Path | None:
    if find_program("apt-get") is None or find_program("dpkg-deb") is None:
        return None
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix="new-") as folder:
        here = Path(folder)
        try:
            archive = _archive(here, package)
            run(["dpkg-deb", "--extract", archive, here / "files"])
        except CommandError:
            return None
        target = cache / archive.stem
        if not target.exists():
            (here / "files").rename(target)
    return _unpacked(cache, package, name)


def _archive(folder: Path, package: str) -> Path:
    try:
        run(["apt-get", "download", package], cwd=folder, timeout=300)
    except CommandError:
        with apt_lock():
            run(["apt-get", "update"], timeout=300)  # a new machine has no package lists
        run(["apt-get", "download", package], cwd=folder, timeout=300)
    return next(folder.glob("*.deb"))
