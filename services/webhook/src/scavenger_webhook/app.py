"""The HTTP side: bytes in, bytes out, and a 4xx for whatever is no admission request."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import orjson
from fastapi import FastAPI, Request, Response
from scavenger_api import names
from scavenger_runtime.logging import get_logger
from starlette.requests import ClientDisconnect

from scavenger_webhook import metrics
from scavenger_webhook.core.models import (
    AdmissionRequest,
    AdmissionResponse,
    MalformedReview,
    Status,
    answer,
    parse_review,
)
from scavenger_webhook.core.review import review, subject
from scavenger_webhook.core.snapshot import Facts

MUTATE_PODS: Final = "/mutate/pods"
MUTATE_QUOTAS: Final = "/mutate/resourcequotas"
VALIDATE_JOBS: Final = "/validate/scavengerjobs"
SUBJECTS: Final = {
    MUTATE_PODS: "pods",
    MUTATE_QUOTAS: "resourcequotas",
    VALIDATE_JOBS: f"scavengerjobs.{names.GROUP}",
}
"""What each path reviews."""

FactsOf = Callable[[AdmissionRequest], Awaitable[Facts | None]]
"""What is known for a request; None while not enough is known to judge."""

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """max_body: bytes. body_timeout: seconds until the whole request has arrived."""

    max_body: int = 7 * 2**20
    body_timeout: float = 5.0


class Rejected(Exception):  # noqa: N818 - what it is
    """The HTTP request is refused. Not for the API server's eyes: it never sends such a thing."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def create_app(facts_of: FactsOf, limits: Limits = Limits()) -> FastAPI:
    """The application. It holds no state: what it knows comes from `facts_of`."""
    app = FastAPI(title="scavenger-webhook", openapi_url=None, docs_url=None, redoc_url=None)

    async def endpoint(request: Request) -> Response:
        try:
            body = await _body(request, limits)
            admission = _admission(body, SUBJECTS[request.url.path])
        except Rejected as refusal:
            metrics.REJECTED.labels(str(refusal.code)).inc()
            log.info("no admission request", path=request.url.path, code=refusal.code, error=str(refusal))
            return _json(orjson.dumps({"error": str(refusal)}), refusal.code)
        return _json(answer(await _answer(admission, facts_of)))

    for path in SUBJECTS:
        app.add_route(path, endpoint, methods=["POST"])  # plain: bodies are parsed and answers made here
    return app


async def _answer(request: AdmissionRequest, facts_of: FactsOf) -> AdmissionResponse:
    """The answer and its traces. Whatever goes wrong here is an answer as well: the API server would only say that the
    webhook failed, not why.
    """
    began = time.perf_counter()
    try:
        facts = await facts_of(request)
        response = _not_ready(request) if facts is None else review(request, facts)
    except Exception:  # a fault of ours, whatever it is
        log.exception("review failed", **_about(request))
        response = _failed(request)
    seconds = time.perf_counter() - began
    outcome = _outcome(response)
    metrics.REVIEWS.labels(request.resource.resource, outcome).inc()
    metrics.REVIEW_SECONDS.labels(request.resource.resource).observe(seconds)
    # With every pod of the cluster passing through, only what its author may ask about is worth a line.
    write = log.info if outcome in ("refused", "warned") else log.debug
    write("reviewed", outcome=outcome, seconds=round(seconds, 6), fields=_fields(response), **_about(request))
    return response


async def _body(request: Request, limits: Limits) -> bytes:
    """The body, as far as it is of an acceptable type and size and arrives in time. Raises Rejected."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Rejected(415, "send application/json")
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > limits.max_body:
        raise Rejected(413, f"at most {limits.max_body} bytes (--max-body)")
    parts, size = [], 0
    try:
        async with asyncio.timeout(limits.body_timeout):
            async for part in request.stream():
                size += len(part)
                if size > limits.max_body:
                    raise Rejected(413, f"at most {limits.max_body} bytes (--max-body)")
                parts.append(part)
    except TimeoutError:
        raise Rejected(408, f"the request did not arrive within {limits.body_timeout:g} s (--body-timeout)") from None
    except ClientDisconnect:
        raise Rejected(400, "the request broke off") from None
    return b"".join(parts)


def _admission(body: bytes, reviewed: str) -> AdmissionRequest:
    """The request in a body, of the kind that is reviewed under this path. Raises Rejected."""
    try:
        request = parse_review(body)
    except MalformedReview as error:
        raise Rejected(400, str(error)) from None
    if subject(request) != reviewed:
        raise Rejected(400, f"{subject(request)} are not reviewed here, but {reviewed}")
    return request


def _not_ready(request: AdmissionRequest) -> AdmissionResponse:
    message = "the webhook has not seen the cluster's queues yet; try again in a few seconds"
    return _refuse(request, 503, "ServiceUnavailable", message)


def _failed(request: AdmissionRequest) -> AdmissionResponse:
    """Closed for jobs, open for everything else: as the failure policies are."""
    if SUBJECTS[VALIDATE_JOBS] != subject(request):
        return AdmissionResponse(uid=request.uid, allowed=True)
    message = "the webhook failed; its log says why, under this request's uid"
    return _refuse(request, 500, "InternalError", message)


def _refuse(request: AdmissionRequest, code: int, reason: str, message: str) -> AdmissionResponse:
    return AdmissionResponse(uid=request.uid, allowed=False, status=Status(code=code, reason=reason, message=message))


def _fields(response: AdmissionResponse) -> list[str]:
    """Where something is wrong; what stands there may be nobody else's business."""
    details = response.status.details if response.status is not None else None
    return [cause.field for cause in details.causes] if details is not None else []


def _outcome(response: AdmissionResponse) -> str:
    if not response.allowed:
        return "refused"
    if response.warnings:
        return "warned"
    return "allowed" if response.patch is None else "changed"


def _about(request: AdmissionRequest) -> dict[str, str]:
    """What a log line says of a request: never the object, which may hold anybody's secret."""
    return {
        "uid": request.uid,
        "operation": request.operation,
        "resource": subject(request),
        "object": f"{request.namespace}/{request.name}",
        "user": request.user_info.username,
    }


def _json(body: bytes, code: int = 200) -> Response:
    return Response(body, code, media_type="application/json")
