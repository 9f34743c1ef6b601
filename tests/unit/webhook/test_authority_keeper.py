"""A serving certificate by the chart's authority, against the API server in memory: nothing of it is written."""

from __future__ import annotations

import base64
import dataclasses
import ssl
from datetime import datetime, timedelta
from typing import Any

import pytest
import structlog
from scavenger_runtime import tls
from scavenger_runtime.clock import SystemClock
from scavenger_testing.certificates import new_authority
from scavenger_testing.fake_api import FakeApi
from scavenger_webhook.authority_keeper import AUTHORITY_SECRET, AuthorityKeeper
from scavenger_webhook.certificate_issuer import new_serving
from scavenger_webhook.core.certificates import CertificateRules, KeyPair, serving_is_due
from scavenger_webhook.facts import SECRETS

from .waiting import running, until

NAMESPACE = "scavenger-system"
RULES = CertificateRules(("localhost",))
DAY = timedelta(days=1)


def furnish(api: FakeApi, authority: KeyPair, **more: str) -> None:
    """What the chart installs."""
    pair = {"ca.crt": authority.certificate, "ca.key": authority.key}
    data = {name: base64.b64encode(value).decode() for name, value in pair.items()}
    api.put(SECRETS, {"metadata": {"name": AUTHORITY_SECRET, "namespace": NAMESPACE}, "data": {**data, **more}})


def replace(api: FakeApi, authority: KeyPair) -> None:
    pair = {"ca.crt": authority.certificate, "ca.key": authority.key}
    data = {name: base64.b64encode(value).decode() for name, value in pair.items()}
    api.edit(SECRETS, NAMESPACE, AUTHORITY_SECRET, lambda o: o.update(data=data))


def keeper(api: FakeApi, context: ssl.SSLContext | None = None) -> AuthorityKeeper:
    return AuthorityKeeper(api.client(), NAMESPACE, RULES, SystemClock(), context or tls.server_context())


def at_work(made: AuthorityKeeper) -> Any:
    return running(*(informer.run() for informer in made.informers), made.run())


def authority(now: datetime | None = None) -> KeyPair:
    return new_authority(now or SystemClock().now())


def signed(made: AuthorityKeeper, by: KeyPair) -> bool:
    return made.serving is not None and made.serving.signed_by(by)


async def test_each_replica_signs_its_own_certificate_and_writes_nothing() -> None:
    first, second = authority(), authority()
    async with FakeApi(listens=False) as api:
        furnish(api, first)
        one, other = keeper(api), keeper(api)
        async with at_work(one), at_work(other):
            await until("both ready", lambda: one.ready.is_set() and other.ready.is_set())
            assert signed(one, first)
            assert signed(other, first)
            assert one.serving != other.serving
            replace(api, second)
            await until("both follow", lambda: signed(one, second) and signed(other, second))
        assert [api.count(method) for method in ("PUT", "PATCH", "POST", "DELETE")] == [0, 0, 0, 0]


async def test_the_next_authority_signs_nothing_before_it_is_promoted() -> None:
    present, following = authority(), authority()
    async with FakeApi(listens=False) as api:
        furnish(api, present)
        made = keeper(api)
        async with at_work(made):
            await until("ready", made.ready.is_set)
            before = made.serving

            def prepare(obj: dict[str, Any]) -> None:
                obj["data"]["next-ca.crt"] = base64.b64encode(following.certificate).decode()
                obj["data"]["next-ca.key"] = base64.b64encode(following.key).decode()

            api.edit(SECRETS, NAMESPACE, AUTHORITY_SECRET, prepare)
            await until("seen", lambda: "next-ca.crt" in next(iter(made.secrets.items())).data)
            made.reconcile()
            assert made.serving == before
            replace(api, following)
            await until("promoted", lambda: signed(made, following))


async def test_without_the_secret_it_says_what_to_do_and_takes_it_up_when_it_comes() -> None:
    given = authority()
    async with FakeApi(listens=False) as api:
        made = keeper(api)
        async with at_work(made):
            await until("said", lambda: f"{NAMESPACE}/{AUTHORITY_SECRET} is missing" in made.problem)
            assert not made.ready.is_set()
            furnish(api, given)
            await until("ready", made.ready.is_set)
            assert signed(made, given)


@pytest.mark.parametrize("damage", [None, {}, {"ca.crt": "!", "ca.key": "eA=="}, {"ca.crt": "eA==", "ca.key": "eA=="}])
async def test_what_is_in_use_outlives_a_secret_that_is_lost_or_damaged(damage: dict[str, str] | None) -> None:
    given = authority()
    async with FakeApi(listens=False) as api:
        furnish(api, given)
        made = keeper(api)
        with structlog.testing.capture_logs() as lines:
            async with at_work(made):
                await until("ready", made.ready.is_set)
                before = made.serving
                if damage is None:
                    api.remove(SECRETS, NAMESPACE, AUTHORITY_SECRET)
                else:
                    api.edit(SECRETS, NAMESPACE, AUTHORITY_SECRET, lambda o: o.update(data=dict(damage)))
                await until("said", lambda: AUTHORITY_SECRET in made.problem)
                made.reconcile()
                assert made.serving == before
        assert len([line for line in lines if line["event"] == "certificate authority"]) == 1


@pytest.mark.parametrize(("age", "word", "ready"), [(300, "ends at", True), (366, "ended at", False)])
async def test_an_old_authority_is_said_in_time_and_one_that_ended_signs_nothing(
    age: int, word: str, ready: bool
) -> None:
    async with FakeApi(listens=False) as api:
        furnish(api, authority(SystemClock().now() - age * DAY))
        made = keeper(api)
        async with at_work(made):
            await until("said", lambda: word in made.problem)
            assert made.ready.is_set() is ready


def test_when_a_serving_certificate_is_due() -> None:
    now = SystemClock().now()
    mine, other = authority(now), authority(now)
    serving = new_serving(mine, now, RULES)

    assert serving_is_due(None, mine, now, RULES)
    assert not serving_is_due(serving, mine, now, RULES)
    assert not serving_is_due(serving, mine, now + 59 * DAY, RULES)
    assert serving_is_due(serving, mine, now + 61 * DAY, RULES)
    assert serving_is_due(serving, other, now, RULES)
    assert serving_is_due(serving, mine, now, dataclasses.replace(RULES, names=("elsewhere",)))
