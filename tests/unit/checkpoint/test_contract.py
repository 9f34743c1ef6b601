"""Words, files and signals of the contract between a program and its job."""

from __future__ import annotations

import ast
import os
import re
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
import scavenger_checkpoint
from hypothesis import given
from hypothesis import strategies as st
from scavenger_api import names
from scavenger_api.times import parse_time
from scavenger_checkpoint import (
    EXIT_SAVED,
    Loaded,
    Place,
    Store,
    checkpoint_line,
    report_checkpoint,
    report_finished,
    reported_checkpoint,
    write_atomically,
)
from scavenger_checkpoint.contract import ENV_MESSAGE_PATH, FINISHED, MESSAGE_LIMIT, VERSION
from scavenger_checkpoint.verdict import Ending, Interruption, Judgement, Next, judge

NOON = datetime(2026, 1, 2, 12, 0, 0, 6, tzinfo=UTC)
LINE = "checkpoint=2026-01-02T12:00:00.000006Z"
SOURCES = sorted(Path(scavenger_checkpoint.__file__).parent.rglob("*.py"))


# --- the page ---


def test_the_page_of_the_contract_says_what_the_package_does() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "checkpoint-contract.md").read_text()
    (example,) = re.findall(r"^    (checkpoint=.+)$", page, re.MULTILINE)
    assert checkpoint_line(parse_time(example.partition("=")[2]) or NOON) == example
    assert f"**Version {VERSION}.**" in page
    note = names.ANNOTATION_LAST_CHECKPOINT
    for word in (note, f"`{FINISHED}`", f"exit code | {EXIT_SAVED} ", f"{MESSAGE_LIMIT} bytes"):
        assert word in page, word


# --- words ---


def test_a_moment_is_told_in_utc() -> None:
    assert checkpoint_line(NOON) == LINE
    assert checkpoint_line(NOON.astimezone(timezone(timedelta(hours=-3)))) == LINE
    with pytest.raises(ValueError, match="time zone"):
        checkpoint_line(NOON.replace(tzinfo=None))


@given(st.datetimes(min_value=datetime(1970, 1, 1), timezones=st.just(UTC)))
def test_what_is_written_is_read_here_and_by_the_services(moment: datetime) -> None:
    line = checkpoint_line(moment)
    assert reported_checkpoint(line) == moment
    assert parse_time(line.removeprefix("checkpoint=")) == moment


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (LINE, NOON),
        (f"step 12 of 40\n{LINE}\n", NOON),
        (f"{LINE}\r\n\n", NOON),
        ("checkpoint=2026-01-02T12:00:00Z", NOON.replace(microsecond=0)),
        ("checkpoint=2026-01-02t14:00:00+02:00", NOON.replace(microsecond=0)),
        ("checkpoint=2026-01-02T12:00:00.5Z", NOON.replace(microsecond=500000)),
        ("checkpoint=2026-01-02T12:00:00.000006999Z", NOON),
        (f"{LINE}\nand more", None),
        (f"saved {LINE}", None),
        ("checkpoint=2026-01-02 12:00:00", None),
        ("checkpoint=2026-02-31T12:00:00Z", None),
        ("checkpoint=0001-01-01T00:00:00+01:00", None),
        ("checkpoint=\u0662026-01-02T12:00:00Z", None),
        ("checkpoint=", None),
        ("", None),
        ("\n\n", None),
    ],
)
def test_only_the_last_line_reports(message: str, expected: datetime | None) -> None:
    assert reported_checkpoint(message) == expected


def test_the_variables_are_those_that_the_admitter_sets() -> None:
    values = {
        names.ENV_INDEX: "1",
        names.ENV_PARALLELISM: "2",
        names.ENV_PEERS: "a.b,c.b",
        names.ENV_RESTARTS: "3",
        names.ENV_CHECKPOINT_INTERVAL: "1800",
    }
    assert set(values) == set(names.RESERVED_ENV)
    assert Place.read(values) == Place(1, 2, ("a.b", "c.b"), 3, 1800.0)
    assert Place.read({}) == Place(0, 1, (), 0, None)
    many = Place.read({names.ENV_PEERS: "job-[0-10].sj-job.default.svc"}).peers
    assert (len(many), many[0], many[-1]) == (11, "job-0.sj-job.default.svc", "job-10.sj-job.default.svc")


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_every_module_is_python_3_9(source: Path) -> None:
    tree = ast.parse(source.read_text(), feature_version=(3, 9))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in imported} <= {*sys.stdlib_module_names, "scavenger_checkpoint"}


# --- the termination message ---


