"""The same cases against the fake API server and, where SCAVENGER_TEST_KUBECONFIG names one, against a real one.

    SCAVENGER_TEST_KUBECONFIG=... pytest tests/contract

Needs a control plane only. What is not in a namespace of its own has a name of its own, and is deleted at the end.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from scavenger_kube.client import ApiClient
from scavenger_kube.resources import NAMESPACES
from scavenger_testing import FakeApi

KUBECONFIG = os.environ.get("SCAVENGER_TEST_KUBECONFIG")

REAL = pytest.param(
    "real", marks=pytest.mark.skipif(not KUBECONFIG, reason="SCAVENGER_TEST_KUBECONFIG names no cluster")
)


@dataclass(frozen=True)
class Server:
    """An API server to hold to the contract, and a namespace to do it in. fake: None where it is a real one."""

    client: ApiClient
    namespace: str
    fake: FakeApi | None


@pytest.fixture(params=["fake", REAL])
async def server(request: pytest.FixtureRequest) -> AsyncIterator[Server]:
    namespace = f"contract-{uuid.uuid4().hex[:8]}"
    if request.param == "fake":
        async with FakeApi() as fake:
            yield Server(fake.client(), namespace, fake)
        return
    async with await ApiClient.connect(kubeconfig=KUBECONFIG) as client:
        manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        await client.create(NAMESPACES, None, manifest)
        try:
            yield Server(client, namespace, None)
        finally:
            await asyncio.shield(client.delete(NAMESPACES, None, namespace))
