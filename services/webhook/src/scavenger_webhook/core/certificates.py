"""Certificates: the authority that another program keeps, and when it has to sign another serving certificate."""

from __future__ import annotations

import base64
import binascii
import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Final

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
    """The authority in `data` of a Secret that another program keeps. Raises CertificateError."""
    try:
        certificate, key = (
            base64.b64decode(data.get(name, ""), validate=True) for name in (AUTHORITY_CERTIFICATE, AUTHORITY_KEY)
        )
    except binascii.Error as error:
        raise CertificateError(f"not base64: {error}") from None
    return KeyPair(certificate, key)


@dataclass(frozen=True)
class CertificateRules:
    """What serving certificates are for, and how long they last.

    Attributes:
        names: DNS names and IP addresses; the first one is the subject.
        serving_validity: seconds.
    """

    names: tuple[str, ...]
    serving_validity: float = 90 * 86400.0


def serving_is_due(serving: KeyPair | None, authority: KeyPair, now: datetime, rules: CertificateRules) -> bool:
    """Whether this authority has to sign a new serving certificate: there is none, it is another one's or for other
    names, or it has reached the age for it.
    """
    if serving is None or serving.names() != frozenset(rules.names) or not serving.signed_by(authority):
        return True
    return now >= serving.renew_at
