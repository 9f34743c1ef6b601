"""A certificate authority, as the chart of the webhook makes one, and certificates of servers and clients by it."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from scavenger_runtime import tls
from scavenger_webhook.certificate_issuer import new_serving
from scavenger_webhook.core.certificates import BACKDATE, CertificateRules, KeyPair

YEAR = timedelta(days=365)


def localhost_contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Of a server that is called localhost, and of clients that trust it."""
    now, serving = datetime.now(UTC), tls.server_context()
    authority = new_authority(now)
    made = new_serving(authority, now, CertificateRules(("localhost",)))
    tls.load(serving, made.certificate, made.key)
    return serving, ssl.create_default_context(cadata=authority.certificate.decode())


def new_authority(now: datetime, life: timedelta = YEAR) -> KeyPair:
    """An authority that signs itself, with a name of its own: two may be trusted side by side.

    Args:
        now: when it is made.
        life: how long it is valid from then on.
    """
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
    return _signed(None, now, life, (x509.BasicConstraints(ca=True, path_length=0), usage))


def new_client(authority: KeyPair, now: datetime) -> KeyPair:
    """A certificate that a client shows, for a year.

    Args:
        authority: what signs it.
        now: when it is made.
    """
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
    return _signed(authority, now, YEAR, (x509.BasicConstraints(ca=False, path_length=None), usage))


def _signed(
    authority: KeyPair | None, now: datetime, life: timedelta, extensions: tuple[x509.ExtensionType, ...]
) -> KeyPair:
    key, serial = ec.generate_private_key(ec.SECP256R1()), x509.random_serial_number()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"scavenger-testing-{serial:x}"[:64])])
    signer = key if authority is None else authority.private_key
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name if authority is None else authority.x509.subject)
        .public_key(key.public_key())
        .serial_number(serial)
        .not_valid_before(now - BACKDATE)
        .not_valid_after(now + life)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=True)
    certificate = builder.sign(signer, hashes.SHA256())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return KeyPair(certificate.public_bytes(serialization.Encoding.PEM), private)
