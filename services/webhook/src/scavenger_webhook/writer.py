"""What the webhook writes to the API: its certificates into their Secret, the caBundle into webhook configurations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import orjson
from scavenger_api import names
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import ApiError, Conflict
from scavenger_kube.resources import Resource
from scavenger_runtime.logging import get_logger

from scavenger_webhook import metrics
from scavenger_webhook.core.certificates import DATA_KEYS, Bundle
from scavenger_webhook.facts import SECRETS, Secret, WebhookConfiguration, decode_secret

SECRET_NAME: Final = f"{names.WEBHOOK}-tls"

log = get_logger(__name__)


class CertificateWriter:
    """Writes to the Secret of that name in `namespace`, and to the configurations it is given."""

    def __init__(self, client: ApiClient, namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    async def write_bundle(self, seen: Secret, bundle: Bundle, step: str) -> Secret:
        """Put a bundle into the Secret, if that is still the one that was seen; what others keep in it stays. Returns
        the Secret as it is now. step: for metrics and log.

        Raises:
            Conflict: when the Secret has changed.
            ApiError: for whatever else the API server answers.
        """
        secret = orjson.loads(await self._client.get(SECRETS, self._namespace, SECRET_NAME))
        if secret["metadata"]["resourceVersion"] != seen.metadata.resource_version:
            raise Conflict(409, "Conflict", f"Secret {SECRET_NAME} has changed")
        others = {name: value for name, value in (secret.get("data") or {}).items() if name not in DATA_KEYS}
        secret["data"] = {**others, **bundle.to_data()}
        try:
            answer = await self._client.replace(SECRETS, self._namespace, SECRET_NAME, secret)
        except ApiError:
            metrics.STEPS.labels(step, "failed").inc()
            raise
        metrics.STEPS.labels(step, "done").inc()
        log.info("certificates written", step=step)
        return decode_secret(answer)

    async def write_ca_bundle(
        self,
        resource: Resource[WebhookConfiguration],
        configuration: WebhookConfiguration,
        ca_bundle: str,
        webhooks: Sequence[str],
    ) -> None:
        """Put the caBundle (base64) into these webhooks of a configuration. Raises ApiError.

        `test` has the patch refused where the list has changed meanwhile; the event of that change leads here again.
        """
        patch: list[dict[str, Any]] = []
        for index, hook in enumerate(configuration.webhooks):
            if hook.name in webhooks:
                patch.append({"op": "test", "path": f"/webhooks/{index}/name", "value": hook.name})
                patch.append({"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": ca_bundle})
        try:
            await self._client.json_patch(resource, None, configuration.metadata.name, patch)
        except ApiError:
            metrics.INJECTIONS.labels("failed").inc()
            raise
        metrics.INJECTIONS.labels("done").inc()
        log.info("caBundle written", kind=resource.kind, webhooks=list(webhooks))
