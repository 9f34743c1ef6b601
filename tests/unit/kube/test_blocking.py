from __future__ import annotations

import base64
import gc
import gzip
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from scavenger_kube.blocking import Client
from scavenger_kube.endpoint import Endpoint, Tls
from scavenger_kube.errors import Conflict, Forbidden, Unauthorized, Unavailable
from scavenger_kube.kubeconfig import choose, merge, plain
from scavenger_testing.scripted import Answer, Request, Server, status

from .conftest import certificate

DECODE_ERROR = b"\x15\x03\x03\x00\x02\x02\x32"
"""A fatal alert in the middle of a handshake."""


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client(lambda: Endpoint(server.url, "Bearer secret", "lab"), timeout=10) as made:
        yield made


def test_one_connection_serves_many_requests(server: Server, client: Client) -> None:
    server.on("/a", Answer(body={"n": 1}))
    assert client.get("/a", {"x": True, "y": None, "z": "", "n": 3}) == b'{"n": 1}'
    assert client.get("/a") == b'{"n": 1}'
    first, second = server.asked("/a")
    assert first.peer == second.peer
    assert first.query == {"x": "true", "n": "3"}
    assert first.headers["authorization"] == "Bearer secret"


def test_a_connection_that_the_server_closed_is_made_anew(server: Server, client: Client) -> None:
    server.on("/a", Answer(body={"n": 1}, hang_up=True))
    assert [client.get("/a") for _ in range(3)] == [b'{"n": 1}'] * 3
    assert len({request.peer for request in server.asked("/a")}) == 3


@pytest.mark.parametrize(
    ("code", "reason", "kind"), [(403, "Forbidden", Forbidden), (409, "Conflict", Conflict), (503, "", Unavailable)]
)
def test_refusals_are_the_errors_of_the_services(
    server: Server, client: Client, code: int, reason: str, kind: type[Exception]
) -> None:
    server.on("/a", Answer(code, status(code, reason, "no")))
    with pytest.raises(kind, match="no"):
        client.get("/a")


def test_refused_credentials_are_loaded_once_more(server: Server) -> None:
    """Those of a plugin expire while a log is being followed."""
    tokens = iter(("old", "new"))
    with Client(lambda: Endpoint(server.url, f"Bearer {next(tokens)}")) as client:

        def answer(request: Request) -> Answer:
            fresh = request.headers["authorization"] == "Bearer new"
            return Answer(body={}) if fresh else Answer(401, status(401, "Unauthorized"))

        server.on("/a", answer)
        client.get("/a")
        assert [r.headers["authorization"] for r in server.asked("/a")] == ["Bearer old", "Bearer new"]


def test_credentials_that_stay_refused(server: Server, client: Client) -> None:
    server.on("/a", Answer(401, status(401, "Unauthorized")))
    with pytest.raises(Unauthorized):
        list(client.stream("/a"))
    assert len(server.asked("/a")) == 2


def test_a_compressed_answer(server: Server, client: Client) -> None:
    server.on("/a", Answer(body=gzip.compress(b"{}"), headers={"Content-Encoding": "gzip"}))
    assert client.get("/a") == b"{}"


def test_a_stream_of_lines(server: Server, client: Client) -> None:
    server.on("/log", Answer(lines=[b"one", b"", b"two  "]))
    assert list(client.stream("/log")) == [b"one", b"two  "]


def test_a_stream_that_breaks(server: Server, client: Client) -> None:
    server.on("/log", Answer(lines=[b"one"], cut=True))
    lines = client.stream("/log")
    assert next(lines) == b"one"
    with pytest.raises(Unavailable):
        next(lines)


def test_nobody_there() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with (
        Client(lambda: Endpoint(f"http://127.0.0.1:{port}")) as client,
        pytest.raises(Unavailable, match=f"127.0.0.1:{port}: Connection refused"),
    ):
        client.get("/a")


def test_silence(server: Server) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        with Client(lambda: Endpoint(url), timeout=0.1) as client, pytest.raises(Unavailable, match="does not answer"):
            client.get("/a")


