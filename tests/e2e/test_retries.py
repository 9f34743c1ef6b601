"""Programs that fail by themselves, and runs that take too long together, on real kubelets."""

from __future__ import annotations

import time

import pytest
from scavenger_testing.world import World, scavenger_job

pytestmark = pytest.mark.real

FAILS_TWICE = """
import os, sys, time
saved = os.path.getsize("/state/done") if os.path.exists("/state/done") else 0
print("found", saved)
if saved == 2:
    sys.exit(0)
time.sleep(61 * saved)  # the last start is a minute ago then: the second retry does not wait for its pause to double
open("/state/done", "a").write("x")
sys.exit(7)
"""


def test_a_failed_program_goes_on_from_what_it_saved_and_a_deadline_counts_all_runs(world: World, shared: str) -> None:
    claim = [{"name": shared, "mountPath": "/state"}]
    again = ["python3", "-u", "-c", FAILS_TWICE]
    world.apply(
        scavenger_job("again", cpu="50m", command=again, backoffLimit=2, persistentVolumeClaims=claim),
        scavenger_job("once", cpu="50m", command=["python3", "-c", "raise SystemExit(7)"]),
        scavenger_job(
            "long", cpu="50m", command=["sleep", "3600"], activeDeadlineSeconds=30, terminationGracePeriodSeconds=1
        ),
    )
    world.wait_phase("long", "Running")
    time.sleep(10)
    (pod,) = world.pods("long")
    world.kubectl("delete", "pod", pod["metadata"]["name"], "--wait=false")
    world.wait("it to be interrupted", lambda: world.status("long").get("interruptedCount") == 1)
    long = world.wait_phase("long", "Failed")
    assert "its runs took 30 s together" in long["message"]
    assert long["activeSeconds"] >= 30
    world.wait("its pods to be gone", lambda: not world.staying("long"))

    assert "exited with code 7" in world.wait_phase("once", "Failed")["message"]
    status = world.wait_phase("again", "Completed", timeout=180)
    assert (status["retries"], status["interruptedCount"], len(status["runningTimestamps"])) == (2, 0, 3)
    (last,) = world.pods("again")
    assert "found 2" in world.log(last["metadata"]["name"])
