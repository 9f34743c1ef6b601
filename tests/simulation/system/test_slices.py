"""A run of many histories comes in slices: each goes on where the last one ended, and adds to one table."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Set
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.simulation import __main__ as command

ENDLESS = """
import multiprocessing, os, sys, time
from tests.simulation import __main__ as command

def simulate(*_):
    if os.environ["FAILED"] and multiprocessing.parent_process() is not None:
        raise AssertionError("lives twice")
    print("under way", flush=True)
    time.sleep(3600)

command.simulate = simulate
sys.exit(command.main())
"""
"""Plays histories that do not end, or fail at once and take for ever to be told."""


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each history evicts a job that is Running, and the seed 3 fails."""

    def simulate(seed: int, _: Any, skip: Set[int] = frozenset()) -> Any:
        if seed == 3:
            raise AssertionError("lives twice")
        return SimpleNamespace(met={("evict", "Running"): 1}, digest=f"history {seed}")

    monkeypatch.setattr(command, "simulate", simulate)


def test_a_slice_goes_on_where_the_last_one_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--seeds", "6", "--table", str(tmp_path / "table.json")]
    assert command.play(command.chosen([*words[:1], "2", *words[2:]])) == 0
    assert command.play(command.chosen(words)) == 1
    said = capsys.readouterr().out
    assert _played(said) == [0, 1, 2, 4, 5]
    assert "seed 3 FAILED" in said
    assert "it takes [" in said
    assert said.rstrip().endswith("seeds 0 to 5 in all, failed: [3]; done")
    assert _evicted(said) == 5
    assert command.play(command.chosen(words)) == 0, "the failure was of another slice"
    assert capsys.readouterr().out.rstrip().endswith("failed: [3]; done")


def test_a_seed_begins_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--seeds", "2", "--table", str(tmp_path / "table.json")]
    for more in ([], ["--seed", "7"], ["--until", "0"]):
        assert command.play(command.chosen([*words, *more])) == 0
    said = capsys.readouterr().out
    assert _played(said) == [0, 1, 7, 8]
    assert _evicted(said) == 2


def test_a_slice_that_runs_out_of_time_says_what_is_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--seed", "5", "--seeds", "2", "--until", "0", "--table", str(tmp_path / "table.json")]
    assert command.play(command.chosen(words)) == 0
    said = capsys.readouterr().out
    assert not _played(said)
    assert "the next is 5 of 7" in said


@pytest.mark.parametrize("failed", [False, True], ids=["histories are played", "a failure is told"])
def test_who_ends_it_ends_the_processes_that_play_at_once(failed: bool) -> None:
    """Neither is waited for that are under way: a history takes seconds, and the shortest form of one takes minutes."""
    words = [sys.executable, "-c", ENDLESS, "--seeds", "1000"]
    env = {**os.environ, "PYTHONHASHSEED": "0", "FAILED": "1" if failed else ""}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True, env=env) as playing:
        assert playing.stdout is not None
        while "under way" not in playing.stdout.readline():
            assert playing.poll() is None, "it has ended by itself"
        playing.terminate()
        try:
            playing.communicate(timeout=60)  # until no process has the pipe
        except subprocess.TimeoutExpired:
            pytest.fail("processes are left")
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(playing.pid, signal.SIGKILL)


def _played(said: str) -> list[int]:
    """The seeds of the histories that came to their end."""
    return [int(line.split()[-1]) for line in said.splitlines() if "history " in line]


def _evicted(said: str) -> int:
    """Of jobs that are Running, as the last table says."""
    rows = [line.split() for line in said.splitlines() if line.startswith("evict ")]
    phases = [phase or "new" for phase in command.PHASES]
    return int(rows[-1][1 + phases.index("Running")])
