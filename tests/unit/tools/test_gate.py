"""The gate runs steps in order, lets a test run once more alone, and remembers which ones needed it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from _pytest.mark.expression import Expression

from tools import gate, test_all
from tools.gate import STEPS, Done, History, Run, Step, passed_alone, run_of, run_steps, summary
from tools.test_all import SLICES, Ran, due
from tools.test_results import Lane, Result, by_file, by_fixture, read
from tools.test_times import tables

ROOT = Path(__file__).parents[3]


def lane(*outcomes: str, exit: int | None = 1, collected: bool = True) -> Lane:
    results = (Result("unit", f"t{n}", outcome, {}, collected=collected) for n, outcome in enumerate(outcomes))
    return Lane("unit", tuple(results), exit)


def never(test: str) -> bool:
    pytest.fail(f"{test} must not run again")


def test_a_test_that_passes_alone_is_named() -> None:
    lanes = [lane("passed", "failed", "skipped")]
    assert passed_alone(Step("x"), lanes, lambda test: test == "t1") == ["t1"]


@pytest.mark.parametrize(
    ("step", "lanes"),
    [
        (Step("test-simulation", again=False), [lane("failed")]),
        (Step("lint"), []),
        (Step("x"), [lane("passed")]),
        (Step("x"), [lane("failed", collected=False)]),
        (Step("x"), [lane("failed"), lane("passed", exit=3)]),
        (Step("x"), [lane("failed", exit=None)]),
        (Step("x"), [lane(*["failed"] * 6)]),
    ],
    ids=["simulation", "no tests", "no failure", "import error", "internal error", "died", "many"],
)
def test_what_never_runs_again(step: Step, lanes: Sequence[Lane]) -> None:
    assert passed_alone(step, lanes, never) == []


def test_all_that_failed_must_pass_alone() -> None:
    assert passed_alone(Step("x"), [lane("failed", "failed")], lambda test: test == "t0") == []


def test_the_simulation_never_runs_again() -> None:
    assert [step.target for step in STEPS if not step.again] == ["test-simulation"]


def test_steps_end_with_the_first_that_does_not_pass() -> None:
    asked: list[str] = []

    def make(step: Step) -> int:
        asked.append(step.target)
        return int(step.target == "b")

    done = run_steps([Step("a"), Step("b"), Step("c")], make, never, lambda _: [])
    assert asked == ["a", "b"]
    assert [one.passed for one in done] == [True, False]


def test_each_step_has_the_results_that_were_written_since_it_began() -> None:
    """What the step before wrote a moment ago is not counted twice."""
    asked: list[float] = []

    def written_since(since: float) -> list[Lane]:
        asked.append(since)
        return []

    before = time.time()
    run_steps([Step("a"), Step("b")], lambda _: 0, never, written_since)
    assert before <= asked[0] <= asked[1] <= time.time()


def test_a_step_beside_another_one_counts_for_what_it_takes_longer_and_fails_the_run_as_well() -> None:
    """Its lane is its own: what fails there never runs again, and what fails in the other one does, after both."""
    lanes = [lane("failed"), replace(lane("failed"), name="played")]
    rest, ended = threading.Event(), list[str]()

    def make(step: Step) -> int:
        if step.beside:
            assert rest.wait(60), "the other one runs at the same time"
            time.sleep(0.05)
        rest.set()
        ended.append(step.target)
        return 1

    def once_more(_: str) -> bool:
        ended.append("again")
        return True

    steps = [Step("play", again=False, beside="played"), Step("b"), Step("c")]
    played, beside = run_steps(steps, make, once_more, lambda _: lanes)
    assert ended == ["b", "play", "again"]
    assert (played.step, played.passed, played.alone) == (steps[0], False, [])
    assert (beside.step, beside.passed, beside.alone) == (steps[1], True, ["t0"])
    assert 0.05 <= played.seconds < 60


def test_what_runs_beside_another_step_says_which_lane_it_has() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert all(f"SCAVENGER_TEST_LANE={step.beside} " in makefile for step in STEPS if step.beside)
    assert not STEPS[-1].beside


def test_every_step_is_a_target() -> None:
    targets = (ROOT / "Makefile").read_text()
    assert all(f"\n{step.target}:" in targets for step in STEPS)


def passing(seconds: float = 1.0) -> list[Done]:
    return [Done(step, True, seconds, list(lane("passed", "skipped").results)) for step in STEPS]


def test_the_summary_tells_skips_flaky_tests_and_counts() -> None:
    done = passing()
    done[0].results[1] = replace(done[0].results[1], why="no root")
    done[1].results[0] = replace(done[1].results[0], test="bad", outcome="failed")
    done[1].alone.append("bad")
    run = run_of(done)
    assert run.passed
    said = "\n".join(summary(done, run, History.alone(_history([run]))))
    assert "skipped: 1 tests: no root" in said
    assert "passed only alone, in 1 of the last 10 runs: bad\n" in said
    assert said.endswith(f"tests: {len(STEPS)} passed, 0 failed, {len(STEPS)} skipped")


def test_a_step_that_is_missing_fails_the_run() -> None:
    done = passing()[:-1]
    run = run_of(done)
    assert not run.passed
    assert f"not run: {STEPS[-1].target}" in summary(done, run, History.alone(_history([])))


def _history(runs: Sequence[Run]) -> History:
    found = History(Path("none"))
    found.runs = list(runs)
    return found


def test_the_history_keeps_ten_runs(tmp_path: Path) -> None:
    file = tmp_path / "cache" / "gate.json"
    for number in range(12):
        History(file).add(Run(str(number), {"lint": 1.0}, ["flaky"] if number in (0, 2, 5, 11) else [], True))
    kept = History(file)
    assert [run.at for run in kept.runs] == [str(number) for number in range(2, 12)]
    assert kept.alone() == {"flaky": 3}


@pytest.mark.parametrize(("times", "code"), [(1, 0), (2, 1)])
def test_the_third_time_in_ten_runs_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int, code: int
) -> None:
    monkeypatch.setenv("SCAVENGER_CACHE", str(tmp_path))
    monkeypatch.setattr(gate, "FOLDER", tmp_path)
    for _ in range(times):
        History(tmp_path / "gate.json").add(Run("before", {}, ["flaky"], True))
    done = passing()
    done[0].alone.append("flaky")
    monkeypatch.setattr(gate, "run_steps", lambda *_: done)
    assert gate.main([]) == code


def test_recorded_times(tmp_path: Path) -> None:
    file = tmp_path / "gate.json"
    for number in range(5):
        gate.record(file, Run(f"warm {number}", {"programs": 2.0, "lint": 10.0}, [], True))
    gate.record(file, Run("cold", {"programs": 600.0, "lint": 10.0}, [], True))
    kept = json.loads(file.read_text())
    assert [run["at"] for run in kept["warm"]] == ["warm 2", "warm 3", "warm 4"]
    assert [run["at"] for run in kept["cold"]] == ["cold"]


def test_the_gate_takes_at_most_twenty_minutes() -> None:
    """By the times that were recorded: `make test RECORD=1`, on a machine that does nothing else."""
    kept = json.loads(gate.RECORDED.read_text())
    assert kept["warm"], "record a warm run"
    for run in kept["warm"]:
        assert set(run["seconds"]) == {step.target for step in STEPS}
        assert sum(run["seconds"].values()) <= gate.MOST_SECONDS, f"the run of {run['at']}"


# --- the other ring ---


def ran(at: str, minutes: float) -> Ran:
    return Ran(at, 60 * minutes, True, "c")


def test_what_has_waited_longest_comes_first() -> None:
    times = {one.name: ran(f"2026-01-{number + 10}", 25) for number, one in enumerate(SLICES)}
    assert due(times, 60) == list(SLICES[:2])
    never_ran = SLICES[-1]
    del times[never_ran.name]
    assert due(times, 60)[0] == never_ran
    assert due(times, 0) == [never_ran], "one at least"


def test_every_slice_fits_into_an_hour() -> None:
    assert len({one.name for one in SLICES}) == len(SLICES)
    assert all(0 < one.minutes <= 60 for one in SLICES)


@pytest.mark.parametrize("code", [0, 1])
def test_what_ran_is_kept(tmp_path: Path, code: int) -> None:
    file = tmp_path / "cache" / "test-all.json"
    assert test_all.run(SLICES[0], file, lambda _: code) is (code == 0)
    kept = test_all.kept(file)
    assert kept[SLICES[0].name].passed is (code == 0)
    assert SLICES[0].name in test_all.rows(kept)[-1], "it is due last"


def test_a_name_that_no_slice_has(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_all, "run", never)
    assert test_all.main(["e2e", "nonsense"]) == 2
    assert "no slice nonsense" in capsys.readouterr().err


# --- which ring a test is in ---

LONG = re.compile(r"mark\.long")
MARKS = (set[str](), {"cpu"})


def runs_of(commands: Sequence[str]) -> list[tuple[list[str], Expression]]:
    """The folders of tests of each run of pytest, and which of their marks it takes."""
    found = []
    for command in commands:
        for folders, marks in re.findall(r"((?:tests/\S+ )+)-m ['\"]?([a-z ]+)", command):
            found.append((folders.split(), Expression.compile(marks.strip())))
    return found


def takes(runs: Sequence[tuple[list[str], Expression]], file: str, marks: set[str]) -> int:
    """How many of these runs take a test of that file with these marks."""

    def has(name: str, /, **_: object) -> bool:
        return name in marks

    return sum(
        any(file.startswith(f"{folder}/") for folder in folders) and chosen.evaluate(has) for folders, chosen in runs
    )


def test_every_test_that_is_long_is_in_one_slice() -> None:
    slices = runs_of([one.command for one in SLICES])
    files = [
        str(file.relative_to(ROOT)) for file in (ROOT / "tests").rglob("test_*.py") if LONG.search(file.read_text())
    ]
    assert len(files) > 10
    for file in files:
        for marks in MARKS if file.startswith(("tests/e2e", "tests/integration")) else MARKS[:1]:
            assert takes(slices, file, marks | {"long"}) == 1, (file, marks)
            assert takes(slices, file, marks) == 0, (file, marks)


@pytest.mark.parametrize("file", ["tests/e2e/test_x.py", "tests/integration/x/test_x.py"])
@pytest.mark.parametrize("marks", MARKS, ids=str)
def test_every_other_test_is_in_one_lane_of_the_gate(file: str, marks: set[str]) -> None:
    """One of e2e has the lane of containers, whatever its marks."""
    lines = (ROOT / "Makefile").read_text().splitlines()
    lanes = runs_of([line for line in lines if "call LANE,containers" in line or "call LANE,servers" in line])
    assert len(lanes) == 3
    assert takes(lanes, file, marks) == 1
    assert takes(lanes, file, marks | {"long"}) == 0


# --- results ---

TESTS = """
import os, pytest, time

