"""Who may read a path such as /metrics: clients that the API server knows by the token, and allows to `get` it as a
nonResourceURL.

As controller-runtime does it (pkg/metrics/filters): a TokenReview says who it is, a SubjectAccessReview what that user
may. Nothing but a "yes" to both opens.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from http import HTTPStatus
from typing import Any, Final, TypeVar

import msgspec
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import ApiError

from scavenger_runtime.clock import Clock
from scavenger_runtime.logging import get_logger

PATH: Final = "/metrics"
TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

ALLOWED_SECONDS: Final = 60.0
"""A token or a right that was taken away opens for so long at most."""

REFUSED_SECONDS: Final = 10.0
"""A right that was just given opens after so long at the latest."""

MAX_KNOWN: Final = 256
"""Tokens whose verdict is remembered; then the one that was asked about longest ago is forgotten."""

MAX_REVIEWS: Final = 4
"""Tokens being reviewed at once: strangers with made-up ones must not become a load of the API server's."""

REVIEW_TIMEOUT: Final = 10.0
"""Seconds for each of the two requests."""

log = get_logger(__name__)

T = TypeVar("T")


class _User(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] | None = None
    extra: dict[str, Any] | None = None


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: _User = msgspec.field(default_factory=_User)


class _TokenReview(msgspec.Struct):
    status: _TokenStatus


class _AccessStatus(msgspec.Struct):
    allowed: bool = False
    denied: bool = False


class _AccessReview(msgspec.Struct):
    status: _AccessStatus


class MetricsAccess:
    """Judges requests for a path by their token. client: set once the API server is reached; until then, all requests
    are refused. path: the nonResourceURL to authorize."""

    def __init__(self, clock: Clock, path: str = PATH) -> None:
        self.client: ApiClient | None = None
        self._path = path
        self._clock = clock
        self._known: OrderedDict[bytes, tuple[float, HTTPStatus]] = OrderedDict()
        self._places = asyncio.Semaphore(MAX_REVIEWS)
        self._failing = False

    async def judge(self, authorization: str | None) -> HTTPStatus:
        """OK for a client that may read, by the header Authorization; else UNAUTHORIZED (no token, or not a good one),
        FORBIDDEN (no right), or SERVICE_UNAVAILABLE where the API server gives no answer, which is asked again.
        """
        scheme, _, token = (authorization or "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token or not token.isascii():
            return HTTPStatus.UNAUTHORIZED
        key = hashlib.sha256(token.encode()).digest()  # no token stays in memory
        if (verdict := self._remembered(key)) is not None:
            return verdict
        async with self._places:
            if (verdict := self._remembered(key)) is not None:  # asked while this one waited
                return verdict
            return await self._ask(key, token)

    def _remembered(self, key: bytes) -> HTTPStatus | None:
        until, verdict = self._known.get(key, (0.0, HTTPStatus.OK))
        if key not in self._known or self._clock.monotonic() >= until:
            return None
        self._known.move_to_end(key)
        return verdict

    async def _ask(self, key: bytes, token: str) -> HTTPStatus:
        if self.client is None:
            return HTTPStatus.SERVICE_UNAVAILABLE
        asked = self._clock.monotonic()
        try:
            verdict = await _reviewed(self.client, token, self._path)
        except (ApiError, msgspec.MsgspecError) as error:
            if not self._failing:
                log.warning(f"no client may read {self._path}: tokens are not reviewed", error=str(error))
            self._failing = True
            return HTTPStatus.SERVICE_UNAVAILABLE
        self._failing = False
        lasts = ALLOWED_SECONDS if verdict is HTTPStatus.OK else REFUSED_SECONDS
        self._known[key] = (asked + lasts, verdict)
        self._known.move_to_end(key)
        while len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)
        return verdict


async def _reviewed(client: ApiClient, token: str, path: str) -> HTTPStatus:
    """Raises ApiError, and MsgspecError for an answer that is none."""
    spec: dict[str, Any] = {"token": token}
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
    known = (await _asked(client, TOKEN_REVIEWS, body, _TokenReview)).status
    if not known.authenticated:
        return HTTPStatus.UNAUTHORIZED
    user = known.user
    spec = {"user": user.username, "uid": user.uid, "groups": user.groups or [], "extra": user.extra or {}}
    spec["nonResourceAttributes"] = {"path": path, "verb": "get"}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    may = (await _asked(client, ACCESS_REVIEWS, body, _AccessReview)).status
    return HTTPStatus.OK if may.allowed and not may.denied else HTTPStatus.FORBIDDEN


async def _asked(client: ApiClient, path: str, body: Any, answer: type[T]) -> T:
    # Urgent: among the few that are at work at once, none waits behind a thousand patches.
    raw = await client.request("POST", path, body=body, timeout=REVIEW_TIMEOUT, urgent=True)
    return msgspec.json.decode(raw, type=answer)
