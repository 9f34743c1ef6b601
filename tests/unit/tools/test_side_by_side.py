"""Commands beside each other: what they print, what becomes of the exit code, and that none outlives the whole."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

PROGRAM = Path(__file__).resolve().parents[3] / "tools" / "side_by_side.py"


def run(*lanes: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, PROGRAM, *lanes], capture_output=True, text=True, timeout=30, check=False)


def test_all_pass() -> None:
    done = run("one=echo first", "two=sh -c 'echo a=b; echo wrong >&2'")
    assert done.returncode == 0
    assert "one | first\n" in done.stdout
    assert "two | a=b\n" in done.stdout
    assert "two | wrong\n" in done.stdout
    assert done.stdout.count("passed") == 2


def test_one_that_fails_is_shown_again_and_the_others_go_on() -> None:
    done = run("bad=sh -c 'echo the reason; exit 5'", "slow=sh -c 'sleep 0.3; echo finished'")
    assert done.returncode == 1
    assert "slow | finished\n" in done.stdout
    assert "=== bad failed" in done.stdout
    assert done.stdout.count("the reason\n") == 2


def test_a_command_that_does_not_exist_has_failed() -> None:
    assert run("typo=no-such-program").returncode == 1


def test_nothing_to_run_is_a_mistake() -> None:
    for words in ((), ("command",), ("=x",), ("x=",)):
        done = run(*words)
        assert done.returncode == 1
        assert "NAME=COMMAND" in done.stderr


def test_being_ended_ends_them_all(tmp_path: Path) -> None:
    script = "import pathlib, sys, time\n"
    script += "try:\n pathlib.Path(sys.argv[1]).touch()\n time.sleep(60)\n"
    script += "finally:\n pathlib.Path(sys.argv[1]).unlink()\n"
    lanes = [f"{name}={sys.executable} -c '{script}' {tmp_path / name}" for name in ("a", "b")]
    ignoring = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", sys.executable, str(PROGRAM), *lanes]  # as with nohup … &
    with subprocess.Popen(ignoring, stdout=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 20
        while len(list(tmp_path.iterdir())) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        try:
            assert process.wait(20) == 128 + signal.SIGTERM
        finally:
            process.kill()
    assert list(tmp_path.iterdir()) == [], "both had time to clean up"
