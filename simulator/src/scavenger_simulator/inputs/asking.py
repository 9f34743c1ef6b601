"""How Prometheus is reached: at its own address, or through the API server of the cluster it runs in."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from scavenger_kube import kubeconfig
from scavenger_kube.blocking import Client
from scavenger_kube.endpoint import KubeconfigError
from scavenger_kube.errors import ApiError

from scavenger_simulator.inputs.prometheus import Ask
from scavenger_simulator.inputs.reading import InputError

TIMEOUT: Final = 120.0
"""Seconds of silence: a day of all pods of a large cluster is much to compute."""
SAID_BY_PROMETHEUS: Final = (400, 422, 503)
"""Its statuses for queries that it refuses; the body says why (https://prometheus.io/docs/prometheus/latest/querying/api)."""
SERVICE: Final = "NAMESPACE/SERVICE:PORT"


def over_http(url: str, *, token_file: str | None = None, ca_file: str | None = None) -> Ask:
    """Prometheus at an address, up to and without /api. token_file: bearer token. ca_file: of its certificate."""
    if not url.startswith(("http://", "https://")):
        raise InputError("it is no address", "write http:// or https://, host and port", source=url)
    try:
        headers = {"Authorization": f"Bearer {Path(token_file).read_text().strip()}"} if token_file else {}
        context = ssl.create_default_context(cafile=ca_file) if ca_file else None
    except OSError as error:
        remedy = "check the files of token and certificate authority"
        raise InputError(f"a file cannot be read: {error}", remedy, source=url) from error

    def ask(path: str, params: Mapping[str, str]) -> bytes:
        request = Request(f"{url.rstrip('/')}{path}?{urlencode(params)}", headers=headers)
        try:
            with urlopen(request, timeout=TIMEOUT, context=context) as answer:
                body: bytes = answer.read()
                return body
        except HTTPError as error:
            with error:
                if error.code in SAID_BY_PROMETHEUS:
                    return error.read()
            raise InputError(f"it answered with status {error.code}", _remedy(error.code), source=url) from error
        except (URLError, OSError) as error:
            reason = getattr(error, "reason", error)
            remedy = "check the address, or give --prometheus-service to go through the API server"
            raise InputError(f"it cannot be reached: {reason}", remedy, source=url) from error

    return ask


def _remedy(status: int) -> str:
    if status in (401, 403):
        return "give a token with --prometheus-token-file"
    return "check the address: it must be that of Prometheus, without /api"


def through_api_server(service: str, *, path: str | None = None, context: str | None = None) -> Ask:
    """Prometheus as a Service of the cluster, written NAMESPACE/SERVICE:PORT, by the proxy of the API server.

    path, context: of the kubeconfig; None as kubectl has it. Needs the right to `get` the Service's `services/proxy`.
    """
    namespace, slash, name = service.partition("/")
    if not (namespace and slash and name):
        raise InputError(f"{service!r} is no Service", f"write {SERVICE}, such as monitoring/prometheus-operated:9090")
    base = f"/api/v1/namespaces/{namespace}/services/{name}/proxy"

    def ask(target: str, params: Mapping[str, str]) -> bytes:
        try:
            with Client(lambda: kubeconfig.load(path, context), timeout=TIMEOUT) as client:
                return client.get(f"{base}{target}", dict(params))
        except KubeconfigError as error:
            raise InputError(error.message, error.remedy, source=service) from error
        except ApiError as error:
            remedy = f"check {SERVICE} and your right to get services/proxy there, or give --prometheus-url"
            raise InputError(f"the API server says: {error}", remedy, source=service) from error

    return ask
