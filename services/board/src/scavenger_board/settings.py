"""What the board can be told, by environment or flag."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import model_validator
from scavenger_runtime.settings import ADOPT, Seconds, ServiceSettings, option


class BoardSettings(ServiceSettings):
    """One page for cluster administrators: load, nodes, queues, why jobs wait, who left for what. Writes nothing."""

    access: Literal["loopback", "token"] = option(
        "loopback",
        "loopback: only 127.0.0.1 of the pod, for users who may forward a port to it; token: all addresses, over TLS, "
        "for clients that show a token with which the API server lets them get the nonResourceURL /scavenger/board",
    )
    port: int = option(8090, "port of the page; 0 takes a free one", ge=0, le=65535)
    tls_folder: str = option(
        "", "folder of tls.crt and tls.key, with which the page is served; needed for access token"
    )
    listeners: int = option(32, "pages that may follow the picture at once", ge=1, le=1000)
    adopt: bool = ADOPT
    period: Seconds = option(1.0, "between two pictures at least", unit="seconds", ge=0.1)
    check: Seconds = option(5.0, "between two pictures at most, as what is silent grows stale", unit="seconds", gt=0)
    usage_period: Seconds = option(
        15.0, "between two polls of what nodes really use, from the metrics API", unit="seconds", gt=0
    )
    cluster_name: str = option("", "name of the cluster in the title of the page")
    docs_url: str = option("", "https URL of the folder docs/ of this version, wherever you serve it, for links to it")
    history: int = option(8640, "levels that are remembered; a regulator publishes every 30 seconds", ge=1, le=1000000)
    prometheus_url: str = option("", "of Prometheus, without /api, for moments that are over; without, none is asked")
    prometheus_token_file: str | None = option(None, "file with a bearer token")
    prometheus_ca_file: str | None = option(None, "file with the certificate authority of its certificate")
    prometheus_timeout: Seconds = option(10.0, "for all answers about a moment to arrive", unit="seconds", gt=0)

    @model_validator(mode="after")
    def _tokens_over_tls(self) -> Self:
        """Access token has a `tls-folder`: tokens would be sent in clear."""
        if self.access == "token" and not self.tls_folder:
            raise ValueError("access token needs tls-folder: tokens would be sent in clear")
        return self

    @model_validator(mode="after")
    def _docs_are_served(self) -> Self:
        """docs-url is a URL: the page leads there."""
        if self.docs_url and not self.docs_url.startswith(("https://", "http://")):
            raise ValueError("docs-url must begin with https:// or http://")
        return self

    @model_validator(mode="after")
    def _ports_differ(self) -> Self:
        """port differs from health-port and metrics-port."""
        if self.port and self.port in (self.health_port, self.metrics_tls_folder and self.metrics_port):
            raise ValueError("port must differ from health-port and metrics-port")
        return self

    @model_validator(mode="after")
    def _periods_in_order(self) -> Self:
        """check >= period."""
        if self.check < self.period:
            raise ValueError("it must be that check >= period")
        return self

    @property
    def address(self) -> str:
        """Where the page is served."""
        return "127.0.0.1" if self.access == "loopback" else self.health_address
