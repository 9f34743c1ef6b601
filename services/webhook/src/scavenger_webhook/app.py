"""The HTTP side: bytes in, bytes out, and a 4xx for whatever is no admission request."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Final

import orjson
from fastapi import APIRouter, Depends, FastAPI, Request, Response
from scavenger_api import names
from scavenger_runtime.logging import get_logger
from starlette.requests import ClientDisconnect

from scavenger_webhook import metrics
from scavenger_webhook.core.body import has_more_values, surely_more_values
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
MUTATE_JOBS: Final = "/mutate/jobs"
VALIDATE_JOBS: Final = "/validate/scavengerjobs"
SUBJECTS: Final = {
    MUTATE_PODS: "pods",
    MUTATE_QUOTAS: "resourcequotas",
    MUTATE_JOBS: "jobs.batch",
    VALIDATE_JOBS: f"scavengerjobs.{names.GROUP}",
}
"""What each path reviews."""

FactsOf = Callable[[AdmissionRequest], Awaitable[Facts | None]]
"""What is known for a request; None while not enough is known to judge."""

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """max_body: bytes of a request. max_held: bytes of all requests that are being read or reviewed. max_values: values
    in a request (`has_more_values`). body_timeout: seconds until the whole request has arrived."""

    max_body: int = 7 * 2**20
    body_timeout: float = 5.0
    max_held: int = 64 * 2**20
    max_values: int = 20_000


OFF_LOOP_BYTES: Final = 128 * 2**10
"""Larger bodies are parsed and reviewed in a thread: liveness, and other pods, do not wait for them."""


class Rejected(Exception):  # noqa: N818 - what it is
    """The HTTP request is refused. Not for the API server's eyes: it never sends such a thing."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class _Body:
    """The bytes of a request as far as they have come, and the commas in them."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.commas = 0


class _Held:
    """The requests that are being read or reviewed."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._bytes = 0

    @contextmanager
    def body(self) -> Iterator[_Body]:
        """One that is being received; what it holds at the end is let go."""
        body = _Body()
        try:
            yield body
        finally:
            self._bytes -= len(body.data)

    def receive(self, body: _Body, part: bytes) -> None:
        """Add to one of them. Raises Rejected."""
        limits = self._limits
        if len(body.data) + len(part) > limits.max_body:
            raise _too_large(limits)
        if self._bytes + len(part) > limits.max_held:
            raise Rejected(503, "too many large requests at once; try again")
        body.commas += part.count(b",")
        if surely_more_values(body.commas, limits.max_values):
            raise _too_many_values(limits)
        body.data += part
        self._bytes += len(part)


def _too_large(limits: Limits) -> Rejected:
    return Rejected(413, f"at most {limits.max_body} bytes (--max-body)")


def _too_many_values(limits: Limits) -> Rejected:
    return Rejected(413, f"at most {limits.max_values} values in lists and objects")


@dataclass(frozen=True, slots=True)
class _Service:
    """What all requests share: where the facts are, and how much may be held of requests."""

    facts_of: FactsOf
    limits: Limits
    held: _Held


@dataclass(frozen=True, slots=True)
class _Admission:
    """A request as it was read.

    Attributes:
        run: calls a function at once, or in a thread where the request is large.
        held: lets go of the bytes of the request when it is left.
    """

    service: _Service
    request: AdmissionRequest
    run: Callable[..., Awaitable[Any]]
    held: ExitStack


async def _admission(request: Request) -> _Admission:
    """Dependency: the request in the body, which is streamed, bounded and parsed here.

    A Body parameter would be read whole before anything could be said against it. A dependency that yields would let go
    of the bytes by itself, for a tenth more of the CPU time of a review. Raises Rejected.
    """
    service: _Service = request.app.state.service
    with ExitStack() as held:
        body = held.enter_context(service.held.body())
        await _receive(request, service.limits, service.held, body)
        run = asyncio.to_thread if len(body.data) > OFF_LOOP_BYTES else _at_once
        admission = await run(_parsed, body, SUBJECTS[request.url.path], service.limits)
        return _Admission(service, admission, run, held.pop_all())


Admission = Annotated[_Admission, Depends(_admission)]

router = APIRouter()


@router.post(MUTATE_PODS)
async def mutate_pods(admission: Admission) -> Response:
    """Give a pod its class, or refuse it."""
    return await _reviewed(admission)


