"""The shell on an API server in memory: facts from caches, certificates by two replicas, TLS over a real socket."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import structlog
from scavenger_api import names
from scavenger_api.evictions import ANNOTATION_EVICTION_REASON
from scavenger_kube.resources import NODES
from scavenger_runtime.clock import SystemClock
from scavenger_testing.fake_api import FakeApi
from scavenger_webhook import tls
from scavenger_webhook.app import MUTATE_PODS, VALIDATE_JOBS, Limits, create_app
from scavenger_webhook.certificates import Bundle, CertificateRules, new_authority, new_serving
from scavenger_webhook.keeper import (
    ANNOTATION_ROTATE_BEFORE,
    CONFIGURATION_NAME,
    SECRET_NAME,
    FolderKeeper,
    SecretKeeper,
)
from scavenger_webhook.observe import CONFIGURATIONS, PRIORITYCLASSES, SCAVENGERQUEUES, SECRETS
from scavenger_webhook.server import TlsServer
from scavenger_webhook.settings import WebhookSettings
from scavenger_webhook.shell import ClusterView
from scavenger_webhook.snapshot import LOW_PRIORITY, SCAVENGER_CLASSES, Rules

from .cases import Object, facts, job, pod, raw, request

NAMESPACE = "scavenger-system"
RULES = CertificateRules(("localhost",), overlap=0.05)


async def until(what: str, condition: Callable[[], Any], seconds: float = 20) -> None:
    for _ in range(int(seconds * 100)):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"not within {seconds:g} s: {what}")


@asynccontextmanager
async def running(*work: Any) -> AsyncIterator[None]:
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def furnish(api: FakeApi) -> None:
    """What the chart installs."""
    api.put(SECRETS, {"metadata": {"name": SECRET_NAME, "namespace": NAMESPACE}, "data": {"mine": "eA=="}})
    for resource in CONFIGURATIONS:
        hooks = [{"name": f"{n}.scavenger.dev", "clientConfig": {"service": {"name": "x"}}} for n in ("a", "b")]
        api.put(resource, {"metadata": {"name": CONFIGURATION_NAME}, "webhooks": hooks})


def keeper(api: FakeApi) -> SecretKeeper:
    return SecretKeeper(api.client(), NAMESPACE, RULES, SystemClock(), tls.server_context())


def at_work(made: SecretKeeper) -> Any:
    return running(*(informer.run() for informer in made.informers), made.run())


def stored(api: FakeApi) -> Bundle | None:
    return Bundle.from_data((api.get(SECRETS, NAMESPACE, SECRET_NAME) or {}).get("data") or {})


def trusted(api: FakeApi) -> bytes:
    bundle = stored(api)
    assert bundle is not None
    return bundle.trusted


def secret(api: FakeApi) -> dict[str, str]:
    found = api.get(SECRETS, NAMESPACE, SECRET_NAME)
    assert found is not None
    return dict(found["data"])


def injected(api: FakeApi) -> set[bytes]:
    hooks = [hook for resource in CONFIGURATIONS for hook in api.list(resource)[0]["webhooks"]]
    return {base64.b64decode(hook["clientConfig"].get("caBundle", "")) for hook in hooks}


# --- certificates ---


async def test_two_replicas_agree_on_one_authority_through_every_step() -> None:
    async with FakeApi() as api:
        furnish(api)
        one, other = keeper(api), keeper(api)
        async with at_work(one), at_work(other):
            await until("both ready", lambda: one.ready.is_set() and other.ready.is_set() and one.told and other.told)
            first = stored(api)
            assert first is not None
            assert one.bundle == other.bundle == first
            assert injected(api) == {first.trusted}
            soon = SystemClock().now().isoformat()
            api.edit(
                SECRETS,
                NAMESPACE,
                SECRET_NAME,
                lambda o: o["metadata"].update(annotations={ANNOTATION_ROTATE_BEFORE: soon}),
            )
            await until("the next one signs", lambda: (stored(api) or first).authority != first.authority)
            await until("the old one retires", lambda: (stored(api) or first).previous is None)
            await until("both follow", lambda: one.bundle == other.bundle == stored(api))
            await until("and everybody is told", lambda: injected(api) == {trusted(api)})
        assert secret(api)["mine"] == "eA=="


@pytest.mark.parametrize(
    "mistyped", ["tomorrow", "2026-13-01T00:00:00Z", "2026-01-02T03:04:05"]
)  # the last: which zone?
async def test_a_mistyped_rotation_time_is_said_once_and_the_rotation_goes_on(mistyped: str) -> None:
    def ask(api: FakeApi, moment: str) -> None:
        changed = {ANNOTATION_ROTATE_BEFORE: moment}
        api.edit(SECRETS, NAMESPACE, SECRET_NAME, lambda o: o["metadata"].update(annotations=changed))

    async with FakeApi() as api:
        furnish(api)
        made = keeper(api)
        with structlog.testing.capture_logs() as lines:

            def said() -> list[Any]:
                return [line for line in lines if line.get("annotation") == ANNOTATION_ROTATE_BEFORE]

            async with at_work(made):
                await until("ready", lambda: made.told)
                first = stored(api)
                assert first is not None
                ask(api, mistyped)
                await until("said", said)
                assert await made.look() is False
                assert stored(api) == first
                assert [(line["log_level"], line["value"]) for line in said()] == [("warning", mistyped)]
                assert said()[0]["secret"] == f"{NAMESPACE}/{SECRET_NAME}"
                assert "2026-01-02T03:04:05Z" in said()[0]["remedy"]
                ask(api, SystemClock().now().isoformat())
                await until("rotated", lambda: (stored(api) or first).authority != first.authority)
                ask(api, mistyped)
                await until("said again", lambda: len(said()) == 2)


async def test_a_certificate_that_is_there_is_taken_up_as_it_is() -> None:
    async with FakeApi() as api:
        furnish(api)
        now = SystemClock().now()
        authority = new_authority(now, RULES)
        bundle = Bundle(authority, new_serving(authority, now, RULES))
        api.edit(SECRETS, NAMESPACE, SECRET_NAME, lambda o: o.update(data=bundle.to_data()))
        made = keeper(api)
        async with at_work(made):
            await until("ready", made.ready.is_set)
        assert stored(api) == bundle
        assert api.count("PUT", SECRET_NAME) == 0


@pytest.mark.parametrize("damage", [{}, {"tls.crt": "!", "ca.crt": "eA=="}])
async def test_a_damaged_secret_is_mended_with_what_is_in_use(damage: dict[str, str]) -> None:
    async with FakeApi() as api:
        furnish(api)
        made = keeper(api)
        async with at_work(made):
            await until("ready", lambda: made.told)
            before = stored(api)
            api.edit(SECRETS, NAMESPACE, SECRET_NAME, lambda o: o.update(data=dict(damage)))
            await until("mended", lambda: "tls.key" in secret(api))
            assert stored(api) == before


async def test_a_missing_secret_says_what_to_do() -> None:
    async with FakeApi() as api:
        made = keeper(api)
        async with at_work(made):
            await until("said", lambda: "install the chart again" in made.problem)
        assert not made.ready.is_set()


async def test_a_configuration_that_loses_its_ca_bundle_gets_it_back() -> None:
    async with FakeApi() as api:
        furnish(api)
        made = keeper(api)
        async with at_work(made):
            await until("told", lambda: made.told)

            def forget(obj: Object) -> None:
                obj["webhooks"][1]["clientConfig"].pop("caBundle")

            api.edit(CONFIGURATIONS[0], None, CONFIGURATION_NAME, forget)
            await until("told again", lambda: injected(api) == {trusted(api)})


def test_mounted_certificates_are_read_again_when_they_change(tmp_path: Path) -> None:
    context = tls.server_context()
    made = FolderKeeper(str(tmp_path), SystemClock(), context)
    made.look()
    assert not made.ready.is_set()
    assert str(tmp_path) in made.problem
    now = SystemClock().now()
    authority = new_authority(now, RULES)
    for _ in range(2):
        serving = new_serving(authority, now, RULES)
        (tmp_path / "tls.crt").write_bytes(serving.certificate)
        (tmp_path / "tls.key").write_bytes(serving.key)
        made.look()
        assert made.ready.is_set()
        assert made.loaded == serving.certificate
    (tmp_path / "tls.key").write_bytes(authority.key)
    (tmp_path / "tls.crt").write_bytes(authority.certificate + b"x")
    made.look()
    (tmp_path / "tls.key").write_bytes(b"")
    (tmp_path / "tls.crt").write_bytes(b"rubbish")
    made.look()
    assert "no certificate from" in made.problem


# --- the server ---


async def test_a_connection_outlives_a_new_certificate_and_new_ones_meet_it() -> None:
    now = SystemClock().now()
    authority = new_authority(now, RULES)
    first, second = (new_serving(authority, now, RULES) for _ in range(2))
    context = tls.server_context()
    tls.load(context, first.certificate, first.key)

    async def known(_request: Any) -> Any:
        return facts()

    server = TlsServer(create_app(known), context, address="127.0.0.1", port=0)
    client = ssl.create_default_context(cadata=authority.certificate.decode())

    async def ask(session: aiohttp.ClientSession) -> None:
        url = f"https://localhost:{server.port}{MUTATE_PODS}"
        async with session.post(url, json=raw("pods", pod(priority=0)), ssl=client) as answer:
            assert (await answer.json())["response"]["allowed"]

    async with running(server.run(0)):
        await until("serving", lambda: server.serving)
        async with aiohttp.ClientSession() as old, aiohttp.ClientSession() as new:
            await ask(old)
            kept = [id(c) for c in _connections(old)]
            tls.load(context, second.certificate, second.key)
            await ask(old)
            assert [id(c) for c in _connections(old)] == kept, "not dropped"
            await ask(new)
            serials = [_serial(connection) for connection in (*_connections(old), *_connections(new))]
            assert serials == [first.x509.serial_number, second.x509.serial_number]
        await asyncio.sleep(0.05)  # TLS connections take leave of each other
    assert not server.serving


NO_HTTP = [
    b"rubbish\r\n\r\n",
    b"POST /mutate/pods HTTP/9.9\r\n\r\n",
    b"POST /mutate/pods HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    b"POST /mutate/pods HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"POST /mutate/pods HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{",
    b"POST /mutate/pods HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 99999999\r\n\r\n",
]


async def test_what_is_no_http_is_turned_away_soon() -> None:
    now = SystemClock().now()
    authority = new_authority(now, RULES)
    serving = new_serving(authority, now, RULES)
    context = tls.server_context()
    tls.load(context, serving.certificate, serving.key)

    async def known(_request: Any) -> Any:
        return facts()

    server = TlsServer(create_app(known, Limits(body_timeout=0.1)), context, address="127.0.0.1", port=0)
    client = ssl.create_default_context(cadata=authority.certificate.decode())

    async def first_line(sent: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("localhost", server.port, ssl=client)
        writer.write(sent)
        async with asyncio.timeout(10):
            line = await reader.readline()
        writer.close()
        await writer.wait_closed()
        return line

    async with running(server.run(0)):
        await until("serving", lambda: server.serving)
        lines = await asyncio.gather(*(first_line(sent) for sent in NO_HTTP))
        await asyncio.sleep(0.05)  # TLS connections take leave of each other
    assert [line for line in lines if line and not line.split()[1].startswith(b"4")] == []


def _connections(session: aiohttp.ClientSession) -> list[Any]:
    assert session.connector is not None
    return [entry[0] for entries in session.connector._conns.values() for entry in entries]


def _serial(connection: Any) -> int:
    found = connection.transport.get_extra_info("ssl_object").getpeercert()
    return int(found["serialNumber"], 16)


# --- facts ---


async def test_facts_are_what_the_caches_hold_and_new_queues_are_asked_for() -> None:
    async with FakeApi() as api:
        api.put(PRIORITYCLASSES, {"metadata": {"name": "ordinary-workload"}, "value": 1000})
        api.put(SCAVENGERQUEUES, {"metadata": {"name": "small"}, "spec": {"quota": {"cpu": "1500m", "memory": "1Gi"}}})
        api.put(
            NODES, {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "x": "bad"}}}
        )
        view = ClusterView(api.client(), Rules(), SystemClock())
        asked = request("scavengerjobs", job(queue="late"))
        assert await view.facts_for(asked) is None, "nothing is known yet"
        async with running(*(informer.run() for informer in view.informers)):
            await asyncio.gather(*(informer.wait_synced() for informer in view.informers))
            found = await view.facts_for(request("pods", pod()))
            assert found is not None
            assert found.queues["small"].quota == {"cpu": 1500, "memory": 2**30}
            assert found.nodes[0].allocatable == {"cpu": 4000, "memory": 8 * 2**30}
            assert found.priority_classes["ordinary-workload"].preemption_policy == "PreemptLowerPriority"

            before = api.count("GET", "scavengerqueues/late")
            for _ in range(3):
                known = await view.facts_for(asked)
                assert known is not None
                assert known.queue("late") is None
            assert api.count("GET", "scavengerqueues/late") == before + 1, "not asked for again within a second"

            api.close_watches()
            api.put(SCAVENGERQUEUES, {"metadata": {"name": "newer"}, "spec": {}})
            fresh = await view.facts_for(request("scavengerjobs", job(queue="newer")))
            assert fresh is not None
            assert fresh.queue("newer") is not None

            api.remove(NODES, None, "n")
            await until("the node is gone", lambda: view.facts().nodes == ())


@pytest.mark.parametrize("name", ["../nodes", "A", "", "x" * 64, 7, None])
async def test_no_path_is_made_of_what_is_no_name(name: object) -> None:
    async with FakeApi() as api:
        view = ClusterView(api.client(), Rules(), SystemClock())
        async with running(*(informer.run() for informer in view.informers)):
            await asyncio.gather(*(informer.wait_synced() for informer in view.informers))
            seen = len(api.requests)
            await view.facts_for(request("scavengerjobs", job(queue=name)))
            assert [r.path for r in api.requests[seen:] if "watch" not in r.query] == []


# --- settings ---


def test_settings_say_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        WebhookSettings.load(["--shutdown-delay=30", "--shutdown-timeout=10"])
    assert "shutdown-timeout > shutdown-delay" in capsys.readouterr().err
    made = WebhookSettings.load(["--namespace=elsewhere", "--tls-names=127.0.0.1,me", "--low-priority=warn"])
    assert made.certificate_rules().names[0] == "scavenger-webhook-admission.elsewhere.svc"
    assert made.certificate_rules().names[-2:] == ("127.0.0.1", "me")
    assert made.rules().low_priority == "warn"


def test_configurations_and_policies_name_what_the_code_names() -> None:
    folder = Path(__file__).resolve().parents[3] / "manifests" / "webhook"
    configurations = (folder / "configurations.yaml").read_text()
    assert f"path: {MUTATE_PODS}\n" in configurations
    assert f"path: {VALIDATE_JOBS}\n" in configurations
    assert f"object.spec.priority <= {LOW_PRIORITY})" in configurations
    assert f"name: {SECRET_NAME}\n" in (folder / "secret.yaml").read_text()
    policies = (folder / "policies.yaml").read_text()
    for text in (configurations, policies):
        assert all(f"'{name}'" in text for name in SCAVENGER_CLASSES)
    marks = (names.FINALIZER, names.LABEL_PREEMPTION_CLASS, names.ANNOTATION_RUNNING_PRIORITY, names.ANNOTATION_RUN)
    for mark in (*marks, ANNOTATION_EVICTION_REASON):
        assert f"'{mark}'" in policies
