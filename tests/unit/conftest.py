from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from scavenger_kube.client import ApiClient
from scavenger_testing import FakeApi
from scavenger_testing.scripted import Server


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with FakeApi() as fake:
        yield fake


@pytest.fixture
async def client(api: FakeApi) -> ApiClient:
    return api.client()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()
