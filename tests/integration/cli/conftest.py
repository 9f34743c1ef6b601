"""kubectl-sj against a real API server with a real admitter and four fake nodes.

Most commands run inside the test process, as starting Python a hundred times would take longer than all the rest; what
has to be a process of its own (a terminal, Ctrl-C, kubectl's plugin) is one in its tests.
"""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from scavenger_api import names
from scavenger_cli.main import main
from scavenger_cluster import Cluster, stack
from scavenger_testing.cluster_names import cluster_name
from scavenger_testing.printed import normalised
from scavenger_testing.waiting import TIMEOUT, wait

NODES = 4
CPUS = 8
"""Of each node; without a regulator, jobs start while less than 70 % of the 32 are requested: under 22.4."""

SETTINGS = {
    "SCAVENGER_SUCCESS_EVIDENCE_AFTER": "0",  # kwok renews Leases every 10 s
    "SCAVENGER_EXPLAIN_AFTER": "1",
    "SCAVENGER_START_BACKOFF": "2",
    "PYTEST_CURRENT_TEST": "",  # or every test would have another environment, and a restart
}


class _Captured(io.TextIOWrapper):
    """An output that is no terminal."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)

    def text(self) -> str:
        assert isinstance(self.buffer, io.BytesIO)
        return self.buffer.getvalue().decode()


class Sj:
    """`kubectl sj` in one namespace. What it printed is checked by the tests, and so is its exit code."""

    def __init__(self, cluster: Cluster, namespace: str, folder: Path) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.folder = folder
        self.environment = {"KUBECONFIG": str(cluster.kubeconfig), "COLUMNS": "80", "TERM": "dumb"}

    def run(self, *words: str, stdin: str | None = None, namespace: bool = True) -> subprocess.CompletedProcess[str]:
        scope = ["-n", self.namespace] if namespace else []
        first = words.index("--") if "--" in words else len(words)
        line = ["kubectl-sj", *words[:first], *scope, *words[first:]]
        out, err = _Captured(), _Captured()
        handler = signal.getsignal(signal.SIGINT)
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.environment.items():
                patch.setenv(name, value)
            patch.setattr(sys, "argv", line)
            patch.setattr(sys, "stdin", io.StringIO(stdin or ""))
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            try:
                main()
                code = 0
            except SystemExit as end:
                code = int(end.code or 0)
            finally:
                signal.signal(signal.SIGINT, handler)
        return subprocess.CompletedProcess(line, code, out.text(), err.text())

    def __call__(self, *words: str, stdin: str | None = None, namespace: bool = True) -> list[str]:
        """What it prints when all goes well, normalised."""
        done = self.run(*words, stdin=stdin, namespace=namespace)
        assert done.returncode == 0, f"{' '.join(words)}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return normalised(done.stdout)

    def refused(self, code: int, *words: str, stdin: str | None = None, namespace: bool = True) -> list[str]:
        """What it says on standard error when it ends with this exit code, normalised."""
        done = self.run(*words, stdin=stdin, namespace=namespace)
        assert done.returncode == code, f"{' '.join(words)}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return normalised(done.stderr)

    # --- the cluster beside it --------------------------------------------------------------------------------

    def path(self, kind: str, name: str = "") -> str:
        group = "/apis/scavenger.dev/v1alpha1" if kind == "scavengerjobs" else "/api/v1"
        return f"{group}/namespaces/{self.namespace}/{kind}" + (f"/{name}" if name else "")

    def job(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.cluster.client.get(self.path("scavengerjobs", name))
        return found

    def pods(self, name: str) -> list[dict[str, Any]]:
        found = self.cluster.client.get(f"{self.path('pods')}?labelSelector={names.LABEL_JOB}%3D{name}")["items"]
        staying = [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]
        return [pod for pod in staying if pod.get("status", {}).get("phase") == "Running"]

    def until(self, what: str, condition: Callable[[], Any], timeout: float = TIMEOUT) -> None:
        wait(what, condition, timeout, self.describe)

    def describe(self) -> str:
        jobs = json.dumps(self.cluster.client.get(self.path("scavengerjobs"))["items"], indent=1)
        return jobs[-4000:]

    def until_message(self, name: str, words: str) -> None:
        """The admitter has said this of the job."""
        self.until(f"{name}: {words}", lambda: words in self.job(name).get("status", {}).get("message", ""))

    def annotate_pods(self, name: str, **annotations: str) -> None:
        """Tell the fake kubelet what becomes of the job's pods."""
        self.until(f"{name} has pods", lambda: self.pods(name))
        for pod in self.pods(name):
            patch = {"metadata": {"annotations": {f"kwok.scavenger.dev/{k}": v for k, v in annotations.items()}}}
            path = self.path("pods", pod["metadata"]["name"])
            self.cluster.client.request("PATCH", path, patch, "application/merge-patch+json")

    def clear(self) -> None:
        for job in self.cluster.client.get(self.path("scavengerjobs"))["items"]:
            self.cluster.client.delete(self.path("scavengerjobs", job["metadata"]["name"]))
        self.until("no pods left", lambda: not self.cluster.client.get(self.path("pods"))["items"])
        self.cluster.client.delete(f"/api/v1/namespaces/{self.namespace}")


@pytest.fixture(scope="package")
def cluster() -> Iterator[Cluster]:
    """Four fake nodes and the admitter, with the rights of its manifests."""
    found = Cluster(cluster_name("it-cli"), report=lambda line: None)
    try:
        found.up(f"fake:{NODES}", fake_cpu=str(CPUS), fake_memory="32Gi", fake_pods=20)
        stack.install(found)
        found.service_start("admitter", environment=SETTINGS, wait="readyz")
        yield found
    finally:
        found.down()


@pytest.fixture
def sj(cluster: Cluster, tmp_path: Path) -> Iterator[Sj]:
    """The command in a namespace of its own, emptied afterwards."""
    # Letters only, or one in a hundred would look like a span of time and be normalised away.
    namespace = "it-" + uuid.uuid4().hex[:8].translate(str.maketrans("0123456789", "ghijklmnop"))
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    cluster.client.request("POST", "/api/v1/namespaces", body)
    made = Sj(cluster, namespace, tmp_path)
    yield made
    made.clear()
