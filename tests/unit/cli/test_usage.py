"""What jobs use of their requests, and what they should request."""

from __future__ import annotations

import json
from typing import Any

from scavenger_cli.details import job_details
from scavenger_cli.explain import explain
from scavenger_cli.lists import job_header, job_row
from scavenger_cli.room import room_for
from scavenger_cli.usage import advise
from scavenger_testing import builders

from .cases import NOW, USAGE, ago, facts, job, nodes
from .conftest import Run, Server, listed

SAID = (
    "requests 4 cpu, uses 0.7 (p95 0.9, most 1.1); requests 8Gi memory, uses 1Gi (most seen 2Gi); measured for 5h,"
    " and memory is sampled every 15 s or slower, so shorter peaks are missing"
)


def test_every_command_shows_it() -> None:
    subject = job(phase="Running", status={"usage": USAGE, "runningTimestamps": [ago(60)]})
    assert dict(job_details(subject, NOW, None))["Uses"] == SAID
    assert SAID in [one.text for one in explain(facts(subject)).findings if one.label == "so far"]
    cells = dict(
        zip(job_header(wide=True, namespaces=False), job_row(subject, NOW, wide=True, namespaces=False), strict=True)
    )
    assert (cells["CPU-USED"], cells["MEMORY-USED"]) == ("22 %", "25 %")
    sized = job(status={"recommended": {"cpu": "1210m", "memory": "2663Mi"}})
    assert dict(job_details(sized, NOW, None))["Requests"] == "1210m cpu, 2663Mi memory"
    killed = job(status={"recommended": {"killedForMemory": True}})
    assert dict(job_details(killed, NOW, None))["Requests"] == "no more: a container was killed for memory"
    without = job_row(job(phase="Running"), NOW, wide=True, namespaces=False)
    assert without[job_header(wide=True, namespaces=False).index("CPU-USED")] == ""


def running(name: str, usage: dict[str, Any] | None, *, phase: str = "Running", **spec: Any) -> dict[str, Any]:
    status = {"usage": usage} if usage else {}
    return builders.scavengerjob_dict(name, namespace="lab", phase=phase, status=status, cpu="4", memory="8Gi", **spec)


def test_a_job_loses_what_its_pods_request() -> None:
    """And it is looked for capacity by that, as the admitter does."""
    known = {"runningTimestamps": [ago(600)]}
    own = job(phase="Running", status=known, cpu="4", memory="8Gi")
    less = job(phase="Running", status=known | {"recommended": {"cpu": "1", "memory": "2Gi"}}, cpu="4", memory="8Gi")
    assert less.unsaved(NOW) == own.unsaved(NOW) / 4 > 0
    assert less.requests == less.sized.spec.requests == {"cpu": 1000, "memory": 2 * 2**30}
    assert less.sized.sized == less.sized
    assert own.sized is own
    assert room_for(less.sized.spec, nodes(1), []).places == 4 * room_for(own.spec, nodes(1), []).places


def test_a_kill_is_heard_by_kin_before_anything_was_measured() -> None:
    done = job("done", "Completed", status={"usage": USAGE | {"runs": 12}})
    killed = job("killed", "Interrupted", status={"recommended": {"killedForMemory": True}})
    new = job("new")
    assert advise([done, new], [new])[0].found.by_kin == {"cpu", "memory"}
    assert advise([done, killed, new], [new])[0].found.by_kin == {"cpu"}


def test_recommend(server: Server, sj: Run) -> None:
    """By its own figures, and by ten kin that are alike; what has finished tells of others, and is told by its name."""
    done = [running(f"done-{one}", USAGE | {"runs": 2, "podSeconds": 400}, phase="Completed") for one in range(5)]
    jobs = [running("old", USAGE | {"runs": 3}), running("new", None, queue="night"), *done]
    alone = running("alone", None, image="example.org/other:1")
    server.on("/apis/scavenger.dev/v1alpha1/namespaces/lab/scavengerjobs", listed(*jobs, alone))
    server.on("/apis/batch/v1/namespaces/lab/jobs", listed())
    code, out, err = sj("recommend", "-o", "json")
    assert code == 0, err
    found = {one["name"]: one for one in json.loads(out)}
    assert found.keys() == {"old", "new", "alone"}
    assert found["old"]["recommended"] == {"cpu": "1210m", "memory": "4028Mi"}
    assert found["old"]["freedCores"] == 2.79
    assert found["old"]["byKin"] == []
    assert found["new"]["recommended"] == {"cpu": "1210m", "memory": "2978Mi"}
    assert found["new"]["byKin"] == ["cpu", "memory"]
    assert found["alone"]["recommended"] == {}
    assert found["alone"]["lacks"]["cpu"] == "nothing is measured yet"
    code, out, err = sj("recommend", "night")
    assert code == 0
    assert [line.split()[:6] for line in out.splitlines()][1:] == [["new", "night", "1", "4", "-", "1210m*"]]
    assert "free 2.8 cores" in err
    assert "shorter peaks are missing" in err
    assert sj("recommend", "done-1")[1].splitlines()[1].startswith("done-1")
    code, _, err = sj("recommend", "nobody")
    assert code == 3
    assert "no job nobody" in err
