"""Generated files: written, or compared with what is there."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]


def out_of_date(files: Mapping[Path, str]) -> list[Path]:
    """The files that are not there, or have something else in them."""
    return [path for path, text in files.items() if not path.exists() or path.read_text() != text]


def main(prog: str, about: str, generated: Callable[[], Mapping[Path, str]], words: list[str] | None = None) -> int:
    """The command line of a generator, with --write and --check; returns the exit code."""
    parser = argparse.ArgumentParser(prog=prog, description=about.partition("\n")[0])
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--write", action="store_true", help="write the files")
    mode.add_argument("--check", action="store_true", help="exit 1 where they are out of date")
    arguments = parser.parse_args(words)
    files = generated()
    stale = out_of_date(files)
    for path in stale:
        if arguments.write:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(files[path])
        else:
            sys.stderr.write(f"{path.relative_to(ROOT)} is out of date; run: make generate\n")
    return 1 if stale and arguments.check else 0
