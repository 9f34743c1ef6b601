"""What is kept of pods: what decisions read of them, and little more of ordinary ones."""

from __future__ import annotations

import gc
import json
import tracemalloc
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scavenger_admitter.core.admission.view.object_facts import pod_facts
from scavenger_admitter.core.admission.view.state import ClusterState
from scavenger_admitter.facts import signals_pressure, waited_seconds
from scavenger_admitter.ordinary_waits import OrdinaryWaits
from scavenger_api.names import LABEL_JOB
from scavenger_kube.decode import StructDecoder
from scavenger_kube.kinds import Pod
from scavenger_runtime.cache import Cache
from scavenger_runtime.kept_pods import without_details

PODS = 1_000
NOW = datetime(2026, 1, 1, 0, 10, tzinfo=UTC)


def pod(number: int = 0, *, node: str = "n1", **more: Any) -> dict[str, Any]:
    """An ordinary pod with all that such pods have."""
    name = f"web-{number:06}-7c9d8b6f5d-x{number:04}"
    status: dict[str, Any] = {
        "phase": "Running" if node else "Pending",
        "startTime": "2026-01-01T00:00:00Z",
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
            for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
        ],
        "containerStatuses": [
            {"name": f"c{i}", "ready": True, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
            for i in range(3)
        ],
    }
    return {
        "metadata": {
            "name": name,
            "namespace": f"team-{number % 50}",
            "uid": f"{number:08x}-0000-4000-8000-{number:012x}",
            "resourceVersion": str(10_000_000 + number),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {f"app.kubernetes.io/label-{i}": f"{name}-{i}" for i in range(6)},
            "annotations": {f"example.com/annotation-{i}": f"{name} {i}" for i in range(4)},
            "ownerReferences": [{"kind": "ReplicaSet", "name": name, "uid": name, "controller": True}],
            **more.get("metadata", {}),
        },
        "spec": {
            "nodeName": node,
            "priority": 1_000,
            "containers": [
                {"name": f"c{i}", "image": f"registry.example.com/{name}:1", "resources": {"requests": {"cpu": "250m"}}}
                for i in range(3)
            ],
            "tolerations": [{"key": f"node.kubernetes.io/{i}", "operator": "Exists"} for i in range(2)],
            "nodeSelector": {"zone": "a"},
            **more.get("spec", {}),
        },
        "status": {**status, **more.get("status", {})},
    }


UNSCHEDULABLE = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.",
}
SIDECAR = {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": 1, "memory": "1Gi"}}}
LARGE = {"name": "i", "resources": {"requests": {"memory": "8Gi", "nvidia.com/gpu": "2", "cpu": 0.5}}}


@pytest.mark.parametrize(
    "each",
    [
        pod(),
        pod(node=""),
        pod(node="", status={"nominatedNodeName": "n2"}),
        pod(node="", status={"conditions": [UNSCHEDULABLE]}),
        pod(node="", status={"phase": "Failed"}),
        pod(status={"phase": "Succeeded"}),
        pod(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        pod(node="", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        pod(spec={"initContainers": [SIDECAR, LARGE], "overhead": {"memory": "120Mi", "cpu": "7m"}}),
        pod(node="", spec={"resources": {"requests": {"cpu": "3"}}}),
        pod(spec={"containers": []}),
    ],
)
def test_decisions_see_the_same(each: dict[str, Any]) -> None:
    full = msgspec.convert(each, Pod)
    kept = without_details(full)
    assert pod_facts(kept) == pod_facts(full)
    assert (kept.metadata.key, kept.metadata.uid) == (full.metadata.key, full.metadata.uid)
    assert kept.metadata.resource_version == full.metadata.resource_version
    assert kept.metadata.labels == {}


FOUND = {"type": "PodScheduled", "status": "False", "reason": "SchedulerError", "message": "timed out"}
GATED = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
STATES = st.builds(
    lambda node, spec, status, deleted: pod(
        node=node,
        spec=spec,
        status=status,
        metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleted else {},
    ),
    st.sampled_from(["", "n1"]),
    st.fixed_dictionaries(
        {},
        optional={
            "initContainers": st.sampled_from([[SIDECAR], [SIDECAR, LARGE]]),
            "overhead": st.just({"memory": "120Mi", "cpu": "7m"}),
            "resources": st.just({"requests": {"cpu": "3"}}),
            "containers": st.just([]),
            "priority": st.sampled_from([-5, 7]),
            "tolerations": st.just([]),
            "nodeSelector": st.just({}),
        },
    ),
    st.fixed_dictionaries(
        {},
        optional={
            "phase": st.sampled_from(["Pending", "Running", "Succeeded", "Failed"]),
            "nominatedNodeName": st.just("n2"),
            "conditions": st.sampled_from([[], [UNSCHEDULABLE], [FOUND], [GATED]]),
        },
    ),
    st.booleans(),
)


@given(states=st.lists(STATES, min_size=1, max_size=4))
def test_all_that_is_read_of_an_ordinary_pod_is_kept_through_its_life(states: list[dict[str, Any]]) -> None:
    """What a handler reads may be of the version before, too."""
    full = [msgspec.convert(each, Pod) for each in states]
    kept = [without_details(each) for each in full]
    waits, of_kept = OrdinaryWaits(), OrdinaryWaits()
    for old, new, old_kept, new_kept in zip([None, *full], full, [None, *kept], kept, strict=False):
        assert pod_facts(new_kept) == pod_facts(new)
        assert signals_pressure(new_kept) == signals_pressure(new)
        if old is None or not old.ended:  # one that has ended gets no node
            assert waited_seconds(old_kept, new_kept, NOW) == waited_seconds(old, new, NOW)
        waits.saw(new.metadata.key, new, NOW)
        of_kept.saw(new.metadata.key, new_kept, NOW)
        for node in ("n1", "n2"):
            assert of_kept.wanted("team-0", node, NOW) == waits.wanted("team-0", node, NOW)


def test_scavenger_pods_are_kept_as_they_are() -> None:
    ours = msgspec.convert(pod(metadata={"labels": {LABEL_JOB: "job"}}), Pod)
    assert without_details(ours) is ours


def test_an_ordinary_pod_takes_less_than_two_and_a_half_kilobytes() -> None:
    decoder, state = StructDecoder(Pod), ClusterState()
    cache: Cache[Pod] = Cache({})
    items = [pod(number, node=f"node-{number % 100}") for number in range(PODS)]
    body = json.dumps({"metadata": {"resourceVersion": "1"}, "items": items}).encode()
    del items
    gc.collect()
    tracemalloc.start()
    try:
        for each in decoder.page(body).items:
            kept = without_details(each)
            cache.put(kept)
            state.apply_pod(kept)
        del each, kept
        gc.collect()
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(cache) == PODS
    assert used / PODS < 2_500
