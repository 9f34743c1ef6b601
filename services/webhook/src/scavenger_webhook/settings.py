"""What the webhook can be told, by environment or flag."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import model_validator
from scavenger_api import names
from scavenger_api.rules.bounds import Bounds
from scavenger_runtime.listening import EVERYWHERE
from scavenger_runtime.settings import (
    ALLOWED_TOLERATIONS,
    MAX_INTERRUPTION_AFTER,
    Names,
    Seconds,
    ServiceSettings,
    option,
)

from scavenger_webhook.core.certificates import CertificateRules
from scavenger_webhook.core.snapshot import LowPriority, Rules

DAY = 86400.0


class WebhookSettings(ServiceSettings):
    """Ranks regular pods above scavenger jobs, and refuses ScavengerJobs that can never run. All replicas serve."""

    address: str = option(EVERYWHERE, "address for admission requests; the default is all addresses of IPv6 and IPv4")
    port: int = option(9443, "port for admission requests; 0 takes a free one", ge=0, le=65535)
    service: str = option(
        f"{names.WEBHOOK}-admission", "name of the Service at which the API server finds the webhook", min_length=1
    )

    ordinary_class: str = option(
        names.PRIORITY_CLASS_ORDINARY, "PriorityClass of regular pods that name none", min_length=1
    )
    low_priority: LowPriority = option(
        LowPriority.RAISE, "what to do with a regular pod whose own class does not outrank scavenger jobs"
    )
    max_termination_grace_period_seconds: int = option(
        300, "maximum grace period of a job; set the same value for the admitter", unit="seconds", ge=0
    )

    max_interruption_after: Seconds = MAX_INTERRUPTION_AFTER
    allowed_tolerations: Names = ALLOWED_TOLERATIONS

    certificates: Literal["authority", "mounted"] = option(
        "authority",
        "authority: certificates signed by the authority of the chart. mounted: files that another program renews",
    )
    certificate_folder: str = option("/etc/scavenger/tls", "folder with mounted tls.crt and tls.key")
    tls_names: Names = option((), "more DNS names and IP addresses for the serving certificate")
    client_authority: str = option(
        "",
        "file (PEM) with the CA of the API servers' client certificates; the webhook then answers no other clients."
        " Without it, any client may ask, and no answer depends on quotas, nodes, claims or labels of namespaces",
    )
    serving_validity: Seconds = option(90 * DAY, "validity of the serving certificate", unit="seconds", ge=60)

    max_body: int = option(7 * 2**20, "maximum size of a request", unit="bytes", ge=1024)
    body_timeout: Seconds = option(5.0, "time for a request to arrive", unit="seconds", gt=0)
    shutdown_delay: Seconds = option(
        5.0, "time to serve requests after SIGTERM, until every API server knows", unit="seconds", ge=0
    )

    @model_validator(mode="after")
    def _stops_in_time(self) -> Self:
        """shutdown-timeout must exceed shutdown-delay."""
        if self.shutdown_delay >= self.shutdown_timeout:
            raise ValueError("it must be that shutdown-timeout > shutdown-delay")
        return self

    @model_validator(mode="after")
    def _ports_differ(self) -> Self:
        """port and metrics-port must differ when /metrics is served over TLS."""
        if self.metrics_tls_folder and self.port and self.port == self.metrics_port:
            raise ValueError("port and metrics-port must differ")
        return self

    def rules(self) -> Rules:
        """The part of the settings that reviews."""
        return Rules(
            self.ordinary_class,
            self.low_priority,
            self.max_termination_grace_period_seconds,
            Bounds.of(self.max_interruption_after, self.allowed_tolerations),
        )

    def certificate_rules(self) -> CertificateRules:
        """The part of the settings that issues certificates."""
        host = f"{self.service}.{self.namespace}"
        return CertificateRules(
            names=(f"{host}.svc", host, f"{host}.svc.cluster.local", *self.tls_names),
            serving_validity=self.serving_validity,
        )
