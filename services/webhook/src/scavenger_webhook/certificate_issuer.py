"""Issues serving certificates. Time is passed in; keys and serial numbers are random."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from scavenger_webhook.core.certificates import BACKDATE, CertificateRules, KeyPair


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
