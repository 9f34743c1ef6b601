"""Nobody is shown a regular expression."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from scavenger_cli.lint.check import schema_of
from scavenger_cli.patterns import meaning


def patterns(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get("pattern"), str):
            yield schema["pattern"]
        for inner in schema.values():
            yield from patterns(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from patterns(inner)


ALL = sorted({pattern for kind in ("ScavengerJob", "ScavengerQueue") for pattern in patterns(schema_of(kind))})


@pytest.mark.parametrize("pattern", ALL)
def test_every_pattern_has_words(pattern: str) -> None:
    assert meaning(pattern) is not None
    told = f"Invalid value: \"x y\": spec.image in body should match '{pattern}'"
    assert meaning(told) == meaning(pattern)


def test_patterns_of_different_meaning_have_different_words() -> None:
    assert meaning("^[!-~]+$") != meaning("^/[^:]*$")
    assert len({meaning(pattern) for pattern in ALL}) >= len(ALL) - 1  # names with dots and without
    assert meaning("must be no more than 63 characters") is None