def test_a_proxy_is_asked_for_a_tunnel() -> None:
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        url = f"http://127.0.0.1:{proxy.getsockname()[1]}"
        with Client(lambda: Endpoint("https://api.example:8080", proxy=url), timeout=5) as client:
            seen: list[bytes] = []

            def refuse() -> None:
                connection, _ = proxy.accept()
                with connection:
                    seen.append(connection.recv(1000))
                    connection.sendall(b"HTTP/1.1 403 Forbidden\r\n\r\n")

            thread = threading.Thread(target=refuse)
            thread.start()
            with pytest.raises(Unavailable, match="403"):
                client.get("/a")
            thread.join(5)
            assert seen[0].startswith(b"CONNECT api.example:8080 HTTP/1.")


@pytest.mark.parametrize("named", [True, False])
def test_tls_server_name(tmp_path: Path, named: bool) -> None:
    """The certificate bears another name than the URL: fine when the kubeconfig says so, and only then."""
    files = certificate(tmp_path, "api.example")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files)
    server = Server(context)
    try:
        server.on("/a", Answer(body={"n": 1}))
        cluster = {
            "server": server.url,
            "certificate-authority-data": base64.b64encode(Path(files[0]).read_bytes()).decode(),
            **({"tls-server-name": "api.example"} if named else {}),
        }
        config = {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c"}}],
            "clusters": [{"name": "c", "cluster": cluster}],
        }
        with Client(lambda: plain(choose(merge([(tmp_path / "k", config)]))), timeout=10) as client:
            if named:
                assert client.get("/a") == b'{"n": 1}'
            else:
                with pytest.raises(Unavailable, match="its certificate is not trusted"):
                    client.get("/a")
    finally:
        server.close()


def test_a_handshake_that_fails_is_tried_once_more_whatever_was_to_be_sent(tmp_path: Path) -> None:
    """Nothing has been sent by then, so nothing can be done twice. Seen with an API server that had just come up."""
    files = certificate(tmp_path, "localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files)
    server = Server(context)
    server.on("/a", Answer(body={"n": 1}), method="POST")
    behind = "127.0.0.1", urlsplit(server.url).port or 0
    with socket.create_server(("127.0.0.1", 0)) as front:
        front.settimeout(5)
        tls = Tls(authority=Path(files[0]).read_bytes())
        endpoint = Endpoint(f"https://localhost:{front.getsockname()[1]}", tls=tls)

        def serve(refusals: int) -> None:
            for _ in range(refusals):
                with front.accept()[0] as refused:
                    refused.recv(65536)
                    refused.sendall(DECODE_ERROR)
            if refusals == 1:
                with front.accept()[0] as one, socket.create_connection(behind) as other:
                    answering = threading.Thread(target=_relay, args=(other, one), daemon=True)
                    answering.start()
                    _relay(one, other)
                    answering.join(10)

        for refusals in (1, 2):
            thread = threading.Thread(target=serve, args=(refusals,), daemon=True)
            thread.start()
            with Client(lambda: endpoint, timeout=10) as client:
                if refusals == 1:
                    assert client.request("POST", "/a", body={}) == b'{"n": 1}'
                else:
                    with pytest.raises(Unavailable, match="decode error"):
                        client.request("POST", "/a", body={})
            thread.join(10)
            assert not thread.is_alive()
    assert len(server.asked("/a", "POST")) == 1
    server.close()


def _relay(one: socket.socket, other: socket.socket) -> None:
    with suppress(OSError):  # whoever ends first, by a reset as well
        while data := one.recv(65536):
            other.sendall(data)
    with suppress(OSError):
        other.shutdown(socket.SHUT_RDWR)  # who reads from it is woken as well


def test_a_request_after_the_end_leaves_no_connection(server: Server) -> None:
    """As of a thread that follows a log when the command ends. What is left open is a warning, and that an error."""
    server.on("/api", Answer(body={}))
    client = Client(lambda: Endpoint(server.url))
    client.close()
    client.get("/api")
    del client
    gc.collect()
