"""`kubectl sj logs -f` with real containers: across an interruption, of both pods of a gang, to the end."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from scavenger_testing.world import World, scavenger_job

pytestmark = pytest.mark.real

PROGRAM = """
import os, pathlib, signal, sys, time
me = os.environ["SCAVENGER_INDEX"]
signal.signal(signal.SIGTERM, lambda *a: (print(f"bye {me}"), sys.exit(1)))
print(f"hello {me}, restarts {os.environ['SCAVENGER_RESTARTS']}")
while os.environ["SCAVENGER_RESTARTS"] == "0":
    time.sleep(0.1)
print(f"done {me}")
"""


def start(world: World, folder: Path, *words: str) -> tuple[subprocess.Popen[bytes], Callable[[], str]]:
    """`kubectl sj WORDS` as a process, and what it has printed so far, both outputs in one."""
    file = folder / "output"
    with file.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "scavenger_cli", *words, "-n", world.namespace],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "KUBECONFIG": str(world.cluster.kubeconfig)},
        )
    return process, file.read_text


@pytest.mark.long
def test_logs_follow_a_gang_across_an_interruption(world: World, tmp_path: Path) -> None:
    world.apply(scavenger_job("talk", cpu="100m", parallelism=2, command=["python3", "-u", "-c", PROGRAM]))
    process, printed = start(world, tmp_path, "logs", "-f", "talk")
    try:
        world.wait("both have said hello", lambda: printed().count(", restarts 0") == 2)
        world.kubectl("delete", "pod", world.pods("talk")[1]["metadata"]["name"], "--wait=false")
        assert process.wait(180) == 0, printed()
    finally:
        process.kill()
        process.wait()
    lines = printed().splitlines()
    for index in (0, 1):
        own = [line for line in lines if line.startswith(f"[{index}] ")]
        expected = [f"hello {index}, restarts 0", f"bye {index}", f"hello {index}, restarts 1", f"done {index}"]
        assert own == [f"[{index}] {text}" for text in expected]
    said = [line for line in lines if line.startswith("--- talk ")]
    assert any("interrupted for the 1st time" in line for line in said)
    assert said[-1] == "--- talk completed ---"
    shown, output = start(world, tmp_path, "logs", "talk", "--index", "1")
    assert shown.wait(180) == 0
    notice, *shown_lines = output().splitlines()
    assert notice.startswith("--- the output of the interrupted run went with the pods")
    assert shown_lines == ["[1] hello 1, restarts 1", "[1] done 1"]


def test_logs_end_with_the_job(world: World, tmp_path: Path) -> None:
    world.apply(scavenger_job("fail", command=["python3", "-c", "print('about to fail'); raise SystemExit(7)"]))
    process, printed = start(world, tmp_path, "logs", "-f", "fail")
    try:
        assert process.wait(180) == 4, printed()
    finally:
        process.kill()
        process.wait()
    assert "about to fail" in printed().splitlines()
    assert "exited with code 7" in printed()
