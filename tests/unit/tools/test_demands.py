"""Each demand has a test that there is, or the reason why it has none; what has no other test is tested here."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tools import demands
from tools.demands import Demand, Document
from tools.generated import ROOT

TESTS = ROOT / "tests"
NAMED = {
    "kubernetes-asyncio": "kubernetes_asyncio",
    "fastapi": "fastapi",
    "uvicorn": "uvicorn",
    "pydantic": "pydantic",
    "prometheus-client": "prometheus_client",
    "structlog": "structlog",
}


@cache
def known_tests() -> frozenset[str]:
    return frozenset(
        f"{path.relative_to(TESTS)}::{name}" for path in TESTS.rglob("test_*.py") for name in _tests_of(path)
    )


def _tests_of(path: Path) -> Iterator[str]:
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (each.id for each in node.targets if isinstance(each, ast.Name) and each.id.startswith("Test"))


def test_all_demands_have_a_test_or_a_reason() -> None:
    documents = demands.read()
    assert demands.problems(documents, known_tests()) == []
    keys = [each.key for document in documents for each in document.demands]
    counts = {"A": 80, "B": 12, "C": 22, "D": 6, "E": 16, "F": 8}
    assert keys == [f"{group}{number}" for group, count in counts.items() for number in range(1, count + 1)]


@pytest.mark.parametrize(
    ("demand", "said"),
    [
        (Demand("A1", "…", "nearly"), "A1: the state 'nearly' is none of done, differs, open"),
        (Demand("A1", "…", "done"), "A1: done, and no test proves it"),
        (Demand("A1", "…", "open", ["unit/test_a.py::test_a"]), "A1: open, and the reason is missing"),
        (Demand("A1", "…", "done", ["unit/test_a.py::test_b"]), "A1: there is no test unit/test_a.py::test_b"),
    ],
)
def test_what_is_wrong_is_told(demand: Demand, said: str) -> None:
    assert demands.problems([Document("A", "…", [demand])], frozenset({"unit/test_a.py::test_a"})) == [said]


def test_the_page_has_its_tables() -> None:
    document = Document("A", "a title", [Demand("A1", "one | two", "differs", ["unit/t.py::test_a"], "As it is.")])
    text = demands.page(f"above\n{demands.BEGIN}old\n{demands.END}below\n", [document])
    assert "| A1 | one &#124; two | **differs**: As it is. | `unit/t.py::test_a` |" in text
    assert "old" not in text
    assert text.startswith("above\n")
    assert text.endswith("below\n")
    with pytest.raises(ValueError, match="lacks a line"):
        demands.page("above\n", [document])


# --- demands without another test -----------------------------------------------------------------------------------


def test_the_named_libraries_are_used() -> None:
    sources = "\n".join(
        path.read_text() for folder in ("services", "packages", "cli") for path in (ROOT / folder).rglob("src/**/*.py")
    )
    for library, module in NAMED.items():
        assert f"from {module}" in sources or f"import {module}" in sources, library
    assert "asyncio_mode" in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]


def test_the_named_folders_and_files_are_there() -> None:
    services = ("admitter", "regulator", "prioritizer", "webhook")
    for folder in (*(f"services/{name}" for name in services), "manifests", "charts", "demo-apps", "tests"):
        assert (ROOT / folder).is_dir(), folder
    for file in ("docker-compose.kind.yml", "pyproject.toml"):
        assert (ROOT / file).is_file(), file
