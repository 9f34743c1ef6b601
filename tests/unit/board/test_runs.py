"""The runs of a job, and what of the one under way is unsaved."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from scavenger_api.levels_text import DEFAULT_POOL
from scavenger_api.names import RESOURCE_RECLAIMED_CPU
from scavenger_board.core.nodes import pools_of_nodes, scavenger_shares
from scavenger_board.core.snapshot import NodeFacts

from .builders import ago, job, pod, shown

MINUTE = 60 * 10**6


def unix(at: datetime) -> int:
    return int(at.timestamp())


@pytest.mark.parametrize(
    ("phase", "fields", "ends"),
    [
        ("Waiting", {}, []),
        ("Running", {"runs": (ago(hours=1),)}, [(None, "running")]),
        (
            "Running",
            {"runs": (ago(hours=3), ago(hours=1)), "interruptions": (ago(hours=2),)},
            [(ago(hours=2), "interrupted"), (None, "running")],
        ),
        (
            "Interrupted",
            {"runs": (ago(hours=3),), "interruptions": (ago(hours=2),), "ended": ago(hours=2)},
            [(ago(hours=2), "interrupted")],
        ),
        ("Waiting", {"runs": (ago(hours=3),), "ended": ago(hours=2)}, [(ago(hours=2), "ended")]),
        ("Waiting", {"runs": (ago(hours=3),)}, [(None, "ended")]),
        ("Running", {"runs": (ago(hours=3), ago(hours=1))}, [(None, "ended"), (None, "running")]),
        ("Completed", {"runs": (ago(hours=3),), "finished": ago(hours=2)}, [(ago(hours=2), "completed")]),
        ("Failed", {"runs": (ago(hours=3),), "finished": ago(hours=2)}, [(ago(hours=2), "failed")]),
    ],
)
def test_runs_and_how_they_ended(phase: str, fields: dict[str, Any], ends: list[tuple[datetime | None, str]]) -> None:
    (row,) = shown(jobs=[job("a", phase, **fields)]).jobs

    assert [run[0] for run in row.runs] == [unix(at) for at in fields.get("runs", ())]
    assert [run[1:] for run in row.runs] == [(None if at is None else unix(at), how) for at, how in ends]


@pytest.mark.parametrize(
    ("fields", "checkpointed", "safe"),
    [
        ({"runs": ()}, None, None),
        ({"phase": "Waiting"}, None, None),
        ({}, None, ago(minutes=20)),
        ({"checkpoint": ago(minutes=5)}, ago(minutes=5), ago(minutes=5)),
        ({"checkpoint": ago(hours=5)}, None, ago(minutes=20)),
        ({"checkpoint": ago(minutes=-5)}, None, ago(minutes=20)),
        ({"checkpoint": ago(minutes=70), "runs": (ago(minutes=80),)}, ago(minutes=70), ago(minutes=20)),
        ({"interval": 0}, None, None),
    ],
    ids=["no run", "waits", "none", "reported", "of the last run", "of the future", "due since", "unreadable"],
)
def test_work_is_safe_until_the_checkpoint_that_was_reported_or_due(
    fields: dict[str, Any], checkpointed: datetime | None, safe: datetime | None
) -> None:
    given = {"phase": "Running", "runs": (ago(minutes=20),), "interval": 60 * MINUTE, **fields}
    (row,) = shown(jobs=[job("a", **given)]).jobs

    assert row.checkpointed == (None if checkpointed is None else unix(checkpointed))
    assert row.safe_until == (None if safe is None else unix(safe))


def test_what_jobs_request_of_all_nodes() -> None:
    nodes = [NodeFacts("n1", {"cpu": 4000, "memory": 0}), NodeFacts("n2", {"cpu": 6000})]
    pods = [
        pod("a", "n1", "a", requests={"cpu": 2000}),
        pod("b", "n2", "", requests={"cpu": 3000}),
        pod("c", "", "c", requests={"cpu": 1000}),
        pod("d", "n1", "d", requests={RESOURCE_RECLAIMED_CPU: 500}),
    ]

    pools = pools_of_nodes(nodes, None)
    assert scavenger_shares(nodes, pods, pools) == {DEFAULT_POOL: {"cpu": pytest.approx(25.0)}}
    assert scavenger_shares(nodes, pods, {"n1": "a", "n2": "b"}) == {
        "a": {"cpu": pytest.approx(62.5)},
        "b": {"cpu": 0.0},
    }
    assert scavenger_shares([], pods, {}) == {}
