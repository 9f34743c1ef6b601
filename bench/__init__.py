"""Benchmarks: `python -m bench`."""

import os
from pathlib import Path


class Skipped(Exception):  # noqa: N818 - a reason, not a fault
    """The benchmark cannot run on this machine; the message says why."""


def trace_folder() -> Path:
    """Where the public traces are, which are not part of the project: BENCH_TRACE_DIR says it."""
    return Path(os.environ.get("BENCH_TRACE_DIR", Path(__file__).resolve().parents[2] / "shared" / "data"))
