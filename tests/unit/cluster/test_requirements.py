"""Installing Debian packages: one at a time, whoever else does so."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from scavenger_cluster import requirements
from scavenger_cluster.errors import MissingRequirementError

LIMIT: Final = 30.0


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Puts a shell script in the place of apt-get; the file that it may write to, `$SAID`."""
    said, programs = tmp_path / "said", tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("SCAVENGER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SAID", str(said))
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    def put(script: str) -> Path:
        (programs / "apt-get").write_text(f"#!/bin/sh\n{script}\n")
        (programs / "apt-get").chmod(0o755)
        return said

    return put


def install(report: Callable[[str], None] = lambda line: None) -> None:
    requirements.install(["some-package"], report, allowed=True)


def test_two_at_a_time_wait_for_each_other(apt: Callable[[str], Path], tmp_path: Path) -> None:
    go = tmp_path / "go"
    said = apt(f'echo begin >> "$SAID"; until test -e "{go}"; do sleep 0.05; done; echo end >> "$SAID"')
    waits = threading.Event()

    def report(line: str) -> None:
        if "waiting" in line:
            waits.set()

    both = [threading.Thread(target=install, args=(report,)) for _ in range(2)]
    for one in both:
        one.start()
    # One of the two says so as long as the other is at it, which ends only when it is told to.
    waited = waits.wait(LIMIT)
    go.touch()
    for one in both:
        one.join(LIMIT)
    assert waited
    assert said.read_text().split() == ["begin", "end"] * 2


def test_the_dpkg_of_others_is_waited_for(apt: Callable[[str], Path]) -> None:
    said = apt('echo "$@" >> "$SAID"')
    install()
    assert f"DPkg::Lock::Timeout={requirements.DPKG_SECONDS}" in said.read_text()
    assert said.read_text().startswith("install ")


def test_a_new_machine_has_no_package_lists(apt: Callable[[str], Path]) -> None:
    said = apt('echo "$1" >> "$SAID"; test "$1" = update || test "$(grep -c update "$SAID")" = 1')
    install()
    assert said.read_text().split() == ["install", "update", "install"]


def test_what_cannot_be_installed_is_named(apt: Callable[[str], Path]) -> None:
    apt("echo no such package >&2; exit 100")
    with pytest.raises(MissingRequirementError, match=r"apt-get install some-package\n(.|\n)*no such package"):
        install()
