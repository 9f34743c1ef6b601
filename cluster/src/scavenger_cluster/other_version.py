"""Kubernetes of another version than go/go.mod pins: a module of its own in the cache, from what that version pins.

It is for trying whether what is made for the pinned version works on an older one: `SCAVENGER_KUBERNETES=v1.33.13`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from scavenger_cluster.errors import ClusterError
from scavenger_cluster.layout import cache_dir
from scavenger_cluster.shell import run

VARIABLE: Final = "SCAVENGER_KUBERNETES"

_ENVIRONMENT: Final = {"GOFLAGS": "", "GOWORK": "off"}


def chosen(pinned: str) -> str:
    """Return the version to build: the one asked for, else the pinned one. ClusterError if it is none."""
    version = os.environ.get(VARIABLE) or pinned
    if not re.fullmatch(r"v1\.\d+\.\d+", version):
        raise ClusterError(f"{VARIABLE}={version}: expected a version of Kubernetes, such as v1.33.13")
    return version


def folder(version: str) -> Path:
    """Return where the module of a version is, or will be."""
    return cache_dir() / "go" / f"kubernetes-{version}"


def ensure(go: str, needed_go: str, version: str, packages: Iterable[str]) -> None:
    """Make the module of a version, with these programs as its tools, unless it is there. CommandError."""
    target = folder(version)
    if (target / "go.sum").exists():
        return
    target.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, **_ENVIRONMENT}
    found = json.loads(
        run([go, "mod", "download", "-json", f"k8s.io/kubernetes@{version}"], env=environment, timeout=1800)
    )
    (target / "go.mod").write_text(go_mod(Path(found["GoMod"]).read_text(), needed_go, version, packages))
    run([go, "mod", "tidy"], cwd=target, env=environment, timeout=1800)


def go_mod(theirs: str, needed_go: str, version: str, packages: Iterable[str]) -> str:
    """Return a go.mod with these programs as tools, from Kubernetes' own, which names the modules that go with it."""
    staging = f"v0.{version.removeprefix('v1.')}"
    modules = re.findall(r"^\t(k8s\.io/\S+) => \./staging/", theirs, re.MULTILINE)
    return "\n".join(
        [
            "module scavenger.dev/cluster/kubernetes\n",
            f"go {needed_go}\n",
            *(f"tool {package}" for package in packages),
            f"\nrequire k8s.io/kubernetes {version}\n",
            *(f"replace {module} => {module} {staging}" for module in modules),
            "",
        ]
    )
