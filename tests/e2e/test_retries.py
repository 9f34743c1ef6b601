"""Runs that follow one another on real kubelets: after a failure, after a checkpoint, and as long as a deadline allows.

A run that was short is followed by a pause, until a minute after its start: the jobs wait for it together.
"""

from __future__ import annotations

import time

import pytest
from scavenger_api.times import parse_time
from scavenger_testing.world import World, scavenger_job

pytestmark = [pytest.mark.real, pytest.mark.long]

LATER = """
import os, sys, time
name, code = sys.argv[1:]
saved = os.path.exists("/state/" + name)
print("found", saved)
open("/state/" + name, "a").write("x")
time.sleep(4)
sys.exit(0 if saved else int(code))
"""
"""Saves that it was there and ends with a code; with 0 where it has been there before."""


def test_a_run_goes_on_from_what_the_one_before_saved_and_a_deadline_counts_all(world: World, shared: str) -> None:
    claim = [{"name": shared, "mountPath": "/state"}]
    later = ("python3", "-u", "-c", LATER)
    world.apply(
        scavenger_job("again", cpu="50m", command=[*later, "again", "7"], backoffLimit=1, persistentVolumeClaims=claim),
        scavenger_job(
            "stages", cpu="50m", command=[*later, "stages", "85"], checkpointExitCode=85, persistentVolumeClaims=claim
        ),
        scavenger_job("once", cpu="50m", command=["python3", "-c", "raise SystemExit(7)"]),
        scavenger_job(
            "long", cpu="50m", command=["sleep", "3600"], activeDeadlineSeconds=24, terminationGracePeriodSeconds=1
        ),
    )

    def reason() -> str:
        found = (c["reason"] for c in world.status("stages").get("conditions", []) if c["type"] == "Admitted")
        return next(found, "")

    world.wait("saved its state", lambda: reason() == "Checkpointed")
    waiting = world.status("stages")
    assert waiting["phase"] == "Waiting"
    assert waiting["queuedTimestamp"] < waiting["endedTimestamp"], "it has the place that it had before"

    world.wait_phase("long", "Running")
    time.sleep(8)
    (pod,) = world.pods("long")
    world.kubectl("delete", "pod", pod["metadata"]["name"], "--wait=false")
    world.wait("it to be interrupted", lambda: world.status("long").get("interruptedCount") == 1)
    long = world.wait_phase("long", "Failed")
    assert "its runs took 24 s together" in long["message"]
    assert long["activeSeconds"] >= 24
    world.wait("its pods to be gone", lambda: not world.staying("long"))

    assert "exited with code 7" in world.wait_phase("once", "Failed")["message"]
    for name in ("again", "stages"):
        status = world.wait_phase(name, "Completed")
        assert (status["interruptedCount"], len(status["runningTimestamps"])) == (0, 2)
        begun, then = (parse_time(at) for at in status["runningTimestamps"])
        assert begun is not None
        assert then is not None
        assert (then - begun).total_seconds() >= 59, "no more often than once a minute"
        (last,) = world.pods(name)
        assert "found True" in world.log(last["metadata"]["name"])
    assert world.status("again")["retries"] == 1
    assert world.status("stages")["lostCPUSeconds"] == 0
