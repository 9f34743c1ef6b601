"""Server, TLS and credentials as kubernetes_asyncio finds them. Imported only by `ApiClient.connect`: it is
heavy.

The library renews the token file of a service account through `refresh_api_key_hook`, but not what comes from
an exec plugin, an OIDC provider or a `tokenFile` in a kubeconfig. `renew` loads the whole configuration anew
when the server refuses the credentials, which serves all of them.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from pathlib import Path
from typing import Any

from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import ConfigException, load_incluster_config, load_kube_config

from scavenger_runtime.logging import get_logger
from scavenger_runtime.transport import Credentials

DEFAULT_KUBECONFIG = "~/.kube/config"

MIN_RENEWAL_SECONDS = 10.0
"""Credentials are loaded anew at most this often: a server that refuses everybody must not start a thousand
plugins.
"""

log = get_logger(__name__)


class LoadedCredentials(Credentials):
    """A configuration that the library has loaded, as the transport wants it."""

    def __init__(self, configuration: Any, kubeconfig: str | None, context: str | None) -> None:
        super().__init__()
        self._configuration = configuration
        self._kubeconfig = kubeconfig
        self._context = context
        self._renewed = time.monotonic()
        self._renewing = asyncio.Lock()

    @property
    def server(self) -> str:
        """Base URL of the API server."""
        return str(self._configuration.host)

    @property
    def server_hostname(self) -> str | None:
        """The name the server's certificate must bear, where it is not the one in the URL."""
        name: str | None = self._configuration.tls_server_name
        return name

    @property
    def proxy(self) -> str | None:
        """URL of the HTTP proxy on the way."""
        url: str | None = self._configuration.proxy
        return url

    def ssl_context(self) -> ssl.SSLContext | None:
        """Authorities and client certificate; None for plain HTTP."""
        if not self.server.startswith("https"):
            return None
        found = self._configuration
        context = ssl.create_default_context(cafile=found.ssl_ca_cert)
        if found.cert_file:
            context.load_cert_chain(found.cert_file, keyfile=found.key_file)
        if not found.verify_ssl:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if found.disable_strict_ssl_verification:
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        return context

    async def authorization(self) -> str | None:
        """The bearer token; the library's hook re-reads the token file of a service account once a minute."""
        if "BearerToken" not in self._configuration.api_key:
            return None
        token: str | None = await self._configuration.get_api_key_with_prefix("BearerToken")
        return token.strip() if token else None

    async def renew(self) -> bool:
        """Load the configuration again; False where that was done a moment ago already, or fails."""
        refused = self._configuration
        async with self._renewing:
            if self._configuration is not refused:
                return True
            if time.monotonic() - self._renewed < MIN_RENEWAL_SECONDS:
                return False
            self._renewed = time.monotonic()
            try:
                self._configuration = await _configuration(self._kubeconfig, self._context)
            except ConfigException as error:
                log.warning("credentials could not be renewed", error=str(error))
                return False
        log.info("credentials renewed")
        return True


async def load(kubeconfig: str | None, context: str | None) -> LoadedCredentials:
    """What the kubeconfig (or what stands in for it) says. Raises ValueError where nothing usable is
    found.
    """
    try:
        return LoadedCredentials(await _configuration(kubeconfig, context), kubeconfig, context)
    except (ConfigException, OSError) as error:
        raise ValueError(f"no usable Kubernetes configuration: {error}") from error


async def _configuration(kubeconfig: str | None, context: str | None) -> Any:
    configuration = Configuration()
    path = kubeconfig or os.environ.get("KUBECONFIG")
    if path is None and context is None and "KUBERNETES_SERVICE_HOST" in os.environ:
        load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        return configuration
    path = path or DEFAULT_KUBECONFIG
    if not any(Path(part).expanduser().is_file() for part in path.split(os.pathsep)):  # noqa: ASYNC240 - at start only
        raise ConfigException(f"neither in a cluster nor a kubeconfig at {path}")
    await load_kube_config(config_file=path, context=context, client_configuration=configuration, persist_config=False)
    return configuration
