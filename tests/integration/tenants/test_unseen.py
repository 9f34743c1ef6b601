"""Capacity held for a pod that never takes it. The last module: the pod is as old as the cluster."""

from __future__ import annotations

import pytest
from scavenger_testing.place import job
from scavenger_testing.waiting import wait

from .conftest import LAST_NODE, UNSEEN, Tenant, cores, elsewhere, phase

pytestmark = pytest.mark.long


def test_a_pod_that_no_scheduler_looks_at_keeps_a_node_from_nobody(tenant: Tenant) -> None:
    where = {"kubernetes.io/hostname": LAST_NODE}
    tenant.ok("create", "-f", "-", stdin=job("starts", resources=cores(4), nodeSelector=where))
    wait("the job runs beside it", lambda: phase(tenant.place, "starts") == "Running")
    [unseen] = elsewhere(tenant, UNSEEN).items("pods")
    assert unseen["status"]["phase"] == "Pending"
    tenant.ok("delete", "sj", "starts")
