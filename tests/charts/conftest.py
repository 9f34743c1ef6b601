"""helm, for every test that renders a chart."""

from __future__ import annotations

from pathlib import Path

import pytest
from scavenger_cluster.build import ensure_tools
from scavenger_cluster.errors import MissingRequirementError

from tests.charts import renders


@pytest.fixture(scope="session")
def helm() -> Path:
    """The program, of the version that the project builds; skips where there is no Go to build it with."""
    renders.forget_old_ones()
    try:
        return ensure_tools(["helm"], lambda line: print(line, flush=True))["helm"]  # noqa: T201
    except MissingRequirementError as error:
        pytest.skip(f"helm cannot be built here: {error}")
