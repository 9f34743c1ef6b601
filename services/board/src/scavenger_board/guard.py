"""Who may look, and what a browser may do with what it gets: before any request reaches the application."""

from __future__ import annotations

from base64 import b64encode
from functools import partial
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec
from scavenger_runtime.metrics_access import MetricsAccess
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

ACCESS_PATH: Final = "/scavenger/board"
"""The nonResourceURL that who looks must be allowed to `get`, with --access=token."""

API: Final = "/api/"
"""Only here is anything of the cluster; page, style and code are the same for all."""

OWN: Final = ("same-origin", "none")
"""Sec-Fetch-Site of requests of the page itself, and of a person; programs send none."""

LOCAL_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "::1"})

STATIC: Final = Path(__file__).parent / "static"
PAGE: Final = "index.html"
"""In that folder."""


def _inline_code() -> str:
    """The source of scripts that allows the only one that is written in the page."""
    _, _, rest = (STATIC / PAGE).read_text(encoding="utf-8").partition("<script>")
    code, _, _ = rest.partition("</script>")
    return f"'sha256-{b64encode(sha256(code.encode()).digest()).decode()}'"


HEADERS: Final[dict[str, str]] = {
    "Content-Security-Policy": (
        f"default-src 'none'; script-src 'self' {_inline_code()}; "
        "style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
"""On every answer. Trusted types: nothing that a user has written can become HTML, whatever the page's code does."""

STILL_ALLOWED: Final = "scavenger.still_allowed"
"""In the scope of a request: asks whether an answer that does not end may go on."""

WITHDRAWN: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


class Guard:
    """access: judges tokens; None where the address alone says which clients may look. Then only names of this machine
    are taken as the Host of a request: a page of another site, whose name was made to lead here (DNS rebinding), gets
    nothing. Such a page could not read an answer under the board's own name, but could ask all the same: it gets none
    either."""

    def __init__(self, app: ASGIApp, access: MetricsAccess | None) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An ASGI application."""
        if scope["type"] != "http":
            return
        refusal = await self._refusal(scope)
        scope = {**scope, STILL_ALLOWED: partial(self._still_allowed, Headers(scope=scope).get("authorization"))}

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message.get("headers", ()), *added]}
            await send(message)

        await (refusal or self._app)(scope, receive, guarded)

    async def _still_allowed(self, authorization: str | None) -> bool:
        """Whether who began to read may go on. An API server that gives no answer takes nothing away."""
        return self._access is None or await self._access.judge(authorization) not in WITHDRAWN

    async def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if self._access is None and not local(headers.get("host", "")):
            return _wrong_host(headers.get("host", ""))
        if not scope["path"].startswith(API):
            return None
        if headers.get("sec-fetch-site", OWN[0]) not in OWN:
            return problem(
                HTTPStatus.FORBIDDEN, "the request came from a page of another site", "open the board itself"
            )
        if self._access is None:
            return None
        verdict = await self._access.judge(headers.get("authorization"))
        return None if verdict is HTTPStatus.OK else _no_access(verdict)


def local(host: str) -> bool:
    """Whether a Host header names this machine, at whatever port."""
    try:
        return urlsplit(f"//{host}").hostname in LOCAL_HOSTS
    except ValueError:
        return False


def problem(status: int, error: str, remedy: str, **headers: str) -> Response:
    """An answer that says what is wrong and what would be right."""
    body = msgspec.json.encode({"error": error, "remedy": remedy})
    return Response(
        body, status, {name.replace("_", "-"): value for name, value in headers.items()}, "application/json"
    )


def _wrong_host(host: str) -> Response:
    return problem(
        HTTPStatus.MISDIRECTED_REQUEST,
        f"Host: {host[:100]!r} is not this machine",
        "open http://localhost:PORT of the port-forward (kubectl sj board)",
    )


def _no_access(verdict: HTTPStatus) -> Response:
    if verdict is HTTPStatus.UNAUTHORIZED:
        remedy = "send Authorization: Bearer TOKEN, with a token of the cluster (kubectl create token)"
        return problem(verdict, "Authorization: the token is missing or not valid", remedy, WWW_Authenticate="Bearer")
    if verdict is HTTPStatus.FORBIDDEN:
        return problem(
            verdict, "you may not see the board", f"ask for the right to get the nonResourceURL {ACCESS_PATH}"
        )
    return problem(verdict, "the API server did not check the token", "try again")
