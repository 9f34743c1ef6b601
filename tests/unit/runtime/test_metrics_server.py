"""/metrics over TLS, for whoever the API server lets read it: real sockets, a virtual clock."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from scavenger_kube.client import ApiClient
from scavenger_runtime import certificates, metrics_access
from scavenger_runtime.metrics_server import MetricsServer
from scavenger_runtime.service import ServiceContext, serve
from scavenger_runtime.settings import ServiceSettings
from scavenger_testing import PATIENCE, FakeApi, VirtualClock, eventually
from scavenger_testing.certificates import new_authority
from scavenger_webhook.certificate_issuer import new_serving
from scavenger_webhook.core.certificates import CertificateRules
from scavenger_webhook.settings import WebhookSettings

pytestmark = pytest.mark.slow

RULES = CertificateRules(("localhost",))
NOW = datetime.now(UTC)
AUTHORITY = new_authority(NOW)
PROMETHEUS = {"username": "prometheus", "uid": "1", "groups": ["monitoring"], "extra": {"pod": ["prometheus-0"]}}
GOOD = "Bearer good"


def write_certificate(folder: Path) -> int:
    """A new certificate with its key; returns the serial number."""
    made = new_serving(AUTHORITY, NOW, RULES)
    (folder / "tls.crt").write_bytes(made.certificate)
    (folder / "tls.key").write_bytes(made.key)
    return made.x509.serial_number


def settings(folder: Path, **fields: Any) -> ServiceSettings:
    return ServiceSettings(
        health_address="127.0.0.1", health_port=0, metrics_port=0, metrics_tls_folder=str(folder), **fields
    )


def trusting() -> ssl.SSLContext:
    return ssl.create_default_context(cadata=AUTHORITY.certificate.decode())


class Server:
    """A MetricsServer at work."""

    def __init__(self, made: MetricsServer, clock: VirtualClock) -> None:
        self.made = made
        self.clock = clock

    async def get(self, authorization: str | None = None, path: str = "/metrics") -> tuple[int, str]:
        headers = {} if authorization is None else {"Authorization": authorization}
        url = f"https://localhost:{self.made.port}{path}"
        async with aiohttp.ClientSession() as session, session.get(url, headers=headers, ssl=trusting()) as answer:
            return answer.status, await answer.text()

    async def status(self, authorization: str | None = None) -> int:
        return (await self.get(authorization))[0]

    async def serial(self) -> int:
        """Of the certificate that a new connection meets."""
        _, writer = await asyncio.open_connection("localhost", self.made.port, ssl=trusting())
        found = int(writer.get_extra_info("ssl_object").getpeercert()["serialNumber"], 16)
        writer.close()
        await writer.wait_closed()
        return found


@asynccontextmanager
async def at_work(folder: Path, client: ApiClient | None = None, **fields: Any) -> AsyncIterator[Server]:
    clock = VirtualClock()
    made = MetricsServer(settings(folder, **fields), clock)
    await made.start()
    if client is not None:
        made.reached(client)
    try:
        yield Server(made, clock)
    finally:
        await made.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_certificate(tmp_path)
    return tmp_path


@pytest.fixture
def reviewing(api: FakeApi) -> FakeApi:
    """An API server that knows Prometheus, which may read, and somebody who may not."""
    api.reviews.users |= {"good": PROMETHEUS, "other": {"username": "eve", "groups": ["system:authenticated"]}}
    api.reviews.allowed.add(("prometheus", "/metrics", "get"))
    return api


def reviews(api: FakeApi) -> tuple[int, int]:
    return api.count("POST", "/tokenreviews"), api.count("POST", "/subjectaccessreviews")


# --- TLS ---


async def test_over_tls_without_tokens_and_nothing_in_clear(folder: Path) -> None:
    async with at_work(folder) as server:
        status, text = await server.get()
        assert (status, "# TYPE scavenger_build_info gauge" in text) == (200, True)
        assert (await server.get(path="/healthz"))[0] == 404
        async with aiohttp.ClientSession() as session:
            with pytest.raises(aiohttp.ClientError):
                await session.get(f"http://localhost:{server.made.port}/metrics")
            with pytest.raises(aiohttp.ClientSSLError):  # an authority that nobody here knows
                await session.get(f"https://localhost:{server.made.port}/metrics")


async def test_a_certificate_replaced_on_disk_is_taken_up_and_a_bad_one_is_not(folder: Path) -> None:
    async with at_work(folder) as server:
        first = await server.serial()
        second = write_certificate(folder)
        await server.clock.advance(certificates.POLL_SECONDS - 1)
        assert await server.serial() == first != second
        await server.clock.advance(1)
        assert await server.serial() == second
        (folder / "tls.crt").write_bytes(b"rubbish")
        await server.clock.advance(certificates.POLL_SECONDS)
        assert await server.serial() == second
        (folder / "tls.crt").unlink()
        await server.clock.advance(certificates.POLL_SECONDS)
        assert await server.serial() == second
        third = write_certificate(folder)
        await server.clock.advance(certificates.POLL_SECONDS)
        assert await server.serial() == third, "it has gone on looking"


@pytest.mark.parametrize("content", [None, b"rubbish"])
async def test_without_a_usable_certificate_it_says_where_it_looked(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "tls.crt").write_bytes(content)
        (tmp_path / "tls.key").write_bytes(content)
    with pytest.raises(ValueError, match=f"--metrics-tls-folder: no certificate from {tmp_path}: "):
        await MetricsServer(settings(tmp_path), VirtualClock()).start()


# --- tokens ---


async def test_who_may_read(folder: Path, reviewing: FakeApi) -> None:
    async with at_work(folder, reviewing.client(), metrics_auth="token") as server:
        status, text = await server.get(GOOD)
        assert (status, "# TYPE scavenger_build_info gauge" in text) == (200, True)
        assert await server.status("bearer  good") == 200
        for refused in (None, "", "Bearer", "Bearer ", "Basic good", "good", "Bearer bad", "Bearer gööd"):
            status, text = await server.get(refused)
            assert (status, text) == (401, "Unauthorized\n"), refused
        assert await server.get("Bearer other") == (403, "Forbidden\n")


async def test_a_refusal_names_the_scheme(folder: Path, reviewing: FakeApi) -> None:
    async with at_work(folder, reviewing.client(), metrics_auth="token") as server, aiohttp.ClientSession() as session:
        async with session.get(f"https://localhost:{server.made.port}/metrics", ssl=trusting()) as answer:
            assert answer.headers["WWW-Authenticate"] == "Bearer"
        async with session.post(f"https://localhost:{server.made.port}/metrics", ssl=trusting()) as answer:
            assert answer.status == 405
    assert reviews(reviewing) == (0, 0), "who shows no token costs nothing"


async def test_all_that_is_known_of_the_user_is_judged(folder: Path, reviewing: FakeApi) -> None:
    seen: list[Any] = []
    answer = reviewing.reviews.answer

    def watched(plural: str, body: Any) -> Any:
        seen.append(body)
        return answer(plural, body)

    reviewing.reviews.answer = watched  # type: ignore[method-assign]
    async with at_work(folder, reviewing.client(), metrics_auth="token") as server:
        assert await server.status(GOOD) == 200
    token, access = seen
    assert (token["kind"], token["spec"]) == ("TokenReview", {"token": "good"})
    assert access["kind"] == "SubjectAccessReview"
    assert access["spec"] == {
        "user": "prometheus",
        "uid": "1",
        "groups": ["monitoring"],
        "extra": {"pod": ["prometheus-0"]},
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
    }


# --- an API server that does not answer ---


async def test_before_the_api_server_is_reached_nobody_reads(folder: Path) -> None:
    async with at_work(folder, metrics_auth="token") as server:
        assert await server.get(GOOD) == (503, "Service Unavailable\n")


@pytest.mark.parametrize("path", ["tokenreviews", "subjectaccessreviews"])
@pytest.mark.parametrize("status", [403, 500])
async def test_no_answer_opens_nothing_and_is_not_remembered(
    folder: Path, reviewing: FakeApi, path: str, status: int, logs: list[MutableMapping[str, Any]]
) -> None:
    async with at_work(folder, reviewing.client(), metrics_auth="token") as server:
        reviewing.fail(status, path=path, times=2)
        assert [await server.status(GOOD) for _ in range(3)] == [503, 503, 200]
        assert len([entry for entry in logs if entry["log_level"] == "warning"]) == 1, "said once, not at every scrape"


@pytest.mark.parametrize("body", [b"", b"{}", b'{"status": {"authenticated": "yes", "allowed": "yes"}}', b"[1]"])
async def test_what_is_no_review_opens_nothing(folder: Path, reviewing: FakeApi, body: bytes) -> None:
    async with at_work(folder, reviewing.client(), metrics_auth="token") as server:
        for path in ("tokenreviews", "subjectaccessreviews"):
            reviewing.fail(200, path=path, body=body)
            assert await server.status(GOOD) == 503
        assert await server.status(GOOD) == 200


async def test_a_right_that_is_denied_is_none(folder: Path, reviewing: FakeApi) -> None:
    async with at_work(folder, reviewing.client(), metrics_auth="token") as server:
        reviewing.fail(200, path="subjectaccessreviews", body=b'{"status": {"allowed": true, "denied": true}}')
        assert await server.status(GOOD) == 403


async def test_when_the_api_server_is_gone_only_what_it_said_before_counts_and_not_for_long(folder: Path) -> None:
    async with FakeApi() as api:
        url = api.url
        api.reviews.users["good"] = PROMETHEUS
        api.reviews.allowed.add(("prometheus", "/metrics", "get"))
        client = ApiClient(url)
        async with client, at_work(folder, client, metrics_auth="token") as server:
            assert await server.status(GOOD) == 200
            await api.__aexit__(None, None, None)
            assert await server.status(GOOD) == 200
            assert await server.status("Bearer another") == 503
            await server.clock.advance(metrics_access.ALLOWED_SECONDS)
            assert await server.status(GOOD) == 503


# --- what is remembered ---


async def test_answers_are_remembered_for_a_short_time(folder: Path, reviewing: FakeApi) -> None:
    async with at_work(folder, reviewing.client(), metrics_auth="token") as server:
        for _ in range(3):
            assert [await server.status(f"Bearer {token}") for token in ("good", "other", "bad")] == [200, 403, 401]
        assert reviews(reviewing) == (3, 2)
        reviewing.reviews.allowed = {("eve", "/metrics", "get")}
        await server.clock.advance(metrics_access.REFUSED_SECONDS)
        assert [await server.status(f"Bearer {token}") for token in ("good", "other")] == [200, 200]
        await server.clock.advance(metrics_access.ALLOWED_SECONDS - metrics_access.REFUSED_SECONDS)
        assert [await server.status(f"Bearer {token}") for token in ("good", "other")] == [403, 200]


async def test_strangers_fill_no_memory_and_push_nobody_out_who_comes_often(
    reviewing: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_access, "MAX_KNOWN", 3)
    access = metrics_access.MetricsAccess(VirtualClock())
    access.client = reviewing.client()
    for n in range(8):
        assert await access.judge(GOOD) == 200
        assert await access.judge(f"Bearer made-up-{n}") == 401
    assert len(access._known) == 3
    assert reviews(reviewing) == (9, 1)
    assert await access.judge("Bearer made-up-0") == 401
    assert reviews(reviewing) == (10, 1), "forgotten, and asked about again"
    assert not any(b"good" in key or b"made-up" in key for key in access._known)


async def test_few_are_reviewed_at_once_and_who_waited_hears_what_was_said_meanwhile(reviewing: FakeApi) -> None:
    access = metrics_access.MetricsAccess(VirtualClock())
    access.client = reviewing.client()
    reviewing.hang(path="tokenreviews", times=1000)
    asked = [asyncio.create_task(access.judge(f"Bearer made-up-{n}")) for n in range(20)]
    asked += [asyncio.create_task(access.judge(GOOD)) for _ in range(5)]
    await eventually(lambda: reviews(reviewing)[0] == metrics_access.MAX_REVIEWS)
    for _ in range(50):
        await asyncio.sleep(0)
    assert reviews(reviewing)[0] == metrics_access.MAX_REVIEWS
    reviewing.heal()
    verdicts = await asyncio.gather(*asked)
    assert verdicts[:20] == [503] * metrics_access.MAX_REVIEWS + [401] * 16
    assert verdicts[20:] == [200] * 5
    assert reviews(reviewing)[1] <= metrics_access.MAX_REVIEWS, "the fifth began after one of the others had ended"


# --- in a service ---


@asynccontextmanager
async def serving(
    api: FakeApi, made: ServiceSettings, logs: list[MutableMapping[str, Any]]
) -> AsyncIterator[tuple[int, int | None]]:
    """The ports of the probes and of /metrics, of a service at work."""
    contexts: list[ServiceContext[ServiceSettings]] = []

    async def connect() -> ApiClient:
        return api.client()

    async def main(_context: ServiceContext[ServiceSettings]) -> None:
        await asyncio.Event().wait()

    task = asyncio.create_task(serve("test", made, main, connect=connect, started=contexts.append))
    await eventually(lambda: bool(contexts) or task.done())
    own = [entry["port"] for entry in logs if entry["event"] == "metrics listen"]
    try:
        yield contexts[0].probes.port, own[0] if own else None
    finally:
        os.kill(os.getpid(), signal.SIGTERM)
        assert await asyncio.wait_for(task, PATIENCE) == 0


async def test_a_service_serves_them_there_and_nowhere_else(
    folder: Path, reviewing: FakeApi, logs: list[MutableMapping[str, Any]]
) -> None:
    made = settings(folder, metrics_auth="token")
    async with serving(reviewing, made, logs) as (probes, own), aiohttp.ClientSession() as session:
        for path, status in {"/healthz": 200, "/readyz": 200, "/metrics": 404}.items():
            async with session.get(f"http://127.0.0.1:{probes}{path}") as answer:
                assert (path, answer.status) == (path, status)
        for headers, status in (({"Authorization": GOOD}, 200), ({}, 401)):
            url = f"https://localhost:{own}/metrics"
            async with session.get(url, headers=headers, ssl=trusting()) as answer:
                assert answer.status == status


async def test_by_default_they_are_beside_the_probes(api: FakeApi, logs: list[MutableMapping[str, Any]]) -> None:
    async with serving(api, ServiceSettings(health_address="127.0.0.1", health_port=0), logs) as (probes, own):
        assert own is None
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{probes}/metrics") as answer:
            assert answer.status == 200


def test_the_webhook_has_a_port_for_each() -> None:
    with pytest.raises(ValueError, match="port and metrics-port must differ"):
        WebhookSettings(metrics_tls_folder="/tls", port=8443)
    assert WebhookSettings(port=8443).metrics_port == 8443, "not used without TLS"
