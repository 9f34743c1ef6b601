"""Figures of the plugin's own benchmarks in Go, which need no cluster."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

from scavenger_cluster.build import GO_SETTINGS, Go
from scavenger_cluster.errors import MissingRequirementError

from bench import Skipped

MODULE: Final = Path(__file__).resolve().parents[2] / "services" / "scheduler"


def measure(benchmark: str) -> dict[str, dict[str, float]]:
    """The metrics of a Go benchmark by the names of its parts, each run once.

    Skipped where there is no Go; RuntimeError, with its output, when the benchmark failed.
    """
    try:
        go = Go.find()
    except MissingRequirementError as error:
        raise Skipped(str(error)) from error
    argv = [go.program, "test", "-vet=off", "-run=^$", f"-bench=^Benchmark{benchmark}$", "-benchtime=1x"]
    argv += ["-timeout=20m", "./pkg/preemption"]
    done = subprocess.run(
        argv, cwd=MODULE, env={**os.environ, **GO_SETTINGS}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    found = parse(done.stdout)
    if done.returncode or not found:
        raise RuntimeError(f"{' '.join(argv)} ended with {done.returncode}:\n{done.stdout[-4000:]}")
    return found


def parse(output: str) -> dict[str, dict[str, float]]:
    """What `go test -bench` printed: `{"LossOverOptimum": {"ns/op": 1.0, "mean-ratio": 1.0}}`.

    Names come without `Benchmark` and without the number of processors that Go appends where it is not 1.
    """
    found: dict[str, dict[str, float]] = {}
    for line in output.splitlines():
        name, *rest = line.split() or [""]
        if not name.startswith("Benchmark") or len(rest) < 3 or not rest[0].isdecimal():
            continue
        stem, _, processors = name.rpartition("-")
        name = stem if stem and processors.isdecimal() else name
        found[name.removeprefix("Benchmark")] = {
            unit: float(value) for value, unit in zip(rest[1::2], rest[2::2], strict=True)
        }
    return found
