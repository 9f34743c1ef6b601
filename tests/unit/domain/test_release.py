"""What a release takes over; the steps are in tests/unit/admitter/test_release.py."""

from __future__ import annotations

import msgspec
import pytest
from scavenger_api import names
from scavenger_api.checkpoints import INDEX_FAILURES
from scavenger_api.names import CONDITION_LEDGER
from scavenger_domain.release import ReleaseError, counts_of
from scavenger_kube.kinds import Pod
from scavenger_testing import adopted_job_dict
from scavenger_testing.builders import pod_dict, terminated


def test_nobody_counts_beside_a_ledger_of_another_version() -> None:
    """It may name pods in another way: they would be counted twice."""
    job = adopted_job_dict("a")
    ledger = {"type": CONDITION_LEDGER, "status": "False", "reason": "Running", "message": '{"v":2,"counted":"0-a"}'}
    job["status"] = {"succeeded": 1, "conditions": [ledger]}
    assert counts_of(job, [], lambda _: pytest.fail("no pod")) == {"succeeded": 1}
    with pytest.raises(ReleaseError, match="is of version 2"):
        counts_of(job, [{}], lambda _: pytest.fail("a pod is read"))


@pytest.mark.parametrize(("used", "failed"), [("0", "3"), ("1", "2,3")])
def test_an_index_that_has_used_up_its_retries_has_failed(used: str, failed: str) -> None:
    job = adopted_job_dict("a", completions=4, completionMode="Indexed", backoffLimitPerIndex=1)
    job["status"] = {"failed": 2, "failedIndexes": "3"}
    labels = {names.LABEL_JOB: "a", names.LABEL_TASK: "2", names.LABEL_KIND: names.KIND_JOB}
    pod = pod_dict("a-2", labels=labels, annotations={INDEX_FAILURES: used}, finalizers=[names.FINALIZER])
    pod["status"] = {"phase": "Failed", "containerStatuses": [terminated(1)]}
    assert counts_of(job, [pod], lambda one: msgspec.convert(one, Pod)) == {"failed": 3, "failedIndexes": failed}
