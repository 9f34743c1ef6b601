"""A cluster as others have it, and the real helm on it."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scavenger_cluster import Cluster, stack
from scavenger_cluster.build import ensure_tools
from scavenger_cluster.requirements import obstacles
from scavenger_testing import browser
from scavenger_testing.cluster_names import cluster_name
from scavenger_testing.waiting import wait

ROOT = Path(__file__).resolve().parents[3]
SYSTEM = "scavenger-system"


@pytest.fixture(scope="package")
def cluster() -> Iterator[Cluster]:
    """One real node where there can be one, else an API server alone."""
    found = Cluster(cluster_name("it-charts"), report=lambda line: print(line, flush=True))  # noqa: T201
    try:
        real = not obstacles()
        # As a cluster is where this gets installed: its own scheduler, and a metrics API.
        found.up("real:1" if real else "none", scheduler="stock", metrics=real)
        yield found
    finally:
        found.down()


class Helm:
    """helm on the cluster under test, into the namespace of the system.

    Attributes:
        namespace: of the releases.
    """

    def __init__(self, cluster: Cluster, home: Path, namespace: str = SYSTEM) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.program = ensure_tools(["helm"], cluster.report)["helm"]
        self.environment = os.environ | {f"HELM_{name}_HOME": str(home / name) for name in ("CACHE", "CONFIG", "DATA")}

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        started = time.monotonic()
        done = subprocess.run(
            [self.program, *words, f"--kubeconfig={self.cluster.kubeconfig}", f"--namespace={self.namespace}"],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        self.cluster.report(f"helm {words[0]} {words[-1]} … {time.monotonic() - started:.1f} s")
        return done

    def refused(self, *words: str) -> str:
        """What helm said; asserts that it failed."""
        done = self.run(*words)
        assert done.returncode != 0, done.stdout
        return done.stderr

    def __call__(self, *words: str) -> str:
        done = self.run(*words)
        assert done.returncode == 0, f"helm {' '.join(words)}\n{done.stdout}{done.stderr}\n{self.describe()}"
        return done.stdout

    def install(self, chart: str, *words: str) -> str:
        """Install it, or change what is installed; images are those that have been loaded into the node.

        helm does not wait until the definitions of chart crds are served; we do.
        """
        said = self(*self.installation(chart, *words))
        if chart == "crds":
            what = "the definitions to be served"
            wait(what, lambda: stack.serves_definitions(self.cluster), describe=self.describe)
        return said

    def installation(self, chart: str, *words: str) -> tuple[str, ...]:
        """The arguments of helm for that."""
        here = [] if chart in ("crds", "base") else ["--set=image.registry=localhost"]
        folder = str(ROOT / "charts" / f"scavenger-{chart}")
        return ("upgrade", "--install", f"scavenger-{chart}", folder, *here, *words)

    def uninstall(self, chart: str, *words: str) -> str:
        return self("uninstall", f"scavenger-{chart}", *words)

    def describe(self) -> str:
        """What there is, for the message of a failed test."""
        pods = self.cluster.kubectl("get", "deployments,jobs,pods", "--all-namespaces", "-o", "wide")
        events = self.cluster.kubectl("get", "events", "-n", self.namespace, "--sort-by=.lastTimestamp")
        return f"{pods}\n{events}"


@pytest.fixture
def helm(cluster: Cluster, tmp_path: Path) -> Iterator[Helm]:
    """helm, on a cluster where nothing of ours is installed."""
    cluster.kubectl("apply", "-f", str(ROOT / "manifests" / "base" / "namespace.yaml"))
    yield Helm(cluster, tmp_path)
    cluster.kubectl("delete", "crd", "-l", "app.kubernetes.io/part-of=scavenger-jobs", "--timeout=110s")


def get(cluster: Cluster, *words: str) -> dict[str, Any]:
    return dict(json.loads(cluster.kubectl("get", *words, "-o", "json")))


@pytest.fixture(scope="session")
def chromium() -> str | None:
    """A browser; None where none can be installed."""
    return browser.chromium()
