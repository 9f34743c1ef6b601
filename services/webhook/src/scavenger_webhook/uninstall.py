"""Takes the scope back that the webhook has added to ResourceQuotas: without scavenger jobs it says nothing."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, Final

import msgspec
from scavenger_api import names
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import Conflict, NotFound
from scavenger_kube.kinds import ObjectMeta, Struct
from scavenger_kube.resources import Resource
from scavenger_runtime.logging import configure_logging, get_logger
from scavenger_runtime.paging import PagedList

from scavenger_webhook.core.quotas import ADDED, without_scope
from scavenger_webhook.settings import WebhookSettings


class Quota(Struct, frozen=True, gc=False, rename="camel"):
    """core/v1 ResourceQuota; `spec` as it came."""

    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}  # noqa: RUF012 - msgspec copies it


class _ListMeta(msgspec.Struct, frozen=True, rename={"continue_": "continue"}):
    continue_: str = ""


class _Quotas(msgspec.Struct, frozen=True):
    metadata: _ListMeta = _ListMeta()
    items: tuple[Quota, ...] = ()


RESOURCEQUOTAS: Final = Resource("", "v1", "resourcequotas", "ResourceQuota", True, Quota)
TRIES: Final = 5
"""Rounds, where quotas are changed by others meanwhile."""

log = get_logger(__name__)


async def take_back(client: ApiClient) -> int:
    """Take the scope off all quotas that have it from the webhook, which must not answer any more. Returns how many.

    Raises:
        RuntimeError: when quotas change faster than they are read.
        ApiError: when the API server refuses.
    """
    done = 0
    for _ in range(TRIES):
        left = 0
        async for quota in _marked(client):
            meta = quota.metadata
            changes = {"resourceVersion": meta.resource_version, "annotations": {names.ANNOTATION_QUOTA_SCOPE: None}}
            patch = {"metadata": changes, "spec": {"scopeSelector": without_scope(quota.spec)}}
            left += 1
            with contextlib.suppress(Conflict, NotFound):  # the next round sees what it is now
                await client.merge_patch(RESOURCEQUOTAS, meta.namespace, meta.name, patch)
                done, left = done + 1, left - 1
        if not left:
            return done
    raise RuntimeError(f"{left} ResourceQuotas are changed by others all the time")


async def _marked(client: ApiClient) -> AsyncIterator[Quota]:
    pages, token = PagedList(client, RESOURCEQUOTAS.path(), {}), ""
    while True:
        page = msgspec.json.decode(await pages.page(token or None), type=_Quotas)
        for quota in page.items:
            if quota.metadata.annotations.get(names.ANNOTATION_QUOTA_SCOPE) == ADDED:
                yield quota
        token = page.metadata.continue_
        if not token:
            return


async def _run(settings: WebhookSettings) -> int:
    async with await ApiClient.connect(kubeconfig=settings.kubeconfig, context=settings.context) as client:
        count = await take_back(client)
    log.info("uninstalled", quotas=count)
    return 0


def uninstall(settings: WebhookSettings) -> int:
    """Clean up; returns the exit code."""
    configure_logging(names.WEBHOOK, level=settings.log_level, format=settings.log_format)
    return asyncio.run(_run(settings))
