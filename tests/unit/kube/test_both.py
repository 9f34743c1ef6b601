"""What the asyncio client and the blocking one, and both readings of a kubeconfig, do alike; on real connections."""

from __future__ import annotations

import asyncio
import base64
import gc
import itertools
import json
import socket
import ssl
import threading
import warnings
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import pytest
import yaml
from scavenger_kube import credentials, kubeconfig
from scavenger_kube.blocking import Client
from scavenger_kube.client import ApiClient
from scavenger_kube.endpoint import Endpoint, KubeconfigError, Tls
from scavenger_kube.errors import ApiError, Forbidden, Unavailable
from scavenger_testing.scripted import Answer, Server, status

from .conftest import certificate
from .proxies import Http, Proxy, Socks, running

pytestmark = pytest.mark.slow


class Ask(Protocol):
    """Sends requests, one after the other over one client; returns the last answer."""

    async def __call__(self, endpoint: Endpoint, *requests: tuple[str, str]) -> bytes: ...


async def by_asyncio(endpoint: Endpoint, *requests: tuple[str, str]) -> bytes:
    answer = b""
    async with ApiClient(endpoint, request_timeout=50) as client:
        for method, path in requests:
            answer = await client.request(method, path, body={} if method == "POST" else None)
    return answer


async def by_blocking(endpoint: Endpoint, *requests: tuple[str, str]) -> bytes:
    def ask() -> bytes:
        answer = b""
        with Client(lambda: endpoint, timeout=50) as client:
            for method, path in requests:
                answer = client.request(method, path, body={} if method == "POST" else None)
        return answer

    return await asyncio.to_thread(ask)


both = pytest.mark.parametrize("ask", [by_asyncio, by_blocking])
GET = ("GET", "/a")


@pytest.fixture
def tls_server(tmp_path: Path) -> Iterator[tuple[Server, Tls]]:
    """A server whose certificate is for api.example."""
    files = certificate(tmp_path, "api.example")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files)
    made = Server(context)
    yield made, Tls(Path(files[0]).read_bytes())
    made.close()


# --- requests -------------------------------------------------------------------------------------


@both
async def test_the_path_of_the_server_is_kept(ask: Ask, server: Server) -> None:
    """As that of Rancher, or of any other proxy for many clusters."""
    server.on("/k8s/clusters/c-1/apis", Answer(body={"n": 1}))
    assert await ask(Endpoint(f"{server.url}/k8s/clusters/c-1/"), ("GET", "/apis")) == b'{"n": 1}'


DEEP = b'{"items":[{"n":1,"m":' + b'{"a":' * 3000 + b"{}" + b"}" * 3000 + b'},{"n":2}]}'
"""A list as the API server answers it when somebody's managedFields are nested deeply."""


@both
async def test_no_answer_is_too_deep_for_a_decoder(ask: Ask, server: Server) -> None:
    server.on("/a", Answer(body=DEEP))
    assert [one["n"] for one in json.loads(await ask(Endpoint(server.url), GET))["items"]] == [1, 2]


@both
async def test_every_answer_is_text(ask: Ask, server: Server) -> None:
    server.on("/a", Answer(body=b'{"n":1,"m":"\xff"}'))
    assert json.loads(await ask(Endpoint(server.url), GET)) == {"n": 1, "m": "\ufffd"}


async def test_no_line_of_a_watch_is_too_deep_for_a_decoder(server: Server) -> None:
    server.on("/a", Answer(lines=[DEEP, b'{"n":3}']), watch=True)
    async with ApiClient(server.url) as client:
        lines = [json.loads(line) async for line in client.stream("/a", params={"watch": True})]
    assert ([one["n"] for one in lines[0]["items"]], lines[1]) == ([1, 2], {"n": 3})
    with Client(lambda: Endpoint(server.url)) as blocking:
        assert [json.loads(line) for line in blocking.stream("/a", {"watch": True})] == lines


async def test_a_log_is_left_as_it_is(server: Server) -> None:
    """A program may write what it likes."""
    server.on("/log", Answer(body=DEEP, headers={"Content-Type": "text/plain"}))
    with Client(lambda: Endpoint(server.url)) as blocking:
        assert blocking.get("/log") == DEEP
        assert list(blocking.stream("/log")) == [DEEP]


async def test_a_refusal_may_be_as_deep_as_it_likes(server: Server) -> None:
    server.on("/a", Answer(403, b'{"kind":"Status","reason":"Forbidden","details":' + DEEP + b"}"))
    with pytest.raises(Forbidden):
        await by_asyncio(Endpoint(server.url), GET)


