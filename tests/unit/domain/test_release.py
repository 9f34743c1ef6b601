"""What a release takes over; the steps are in tests/unit/admitter/test_release.py."""

from __future__ import annotations

import pytest
from scavenger_api.names import CONDITION_LEDGER
from scavenger_domain.release import ReleaseError, counts_of
from scavenger_testing import adopted_job_dict


def test_nobody_counts_beside_a_ledger_of_another_version() -> None:
    """It may name pods in another way: they would be counted twice."""
    job = adopted_job_dict("a")
    ledger = {"type": CONDITION_LEDGER, "status": "False", "reason": "Running", "message": '{"v":2,"counted":"0-a"}'}
    job["status"] = {"succeeded": 1, "conditions": [ledger]}
    assert counts_of(job, [], lambda _: pytest.fail("no pod")) == {"succeeded": 1}
    with pytest.raises(ReleaseError, match="is of version 2"):
        counts_of(job, [{}], lambda _: pytest.fail("a pod is read"))
