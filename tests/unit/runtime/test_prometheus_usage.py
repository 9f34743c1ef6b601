"""What pods use, as Prometheus says."""

from __future__ import annotations

from typing import Any

import pytest
from scavenger_runtime.prometheus import PrometheusError, Vector
from scavenger_runtime.prometheus_usage import DeviceUsage, PrometheusUsage, UsageQueries, parse_devices
from scavenger_runtime.usage import Life, Sample, UsageError
from scavenger_testing.clock import START

GPU = "nvidia.com/gpu"
P, Q = {"namespace": "a", "pod": "p"}, {"namespace": "a", "pod": "q"}


class _Prometheus:
    """Answers by query."""

    def __init__(self, answers: dict[str, Vector]) -> None:
        self.answers = answers

    async def ask_all(self, queries: list[str]) -> list[Vector]:
        try:
            return [self.answers[query] for query in queries]
        except KeyError as error:
            raise PrometheusError("it is away") from error


class _Main:
    name = "main"

    async def measure(self) -> list[Sample]:
        return [Sample("a/p", 1.0, 100.0, 30.0), Sample("a/q", 2.0, 100.0, 30.0)]


def source(answers: dict[str, Vector]) -> PrometheusUsage:
    client: Any = _Prometheus(answers)
    nodes = {"a/p": "n1", "a/q": "n2"}
    return PrometheusUsage(client, UsageQueries("cpu", "memory", "taken", 60.0), lambda pod: nodes.get(pod, ""))


async def test_a_figure_is_as_old_as_those_of_its_node() -> None:
    uid = {**P, "uid": "0f3e_1"}
    found = await source(
        {
            "cpu": [(uid, 0.5), (Q, 1.0), ({"namespace": "web", "pod": "regular"}, 3.0)],
            "memory": [(uid, 7.0), (Q, 8.0)],
            "taken": [({"node": "n1"}, 500.0)],
        }
    ).measure()
    assert found == [Sample("a/p", 0.5, 500.0, 60.0, 7.0, uid="0f3e-1")], "nobody knows when q was measured"
    assert found[0].is_of(Life("0f3e-1", 0), START)
    assert not found[0].is_of(Life("another", 0), START)
    with pytest.raises(UsageError, match="away"):
        await source({}).measure()


async def test_devices_are_measured_beside_cpu_and_memory_and_missed_alone() -> None:
    client: Any = _Prometheus({"gpu": [(P, 0.25)]})
    usage = DeviceUsage(_Main(), client, {GPU: "gpu"})
    assert [one.devices for one in await usage.measure()] == [{GPU: 0.25}, {}]
    client.answers = {}
    assert await usage.measure() == await _Main().measure()


@pytest.mark.parametrize("text", ["[]", "{", '{"gpu": "q"}', '{"nvidia.com/gpu": ""}', '{"nvidia.com/gpu": 1}'])
def test_metrics_of_devices_that_cannot_be(text: str) -> None:
    assert parse_devices('{"nvidia.com/gpu": "q"}') == {GPU: "q"}
    assert parse_devices("") == {}
    with pytest.raises(ValueError, match=r"nvidia\.com/gpu"):
        parse_devices(text)
