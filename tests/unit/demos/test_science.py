"""What the demo of the study decides about capacity."""

from __future__ import annotations

import pytest
import science
from scavenger_api.quantity import parse_quantity


@pytest.mark.parametrize("free", [2000.0, 1900.0, 15_900.0])
def test_regular_pods_leave_capacity_for_a_job_of_one_core_and_for_none_of_two(free: float) -> None:
    asked = science.beside({"node-1": free})["node-1"]
    pod = science.regular_pod("node-1", asked)
    (container,) = pod["spec"]["containers"]
    left = free - 1000 * float(parse_quantity(container["resources"]["requests"]["cpu"]))
    assert 1000 < left < 1000 * science.CORES


def test_no_pod_is_made_where_too_little_is_free_already() -> None:
    assert science.beside({"node-1": 1500.0, "node-2": 900.0}) == {}
