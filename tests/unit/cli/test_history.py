"""Who was interrupted, by whom, and what it cost."""

from __future__ import annotations

from typing import Any

import pytest
from scavenger_api.reasons import InterruptionReason
from scavenger_domain import interruptions
from scavenger_testing import builders

from .cases import ago
from .conftest import Answer, Run, Server, listed, status

JOBS = "/apis/scavenger.dev/v1alpha1/namespaces/lab/scavengerjobs"
EVENTS = "/api/v1/namespaces/lab/events"


def left(name: str, seconds: float, cause: InterruptionReason, lost: float, **more: Any) -> dict[str, Any]:
    """The admitter's Event."""
    sentence = interruptions.tell(cause, f"{name}-0-abcde", "", lost, at_most=False)
    about = {"kind": "ScavengerJob", "namespace": "lab", "name": name, "uid": f"uid-{name}", **more}
    meta = {"name": f"{name}.{seconds}", "namespace": "lab"}
    return {
        "metadata": meta,
        "involvedObject": about,
        "reason": "Interrupted",
        "message": sentence,
        "lastTimestamp": ago(seconds),
    }


def victim(name: str, seconds: float, whom: str) -> dict[str, Any]:
    """The scheduler's Event."""
    return {
        "metadata": {"name": f"{name}.{whom}", "namespace": "lab"},
        "involvedObject": {"kind": "Pod", "namespace": "lab", "name": f"{name}-0-abcde"},
        "related": {"kind": "Pod", "namespace": "web", "name": whom},
        "reason": "PreemptedBy",
        "eventTime": ago(seconds),
    }


def interrupted(name: str, *seconds: float) -> dict[str, Any]:
    stamps = {"interruptedTimestamps": [ago(one) for one in seconds], "interruptedCount": len(seconds)}
    return builders.scavengerjob_dict(name, namespace="lab", uid=f"uid-{name}", phase="Waiting", status=stamps)


@pytest.fixture
def cluster(server: Server) -> Server:
    def events(request: Any) -> Any:
        if request.query["fieldSelector"] == "involvedObject.kind=ScavengerJob":
            return listed(
                left("a", 298, InterruptionReason.PREEMPTED, 600.0),
                left("gone", 100, InterruptionReason.ABOVE_UPPER_LEVEL, 1200.0),
            )
        if request.query["fieldSelector"] == "reason=PreemptedBy":
            return listed(victim("a", 310, "checkout"), victim("a", 7000, "older"))
        return listed()

    server.on(JOBS, listed(interrupted("a", 9000, 300), builders.scavengerjob_dict("b", namespace="lab")))
    server.on(EVENTS, events)
    return server


def test_by_whom_and_what_it_cost(cluster: Server, sj: Run) -> None:
    code, out, said = sj("history")

    assert code == 0
    lines = [line.split()[2:] for line in out.splitlines()[1:]]
    assert lines == [
        ["gone", "AboveUpperLevel", "20.0", "min"],
        ["a", "Preempted", "web/checkout", "10.0", "min"],
        ["a", "not", "known", "not", "known", "not", "known"],
    ]
    assert "3 interruptions, 30.0 min of CPU time lost; of 1 the cost is not known" in said


def test_of_one_job(cluster: Server, sj: Run) -> None:
    cluster.on(f"{JOBS}/b", Answer(body=builders.scavengerjob_dict("b", namespace="lab")))
    code, out, said = sj("history", "b")

    assert (code, out) == (0, "")
    assert "No interruption is on record." in said


def test_without_the_right_to_read_events_it_says_so(cluster: Server, sj: Run) -> None:
    cluster.on(EVENTS, Answer(403, status(403, "Forbidden")))
    code, out, said = sj("history", "--no-headers")

    assert (code, len(out.splitlines())) == (0, 2)
    assert "You may not list Events" in said
