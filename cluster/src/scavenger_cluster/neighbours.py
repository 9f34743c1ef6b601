"""Programs of other projects that act on the same pods and nodes, to try the services beside them.

Each is built from its own module, with the versions that its authors have pinned and tested: it is no part of a
cluster, so none of them is in go/go.mod. They are built when a test or a benchmark asks for them, and cached.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Final

from scavenger_cluster.build import WAITING, Go, Report, Tool
from scavenger_cluster.errors import ClusterError
from scavenger_cluster.layout import cache_dir
from scavenger_cluster.locking import locked
from scavenger_cluster.shell import run


@dataclasses.dataclass(frozen=True)
class Neighbour:
    """A program of another project.

    Attributes:
        name: what it is called here.
        module, version: the Go module that it is in.
        package: its package, from the root of the module.
        checksum: that of the module, as go.sum writes it.
    """

    name: str
    module: str
    version: str
    package: str
    checksum: str


DESCHEDULER: Final = Neighbour(
    "descheduler",
    "sigs.k8s.io/descheduler",
    "v0.36.0",
    "cmd/descheduler",
    "h1:fBemfJD1RhmbsdH94lKwGMOwQcbsrw67A5IK2c2fANA=",
)
KARPENTER: Final = Neighbour(
    "karpenter",
    "sigs.k8s.io/karpenter",
    "v1.14.1",
    "kwok",
    "h1:GjqvOHLjl2+OXM0ti5VEZSQuvcitB0pETd8zdChXEtI=",
)
"""With its provider that makes fake nodes. v1.15.0 needs Go 1.26.9."""


def source(neighbour: Neighbour) -> Path:
    """Return the folder with the source of a neighbour, downloaded if needed. ClusterError, CommandError."""
    wanted = f"{neighbour.module}@{neighbour.version}"
    environment = {**os.environ, "GOFLAGS": "", "GOWORK": "off"}
    with tempfile.TemporaryDirectory() as nowhere:  # outside of any module
        found = json.loads(
            run(
                [Go.find().program, "mod", "download", "-json", wanted],
                cwd=Path(nowhere),
                env=environment,
                timeout=1800,
            )
        )
    if found["Sum"] != neighbour.checksum:
        raise ClusterError(f"{wanted} has the checksum {found['Sum']}, expected {neighbour.checksum}")
    return Path(found["Dir"])


def build(neighbour: Neighbour, report: Report) -> Path:
    """Return the program of a neighbour, built if the cache does not have it. ClusterError, CommandError."""
    go = Go.find()
    digest = hashlib.sha256(repr((neighbour, go.version)).encode()).hexdigest()[:16]
    target = cache_dir() / "bin" / digest / neighbour.name
    if target.exists():
        return target
    with locked(cache_dir() / "build.lock", lambda: report(WAITING)):
        if not target.exists():
            _build(go, neighbour, target, report)
    return target


def _build(go: Go, neighbour: Neighbour, target: Path, report: Report) -> None:
    folder = source(neighbour)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent.parent, prefix=".build-") as scratch:
        tool = Tool(neighbour.name, f"{neighbour.module}/{neighbour.package}")
        go.compile(folder, [tool], Path(scratch), report)
        (Path(scratch) / tool.output).replace(target)
    report(f"built {neighbour.name} {neighbour.version}")