@pytest.fixture
def message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty file, as the kubelet mounts it."""
    file = tmp_path / "termination-log"
    file.touch()
    monkeypatch.setenv(ENV_MESSAGE_PATH, str(file))
    return file


def test_the_last_report_is_what_is_left(message: Path) -> None:
    assert report_checkpoint(NOON - timedelta(hours=1), "a long explanation of what was saved")
    assert report_checkpoint(NOON, "step 12\n")
    assert message.read_text() == f"step 12\n{LINE}\n"
    assert report_checkpoint(NOON)
    assert message.read_text() == f"{LINE}\n"


def test_of_a_long_message_the_end_is_kept(message: Path) -> None:
    report_checkpoint(NOON, "x" * 5000 + " end")
    kept = message.read_text()
    assert len(kept) == MESSAGE_LIMIT
    assert kept.endswith(f"x end\n{LINE}\n")


def test_a_program_that_is_done_says_so_last(message: Path) -> None:
    report_checkpoint(NOON)
    assert report_finished("best: 0.93")
    assert message.read_text() == "best: 0.93\nfinished\n"
    assert reported_checkpoint(message.read_text()) is None


def test_outside_a_container_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENV_MESSAGE_PATH, str(tmp_path / "none"))
    assert not report_checkpoint(NOON)
    assert not list(tmp_path.iterdir())


# --- files ---


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    file = tmp_path / "result"
    write_atomically(file, "grün")
    write_atomically(str(file), b"new")
    assert file.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [file]


def test_a_disk_that_is_full_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "result"
    write_atomically(file, "old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(file, "new")
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_a_store_falls_back_from_torn_checkpoints_to_the_one_before(tmp_path: Path) -> None:
    store = Store(tmp_path / "state")
    assert store.load() == Loaded(None)
    store.save(b"one")
    store.save(b"two")
    assert store.load() == Loaded(b"two")
    whole = store.current.read_bytes()
    for cut in range(len(whole)):
        store.current.write_bytes(whole[:cut])
        loaded = store.load()
        assert loaded.content == b"one"
        assert loaded.problems[0].startswith("state: it")
    store.current.write_bytes(whole[:-1] + b"!")
    assert store.load() == Loaded(b"one", ("state: its checksum is wrong: it is cut short or damaged",))


def test_a_torn_checkpoint_never_takes_the_place_of_a_whole_one(tmp_path: Path) -> None:
    store = Store(tmp_path / "state")
    for content in (b"one", b"two"):
        store.save(content)
    store.current.write_bytes(b"torn")
    store.save(b"three")
    store.current.unlink()
    assert store.load() == Loaded(b"one")


def test_where_nothing_is_whole_the_work_begins_anew(tmp_path: Path) -> None:
    store = Store(tmp_path / "state")
    store.current.write_bytes(b"something else")
    store.previous.write_bytes(b"")
    assert store.load().content is None
    assert len(store.load().problems) == 2


# --- signals ---


def in_a_process(body: str) -> subprocess.CompletedProcess[str]:
    head = "import os, select, signal, sys\nfrom scavenger_checkpoint import StopRequest\nstop = StopRequest()\n"
    return subprocess.run([sys.executable, "-c", head + body], capture_output=True, text=True, timeout=50, check=False)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_a_request(number: int) -> None:
    done = in_a_process(
        f"before = bool(stop), stop.wait(0)\nfor _ in range(3): os.kill(os.getpid(), {int(number)})\n"
        "print(before, bool(stop), stop.wait(), select.select([stop], [], [], 0)[0] == [stop])"
    )
    assert done.stdout == "(False, False) True True True\n", done.stderr


def test_a_signal_ends_a_wait() -> None:
    done = in_a_process(
        "import threading\nmain = threading.main_thread().ident\n"
        "threading.Timer(0.05, signal.pthread_kill, (main, signal.SIGTERM)).start()\nprint(stop.wait())"
    )
    assert done.stdout == "True\n", done.stderr


def test_only_the_main_thread_may_take_signals_over() -> None:
    refused: list[str] = []

    def other() -> None:
        try:
            scavenger_checkpoint.StopRequest()
        except ValueError as error:
            refused.append(str(error))

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert len(refused) == 1


# --- endings ---

TERM, KILL = Interruption(signal.SIGTERM, seconds=1), Interruption(signal.SIGKILL, lines=2)


def ending(code: int, interruption: Interruption | None = None, message: str = "") -> Ending:
    return Ending(code, NOON, NOON + timedelta(minutes=1), 60.0, 7, interruption, message=message)


def verdict(one: Ending) -> Judgement:
    return judge(one, grace=30, exit_saved=EXIT_SAVED)


RECENT = checkpoint_line(NOON + timedelta(seconds=30))


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (ending(0), Next.FINISHED),
        (ending(85, message=RECENT), Next.AGAIN),
        (ending(1), Next.FAILED),
        (ending(-11), Next.FAILED),
        (replace(ending(-9), hung=True), Next.FAILED),
        # Removed from outside: started again, whatever the exit code was.
        (ending(0, TERM), Next.AGAIN),
        (ending(1, TERM), Next.AGAIN),
        (ending(143, TERM), Next.AGAIN),
        (ending(85, TERM, RECENT), Next.AGAIN),
        (ending(-9, KILL), Next.AGAIN),
    ],
)
def test_what_becomes_of_the_job(one: Ending, expected: Next) -> None:
    judgement = verdict(one)
    assert judgement.next is expected
    assert judgement.warnings == ()
    assert bool(judgement.why) is (expected is Next.FAILED)


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (ending(-15, TERM), "process 1"),
        (replace(ending(-9, TERM), outstayed=True), "within its grace period of 30 s"),
        (ending(85, TERM), "it left no termination message"),
        (ending(85, TERM, "saved!"), "the last line of its termination message is 'saved!'"),
        (ending(85, message=""), "reported no checkpoint"),
        (ending(85, TERM, checkpoint_line(NOON + timedelta(hours=1))), "in the future"),
        (ending(85, TERM, checkpoint_line(NOON - timedelta(hours=1))), "of an earlier start"),
    ],
)
def test_what_is_warned_of(one: Ending, words: str) -> None:
    judgement = verdict(one)
    assert judgement.next is Next.AGAIN
    assert len(judgement.warnings) == 1
    assert words in judgement.warnings[0]


def test_an_interruption_is_told_in_words() -> None:
    assert (str(TERM), str(KILL)) == ("SIGTERM after 1.00 s", "SIGKILL after 2 lines")
    assert [KILL.due(9, 1), KILL.due(0, 2), TERM.due(0.9, 9), TERM.due(1, 0)] == [False, True, False, True]
