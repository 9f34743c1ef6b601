"""Certificates replaced while requests come in: authority and all, by two replicas, and nobody is turned away."""

from __future__ import annotations

import base64
import socket
import ssl
import threading
from datetime import UTC, datetime

import pytest
from cryptography import x509
from scavenger_cluster import Cluster, ports
from scavenger_testing.place import Object, Place, Server, job

from .conftest import start_webhook

REQUESTS = 1000
THREADS = 4
SECRET = "scavenger-webhook-tls"
OVERLAP = "10"
"""Seconds in which the API server has certainly heard of a new authority: it is not told, it watches."""


def secret(place: Place) -> Object:
    return place.server("GET", place.path("secrets", SECRET, "scavenger-system")).body


def data(place: Place, key: str) -> bytes:
    return base64.b64decode(secret(place).get("data", {}).get(key, ""))


def rotate(place: Place) -> None:
    """What docs/webhook.md says: everything made before now is to be replaced."""
    now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    patch = {"metadata": {"annotations": {"scavenger.dev/rotate-before": now}}}
    path = place.path("secrets", SECRET, "scavenger-system")
    assert place.server("PATCH", path, patch, content_type="application/merge-patch+json").allowed


def served(port: int) -> int:
    """The serial number of the certificate that a new connection meets."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port), 10) as raw, context.wrap_socket(raw) as connection:
        return x509.load_der_x509_certificate(connection.getpeercert(binary_form=True) or b"").serial_number


def trusted(place: Place) -> bytes:
    found = place.get("validatingwebhookconfigurations", "scavenger-webhook")
    return base64.b64decode(found["webhooks"][0]["clientConfig"]["caBundle"])


class Load:
    """Requests by several clients that go through the webhook, until as many as wanted have been answered."""

    def __init__(self, cluster: Cluster, place: Place) -> None:
        self.failures: list[str] = []
        self.answered = 0
        self.enough = threading.Event()
        self._place = place
        self._threads = [threading.Thread(target=self._work, args=(Server(cluster),)) for _ in range(THREADS)]

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


def start_second(cluster: Cluster) -> int:
    """A second replica, on a port of its own; the API server goes on asking the first."""
    port = ports.any_free_port()
    start_webhook(cluster, instance=2, SCAVENGER_PORT=str(port), SCAVENGER_TRUST_OVERLAP=OVERLAP)
    return port


def replace_authority(place: Place, first: int, second: int) -> None:
    """Every step of a rotation, as seen by two replicas on these ports."""
    authority, serial = data(place, "ca.crt"), served(first)
    rotate(place)
    place.wait("both are trusted", lambda: trusted(place).startswith(authority) and trusted(place) != authority)
    place.wait("the next one signs", lambda: data(place, "ca.crt") not in (b"", authority))
    place.wait("the first serves it", lambda: served(first) != serial)
    place.wait("the second serves the same", lambda: served(first) == served(second))
    place.wait("the old one is trusted no more", lambda: trusted(place) == data(place, "ca.crt"))


def test_replaced_twice_under_load_and_two_replicas_agree(cluster: Cluster, place: Place) -> None:
    start_webhook(cluster, SCAVENGER_TRUST_OVERLAP=OVERLAP)
    first = cluster.state.service_ports["webhook/admission"]
    second = start_second(cluster)
    try:
        with Load(cluster, place) as load:
            for _ in range(2):
                replace_authority(place, first, second)
            place.wait("enough requests", lambda: load.answered >= REQUESTS, timeout=300)
        assert load.failures == []
        assert load.answered >= REQUESTS
        assert served(first) == x509.load_pem_x509_certificate(data(place, "tls.crt")).serial_number
    finally:
        cluster.service_stop("webhook", instance=2)


@pytest.mark.usefixtures("webhook")
def test_an_emptied_secret_is_filled_with_what_is_in_use(cluster: Cluster, place: Place) -> None:
    serial = served(cluster.state.service_ports["webhook/admission"])
    path = place.path("secrets", SECRET, "scavenger-system")
    place.server("PATCH", path, {"data": None}, content_type="application/merge-patch+json")
    place.wait("filled", lambda: data(place, "tls.crt") != b"")
    assert x509.load_pem_x509_certificate(data(place, "tls.crt")).serial_number == serial
    assert place.try_create("scavengerjobs", job()).allowed
