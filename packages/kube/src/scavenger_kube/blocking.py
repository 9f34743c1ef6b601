"""The blocking client: requests to the API server one at a time, over urllib3.

The asyncio client is for thousands of requests under way at once, and takes half a second to import; a command sends
five requests and ends. The errors are the same ones.
"""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar
from urllib.parse import unquote, urlencode, urlsplit

from scavenger_kube.endpoint import Endpoint
from scavenger_kube.errors import Unauthorized, Unavailable, error_for
from scavenger_kube.nesting import readable
from scavenger_kube.resources import JSON, MERGE_PATCH, Params, encode, query

if TYPE_CHECKING:  # loaded when the first request is sent: completions and --help send none
    import urllib3

T = TypeVar("T")

CONNECT_TIMEOUT: Final = 10.0
REQUEST_TIMEOUT: Final = 60.0
"""Seconds of silence after which a request counts as lost."""
READ_BYTES: Final = 64 * 1024

_WARNING: Final = re.compile(r'299 \S+ "(?P<text>(?:[^"\\]|\\.)*)"(?: "[^"]*")?')
"""A warning as Kubernetes writes it (apimachinery util/net NewWarningHeader)."""
_ESCAPED: Final = re.compile(r"\\(.)")


class Client:
    """Speaks to one API server over one kept connection, a thread at a time; streams have connections of their own.

    load: reads the kubeconfig; called when the first request is sent, and again when the credentials have expired or
    are refused, as those of a plugin do while a log is being followed. timeout: seconds without an answer after which a
    request counts as lost, None for never; streams have their own.
    """

    def __init__(
        self, load: Callable[[], Endpoint], *, timeout: float | None = REQUEST_TIMEOUT, user_agent: str = "kubectl-sj"
    ) -> None:
        self._load = load
        self._timeout = timeout
        self._user_agent = user_agent
        self._endpoint: Endpoint | None = None
        self._pools: urllib3.PoolManager | None = None
        self._closed = False
        self._warnings: dict[str, bool] = {}
        self._lock = threading.Lock()
        self._turn = threading.Lock()

    @property
    def endpoint(self) -> Endpoint:
        """Where requests go. Raises what `load` raises."""
        with self._lock:
            found = self._endpoint
            if found is None or found.expired():
                self._endpoint = self._load()
                if found is not None and found.tls != self._endpoint.tls:
                    self._drop()  # a plugin's new certificate is shown on a new connection
                return self._endpoint
            return found

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
        manager, self._pools = self._pools, None
        if manager is not None:
            # clear() alone closes nothing before the garbage collector has come to the pools
            kept = manager.pools.keys()  # a copy: other threads may be at requests
            for key in kept:
                if (pool := manager.pools.get(key)) is not None:
                    pool.close()
            manager.clear()

    def get(self, path: str, params: Params | None = None) -> bytes:
        """Read an object or a list. Raises ApiError."""
        return self.request("GET", path, params=params)

    def request(
        self, method: str, path: str, *, body: Any = None, params: Params | None = None, content_type: str = JSON
    ) -> bytes:
        """Send one request and return the body of its answer. Raises ApiError; for no answer Unavailable.

        Only a GET is sent again when its answer is lost: anything else may have been done. A handshake that fails has
        sent nothing, and is tried once more.
        """
        data = None if body is None else encode(body)
        headers = [("Content-Type", content_type)] if data is not None else []
        target = _target(path, params)
        return self._with_credentials(lambda: self._send(method, target, data, headers))

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
        response = self._with_credentials(lambda: self._open(target, silence))
        try:
            with _as_unavailable(self.endpoint.server):
                yield from _lines(response) if _is_text(response) else map(readable, _lines(response))
        finally:
            response.close()

    def _with_credentials(self, ask: Callable[[], T]) -> T:
        """What `ask` returns. Where the credentials are refused, it loads them again and asks once more."""
        try:
            return ask()
        except Unauthorized:
            self._drop()
            with self._lock:
                self._endpoint = self._load()
            return ask()

    def _open(self, target: str, silence: float | None) -> urllib3.BaseHTTPResponse:
        found = self.endpoint
        with _as_unavailable(found.server):
            response = _pools(found, silence).request(
                "GET", found.url(target), headers=self._headers(found), preload_content=False, redirect=False
            )
            if response.status < 300:
                return response
            body = response.data
            response.close()
        raise error_for(response.status, body)

    def _send(self, method: str, target: str, data: bytes | None, headers: list[tuple[str, str]]) -> bytes:
        found = self.endpoint
        with self._turn, _as_unavailable(found.server):
            from urllib3.exceptions import ProtocolError, SSLError

            sent = self._headers(found, *headers, *_compressed(found))
            for last in (False, True):
                pools = self._pools = self._pools or _pools(found, self._timeout)
                try:
                    response = pools.request(method, found.url(target), body=data, headers=sent, redirect=False)
                    break
                except ProtocolError:
                    if last or method != "GET":
                        raise
                except SSLError as error:
                    if last or any(isinstance(one, ssl.SSLCertVerificationError) for one in _chain(error)):
                        raise
                finally:
                    if self._closed:
                        self._drop()
        for value in response.headers.getlist("Warning"):
            if (warning := _WARNING.fullmatch(value)) is not None:
                self._warnings.setdefault(_ESCAPED.sub(r"\1", warning["text"]), False)
        if response.status >= 300:
            raise error_for(response.status, response.data)
        return response.data if _is_text(response) else readable(response.data)

    def _headers(self, found: Endpoint, *more: tuple[str, str]) -> urllib3.HTTPHeaderDict:
        from urllib3 import HTTPHeaderDict

        return HTTPHeaderDict(found.headers(("Accept", JSON), ("User-Agent", self._user_agent), *more))


