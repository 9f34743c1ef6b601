"""A small synchronous client of the API server, for what the cluster itself has to ask and create."""

from __future__ import annotations

import concurrent.futures
import http.client
import json
import ssl
import threading
import urllib.parse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from scavenger_cluster.errors import ApiError

MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
PARALLEL = 8


_GROUPS = {
    "batch/v1": ("jobs",),
    "policy/v1": ("poddisruptionbudgets",),
    "scavenger.dev/v1alpha1": ("scavengerjobs",),
}


def namespaced(kind: str, namespace: str, name: str = "") -> str:
    """Return the path of a collection, or of an object in it; the kind in singular or plural, as for kubectl."""
    plural = kind if kind.endswith("s") else f"{kind}s"
    root = next((f"/apis/{group}" for group, plurals in _GROUPS.items() if plural in plurals), "/api/v1")
    return f"{root}/namespaces/{namespace}/{plural}" + (f"/{name}" if name else "")


class ApiClient:
    """Speaks to one API server with the administrator's certificate."""

    def __init__(self, server: str, pki: Path, *, timeout: float = 30.0) -> None:
        """Load the certificates; connections are made when needed, one per thread."""
        url = urllib.parse.urlsplit(server)
        self._host = url.hostname or "127.0.0.1"
        self._port = url.port or 443
        self._timeout = timeout
        self._context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        self._context.load_cert_chain(str(pki / "admin.crt"), str(pki / "admin.key"))

    def get(self, path: str) -> Any:
        """Read an object or list."""
        return self.request("GET", path)

    def request(self, method: str, path: str, body: object = None, content_type: str = "application/json") -> Any:
        """Send one request; returns the decoded JSON (or text), ApiError for an error status.

        OSError when the server cannot be reached.
        """
        return self._send(self._connect(), method, path, body, content_type)

    def find(self, path: str) -> Any | None:
        """Read an object; None if it does not exist."""
        try:
            return self.get(path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def delete(self, path: str) -> None:
        """Delete an object; it is fine if it is not there."""
        try:
            self.request("DELETE", path)
        except ApiError as error:
            if error.status != 404:
                raise

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
        connections: list[http.client.HTTPSConnection] = []

        def send(request: tuple[str, object]) -> None:
            if not hasattr(local, "connection"):
                local.connection = self._connect()
                connections.append(local.connection)
            try:
                self._send(local.connection, method, *request, "application/json", keep=True)
            except ApiError as error:
                if error.status != ignore:
                    raise

        with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
            list(pool.map(send, requests))
        for connection in connections:
            connection.close()

    def ready(self) -> bool:
        """Tell whether the API server says that it is ready."""
        try:
            return bool(self.get("/readyz") == "ok")
        except (ApiError, OSError, http.client.HTTPException):
            return False

    def _connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout, context=self._context)

    def _send(
        self,
        connection: http.client.HTTPSConnection,
        method: str,
        path: str,
        body: object,
        content_type: str,
        *,
        keep: bool = False,
    ) -> Any:
        data = None if body is None else json.dumps(body).encode()
        try:
            connection.request(method, path, body=data, headers={"Content-Type": content_type})
            response = connection.getresponse()
            text = response.read().decode(errors="replace")
        finally:
            if not keep:
                connection.close()
        is_json = "json" in (response.getheader("Content-Type") or "")
        value: Any = json.loads(text) if is_json else text
        if response.status >= 400:
            raise ApiError(response.status, value.get("message", text) if is_json else text)
        return value
