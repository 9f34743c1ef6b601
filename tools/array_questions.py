"""How often the admitter asks whether a job is an array, outside of the books.

A rule that asks is one that jobs and arrays do not share. The number is written down, so that a change that needs more
of them says so: `python -m tools.array_questions` prints where they stand and fails where the number is another one.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
SOURCES: Final = ROOT / "services" / "admitter" / "src" / "scavenger_admitter"
BOOKS: Final = SOURCES / "core" / "lifecycle" / "books"
QUESTIONS: Final = 10
"""As many there are. Lower it with each that goes."""


def questions(source: str) -> Iterator[int]:
    """The lines on which `spec.array` is compared with None, or taken for true or false."""
    for node in ast.walk(ast.parse(source)):
        tests: list[ast.expr] = []
        if isinstance(node, ast.Compare) and any(_is_none(one) for one in node.comparators):
            tests = [node.left]
        elif isinstance(node, ast.If | ast.IfExp | ast.While | ast.Assert):
            tests = [node.test]
        elif isinstance(node, ast.BoolOp):
            tests = node.values
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            tests = [node.operand]
        yield from (one.lineno for one in tests if _is_array_of_spec(one))


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_array_of_spec(node: ast.expr) -> bool:
    if isinstance(node, ast.NamedExpr):
        node = node.value
    if not isinstance(node, ast.Attribute) or node.attr != "array":
        return False
    of = node.value
    return (isinstance(of, ast.Attribute) and of.attr == "spec") or (isinstance(of, ast.Name) and of.id == "spec")


def found() -> list[str]:
    """Where the admitter asks: `path:line`."""
    files = sorted(path for path in SOURCES.rglob("*.py") if not path.is_relative_to(BOOKS))
    return [f"{path.relative_to(ROOT)}:{line}" for path in files for line in sorted(questions(path.read_text()))]


def main() -> int:
    """Print where the admitter asks; returns the exit code."""
    places = found()
    if len(places) == QUESTIONS:
        return 0
    sys.stderr.write("\n".join((*places, f"{len(places)} questions, and QUESTIONS is {QUESTIONS}", "")))
    return 1


if __name__ == "__main__":
    sys.exit(main())
