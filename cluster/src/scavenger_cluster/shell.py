"""Running short programs to their end."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from scavenger_cluster.errors import CommandError

SEARCH_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")


def find_program(name: str) -> str | None:
    """Find a program on PATH or in the system folders, which a user's PATH often lacks."""
    path = os.environ.get("PATH", "")
    return shutil.which(name, path=os.pathsep.join([path, *SEARCH_PATH]))


def run(
    argv: Sequence[str | Path],
    *,
    stdin: str | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout: float = 600,
) -> str:
    """Run a program to its end and return its standard output; CommandError with its output if it fails."""
    words = [str(word) for word in argv]
    program = find_program(words[0]) or words[0]
    try:
        done = subprocess.run(
            [program, *words[1:]],
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            errors="replace",
            env=dict(env) if env is not None else None,
            cwd=cwd,
            timeout=timeout,
            check=False,
        )
    except FileNotFoundError as error:
        raise CommandError(words, 127, f"{words[0]}: not found") from error
    except subprocess.TimeoutExpired as error:
        raise CommandError(words, 124, f"still running after {timeout:g} s") from error
    if done.returncode:
        raise CommandError(words, done.returncode, done.stderr.strip() or done.stdout.strip())
    return done.stdout


def succeeds(argv: Sequence[str | Path]) -> bool:
    """Run a program for its exit code alone."""
    try:
        run(argv)
    except CommandError:
        return False
    return True