@both
async def test_impersonation_is_asked_for(ask: Ask, server: Server) -> None:
    server.on("/a", Answer(body={}))
    user = {"as": "ada", "as-uid": "7", "as-groups": ["g1", "g2"], "as-user-extra": {"Example.com/Why": ["x", "y"]}}
    await ask(written(server.url, user), GET)
    sent = [field for field in server.asked("/a")[0].fields if field[0].startswith("impersonate")]
    assert sent == [
        ("impersonate-user", "ada"),
        ("impersonate-uid", "7"),
        ("impersonate-group", "g1"),
        ("impersonate-group", "g2"),
        ("impersonate-extra-example.com%2fwhy", "x"),
        ("impersonate-extra-example.com%2fwhy", "y"),
    ]


class Forgetful(threading.Thread):
    """A server that answers a GET, and reads anything else without a word before it hangs up."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.seen: list[str] = []

    def run(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as reader:
                while self._read(reader) == "GET":
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    def _read(self, reader: Any) -> str:
        method = reader.readline().decode().split(" ")[0]
        size = 0
        while (line := reader.readline().strip().lower()) != b"":
            size = int(line.split(b":")[1]) if line.startswith(b"content-length") else size
        reader.read(size)
        if method:
            self.seen.append(method)
        return str(method)

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.join(5)


@both
@pytest.mark.parametrize("before", [(), (GET,)], ids=["fresh", "kept"])
async def test_a_post_is_never_repeated_after_a_lost_answer(ask: Ask, before: tuple[tuple[str, str], ...]) -> None:
    """What the server did with it is unknown: with generateName there would be two jobs."""
    server = Forgetful()
    server.start()
    try:
        with pytest.raises(Unavailable):
            await ask(Endpoint(server.url), *before, ("POST", "/jobs"))
    finally:
        server.close()
    assert server.seen.count("POST") == 1


@both
async def test_a_redirect_is_no_answer(ask: Ask, server: Server) -> None:
    """A login page is sent so; who follows shows the token to somebody else."""
    server.on("/a", Answer(302, status(302, "Found"), headers={"Location": "/b"}))
    server.on("/b", Answer(body={}))
    with pytest.raises(ApiError):
        await ask(Endpoint(server.url, "Bearer secret"), GET)
    assert not server.asked("/b")


# --- proxies --------------------------------------------------------------------------------------


@both
async def test_the_credentials_of_a_proxy_are_sent(ask: Ask, tls_server: tuple[Server, Tls]) -> None:
    server, tls = tls_server
    server.on("/a", Answer(body={"n": 1}))
    with running(Proxy(Http, server.url)) as proxy:
        endpoint = Endpoint("https://api.example", tls=tls, proxy=f"http://ada:p%40ss@{proxy.address}")
        assert await ask(endpoint, GET) == b'{"n": 1}'
    assert proxy.asked[0].startswith("CONNECT api.example:443 HTTP/1.")
    assert f"basic {base64.b64encode(b'ada:p@ss').decode()}" in proxy.asked[0].replace("Basic", "basic")
    assert "proxy-authorization" not in server.asked("/a")[0].headers, "nobody else's business"


@both
async def test_plain_http_by_a_proxy(ask: Ask, server: Server) -> None:
    """The absolute URL, as client-go does; whose host the proxy leaves in place."""
    server.on("/a", Answer(body={"n": 1}))
    with running(Proxy(Http, server.url)) as proxy:
        await ask(Endpoint("http://api.example:8080", proxy=f"http://ada:x@{proxy.address}"), GET)
    assert proxy.asked[0].startswith("GET http://api.example:8080/a HTTP/1.1")
    assert "proxy-authorization: basic" in proxy.asked[0].lower()


@both
@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
@pytest.mark.parametrize("login", ["", "ada:p%40ss@"])
async def test_socks(ask: Ask, tls_server: tuple[Server, Tls], scheme: str, login: str) -> None:
    """The proxy looks the name up, as with client-go."""
    server, tls = tls_server
    server.on("/a", Answer(body={"n": 1}))
    with running(Proxy(Socks, server.url)) as proxy:
        endpoint = Endpoint("https://api.example", tls=tls, proxy=f"{scheme}://{login}{proxy.address}")
        assert await ask(endpoint, GET) == b'{"n": 1}'
    assert proxy.asked == [*(["login ada:p@ss"] if login else []), "api.example:443"]


@both
@pytest.mark.parametrize("scheme", ["http", "socks5"])
async def test_a_proxy_that_is_not_there(ask: Ask, scheme: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        proxy = f"{scheme}://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(Unavailable):
        await ask(Endpoint("https://api.example", proxy=proxy), GET)


@both
@pytest.mark.parametrize(
    ("endpoint", "words"),
    [
        (
            Endpoint("https://api.example", proxy="socks4://proxy:1080"),
            "proxy-url socks4://proxy is for no known kind of proxy",
        ),
        (
            Endpoint("https://api.example", proxy="socks5://proxy:1080", server_name="x"),
            "tls-server-name cannot be used through a SOCKS proxy",
        ),
    ],
)
async def test_proxies_that_are_refused(ask: Ask, endpoint: Endpoint, words: str) -> None:
    with pytest.raises(KubeconfigError, match=words):
        await ask(endpoint, GET)


@both
@pytest.mark.parametrize("kind", ["HTTPS_PROXY", "https_proxy"])
async def test_a_proxy_of_the_environment(
    ask: Ask, kind: str, tls_server: tuple[Server, Tls], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, tls = tls_server
    server.on("/a", Answer(body={"n": 1}))
    with running(Proxy(Http, server.url)) as proxy:
        monkeypatch.setenv(kind, proxy.address)
        assert await ask(Endpoint("https://api.example", tls=tls), GET) == b'{"n": 1}'
        monkeypatch.setenv("NO_PROXY", "10.0.0.0/8,.example")
        with pytest.raises(Unavailable):
            await ask(Endpoint("https://api.example", tls=tls), GET)
        monkeypatch.delenv("NO_PROXY")
        with pytest.raises(Unavailable):
            await ask(Endpoint("https://api.example", tls=tls, proxy=""), GET)
    assert len(proxy.asked) == 1


# --- TLS ------------------------------------------------------------------------------------------


def test_a_stream_that_is_broken_off_leaves_no_connection(tls_server: tuple[Server, Tls]) -> None:
    """A server that is not listening does not take leave, and whoever broke it off may be at its end before it does."""
    server, tls = tls_server
    over = threading.Event()
    server.on("/a", Answer(lines=itertools.takewhile(lambda _: not over.wait(5), ["first", "second"]), cut=True))

    async def listen() -> None:
        endpoint = Endpoint(server.url, tls=tls, server_name="api.example")
        async with ApiClient(endpoint) as client, aclosing(client.stream("/a")) as lines:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(lines), 0.3)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        asyncio.run(listen())
        gc.collect()
    over.set()
    assert [str(one.message) for one in caught] == []


@both
async def test_tls(ask: Ask, tls_server: tuple[Server, Tls]) -> None:
    server, tls = tls_server
    server.on("/a", Answer(body={"n": 1}))
    url = server.url
    for good in (Endpoint(url, tls=tls, server_name="api.example"), Endpoint(url, tls=Tls(verify=False))):
        assert await ask(good, GET) == b'{"n": 1}'
    for bad in (Endpoint(url, tls=tls), Endpoint(url)):
        with pytest.raises(Unavailable, match="certificate"):
            await ask(bad, GET)


# --- credentials that expire ----------------------------------------------------------------------


async def test_expired_credentials_are_loaded_before_they_are_used(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scavenger_kube.transport.MIN_RENEWAL_SECONDS", 0.0)
    server.on("/a", lambda request: Answer(body=request.headers["authorization"]))
    first, *later = Endpoint(server.url, "Bearer old", expires=0.0), Endpoint(server.url, "Bearer new")
    left = list(later)

    async def load() -> Endpoint:
        return left.pop()

    async with ApiClient(first, load=load) as client:
        assert [await client.request("GET", "/a") for _ in range(2)] == [b'"Bearer new"'] * 2
    left = [*later, first]

    def ask() -> list[bytes]:
        with Client(lambda: left.pop()) as client:
            assert client.endpoint == first
            return [client.get("/a") for _ in range(2)]

    assert await asyncio.to_thread(ask) == [b'"Bearer new"'] * 2


async def test_a_new_certificate_is_shown_on_a_new_connection(
    tls_server: tuple[Server, Tls], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a plugin answers with a certificate, which expires."""
    monkeypatch.setattr("scavenger_kube.transport.MIN_RENEWAL_SECONDS", 0.0)
    server, tls = tls_server
    server.on("/a", Answer(body={}))
    old = Endpoint(server.url, tls=tls, server_name="api.example", expires=0.0)
    new = Endpoint(server.url, tls=Tls(tls.authority, b"", b"another"), server_name="api.example")

    async def load() -> Endpoint:
        return new

    async with ApiClient(old, load=load) as client:
        client._transport.endpoint = replace(old, expires=None)
        await client.request("GET", "/a")
        client._transport.endpoint = old
        await client.request("GET", "/a")

    def ask() -> None:
        with Client(lambda: left.pop()) as client:
            client.get("/a")
            client._endpoint = old
            client.get("/a")

    left = [new, replace(old, expires=None)]
    await asyncio.to_thread(ask)
    assert len({request.peer for request in server.asked("/a")}) == len(server.asked("/a")) == 4


