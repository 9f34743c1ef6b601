"""Requests to the API server, one at a time, with the standard library.

The services' transport (scavenger_runtime.transport) is asynchronous, for thousands of requests under way at once, and
takes half a second to import; a command sends five requests and ends. The errors are the same ones.
"""

from __future__ import annotations

import gzip
import http.client
import json
import os
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlencode, urlsplit

from scavenger_runtime.errors import Unauthorized, Unavailable, error_for

from scavenger_cli.kubeconfig import Endpoint

CONNECT_TIMEOUT: Final = 10.0
REQUEST_TIMEOUT: Final = 60.0
"""Seconds of silence after which a request counts as lost."""
READ_BYTES: Final = 64 * 1024
MERGE_PATCH: Final = "application/merge-patch+json"
JSON: Final = "application/json"

_WARNING: Final = re.compile(r'299 \S+ "(?P<text>(?:[^"\\]|\\.)*)"(?: "[^"]*")?')
"""A warning as Kubernetes writes it (apimachinery util/net NewWarningHeader)."""
_ESCAPED: Final = re.compile(r"\\(.)")

Params = Mapping[str, str | int | bool | None]


class Client:
    """Speaks to one API server over one kept connection, a thread at a time; streams have connections of their own.

    load: reads the kubeconfig; called when the first request is sent, and once more when the credentials are refused,
    as those of a plugin expire while a log is being followed.
    """

    def __init__(self, load: Callable[[], Endpoint], *, timeout: float = REQUEST_TIMEOUT) -> None:
        self._load = load
        self._timeout = timeout
        self._endpoint: Endpoint | None = None
        self._kept: http.client.HTTPConnection | None = None
        self._closed = False
        self._warnings: dict[str, bool] = {}
        self._lock = threading.Lock()
        self._turn = threading.Lock()

    @property
    def endpoint(self) -> Endpoint:
        """Where requests go. Raises CliError."""
        with self._lock:
            if self._endpoint is None:
                self._endpoint = self._load()
            return self._endpoint

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the kept connection and keep none from now on: a thread may be at a request when a command ends."""
        self._closed = True
        self._drop()

    def _drop(self) -> None:
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.close()

    def get(self, path: str, params: Params | None = None) -> bytes:
        """Read an object or a list. Raises ApiError."""
        return self.request("GET", path, params=params)

    def request(
        self, method: str, path: str, *, body: Any = None, params: Params | None = None, content_type: str = JSON
    ) -> bytes:
        """Send one request and return the body of its answer. Raises ApiError; for no answer Unavailable."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": content_type} if data is not None else {}
        target = _target(path, params)
        try:
            return self._send(method, target, data, headers)
        except Unauthorized:
            self._renew()
            return self._send(method, target, data, headers)

    def patch(self, path: str, body: Any, params: Params | None = None) -> bytes:
        """RFC 7386 merge patch. Raises ApiError."""
        return self.request("PATCH", path, body=body, params=params, content_type=MERGE_PATCH)

    def new_warnings(self) -> list[str]:
        """What the API server and its webhooks have warned of since this was last asked; each sentence once."""
        found = [text for text, told in self._warnings.items() if not told]
        self._warnings = dict.fromkeys(self._warnings, True)
        return found

    def stream(self, path: str, params: Params | None = None, *, silence: float | None = None) -> Iterator[bytes]:
        """The lines of a long answer (a watch, a log), without their newline, as they arrive.

        silence: seconds without a byte after which the connection counts as dead, None for ever. Ends when the server
        ends the answer. Raises ApiError; Unavailable where the connection breaks.
        """
        target = _target(path, params)
        try:
            connection, response = self._open(target, silence)
        except Unauthorized:
            self._renew()
            connection, response = self._open(target, silence)
        try:
            with _as_unavailable(self.endpoint.server):
                yield from _lines(response)
        finally:
            connection.close()

    def _open(self, target: str, silence: float | None) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        connection = self._connect(silence)
        try:
            with _as_unavailable(self.endpoint.server):
                connection.request("GET", target, headers=self._headers({}, compressed=False))
                response = connection.getresponse()
                if response.status >= 400:
                    raise error_for(response.status, response.read())
        except BaseException:
            connection.close()
            raise
        return connection, response

    def _send(self, method: str, target: str, data: bytes | None, headers: Mapping[str, str]) -> bytes:
        with self._turn, _as_unavailable(self.endpoint.server):
            for attempt in (1, 2):
                connection = self._kept or self._connect(self._timeout)
                fresh, self._kept = self._kept is None, connection
                try:
                    connection.request(method, target, body=data, headers=self._headers(headers))
                    response = connection.getresponse()
                    body = response.read()
                    if self._closed:
                        self._drop()
                    break
                except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
                    # The server closes idle connections; the request on it was never looked at.
                    self._drop()
                    if fresh or attempt == 2:
                        raise
                except BaseException:
                    self._drop()
                    raise
        for value in response.headers.get_all("Warning", ()):
            if (found := _WARNING.fullmatch(value)) is not None:
                self._warnings.setdefault(_ESCAPED.sub(r"\1", found["text"]), False)
        if response.getheader("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        if response.status >= 400:
            raise error_for(response.status, body)
        return body

    def _headers(self, more: Mapping[str, str], *, compressed: bool = True) -> dict[str, str]:
        headers = {"Accept": JSON, "User-Agent": "kubectl-sj", **more}
        # The API server compresses what is larger than 128 KiB; on this machine that only costs time.
        if compressed and urlsplit(self.endpoint.server).hostname not in ("127.0.0.1", "localhost", "::1"):
            headers["Accept-Encoding"] = "gzip"
        if self.endpoint.authorization:
            headers["Authorization"] = self.endpoint.authorization
        return headers

    def _renew(self) -> None:
        self._drop()
        with self._lock:
            self._endpoint = self._load()

    def _connect(self, silence: float | None) -> http.client.HTTPConnection:
        found = self.endpoint
        with _as_unavailable(found.server):
            connection = _connection(found)
            connection.timeout = CONNECT_TIMEOUT
            connection.connect()
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            connection.sock.settimeout(silence)
        return connection


def _lines(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """The lines of a body. Iterating over the response itself would take a broken connection for its end."""
    rest = b""
    while chunk := response.read1(READ_BYTES):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from (line for line in lines if line)
    if rest:
        yield rest


def _target(path: str, params: Params | None) -> str:
    plain = {
        name: ("true" if value else "false") if isinstance(value, bool) else str(value)
        for name, value in (params or {}).items()
        if value is not None and value != ""
    }
    return f"{path}?{urlencode(plain)}" if plain else path


def _connection(found: Endpoint) -> http.client.HTTPConnection:
    url = urlsplit(found.server)
    host, port = url.hostname or "", url.port
    proxy = found.proxy or _environment_proxy(url.scheme, host)
    if proxy:
        through = urlsplit(proxy)
        connection = _plain_or_tls(found, through.hostname or "", through.port or 3128)
        connection.set_tunnel(host, port or (443 if found.tls else 80))
        return connection
    return _plain_or_tls(found, host, port)


def _plain_or_tls(found: Endpoint, host: str, port: int | None) -> http.client.HTTPConnection:
    if found.tls is None:
        return http.client.HTTPConnection(host, port)
    context = found.tls if found.server_name is None else _Renamed(found.tls, found.server_name)
    return http.client.HTTPSConnection(host, port, context=context)  # type: ignore[arg-type]


class _Renamed:
    """A TLS context that expects another name than that of the URL (tls-server-name)."""

    def __init__(self, context: ssl.SSLContext, name: str) -> None:
        self._context = context
        self._name = name

    def wrap_socket(self, sock: socket.socket, *, server_hostname: str) -> ssl.SSLSocket:
        return self._context.wrap_socket(sock, server_hostname=self._name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


def _environment_proxy(scheme: str, host: str) -> str | None:
    if not any(name.lower() in ("http_proxy", "https_proxy", "all_proxy") for name in os.environ):
        return None
    from urllib.request import getproxies, proxy_bypass

    return None if proxy_bypass(host) else getproxies().get(scheme)


class _as_unavailable:  # noqa: N801 - reads as the statement it is
    """Whatever breaks on the way to the server is Unavailable, with words a person can use."""

    def __init__(self, server: str) -> None:
        self._server = server

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, ssl.SSLCertVerificationError):
            raise Unavailable(
                message=f"{self._server}: its certificate is not trusted ({error.verify_message})"
            ) from error
        if isinstance(error, TimeoutError):
            raise Unavailable(message=f"{self._server} does not answer") from error
        if isinstance(error, OSError | http.client.HTTPException):
            words = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise Unavailable(message=f"{self._server}: {words}") from error
