"""Which shapes are equal, and what a pod of one takes."""

from __future__ import annotations

import msgspec
from scavenger_admitter.core.admission.shape import Shape, requests_of
from scavenger_kube.kinds import Pod, Toleration


def test_every_pod_takes_a_slot_and_zeros_are_absent() -> None:
    container = {"name": "c", "resources": {"requests": {"cpu": "1", "memory": "0"}}}
    pod = msgspec.convert({"metadata": {"name": "p"}, "spec": {"containers": [container]}}, Pod)
    assert requests_of(pod) == (("cpu", 1000), ("pods", 1))


def test_equal_shapes_are_equal_in_whatever_order_they_were_written() -> None:
    tolerations = (Toleration(key="a"), Toleration(key="b", toleration_seconds=300))
    one = Shape.of({"cpu": 1, "memory": 2, "gpu": 0}, {"x": "1", "y": "2"}, tolerations)
    other = Shape.of({"memory": 2, "cpu": 1}, {"y": "2", "x": "1"}, (Toleration(key="b"), Toleration(key="a")))
    assert one == other
    assert hash(one) == hash(other)
    assert one.request("cpu") == 1
    assert one.request("pods") == 1
    assert one.request("gpu") == 0
