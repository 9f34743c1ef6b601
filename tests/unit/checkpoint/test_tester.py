"""The tester, with real programs as processes: good ones pass, and of each bad one it says what is wrong."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest
from scavenger_checkpoint.__main__ import main
from scavenger_checkpoint.comparison import Result
from scavenger_checkpoint.lives import Life
from scavenger_checkpoint.tester import Examination, Trial, Verdict, draw, shuffled_signals
from scavenger_checkpoint.verdict import Ending, Interruption

from . import programs

pytestmark = pytest.mark.slow

RESULT = (Result("result"),)
LINE = 1
"""Programs say one line, when they wait for their interruption."""


def examine(
    folder: Path,
    body: str,
    *,
    signals: Sequence[int],
    interrupted: int = 2,
    results: Sequence[Result] = RESULT,
    grace: float = 60.0,
    lives: int = 20,
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[Verdict, str]:
    """The verdict on a program that is interrupted by these signals, where it waits for them; and the report."""
    module = "scavenger_checkpoint.tester"
    monkeypatch.setattr(f"{module}.shuffled_signals", lambda *_: list(signals))
    monkeypatch.setattr(f"{module}.draw", lambda _source, number, *_: Interruption(number, lines=LINE))
    lines: list[str] = []
    trial = Trial(
        programs.program(folder, body, interrupted),
        folder / "runs",
        results=results,
        interruptions=len(signals),
        grace=grace,
        lives=lives,
    )
    verdict = Examination(trial, lines.append).run()
    return verdict, "\n".join(lines)


TERM, KILL = signal.SIGTERM, signal.SIGKILL


def test_a_good_program_passes_however_it_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict, report = examine(tmp_path, programs.GOOD, signals=(TERM, KILL, KILL, TERM), monkeypatch=monkeypatch)
    assert verdict is Verdict.PASSED, report
    assert "PASSED: interrupted 4 times, it has finished and came to the same result" in report
    assert "warning" not in report
    assert "hint" not in report
    assert report.count("result: equal") == 2
    assert (tmp_path / "runs" / "round-2" / "result").read_text() == str(1 + 4 + 9 + 16 + 25 + 36)


def test_steps_that_are_done_twice_are_seen_in_the_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict, report = examine(tmp_path, programs.COUNTS_TWICE, signals=(TERM,), interrupted=1, monkeypatch=monkeypatch)
    assert verdict is Verdict.FAILED
    assert "result: different" in report
    assert "56 bytes instead of 42, the same up to byte 19" in report  # seven a step, two steps twice
    assert "FAILED: results differ from those of the uninterrupted run: result" in report


def test_a_program_without_a_handler_is_warned_of_process_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict, report = examine(tmp_path, programs.FORGETS, signals=(TERM, KILL), monkeypatch=monkeypatch)
    assert verdict is Verdict.PASSED, report
    assert "warning: SIGTERM ended it, as it has no handler for it" in report
    assert "(round-1, start 1)" in report
    assert "hint: it has told of no checkpoint. If it writes none, spec.snapshot of its job saves" in report


def test_a_program_that_ignores_sigterm_outstays_its_grace_period(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdict, report = examine(
        tmp_path, programs.DEAF, signals=(TERM,), interrupted=1, grace=0.2, monkeypatch=monkeypatch
    )
    assert verdict is Verdict.PASSED, report
    assert "warning: it did not end within its grace period of 0.2 s" in report
    assert "ended by SIGKILL" in report


def test_the_exit_code_needs_a_report_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict, report = examine(tmp_path, programs.SILENT, signals=(TERM,), interrupted=1, monkeypatch=monkeypatch)
    assert verdict is Verdict.PASSED, report
    assert "warning: it ended with 85, and reported no checkpoint: it left no termination message" in report
    assert "hint" not in report, "it says that it has saved"


def test_an_end_of_its_own_would_fail_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict, report = examine(
        tmp_path, programs.CONFUSED, signals=(KILL,), interrupted=1, results=(), monkeypatch=monkeypatch
    )
    assert verdict is Verdict.FAILED
    assert "    state of another program" in report
    assert "FAILED: it ended by itself with code 7: its job would be Failed" in report


def test_a_program_may_save_and_end_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict, report = examine(tmp_path, programs.STEPWISE, signals=(KILL,), interrupted=1, monkeypatch=monkeypatch)
    assert verdict is Verdict.PASSED, report
    assert report.count("by itself: ended with 85") == 2
    assert "warning" not in report


def test_a_program_that_never_finishes_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict, report = examine(tmp_path, programs.NEVER, signals=(KILL,), results=(), lives=3, monkeypatch=monkeypatch)
    assert verdict is Verdict.FAILED
    assert "FAILED: it has not finished in 3 starts" in report


def test_a_program_that_always_finishes_first_proves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict, report = examine(tmp_path, programs.GOOD, signals=(KILL,), interrupted=0, monkeypatch=monkeypatch)
    assert verdict is Verdict.INCONCLUSIVE
    assert "INCONCLUSIVE: it has always finished before it could be interrupted" in report


def test_a_program_that_hangs_is_killed(tmp_path: Path) -> None:
    lines: list[str] = []
    command = programs.program(tmp_path, "time.sleep(3600)")
    assert Examination(Trial(command, tmp_path / "runs", limit=0.5), lines.append).run() is Verdict.FAILED
    assert lines[-1].startswith("FAILED: the uninterrupted run did not finish: it had not ended by itself after")


def test_what_a_program_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    body = "import subprocess\nchild = subprocess.Popen(['sleep', '3600'])\nprint(child.pid, flush=True)\n"
    log = tmp_path / "life.log"
    life = Life(programs.program(tmp_path, body), tmp_path, os.environ, log)
    ending = life.watch(None, grace=60, limit=60)
    assert (ending.exit_code, ending.lines, ending.interruption) == (0, 1, None)
    while _lives(int(log.read_text())):
        time.sleep(0.01)


def _lives(process: int) -> bool:
    """Whether it runs: whoever has adopted it may leave it a zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_the_command_line_runs_a_test(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """At random moments of a program that pays attention: nothing here may depend on what moments they are."""
    (tmp_path / "inputs").mkdir()
    (tmp_path / "inputs" / "limit").write_text("40")
    words = ["--inputs", str(tmp_path / "inputs"), "--result", "result", "--result-json", "figures.json"]
    words += ["--ignore", "starts", "--tolerance", "0.1", "--seed", "3", "--interruptions", "3", "--by", "lines"]
    words += ["--folder", str(tmp_path / "runs")]
    code = main(["test", *words, "--", *programs.program(tmp_path, programs.ATTENTIVE)])
    report = capsys.readouterr().out
    assert code in (0, 3), report
    assert report.startswith("seed 3: 3 interruptions")
    assert "different" not in report
    assert f"runs and logs: {tmp_path / 'runs'}" in report


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--inputs", "nowhere"], "error: --inputs nowhere is no folder"),
        (["--folder", "."], "error: --folder . is not empty; name a new one"),
        ([], "No such file or directory: 'no-such-program'"),
    ],
)
def test_wrong_usage_is_told(
    words: list[str], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert main(["test", *words, "--", "no-such-program"]) == 2
    assert why in capsys.readouterr().err


def test_signals_and_moments_are_drawn_from_the_seed() -> None:
    now = datetime.now(UTC)
    whole = Ending(exit_code=0, began=now, ended=now, seconds=8.0, lines=5)

    def drawn(seed: int, count: int, by_lines: bool) -> list[Interruption]:
        source = Random(seed)
        return [draw(source, number, whole, by_lines) for number in shuffled_signals(source, count)]

    assert drawn(1, 6, False) == drawn(1, 6, False) != drawn(2, 6, False)
    assert sorted(one.number for one in drawn(1, 6, False)) == [KILL] * 3 + [TERM] * 3
    assert len({tuple(one.number for one in drawn(seed, 6, False)) for seed in range(20)}) > 1
    assert [one.number for one in drawn(1, 1, True)] == [TERM]
    assert all(one.seconds is not None and 0 <= one.seconds <= 8 and one.lines is None for one in drawn(1, 60, False))
    assert {one.lines for one in drawn(1, 60, True)} == {1, 2, 3, 4, 5}


def test_a_signal_that_came_too_late_is_sent_in_a_later_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever moments are drawn, as many of each kind are sent as are asked for."""
    late = iter([1, 10**9, 1])
    monkeypatch.setattr(
        "scavenger_checkpoint.tester.draw", lambda _source, number, *_: Interruption(number, lines=next(late))
    )
    monkeypatch.setattr("scavenger_checkpoint.tester.shuffled_signals", lambda *_: [TERM, KILL])
    lines: list[str] = []
    trial = Trial(programs.program(tmp_path, programs.GOOD, 1), tmp_path / "runs", results=RESULT, interruptions=2)
    assert Examination(trial, lines.append).run() is Verdict.PASSED
    report = "\n".join(lines)
    assert report.index("SIGTERM after 1 lines") < report.index("by itself") < report.index("SIGKILL after 1 lines")
