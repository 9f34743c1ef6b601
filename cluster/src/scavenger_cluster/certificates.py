"""Certificates and keys: four authorities, and one certificate for each one who speaks to another."""

from __future__ import annotations

import dataclasses
import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from scavenger_cluster.state import ClusterState

LIFETIME = datetime.timedelta(days=3650)
CLUSTER_CA = "ca"
FRONT_PROXY_CA = "front-proxy-ca"
ETCD_CA = "etcd-ca"
ADMISSION_CLIENTS_CA = "admission-clients-ca"
"""For the API server as a client of webhooks, and nothing else."""
ADMISSION_CLIENT = "kube-apiserver-admission-client"
SERVICE_ACCOUNT_KEY = "service-account"


@dataclasses.dataclass(frozen=True)
class CertificateSpec:
    """One certificate: whose it is, who signs it, the addresses it is valid for (none: client only)."""

    name: str
    common_name: str
    organization: str = ""
    authority: str = CLUSTER_CA
    addresses: tuple[str, ...] = ()


def control_plane_certificates(state: ClusterState) -> list[CertificateSpec]:
    """Return the certificates of everything that runs on the machine itself.

    The front proxy has an authority of its own: the API server refuses to share one with client certificates.
    """
    local = ("localhost", "127.0.0.1", state.server_address)
    services = (
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
    )
    api_addresses = tuple(dict.fromkeys((*services, *local, state.subnets.host, state.subnets.api_service)))
    own = tuple(dict.fromkeys(local))
    controller_manager, scheduler = "system:kube-controller-manager", "system:kube-scheduler"
    return [
        CertificateSpec("kube-apiserver", "kube-apiserver", addresses=api_addresses),
        CertificateSpec("kube-apiserver-kubelet-client", "kube-apiserver-kubelet-client", "system:masters"),
        CertificateSpec(ADMISSION_CLIENT, "kube-apiserver", authority=ADMISSION_CLIENTS_CA),
        CertificateSpec("front-proxy-client", "front-proxy-client", authority=FRONT_PROXY_CA),
        CertificateSpec("etcd", "etcd", authority=ETCD_CA, addresses=("localhost", "127.0.0.1")),
        CertificateSpec("kube-apiserver-etcd-client", "kube-apiserver-etcd-client", authority=ETCD_CA),
        CertificateSpec("admin", "kubernetes-admin", "system:masters"),
        CertificateSpec("kube-controller-manager", controller_manager, addresses=own),
        CertificateSpec("kube-scheduler", scheduler, addresses=own),
        CertificateSpec("kube-proxy", "system:kube-proxy"),
        CertificateSpec("kwok", "kwok", "system:masters"),
        CertificateSpec("coredns", "coredns", "system:masters"),
        CertificateSpec(
            "metrics-server",
            "metrics-server",
            "system:masters",
            addresses=(*own, "metrics-server.kube-system.svc", state.subnets.host),
        ),
    ]


def node_certificate(node: str, address: str) -> CertificateSpec:
    """Return the certificate of a kubelet, with which it serves and asks."""
    return CertificateSpec(f"kubelet-{node}", f"system:node:{node}", "system:nodes", addresses=(node, address))


def ensure_certificates(pki: Path, specs: list[CertificateSpec]) -> None:
    """Write every certificate that is missing or not as specified, and the authorities and keys they need."""
    pki.mkdir(parents=True, exist_ok=True)
    pki.chmod(0o700)
    if not (pki / f"{SERVICE_ACCOUNT_KEY}.key").exists():
        key = _new_key(pki / f"{SERVICE_ACCOUNT_KEY}.key")
        public = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        (pki / f"{SERVICE_ACCOUNT_KEY}.pub").write_bytes(public)
    for authority in sorted({spec.authority for spec in specs}):
        ensure_authority(pki, authority)
    for spec in specs:
        if not _matches(pki, spec):
            _sign(pki, spec)


def ensure_authority(pki: Path, name: str) -> tuple[bytes, bytes]:
    """An authority, made if it is not there; its certificate and key, PEM."""
    if not (pki / f"{name}.crt").exists():
        _make_authority(pki, name)
    return (pki / f"{name}.crt").read_bytes(), (pki / f"{name}.key").read_bytes()


def _new_key(path: Path) -> ec.EllipticCurvePrivateKey:
    key = ec.generate_private_key(ec.SECP256R1())
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return key


def _subject(common_name: str, organization: str = "") -> x509.Name:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if organization:
        parts.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(parts)


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _key_usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=not authority,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )


def _make_authority(pki: Path, name: str) -> None:
    key = _new_key(pki / f"{name}.key")
    subject = _subject(f"scavenger-{name}")
    certificate = (
        _builder(subject, subject, key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_key_usage(authority=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    (pki / f"{name}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def _alternative_name(address: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(address))
    except ValueError:
        return x509.DNSName(address)


def _sign(pki: Path, spec: CertificateSpec) -> None:
    authority = x509.load_pem_x509_certificate((pki / f"{spec.authority}.crt").read_bytes())
    signer = serialization.load_pem_private_key((pki / f"{spec.authority}.key").read_bytes(), password=None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    key = _new_key(pki / f"{spec.name}.key")
    usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = _builder(_subject(spec.common_name, spec.organization), authority.subject, key.public_key())
    if spec.addresses:
        usages.append(ExtendedKeyUsageOID.SERVER_AUTH)
        names = [_alternative_name(address) for address in spec.addresses]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    certificate = (
        builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .sign(signer, hashes.SHA256())
    )
    (pki / f"{spec.name}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def _matches(pki: Path, spec: CertificateSpec) -> bool:
    path = pki / f"{spec.name}.crt"
    if not path.exists() or not (pki / f"{spec.name}.key").exists():
        return False
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    if certificate.subject != _subject(spec.common_name, spec.organization):
        return False
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return not spec.addresses
    return list(names) == [_alternative_name(address) for address in spec.addresses]
