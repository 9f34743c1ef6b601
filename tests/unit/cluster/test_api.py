"""The cluster's own client against a server with the certificates that a cluster makes."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from scavenger_cluster.api import ApiClient
from scavenger_cluster.certificates import CertificateSpec, ensure_certificates
from scavenger_kube.errors import ApiError, Unavailable
from scavenger_testing.scripted import Answer, Server, status


@pytest.fixture
def pki(tmp_path: Path) -> Path:
    ensure_certificates(
        tmp_path,
        [CertificateSpec("server", "server", addresses=("127.0.0.1",)), CertificateSpec("admin", "admin")],
    )
    return tmp_path


@pytest.fixture
def server(pki: Path) -> Iterator[Server]:
    """Lets in who has a certificate of the cluster's authority."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(pki / "ca.crt"))
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(pki / "server.crt", pki / "server.key")
    made = Server(context)
    yield made
    made.close()


def test_the_administrator_is_let_in(server: Server, pki: Path) -> None:
    client = ApiClient(server.url, pki)
    server.on("/readyz", Answer(body=b"ok"))
    server.on("/api/v1/nodes", Answer(body={"items": []}))
    assert client.ready()
    assert client.get("/api/v1/nodes?resourceVersion=0") == {"items": []}
    assert server.asked("/api/v1/nodes")[0].query == {"resourceVersion": "0"}
    assert client.find("/api/v1/nodes/a") is None
    client.delete("/api/v1/nodes/a")
    server.on("/api/v1/nodes", Answer(403, status(403, "Forbidden", "no")), method="POST")
    with pytest.raises(ApiError, match="no") as caught:
        client.request("POST", "/api/v1/nodes", {})
    assert caught.value.status == 403


def test_many_at_once(server: Server, pki: Path) -> None:
    client = ApiClient(server.url, pki)
    server.on("/a", Answer(409, status(409, "AlreadyExists")), Answer(201, {}), method="POST")
    client.create_all("/a", [{"n": n} for n in range(20)])
    assert sorted(request.body["n"] for request in server.asked("/a", "POST")) == list(range(20))
    assert len({request.peer for request in server.asked("/a", "POST")}) <= 8
    client.delete_all(["/a/1", "/a/2"])
    server.on("/a", Answer(500, status(500, "InternalError", "broken")), method="POST")
    with pytest.raises(ApiError, match="broken"):
        client.create_all("/a", [{}])


def test_nobody_there(server: Server, pki: Path) -> None:
    client = ApiClient(server.url, pki)
    server.close()
    assert not client.ready()
    with pytest.raises(Unavailable, match="Connection refused"):
        client.get("/readyz")
