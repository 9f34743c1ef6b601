"""Free places by requests, against the cases the scheduler knows."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scavenger_api.levels import LevelsState, LevelsView, PublishedLevels, ResourceLevels
from scavenger_cli.objects import JobSpec
from scavenger_cli.room import kept_free, of_pool, pool_for, room_for
from scavenger_domain.nodes import pool_of
from scavenger_kube.kinds import Pod
from scavenger_testing import builders

from tests.unit.effort import examples

from .cases import NOW, ago, levels, nodes

GIB = 2**30


def spec(cpu: str = "1", memory: str = "1Gi", **fields: Any) -> JobSpec:
    return msgspec.convert({"resources": {"requests": {"cpu": cpu, "memory": memory}}, **fields}, JobSpec)


def test_ended_and_unplaced_pods_take_no_room() -> None:
    pods = [
        builders.pod("done", node="node-1", cpu="8", phase="Succeeded"),
        builders.pod("pending", cpu="8"),
        builders.pod("running", node="node-1", cpu="2", phase="Running"),
    ]
    room = room_for(spec("6"), nodes(1), pods)
    assert room.places == 1
    assert room.load["cpu"].percent() == 25.0
    assert room.load["cpu"].percent(6000) == 100.0


def test_what_is_kept_for_regular_pods_is_not_free() -> None:
    """As the admitter keeps it: on the largest nodes, beside what regular pods request there."""
    pods = [
        builders.pod("web", node="node-1", cpu="2", phase="Running"),
        builders.pod("sim-0", node="node-2", cpu="8", phase="Running", labels={"scavenger.dev/job": "sim"}),
    ]
    kept = kept_free(nodes(3), pods, levels(kept_cpu="50"))
    assert kept == {"node-1": {"cpu": 6000}, "node-2": {"cpu": 6000}}
    assert [room_for(spec("2"), nodes(3), pods, kept=one).places for one in ({}, kept)] == [7, 4]
    assert kept_free(nodes(3), pods, levels()) == {}


def test_reclaimed_capacity_is_room_of_its_own_and_counts_as_cpu_and_memory() -> None:
    offers = {"scavenger.dev/reclaimed-cpu": "4000", "scavenger.dev/reclaimed-memory": "2048"}
    node = builders.node("n", allocatable={"cpu": "8", "memory": "32Gi", "pods": "10", **offers})
    asked = {"cpu": "0", "scavenger.dev/reclaimed-cpu": "1000", "scavenger.dev/reclaimed-memory": "1024"}
    taker = {
        "metadata": {"name": "taker", "labels": {"scavenger.dev/job": "taker"}},
        "spec": {"nodeName": "n", "containers": [{"resources": {"requests": asked}}]},
        "status": {"startTime": ago(10)},
    }
    pods = [builders.pod("web", node="n", cpu="7", memory="8Gi", phase="Running"), msgspec.convert(taker, Pod)]
    room = room_for(spec("3", "1Gi", capacity="Reclaimed"), [node], pods, unseen_since=NOW - timedelta(seconds=60))
    assert (room.places, room.open) == (1, 1)
    assert room.largest_free is not None
    assert dict(room.largest_free.amounts) == {"cpu": 3000, "memory": GIB, "pods": 8}
    assert room.load["cpu"].used == 8000
    assert room.load["memory"].used == 9 * GIB
    assert room.unseen == {"cpu": 1000, "memory": GIB}
    assert room_for(spec("2"), [node], pods).places == 0, "it is no room for others"
    assert room_for(spec("1"), [node], pods).places == 1, "and takes none of theirs"


def test_pod_slots_count() -> None:
    pods = [builders.pod(f"p{i}", node="node-1", cpu="10m", memory="1Mi", phase="Running") for i in range(3)]
    assert room_for(spec(), nodes(1, pods="4"), pods).places == 1
    assert room_for(spec(), nodes(1, pods="3"), pods).places == 0


def test_other_resources_are_looked_for() -> None:
    asked = msgspec.convert({"resources": {"limits": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "2"}}}, JobSpec)
    with_gpu = builders.node("gpu", allocatable={"cpu": "8", "memory": "32Gi", "pods": "10", "nvidia.com/gpu": "5"})
    room = room_for(asked, [*nodes(2), with_gpu], [])
    assert room.places == 2
    assert room.largest_free is not None
    assert (room.largest_free.node, room.largest_free.amounts["nvidia.com/gpu"]) == ("gpu", 5)


@pytest.mark.parametrize(
    ("toleration", "fits"),
    [
        ({}, False),
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"key": "gpu", "value": "a100"}, True),
        ({"key": "gpu", "value": "h100"}, False),
        ({"operator": "Exists"}, True),
        ({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, False),
    ],
)
def test_tolerations(toleration: dict[str, str], fits: bool) -> None:
    tainted = nodes(1, taints=[{"key": "gpu", "value": "a100", "effect": "NoSchedule"}])
    room = room_for(spec(tolerations=[toleration] if toleration else []), tainted, [])
    assert room.open == int(fits)


def test_a_cordoned_node_has_no_room_even_for_who_tolerates_its_taint() -> None:
    taints = [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]
    room = room_for(spec(tolerations=[{"operator": "Exists"}]), nodes(2, unschedulable=True, taints=taints), [])
    assert (room.open, room.places) == (0, 0)


def test_the_labels_of_the_node_selector() -> None:
    room = room_for(spec(nodeSelector={"disk": "ssd"}), [*nodes(2), builders.node("s", labels={"disk": "ssd"})], [])
    assert room.open == 1


def test_a_node_being_deleted_has_no_room_and_no_load() -> None:
    room = room_for(spec(), nodes(1, deleted=ago(5)), [])
    assert (room.open, room.places) == (0, 0)
    assert room.load["cpu"].allocatable == 0


def test_what_the_measured_load_does_not_know_yet() -> None:
    mine = {"labels": {"scavenger.dev/job": "sim"}, "node": "node-1", "phase": "Running", "cpu": "2"}
    pods = [
        builders.pod("before", started=ago(60), **mine),
        builders.pod("after", started=ago(5), **mine),
        builders.pod("not-yet", **mine),
        builders.pod("ordinary", node="node-1", phase="Running", started=ago(5)),
    ]
    measured = NOW - timedelta(seconds=10)
    assert room_for(spec(), nodes(1), pods, unseen_since=measured).unseen["cpu"] == 4000
    assert room_for(spec(), nodes(1), pods).unseen == {}


def test_nodes_with_levels_of_their_own_have_no_more_than_is_left_up_to_these() -> None:
    """Of 8 cpu and 32Gi; the second node has room by requests and no headroom, the third the other way round."""
    mine = {"labels": {"scavenger.dev/job": "sim"}, "phase": "Running"}
    pods = [
        builders.pod("full", node="node-3", cpu="8", phase="Running"),
        builders.pod("seen", node="node-1", cpu="1", started=ago(60), **mine),
        builders.pod("new", node="node-1", cpu="1", started=ago(5), **mine),
    ]
    left = {"node-1": (500, 900), "node-2": (100, 900), "node-3": (900, 900)}
    since = NOW - timedelta(seconds=10)
    room = room_for(spec(), nodes(3), pods, unseen_since=since, headroom=left)
    assert (room.places, room.nearest) == (3, None), "of 4 cpu that were left one is taken since"
    room = room_for(spec("4"), nodes(3), pods, unseen_since=since, headroom=left)
    assert room.places == 0
    assert room.nearest is not None
    assert (room.nearest.node, room.nearest.amounts["cpu"]) == ("node-1", 3000)
    assert room_for(spec("4"), nodes(3), pods, unseen_since=since).places == 3, "by requests alone"
    assert room_for(spec("4"), nodes(3), pods, headroom={"node-3": (0, 0)}).places == 3, "of others nothing is said"
    assert room_for(spec("7"), nodes(3)[2:], pods, headroom=left).nearest is None, "it is the requests that are missing"


@settings(max_examples=examples(30))
@given(st.lists(st.integers(0, 8), max_size=6), st.integers(1, 8))
def test_places_are_what_packing_finds(taken: list[int], asked: int) -> None:
    cluster = nodes(len(taken))
    pods = [
        builders.pod(f"p{i}", node=f"node-{i}", cpu=str(cpu), memory="0", phase="Running")
        for i, cpu in enumerate(taken, 1)
    ]
    room = room_for(spec(str(asked), "1Mi"), cluster, pods)
    assert room.places == sum((8 - cpu) // asked for cpu in taken)
    if taken:
        assert room.largest_free is not None
        assert room.largest_free.amounts["cpu"] == 1000 * (8 - min(taken))


# --- pools ---


def test_a_job_is_judged_by_the_pool_that_it_may_run_in() -> None:
    taints = [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]
    gpu = builders.node("g", taints=taints, allocatable={"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "4"})
    plain = builders.node("n", allocatable={"cpu": "8", "memory": "32Gi"})
    name = pool_of(gpu)
    one = PublishedLevels(
        LevelsState.FILLING,
        33.0,
        True,
        observed_at=NOW,
        period_seconds=30,
        resources={"cpu": ResourceLevels(50, 70, 80, 85)},
    )
    view = LevelsView.of(replace(one, admit=False, pools={name: one}).to_data(), NOW)
    on_gpus = msgspec.convert(
        {"resources": {"requests": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}}}, JobSpec
    )
    anywhere = spec(tolerations=[{"operator": "Exists"}])
    assert pool_for(spec(), [gpu, plain], view) == ""
    assert pool_for(on_gpus, [gpu, plain], view) == name
    assert pool_for(anywhere, [gpu, plain], view) == name, "the first that admits"
    assert pool_for(on_gpus, [plain], view) == "", "where no node has the device"
    beside = builders.node("f", taints=taints, allocatable={"cpu": "8", "nvidia.com/gpu": "4", "example.com/fuse": "1"})
    assert pool_for(on_gpus, [beside], view) == "", "another device makes another pool"
    ignoring = replace(one, admit=False, pools={name: one}, pool_ignores=frozenset({"example.com/fuse"}))
    assert pool_for(on_gpus, [beside], LevelsView.of(ignoring.to_data(), NOW)) == name, "unless it is ignored"
    assert [node.metadata.name for node in of_pool([gpu, plain], name, view)] == ["g"]
    assert [node.metadata.name for node in of_pool([gpu, plain], "", view)] == ["n"]
    room = room_for(on_gpus, [gpu, plain], [], counted=of_pool([gpu, plain], name, view))
    assert room.load["cpu"].allocatable == 8000
