"""A server with scripted answers, and a client of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from scavenger_cli.access import Access
from scavenger_kube.blocking import Client
from scavenger_kube.endpoint import Endpoint
from scavenger_testing.scripted import Answer, Request, Server, status

__all__ = ["Answer", "Request", "Server", "event", "listed", "status"]


def listed(*items: Any, version: str = "10") -> Answer:
    """A list."""
    return Answer(body={"metadata": {"resourceVersion": version}, "items": list(items)})


def event(kind: str, obj: Any, version: str | None = None) -> dict[str, Any]:
    """A line of a watch."""
    if version is not None:
        obj = {**obj, "metadata": {**obj.get("metadata", {}), "resourceVersion": version}}
    return {"type": kind, "object": obj}


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client(lambda: Endpoint(server.url, "Bearer secret", "lab"), timeout=10) as made:
        yield made


@pytest.fixture
def access(client: Client) -> Access:
    return Access(client, None)
