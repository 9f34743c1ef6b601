"""What taints that announce the end of a node do to jobs, gangs and tasks there."""

from __future__ import annotations

from typing import Any

import pytest
from scavenger_admitter.core.lifecycle.observation import LifecycleSettings
from scavenger_admitter.core.lifecycle.plan import plan_job
from scavenger_api.job import Phase
from scavenger_api.reasons import InterruptionReason as Cause
from scavenger_kube import kinds

from . import builders as b
from .test_array import array, decide, see, task

SCALED_DOWN = "ToBeDeletedByClusterAutoscaler"
REBALANCE = "aws-node-termination-handler/rebalance-recommendation"
SPOT = "aws-node-termination-handler/spot-itn"
EACH = 100
"""Seconds in which a checkpoint is due; runs start at second 10."""


def hinted(since: float, taint: str = SCALED_DOWN) -> kinds.Node:
    """A node that shows this taint since then, as cluster-autoscaler writes it."""
    return b.node(taint=taint, value=str(int(b.at(since).timestamp())))


def spec(**more: Any) -> dict[str, Any]:
    return {"interruptionAfter": f"{EACH}s", **more}


def look(node: kinds.Node, *pods: kinds.Pod, now: float, rules: LifecycleSettings | None = None) -> Any:
    """What becomes of a job with these pods, of which the first is on this node."""
    job = b.job(Phase.RUNNING, running=[10], spec=spec(parallelism=len(pods)))
    more = {"rules": rules} if rules is not None else {}
    return plan_job(b.seen(job, now, b.batch(), *pods, nodes={"node-1": node, "node-2": b.node("node-2")}, **more))


CASES: list[tuple[str, kinds.Node, float, Phase, str | None]] = [
    ("an end is certain", b.node(taint=SPOT), 200, Phase.INTERRUPTED, None),
    ("hours off, or never", b.node(taint=REBALANCE), 209, Phase.RUNNING, None),
    ("hours off, and a checkpoint is due", hinted(200, REBALANCE), 211, Phase.RUNNING, None),
    ("a checkpoint is due within its notice, not yet", hinted(200), 209, Phase.RUNNING, None),
    ("a checkpoint was due within its notice", hinted(200), 211, Phase.INTERRUPTED, None),
    ("it was due before the hint", hinted(212), 213, Phase.RUNNING, None),
    ("the notice is over", hinted(80), 211, Phase.RUNNING, None),
    ("a program that reports has not reported", hinted(200), 215, Phase.RUNNING, b.stamp(115)),
    ("a program that reports has saved its state since", hinted(200), 215, Phase.INTERRUPTED, b.stamp(214)),
    ("it has saved its state when the notice was over", hinted(20), 215, Phase.RUNNING, b.stamp(214)),
    ("nobody says since when", b.node(taint=SCALED_DOWN), 211, Phase.RUNNING, None),
    ("since when is nonsense", b.node(taint=SCALED_DOWN, value="9" * 40), 211, Phase.RUNNING, None),
    ("since when is in the future", hinted(9000), 211, Phase.RUNNING, None),
]


@pytest.mark.parametrize(("name", "node", "now", "phase", "saved"), CASES, ids=[case[0] for case in CASES])
def test_a_job_a_gang_and_a_task_leave_a_node(
    name: str, node: kinds.Node, now: float, phase: Phase, saved: str | None
) -> None:
    pod = b.pod(checkpoint=saved)
    for pods in ((pod,), (pod, b.pod(1, checkpoint=saved, node="node-2"))):
        found = look(node, *pods, now=now)
        assert found.status.phase is phase, name
        if phase is Phase.INTERRUPTED:
            assert found.figures.interruption is Cause.NODE_DRAINED
    outcome = decide(see(array(spec=spec()), task(2, checkpoint=saved), nodes={"node-1": node}, now=now))
    assert (outcome.status.removing == ("2-0002cafe:NodeLeaving",)) is (phase is Phase.INTERRUPTED)


def test_next_to_nothing_is_lost_at_a_checkpoint_that_was_due() -> None:
    before = look(hinted(200), b.pod(), now=205)
    assert before.requeue_after == pytest.approx(5)  # it is looked at again when the checkpoint is due
    found = look(hinted(200), b.pod(), now=211)
    assert found.status.lost_cpu_seconds == pytest.approx(2, abs=0.1)  # one second of two cores
    assert SCALED_DOWN in (found.status.message or "")


def test_a_gang_leaves_when_all_its_members_have_saved_their_state() -> None:
    said = b.pod(0, checkpoint=b.stamp(214)), b.pod(1, checkpoint=b.stamp(114), node="node-2")
    assert look(hinted(200), *said, now=215).status.phase is Phase.RUNNING


def test_an_administrator_may_take_a_hint_for_an_end() -> None:
    rules = LifecycleSettings(certain_hints=frozenset({SCALED_DOWN}))
    assert look(hinted(200), b.pod(), now=201, rules=rules).status.phase is Phase.INTERRUPTED
    assert look(hinted(200, REBALANCE), b.pod(), now=201, rules=rules).status.phase is Phase.RUNNING


def test_tasks_elsewhere_run_on() -> None:
    tasks = task(2), task(3, node="node-2")
    nodes = {"node-1": b.node(taint=SPOT), "node-2": hinted(0, REBALANCE)}
    outcome = decide(see(array(spec=spec()), *tasks, nodes=nodes, now=205))
    assert outcome.status.removing == ("2-0002cafe:NodeLeaving",)
