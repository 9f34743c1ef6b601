"""Proxies on loopback that write down what they are asked: HTTP (CONNECT and absolute URLs) and SOCKS 5."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit


class Proxy(socketserver.ThreadingTCPServer):
    """target: where every connection is led to, whatever name was asked for. asked: what came in, as text."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, handler: type[socketserver.BaseRequestHandler], target: str) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        url = urlsplit(target)
        self.target = (url.hostname, url.port)
        self.asked: list[str] = []
        self.address = f"127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has heard enough hangs up."""


@contextlib.contextmanager
def running(proxy: Proxy) -> Iterator[Proxy]:
    thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.shutdown()
        proxy.server_close()
        thread.join(5)


class Handler(socketserver.BaseRequestHandler):
    server: Proxy

    def lead(self, first: bytes = b"") -> None:
        """Carry bytes both ways until one side ends."""
        with socket.create_connection(self.server.target) as onward:
            onward.sendall(first)
            back = threading.Thread(target=_copy, args=(onward, self.request), daemon=True)
            back.start()
            _copy(self.request, onward)
            back.join(5)


class Http(Handler):
    """Takes CONNECT for a tunnel, and plain requests for an absolute URL, which it hands on."""

    def handle(self) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += self.request.recv(4096)
        self.server.asked.append(head.decode())
        if head.startswith(b"CONNECT"):
            self.request.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            head = b""
        self.lead(head)


class Socks(Handler):
    """SOCKS 5 with a login (RFC 1928, RFC 1929), or without one."""

    def handle(self) -> None:
        reader = self.request.makefile("rb")
        methods = reader.read(reader.read(2)[1])
        if 2 in methods:
            self.request.sendall(b"\x05\x02")
            reader.read(1)
            login = [reader.read(reader.read(1)[0]).decode() for _ in range(2)]
            self.server.asked.append("login " + ":".join(login))
            self.request.sendall(b"\x01\x00")
        else:
            self.request.sendall(b"\x05\x00")
        kind = reader.read(4)[3]
        name = reader.read(reader.read(1)[0]).decode() if kind == 3 else socket.inet_ntoa(reader.read(4))
        self.server.asked.append(f"{name}:{int.from_bytes(reader.read(2), 'big')}")
        self.request.sendall(b"\x05\x00\x00\x01" + bytes(6))
        self.lead()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
