"""kube-state-metrics shows of each job how often it started, was interrupted, and whether it has ended."""

from __future__ import annotations

import pytest
from scavenger_testing.waiting import wait

from .conftest import Played

pytestmark = [pytest.mark.timeout(600), pytest.mark.long]


def of_jobs(played: Played, expression: str) -> dict[str, float]:
    """The values of a query, by the name of the job."""
    return {labels["job_name"]: value for labels, value in played.prometheus.query(expression)}


def test_single_jobs_are_shown_as_their_status_has_them(played: Played) -> None:
    seen: dict[str, dict[str, float]] = {}

    def right() -> bool:
        statuses = played.scenario.statuses()
        for metric in ("starts", "interruptions", "lost_cpu_seconds"):
            seen[metric] = of_jobs(played, f"scavenger_job_{metric}")
        phases = of_jobs(played, "scavenger_job_status_phase == 1")
        seen["phases"] = phases
        return (
            seen["starts"] == {name: len(status.get("runningTimestamps", ())) for name, status in statuses.items()}
            and seen["interruptions"] == {name: one.get("interruptedCount", 0) for name, one in statuses.items()}
            and seen["lost_cpu_seconds"] == {name: one.get("lostCPUSeconds", 0) for name, one in statuses.items()}
            and phases.keys() == statuses.keys()
        )

    wait("each job as its status has it", right, describe=lambda: str(seen))
    assert {name: seen["starts"][name] for name in ("a", "done", "big")} == {"a": 2, "done": 1, "big": 0}
    assert {name: seen["interruptions"][name] for name in ("a", "b", "done")} == {"a": 1, "b": 1, "done": 0}


def test_a_job_that_ended_has_its_end_and_its_phase(played: Played) -> None:
    def ended() -> dict[str, float]:
        return of_jobs(played, "scavenger_job_finished_timestamp_seconds - scavenger_job_created_timestamp_seconds")

    assert wait("the end of the job", ended).keys() == {"done"}
    assert ended()["done"] > 0
    ((labels, _),) = played.prometheus.query('scavenger_job_status_phase{job_name="done"} == 1')
    assert (labels["phase"], labels["queue"], labels["job_namespace"]) == ("Completed", "lab", "research")
