"""Connecting by a kubeconfig: the one thing that needs kubernetes_asyncio."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from scavenger_kube import client as client_module
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import Unauthorized
from scavenger_testing import FakeApi


def kubeconfig(folder: Path, server: str, user: dict[str, Any]) -> str:
    path = folder / "config"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": name, "context": {"cluster": "c", "user": "u"}} for name in ("one", "two")],
        "current-context": "one",
    }
    path.write_text(yaml.safe_dump(config))
    return str(path)


async def test_a_token_file_is_read_again_when_the_server_refuses_the_token(
    api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "MIN_RENEWAL_SECONDS", 0.0)
    token = tmp_path / "token"
    token.write_text("old\n")
    path = kubeconfig(tmp_path, api.url, {"tokenFile": str(token)})
    api.tokens = {"new"}
    async with await ApiClient.connect(kubeconfig=path, context="two") as client:
        with pytest.raises(Unauthorized):
            await client.request("GET", "/version")
        token.write_text("new\n")
        await client.request("GET", "/version")
        requests = len(api.requests)
        await client.request("GET", "/version")
    assert len(api.requests) == requests + 1, "and kept"


async def test_inside_a_cluster_the_service_account_is_used(
    api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    with pytest.raises(ValueError, match="no usable Kubernetes configuration"):
        await ApiClient.connect()


async def test_no_configuration_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    with pytest.raises(ValueError, match="nowhere"):
        await ApiClient.connect(kubeconfig=str(tmp_path / "nowhere"))
