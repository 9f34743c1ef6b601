"""The past of a cluster from a Prometheus that answers over HTTP as a real one does."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scavenger_simulator.inputs.asking import over_http, through_api_server
from scavenger_simulator.inputs.catalog import build, named
from scavenger_simulator.inputs.nodes import GIB
from scavenger_simulator.inputs.prometheus import RANGE, Range, parse_matrix, read_prometheus
from scavenger_simulator.inputs.reading import InputError
from scavenger_simulator.scenario import NodeSpec
from scavenger_testing.scripted import Answer, Request, Server

START = 1_700_000_000.0
HOUR = Range(START, START + 3600.0)


def series(labels: dict[str, str], values: dict[int, float | str]) -> dict[str, Any]:
    return {"metric": labels, "values": [[START + 300 * step, str(value)] for step, value in values.items()]}


def of_pod(name: str, values: dict[int, float | str]) -> dict[str, Any]:
    return series({"namespace": "shop", "pod": name}, values)


ALL = range(12)
RECORDED = {
    'kube_node_status_allocatable{resource="cpu"}': [
        series({"node": "big"}, dict.fromkeys(ALL, 16)),
        series({"node": "small"}, dict.fromkeys(ALL, 3.92)),
        series({"node": "removed"}, dict.fromkeys(range(6), 8)),
    ],
    'kube_node_status_allocatable{resource="memory"}': [
        series({"node": "big"}, dict.fromkeys(ALL, 64 * GIB)),
        series({"node": "small"}, dict.fromkeys(ALL, 8 * GIB)),
        series({"node": "removed"}, dict.fromkeys(range(6), 8 * GIB)),
    ],
    'kube_pod_container_resource_requests{resource="cpu"}': [
        of_pod("web", dict.fromkeys(ALL, 0.5)),
        of_pod("cron", dict.fromkeys(range(3, 6), 2)),
    ],
    'kube_pod_container_resource_requests{resource="memory"}': [
        of_pod("web", dict.fromkeys(ALL, GIB)),
        of_pod("cron", dict.fromkeys(range(3, 6), GIB // 2)),
    ],
    "container_cpu_usage_seconds_total": [
        of_pod("web", {0: 0.1, 1: 0.2, 2: "NaN", 4: 0.4, 11: 0.3}),
        of_pod("cron", {4: 1.5}),
        of_pod("best-effort", {8: 0.05, 9: 0.05}),
    ],
    "container_memory_working_set_bytes": [of_pod("web", dict.fromkeys(ALL, GIB // 4))],
}


def recorded(request: Request) -> Answer:
    """What a Prometheus with these series says to a query, but for times that were not asked for."""
    query = request.query["query"]
    found = next(rows for metric, rows in RECORDED.items() if metric in query)
    first, last = float(request.query["start"]), float(request.query["end"])
    rows = [row | {"values": [pair for pair in row["values"] if first <= pair[0] <= last]} for row in found]
    return Answer(body={"status": "success", "data": {"resultType": "matrix", "result": rows}})


def test_the_past_of_a_cluster_is_read(server: Server) -> None:
    server.on(RANGE, recorded)
    told: list[str] = []
    history = read_prometheus(over_http(server.url), HOUR, server.url, told.append)
    assert history.nodes == (NodeSpec("big", 16_000, 64 * GIB), NodeSpec("small", 3920, 8 * GIB)), "those of now"
    best_effort, cron, web = history.ordinary
    assert (web.name, web.arrives, web.leaves) == ("shop/web", 0, math.inf)
    assert (web.cpu_request_milli, web.memory_request_bytes) == (500, GIB)
    assert [web.usage.at(300 * step)[0] for step in ALL] == [100, 200, 200, 200, *[400] * 7, 300], (
        "gaps go on as before"
    )
    assert web.usage.at(0)[1] == GIB // 4
    assert (cron.arrives, cron.leaves, cron.cpu_request_milli) == (900, 1800, 2000)
    assert cron.usage.at(900)[0] == 1500
    assert (best_effort.arrives, best_effort.leaves, best_effort.cpu_request_milli) == (2400, 3000, 0)
    assert len(told) == len(server.asked(RANGE)) == 6
    assert {request.query["step"] for request in server.asked(RANGE)} == {"300"}


def test_a_long_range_is_asked_for_by_days(server: Server) -> None:
    server.on(RANGE, recorded)
    history = read_prometheus(over_http(server.url), Range(START, START + 3 * 86_400.0), server.url)
    asked = [(float(r.query["start"]) - START, float(r.query["end"]) - START) for r in server.asked(RANGE)]
    assert asked[:3] == [(0, 86_100), (86_400, 172_500), (172_800, 258_900)]
    assert {pod.name for pod in history.ordinary} == {"shop/web", "shop/cron", "shop/best-effort"}
    assert max(pod.leaves for pod in history.ordinary) == 3600, "nobody was seen after the first hour"


def test_it_becomes_a_scenario_with_synthetic_demand(server: Server) -> None:
    server.on(RANGE, recorded)
    sources = replace(named("prometheus"), length=3600.0, demand_share=0.5)
    scenario = build(sources, lambda: read_prometheus(over_http(server.url), HOUR, server.url))
    assert {node.name for node in scenario.nodes} == {"big", "small"}
    assert scenario.jobs
    assert all(job.submitted < 3600 for job in scenario.jobs)


def test_the_token_is_sent(server: Server, tmp_path: Path) -> None:
    server.on(RANGE, recorded)
    token = tmp_path / "token"
    token.write_text("secret\n")
    read_prometheus(over_http(server.url, token_file=str(token)), HOUR, server.url)
    assert {request.headers["authorization"] for request in server.asked(RANGE)} == {"Bearer secret"}


def test_it_is_asked_through_the_api_server(server: Server, tmp_path: Path) -> None:
    path = f"/api/v1/namespaces/monitoring/services/prometheus:9090/proxy{RANGE}"
    server.on(path, recorded)
    config = tmp_path / "config"
    config.write_text(
        f"""{{"current-context": "a", "clusters": [{{"name": "a", "cluster": {{"server": "{server.url}"}}}}],
        "contexts": [{{"name": "a", "context": {{"cluster": "a", "user": "a"}}}}],
        "users": [{{"name": "a", "user": {{"token": "t"}}}}]}}"""
    )
    history = read_prometheus(through_api_server("monitoring/prometheus:9090", path=str(config)), HOUR, "prometheus")
    assert len(history.ordinary) == 3
    with pytest.raises(InputError) as caught:
        read_prometheus(through_api_server("monitoring/gone:9090", path=str(config)), HOUR, "prometheus")
    assert "services/proxy" in caught.value.remedy
    with pytest.raises(InputError) as caught:
        through_api_server("prometheus")
    assert "NAMESPACE/SERVICE:PORT" in caught.value.remedy


@pytest.mark.parametrize(
    ("answer", "problem", "remedy"),
    [
        (Answer(422, {"status": "error", "error": "too many samples"}), "too many samples", "shorter range"),
        (Answer(401, None), "status 401", "--prometheus-token-file"),
        (Answer(404, None), "status 404", "without /api"),
        (
            Answer(200, {"status": "success", "data": {"resultType": "vector", "result": []}}),
            "a vector",
            "without /api",
        ),
        (Answer(200, [1]), "not an answer", "without /api"),
        (
            Answer(200, {"status": "success", "data": {"resultType": "matrix", "result": []}}),
            "knows no nodes",
            "kube-state",
        ),
    ],
)
def test_an_answer_that_is_none_is_refused_with_a_remedy(
    server: Server, answer: Answer, problem: str, remedy: str
) -> None:
    server.on(RANGE, answer)
    with pytest.raises(InputError, match=problem) as caught:
        read_prometheus(over_http(server.url), HOUR, server.url)
    assert caught.value.source == server.url
    assert remedy in caught.value.remedy


def test_nodes_alone_are_not_enough(server: Server) -> None:
    def no_use(request: Request) -> Answer:
        empty = Answer(body={"status": "success", "data": {"resultType": "matrix", "result": []}})
        return recorded(request) if "kube_node" in request.query["query"] else empty

    server.on(RANGE, no_use)
    with pytest.raises(InputError, match="no CPU use") as caught:
        read_prometheus(over_http(server.url), HOUR, server.url)
    assert "cAdvisor" in caught.value.remedy


def test_an_address_where_nobody_answers_is_named(server: Server) -> None:
    url = server.url
    server.close()
    with pytest.raises(InputError, match="cannot be reached") as caught:
        read_prometheus(over_http(url), HOUR, url)
    assert "--prometheus-service" in caught.value.remedy
    for bad in ("prometheus:9090", ""):
        with pytest.raises(InputError, match="no address"):
            over_http(bad)
    with pytest.raises(InputError, match="a file cannot be read"):
        over_http(url, token_file="/nonexistent/token")


def test_what_is_not_finite_is_left_out() -> None:
    body = b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1,"+Inf"],[2,"3"]]}]}}'
    assert parse_matrix(body, "x") == [({}, [(2, 3.0)])]


def test_an_empty_range_is_refused() -> None:
    with pytest.raises(InputError, match="empty"):
        Range(5, 5)
