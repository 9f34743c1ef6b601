"""A real PostgreSQL, and databases in it; with the API server of all integration tests, a place where tuners work."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack

import pytest
from scavenger_cluster import MissingRequirementError
from scavenger_testing.postgres import Postgres, serving
from scavenger_tuner.database.engine import connect
from scavenger_tuner.database.schema import migrate
from sqlalchemy.ext.asyncio import AsyncEngine

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with ExitStack() as stays:
        try:
            server = stays.enter_context(serving())
        except MissingRequirementError as error:
            pytest.skip(str(error))
        yield server


@pytest.fixture
def empty_url(postgres: Postgres) -> str:
    """Of a database of the test's own, without tables."""
    return postgres.database(f"test{next(_numbers)}")


@pytest.fixture
def url(empty_url: str) -> str:
    """Of a database of the test's own."""
    migrate(empty_url)
    return empty_url


@pytest.fixture
async def engine(url: str) -> AsyncIterator[AsyncEngine]:
    made = connect(url)
    yield made
    await made.dispose()
