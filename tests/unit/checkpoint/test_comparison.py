"""Results of two runs, compared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scavenger_checkpoint.comparison import Result, differences


def compare(folder: Path, expected: bytes | None, found: bytes | None, result: Result) -> list[str]:
    for name, content in (("whole", expected), ("interrupted", found)):
        (folder / name).mkdir()
        if content is not None:
            (folder / name / result.path).write_bytes(content)
    return differences(result, folder / "whole", folder / "interrupted")


@pytest.mark.parametrize(
    ("expected", "found", "told"),
    [
        (b"same", b"same", []),
        (b"", b"", []),
        (b"abc", b"abX", ["3 bytes instead of 3, the same up to byte 2"]),
        (b"abc", b"abcd", ["4 bytes instead of 3, the same up to byte 3"]),
        (None, b"", ["the uninterrupted run left no file that can be read (No such file or directory)"]),
        (b"", None, ["the interrupted run left no file that can be read (No such file or directory)"]),
    ],
)
def test_files_are_compared_byte_by_byte(
    expected: bytes | None, found: bytes | None, told: list[str], tmp_path: Path
) -> None:
    assert compare(tmp_path, expected, found, Result("file")) == told


@pytest.mark.parametrize(
    ("expected", "found", "told"),
    [
        ({"a": 1, "b": [1, "x", None, True]}, {"b": [1.0, "x", None, True], "a": 1}, []),
        ({"d": {"value": 100}}, {"d": {"value": 100.9}}, []),
        ({"d": {"value": 100}}, {"d": {"value": 102}}, ["d.value: 102 instead of 100"]),
        ({"when": 1}, {"when": 2}, []),
        ({"when": 1}, {}, []),
        ({"a": 1}, {}, ["a: missing"]),
        ({}, {"a": {"b": 1}}, ["a: was not there in the uninterrupted run"]),
        ([1, 2], [1], ["the value: [1] instead of [1, 2]"]),
        ([{"a": 0}], [{"a": 1}], ["[0].a: 1 instead of 0"]),
        ({"a": True}, {"a": 1}, ["a: 1 instead of true"]),
        ({"a": "1"}, {"a": 1}, ['a: 1 instead of "1"']),
        ({"a": 1.0}, {"a": float("nan")}, ["a: NaN instead of 1.0"]),
        ({"a": "x" * 99}, {"a": ""}, [f'a: "" instead of "{"x" * 56}...']),
    ],
)
def test_json_is_compared_value_by_value(expected: object, found: object, told: list[str], tmp_path: Path) -> None:
    result = Result("file", is_json=True, tolerance=0.01, ignored=frozenset({"when"}))
    assert compare(tmp_path, json.dumps(expected).encode(), json.dumps(found).encode(), result) == told


def test_ten_differences_are_told(tmp_path: Path) -> None:
    told = compare(tmp_path, json.dumps([0] * 12).encode(), json.dumps([1] * 12).encode(), Result("file", True))
    assert len(told) == 11
    assert told[-1] == "and 2 more"


def test_what_is_no_json_is_told(tmp_path: Path) -> None:
    assert compare(tmp_path, b"{", b"{}", Result("file", True))[0].startswith("it is not JSON")
