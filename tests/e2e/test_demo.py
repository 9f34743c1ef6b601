"""`make demo`, as a new user runs it: on a cluster of its own, and on the one of the current context."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import demo
import demo_own
import demo_story
import pytest
from scavenger_cluster import Cluster
from scavenger_testing.cluster_names import cluster_name

from docs.demo_excerpt import PAGE, lines_of, shape

pytestmark = pytest.mark.long
ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "demo-apps" / "demo.py"
KINDS = (
    *("all", "namespaces", "crd", "priorityclasses", "configmaps", "secrets", "persistentvolumes"),
    *("roles", "rolebindings", "clusterroles", "clusterrolebindings"),
    *("validatingadmissionpolicies", "validatingadmissionpolicybindings"),
    *("validatingwebhookconfigurations", "mutatingwebhookconfigurations"),
)
"""What the demo makes, and more."""
STEPS = (
    "of them run, in ",
    "left for it, with the least unsaved work",
    "web is Running",
    "run again from their last checkpoint",
    "jobs start up to the second mark",
    "jobs leave until the load is at the first mark",
    "left, with the least unsaved work, and came back",
    "the whole story was seen to happen",
)


def tell(environment: dict[str, str], *options: str) -> str:
    """What the demo prints; the test fails where it does."""
    told = subprocess.run(
        [sys.executable, str(DEMO), *options],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
    )
    assert told.returncode == 0, told.stdout[-12000:] + told.stderr[-3000:]
    for words in STEPS:
        assert words in told.stdout, f"{words!r}: {told.stdout[-12000:]}"
    return told.stdout


@pytest.mark.real
@pytest.mark.cpu
@pytest.mark.timeout(900)
def test_the_story_is_seen_to_happen_on_the_cluster_of_the_current_context_and_leaves_nothing_there(
    tmp_path: Path,
) -> None:
    """The cluster is brought up as the demo brings up its own, with all images in its node; there it is told as on
    anybody's: it asks, installs, and uninstalls."""
    name = cluster_name("demo-test")
    everything = ("kubectl", "get", ",".join(KINDS), "--all-namespaces", "--output=name")
    demo.PICTURE.unlink(missing_ok=True)
    with demo_own.cluster(name, "real:1", keep=False) as (stage, _):
        there = dict(stage.environment)
        before = stage.run(*everything)
        told = tell(there, "--current", "--yes")
        # Of one that was told to leave in the second in which it had come to its end there is no log.
        results = told.count("as expected") + told.count(demo_story.LOG_GONE)
        assert results == demo_story.BIO_JOBS + 3, told[-6000:]
        assert "no picture" in told or demo.PICTURE.read_bytes().startswith(b"\x89PNG")
        assert stage.run(*everything) == before, "nothing is left"
    printed = {shape(line) for line in told.splitlines()}
    missing = [line for line in lines_of(PAGE.read_text()) if shape(line) not in printed]
    if any(demo_story.PLAIN_JOB in line and demo_story.LOG_GONE in line for line in told.splitlines()):
        missing = [line for line in missing if "a snapshot continued it" not in line]
    assert not missing, "docs/demo.md shows what the demo prints"


@pytest.mark.timeout(600)
def test_without_root_the_story_is_told_on_a_fake_node_and_says_what_it_cannot_show() -> None:
    name = cluster_name("demo-fake")
    try:
        told = tell(dict(os.environ), "--name", name, "--nodes", "fake:1")
    finally:
        Cluster(name).down()  # where the test was interrupted, and the demo killed before it had cleared up
    assert "no program runs, so there are no checkpoints, no measured load and no reclaimed capacity" in told
    assert "a fake node runs no program" in told
