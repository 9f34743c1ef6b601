"""What can go wrong at the border to the API, as one small hierarchy.

Every caller decides by class: Conflict means look again, NotFound on a delete is success, Unavailable and
TooManyRequests are worth another try, Forbidden and Invalid are not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from scavenger_kube.nesting import readable


class ApiError(Exception):
    """The API server, or the way to it, refused a request.

    status: HTTP status, 0 where no answer came. reason: one word (`metav1.Status.reason`). details: as the
    server sent them. retry_after: seconds the server asked to wait, None where it did not say.
    """

    def __init__(
        self,
        status: int = 0,
        reason: str = "",
        message: str = "",
        details: Mapping[str, Any] | None = None,
        *,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message or reason or f"HTTP status {status}")
        self.status = status
        self.reason = reason
        self.message = message
        self.details: Mapping[str, Any] = details or {}
        self.retry_after = retry_after

    def __str__(self) -> str:
        what = self.message or self.reason or type(self).__name__
        return f"{what} (status {self.status})" if self.status else what

    def causes(self) -> frozenset[str]:
        """The reasons in `details.causes`, e.g. {"DisruptionBudget"} for an eviction that a budget
        refused.
        """
        return frozenset(str(cause.get("reason", "")) for cause in self.details.get("causes") or ())


class NotFound(ApiError):  # noqa: N818 - the API's own word
    """404: no such object, or no such kind."""


class Conflict(ApiError):  # noqa: N818 - the API's own word
    """409: the object has changed since it was read, or a precondition does not hold. Look again."""


class AlreadyExists(ApiError):  # noqa: N818 - the API's own word
    """409 with reason AlreadyExists: an object of that name is there."""


class Gone(ApiError):  # noqa: N818 - the API's own word
    """410: the resource version or continue token is too old. List again."""


class TooLarge(ApiError):  # noqa: N818 - as its neighbours
    """The answer is longer than the caller has memory for. Ask for less at once."""


class Forbidden(ApiError):  # noqa: N818 - the API's own word
    """403: the service account lacks a right, a quota is used up, or an admission plugin refused."""


class Unauthorized(ApiError):  # noqa: N818 - the API's own word
    """401: no valid credentials."""


class Invalid(ApiError):  # noqa: N818 - the API's own word
    """400 or 422: the request itself is wrong; the same request will never succeed."""


class TooManyRequests(ApiError):  # noqa: N818 - the API's own word
    """429: the server sheds load, or a disruption budget forbids an eviction (see `causes()`)."""


class Unavailable(ApiError):  # noqa: N818 - the API's own word
    """No connection, a timeout, or a 5xx: worth another try later."""


BY_STATUS: Mapping[int, type[ApiError]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}


def error_for(status: int, body: bytes, *, retry_after: float | None = None) -> ApiError:
    """The error for an HTTP answer of 400 and up; `body` is a metav1.Status, or whatever a proxy in between
    wrote.
    """
    try:
        parsed = msgspec.json.decode(readable(body))
    except msgspec.DecodeError:
        parsed = None
    if isinstance(parsed, dict):
        return error_for_status(parsed, default_code=status, retry_after=retry_after)
    text = body[:200].decode("utf-8", "replace").strip()
    return _class_for(status, "")(status, "", text, retry_after=retry_after)


def error_for_status(
    status: Mapping[str, Any], *, default_code: int = 500, retry_after: float | None = None
) -> ApiError:
    """The error for a metav1.Status, as it stands in an answer or in an ERROR event of a watch."""
    code = int(status.get("code") or default_code)
    reason = str(status.get("reason") or "")
    details = status.get("details")
    details = details if isinstance(details, dict) else {}
    if retry_after is None and details.get("retryAfterSeconds"):
        retry_after = float(details["retryAfterSeconds"])
    return _class_for(code, reason)(code, reason, str(status.get("message") or ""), details, retry_after=retry_after)


def _class_for(code: int, reason: str) -> type[ApiError]:
    if reason == "AlreadyExists":
        return AlreadyExists
    if reason == "Expired":
        return Gone
    if code >= 500:
        return Unavailable
    return BY_STATUS.get(code, ApiError)


_TWO_BUDGETS = "more than one PodDisruptionBudget"
"""In the message of the 500 that the eviction API answers for a pod of two budgets; no other field says it."""


def by_budget(error: ApiError) -> bool:
    """Whether an eviction was refused because of a disruption budget, or because of two over one pod."""
    if isinstance(error, TooManyRequests):
        return "DisruptionBudget" in error.causes()
    return error.status == 500 and _TWO_BUDGETS in error.message


def look_says_more(error: ApiError, method: str) -> bool:
    """Whether a client that works by looks at the API goes on after an error, as the next look says what is so:
    nothing is there, or a write came too late, or it is not known whether it took effect.

    Args:
        error: of a request.
        method: of the request. A read that is not answered says nothing.
    """
    return isinstance(error, NotFound) or (
        method != "GET" and isinstance(error, AlreadyExists | Conflict | Unavailable)
    )