@pytest.fixture(scope="module")
def slow():
    time.sleep(0.06)

def test_good(slow): pass
def test_bad(): assert False
def test_torn(request): request.addfinalizer(lambda: 1 / 0)
@pytest.mark.skip(reason="no moon")
def test_skipped(): pass
{more}
"""
CONFTEST = """
from pathlib import Path
from tests import results
results.FOLDER = Path(__file__).parent / "results"
from tests.results import pytest_fixture_setup, pytest_runtest_makereport

pytest_configure = results.write
"""


@pytest.mark.slow
@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["one process", "workers"])
def test_results_of_a_real_run(tmp_path: Path, workers: Sequence[str]) -> None:
    found = _run(tmp_path, "", *workers)
    (only,) = read(found)
    assert only.exit == 1
    by_name = {one.test.split("::")[1]: one for one in only.results}
    assert {name: one.outcome for name, one in by_name.items()} == {
        "test_good": "passed",
        "test_bad": "failed",
        "test_torn": "failed",
        "test_skipped": "skipped",
    }
    assert by_name["test_skipped"].why == "no moon"
    assert by_file(only.results)["test_it.py"].times == 4
    assert by_fixture(only.results)["slow (module)"].seconds >= 0.06
    assert any("slow (module)" in line for line in tables(only.results, 5))


@pytest.mark.slow
def test_a_file_that_cannot_be_imported_is_told(tmp_path: Path) -> None:
    (only,) = read(_run(tmp_path, "import nonsense_that_is_not_there"))
    assert [(one.outcome, one.collected) for one in only.results] == [("failed", False)]


@pytest.mark.slow
def test_a_process_that_dies_leaves_no_exit_code(tmp_path: Path) -> None:
    (only,) = read(_run(tmp_path, "def test_dies(): os._exit(1)"))
    assert only.exit is None
    assert passed_alone(Step("x"), [only], never) == []


@pytest.mark.slow
def test_a_run_inside_a_test_writes_nothing(tmp_path: Path) -> None:
    inside = "import subprocess, sys\ndef test_runs(): subprocess.run([sys.executable, '-m', 'pytest', '-qk', 'good'])"
    lanes = read(_run(tmp_path, inside))
    assert {lane.name: len(lane.results) for lane in lanes} == {"last": 5}


def _run(folder: Path, more: str, *words: str) -> Path:
    (folder / "test_it.py").write_text(TESTS.replace("{more}", more))
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words, "test_it.py"]
    subprocess.run(command, cwd=folder, env={"PYTHONPATH": str(ROOT), "PATH": ""}, capture_output=True, check=False)
    return folder / "results"
