"""`make demo`, as a new user runs it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from scavenger_cluster import Cluster
from scavenger_testing.cluster_names import cluster_name

DEMO = Path(__file__).resolve().parents[2] / "demo-apps" / "demo.py"


def tell(name: str, *options: str) -> str:
    """What the demo prints; the test fails where it does."""
    try:
        told = subprocess.run(
            [sys.executable, str(DEMO), "--name", name, *options],
            capture_output=True,
            text=True,
            timeout=580,
            check=False,
        )
    finally:
        Cluster(name).down()  # where the test was interrupted, and the demo killed before it had cleared up
    assert told.returncode == 0, told.stdout[-6000:] + told.stderr[-3000:]
    for words in (r"Interrupted \(count 1\)", "the ordinary pod is Running", "Running again", r"Completed(:| \()"):
        assert len(re.findall(words, told.stdout)) == 2, f"{words!r}: {told.stdout[-6000:]}"
    return told.stdout


@pytest.mark.real
@pytest.mark.cpu
@pytest.mark.timeout(600)
def test_the_story_is_seen_to_happen() -> None:
    told = tell(cluster_name("demo-test"))
    assert told.count("every step counted exactly once") == 2
    assert re.search(r"[1-5] of 6 jobs had to leave", told), told[-6000:]
    assert "Evicting | 100 %" in told


@pytest.mark.timeout(600)
def test_without_root_the_same_story_is_told_on_a_fake_node() -> None:
    assert "a fake node runs no program" in tell(cluster_name("demo-fake"), "--nodes", "fake:1")
