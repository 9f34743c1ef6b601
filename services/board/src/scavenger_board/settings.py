"""What the board can be told, by environment or flag."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import model_validator
from scavenger_runtime.settings import (
    ADOPT,
    PROMETHEUS_CA_FILE,
    PROMETHEUS_TOKEN_FILE,
    Seconds,
    ServiceSettings,
    option,
)


class BoardSettings(ServiceSettings):
    """One page for cluster administrators: load, nodes, queues, why jobs wait, and which jobs left for which pods.

    It writes nothing.
    """

    access: Literal["loopback", "token"] = option(
        "loopback",
        "With loopback, the board serves on 127.0.0.1 of the pod, for users who may forward a port to it. With token, "
        "it serves on all addresses, over TLS. Clients then need a token that the API server allows to get the "
        "nonResourceURL /scavenger/board",
    )
    port: int = option(8090, "port of the page; 0 takes a free one", ge=0, le=65535)
    tls_folder: str = option("", "folder with tls.crt and tls.key for the page; required for access token")
    listeners: int = option(32, "maximum number of open pages", ge=1, le=1000)
    adopt: bool = ADOPT
    period: Seconds = option(1.0, "minimum time between two updates of the page", unit="seconds", ge=0.1)
    check: Seconds = option(5.0, "maximum time between two updates of the page", unit="seconds", gt=0)
    usage_period: Seconds = option(
        15.0, "time between two requests to the metrics API for the use of nodes", unit="seconds", gt=0
    )
    cluster_name: str = option("", "name of the cluster, for the title of the page")
    docs_url: str = option("", "URL at which you serve the folder docs/ of this version, for links to it")
    history: int = option(
        8640, "number of published levels to keep; a regulator publishes every 30 seconds", ge=1, le=1000000
    )
    prometheus_url: str = option(
        "", "URL of Prometheus, without /api, for views of the past; if empty, the board does not use Prometheus"
    )
    prometheus_token_file: str | None = PROMETHEUS_TOKEN_FILE
    prometheus_ca_file: str | None = PROMETHEUS_CA_FILE
    prometheus_timeout: Seconds = option(
        10.0, "time for all answers of Prometheus about a moment", unit="seconds", gt=0
    )

    @model_validator(mode="after")
    def _tokens_over_tls(self) -> Self:
        """Access token requires `tls-folder`, so that tokens are encrypted."""
        if self.access == "token" and not self.tls_folder:
            raise ValueError("access token needs tls-folder: tokens would be sent unencrypted")
        return self

    @model_validator(mode="after")
    def _docs_are_served(self) -> Self:
        """docs-url must be a URL, because the page links to it."""
        if self.docs_url and not self.docs_url.startswith(("https://", "http://")):
            raise ValueError("docs-url must begin with https:// or http://")
        return self

    @model_validator(mode="after")
    def _ports_differ(self) -> Self:
        """port must differ from health-port and metrics-port."""
        if self.port and self.port in (self.health_port, self.metrics_tls_folder and self.metrics_port):
            raise ValueError("port must differ from health-port and metrics-port")
        return self

    @model_validator(mode="after")
    def _periods_in_order(self) -> Self:
        """check must be at least period."""
        if self.check < self.period:
            raise ValueError("it must be that check >= period")
        return self

    @property
    def address(self) -> str:
        """Where the page is served."""
        return "127.0.0.1" if self.access == "loopback" else self.health_address
