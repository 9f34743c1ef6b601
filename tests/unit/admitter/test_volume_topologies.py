"""Jobs start where the volumes of their claims can be used."""

from __future__ import annotations

from typing import Any

import pytest
from scavenger_admitter.core.volume_topology import topology_of
from scavenger_kube.resources import JOBS, PERSISTENTVOLUMECLAIMS, PERSISTENTVOLUMES, STORAGECLASSES

from .harness import NS, Harness, empty_harness, runs

ZONE = "topology.kubernetes.io/zone"
CLAIM: dict[str, Any] = {"persistentVolumeClaims": [{"name": "data", "mountPath": "/data"}]}
ALWAYS = 10**6


def put_claim(c: Harness, **spec: Any) -> None:
    c.api.put(PERSISTENTVOLUMECLAIMS, {"metadata": {"name": "data", "namespace": NS}, "spec": spec})


def put_volume(c: Harness, *zones: str, claim: dict[str, str] | None = None) -> None:
    """A volume of these zones, bound to the claim `data` or to another."""
    terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [*zones]}]}]
    spec = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}, "csi": {"volumeHandle": "v"}}
    spec["claimRef"] = {"namespace": NS, "name": "data"} if claim is None else claim
    c.api.put(PERSISTENTVOLUMES, {"metadata": {"name": "pv-1"}, "spec": spec})


def put_zones(c: Harness) -> None:
    """The zone without the volume has a large node, and the other one a small one."""
    c.node("large", cpu="64", labels={ZONE: "a"})
    c.node("small", cpu="2", labels={ZONE: "b"})
    c.binds_to = "small"


def submit_with_volume(c: Harness, *zones: str) -> None:
    """A job `a` whose claim has a volume of these zones."""
    put_volume(c, *zones)
    put_claim(c, volumeName="pv-1")
    c.admitter()
    c.submit("a", **CLAIM)


@pytest.mark.parametrize("bound", [True, False], ids=["volume", "class"])
async def test_a_job_waits_for_a_node_that_can_use_its_volume(bound: bool) -> None:
    async with empty_harness() as c:
        put_zones(c)
        put_volume(c, "b")
        topologies = [{"matchLabelExpressions": [{"key": ZONE, "values": ["b"]}]}]
        c.api.put(STORAGECLASSES, {"metadata": {"name": "zonal"}, "allowedTopologies": topologies})
        put_claim(c, storageClassName="zonal", **({"volumeName": "pv-1"} if bound else {}))
        c.admitter()
        c.submit("first", cpu="2", nodeSelector={ZONE: "b"})
        await runs(c, "first")
        c.submit("second", cpu="2", **CLAIM)
        await c.pass_time(60)
        assert (c.phase("second"), c.jobs_ever("second")) == ("Waiting", 0)
        assert f'persistentvolumeclaim "data" needs nodes with {ZONE}=b' in c.status("second")["message"]
        c.end(c.pods("first")[0])
        await runs(c, "second")
        assert c.status("second")["interruptedCount"] == 0


async def test_no_node_can_use_the_volume() -> None:
    async with empty_harness() as c:
        put_zones(c)
        submit_with_volume(c, "gone")
        await c.pass_time(60)
        assert not c.api.stored(JOBS)
        assert c.status("a")["message"] == (
            "cannot start as things are: no node has the labels that its volumes require;"
            f' persistentvolumeclaim "data" needs nodes with {ZONE}=gone (its volume pv-1)'
        )


@pytest.mark.parametrize(
    "bound_to",
    [
        {},
        {"namespace": "elsewhere", "name": "data"},
        {"namespace": NS, "name": "other"},
        {"namespace": NS, "name": "data", "uid": "of an earlier claim"},
    ],
    ids=["nothing", "namespace", "name", "uid"],
)
async def test_a_claim_that_names_a_volume_of_others_tells_nothing_of_it(bound_to: dict[str, str]) -> None:
    async with empty_harness() as c:
        put_zones(c)
        put_volume(c, "gone", claim=bound_to)
        put_claim(c, volumeName="pv-1")
        c.admitter()
        c.submit("a", cpu="1000", **CLAIM)
        await c.pass_time(60)
        assert c.phase("a") == "Waiting"
        assert "gone" not in c.status("a")["message"]
        c.submit("b", **CLAIM)
        await runs(c, "b")


async def test_a_claim_that_got_another_volume_is_looked_at_again() -> None:
    async with empty_harness() as c:
        put_zones(c)
        submit_with_volume(c, "gone")
        await c.pass_time(30)
        put_volume(c, "b")
        await c.pass_time(700, step=10)
        assert c.phase("a") == "Running"


@pytest.mark.parametrize("which", ["/persistentvolumeclaims", "/persistentvolumes"])
async def test_without_the_right_to_read_it_the_scheduler_decides(which: str) -> None:
    async with empty_harness() as c:
        put_zones(c)
        c.api.fail(403, times=ALWAYS, methods={"GET"}, path=which, reason="Forbidden")
        submit_with_volume(c, "gone")
        await runs(c, "a")


async def test_many_jobs_of_one_claim_look_at_it_once_in_a_minute() -> None:
    async with empty_harness() as c:
        put_zones(c)
        put_volume(c, "a", "b")
        put_claim(c, volumeName="pv-1")
        c.admitter()
        c.submit("first", cpu="10m", **CLAIM)
        await runs(c, "first")
        for number in range(20):
            c.submit(f"a{number}", cpu="10m", **CLAIM)
        for number in range(20):
            await runs(c, f"a{number}")
        assert c.api.count("GET", "/persistentvolumes/") == 1


def test_a_message_names_few_of_many_claims_and_labels() -> None:
    terms = ((("host", "In", tuple(f"n{i}" for i in range(50))),),) * 9
    message = topology_of([(f"c{i}", terms, "its volume v") for i in range(64)]).message
    assert "61 more claims need certain nodes" in message
    assert len(message) < 1000
