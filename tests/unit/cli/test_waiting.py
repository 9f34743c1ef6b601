from __future__ import annotations

from typing import Any

import pytest
from scavenger_cli.access import Access
from scavenger_cli.exits import CliError, ExitCode
from scavenger_cli.objects import PHASES
from scavenger_cli.waiting import Goal, Verdict, judge, wait_for
from scavenger_testing.builders import scavengerjob_dict

from .cases import job
from .conftest import Answer, Server, event, listed

JOBS = "/apis/scavenger.dev/v1alpha1/namespaces/lab/scavengerjobs"

REACHED_IN = {
    Goal.COMPLETED: {"Completed"},
    Goal.FINISHED: {"Completed", "Failed"},
    Goal.RUNNING: {"Running", "Completed"},
    Goal.INTERRUPTED: {"Interrupted"},
    Goal.SUSPENDED: {"Suspended"},
    Goal.DELETED: set(),
}


@pytest.mark.parametrize("goal", Goal)
@pytest.mark.parametrize("phase", PHASES)
def test_every_goal_in_every_phase(goal: Goal, phase: str) -> None:
    out_of_reach = phase in ("Completed", "Failed") and goal is not Goal.DELETED
    expected = Verdict.REACHED if phase in REACHED_IN[goal] else Verdict.FAILED if out_of_reach else Verdict.NOT_YET
    assert judge(job(phase=phase), goal) is expected


@pytest.mark.parametrize("goal", Goal)
def test_a_job_that_is_gone(goal: Goal) -> None:
    assert judge(None, goal) is (Verdict.REACHED if goal is Goal.DELETED else Verdict.FAILED)


def one(name: str, phase: str, **status: Any) -> dict[str, Any]:
    return scavengerjob_dict(name, phase=phase, status=status, namespace="lab", uid=f"uid-{name}")


def serve(server: Server, *before: dict[str, Any], then: list[Any]) -> None:
    server.on(JOBS, listed(*before))
    for each in before:
        server.on(f"{JOBS}/{each['metadata']['name']}", Answer(body=each))
    server.on(JOBS, Answer(lines=then), watch=True)


def test_several_jobs(server: Server, access: Access) -> None:
    then = [event("MODIFIED", one("a", "Running")), event("MODIFIED", one("a", "Completed"))]
    serve(server, one("a", "Waiting"), one("b", "Completed"), one("other", "Failed"), then=then)
    phases: list[str] = []
    done: list[str] = []
    wait_for(
        access,
        ["a", "b"],
        Goal.COMPLETED,
        20,
        report=lambda j: phases.append(f"{j.name} {j.phase}"),
        reached=done.append,
    )
    assert phases == ["a Waiting", "b Completed", "a Running", "a Completed"]
    assert done == ["scavengerjob.scavenger.dev/b", "scavengerjob.scavenger.dev/a"]


def test_an_interruption_that_was_over_before_anybody_looked(server: Server, access: Access) -> None:
    again = event("MODIFIED", one("a", "Running", interruptedCount=3))
    serve(server, one("a", "Running", interruptedCount=2), then=[again])
    done: list[str] = []
    wait_for(access, ["a"], Goal.INTERRUPTED, 20, reached=done.append)
    assert done == ["scavengerjob.scavenger.dev/a"]


@pytest.mark.parametrize(
    ("last", "code", "words"),
    [
        (
            event("MODIFIED", one("a", "Failed", message="exited with code 3")),
            ExitCode.JOB_FAILED,
            "exited with code 3",
        ),
        (event("DELETED", one("a", "Running")), ExitCode.NOT_FOUND, "a was deleted before it was completed"),
    ],
)
def test_out_of_reach(server: Server, access: Access, last: Any, code: ExitCode, words: str) -> None:
    serve(server, one("a", "Running"), then=[last])
    with pytest.raises(CliError, match=words) as caught:
        wait_for(access, ["a"], Goal.COMPLETED, 20)
    assert caught.value.code is code


def test_a_misspelt_name_is_not_waited_for(server: Server, access: Access) -> None:
    serve(server, one("simulation", "Running"), then=[])
    server.on("/apis/scavenger.dev/v1alpha1/scavengerjobs", listed(one("simulation", "Running")))
    with pytest.raises(CliError) as caught:
        wait_for(access, ["simulatoin"], Goal.COMPLETED, 20)
    assert (caught.value.code, caught.value.remedy) == (ExitCode.NOT_FOUND, "did you mean simulation?")


def test_too_late(server: Server, access: Access) -> None:
    serve(server, one("a", "Running"), then=[])
    with pytest.raises(CliError, match=r"a was not completed within 0\.05 s") as caught:
        wait_for(access, ["a"], Goal.COMPLETED, 0.05)
    assert caught.value.code is ExitCode.TIMED_OUT
