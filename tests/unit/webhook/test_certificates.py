"""Certificates: every step, what each is trusted by on the way, and that time alone leads through all of them."""

from __future__ import annotations

import base64
import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from hypothesis import given, settings
from hypothesis import strategies as st
from scavenger_runtime import tls
from scavenger_webhook.certificate_issuer import new_authority, new_serving, take_step
from scavenger_webhook.core.certificates import (
    Bundle,
    CertificateError,
    CertificateRules,
    KeyPair,
    Step,
    plan_step,
)

from tests.unit.effort import examples

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
RULES = CertificateRules(("svc.ns.svc", "127.0.0.1"))


def made(now: datetime = NOW) -> Bundle:
    return take_step(Step.CREATE, None, now, RULES)


def trusts(ca_bundle: bytes, serving: KeyPair) -> bool:
    """Whether a client that trusts `ca_bundle` accepts the certificate: a real handshake in memory."""
    client = ssl.create_default_context(cadata=ca_bundle.decode())
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    server = tls.server_context()
    tls.load(server, serving.certificate, serving.key)
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    near = client.wrap_bio(to_client, to_server, server_hostname="svc.ns.svc")
    far = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (near, far):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError:
                return False
    return True


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    return made()


@pytest.mark.parametrize(
    ("after", "trusted_for", "rotate", "step"),
    [
        (timedelta(0), None, None, Step.NOTHING),
        (59 * DAY, None, None, Step.NOTHING),
        (61 * DAY, None, None, Step.ISSUE),
        (244 * DAY, None, None, Step.PREPARE),
        (366 * DAY, None, None, Step.CREATE),
        (DAY, None, NOW + timedelta(hours=1), Step.PREPARE),
        (DAY, None, NOW + 2 * DAY, Step.NOTHING),
        (DAY, None, NOW - DAY, Step.NOTHING),
    ],
)
def test_what_is_due(
    bundle: Bundle, after: timedelta, trusted_for: float | None, rotate: datetime | None, step: Step
) -> None:
    assert plan_step(bundle, NOW + after, RULES, trusted_for=trusted_for, rotate_before=rotate) is step


def test_nothing_of_use_is_made_anew() -> None:
    assert plan_step(None, NOW, RULES) is Step.CREATE


@pytest.mark.parametrize(("trusted_for", "step"), [(None, Step.NOTHING), (59.0, Step.NOTHING), (60.0, Step.PROMOTE)])
def test_an_authority_is_used_once_it_has_been_trusted_for_a_while(
    bundle: Bundle, trusted_for: float | None, step: Step
) -> None:
    prepared = take_step(Step.PREPARE, bundle, NOW, RULES)

    assert plan_step(prepared, NOW, RULES, trusted_for=trusted_for) is step


def test_an_authority_that_ran_out_before_the_next_was_trusted_is_followed_at_once(bundle: Bundle) -> None:
    prepared = take_step(Step.PREPARE, bundle, NOW + 365 * DAY, RULES)

    assert plan_step(prepared, NOW + 366 * DAY, RULES) is Step.PROMOTE


def test_another_name_needs_another_certificate(bundle: Bundle) -> None:
    moved = CertificateRules(("svc.elsewhere.svc",))

    assert plan_step(bundle, NOW, moved) is Step.ISSUE
    assert take_step(Step.ISSUE, bundle, NOW, moved).serving.names() == {"svc.elsewhere.svc"}


def test_at_no_step_does_anybody_meet_a_certificate_they_do_not_trust() -> None:
    now = datetime.now(UTC)
    before = made(now)
    prepared = take_step(Step.PREPARE, before, now, RULES)
    promoted = take_step(Step.PROMOTE, prepared, now, RULES)
    retired = take_step(Step.RETIRE, promoted, now, RULES)

    assert prepared.serving == before.serving
    # the caBundle is written a moment after, and read a moment after that: the one of the step before must do as well
    for known, served in ((before, prepared), (prepared, prepared), (prepared, promoted), (promoted, promoted)):
        assert trusts(known.trusted, served.serving)
    assert trusts(retired.trusted, retired.serving)
    assert trusts(promoted.trusted, before.serving), "by a replica that has not reloaded yet"
    assert not trusts(before.trusted, promoted.serving), "which is why there is a step before"
    assert not trusts(retired.trusted, before.serving)


def test_a_serving_certificate_never_outlives_its_authority(bundle: Bundle) -> None:
    late = bundle.authority.expires_at - timedelta(days=3)

    assert new_serving(bundle.authority, late, RULES).expires_at == bundle.authority.expires_at


def test_names_and_uses(bundle: Bundle) -> None:
    serving = bundle.serving.x509
    assert bundle.serving.names() == {"svc.ns.svc", "127.0.0.1"}
    assert not serving.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert bundle.authority.x509.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert new_authority(NOW, RULES).x509.subject != bundle.authority.x509.subject


def test_the_secret_and_back(bundle: Bundle) -> None:
    for known in (bundle, take_step(Step.PREPARE, bundle, NOW, RULES)):
        assert Bundle.from_data(known.to_data()) == known
    promoted = take_step(Step.PROMOTE, take_step(Step.PREPARE, bundle, NOW, RULES), NOW, RULES)
    assert Bundle.from_data(promoted.to_data()) == promoted
    assert Bundle.from_data({}) is None
    assert Bundle.from_data({"ca.crt": "", "other": "eA=="}) is None


@pytest.mark.parametrize(
    "broken",
    [
        {"tls.crt": "!"},
        {"tls.crt": base64.b64encode(b"no certificate").decode()},
        {"tls.key": ""},
        {"previous-ca.crt": base64.b64encode(b"x").decode()},
        {"next-ca.crt": base64.b64encode(b"x").decode()},
    ],
)
def test_a_secret_that_cannot_be_used(bundle: Bundle, broken: dict[str, str]) -> None:
    with pytest.raises(CertificateError):
        Bundle.from_data(bundle.to_data() | broken)


def test_a_key_of_another_certificate_is_noticed(bundle: Bundle) -> None:
    other = new_serving(bundle.authority, NOW, RULES)
    with pytest.raises(CertificateError, match="not that of the certificate"):
        KeyPair(bundle.serving.certificate, other.key)
    with pytest.raises(ValueError, match="not a certificate with its key"):
        tls.load(tls.server_context(), bundle.serving.certificate, other.key)


def test_keys_are_not_shown(bundle: Bundle) -> None:
    assert "PRIVATE" not in repr(bundle)


@given(st.lists(st.integers(min_value=1, max_value=120), min_size=1, max_size=12))
@settings(max_examples=examples(25))
def test_time_alone_leads_through_all_steps(hours: list[int]) -> None:
    """Looked at in whatever rhythm, there is always a valid certificate by a trusted authority, and no step is repeated
    for ever."""
    short = CertificateRules(("svc",), authority_validity=240 * 3600.0, serving_validity=120 * 3600.0, overlap=60.0)
    now, bundle = NOW, take_step(Step.CREATE, None, NOW, short)
    for wait in hours:
        now += timedelta(hours=wait)
        for _ in range(6):
            step = plan_step(bundle, now, short, trusted_for=61.0)
            if step is Step.NOTHING:
                break
            bundle = take_step(step, bundle, now, short)
            now += timedelta(seconds=61)
        assert step is Step.NOTHING
        assert bundle.serving.x509.not_valid_before_utc <= now < bundle.serving.expires_at
        assert bundle.serving.signed_by(bundle.authority)
        assert bundle.next is None
        assert bundle.previous is None
