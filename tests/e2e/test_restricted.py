"""PodSecurity `restricted` with real containers: a job is interrupted and completes; what rights its processes have."""

from __future__ import annotations

from pathlib import Path

import pytest
from scavenger_api.names import LABEL_POD_SECURITY
from scavenger_testing.world import World, scavenger_job

pytestmark = pytest.mark.real

WHO = ["python3", "-c", "print(open('/proc/self/status').read())"]
COUNTER_USER = 65532


def label(world: World, name: str, value: str) -> None:
    world.cluster.kubectl("label", "namespace", world.namespace, f"{name}={value}", "--overwrite")


def process(world: World, job: str) -> dict[str, str]:
    """/proc/self/status of the process of a job that runs WHO, once it has completed."""
    world.wait_phase(job, "Completed")
    log = world.kubectl("logs", "-l", f"scavenger.dev/job={job}", "--tail=-1")
    return {name: value.strip() for name, _, value in (line.partition(":") for line in log.splitlines()) if value}


def test_the_processes_have_no_rights_by_default(world: World) -> None:
    world.apply(scavenger_job("who", command=WHO))
    found = process(world, "who")

    assert found["Uid"].split() == [str(COUNTER_USER)] * 4
    assert {found[name] for name in ("CapEff", "CapPrm", "CapBnd")} == {"0" * 16}
    assert found["NoNewPrivs"] == "1"
    assert found["Seccomp"] == "2", "a filter"


def test_the_kernel_spares_a_job_no_more_than_a_burstable_pod(world: World) -> None:
    """In a node's out-of-memory; a Guaranteed pod would have -997."""
    world.apply(scavenger_job("score", command=["python3", "-c", "print(open('/proc/self/oom_score_adj').read())"]))
    world.wait_phase("score", "Completed")
    [pod] = world.pods("score")
    assert pod["status"]["qosClass"] == "Burstable"
    main = pod["spec"]["containers"][0]["resources"]
    assert main["requests"]["memory"] == main["limits"]["memory"]
    assert 900 < int(world.log(pod["metadata"]["name"])) < 1000, "it asks for little of the node's memory"


def test_an_image_that_runs_as_root_has_failed_at_once_and_runs_as_somebody_else(world: World, tmp_path: Path) -> None:
    (tmp_path / "Containerfile").write_text("ARG BASE=docker.io/library/python:3.12-slim\nFROM ${BASE}\n")
    image = world.cluster.build_image("scavenger/e2e-root:dev", tmp_path)
    world.apply(scavenger_job("rooted", command=WHO, image=image))
    world.apply(scavenger_job("mended", command=WHO, image=image, runAsUser=1000))

    status = world.wait_phase("rooted", "Failed")

    assert "the image runs as root" in status["message"]
    assert "add the line `runAsUser: 65532` to spec" in status["message"]
    succeeded = next(one for one in status["conditions"] if one["type"] == "Succeeded")
    assert succeeded["reason"] == "RunsAsRoot"
    assert process(world, "mended")["Uid"].split() == ["1000"] * 4


def test_root_waits_for_the_administrator(world: World) -> None:
    """No webhook here: the admitter has the last word."""
    world.apply(scavenger_job("root", command=WHO, runAsUser=0))
    world.wait("it is told why", lambda: "spec.runAsUser: 0 is root" in world.status("root").get("message", ""))
    assert world.status("root")["phase"] == "Waiting"
    assert not world.pods("root")

    label(world, LABEL_POD_SECURITY, "baseline")

    assert process(world, "root")["Uid"].split() == ["0"] * 4
