"""What helm prints, kept outside the checkout: a chart is rendered once for each set of values, until it changes.

The key of a run is all that it depends on: the program (its folder has the hash of what it is built of), its arguments
and standard input, the environment of helm, and each file of a folder or file that an argument names. Processes share
the folder, so tests in several of them render once as well.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from scavenger_cluster.layout import cache_dir

ROOT: Final = Path(__file__).resolve().parents[2]
KEPT: Final = 3000
"""Runs that are kept, those used last: 5 KiB each, and 700 in one run of all tests."""

Done = subprocess.CompletedProcess[str]


def run(helm: Path, *words: str | Path, stdin: str = "") -> Done:
    """What helm prints for these arguments, and its exit code. Nothing is kept of files outside the checkout."""
    paths = [path for word in words for path in _paths(str(word))]
    if not all(path.is_relative_to(ROOT) for path in paths):
        return run_again(helm, *words, stdin=stdin)
    environment = sorted((name, value) for name, value in os.environ.items() if name.startswith(("HELM_", "KUBE")))
    key = repr((helm, [*map(str, words)], stdin, environment, [*map(_content, paths)]))
    file = _folder() / hashlib.sha256(key.encode()).hexdigest()
    with contextlib.suppress(OSError, ValueError, zlib.error):
        code, out, err = json.loads(zlib.decompress(file.read_bytes()))
        os.utime(file)
        return subprocess.CompletedProcess([helm, *words], code, out, err)
    done = run_again(helm, *words, stdin=stdin)
    scratch = file.with_suffix(f".{os.getpid()}")
    scratch.write_bytes(zlib.compress(json.dumps([done.returncode, done.stdout, done.stderr]).encode()))
    scratch.replace(file)
    return done


def run_again(helm: Path, *words: str | Path, stdin: str = "") -> Done:
    """The same, from helm itself: for what may differ from run to run, or writes files."""
    environment = {**os.environ, "GOGC": "off"}  # a third less CPU time; it ends before garbage is worth collecting
    command = [helm, *words]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, env=environment)


def forget_old_ones() -> None:
    """Remove all runs but those used last."""
    for file in sorted(_folder().iterdir(), key=_used, reverse=True)[KEPT:]:
        file.unlink(missing_ok=True)


def _used(file: Path) -> float:
    with contextlib.suppress(FileNotFoundError):  # another process forgets it as well
        return file.stat().st_mtime
    return 0.0


@cache
def _folder() -> Path:
    folder = cache_dir() / "renders"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _paths(word: str) -> Iterator[Path]:
    """What an argument names: itself, or the value of its option."""
    for name in (word, word.partition("=")[2]):
        with contextlib.suppress(OSError):  # values can be longer than names of files
            if name and (path := Path(name).absolute()).exists():
                yield path


@cache
def _content(path: Path) -> str:
    """A hash of a file, or of all files of a folder and of what its links lead to. No test changes them meanwhile."""
    digest = hashlib.sha256()
    below = (Path(at, name) for at, _, names in os.walk(path, followlinks=True) for name in names)
    for file in [path] if path.is_file() else sorted(below):
        content = file.read_bytes()
        digest.update(f"{file.relative_to(path)} {len(content)} ".encode() + content)
    return digest.hexdigest()
