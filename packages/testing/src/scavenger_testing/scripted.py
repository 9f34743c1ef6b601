"""An API server whose every answer is written down beforehand, for what a real one does only when it breaks."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass
class Request:
    """What was asked. fields: the headers as they came, a name as often as it came. peer: the port of the client."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any = None
    fields: tuple[tuple[str, str], ...] = ()
    peer: int = 0


@dataclass
class Answer:
    """What is said: a status and a body, or the lines of a stream. cut: the connection breaks after them.

    hang_up: the connection is closed after the answer, without a word about it.
    """

    status: int = 200
    body: Any = None
    lines: Iterable[Any] | None = None
    cut: bool = False
    hang_up: bool = False
    headers: dict[str, str] = field(default_factory=dict)


Handler = Callable[[Request], Answer]


class Server:
    """Answers by path; a list of answers is used up one by one, its last one for ever."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._scheme = "http" if tls is None else "https"
        self.requests: list[Request] = []
        self._answers: dict[tuple[str, str, bool], list[Answer | Handler]] = {}
        self._lock = threading.Lock()
        outer = self

        class Serve(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                """Leave it to the server."""
                outer.serve(self)

            do_GET = do_POST = do_PATCH = do_DELETE = answer  # noqa: N815

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing: tests are silent."""

        class Http(ThreadingHTTPServer):
            def handle_error(self, request: Any, client_address: Any) -> None:
                """A client that has heard enough hangs up."""

        self._http = Http(("127.0.0.1", 0), Serve)
        self._http.daemon_threads = True
        if tls is not None:
            self._http.socket = tls.wrap_socket(self._http.socket, server_side=True)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"{self._scheme}://127.0.0.1:{self._http.server_address[1]}"

    def on(self, path: str, *answers: Answer | Handler, method: str = "GET", watch: bool = False) -> None:
        """What is answered from now on. watch: to requests for a watch."""
        self._answers[method, path, watch] = list(answers)

    def close(self) -> None:
        """Listen no longer."""
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(5)

    def asked(self, path: str, method: str = "GET") -> list[Request]:
        """The requests for a path."""
        return [one for one in self.requests if one.path == path and one.method == method]

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer one request."""
        request = _read(handler)
        with self._lock:
            self.requests.append(request)
            answers = self._answers.get((request.method, request.path, "watch" in request.query))
            chosen = None if not answers else answers.pop(0) if len(answers) > 1 else answers[0]
        if chosen is None:
            chosen = Answer(404, status(404, "NotFound", "not found", details={"name": request.path}))
        answer = chosen(request) if callable(chosen) else chosen
        if answer.lines is None:
            _send(handler, answer)
        else:
            _stream(handler, answer)


def _read(handler: BaseHTTPRequestHandler) -> Request:
    url = urlsplit(handler.path)
    query = {name: values[0] for name, values in parse_qs(url.query).items()}
    size = int(handler.headers.get("Content-Length") or 0)
    body = json.loads(handler.rfile.read(size)) if size else None
    fields = tuple((name.lower(), value) for name, value in handler.headers.items())
    return Request(handler.command, url.path, query, dict(fields), body, fields, handler.client_address[1])


def _send(handler: BaseHTTPRequestHandler, answer: Answer) -> None:
    body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body or {}).encode()
    handler.send_response(answer.status)
    for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body)), **answer.headers}.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)
    handler.close_connection |= answer.hang_up


def _stream(handler: BaseHTTPRequestHandler, answer: Answer) -> None:
    handler.send_response(answer.status)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    for line in answer.lines or ():
        data = (line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n"
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        handler.wfile.flush()
    if answer.cut:
        handler.close_connection = True
    else:
        handler.wfile.write(b"0\r\n\r\n")


def status(code: int, reason: str, message: str = "", *, details: dict[str, Any] | None = None) -> dict[str, Any]:
    """A metav1.Status."""
    return {
        "kind": "Status",
        "code": code,
        "reason": reason,
        "message": message or reason,
        "status": "Failure",
        "details": details or {},
    }
