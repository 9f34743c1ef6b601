"""What has passed before: a check that takes minutes runs once for each content of what it reads.

The name of a stamp is a digest of content, without paths and times, so another clone of the same commit on the same
machine finds it. Stamps are outside the checkout, and written only after the check has passed.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from scavenger_cluster.layout import cache_dir


def content_of(folder: Path, *facts: object) -> str:
    """A digest of what a check reads.

    Args:
        folder: with all files in it, tracked by git or not. Their names and bytes count, whether they may be executed,
            and where symbolic links lead.
        facts: whatever else counts, such as the command and the versions of its tools. They need a `repr` that is the
            same in each process.
    """
    digest = hashlib.sha256(repr(facts).encode())
    for path in sorted(path for path in folder.rglob("*") if path.is_symlink() or path.is_file()):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            one = (name, "link", str(path.readlink()))
        else:
            kind = "program" if path.stat().st_mode & 0o100 else "file"
            one = (name, kind, hashlib.sha256(path.read_bytes()).hexdigest())
        digest.update(repr(one).encode())
    return digest.hexdigest()


def run_once(
    name: str, content: Callable[[], str], check: Callable[[], int], *, again: bool = False, root: Path | None = None
) -> int:
    """Run a check, unless it has passed before with the same content; returns its exit code.

    A check that fails or is interrupted leaves no stamp, nor does one whose content changes while it runs: nobody knows
    which of the two contents has passed.

    Args:
        name: of the check, for people and for the folder of its stamps.
        content: the digest of what the check reads, now.
        check: runs it and returns the exit code.
        again: run it even if it has passed before.
        root: the folder of all stamps; the cache of the embedded cluster has it by default.
    """
    before = content()
    stamp = (root or cache_dir() / "passed") / name.replace("/", "-").replace(" ", "-") / before
    if again:
        stamp.unlink(missing_ok=True)
    elif stamp.exists():
        sys.stdout.write(f"{name}: passed before with the same content ({stamp.read_text().strip()})\n")
        return 0
    sys.stdout.write(f"{name}: running\n")
    sys.stdout.flush()
    code = check()
    if code == 0 and content() == before:
        write_whole(stamp, f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC\n")
    return code


def write_whole(path: Path, text: str) -> None:
    """Write a file at once: another checkout may write or read it at the same time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".new-", delete=False) as file:
        file.write(text)
    Path(file.name).replace(path)
