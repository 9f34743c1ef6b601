"""What one object may cost: each bound has a test that exists, and each thing says what it costs."""

from __future__ import annotations

import ast
from functools import cache

import pytest

from tools import costs
from tools.generated import ROOT

NAMED = sorted({bound.test for bounds in costs.THINGS.values() for bound in bounds.values()})


@cache
def named_in(file: str) -> frozenset[str]:
    """The names of the tests in a file."""
    tree = ast.parse((ROOT / file).read_text())
    return frozenset(
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    )


@pytest.mark.parametrize("test", NAMED)
def test_each_bound_is_tried(test: str) -> None:
    file, _, name = test.partition("::")
    assert name in named_in(file)


def test_a_job_has_a_bound_for_each_cost() -> None:
    assert tuple(costs.THINGS["A ScavengerJob"]) == costs.COSTS
    assert {cost for bounds in costs.THINGS.values() for cost in bounds} == set(costs.COSTS)


def test_a_word_for_each_size() -> None:
    assert [costs.size(count) for count in (7, 1024, 1536 * 1024, 12 * 2**20)] == [
        "7 bytes",
        "1 KiB",
        "1.5 MiB",
        "12 MiB",
    ]
