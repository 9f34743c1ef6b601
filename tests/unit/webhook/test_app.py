"""Whatever is sent: a well-formed answer or a 4xx, soon. The application is driven by ASGI, without sockets."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scavenger_runtime.metrics import REGISTRY
from scavenger_webhook import app as app_module
from scavenger_webhook.app import MUTATE_JOBS, MUTATE_PODS, MUTATE_QUOTAS, SUBJECTS, VALIDATE_JOBS, Limits, create_app
from scavenger_webhook.core.snapshot import Facts

from tests.unit.effort import examples

from .builders import Object, facts, job, pod, raw

LIMITS = Limits(max_body=2**20, body_timeout=30)
JSON = (b"content-type", b"application/json")
PATHS = {
    "pods": MUTATE_PODS,
    "scavengerjobs": VALIDATE_JOBS,
    "resourcequotas": MUTATE_QUOTAS,
    "jobs": MUTATE_JOBS,
}


async def known(_request: Any) -> Facts | None:
    return facts()


async def call(
    path: str,
    parts: Sequence[bytes],
    *,
    method: str = "POST",
    headers: Sequence[tuple[bytes, bytes]] = (JSON,),
    ends: str = "",
    of: Any = known,
    app: Any = None,
) -> tuple[int, Any]:
    """Send a body in parts; `ends`: "" properly, "hang" never, "drop" by a disconnect. Returns status and JSON."""
    messages = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    if not ends:
        messages.append({"type": "http.request", "body": b"", "more_body": False})
    if ends == "drop":
        messages.append({"type": "http.disconnect"})
    sent: list[Any] = []

    async def receive() -> Any:
        if not messages:
            await asyncio.Event().wait()
        return messages.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "https",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"timeout=5s",
        "root_path": "",
        "headers": list(headers),
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 9443),
    }
    limits = replace(LIMITS, body_timeout=0.1) if ends == "hang" else LIMITS
    async with asyncio.timeout(60):
        await (app or create_app(of, limits))(scope, receive, send)
    body = b"".join(message.get("body", b"") for message in sent[1:])
    return sent[0]["status"], json.loads(body)


def dumped(value: Any) -> bytes:
    return json.dumps(value).encode()


def check_answer(body: Any, uid: str) -> None:
    """An AdmissionReview as the API server takes it (apiserver/pkg/admission/plugin/webhook/request)."""
    assert (body["apiVersion"], body["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response = body["response"]
    assert response["uid"] == uid
    assert isinstance(response["allowed"], bool)
    assert ("patch" in response) == ("patchType" in response)
    if "patch" in response:
        assert response["allowed"]
        assert response["patchType"] == "JSONPatch"
        operations = json.loads(base64.b64decode(response["patch"], validate=True))
        assert all(operation.keys() == {"op", "path", "value"} for operation in operations)
    if not response["allowed"]:
        assert response["status"]["status"] == "Failure"
        assert response["status"]["message"]
        assert 400 <= response["status"]["code"] < 600
    assert all(0 < len(text) <= 256 and "\n" not in text for text in response.get("warnings", ()))


# --- good requests ---


@pytest.mark.parametrize(
    ("resource", "obj", "allowed"),
    [
        ("pods", pod(priority=0), True),
        ("pods", None, False),
        ("scavengerjobs", job(), True),
        ("scavengerjobs", job(queue="nowhere"), False),
        ("resourcequotas", {"spec": {"hard": {"pods": "1"}}}, True),
        ("jobs", {"spec": {}}, True),
        ("jobs", {"spec": {"managedBy": 1}}, False),
    ],
)
async def test_answers(resource: str, obj: Object | None, allowed: bool) -> None:
    status, body = await call(PATHS[resource], [dumped(raw(resource, obj))])

    assert status == 200
    check_answer(body, "1-2-3")
    assert body["response"]["allowed"] == allowed


async def test_until_the_queues_are_known_jobs_have_to_wait() -> None:
    async def unknown(_request: Any) -> None:
        return None

    status, body = await call(VALIDATE_JOBS, [dumped(raw("scavengerjobs", job()))], of=unknown)

    assert status == 200
    check_answer(body, "1-2-3")
    assert body["response"]["status"]["code"] == 503
    assert "try again" in body["response"]["status"]["message"]


@pytest.mark.parametrize(
    ("resource", "allowed"), [("pods", True), ("scavengerjobs", False), ("resourcequotas", True), ("jobs", True)]
)
async def test_a_fault_of_ours_closes_the_door_to_jobs_and_to_nothing_else(
    resource: str, allowed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(_request: Any) -> Facts:
        raise RuntimeError("a fault")

    status, body = await call(PATHS[resource], [dumped(raw(resource, {"spec": {}}))], of=broken)

    assert status == 200
    check_answer(body, "1-2-3")
    assert body["response"]["allowed"] == allowed
    assert "a fault" not in json.dumps(body)


# --- what is no request ---

DEEP = (
    b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":'
    + b'{"object":' * 5000
    + b"1"
    + b"}" * 5001
)
REVIEW = raw("pods", pod(priority=0))

MALFORMED = {
    "empty": b"",
    "no JSON": b"<html>",
    "cut off": dumped(REVIEW)[:-10],
    "two": dumped(REVIEW) * 2,
    "a list": b"[]",
    "null": b"null",
    "a number": b"1e999",
    "deep nesting": DEEP,
    "deep lists": b"[" * 100_000,
    "a lone surrogate": dumped(REVIEW).replace(b"researcher", b"\\ud800"),
    "another version": dumped(REVIEW | {"apiVersion": "admission.k8s.io/v1beta1"}),
    "another kind": dumped(REVIEW | {"kind": "TokenReview"}),
    "no request": dumped({k: v for k, v in REVIEW.items() if k != "request"}),
    "request of another type": dumped(REVIEW | {"request": "x"}),
    "an answer": dumped(
        {k: v for k, v in REVIEW.items() if k != "request"} | {"response": {"uid": "1", "allowed": True}}
    ),
    "no uid": dumped(REVIEW | {"request": {k: v for k, v in REVIEW["request"].items() if k != "uid"}}),
    "uid of another type": dumped(raw("pods", pod(), uid=7)),
    "operation unknown": dumped(raw("pods", pod(), operation="READ")),
    "object of another type": dumped(REVIEW | {"request": REVIEW["request"] | {"object": [1]}}),
    "another resource": dumped(raw("secrets", {"data": {"a": "aHVudGVyMg=="}})),
    "a subresource": dumped(raw("pods", pod(), subResource="exec")),
}


@pytest.mark.parametrize("name", MALFORMED)
@pytest.mark.parametrize("path", SUBJECTS)
async def test_malformed_bodies_are_refused(name: str, path: str) -> None:
    status, body = await call(path, [MALFORMED[name]])

    assert status == 400
    assert body["error"]
    assert "hunter2" not in body["error"]
    assert "aHVudGVyMg" not in body["error"]


async def test_bytes_that_are_no_text_let_no_pod_past() -> None:
    """The API server sends managedFields as a tenant wrote them. A review that fails would admit the pod unchanged."""
    review = raw("pods", pod(priority=0))
    review["request"]["object"]["metadata"]["managedFields"] = [{"fieldsV1": {"f:bad": {}}}]
    good = await call(MUTATE_PODS, [dumped(review)])
    bad = await call(MUTATE_PODS, [dumped(review).replace(b"f:bad", b"f:\xff\xed")])

    assert bad == good
    assert good[0] == 200


@pytest.mark.parametrize(
    ("parts", "headers", "ends", "code"),
    [
        ([b"x" * 2**18] * 40, [JSON], "", 413),  # 10 MB that nobody has announced
        ([b"{}"], [JSON, (b"content-length", b"10485760")], "hang", 413),
        ([b"{}"], [JSON], "hang", 408),
        ([b"{}"], [JSON], "drop", 400),
        ([b"{}"], [(b"content-type", b"text/plain")], "", 415),
        ([b"{}"], [], "", 415),
    ],
)
async def test_size_time_and_type_of_a_request(
    parts: list[bytes], headers: list[tuple[bytes, bytes]], ends: str, code: int
) -> None:
    status, _body = await call(VALIDATE_JOBS, parts, headers=headers, ends=ends)

    assert status == code


async def test_other_paths_and_methods() -> None:
    assert (await call("/", [b""]))[0] == 404
    assert (await call("/docs", [b""], method="GET"))[0] == 404
    assert (await call(MUTATE_PODS, [b""], method="GET"))[0] == 405


# --- anything at all ---

SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=12)
VALUES = st.recursive(
    SCALARS,
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(st.text(max_size=8), inside, max_size=4),
    max_leaves=12,
)
FIELDS = {
    "pods": ["priorityClassName", "priority", "preemptionPolicy", "containers"],
    "scavengerjobs": [
        "queue image env envFrom resources parallelism persistentVolumeClaims nodeSelector tolerations",
        "interruptionAfter terminationGracePeriodSeconds suspend capacity command secrets",
    ],
    "resourcequotas": ["hard", "scopeSelector", "scopes"],
    "jobs": ["managedBy", "template", "completions"],
}


@st.composite
def reviews(draw: st.DrawFn) -> tuple[str, Any]:
    """A review of one of our kinds whose objects are good but for some fields, or are anything."""
    resource = draw(st.sampled_from(sorted(PATHS)))

    def an_object() -> Any:
        names = st.sampled_from(" ".join(FIELDS[resource]).split())
        spec = draw(st.dictionaries(names, VALUES, max_size=3))
        quota: Object = {"spec": {"hard": {"pods": "1"}}}
        whole = {"pods": pod(), "scavengerjobs": job(), "resourcequotas": quota, "jobs": {"spec": {}}}[resource]
        whole = json.loads(json.dumps(whole))
        whole["spec"].update(spec)
        return draw(st.sampled_from([whole, whole, whole, {"spec": draw(VALUES)}, draw(VALUES)]))

    operation = draw(st.sampled_from(["CREATE", "UPDATE", "DELETE", "CONNECT"]))
    review = raw(resource, an_object(), old=an_object(), operation=operation)
    if draw(st.integers(0, 5)) == 0:
        review["request"][draw(st.sampled_from(sorted(review["request"])))] = draw(VALUES)
    return resource, review


@given(reviews())
@settings(max_examples=examples(60))
def test_any_review(case: tuple[str, Object]) -> None:
    resource, review = case
    faults: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app_module.log, "exception", lambda *a, **k: faults.append(str(k)))
        status, body = asyncio.run(call(PATHS[resource], [dumped(review)]))
    assert not faults, "a well-formed answer, but because something broke"
    assert status in (200, 400)
    if status == 200:
        check_answer(body, review["request"]["uid"])


@given(st.binary(max_size=200))
@settings(max_examples=examples(60))
def test_any_bytes(content: bytes) -> None:
    status, body = asyncio.run(call(MUTATE_PODS, [content]))

    assert status == 400
    assert body["error"]


async def test_nothing_of_an_object_is_logged(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    secret = "hunter2"
    bad = job(queue="nowhere", env=[{"name": "PASSWORD", "value": secret}], command=[secret], image=f"App:{secret}")
    await call(VALIDATE_JOBS, [dumped(raw("scavengerjobs", bad))])
    await call(VALIDATE_JOBS, [dumped(raw("scavengerjobs", bad))[:-5]])

    said = caplog.text + "".join(capfd.readouterr())
    assert "spec.queue" in said
    assert secret not in said


# --- metrics ---


def counted(resource: str) -> dict[str, float]:
    """How many there have been, by outcome."""
    samples = (sample for metric in REGISTRY.collect() for sample in metric.samples)
    return {
        sample.labels["outcome"]: sample.value
        for sample in samples
        if sample.name == "scavenger_webhook_reviews_total" and sample.labels["resource"] == resource
    }


async def test_reviews_are_counted_by_outcome_from_0_on() -> None:
    app = create_app(known, LIMITS)
    before = {resource: counted(resource) for resource in PATHS}
    assert all(set(counts) == {"allowed", "changed", "warned", "refused"} for counts in before.values())
    await call(PATHS["scavengerjobs"], [dumped(raw("scavengerjobs", job(queue="nowhere")))], app=app)
    after = counted("scavengerjobs")
    assert after == {**before["scavengerjobs"], "refused": before["scavengerjobs"]["refused"] + 1}
