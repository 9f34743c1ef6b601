"""A server with scripted answers, and a client of it."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from scavenger_cli import main
from scavenger_cli.access import Access
from scavenger_kube.blocking import Client
from scavenger_kube.endpoint import Endpoint
from scavenger_testing.scripted import Answer, Request, Server, status

__all__ = ["Answer", "Request", "Run", "Server", "event", "listed", "status"]

Run = Callable[..., tuple[int, str, str]]


def listed(*items: Any, version: str = "10") -> Answer:
    """A list."""
    return Answer(body={"metadata": {"resourceVersion": version}, "items": list(items)})


def event(kind: str, obj: Any, version: str | None = None) -> dict[str, Any]:
    """A line of a watch."""
    if version is not None:
        obj = {**obj, "metadata": {**obj.get("metadata", {}), "resourceVersion": version}}
    return {"type": kind, "object": obj}


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """As the kubelet replaces `$(NAME)` of variables that it knows, and `$$` (third_party/forked/golang/expansion)."""

    def value(found: re.Match[str]) -> str:
        return "$" if found[0] == "$$" else variables.get(found[1], found[0])

    return re.sub(r"\$\$|\$\(([^)]*)\)", value, text)


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client(lambda: Endpoint(server.url, "Bearer secret", "lab"), timeout=10) as made:
        yield made


@pytest.fixture
def access(client: Client) -> Access:
    return Access(client, None)


@pytest.fixture
def sj(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs a command line against the server; returns exit code, output, error output."""
    config = {
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "c", "user": "u", "namespace": "lab"}}],
        "clusters": [{"name": "c", "cluster": {"server": server.url}}],
    }
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    monkeypatch.setenv("KUBECONFIG", str(file))
    monkeypatch.setenv("COLUMNS", "80")

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["kubectl-sj", *words])
        before = signal.getsignal(signal.SIGINT)
        try:
            main.main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            signal.signal(signal.SIGINT, before)
        out, err = capfd.readouterr()
        return code, out, err

    return run