# --- two readings of a kubeconfig -----------------------------------------------------------------


def chosen(server: str, user: dict[str, Any], base: Path = Path(), **cluster: Any) -> kubeconfig.Chosen:
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "lab"}}],
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "u", "user": user}],
    }
    return kubeconfig.choose(kubeconfig.merge([(base / "config", config)]))


def written(server: str, user: dict[str, Any]) -> Endpoint:
    return kubeconfig.plain(chosen(server, user))


def data(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


USERS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "nobody": lambda _: {},
    "token": lambda _: {"token": "abc", "as": "ada", "as-groups": ["g"]},
    "token file": lambda _: {"tokenFile": "token", "token": "old"},
    "basic": lambda _: {"username": "ada", "password": "x"},
    "basic without a password": lambda _: {"username": "ada"},
    "certificate files": lambda _: {"client-certificate": "cert", "client-key": "key"},
    "certificate data": lambda base: {
        "client-certificate-data": data(base / "cert"),
        "client-key-data": data(base / "key"),
    },
    "plugin with a token": lambda _: {"exec": {"command": "./login", "apiVersion": "client.authentication.k8s.io/v1"}},
    "plugin with a certificate": lambda _: {
        "exec": {"command": "./login", "apiVersion": "client.authentication.k8s.io/v1beta1", "args": ["pair"]},
        "client-certificate": "nowhere",
    },
}
CLUSTERS: list[dict[str, Any]] = [
    {"certificate-authority": "cert", "tls-server-name": "api.example", "proxy-url": "http://ada:x@proxy:3128"},
    {"certificate-authority-data": "", "certificate-authority": "cert"},
    {"insecure-skip-tls-verify": True},
]


