"""The shared folder: what is written appears as a whole, what is read is checked."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from scavenger_tuner.core.endings import Complaint, Left
from scavenger_tuner.core.trial import Configuration
from scavenger_tuner.exchange import MAX_BYTES, read_left, write_input

CONFIGURATION = Configuration("spce", 500, 300.0, 7, 1000, 2.0)
FIGURE = {"value": 0.997, "error": 0.001, "unit": "g/cm3"}
RESULT: dict[str, Any] = {
    "density": FIGURE,
    "diffusion": {"value": 2.4, "error": 0.1, "unit": "1e-5 cm2/s"},
    "ns_per_day": 120.5,
    "steps": 1000,
    "recomputed_steps": 12,
    "ranks": 1,
    "threads": 2,
}


def test_input_is_written_once(tmp_path: Path) -> None:
    folder = tmp_path / "attempt"
    write_input(folder, CONFIGURATION, 60.0, os.getuid())
    first = (folder / "configuration.json").stat().st_mtime_ns
    write_input(folder, CONFIGURATION, 60.0, os.getuid())

    assert json.loads((folder / "configuration.json").read_text()) == CONFIGURATION.document(60.0)
    assert (folder / "configuration.json").stat().st_mtime_ns == first
    assert [path.name for path in folder.iterdir()] == ["configuration.json"]


def test_nothing_left(tmp_path: Path) -> None:
    assert read_left(tmp_path) == Left()
    assert read_left(tmp_path / "not there") == Left()


def test_a_result(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(json.dumps({**RESULT, "more": "is left out"}))
    left = read_left(tmp_path)

    assert left.result is not None
    assert left.result.model_dump(mode="json") == RESULT
    assert (left.complaint, left.unreadable) == (None, "")


def test_a_result_without_an_error_or_a_speed(tmp_path: Path) -> None:
    short = {**RESULT, "density": {**FIGURE, "error": None}, "ns_per_day": None}
    (tmp_path / "result.json").write_text(json.dumps(short))
    left = read_left(tmp_path)

    assert left.result is not None
    assert (left.result.density.error, left.result.ns_per_day) == (None, None)


def test_a_failure(tmp_path: Path) -> None:
    (tmp_path / "failure.json").write_text('{"reason": "Unstable", "message": "LINCS"}')

    assert read_left(tmp_path) == Left(complaint=Complaint(reason="Unstable", message="LINCS"))


@pytest.mark.parametrize(
    ("body", "trouble"),
    [
        ("", "Invalid JSON"),
        ('{"density":', "Invalid JSON"),
        (json.dumps({**RESULT, "ns_per_day": -1}), "ns_per_day"),
        (json.dumps({**RESULT, "density": {**FIGURE, "value": float("nan")}}), "density.value"),
        (json.dumps({key: value for key, value in RESULT.items() if key != "diffusion"}), "diffusion"),
        (" " * (MAX_BYTES + 1), "larger than"),
    ],
)
def test_what_cannot_be_believed(tmp_path: Path, body: str, trouble: str) -> None:
    (tmp_path / "result.json").write_text(body)
    left = read_left(tmp_path)

    assert left.result is None
    assert left.unreadable.startswith("result.json: ")
    assert trouble in left.unreadable


def test_what_is_no_file(tmp_path: Path) -> None:
    """A job that puts a link there gets nothing of the tuner's files into a message; a pipe holds nobody up."""
    secret = tmp_path / "secret"
    secret.write_text("the password")
    folder = tmp_path / "attempt"
    folder.mkdir()
    (folder / "result.json").symlink_to(secret)
    os.mkfifo(folder / "failure.json")

    assert read_left(folder) == Left(unreadable="result.json: is a link; failure.json: is no file")


def test_a_link_in_place_of_the_input_is_replaced(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("untouched")
    folder = tmp_path / "attempt"
    folder.mkdir()
    (folder / "configuration.json").symlink_to(other)
    write_input(folder, CONFIGURATION, 60.0, os.getuid())

    assert other.read_text() == "untouched"
    assert json.loads((folder / "configuration.json").read_text()) == CONFIGURATION.document(60.0)
