from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

import pytest
import structlog


@pytest.fixture(autouse=True)
def logs() -> Iterator[list[MutableMapping[str, Any]]]:
    """What was logged; keeps it out of the tests' output as well."""
    structlog.reset_defaults()
    with structlog.testing.capture_logs() as entries:
        yield entries
