"""ConfigMaps in which services publish, or keep what survives them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import NotFound
from scavenger_kube.kinds import ConfigMap
from scavenger_kube.resources import CONFIGMAPS

_configmap = msgspec.json.Decoder(ConfigMap)


async def read_configmap(client: ApiClient, namespace: str, name: str) -> ConfigMap | None:
    """The ConfigMap, None where it does not exist. Raises ApiError."""
    try:
        return _configmap.decode(await client.get(CONFIGMAPS, namespace, name))
    except NotFound:
        return None


async def apply_configmap(
    client: ApiClient, namespace: str, name: str, data: Mapping[str, str], component: str
) -> ConfigMap:
    """Own exactly these keys by server-side apply; keys written before and not given now go. Raises ApiError.

    Args:
        client: of the service.
        namespace: of the ConfigMap.
        name: of the ConfigMap.
        data: by key.
        component: who writes it, as field manager and label.
    """
    labels = {"app.kubernetes.io/managed-by": component, "app.kubernetes.io/part-of": "scavenger-jobs"}
    body = {
        "apiVersion": CONFIGMAPS.api_version,
        "kind": CONFIGMAPS.kind,
        "metadata": {"namespace": namespace, "name": name, "labels": labels},
        "data": data,
    }
    answer = await client.apply(CONFIGMAPS, namespace, name, body, field_manager=component)
    return _configmap.decode(answer)
