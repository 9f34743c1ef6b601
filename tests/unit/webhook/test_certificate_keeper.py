"""Certificates kept by two replicas, against the API server in memory; and those of a mounted folder."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import structlog
from scavenger_runtime import tls
from scavenger_runtime.clock import SystemClock
from scavenger_testing.fake_api import FakeApi
from scavenger_webhook.certificate_issuer import new_authority, new_serving
from scavenger_webhook.certificate_keeper import (
    ANNOTATION_ROTATE_BEFORE,
    CONFIGURATION_NAME,
    FolderKeeper,
    SecretKeeper,
)
from scavenger_webhook.core.certificates import Bundle, CertificateRules
from scavenger_webhook.facts import CONFIGURATIONS, SECRETS
from scavenger_webhook.writer import SECRET_NAME

from .builders import Object
from .waiting import running, until

NAMESPACE = "scavenger-system"
RULES = CertificateRules(("localhost",), overlap=0.05)


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


async def test_two_replicas_agree_on_one_authority_through_every_step() -> None:
    async with FakeApi() as api:
        furnish(api)
        one, other = keeper(api), keeper(api)
        async with at_work(one), at_work(other):
            await until(
                "both ready", lambda: one.ready.is_set() and other.ready.is_set() and one.injected and other.injected
            )
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
            await until("and everybody trusts it", lambda: injected(api) == {trusted(api)})
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
                await until("ready", lambda: made.injected)
                first = stored(api)
                assert first is not None
                ask(api, mistyped)
                await until("said", said)
                assert await made.reconcile() is False
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
            await until("ready", lambda: made.injected)
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
            await until("trusted", lambda: made.injected)

            def forget(obj: Object) -> None:
                obj["webhooks"][1]["clientConfig"].pop("caBundle")

            api.edit(CONFIGURATIONS[0], None, CONFIGURATION_NAME, forget)
            await until("trusted again", lambda: injected(api) == {trusted(api)})


def test_mounted_certificates_are_read_again_when_they_change(tmp_path: Path) -> None:
    context = tls.server_context()
    made = FolderKeeper(str(tmp_path), SystemClock(), context)
    made.poll()
    assert not made.ready.is_set()
    assert str(tmp_path) in made.problem
    now = SystemClock().now()
    authority = new_authority(now, RULES)
    for _ in range(2):
        serving = new_serving(authority, now, RULES)
        (tmp_path / "tls.crt").write_bytes(serving.certificate)
        (tmp_path / "tls.key").write_bytes(serving.key)
        made.poll()
        assert made.ready.is_set()
        assert made.loaded == serving.certificate
    (tmp_path / "tls.key").write_bytes(authority.key)
    (tmp_path / "tls.crt").write_bytes(authority.certificate + b"x")
    made.poll()
    (tmp_path / "tls.key").write_bytes(b"")
    (tmp_path / "tls.crt").write_bytes(b"rubbish")
    made.poll()
    assert "no certificate from" in made.problem