def login(folder: Path) -> None:
    """A plugin that answers with a token, or with the pair of the folder."""
    pair = {
        "clientCertificateData": (folder / "cert").read_text(),
        "clientKeyData": (folder / "key").read_text(),
    }
    for name, answer in (("token", {"token": "fresh"}), ("pair", pair)):
        answer["expirationTimestamp"] = "2099-01-01T00:00:00Z"
        (folder / f"{name}.json").write_text(json.dumps({"kind": "ExecCredential", "status": answer}))
    script = folder / "login"
    script.write_text(f"#!/bin/sh\ncat {folder}/${{1:-token}}.json\n")
    script.chmod(0o755)


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("user", USERS)
async def test_services_and_commands_read_the_same(tmp_path: Path, user: str, cluster: dict[str, Any]) -> None:
    certificate(tmp_path, "ada")
    (tmp_path / "token").write_text("from-file\n")
    login(tmp_path)
    found = chosen("https://10.0.0.1/prefix", USERS[user](tmp_path), tmp_path, **cluster)
    endpoint = kubeconfig.plain(found)
    assert await credentials.by_library(found) == endpoint
    assert endpoint.server == "https://10.0.0.1/prefix"
    assert endpoint.tls is not None
    assert bool(endpoint.tls.key) == ("certificate" in user)
    assert bool(endpoint.authorization) == (user not in ("nobody", *(u for u in USERS if "certificate" in u)))
    assert bool(endpoint.expires) == ("file" in user.split() or "plugin" in user)


Load = Callable[[str], Awaitable[Endpoint]]


async def by_service(path: str) -> Endpoint:
    return await credentials.load(path)


async def by_command(path: str) -> Endpoint:
    return kubeconfig.load(path)


@pytest.mark.parametrize("load", [by_service, by_command])
@pytest.mark.parametrize(
    ("user", "cluster", "words"),
    [
        ({"auth-provider": {"name": "gcp"}}, {}, "auth-provider, which Kubernetes 1.26 removed .use .* exec plugin"),
        ({"as-groups": ["g"]}, {}, "as-groups or as-user-extra is set without as"),
        ({"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1alpha1"}}, {}, "v1alpha1"),
        ({"exec": {"command": "x", "interactiveMode": "Always"}}, {}, "interactiveMode Always: it needs a terminal"),
        ({}, {"proxy-url": "ftp://proxy"}, "proxy-url ftp://proxy"),
        ({"client-key-data": "AAAA", "client-certificate-data": "AAAA"}, {}, "cannot be used"),
        ({}, {"certificate-authority": "/nowhere"}, "nowhere"),
    ],
)
async def test_both_refuse_the_same(
    load: Load, tmp_path: Path, user: dict[str, Any], cluster: dict[str, Any], words: str
) -> None:
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1", **cluster}}],
        "users": [{"name": "u", "user": user}],
    }
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    with pytest.raises(KubeconfigError, match=words):
        await load(str(tmp_path / "config"))
