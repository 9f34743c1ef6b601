"""`kubectl sj simulate` starts a program of its own, and says where to get it."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest
from scavenger_cli import main
from scavenger_cli.commands import simulating
from scavenger_cli.exits import CliError


def called(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr("sys.argv", ["kubectl-sj", "simulate", *words])
    before = signal.getsignal(signal.SIGINT)
    try:
        main.main()
    except SystemExit as end:
        return int(end.code or 0)
    finally:
        signal.signal(signal.SIGINT, before)
    return 0


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of the simulator's name that writes down how it was called, and ends with 7."""
    file = tmp_path / simulating.PROGRAM
    file.write_text('#!/bin/sh\nprintf "%s\\n" "$@" > "$0.called"\nexit 7\n')
    file.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return tmp_path / f"{simulating.PROGRAM}.called"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), ["compare", "prometheus"]),
        (
            ("--prometheus-url", "http://p:9090", "--set", "reserve=5"),
            ["compare", "prometheus", "--prometheus-url", "http://p:9090", "--set", "reserve=5"],
        ),
        (("tune", "--length", "7d", "-o", "json"), ["tune", "prometheus", "--length", "7d", "-o", "json"]),
        (
            ("--context", "lab", "run", "--kubeconfig", "/k", "--html", "x.html"),
            ["run", "prometheus", "--html", "x.html", "--context", "lab", "--kubeconfig", "/k"],
        ),
    ],
)
def test_everything_else_is_passed_on_and_so_is_the_exit_code(
    words: tuple[str, ...], expected: list[str], stand_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert called(words, monkeypatch) == 7
    assert stand_in.read_text().split("\n")[:-1] == expected


def test_where_it_is_not_installed_it_says_how(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(CliError, match="not installed"):
        simulating.program()
    assert called((), monkeypatch) == 1
    assert "pip install" in capsys.readouterr().err


def test_without_a_program_on_path_it_is_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert simulating.program() == [sys.executable, "-m", "scavenger_simulator"]


def test_what_to_install_is_there() -> None:
    root = Path(__file__).parents[3]
    for word in simulating.INSTALL.replace("'", "").replace("[tune]", "").split():
        if word.startswith("./"):
            assert (root / word / "pyproject.toml").is_file(), word
