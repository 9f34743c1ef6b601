"""Keeps a serving certificate by an authority that the chart, or the administrator, has made.

The caBundle is theirs as well. The service writes nothing to the API for that: each replica has a serving certificate
of its own, in memory, and all of them are trusted as they are signed by one authority.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from typing import Any, Final

from scavenger_api import names
from scavenger_kube.client import ApiClient
from scavenger_runtime import tls
from scavenger_runtime.clock import Clock, changed_or_after
from scavenger_runtime.informer import Change, Informer
from scavenger_runtime.logging import get_logger

from scavenger_webhook import metrics
from scavenger_webhook.certificate_issuer import new_serving
from scavenger_webhook.core.certificates import (
    CertificateError,
    CertificateRules,
    KeyPair,
    authority_from_data,
    serving_is_due,
)
from scavenger_webhook.facts import SECRETS, Secret
from scavenger_webhook.folder_keeper import POLL_SECONDS

AUTHORITY_SECRET: Final = f"{names.WEBHOOK}-authority"

REMEDY: Final = "docs/webhook.md says how it is replaced"

log = get_logger(__name__)


class AuthorityKeeper:
    """Serving certificates by another authority. `run` works until cancelled, once the informer is synced."""

    def __init__(
        self, client: ApiClient, namespace: str, rules: CertificateRules, clock: Clock, context: ssl.SSLContext
    ) -> None:
        self._secret_name = f"{namespace}/{AUTHORITY_SECRET}"
        self._rules = rules
        self._clock = clock
        self._context = context
        self._changed = asyncio.Event()
        self._data: dict[str, str] | None = None
        self._said = ""
        self.serving: KeyPair | None = None
        """What is in use."""
        self.ready = asyncio.Event()
        """Set once the server has a certificate."""
        self.problem = "no certificate yet"
        """Why there is none, for the probe."""
        self.secrets = Informer(
            client, SECRETS, namespace=namespace, field_selector=f"metadata.name={AUTHORITY_SECRET}", clock=clock
        )
        self.secrets.add_handler(self._on_secret)

    @property
    def informers(self) -> Sequence[Informer[Any]]:
        """The cache it works on."""
        return (self.secrets,)

    async def run(self) -> None:
        """Reconcile whenever the authority changed, and every few seconds, as certificates age without events."""
        await self.secrets.wait_synced()
        while True:
            self._changed.clear()
            self.reconcile()
            await changed_or_after(self._changed, self._clock, POLL_SECONDS)

    def reconcile(self) -> None:
        """Have the server use a certificate by the authority that the Secret holds. Without, the present one stays."""
        authority = self._authority()
        if authority is None:
            return
        now = self._clock.now()
        if now >= authority.expires_at:
            self._say(f"the authority in Secret {self._secret_name} ended at {authority.expires_at}")
            return
        if now >= authority.renew_at:
            self._say(f"the authority in Secret {self._secret_name} ends at {authority.expires_at}")
        else:
            self._said = ""
        if serving_is_due(self.serving, authority, now, self._rules):
            self._use(new_serving(authority, now, self._rules), authority)

    def _authority(self) -> KeyPair | None:
        if self._data is None:
            self._say(f"Secret {self._secret_name} is missing: run `helm upgrade`, or make it")
            return None
        try:
            return authority_from_data(self._data)
        except CertificateError as error:
            self._say(f"Secret {self._secret_name} has no authority: {error}")
            return None

    def _use(self, serving: KeyPair, authority: KeyPair) -> None:
        tls.load(self._context, serving.certificate, serving.key)
        self.serving = serving
        metrics.RELOADS.inc()
        metrics.EXPIRY.set(serving.expires_at.timestamp())
        metrics.AUTHORITY_EXPIRY.set(authority.expires_at.timestamp())
        log.info("certificate in use", expires=serving.expires_at, authority=authority.made_at)
        self.ready.set()

    def _say(self, problem: str) -> None:
        """Log it once, for as long as it is the same."""
        self.problem = problem
        if problem != self._said:
            log.warning("certificate authority", problem=problem, remedy=REMEDY)
        self._said = problem

    def _on_secret(self, change: Change[Secret]) -> None:
        self._data = None if change.new is None else change.new.data
        self._changed.set()
