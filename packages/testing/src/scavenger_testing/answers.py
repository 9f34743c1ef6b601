"""How the API server in memory answers: an object, a refusal, or a broken connection."""

from __future__ import annotations

from typing import Any

import orjson
from aiohttp import web

from scavenger_testing.store import Refusal


def json_answer(obj: Any, *, status: int = 200) -> web.Response:
    """An answer with an object."""
    return web.Response(status=status, body=orjson.dumps(obj), content_type="application/json")


def refused(refusal: Refusal, retry_after: float | None = None, body: bytes | None = None) -> web.Response:
    """The answer that refuses a request. retry_after: seconds, for the header. body: in place of a metav1.Status."""
    headers = {} if retry_after is None else {"Retry-After": f"{retry_after:g}"}
    text = orjson.dumps(refusal.status()) if body is None else body
    return web.Response(status=refusal.code, body=text, content_type="application/json", headers=headers)


def cut(request: web.Request) -> None:
    """Reset the connection."""
    if request.transport is not None:
        request.transport.abort()
