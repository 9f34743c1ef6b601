"""A small synchronous client of the API server, for what the cluster itself has to ask and create."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from scavenger_kube.blocking import Client
from scavenger_kube.endpoint import Endpoint, Tls
from scavenger_kube.errors import ApiError, NotFound
from scavenger_kube.kinds import Struct
from scavenger_kube.resources import APPLY_PATCH, JOBS, JSON, PODDISRUPTIONBUDGETS, Params, Resource, scavenger_jobs

PARALLEL = 8
_KINDS = {found.plural: found for found in (JOBS, PODDISRUPTIONBUDGETS, scavenger_jobs(Struct))}
"""Those that are not in the core group."""


def namespaced(kind: str, namespace: str, name: str = "") -> str:
    """Return the path of a collection, or of an object in it; the kind in singular or plural, as for kubectl."""
    plural = kind if kind.endswith("s") else f"{kind}s"
    return _KINDS.get(plural, Resource("", "v1", plural, kind, True, Struct)).path(namespace, name or None)


class ApiClient:
    """Speaks to one API server with the administrator's certificate."""

    def __init__(self, server: str, pki: Path, *, timeout: float = 120.0) -> None:
        """Load the certificates. A request makes a connection; many at once share a few."""
        authority, certificate, key = ((pki / name).read_bytes() for name in ("ca.crt", "admin.crt", "admin.key"))
        tls = Tls(authority, certificate, key)
        self._endpoint = Endpoint(server, tls=tls, proxy="")  # it is on this machine
        self._timeout = timeout

    def get(self, path: str) -> Any:
        """Read an object or list."""
        return self.request("GET", path)

    def request(self, method: str, path: str, body: object = None, content_type: str = JSON) -> Any:
        """Send one request; returns the decoded JSON (or text). Raises ApiError."""
        with self._connect() as client:
            return _send(client, method, path, body, content_type)

    def find(self, path: str) -> Any | None:
        """Read an object; None if it does not exist."""
        try:
            return self.get(path)
        except NotFound:
            return None

    def delete(self, path: str) -> None:
        """Delete an object; it is fine if it is not there."""
        with contextlib.suppress(NotFound):
            self.request("DELETE", path)

    def apply(self, path: str, body: dict[str, Any]) -> Any:
        """Server-side apply an object at its own path."""
        return self.request("PATCH", f"{path}?fieldManager=scavenger-cluster&force=true", body, APPLY_PATCH)

    def create_all(self, path: str, bodies: Iterable[dict[str, Any]]) -> None:
        """Create many objects at once over a few connections; those that exist already are left alone."""
        self._all("POST", ((path, body) for body in bodies), ignore=409)

    def delete_all(self, paths: Iterable[str]) -> None:
        """Delete many objects at once over a few connections; those that do not exist are no error."""
        self._all("DELETE", ((path, None) for path in paths), ignore=404)

    def _all(self, method: str, requests: Iterable[tuple[str, object]], *, ignore: int) -> None:
        local = threading.local()
        clients: list[Client] = []

        def send(request: tuple[str, object]) -> None:
            if not hasattr(local, "client"):
                local.client = self._connect()
                clients.append(local.client)
            try:
                _send(local.client, method, *request, JSON)
            except ApiError as error:
                if error.status != ignore:
                    raise

        with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
            list(pool.map(send, requests))
        for client in clients:
            client.close()

    def watch(self, path: str, changed: Callable[[], None], *, seconds: int) -> None:
        """Call `changed` for every object of a collection, and then for every change, for so many seconds.

        Raises ApiError, where the connection breaks `Unavailable`.
        """
        for _ in self.events(path, seconds=seconds):
            changed()

    def events(self, path: str, *, seconds: int, selector: str = "", version: str = "") -> Iterator[Any]:
        """Every object of a collection with these labels, and then every change, as a watch of so many seconds shows
        them; with a resource version every change since. Raises ApiError, where the connection breaks `Unavailable`.
        """
        asked: Params = {"watch": "true", "timeoutSeconds": seconds, "labelSelector": selector}
        if version:
            asked = {**asked, "resourceVersion": version}
        with self._connect() as client:
            for line in client.stream(path, asked, silence=2 * seconds):
                yield json.loads(line)

    def ready(self) -> bool:
        """Tell whether the API server says that it is ready."""
        try:
            return bool(self.get("/readyz") == "ok")
        except ApiError:
            return False

    def _connect(self) -> Client:
        return Client(lambda: self._endpoint, timeout=self._timeout, user_agent="scavenger-cluster")


def _send(client: Client, method: str, path: str, body: object, content_type: str) -> Any:
    answer = client.request(method, path, body=body, content_type=content_type)
    try:
        return json.loads(answer)
    except ValueError:
        return answer.decode(errors="replace")
