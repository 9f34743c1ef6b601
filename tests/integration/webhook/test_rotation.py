"""The authority replaced while requests come in, in the three steps of the chart, and nobody is turned away."""

from __future__ import annotations

import base64
import socket
import ssl
import threading
import time
from datetime import UTC, datetime
from typing import Final

import pytest
from cryptography import x509
from scavenger_cluster import Cluster, admission, ports, stack
from scavenger_testing.certificates import new_authority
from scavenger_testing.place import MERGE_PATCH, Place, Server, job
from scavenger_webhook.core.certificates import KeyPair

from .conftest import start_webhook

pytestmark = pytest.mark.long

REQUESTS = 1000
THREADS = 4
SECRET = "scavenger-webhook-authority"
KINDS: Final = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
OVERLAP = 10
"""Seconds in which the API server has certainly heard of a new authority: it is not told, it watches."""


def sign_with(place: Place, authority: KeyPair) -> None:
    """Have the webhook's certificates signed by this authority, as `promote` of the chart does."""
    pair = {"ca.crt": authority.certificate, "ca.key": authority.key}
    data = {name: base64.b64encode(value).decode() for name, value in pair.items()}
    path = place.path("secrets", SECRET, "scavenger-system")
    assert place.server("PATCH", path, {"data": data}, content_type=MERGE_PATCH).allowed


def trust(place: Place, *authorities: KeyPair) -> None:
    """Have the API server trust these, and wait until it does."""
    bundle = base64.b64encode(b"".join(one.certificate for one in authorities)).decode()
    patch = [{"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": bundle}]
    for kind in KINDS:
        path = f"/apis/admissionregistration.k8s.io/v1/{kind}/scavenger-webhook"
        assert place.server("PATCH", path, patch, content_type="application/json-patch+json").allowed
    time.sleep(OVERLAP)


def served(port: int) -> int:
    """The serial number of the certificate that a new connection meets."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port), 10) as raw, context.wrap_socket(raw) as connection:
        return x509.load_der_x509_certificate(connection.getpeercert(binary_form=True) or b"").serial_number


class Load:
    """Requests by several clients that go through the webhook, until as many as wanted have been answered."""

    def __init__(self, cluster: Cluster, place: Place) -> None:
        self.failures: list[str] = []
        self.answered = 0
        self.enough = threading.Event()
        self._place = place
        self._threads = [
            threading.Thread(target=self._work, args=(Server(cluster.kubeconfig),)) for _ in range(THREADS)
        ]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.enough.set()
        for thread in self._threads:
            thread.join(60)

    def _work(self, server: Server) -> None:
        path = self._place.path("scavengerjobs") + "?dryRun=All"
        while not self.enough.is_set():
            answer = server("POST", path, job())
            if not answer.allowed:
                self.failures.append(answer.message)
            self.answered += 1
        server.close()


@pytest.mark.usefixtures("webhook")
def test_replaced_under_load_by_two_replicas(cluster: Cluster, place: Place) -> None:
    first, second = cluster.state.service_ports["webhook/admission"], ports.any_free_port()
    start_webhook(cluster, instance=2, SCAVENGER_PORT=str(second))
    stored = place.server("GET", place.path("secrets", SECRET, "scavenger-system")).body["data"]
    old = KeyPair(*(base64.b64decode(stored[name]) for name in ("ca.crt", "ca.key")))
    new = new_authority(datetime.now(UTC))
    try:
        with Load(cluster, place) as load:
            before = {port: served(port) for port in (first, second)}
            trust(place, old, new)
            sign_with(place, new)
            for port in (first, second):
                place.wait("each replica serves another", lambda port=port: served(port) != before[port])  # type: ignore[misc]
            trust(place, new)
            place.wait("enough requests", lambda: load.answered >= REQUESTS, timeout=300)
        assert load.failures == []
    finally:
        cluster.service_stop("webhook", instance=2)
        admission.make_authority(cluster)
        stack.rank_by_webhook(cluster)
        place.wait("the first authority is trusted again", lambda: place.try_create("scavengerjobs", job()).allowed)
