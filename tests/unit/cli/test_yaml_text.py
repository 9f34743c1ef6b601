"""YAML that every reader takes for what was written."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from scavenger_cli.forms import yaml_text

ODD = "ab\n -#:|'\"{}[],&*!%@`?~=<>0.e+\t"
STRINGS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.text(ODD, max_size=9)
TAKEN = (
    "yes No N ~ null 1 1.5 0x1f 1_000 1e3 .inf -.5 2026-01-05 2026-01-05T08:00:00Z = << a: 12:30:45 0o17 +1 [] {}"
    " | 500m cpu=1"
)
WORDS = st.sampled_from([*TAKEN.split(), "", "- a", "a: b", "a #b", "a ", " a"])
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | st.integers() | FLOATS | STRINGS | WORDS
DATA = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(STRINGS | WORDS, inner, max_size=4),
    max_leaves=15,
)


@given(DATA)
def test_what_is_written_is_what_is_read(data: Any) -> None:
    assert yaml.safe_load(yaml_text(data)) == data


@pytest.mark.parametrize("text", ["y", "No", "1e3", "0o17", "1_000", ".5", "12:30:45", "=", "<<"])
def test_what_any_reader_may_take_for_something_else_is_quoted(text: str) -> None:
    assert yaml_text([text]) == f'- "{text}"\n'


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (
            {"b": {"c": [1, {"e": "x", "d": None}]}, "a": "1"},
            ['a: "1"', "b:", "  c:", "  - 1", "  - d: null", "    e: x"],
        ),
        ({"a": [], "b": {}, "c": [[True], []]}, ["a: []", "b: {}", "c:", "- - true", "- []"]),
        ({"a": "x\ny\n"}, ["a: |", "  x", "  y"]),
        (["one line", "more than 70 %; why: cpu"], ["- one line", '- "more than 70 %; why: cpu"']),
    ],
)
def test_its_form_is_kubectls(data: Any, lines: list[str]) -> None:
    assert yaml_text(data).splitlines() == lines
