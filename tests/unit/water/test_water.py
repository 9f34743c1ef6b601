"""What all programs that measure water have in common: configurations, reasons, the count of steps."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from scavenger_water import configuration, ends, record, work

from tests.unit.water import given

DEMOS = Path(__file__).resolve().parents[3] / "demo-apps"

MODELS = ("spce", "tip3p")
read = partial(given.read, MODELS)


# --- configuration ---


def test_a_configuration_has_defaults() -> None:
    found = read()
    assert (found.pressure, found.equilibration, found.wall_seconds) == (1.0, 0.2, None)
    assert (found.frames, found.frame_ps) == (16, 0.1)
    assert found.equilibration_ps == pytest.approx(0.4)


def test_the_same_configuration_is_the_same_text() -> None:
    assert read().to_json() == read(time_step_fs=2.0, pressure=1, wall_seconds=None).to_json()
    assert read().to_json() != read(seed=2).to_json()
    assert configuration.read_configuration(read(wall_seconds=60).to_json(), MODELS) == read(wall_seconds=60.0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": "tip9p"}, ["model: must be one of spce, tip3p"]),
        ({"model": ["spce"]}, ["model: must be one of"]),
        ({"molecules": 215}, ["molecules: must be a whole number from 216 to"]),
        ({"molecules": 300.5}, ["molecules: must be a whole number"]),
        ({"seed": 0}, ["seed: must be"]),
        ({"seed": True}, ["seed: must be"]),
        ({"temperature": "298"}, ["temperature: must be a number from 200 to 600"]),
        ({"temperature": math.nan}, ["temperature: must be"]),
        ({"temperature": None}, ["temperature: must be"]),
        ({"wall_seconds": 0}, ["wall_seconds: must be"]),
        ({"steps": ..., "colour": "blue", "seed": -1}, ["steps: missing", "colour: unknown", "seed: must be"]),
        ({"output_interval": 100}, ["the analysis needs 10 frames, not 8"]),
        ({"equilibration": 0.6}, ["the analysis needs 10 frames, not 8"]),
    ],
)
def test_all_that_is_wrong_is_told(changes: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(configuration.ConfigurationError) as refused:
        read(**changes)
    assert all(part in str(refused.value) for part in words)
    assert str(refused.value).count(";") == len(words) - 1


@pytest.mark.parametrize("text", ["", "{", "[]", "3"])
def test_a_configuration_is_a_json_object(text: str) -> None:
    with pytest.raises(configuration.ConfigurationError):
        configuration.read_configuration(text, MODELS)


@pytest.mark.parametrize("molecules", [216, 300, 309, 310, 311, 500, 10_000])
def test_the_box_is_wider_than_twice_the_cutoff(molecules: int) -> None:
    assert read(molecules=molecules).edge > 2.2 * read(molecules=molecules).cutoff


# --- reasons ---


@pytest.mark.parametrize("program", ["gromacs", "openmm"])
def test_the_readme_names_every_reason_with_its_exit_code(program: str) -> None:
    told = (DEMOS / program / "README.md").read_text()
    assert all(f"| `{reason.value}` | {reason.exit_code} |" in told for reason in ends.Reason)


def test_the_time_of_all_starts_together_is_over() -> None:
    starts = [record.Start(0, 100, 100, 40.0), record.Start(100, 150, 50, 19.0)]
    assert work.seconds_left(read(), starts, 150) is None
    assert work.seconds_left(read(wall_seconds=60), starts, 150) == pytest.approx(1)
    with pytest.raises(ends.FailedError, match="step 150 of 1000 when its time was over") as failed:
        work.seconds_left(read(wall_seconds=59), starts, 150)
    assert failed.value.reason is ends.Reason.WALL_TIME


# --- the record ---


def test_a_record_survives_every_kill(tmp_path: Path) -> None:
    first = record.Record(tmp_path)
    first.begin(0)
    first.seen(0, 10.0)
    first.seen(400, 14.0)  # killed with SIGKILL here
    second = record.Record(tmp_path)
    assert [(start.first, start.reached) for start in second.starts] == [(0, 400)]
    second.begin(300)
    second.seen(350, 100.0)
    second.seen(900, 105.5)
    second.end(925)
    third = record.Record(tmp_path)
    third.begin(925)
    assert [(start.first, start.reached) for start in record.Record(tmp_path).starts] == [
        (0, 400),
        (300, 925),
        (925, 925),
    ]
    assert record.computed(third.starts) == 400 + 625
    # 400 steps in 4 s and 550 in 5.5 s, of 2 fs each.
    assert record.ns_per_day(third.starts, 2.0) == pytest.approx(950 * 2e-6 / 9.5 * 86400)


def test_a_start_that_was_killed_at_once_has_no_speed(tmp_path: Path) -> None:
    found = record.Record(tmp_path)
    assert record.ns_per_day(found.starts, 2.0) is None
    found.begin(0)
    found.seen(0, 1.0)
    assert record.ns_per_day(record.Record(tmp_path).starts, 2.0) is None


def test_a_damaged_record_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    whole = record.Record(tmp_path)
    for first in (0, 100):
        whole.begin(first)
        whole.end(first + 100)
    (tmp_path / "mark.json").write_text('{"start": 2, "fir')
    assert [start.reached for start in record.Record(tmp_path).starts] == [100, 100]
    log = tmp_path / "starts.jsonl"
    log.write_text(log.read_text()[:-9])
    assert [start.reached for start in record.Record(tmp_path).starts] == [100]
