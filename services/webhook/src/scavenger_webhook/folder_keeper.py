"""Serving certificates that another program renews, such as cert-manager, in a mounted folder."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from typing import Any, Final

from cryptography import x509
from scavenger_runtime import tls
from scavenger_runtime.clock import Clock
from scavenger_runtime.informer import Informer
from scavenger_runtime.logging import get_logger

from scavenger_webhook import metrics

POLL_SECONDS: Final = 10.0
"""Certificates age, and mounted files change, without events: so often it is checked whether something is due."""

log = get_logger(__name__)


class FolderKeeper:
    """The certificate of a mounted folder. The caBundle is written by the program that renews it."""

    informers: Sequence[Informer[Any]] = ()

    def __init__(self, folder: str, clock: Clock, context: ssl.SSLContext) -> None:
        self._files = tls.CertificateFolder(folder, context)
        self._clock = clock
        self.ready = asyncio.Event()
        self.problem = f"no certificate in {folder} yet"

    @property
    def loaded(self) -> bytes:
        """The certificate in use (PEM)."""
        return self._files.loaded

    async def run(self) -> None:
        """Poll every few seconds: a mounted Secret changes without notice."""
        while True:
            self.poll()
            await self._clock.sleep(POLL_SECONDS)

    def poll(self) -> None:
        """Use what the folder holds, if it is something new."""
        try:
            if not self._files.refresh():
                return
            expires = x509.load_pem_x509_certificate(self.loaded).not_valid_after_utc
        except (OSError, ValueError) as error:
            self.problem = f"no certificate from {self._files.folder}: {error}"
            log.warning("certificate not loaded", error=str(error))
            return
        metrics.RELOADS.inc()
        metrics.EXPIRY.set(expires.timestamp())
        log.info("certificate in use", expires=expires)
        self.ready.set()
