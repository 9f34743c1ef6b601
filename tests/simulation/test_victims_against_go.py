"""Who goes for a pod, and when, in Python against the scheduler plugin itself, on a thousand random clusters."""

from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest
from scavenger_cluster.build import GO_SETTINGS, Go
from scavenger_cluster.errors import MissingRequirementError
from scavenger_simulator.scheduler import NodeOutlook, choose_node, wait_for
from scavenger_simulator.victims import Share

MODULE = Path(__file__).resolve().parents[2] / "services" / "scheduler"
CASES = 1000
LONGEST_WAIT, FULL_WAIT_FROM = 300, 18_000
"""Seconds: nonPreemptibleWait and fullWaitFrom."""
MIB = 1 << 20


def make_case(rng: random.Random) -> dict[str, Any]:
    """Some full nodes with jobs, gangs over several of them, some protected, some leaving; and a pod."""
    nodes: list[dict[str, Any]] = [
        {"name": f"node-{i}", "cpu": 1000 * rng.randint(4, 32), "memory": 1024 * MIB * rng.randint(8, 128), "pods": 40}
        for i in range(rng.randint(1, 5))
    ]
    free = {node["name"]: [node["cpu"], node["memory"]] for node in nodes}
    protected = rng.choice([0.0, 0.3])
    pods: list[dict[str, Any]] = []
    for number in range(rng.randint(1, 5 * len(nodes))):
        risk, safe = 10 ** rng.uniform(0, 6), rng.random() < protected
        started: dict[str, int] = {}  # members on different nodes at different times, or the choice may be a toss-up
        for member in range(rng.choice([1, 1, 1, 2, 3])):
            node = rng.choice(nodes)["name"]
            cpu, memory = 100 * rng.randint(1, 60), 64 * MIB * rng.randint(1, 200)
            if free[node][0] < cpu or free[node][1] < memory:
                continue
            free[node] = [free[node][0] - cpu, free[node][1] - memory]
            pods.append(
                {
                    "name": f"job-{number:02d}-{member}",
                    "job": f"job-{number:02d}",
                    "node": node,
                    "cpu": cpu,
                    "memory": memory,
                    "risk": risk,
                    "protected": safe,
                    "leaving": rng.random() < 0.03,
                    "runningSeconds": started.setdefault(node, rng.randint(60, 90_000)),
                }
            )
    most = max(cpu for cpu, _ in free.values())
    return {
        "nodes": nodes,
        "pods": pods,
        "cpu": most + 100 * rng.randint(1, 100),
        "memory": 64 * MIB * rng.randint(1, 400),
        "interactive": rng.random() < 0.5,
        "waited": rng.choice([0, rng.randint(1, LONGEST_WAIT - 1)]),
    }


def answer(case: dict[str, Any]) -> dict[str, Any]:
    """Where room is made, and by the end of which pods that are not leaving already."""
    nodes = list(enumerate(case["nodes"]))
    found = choose_node(_outlook(case, index, node, protected_too=case["interactive"]) for index, node in nodes)
    if found is None and not case["interactive"]:
        found = choose_node(_outlook(case, index, node, protected_too=True) for index, node in nodes)
        unsaved = sum(share.seconds for share in found.newly_broken) if found else 0.0
        if case["waited"] < wait_for(unsaved, case["cpu"] / 1000, LONGEST_WAIT, FULL_WAIT_FROM):
            found = None
    if found is None:
        return {"node": "", "victims": []}
    leaving = {pod["name"] for pod in case["pods"] if pod["leaving"]}
    return {"node": case["nodes"][found.index]["name"], "victims": sorted(set(found.pods) - leaving)}


def _outlook(case: dict[str, Any], index: int, node: dict[str, Any], *, protected_too: bool) -> NodeOutlook:
    here = [pod for pod in case["pods"] if pod["node"] == node["name"]]
    spare = tuple(
        whole - sum(pod[name] for pod in here) - case[name]
        for name, whole in (("cpu", node["cpu"]), ("memory", node["memory"]))
    )
    lost = {pod["job"] for pod in case["pods"] if pod["leaving"]}
    shares = []
    for job in dict.fromkeys(pod["job"] for pod in here):
        mine = [pod for pod in here if pod["job"] == job]
        if mine[0]["protected"] and job not in lost and not protected_too:
            continue
        staying, going = [pod for pod in mine if not pod["leaving"]], [pod for pod in mine if pod["leaving"]]
        pods = [((pod["cpu"], pod["memory"], 1), pod["name"]) for pod in [*staying, *going]]
        started = -float(mine[0]["runningSeconds"])
        risk = 0.0 if job in lost else mine[0]["risk"]
        shares.append(Share(job, risk, job in lost, mine[0]["protected"], pods, len(staying), started))
    free = (spare[0], spare[1], node["pods"] - len(here) - 1)
    return NodeOutlook(index, shares, (max(0, -free[0]), max(0, -free[1]), max(0, -free[2])), free)


@pytest.mark.timeout(600)  # Go may have to compile the scheduler first
def test_the_plugin_chooses_the_same_victims(tmp_path: Path) -> None:
    try:
        go = Go.find()
    except MissingRequirementError as error:
        pytest.skip(str(error))
    rng = random.Random(16)
    cases = [make_case(rng) for _ in range(CASES)]
    asked, told = tmp_path / "cases.json", tmp_path / "answers.json"
    asked.write_text(json.dumps(cases))
    done = subprocess.run(
        [go.program, "test", "-vet=off", "-count=1", "-run=^TestCasesOfSimulator$", "./pkg/preemption"],
        cwd=MODULE,
        env={**os.environ, **GO_SETTINGS, "SCAVENGER_CASES": str(asked), "SCAVENGER_ANSWERS": str(told)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    answers = json.loads(told.read_text())
    assert len(answers) == CASES
    assert sum(bool(one["victims"]) for one in answers) > CASES / 2
    for number, (case, expected) in enumerate(zip(cases, answers, strict=True)):
        assert answer(case) == expected, f"case {number} of seed 16"
    assert sum(_takes_protected(case, one) for case, one in zip(cases, answers, strict=True)) > CASES / 100


def _takes_protected(case: dict[str, Any], found: dict[str, Any]) -> bool:
    """Whether a pod that is not interactive takes protected jobs, as it has waited long enough for these."""
    safe = {pod["name"] for pod in case["pods"] if pod["protected"]}
    return not case["interactive"] and not safe.isdisjoint(found["victims"])
