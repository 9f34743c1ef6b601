"""Connecting as a service does: by a kubeconfig, which needs kubernetes_asyncio, or as a pod, which does not."""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from scavenger_kube import kubeconfig, transport
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import Unauthorized
from scavenger_testing import FakeApi
from scavenger_testing.scripted import Answer, Server

from .conftest import certificate

pytestmark = pytest.mark.slow


def written(folder: Path, server: str, user: dict[str, Any]) -> str:
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
    monkeypatch.setattr(transport, "MIN_RENEWAL_SECONDS", 0.0)
    token = tmp_path / "token"
    token.write_text("old\n")
    path = written(tmp_path, api.url, {"tokenFile": str(token)})
    api.tokens = {"new"}
    async with await ApiClient.connect(kubeconfig=path, context="two") as client:
        with pytest.raises(Unauthorized):
            await client.request("GET", "/version")
        token.write_text("new\n")
        await client.request("GET", "/version")
        requests = len(api.requests)
        await client.request("GET", "/version")
    assert len(api.requests) == requests + 1, "and kept"


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Server, Path]]:
    """A server that this process takes for that of its cluster, and the folder of the service account."""
    files = certificate(tmp_path, "kubernetes", "127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files)
    server = Server(context)
    server.on("/version", lambda request: Answer(body=request.headers["authorization"]))
    for name, content in (("token", "first\n"), ("namespace", "lab"), ("ca.crt", Path(files[0]).read_text())):
        (tmp_path / name).write_text(content)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", server.url.rpartition(":")[2])
    monkeypatch.setattr(kubeconfig, "IN_CLUSTER", tmp_path)
    yield server, tmp_path
    server.close()


async def test_the_token_of_a_pod_is_read_again_as_it_rotates(
    pod: tuple[Server, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubeconfig, "TOKEN_FILE_SECONDS", 0.0)
    monkeypatch.setattr(transport, "MIN_RENEWAL_SECONDS", 0.0)
    _, folder = pod
    async with await ApiClient.connect() as client:
        assert await client.request("GET", "/version") == b'"Bearer first"'
        (folder / "token").write_text("second\n")
        assert await client.request("GET", "/version") == b'"Bearer second"'
        (folder / "token").unlink()
        assert await client.request("GET", "/version") == b'"Bearer second"', "better than none"
        assert client.endpoint.namespace == "lab"


SERVICE = """
import sys
from pathlib import Path
import scavenger_admitter.controller, scavenger_regulator.controller
import scavenger_prioritizer.controller, scavenger_webhook.controller, scavenger_board.controller
from scavenger_kube import kubeconfig
from scavenger_runtime import service
from scavenger_runtime.settings import ServiceSettings

kubeconfig.IN_CLUSTER = Path(sys.argv[1])

async def main(context):
    print((await context.client.request("GET", "/version")).decode(), "kubernetes_asyncio" in sys.modules, flush=True)
    raise ValueError("enough")

service.run_service(ServiceSettings.load(["--health-port=0"]), main, name="test")
"""


@pytest.mark.timeout(120)
async def test_a_service_in_a_pod_starts_without_kubernetes_asyncio(pod: tuple[Server, Path]) -> None:
    """Which takes 2 s and 95 MB."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVICE, str(pod[1]), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, errors = await process.communicate()
    assert out.decode() == '"Bearer first" False\n', errors.decode()


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
