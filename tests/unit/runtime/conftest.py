from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, MutableMapping
from typing import Any

import pytest
import structlog
from scavenger_kube.client import ApiClient
from scavenger_testing import FakeApi


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with FakeApi() as fake:
        yield fake


@pytest.fixture
async def client(api: FakeApi) -> ApiClient:
    return api.client()


@pytest.fixture(autouse=True)
def logs() -> Iterator[list[MutableMapping[str, Any]]]:
    """What was logged; keeps it out of the tests' output as well."""
    structlog.reset_defaults()
    with structlog.testing.capture_logs() as entries:
        yield entries
