"""Keeps the certificates: in the Secret, in the server, and in the caBundle of the configurations.

The keeper of the default, which writes nothing, is in authority_keeper.py.

Every replica does this, and they meet in the Secret: each change is made on the version it was decided on, so of two
replicas that want the same one succeeds, and the other uses what it then finds.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from cryptography import x509
from scavenger_api import names
from scavenger_api.times import parse_time
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import ApiError, Conflict
from scavenger_runtime import tls
from scavenger_runtime.clock import Clock, changed_or_after
from scavenger_runtime.informer import Change, Informer
from scavenger_runtime.logging import get_logger

from scavenger_webhook import metrics
from scavenger_webhook.certificate_issuer import take_step
from scavenger_webhook.core.certificates import (
    Bundle,
    CertificateError,
    CertificateRules,
    Step,
    plan_step,
)
from scavenger_webhook.facts import CONFIGURATIONS, SECRETS, Secret, WebhookConfiguration, stale_webhooks
from scavenger_webhook.writer import SECRET_NAME, CertificateWriter

CONFIGURATION_NAME: Final = names.WEBHOOK
ANNOTATION_ROTATE_BEFORE: Final = f"{names.GROUP}/rotate-before"
"""On the Secret, RFC 3339: everything made before that moment is replaced, one step after the other."""

RESTORE: Final = "restore"
"""Beside the steps of `plan_step`, for metrics and logs."""

POLL_SECONDS: Final = 10.0
"""Certificates age without events: so often it is checked whether something is due."""

log = get_logger(__name__)


class SecretKeeper:
    """Certificates of our own. `run` works until cancelled, once the informers are synced."""

    def __init__(
        self, client: ApiClient, namespace: str, rules: CertificateRules, clock: Clock, context: ssl.SSLContext
    ) -> None:
        self._namespace = namespace
        self._writer = CertificateWriter(client, namespace)
        self._rules = rules
        self._clock = clock
        self._context = context
        self._changed = asyncio.Event()
        self._bundle: Bundle | None = None
        self._secret: Secret | None = None
        self._trusted_since: float | None = None
        self._misread: str | None = None
        self._loaded: bytes | None = None
        self.ready = asyncio.Event()
        """Set once the server has a certificate."""
        self.problem = "no certificate yet"
        """Why there is none, for the probe."""
        self.injected = False
        """Whether every configuration has once been seen to trust the authorities."""
        by_name = f"metadata.name={CONFIGURATION_NAME}"
        self.secrets = Informer(
            client, SECRETS, namespace=namespace, field_selector=f"metadata.name={SECRET_NAME}", clock=clock
        )
        self.configurations: list[Informer[WebhookConfiguration]] = [
            Informer(client, resource, field_selector=by_name, clock=clock) for resource in CONFIGURATIONS
        ]
        self.secrets.add_handler(self._on_secret)
        for informer in self.configurations:
            informer.add_handler(lambda change: self._changed.set())

    @property
    def informers(self) -> Sequence[Informer[Any]]:
        """The caches it works on."""
        return (self.secrets, *self.configurations)

    @property
    def bundle(self) -> Bundle | None:
        """What is in use."""
        return self._bundle

    async def run(self) -> None:
        """Reconcile whenever something changed, and every few seconds."""
        for informer in self.informers:
            await informer.wait_synced()
        while True:
            self._changed.clear()
            try:
                again = await self.reconcile()
            except Conflict:
                again = False  # another replica was faster: its event is on the way
            except ApiError as error:
                log.warning("certificates not kept up", error=str(error))
                again = False
            if not again:
                await self._wait()

    async def reconcile(self) -> bool:
        """Use what the Secret holds, have the API servers trust it, and take the step that is due. True when the Secret
        was written, so that the next reconcile is due at once. Raises ApiError.
        """
        secret = self._secret
        if secret is None:
            self.problem = f"Secret {self._namespace}/{SECRET_NAME} is missing: install the chart again"
            log.warning("no secret", problem=self.problem)
            return False
        found = self._read(secret)
        if found is not None:
            self._use(found)
        if found is None and self._bundle is not None:
            # emptied by hand: what is in use goes back
            self._secret = await self._writer.write_bundle(secret, self._bundle, RESTORE)
            return True
        await self._inject()
        step = self._due(secret, found)
        if step is Step.NOTHING:
            return False
        after = take_step(step, found, self._clock.now(), self._rules)
        self._secret = await self._writer.write_bundle(secret, after, step.value)
        return True

    # --- what is due ---

    def _due(self, secret: Secret, bundle: Bundle | None) -> Step:
        since = self._trusted_since
        trusted_for = None if since is None else self._clock.monotonic() - since
        return plan_step(
            bundle,
            self._clock.now(),
            self._rules,
            trusted_for=trusted_for,
            rotate_before=self._rotate_before(secret),
        )

    def _rotate_before(self, secret: Secret) -> datetime | None:
        """The moment that the administrator has asked for. What is no time is logged once, and asks for nothing."""
        text = secret.metadata.annotations.get(ANNOTATION_ROTATE_BEFORE)
        moment = parse_time(text)
        misread = text if moment is None else None
        if misread and misread != self._misread:
            log.warning(
                "rotation not begun: the annotation is not a time",
                secret=f"{self._namespace}/{SECRET_NAME}",
                annotation=ANNOTATION_ROTATE_BEFORE,
                value=misread,
                remedy="give RFC 3339 with a time zone, such as 2026-01-02T03:04:05Z; until then certificates are "
                "replaced when their time comes, as always",
            )
        self._misread = misread
        return moment

    def _read(self, secret: Secret) -> Bundle | None:
        try:
            return Bundle.from_data(secret.data)
        except CertificateError as error:
            log.warning("the secret cannot be used", error=str(error))
            return None

    # --- what is done ---

    def _use(self, bundle: Bundle) -> None:
        """Have the server use it, and remember since when it is trusted."""
        if self._bundle is None or self._bundle.trusted != bundle.trusted:
            self._trusted_since = None
        self._bundle = bundle
        if self._loaded == bundle.serving.certificate:
            return
        tls.load(self._context, bundle.serving.certificate, bundle.serving.key)
        self._loaded = bundle.serving.certificate
        metrics.RELOADS.inc()
        metrics.EXPIRY.set(bundle.serving.expires_at.timestamp())
        metrics.AUTHORITY_EXPIRY.set(bundle.authority.expires_at.timestamp())
        log.info("certificate in use", expires=bundle.serving.expires_at, authority=bundle.authority.made_at)
        self.ready.set()

    async def _inject(self) -> None:
        """Bring the caBundle of every configuration up to date. Raises ApiError."""
        if self._bundle is None:
            return
        wanted = base64.b64encode(self._bundle.trusted).decode()
        trusted = True
        for informer in self.configurations:
            for configuration in informer.items():
                stale = stale_webhooks(configuration, wanted)
                if stale:
                    trusted = False
                    await self._writer.write_ca_bundle(informer.resource, configuration, wanted, stale)
        if not trusted:
            self._trusted_since = None
        elif self._trusted_since is None:
            self._trusted_since = self._clock.monotonic()
            self.injected = True

    # --- waiting ---

    def _on_secret(self, change: Change[Secret]) -> None:
        self._secret = change.new
        self._changed.set()

    async def _wait(self) -> None:
        await changed_or_after(self._changed, self._clock, min(POLL_SECONDS, max(0.1, self._rules.overlap / 4)))


class FolderKeeper:
    """Certificates that somebody else renews (cert-manager), in a mounted folder. The caBundle is theirs as well."""

    informers: Sequence[Informer[Any]] = ()

    def __init__(self, folder: str, clock: Clock, context: ssl.SSLContext) -> None:
        self._files = tls.CertificateFolder(folder, context)
        self._clock = clock
        self.ready = asyncio.Event()
        self.problem = f"no certificate in {folder} yet"
        self.injected = True

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
