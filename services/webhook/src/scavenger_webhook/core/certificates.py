"""Certificates: an authority of our own, the serving certificate, and which step leads from one to the next.

A new authority is used in three steps, so that at no moment an API server meets a certificate that it does not trust:

1. Prepare: the next authority is made and put into the caBundle beside the present one.
2. Promote, once it has been trusted for a while: it signs a new serving certificate; the old authority stays trusted.
3. Retire: nobody serves the old one's certificate any more, and it leaves the caBundle.

`plan_step` says which step is due; `certificate_issuer.take_step` takes it, as keys are random.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cached_property
from typing import Final, Self

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

BACKDATE: Final = timedelta(minutes=5)
"""Certificates are valid from a little before they are made: clocks differ."""

RENEW_AFTER: Final = 2 / 3
"""Part of its life after which a certificate is replaced."""

AUTHORITY_CERTIFICATE: Final = "ca.crt"
AUTHORITY_KEY: Final = "ca.key"
NEXT_CERTIFICATE: Final = "next-ca.crt"
NEXT_KEY: Final = "next-ca.key"
PREVIOUS_CERTIFICATE: Final = "previous-ca.crt"
SERVING_CERTIFICATE: Final = "tls.crt"
SERVING_KEY: Final = "tls.key"

DATA_KEYS: Final = frozenset(
    {
        AUTHORITY_CERTIFICATE,
        AUTHORITY_KEY,
        NEXT_CERTIFICATE,
        NEXT_KEY,
        PREVIOUS_CERTIFICATE,
        SERVING_CERTIFICATE,
        SERVING_KEY,
    }
)
"""What of `data` of the Secret is ours."""


class CertificateError(ValueError):
    """Not a certificate with its key; the message says which part."""


@dataclass(frozen=True)
class KeyPair:
    """A certificate and its private key, both PEM. Raises CertificateError for anything else."""

    certificate: bytes
    key: bytes = dataclasses.field(repr=False)

    def __post_init__(self) -> None:
        try:
            belongs = self.private_key.public_key() == self.x509.public_key()
        except (ValueError, TypeError) as error:
            raise CertificateError(f"not a certificate with its key: {error}") from None
        if not belongs:
            raise CertificateError("the key is not that of the certificate")

    @cached_property
    def x509(self) -> x509.Certificate:
        """The certificate, parsed."""
        return x509.load_pem_x509_certificate(self.certificate)

    @cached_property
    def private_key(self) -> ec.EllipticCurvePrivateKey:
        """The key, parsed. Raises ValueError for one that is not on an elliptic curve: not made here."""
        key = serialization.load_pem_private_key(self.key, password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("not an elliptic-curve key")
        return key

    @property
    def made_at(self) -> datetime:
        """When it was made."""
        return self.x509.not_valid_before_utc + BACKDATE

    @property
    def expires_at(self) -> datetime:
        """When it ends to be valid."""
        return self.x509.not_valid_after_utc

    @property
    def renew_at(self) -> datetime:
        """When it is time for the next one."""
        return self.made_at + (self.expires_at - self.made_at) * RENEW_AFTER

    def names(self) -> frozenset[str]:
        """DNS names and addresses it is for."""
        try:
            found = self.x509.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except x509.ExtensionNotFound:
            return frozenset()
        addresses = map(str, found.get_values_for_type(x509.IPAddress))
        return frozenset([*found.get_values_for_type(x509.DNSName), *addresses])

    def signed_by(self, authority: KeyPair) -> bool:
        """Whether that authority has signed it."""
        try:
            self.x509.verify_directly_issued_by(authority.x509)
        except (ValueError, TypeError, InvalidSignature):
            return False
        return True


def authority_from_data(data: Mapping[str, str]) -> KeyPair:
    """The authority in `data` of a Secret that somebody else keeps. Raises CertificateError."""
    try:
        certificate, key = (
            base64.b64decode(data.get(name, ""), validate=True) for name in (AUTHORITY_CERTIFICATE, AUTHORITY_KEY)
        )
    except binascii.Error as error:
        raise CertificateError(f"not base64: {error}") from None
    return KeyPair(certificate, key)


@dataclass(frozen=True)
class Bundle:
    """Everything that the Secret holds."""

    authority: KeyPair
    serving: KeyPair
    next: KeyPair | None = None
    previous: bytes | None = None
    """The certificate of the authority before, without its key."""

    @property
    def trusted(self) -> bytes:
        """The caBundle: every authority whose certificates an API server may meet."""
        parts = [self.authority.certificate, self.next.certificate if self.next else b"", self.previous or b""]
        return b"".join(parts)

    def to_data(self) -> dict[str, str]:
        """`data` of the Secret."""
        found = {
            AUTHORITY_CERTIFICATE: self.authority.certificate,
            AUTHORITY_KEY: self.authority.key,
            SERVING_CERTIFICATE: self.serving.certificate,
            SERVING_KEY: self.serving.key,
        }
        if self.next is not None:
            found |= {NEXT_CERTIFICATE: self.next.certificate, NEXT_KEY: self.next.key}
        if self.previous is not None:
            found |= {PREVIOUS_CERTIFICATE: self.previous}
        return {name: base64.b64encode(value).decode() for name, value in found.items()}

    @classmethod
    def from_data(cls, data: Mapping[str, str]) -> Self | None:
        """The bundle in `data` of a Secret; None where it holds none yet.

        Raises:
            CertificateError: when what it holds cannot be used.
        """
        if not data.get(AUTHORITY_CERTIFICATE) and not data.get(SERVING_CERTIFICATE):
            return None
        try:
            read = {name: base64.b64decode(value or "", validate=True) for name, value in data.items()}
        except binascii.Error as error:
            raise CertificateError(f"not base64: {error}") from None
        previous = read.get(PREVIOUS_CERTIFICATE) or None
        if previous is not None:
            _check_certificates(previous)
        following = None
        if read.get(NEXT_CERTIFICATE):
            following = KeyPair(read[NEXT_CERTIFICATE], read.get(NEXT_KEY, b""))
        return cls(
            KeyPair(read.get(AUTHORITY_CERTIFICATE, b""), read.get(AUTHORITY_KEY, b"")),
            KeyPair(read.get(SERVING_CERTIFICATE, b""), read.get(SERVING_KEY, b"")),
            following,
            previous,
        )


def _check_certificates(pem: bytes) -> None:
    try:
        x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        raise CertificateError(f"{PREVIOUS_CERTIFICATE}: {error}") from None


@dataclass(frozen=True)
class CertificateRules:
    """What certificates are for, and how long they last (seconds). overlap: how long an authority is trusted before it
    is used, and after.
    """

    names: tuple[str, ...]
    authority_validity: float = 365 * 86400.0
    serving_validity: float = 90 * 86400.0
    overlap: float = 60.0


class Step(StrEnum):
    """What is to be done next."""

    NOTHING = "nothing"
    CREATE = "create"
    """There is nothing that can be used."""
    ISSUE = "issue"
    """A new serving certificate by the same authority."""
    PREPARE = "prepare"
    PROMOTE = "promote"
    RETIRE = "retire"


def plan_step(
    bundle: Bundle | None,
    now: datetime,
    rules: CertificateRules,
    *,
    trusted_for: float | None = None,
    rotate_before: datetime | None = None,
) -> Step:
    """The step that is due.

    Args:
        bundle: what the Secret holds, None for nothing of use.
        now: the time, with its zone.
        rules: names and lifetimes.
        trusted_for: seconds for which all configurations have trusted all of the bundle's authorities; None where
            they do not.
        rotate_before: the administrator wants everything replaced that was made before this moment.
    """
    if bundle is None or now >= bundle.authority.expires_at:
        return Step.CREATE if bundle is None or bundle.next is None else Step.PROMOTE
    due = rotate_before if rotate_before is not None and rotate_before <= now else None
    if bundle.next is not None:
        trusted = trusted_for is not None and trusted_for >= rules.overlap
        return Step.PROMOTE if trusted else _serving_step(bundle, now, rules)
    if now >= bundle.authority.renew_at or (due is not None and bundle.authority.made_at < due):
        return Step.PREPARE
    return _serving_step(bundle, now, rules)


def serving_is_due(serving: KeyPair | None, authority: KeyPair, now: datetime, rules: CertificateRules) -> bool:
    """Whether this authority has to sign a new serving certificate: there is none, it is another one's or for other
    names, or it has reached the age for it.
    """
    if serving is None or serving.names() != frozenset(rules.names) or not serving.signed_by(authority):
        return True
    return now >= serving.renew_at


def _serving_step(bundle: Bundle, now: datetime, rules: CertificateRules) -> Step:
    serving = bundle.serving
    if serving_is_due(serving, bundle.authority, now, rules):
        return Step.ISSUE
    if bundle.previous is not None and (now - serving.made_at).total_seconds() >= rules.overlap:
        return Step.RETIRE
    return Step.NOTHING
