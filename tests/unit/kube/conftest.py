from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def certificate(folder: Path, name: str, *addresses: str) -> tuple[str, str]:
    """A self-signed certificate for a name and addresses, and its key, as files."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now - timedelta(1)).not_valid_after(now + timedelta(1))
    names = [x509.DNSName(name), *(x509.IPAddress(ip_address(address)) for address in addresses)]
    made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    (folder / "cert").write_bytes(made.sign(key, hashes.SHA256()).public_bytes(pem))
    (folder / "key").write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    return str(folder / "cert"), str(folder / "key")
