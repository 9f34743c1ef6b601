"""Endpoints for services: the files of the pod, or a kubeconfig by way of kubernetes_asyncio.

In a cluster, where token and authority are files, kubernetes_asyncio (2 s and 95 MB) is not imported.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from scavenger_kube import kubeconfig
from scavenger_kube.endpoint import Endpoint, KubeconfigError


async def load(path: str | None = None, context: str | None = None) -> Endpoint:
    """The endpoint of a context of `path`, else $KUBECONFIG, else the pod's service account, else ~/.kube/config.

    Runs a plugin in a thread. Raises KubeconfigError where there is none, or where what is there cannot be used.
    """
    if kubeconfig.in_pod(path, context):
        return kubeconfig.service_account()
    chosen = await asyncio.to_thread(lambda: kubeconfig.choose(kubeconfig.read(path), context))
    return await by_library(chosen)


async def by_library(chosen: kubeconfig.Chosen) -> Endpoint:
    """The endpoint, as kubernetes_asyncio reads what has been chosen. Raises KubeconfigError."""
    from kubernetes_asyncio.client import Configuration
    from kubernetes_asyncio.config import ConfigException, load_kube_config_from_dict

    config = {
        "current-context": "chosen",
        "contexts": [{"name": "chosen", "context": {"cluster": "chosen", "user": "chosen"}}],
        "clusters": [{"name": "chosen", "cluster": chosen.cluster}],
        "users": [{"name": "chosen", "user": chosen.user}],
    }
    found: Any = Configuration()
    try:
        await load_kube_config_from_dict(config, client_configuration=found)
        authority, certificate, key = map(_content, (found.ssl_ca_cert, found.cert_file, found.key_file))
    except (ConfigException, OSError, ValueError) as error:
        raise KubeconfigError(f"the kubeconfig cannot be used: {error}", "fetch the kubeconfig anew") from error
    return chosen.endpoint(found.api_key.get("BearerToken"), authority, certificate, key)


def _content(path: str | None) -> bytes:
    return Path(path).read_bytes() if path else b""