def _compressed(found: Endpoint) -> list[tuple[str, str]]:
    """The API server compresses what is larger than 128 KiB; on this machine that only costs time."""
    local = urlsplit(found.server).hostname in ("127.0.0.1", "localhost", "::1")
    return [] if local else [("Accept-Encoding", "gzip")]


def _is_text(response: urllib3.BaseHTTPResponse) -> bool:
    """Whether it is no JSON: a log comes as its program wrote it."""
    return response.headers.get("Content-Type", "").startswith("text/")


def _lines(response: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    """The lines of a body."""
    rest = b""
    while chunk := response.read1(READ_BYTES):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from (line for line in lines if line)
    if rest:
        yield rest


def _target(path: str, params: Params | None) -> str:
    plain = query(params)
    return f"{path}?{urlencode(plain)}" if plain else path


def _pools(found: Endpoint, silence: float | None) -> urllib3.PoolManager:
    """Connections to a server, by way of its proxy. Raises KubeconfigError."""
    import urllib3

    context = found.ssl_context()
    if context is not None and context.verify_mode == ssl.CERT_NONE:
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)  # asked for, in the kubeconfig
    keepalive = (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options: dict[str, Any] = {
        "retries": False,
        "timeout": urllib3.Timeout(connect=min(CONNECT_TIMEOUT, silence or CONNECT_TIMEOUT), read=silence),
        "socket_options": [*urllib3.connection.HTTPConnection.default_socket_options, keepalive],
    }
    if context is not None:
        options |= {"ssl_context": context, "server_hostname": found.server_name}
    proxy = found.route()
    if proxy is None:
        return urllib3.PoolManager(**options)
    url = urlsplit(proxy)
    host = f"[{url.hostname}]" if ":" in (url.hostname or "") else url.hostname
    bare = f"{url.scheme}://{host}" + (f":{url.port}" if url.port else "")
    login = (unquote(url.username), unquote(url.password or "")) if url.username else None
    if url.scheme.startswith("socks"):
        from urllib3.contrib.socks import SOCKSProxyManager

        bare = bare.replace("socks5:", "socks5h:", 1)  # as client-go: the proxy looks the name up
        return SOCKSProxyManager(bare, *(login or (None, None)), **options)
    headers = urllib3.make_headers(proxy_basic_auth=":".join(login)) if login else None
    return urllib3.ProxyManager(bare, proxy_headers=headers, proxy_ssl_context=context, **options)


@contextlib.contextmanager
def _as_unavailable(server: str) -> Iterator[None]:
    """Whatever breaks on the way to the server is Unavailable, with words a person can use."""
    try:
        yield
    except Exception as error:
        words = _words(server, error)
        if words is None:
            raise
        raise Unavailable(message=words) from error


def _words(server: str, error: Exception) -> str | None:
    """What to say of an error on the way to the server; None for one that is of something else."""
    from urllib3.exceptions import HTTPError, NewConnectionError, ReadTimeoutError, TimeoutError

    if not isinstance(error, HTTPError | OSError):
        return None
    chain = list(_chain(error))
    for one in chain:
        if isinstance(one, ssl.SSLCertVerificationError):
            return f"{server}: its certificate is not trusted ({one.verify_message})"
    if isinstance(error, TimeoutError | ReadTimeoutError) and not isinstance(error, NewConnectionError):
        return f"{server} does not answer"
    said = next((one for one in chain if isinstance(one, OSError)), chain[-1])
    return f"{server}: {getattr(said, 'strerror', None) or str(said) or type(said).__name__}"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error and what it wraps; urllib3 keeps that among its arguments or as the cause."""
    while error is not None:
        yield error
        inner = [one for one in error.args if isinstance(one, BaseException)]
        error = inner[-1] if inner else error.__cause__ or error.__context__
