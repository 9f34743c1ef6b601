from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any, Final

import pytest
import structlog
import uvloop

Factories = dict[str, Callable[[], asyncio.AbstractEventLoop]]
ON_SOCKETS: Final[Factories] = {"uvloop": uvloop.new_event_loop}
IN_VIRTUAL_TIME: Final[Factories] = {"asyncio": asyncio.new_event_loop}


@pytest.fixture(autouse=True)
def logs() -> Iterator[list[MutableMapping[str, Any]]]:
    """What was logged; keeps it out of the tests' output as well."""
    structlog.reset_defaults()
    with structlog.testing.capture_logs() as entries:
        yield entries


def pytest_asyncio_loop_factories(item: pytest.Item) -> Factories:
    """Tests on sockets have the loop of the services, whose transports are no instances of asyncio's."""
    return ON_SOCKETS if item.path.stem in ("test_connections", "test_metrics_server") else IN_VIRTUAL_TIME
