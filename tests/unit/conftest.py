from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Callable, Iterator

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


@pytest.fixture
def lost(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """What asyncio has logged: each task and future whose exception nobody has asked for."""

    def found() -> list[str]:
        gc.collect()
        return [record.getMessage() for record in caplog.records if record.name == "asyncio"]

    return found