@router.post(MUTATE_QUOTAS)
async def mutate_quotas(admission: Admission) -> Response:
    """Let a ResourceQuota pass that bounds no scavenger pods by mistake."""
    return await _reviewed(admission)


@router.post(MUTATE_JOBS)
async def mutate_jobs(admission: Admission) -> Response:
    """Give a user's Job to the admitter."""
    return await _reviewed(admission)


@router.post(VALIDATE_JOBS)
async def validate_jobs(admission: Admission) -> Response:
    """Refuse a ScavengerJob that could not run, and warn of what is probably meant otherwise."""
    return await _reviewed(admission)


async def _reviewed(admission: _Admission) -> Response:
    with admission.held:
        return _json(answer(await _answer(admission.request, admission.service.facts_of, admission.run)))


def create_app(facts_of: FactsOf, limits: Limits = Limits()) -> FastAPI:
    """The application. It holds no state but of the requests under way: what it knows comes from `facts_of`."""
    app = FastAPI(title="scavenger-webhook", openapi_url=None, docs_url=None, redoc_url=None)
    app.state.service = _Service(facts_of, limits, _Held(limits))
    app.include_router(router)
    app.add_exception_handler(Rejected, _rejected)
    metrics.begin(subject.partition(".")[0] for subject in SUBJECTS.values())
    return app


async def _rejected(request: Request, refusal: Exception) -> Response:
    assert isinstance(refusal, Rejected)
    metrics.REJECTED.labels(str(refusal.code)).inc()
    log.info("no admission request", path=request.url.path, code=refusal.code, error=str(refusal))
    return _json(orjson.dumps({"error": str(refusal)}), refusal.code)


async def _at_once(call: Callable[..., Any], *words: Any) -> Any:
    return call(*words)


async def _answer(
    request: AdmissionRequest, facts_of: FactsOf, run: Callable[..., Awaitable[AdmissionResponse]]
) -> AdmissionResponse:
    """The answer and its traces. Whatever goes wrong here is an answer as well: the API server would only say that the
    webhook failed, not why.
    """
    began = time.perf_counter()
    try:
        facts = await facts_of(request)
        response = _not_ready(request) if facts is None else await run(review, request, facts)
    except Exception:  # a bug of the webhook, whatever it is
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


async def _receive(request: Request, limits: Limits, held: _Held, body: _Body) -> None:
    """Fill the body, as far as it is of an acceptable type and size and arrives in time. Raises Rejected."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Rejected(415, "send application/json")
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > limits.max_body:
        raise _too_large(limits)
    try:
        async with asyncio.timeout(limits.body_timeout):
            async for part in request.stream():
                held.receive(body, part)
    except TimeoutError:
        raise Rejected(408, f"the request did not arrive within {limits.body_timeout:g} s (--body-timeout)") from None
    except ClientDisconnect:
        raise Rejected(400, "the request broke off") from None


def _parsed(body: _Body, reviewed: str, limits: Limits) -> AdmissionRequest:
    """The request in a body, of the kind that is reviewed under this path. Raises Rejected."""
    if has_more_values(body.data, limits.max_values, body.commas):
        raise _too_many_values(limits)
    try:
        request = parse_review(body.data)
    except MalformedReview as error:
        raise Rejected(400, str(error)) from None
    if subject(request) != reviewed:
        raise Rejected(400, f"{subject(request)} are not reviewed here, but {reviewed}")
    return request


def _not_ready(request: AdmissionRequest) -> AdmissionResponse:
    message = "the webhook has not seen the cluster's queues yet, or the namespace; try again in a few seconds"
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
    """Where something is wrong; what stands there may be private."""
    details = response.status.details if response.status is not None else None
    return [cause.field for cause in details.causes] if details is not None else []


def _outcome(response: AdmissionResponse) -> str:
    if not response.allowed:
        return "refused"
    if response.warnings:
        return "warned"
    return "allowed" if response.patch is None else "changed"


def _about(request: AdmissionRequest) -> dict[str, str]:
    """What a log line says of a request: never the object, which may hold a secret."""
    return {
        "uid": request.uid,
        "operation": request.operation,
        "resource": subject(request),
        "object": f"{request.namespace}/{request.name}",
        "user": request.user_info.username,
    }


def _json(body: bytes, code: int = 200) -> Response:
    return Response(body, code, media_type="application/json")
