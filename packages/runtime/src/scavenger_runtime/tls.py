"""The TLS context of a server, and how it takes up a new certificate while it serves.

OpenSSL copies the certificate into a connection when it begins: changing the context changes later connections only,
so nothing has to be dropped (SSL_CTX_use_certificate(3)). The key never touches a disk where memory can stand in for
one.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

SERVING_CERTIFICATE: Final = "tls.crt"
SERVING_KEY: Final = "tls.key"


def server_context() -> ssl.SSLContext:
    """A context without a certificate yet. TLS 1.2 and newer."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


def require_client(context: ssl.SSLContext, authority: str) -> None:
    """Let only those connect that have a certificate by an authority of this file (PEM).

    Raises:
        ValueError: when the file has no certificate, or cannot be read.
    """
    try:
        context.load_verify_locations(authority)
    except (ssl.SSLError, OSError) as error:
        raise ValueError(f"no certificate authority in {authority}: {error}") from None
    context.verify_mode = ssl.CERT_REQUIRED


def load(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Have new connections served with this certificate (PEM).

    Raises:
        ValueError: when they cannot be used; the context is as it was.
    """
    with _as_file(certificate.rstrip() + b"\n" + key) as path:
        try:
            server_context().load_cert_chain(path)  # a key that does not fit would leave half of it in the context
            context.load_cert_chain(path)
        except (ssl.SSLError, OSError, ValueError) as error:
            raise ValueError(f"not a certificate with its key: {error}") from None


class CertificateFolder:
    """tls.crt and tls.key in a folder, which another program renews: a mounted Secret changes without notice."""

    def __init__(self, folder: str, context: ssl.SSLContext) -> None:
        self.folder = Path(folder)
        self._context = context
        self.loaded = b""
        """The certificate in use (PEM); empty before the first one."""

    def refresh(self) -> bool:
        """Have new connections served with what the folder holds; whether that is something new.

        Raises:
            OSError: when a file cannot be read; ValueError: when they cannot be used. What was in use stays in use.
        """
        certificate = (self.folder / SERVING_CERTIFICATE).read_bytes()
        if certificate == self.loaded:
            return False
        load(self._context, certificate, (self.folder / SERVING_KEY).read_bytes())
        self.loaded = certificate
        return True


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """A path under which the content can be read: all that `load_cert_chain` takes."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("certificate", os.MFD_CLOEXEC)
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            file.write(content)
            yield f"/proc/self/fd/{descriptor}"
    else:
        with tempfile.NamedTemporaryFile(buffering=0) as file:  # mode 0600
            file.write(content)
            yield file.name
