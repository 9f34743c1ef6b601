"""The HTTP side: the page, pictures of now and then, and the stream of them."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from datetime import datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec
from scavenger_api.times import format_time, parse_time
from scavenger_runtime.clock import Clock
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from scavenger_board.core.history import LoadRow
from scavenger_board.core.picture import Picture
from scavenger_board.guard import PAGE, STATIC, STILL_ALLOWED, problem
from scavenger_board.stream import Hub, TooManyListeners

TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
SPAN: Final = (60, 7 * 86400)
"""Seconds that may be asked for of the load, at least and at most."""

DEFAULT_SPAN: Final = 3600
FUTURE: Final = timedelta(seconds=5)
"""By which the clock of a browser may be ahead."""

OLDEST: Final = timedelta(days=3660)
"""What is longer ago is not kept."""


class View(Protocol):
    """What the application asks of the rest."""

    async def picture_at(self, moment: datetime) -> Picture:
        """Of a moment that is over."""
        ...

    async def load(self, end: datetime, span: timedelta) -> LoadRow:
        """Load and levels over a span."""
        ...


class BadParameter(Exception):  # noqa: N818 - what it is
    """A parameter is wrong."""

    def __init__(self, name: str, what: str, remedy: str) -> None:
        super().__init__(f"{name}: {what}")
        self.remedy = remedy


class Static:
    """The files of the page, read once: there are a few, and no request can name any other."""

    def __init__(self, folder: Path = STATIC) -> None:
        files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.suffix in TYPES}
        self._files = {
            name: (body := path.read_bytes(), TYPES[path.suffix], _tag(body)) for name, path in files.items()
        }

    def answer(self, name: str, request: Request) -> Response:
        """A file, or that there is none."""
        found = self._files.get(name)
        if found is None:
            raise HTTPException(HTTPStatus.NOT_FOUND)
        body, kind, tag = found
        headers = {"ETag": tag, "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        return Response(body, headers=headers, media_type=kind)


def _tag(body: bytes) -> str:
    return f'"{hashlib.sha256(body).hexdigest()[:32]}"'


def create_app(view: View, hub: Hub, clock: Clock) -> Starlette:
    """The application. It holds no state but the files of the page."""
    static = Static()

    async def page(request: Request) -> Response:
        return static.answer(PAGE, request)

    async def file(request: Request) -> Response:
        return static.answer(request.path_params["name"], request)

    async def now(request: Request) -> Response:
        _known(request, ())
        return _json(await hub.current())

    async def at(request: Request) -> Response:
        _known(request, ("time",))
        moment = _moment(request, "time", clock.now())
        if moment is None:
            raise BadParameter("time", "is missing", f"write time={format_time(clock.now())}")
        return _json(await view.picture_at(moment))

    async def load(request: Request) -> Response:
        _known(request, ("end", "seconds"))
        end = _moment(request, "end", clock.now()) or clock.now()
        return _json(await view.load(end, timedelta(seconds=_seconds(request))))

    async def stream(request: Request) -> ASGIApp:
        _known(request, ())
        return Stream(hub)

    routes: list[tuple[str, Callable[[Request], Awaitable[ASGIApp]]]] = [
        ("/", page),
        ("/static/{name:path}", file),
        ("/api/now", now),
        ("/api/at", at),
        ("/api/load", load),
        ("/api/stream", stream),
    ]
    return Starlette(
        routes=[Route(path, endpoint, methods=["GET"]) for path, endpoint in routes],
        exception_handlers={BadParameter: _bad, HTTPException: _other},
    )


class Stream:
    """The answer that does not end: a place among the listeners, for as long as a client reads."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An ASGI application."""
        try:
            with self._hub.place() as news:
                headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
                messages = _while_allowed(self._hub.messages(news), scope[STILL_ALLOWED])
                answer = StreamingResponse(messages, headers=headers, media_type="text/event-stream")
                await answer(scope, receive, send)
        except TooManyListeners:
            what, remedy = "too many pages are open (--listeners)", "close one, or use /api/now"
            await problem(HTTPStatus.SERVICE_UNAVAILABLE, what, remedy, Retry_After="10")(scope, receive, send)


async def _while_allowed(
    messages: AsyncIterator[bytes], allowed: Callable[[], Awaitable[bool]]
) -> AsyncIterator[bytes]:
    async for message in messages:
        if not await allowed():
            return
        yield message


# --- parameters ---


def _known(request: Request, names: Collection[str]) -> None:
    for name in request.query_params:
        if name not in names:
            remedy = f"it takes {', '.join(names)}" if names else "it takes no parameters"
            raise BadParameter(name[:50], "is not a parameter", remedy)


def _moment(request: Request, name: str, now: datetime) -> datetime | None:
    text = request.query_params.get(name)
    if text is None:
        return None
    found = parse_time(text)
    example = f"write {name}={format_time(now)}"
    if found is None:
        raise BadParameter(name, f"{text[:50]!r} is no time of RFC 3339 with its zone", example)
    if found - now > FUTURE:
        raise BadParameter(name, f"{text[:50]!r} is in the future", example)
    if now - found > OLDEST:
        raise BadParameter(name, f"{text[:50]!r} is more than ten years ago", example)
    return found


def _seconds(request: Request) -> int:
    text = request.query_params.get("seconds", str(DEFAULT_SPAN))
    least, most = SPAN
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(most)) and least <= int(text) <= most):
        raise BadParameter("seconds", f"{text[:50]!r} is no whole number of {least} to {most}", "write seconds=3600")
    return int(text)


# --- answers ---


def _json(picture: Any) -> Response:
    return Response(msgspec.json.encode(picture), headers={"Cache-Control": "no-store"}, media_type="application/json")


async def _bad(_request: Request, error: Exception) -> Response:
    assert isinstance(error, BadParameter)
    return problem(HTTPStatus.BAD_REQUEST, str(error), error.remedy)


async def _other(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    phrase = HTTPStatus(error.status_code).phrase
    return problem(error.status_code, phrase.lower(), "GET /, /api/now, /api/at, /api/load or /api/stream")
