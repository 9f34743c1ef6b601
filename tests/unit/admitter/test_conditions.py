"""The conditions of a job over its life, and what `kubectl get sj` makes a reason of."""

from __future__ import annotations

import re

import pytest
from scavenger_admitter.core.lifecycle.conditions import written
from scavenger_api.crd import JOB_COLUMNS
from scavenger_api.job import Phase
from scavenger_api.model import Condition
from scavenger_domain.job_states import states

from . import builders as b

REASON = next(column["jsonPath"] for column in JOB_COLUMNS if column["name"] == "Reason")


def shown(conditions: tuple[Condition, ...]) -> str:
    """What the column REASON has: the first value that its path leads to."""
    path = re.fullmatch(r'\.status\.conditions\[\?\(@\.status=="(\w+)"\)\]\.reason', REASON)
    assert path is not None
    return next((condition.reason for condition in conditions if condition.status == path[1]), "")


LIFE = (
    (Phase.WAITING, "NoPlace", None, None, "NoPlace"),
    (Phase.STARTING, "", None, None, ""),
    (Phase.RUNNING, "", None, None, ""),
    (Phase.INTERRUPTED, "AdmitFalse", "Preempted", None, "AdmitFalse"),
    (Phase.STARTING, "", "Preempted", None, ""),
    (Phase.RUNNING, "", None, None, ""),
    (Phase.RUNNING, "", None, "no checkpoint for an hour", ""),
    (Phase.RUNNING, "", None, None, ""),
    (Phase.SUSPENDED, "Suspended", None, None, "Suspended"),
    (Phase.RUNNING, "", None, None, ""),
)


@pytest.mark.parametrize(
    ("end", "reason", "expected"),
    [(Phase.COMPLETED, "", ""), (Phase.FAILED, "DeadlineExceeded", "DeadlineExceeded")],
)
def test_only_a_job_that_waits_or_has_failed_has_a_reason(end: Phase, reason: str, expected: str) -> None:
    conditions: tuple[Condition, ...] = ()
    for number, (phase, why, interrupted, stalled, column) in enumerate([*LIFE, (end, reason, None, None, expected)]):
        wanted = states(phase, why, "", interrupted=interrupted, stalled=stalled)
        conditions = written(conditions, wanted, generation=1, now=b.at(number))
        assert shown(conditions) == column, (number, phase)
        assert any(one.type == "Interrupted" for one in conditions) == (interrupted is not None)
        assert any(one.type == "Stalled" for one in conditions) == (stalled is not None)


def test_conditions_of_others_stay() -> None:
    theirs = Condition(type="Audited", status="True", last_transition_time=b.at(0), reason="Yes")
    wanted = states(Phase.RUNNING, "", "", interrupted=None, stalled=None)
    assert written((theirs,), wanted, generation=1, now=b.at(1))[-1] == theirs
