"""What all tests have in common."""

from __future__ import annotations

import gc
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest
from scavenger_domain.soundness import CHECKS

from tests import results
from tests.forks import Forks
from tests.results import pytest_fixture_setup, pytest_runtest_makereport
from tests.unit.effort import register_profiles

__all__ = ["pytest_fixture_setup", "pytest_runtest_makereport"]

register_profiles()
CHECKS.on = True

HERE = Path(__file__).parent
CLUSTER_SECONDS = 900
"""For a test on a cluster, with the bringing up of the cluster; a unit test has the default of pyproject.toml."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of tests/forks.py."""
    parser.addoption(
        "--forks", type=int, default=0, metavar="N", help="run tests in N processes, forked once collected"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Write results down, and have tests run in forks where that is asked for."""
    results.write(config)
    if config.option.forks:
        config.pluginmanager.register(Forks(config.option.forks))


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """What follows from where a test stands, and from its markers."""
    for item in items:
        on_a_cluster = item.path.relative_to(HERE).parts[0] in ("e2e", "integration")
        if on_a_cluster and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(CLUSTER_SECONDS))
    _skip_what_needs_containers(items)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage while tests are collected: next to nothing of what is made then is any."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Spare collections of garbage what stays until the end: modules, models, the tests themselves."""
    gc.collect()
    gc.freeze()


def _skip_what_needs_containers(items: Sequence[pytest.Item]) -> None:
    """Skip what needs a kubelet and containers where there can be none, and say so, before any fixture is made."""
    real = [item for item in items if item.get_closest_marker("real")]
    if not real:
        return
    from scavenger_cluster.requirements import obstacles

    found = obstacles()
    for item in real if found else ():
        item.add_marker(pytest.mark.skip(reason=f"no real nodes here: {'; '.join(found)}"))
