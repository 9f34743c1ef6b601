"""The readers of `tools/texts.py` find the texts; `make lint` measures them by `python -m tools.prose --check`."""

from __future__ import annotations

import ast

import pytest

from tools.texts import READERS, comments, docstrings, strings

KNOWN = {
    "values.yaml": "a page for cluster administrators",
    "values.schema.json": "create the three PriorityClasses",
    "NOTES.txt": "Install all components into this namespace: they share its ConfigMaps.",
    "Chart.yaml": "Starts scavenger jobs where capacity is free, and records how they end",
    "alerts": "Regular pods wait for capacity while scavenger jobs run.",
    "policies": "admitter, prioritizer and regulator change pods of ScavengerJobs only",
    "generated pages": "A start failed. The job is queued again.",
    "kubectl sj": "Print every change, until Ctrl-C.",
    "board": "Jobs that left",
    "krew": "They leave when regular workloads need the capacity",
    "make": "The gate: everything that a change must pass",
    "messages": "give names, or --finished, or --all",
}
"""A text of each kind, or the beginning of one."""


def test_every_kind_has_a_reader() -> None:
    assert READERS.keys() == KNOWN.keys()


@pytest.mark.parametrize("kind", KNOWN)
def test_a_text_of_the_kind_is_found(kind: str) -> None:
    assert any(KNOWN[kind] in text for _, text in READERS[kind]())


def test_examples_among_comments_are_no_texts() -> None:
    assert list(
        comments('# One\n# sentence. Such as:\n# - name: network\n#   node: sum(x)\nlist: []\n\nmark: "#" # behind\n')
    ) == ["One sentence. Such as:", "behind"]


def test_messages_are_strings_that_are_no_docstrings() -> None:
    code = ast.parse('"""A module."""\nx = 1\n"""What x is."""\nraise ValueError(f"a {x} b" " and c", "d")\n')
    assert list(strings(code)) == ["a x b and c", "d"]
    assert any(where.startswith("packages/api/") for where, _ in docstrings())
