"""Issues certificates: new keys and what is signed with them. Time is passed in; keys and serial numbers are random."""

from __future__ import annotations

import dataclasses
import ipaddress
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from scavenger_webhook.core.certificates import BACKDATE, Bundle, CertificateRules, KeyPair, Step


def take_step(step: Step, bundle: Bundle | None, now: datetime, rules: CertificateRules) -> Bundle:
    """The bundle after a step that `plan_step` said is due. Raises ValueError for one that needs what is not there."""
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
