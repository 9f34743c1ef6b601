"""Certificates: an authority of our own, the serving certificate, and how one follows the other.

A new authority is used in three steps, so that at no moment an API server meets a certificate that it does not trust:

1. Prepare: the next authority is made and put into the caBundle beside the present one.
2. Promote, once it has been trusted for a while: it signs a new serving certificate; the old authority stays trusted.
3. Retire: nobody serves the old one's certificate any more, and it leaves the caBundle.

`plan_step` says which step is due, `take_step` takes it. Time is passed in; only the keys are random.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cached_property
from typing import Final, Self

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

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


def _serving_step(bundle: Bundle, now: datetime, rules: CertificateRules) -> Step:
    serving = bundle.serving
    wrong = serving.names() != frozenset(rules.names) or not serving.signed_by(bundle.authority)
    if wrong or now >= serving.renew_at:
        return Step.ISSUE
    if bundle.previous is not None and (now - serving.made_at).total_seconds() >= rules.overlap:
        return Step.RETIRE
    return Step.NOTHING


def take_step(step: Step, bundle: Bundle | None, now: datetime, rules: CertificateRules) -> Bundle:
    """The bundle after a step. Raises ValueError for a step that needs what is not there."""
    if step is Step.CREATE:
        authority = new_authority(now, rules)
        return Bundle(authority, new_serving(authority, now, rules))
    if bundle is None:
        raise ValueError(f"{step} needs a bundle")
    if step is Step.ISSUE:
        return dataclasses.replace(bundle, serving=new_serving(bundle.authority, now, rules))
    if step is Step.PREPARE:
        return dataclasses.replace(bundle, next=new_authority(now, rules))
    if step is Step.RETIRE:
        return dataclasses.replace(bundle, previous=None)
    if step is Step.PROMOTE:
        if bundle.next is None:
            raise ValueError("promote needs a next authority")
        serving = new_serving(bundle.next, now, rules)
        return Bundle(bundle.next, serving, previous=bundle.authority.certificate)
    return bundle


def new_authority(now: datetime, rules: CertificateRules) -> KeyPair:
    """A certificate authority that signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    serial = x509.random_serial_number()
    # Two authorities are trusted side by side: with names of their own nobody takes one for the other.
    name = _name(f"scavenger-webhook-ca-{serial:x}"[:64])
    builder = _builder(name, name, key, serial, now, rules.authority_validity)
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(usage, critical=True)
    return _signed(builder, key, key)


def new_serving(authority: KeyPair, now: datetime, rules: CertificateRules) -> KeyPair:
    """A serving certificate for the rules' names, never longer valid than its authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    left = (authority.expires_at - now).total_seconds()
    builder = _builder(
        _name(rules.names[0][:64]),
        authority.x509.subject,
        key,
        x509.random_serial_number(),
        now,
        min(rules.serving_validity, left),
    )
    names = x509.SubjectAlternativeName([_general_name(name) for name in rules.names])
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    builder = builder.add_extension(names, critical=False)
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.private_key.public_key())
    builder = builder.add_extension(identifier, critical=False)
    return _signed(builder, key, authority.private_key)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    serial: int,
    now: datetime,
    seconds: float,
) -> x509.CertificateBuilder:
    made = now.astimezone(UTC).replace(microsecond=0)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(serial)
        .not_valid_before(made - BACKDATE)
        .not_valid_after(made + timedelta(seconds=max(1, int(seconds))))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _signed(
    builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey, signer: ec.EllipticCurvePrivateKey
) -> KeyPair:
    certificate = builder.sign(signer, hashes.SHA256())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return KeyPair(certificate.public_bytes(serialization.Encoding.PEM), private)


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
