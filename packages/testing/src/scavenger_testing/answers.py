"""What the API server in memory is asked, and how it answers: an object, a refusal, a watch, or a broken connection."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from scavenger_testing.store import Refusal


@dataclass(frozen=True, slots=True)
class Request:
    """A request that was received. target: path and query as they were sent. token: that of its Authorization header,
    empty where there is none. accept: the media type that is asked for."""

    method: str
    path: str
    query: Mapping[str, str]
    target: str
    content_type: str = ""
    token: str = ""
    body: bytes = b""
    accept: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer. lines: those of a watch, in place of a body; the reader closes them."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    lines: AsyncGenerator[bytes, None] | None = None


class Cut(Exception):  # noqa: N818 - no error: a test asked for it
    """The connection is reset in place of an answer, or in the middle of one."""


def json_answer(obj: Any, *, status: int = 200) -> Answer:
    """An answer with an object."""
    return Answer(status, orjson.dumps(obj))


def refused(refusal: Refusal, retry_after: float | None = None, body: bytes | None = None) -> Answer:
    """The answer that refuses a request. retry_after: seconds, for the header. body: in place of a metav1.Status."""
    headers = {} if retry_after is None else {"Retry-After": f"{retry_after:g}"}
    return Answer(refusal.code, orjson.dumps(refusal.status()) if body is None else body, headers)
