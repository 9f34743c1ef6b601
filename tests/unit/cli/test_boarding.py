"""`kubectl sj board` finds the board's pod, and has kubectl forward a port to it."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Any

import pytest

from .conftest import Run, Server, listed

PODS = "/api/v1/namespaces/scavenger-system/pods"


def pod(name: str, *, ready: bool = True, namespace: str = "scavenger-system", **env: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [{"env": [{"name": key, "value": value} for key, value in env.items()]}]},
        "status": {"conditions": [{"type": "Ready", "status": "True" if ready else "False"}]},
    }


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kubectl that writes down how it was called, says what port-forward says, and ends with 3."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "kubectl"
    program.write_text(
        '#!/bin/sh\nprintf "%s\\n" "$@" > "$0.called"\n'
        'echo "Forwarding from 127.0.0.1:40123 -> 8090"\necho "Forwarding from [::1]:40123 -> 8090"\n'
        'echo "Handling connection for 40123"\nexit 3\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    return folder / "kubectl.called"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    urls: list[str] = []
    monkeypatch.setattr(webbrowser, "open", urls.append)
    return urls


def test_a_port_is_forwarded_to_a_pod_that_is_ready(sj: Run, server: Server, kubectl: Path, opened: list[str]) -> None:
    server.on(PODS, listed(pod("board-0", ready=False), pod("board-1")))
    code, out, _ = sj("board")

    assert code == 3, "kubectl's own"
    assert out == "The board: http://localhost:40123/   (Ctrl-C ends it)\n"
    assert kubectl.read_text().split() == ["port-forward", "--namespace=scavenger-system", "pod/board-1", "8090:8090"]
    assert opened == []


def test_as_the_pod_is_told_to_serve_and_with_the_flags_that_were_given(
    sj: Run, server: Server, kubectl: Path, opened: list[str]
) -> None:
    server.on(PODS, listed(pod("board-0", SCAVENGER_PORT="9000", SCAVENGER_ACCESS="token")))
    _, out, _ = sj("--as", "eve", "board", "--as-group", "a", "--as-group", "b", "--port", "0", "--open")

    assert kubectl.read_text().split() == [
        *("--as=eve", "--as-group=a", "--as-group=b"),
        *("port-forward", "--namespace=scavenger-system", "pod/board-0", ":9000"),
    ]
    assert opened == ["https://localhost:40123/"]
    assert "https://localhost:40123/" in out


def test_in_another_namespace(sj: Run, server: Server, kubectl: Path) -> None:
    server.on("/api/v1/namespaces/ops/pods", listed(pod("board-0", namespace="ops")))
    sj("board", "--system-namespace", "ops")

    assert kubectl.read_text().split()[1:3] == ["--namespace=ops", "pod/board-0"]


def test_a_pod_of_a_tenant_with_the_label_of_the_board_is_no_board(sj: Run, server: Server, kubectl: Path) -> None:
    server.on(PODS, listed())
    server.on("/api/v1/pods", listed(pod("board-0", namespace="tenant")))
    code, _, err = sj("board", "--open")

    assert code == 3
    assert "--system-namespace" in err
    assert not kubectl.exists()


def test_where_it_is_not_installed_it_says_how(sj: Run, server: Server, kubectl: Path) -> None:
    server.on(PODS, listed())
    code, _, err = sj("board")

    assert code == 3
    assert "there is no pod of the board in namespace scavenger-system" in err
    assert "helm upgrade --install scavenger-board" in err
    assert not kubectl.exists()


def test_where_it_is_not_ready_it_says_where_to_look(sj: Run, server: Server, kubectl: Path) -> None:
    server.on(PODS, listed(pod("board-0", ready=False)))
    code, _, err = sj("board")

    assert code == 1
    assert "kubectl -n scavenger-system describe pod board-0" in err


def test_without_kubectl(sj: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    code, _, err = sj("board")

    assert code == 1
    assert "kubectl is not on the PATH" in err
