"""What holds for all tests: a folder of tests that share a cluster stays in one process."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group integration and end-to-end tests by folder, for `pytest --dist loadgroup`."""
    for item in items:
        parts = item.path.relative_to(HERE).parts
        if parts[0] in ("integration", "contract"):
            item.add_marker(pytest.mark.xdist_group("/".join(parts[:-1][:2])))
        elif parts[0] == "e2e":
            # Those on the shared cluster together, the others on clusters of their own.
            own = parts[-1] in ("test_budget_trick.py", "test_demo.py")
            item.add_marker(pytest.mark.xdist_group(parts[-1] if own else "e2e"))
