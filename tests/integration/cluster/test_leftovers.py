"""What a run of tests that was killed leaves, and the next one does not take over."""

from __future__ import annotations

import subprocess
import sys
import uuid

import pytest
from scavenger_cluster import Cluster
from scavenger_cluster.layout import state_dir

from .traces import traces

pytestmark = pytest.mark.timeout(600)

SCRIPT = """
import sys
from scavenger_cluster import Cluster
from scavenger_testing.cluster_names import cluster_name
name = cluster_name(sys.argv[1])
print(name, Cluster(name).data_dir.exists(), flush=True)
if sys.argv[2:]:
    Cluster(name, report=lambda line: None).up("fake:1")
    print("up", flush=True)
    sys.stdin.read()
"""


def run(*arguments: str) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", SCRIPT, *arguments], stdin=pipe, stdout=pipe, text=True)


def told(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.long
def test_a_cluster_whose_owner_was_killed_is_taken_down_by_who_gets_its_name() -> None:
    name = f"it-left-{uuid.uuid4().hex[:6]}"
    cluster = Cluster(name, report=lambda line: None)
    try:
        with run(name, "up") as owner:
            assert (told(owner), told(owner)) == (f"{name} False", "up")
            with run(name) as other:
                assert told(other) == f"{name}-2 False"
            assert cluster.kubectl("get", "nodes", "-o", "name").split(), "nobody takes it from its owner"
            owner.kill()
        assert cluster.kubectl("get", "nodes", "-o", "name").split(), "it outlives its owner"
        with run(name) as heir:
            assert told(heir) == f"{name} False"
        assert not any(traces(cluster).values())
    finally:
        cluster.down()
        for claim in (state_dir() / "test-names").glob(f"{name}*"):
            claim.unlink()
