"""One API server and how to speak to it: a value, made by `kubeconfig` and taken by both clients."""

from __future__ import annotations

import functools
import ipaddress
import os
import ssl
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self
from urllib.parse import urlsplit

PROXY_SCHEMES: Final = ("http", "https", "socks5", "socks5h")
"""What client-go speaks to a proxy."""


class KubeconfigError(ValueError):
    """What says where the API server is cannot be used.

    message: what is wrong, one sentence without a full stop. remedy: what to do about it.
    """

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(f"{message} ({remedy})" if remedy else message)
        self.message = message
        self.remedy = remedy


@dataclass(frozen=True)
class Tls:
    """Whom to trust and how to prove oneself, in PEM. authority: empty for those of the system."""

    authority: bytes = b""
    certificate: bytes = b""
    key: bytes = field(default=b"", repr=False)
    verify: bool = True

    def context(self) -> ssl.SSLContext:
        """The context for connections, the same one for equal values. Raises KubeconfigError."""
        return _context(self)


@functools.lru_cache(maxsize=16)
def _context(tls: Tls) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cadata=tls.authority.decode() if tls.authority else None)
        # Python 3.13 asks for extensions that the authorities of many clusters do not have; kubectl does not.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if not tls.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if tls.certificate and tls.key:
            # Python's ssl takes files only: one that no other user may read, for as long as it is being read.
            with tempfile.NamedTemporaryFile(prefix="scavenger-") as file:
                file.write(tls.certificate + b"\n" + tls.key)
                file.flush()
                context.load_cert_chain(file.name)
    except (ssl.SSLError, ValueError) as error:
        message = f"a certificate in the kubeconfig cannot be used: {error}"
        raise KubeconfigError(message, "fetch the kubeconfig anew") from error
    return context


@dataclass(frozen=True)
class Endpoint:
    """One API server and how to speak to it.

    server: base URL, with the path under which the API lies, if any. authorization: value of the header, None for none.
    namespace: of the context, `default` where it names none. tls: None for plain HTTP. server_name: the name that its
    certificate must bear, None for the one of the URL. proxy: URL of the proxy on the way, with its credentials, empty
    for none, None to look at the environment. impersonation: headers for acting as another user. expires: time
    (seconds since the epoch) from which on the credentials are loaded again, None for never.
    """

    server: str
    authorization: str | None = field(default=None, repr=False)
    namespace: str = "default"
    tls: Tls | None = None
    server_name: str | None = None
    proxy: str | None = field(default=None, repr=False)
    impersonation: tuple[tuple[str, str], ...] = ()
    expires: float | None = field(default=None, compare=False)

    def url(self, path: str) -> str:
        """Where a path of the API is on this server."""
        return self.server.rstrip("/") + path

    def checked(self) -> Self:
        """The endpoint itself, when its certificates and its proxy can be used. Raises KubeconfigError."""
        self.ssl_context()
        self.route()
        return self

    def headers(self, *more: tuple[str, str]) -> list[tuple[str, str]]:
        """The headers that say who asks, and more; a name may occur several times."""
        login = [("Authorization", self.authorization)] if self.authorization else []
        return [*more, *login, *self.impersonation]

    def expired(self) -> bool:
        """Whether the credentials should be loaded again before they are used."""
        return self.expires is not None and time.time() >= self.expires

    def ssl_context(self) -> ssl.SSLContext | None:
        """The context for connections, None for plain HTTP. Raises KubeconfigError."""
        return (self.tls or Tls()).context() if self.server.startswith("https:") else None

    def route(self) -> str | None:
        """URL of the proxy on the way, None for none. Raises KubeconfigError for one that cannot be spoken to."""
        proxy = checked_proxy(environment_proxy(self.server, os.environ) if self.proxy is None else self.proxy)
        if proxy and proxy.startswith("socks") and self.server_name:
            # aiohttp-socks cannot ask for another name than that of the URL.
            raise KubeconfigError("tls-server-name cannot be used through a SOCKS proxy", "use an HTTP proxy")
        return proxy


def checked_proxy(url: str | None) -> str | None:
    """The URL of a proxy, as it is. Raises KubeconfigError where its scheme is none that is known."""
    if url and (urlsplit(url).scheme not in PROXY_SCHEMES or not urlsplit(url).hostname):
        raise KubeconfigError(
            f"the proxy-url {urlsplit(url).scheme}://{urlsplit(url).hostname or ''} is for no known kind of proxy",
            f"write one that begins with {'://, '.join(PROXY_SCHEMES)}://",
        )
    return url or None


def environment_proxy(server: str, environ: Mapping[str, str]) -> str | None:
    """The proxy that HTTPS_PROXY, HTTP_PROXY and NO_PROXY name for a server, as client-go reads them.

    The rules are those of golang.org/x/net/http/httpproxy: never for loopback, NO_PROXY may name networks and ports.
    Python's own `proxy_bypass` knows no networks, which is what people write for their clusters.
    """
    url = urlsplit(server)
    name = f"{url.scheme}_proxy"
    proxy = environ.get(name.upper()) or environ.get(name) or ""
    host, port = (url.hostname or "").lower(), url.port or {"http": 80, "https": 443}.get(url.scheme)
    address = _address(host)
    if not proxy or host == "localhost" or (address is not None and address.is_loopback):
        return None
    entries = (environ.get("NO_PROXY") or environ.get("no_proxy") or "").lower().split(",")
    if any(_excepted(entry.strip(), host, port, address) for entry in entries):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def _address(text: str) -> Address | None:
    try:
        return ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        return None


def _excepted(entry: str, host: str, port: int | None, address: Address | None) -> bool:
    """Whether one entry of NO_PROXY covers a host."""
    if entry in ("", "*"):
        return entry == "*"
    if "/" in entry:
        try:
            return address is not None and address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    name, colon, last = entry.rpartition(":")
    if colon and last.isdecimal() and (":" not in name or name.endswith("]")):
        if int(last) != port:
            return False
        entry = name
    if (covered := _address(entry)) is not None:
        return address == covered
    entry = entry.removeprefix("*")
    return host.endswith(entry) if entry.startswith(".") else host == entry or host.endswith(f".{entry}")
