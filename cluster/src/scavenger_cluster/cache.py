"""What builds leave behind: how much it is, and how it goes.

python -m scavenger_cluster.cache            say what is there
python -m scavenger_cluster.cache --clear    remove it; the next `make demo` or `make up` builds it again
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
from pathlib import Path
from typing import Final

from scavenger_cluster.errors import ClusterError
from scavenger_cluster.layout import cache_dir, state_dir
from scavenger_cluster.locking import locked
from scavenger_cluster.state import Registry

BUILT: Final = {
    "bin": "programs of Kubernetes and of this project",
    "images": "images, as archives",
    "buildah": "base images, and what images are built in",
    "go": "modules of other versions of Kubernetes",
}
"""Folders of the cache that builds fill. What else is there are times and stamps of tests, which are small."""
LOCKS: Final = ("build.lock", "images.lock")


def sizes() -> dict[str, int]:
    """Bytes on disk of each folder that is there."""
    return {name: _used(cache_dir() / name) for name in BUILT if (cache_dir() / name).is_dir()}


def _used(folder: Path) -> int:
    """Bytes on disk; files that go meanwhile count as nothing."""
    total = 0
    for where, _, files in os.walk(folder):
        for name in files:
            with contextlib.suppress(OSError):
                total += (Path(where) / name).lstat().st_blocks * 512
    return total


def describe() -> str:
    """One sentence on what builds have left, and how it goes."""
    found = sum(sizes().values())
    if not found:
        return f"nothing that was built is in {cache_dir()}"
    return (
        f"what was built stays in {cache_dir()} ({found / 1e9:.1f} GB) for the next time; `make clean-cache` removes it"
    )


def clear() -> int:
    """Remove what builds have left; the bytes that were used. Builds that run are waited for. Raises ClusterError while
    there are clusters, which run these programs."""
    clusters = Registry(state_dir() / "clusters.json").clusters()
    if clusters:
        names = ", ".join(sorted(clusters))
        raise ClusterError(
            f"clusters use these programs: {names}; take them down first (scavenger-cluster --name … down)"
        )
    with contextlib.ExitStack() as held:
        for lock in LOCKS:
            held.enter_context(locked(cache_dir() / lock))
        found = sizes()
        for name in found:
            shutil.rmtree(cache_dir() / name)
    return sum(found.values())


def main(words: list[str] | None = None) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m scavenger_cluster.cache", description="What builds leave behind.")
    parser.add_argument("--clear", action="store_true", help="remove it")
    if parser.parse_args(words).clear:
        try:
            sys.stdout.write(f"removed {clear() / 1e9:.1f} GB from {cache_dir()}\n")
        except ClusterError as error:
            sys.stderr.write(f"{error}\n")
            return 1
        return 0
    for name, used in sizes().items():
        sys.stdout.write(f"{used / 1e9:5.1f} GB  {cache_dir() / name}  {BUILT[name]}\n")
    sys.stdout.write(f"{describe()}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
