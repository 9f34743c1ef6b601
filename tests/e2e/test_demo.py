"""`make demo`, as a new user runs it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).resolve().parents[2] / "demo-apps" / "demo.py"


@pytest.mark.timeout(600)
def test_the_story_is_seen_to_happen() -> None:
    told = subprocess.run(
        [sys.executable, str(DEMO), "--name", "demo-test"], capture_output=True, text=True, timeout=580, check=False
    )
    assert told.returncode == 0, told.stdout[-6000:] + told.stderr[-3000:]
    for words in (r"Interrupted \(count 1\)", "the ordinary pod is Running", "Running again", r"Completed(:| \()"):
        assert len(re.findall(words, told.stdout)) == 2, f"{words!r}: {told.stdout[-6000:]}"
    if "fake node" not in told.stdout:
        assert told.stdout.count("every step counted exactly once") == 2
        assert re.search(r"[1-5] of 6 jobs had to leave", told.stdout), told.stdout[-6000:]
        assert "Evicting | 100 %" in told.stdout
