"""Serving certificates: what they are for, how long they last, and who trusts them."""

from __future__ import annotations

import base64
import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from hypothesis import given, settings
from hypothesis import strategies as st
from scavenger_runtime import tls
from scavenger_testing.certificates import new_authority
from scavenger_webhook.certificate_issuer import new_serving
from scavenger_webhook.core.certificates import (
    CertificateError,
    CertificateRules,
    KeyPair,
    authority_from_data,
    serving_is_due,
)

from tests.unit.effort import examples

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
RULES = CertificateRules(("svc.ns.svc", "127.0.0.1"))


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
def authority() -> KeyPair:
    return new_authority(NOW)


def test_at_no_step_of_a_rotation_does_anybody_meet_a_certificate_they_do_not_trust() -> None:
    """The chart trusts both, has the next one sign, and trusts the old one no more."""
    now = datetime.now(UTC)
    old, following = new_authority(now), new_authority(now)
    before, after = new_serving(old, now, RULES), new_serving(following, now, RULES)
    both = old.certificate + following.certificate

    assert trusts(old.certificate, before)
    assert trusts(both, before)
    assert trusts(both, after)
    assert trusts(following.certificate, after)
    assert not trusts(old.certificate, after), "which is why both are trusted first"
    assert not trusts(following.certificate, before)


def test_another_name_needs_another_certificate(authority: KeyPair) -> None:
    moved = CertificateRules(("svc.elsewhere.svc",))

    assert serving_is_due(new_serving(authority, NOW, RULES), authority, NOW, moved)
    assert new_serving(authority, NOW, moved).names() == {"svc.elsewhere.svc"}


def test_a_serving_certificate_never_outlives_its_authority(authority: KeyPair) -> None:
    late = authority.expires_at - timedelta(days=3)

    assert new_serving(authority, late, RULES).expires_at == authority.expires_at


def test_names_and_uses(authority: KeyPair) -> None:
    serving = new_serving(authority, NOW, RULES)
    assert serving.names() == {"svc.ns.svc", "127.0.0.1"}
    assert not serving.x509.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


@pytest.mark.parametrize("broken", [{"ca.crt": "!"}, {"ca.crt": base64.b64encode(b"x").decode()}, {"ca.key": ""}])
def test_a_secret_that_cannot_be_used(authority: KeyPair, broken: dict[str, str]) -> None:
    data = {"ca.crt": authority.certificate, "ca.key": authority.key}
    whole = {name: base64.b64encode(value).decode() for name, value in data.items()}
    assert authority_from_data(whole) == authority
    with pytest.raises(CertificateError):
        authority_from_data(whole | broken)


def test_a_key_of_another_certificate_is_noticed(authority: KeyPair) -> None:
    serving, other = (new_serving(authority, NOW, RULES) for _ in range(2))
    with pytest.raises(CertificateError, match="not that of the certificate"):
        KeyPair(serving.certificate, other.key)
    with pytest.raises(ValueError, match="not a certificate with its key"):
        tls.load(tls.server_context(), serving.certificate, other.key)


def test_keys_are_not_shown(authority: KeyPair) -> None:
    assert "PRIVATE" not in repr(authority)


@given(st.lists(st.integers(min_value=1, max_value=120), min_size=1, max_size=12))
@settings(max_examples=examples(25))
def test_looked_at_in_whatever_rhythm_there_is_a_valid_certificate(hours: list[int]) -> None:
    rules = CertificateRules(("svc",), serving_validity=360 * 3600.0)
    now = NOW
    authority, serving = new_authority(now, 3650 * DAY), None
    for wait in hours:
        now += timedelta(hours=wait)
        if serving is None or serving_is_due(serving, authority, now, rules):
            serving = new_serving(authority, now, rules)
        assert not serving_is_due(serving, authority, now, rules)
        assert serving.x509.not_valid_before_utc <= now < serving.expires_at
