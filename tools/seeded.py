"""Runs a program whose cache in a new checkout begins with what another checkout has left.

    python -m tools.seeded FOLDER COMMAND...

mypy needs half a minute of CPU time without its cache and one second with it. It finds by content what has changed, so
the cache of one checkout serves another. Each checkout has its own, because mypy writes into it while it runs. A copy
of it, packed into one file, is in the cache folder of the embedded cluster and is made again after a day.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from scavenger_cluster.layout import cache_dir

DAY: Final = 86_400.0
"""Seconds that a copy serves; what has changed since then is the work of a new checkout."""
FINISHED: Final = (0, 1)
"""Exit codes of mypy: it found nothing, or errors. The cache is whole after both."""


def unpack(seed: Path, folder: Path) -> bool:
    """Make a folder from a copy, unless it is there or there is no copy that can be read; whether it has done so."""
    if folder.exists() or not seed.exists():
        return False
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f"{folder.name}-") as scratch:
        try:
            with tarfile.open(seed) as archive:
                archive.extractall(scratch, filter="data")
            (Path(scratch) / folder.name).rename(folder)
        except (OSError, tarfile.TarError):
            return False
    return True


def pack(folder: Path, seed: Path, now: float) -> bool:
    """Copy a folder into one file, unless there is a copy that is younger than a day; whether it has done so.

    now: seconds since the epoch.
    """
    if not folder.is_dir() or (seed.exists() and now - seed.stat().st_mtime < DAY):
        return False
    seed.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=seed.parent, prefix=".new-", delete=False) as file:
        with tarfile.open(fileobj=file, mode="w") as archive:
            archive.add(folder, folder.name)
        whole = Path(file.name)
    whole.replace(seed)  # at once: another checkout may unpack it now
    return True


def main(words: Sequence[str]) -> int:
    """The command line; returns the exit code of the command."""
    if len(words) < 2:
        sys.stderr.write(__doc__ or "")
        return 2
    folder, command = Path(words[0]).absolute(), words[1:]
    seed = cache_dir() / "seeds" / f"{folder.name.lstrip('.')}.tar"
    unpack(seed, folder)
    code = subprocess.run(command, check=False).returncode
    if code in FINISHED:
        pack(folder, seed, time.time())
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
