"""A LimitRange that allows no more CPU than a job requests refuses no pod for the millicore that makes it Burstable."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from scavenger_admitter.core.manifest import job_manifest, with_equal_limits
from scavenger_api.quantity import amount
from scavenger_kube.resources import PODS
from scavenger_testing.answers import Request
from scavenger_testing.faults import Fault

from . import builders as b
from .harness import NS, Harness, harness, runs

MAXIMUM = 'pods "a-0" is forbidden: maximum cpu usage per Container is 4, but limit is 4001m'
RATIO = 'pods "a-0" is forbidden: cpu max limit to request ratio per Container is 1, but provided ratio is 1.000250'
QUOTA = (
    'pods "a-0" is forbidden: exceeded quota: q, requested: limits.cpu=4001m, used: limits.cpu=0, limited: limits.cpu=4'
)


@dataclass(slots=True)
class Refusing(Fault):
    """What the API server says of pods with a CPU limit above four cores, or above their request."""

    refused: int = 0

    def fits(self, request: Request) -> bool:
        if request.method != "POST" or not request.path.endswith("/pods"):
            return False
        sides = json.loads(request.body)["spec"]["containers"][0]["resources"]
        above = amount("cpu", sides["limits"]["cpu"]) > amount("cpu", sides["requests"]["cpu"])
        self.refused += above
        return above


def refuse(c: Harness, message: str) -> Refusing:
    status = {"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": message}
    fault = Refusing("fail", 1, frozenset({"POST"}), "/pods", 403, "Forbidden", body=json.dumps(status).encode())
    c.api.faults.add(fault)
    return fault


def sides_of(c: Harness) -> list[tuple[str, str]]:
    resources = [pod["spec"]["containers"][0]["resources"] for pod in c.api.list(PODS, NS)]
    return [(one["requests"]["cpu"], one["limits"]["cpu"]) for one in resources]


@pytest.mark.parametrize("message", [MAXIMUM, RATIO])
async def test_a_job_of_four_cores_starts_where_a_container_may_have_four(message: str) -> None:
    async with harness() as c:
        fault = refuse(c, message)
        c.submit("a", cpu="4", parallelism=3)
        await runs(c, "a")
        assert sides_of(c) == [("4", "4")] * 3
        assert fault.refused == 1, "the others are sent as they will be taken"


async def test_and_so_do_tasks() -> None:
    async with harness() as c:
        fault = refuse(c, MAXIMUM)
        c.submit("a", cpu="4", array={"tasks": 3})
        await runs(c, "a")
        await c.until(lambda: len(sides_of(c)) == 3)
        assert sides_of(c) == [("4", "4")] * 3
        assert fault.refused <= 2


async def test_a_quota_counts_the_millicore() -> None:
    """A tenant that fills its quota to the brim would be spared by the kernel before regular pods."""
    async with harness() as c:
        fault = refuse(c, QUOTA)
        c.submit("a", cpu="4")
        await c.pass_time(5)
        assert (sides_of(c), fault.refused > 0) == ([], True)


SAME = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("resources", "limit"),
    [
        ({"requests": SAME}, "1001m"),
        ({"requests": SAME, "limits": {"cpu": "2"}}, "2"),
        ({"requests": SAME, "limits": {"memory": "2Gi"}}, "1"),
    ],
)
def test_only_pods_that_would_be_guaranteed_get_it(resources: dict[str, Any], limit: str) -> None:
    made = job_manifest(b.job(spec={"resources": resources}), restarts=0, run="r", max_grace_seconds=9, burstable=True)
    pod = made["spec"]["template"]
    assert pod["spec"]["containers"][0]["resources"]["limits"]["cpu"] == limit
    equal = with_equal_limits(pod)
    assert (equal is not None) is (limit == "1001m")
    if equal is not None:
        assert equal["spec"]["containers"][0]["resources"] == {"requests": SAME, "limits": SAME}


def test_of_the_pod_as_a_whole_as_well() -> None:
    whole = {"requests": SAME, "limits": SAME}
    template = {"spec": {"resources": whole, "containers": [{"name": "main", "image": "i"}]}}
    job = b.job(spec={"template": template, "image": None, "resources": None})
    pod = job_manifest(job, restarts=0, run="r", max_grace_seconds=9, burstable=True)["spec"]["template"]
    assert pod["spec"]["resources"]["limits"]["cpu"] == "1001m"
    equal = with_equal_limits(pod)
    assert equal is not None
    assert equal["spec"]["resources"] == whole
