"""What holds of queues over time: shares converge, what was lent comes back, and nobody is thrown back and forth."""

from __future__ import annotations

import random
from itertools import combinations, pairwise

import pytest
from scavenger_admitter.core.admission.running import Gang
from scavenger_admitter.core.admission.shares import Shares
from scavenger_admitter.core.admission.snapshot import Candidate, Snapshot
from scavenger_api.reasons import WaitReason

from tests.unit.effort import examples

from .simulation import Simulation

HISTORIES = examples(1000)
TOO_LARGE = (WaitReason.LARGER_THAN_ANY_NODE, WaitReason.LARGER_THAN_CLUSTER)


def cluster(nodes: int, cores: int) -> dict[str, int]:
    return {f"n{i:03}": cores for i in range(nodes)}


def test_three_queues_under_constant_demand_converge_to_their_weights() -> None:
    """5:3:2 on 100 cores, each queue with more jobs than it can run, the whole cluster lent to one at first."""
    weights = {"a": 5, "b": 3, "c": 2}
    simulation = Simulation(cluster(10, 10), weights)
    rng = random.Random(1)
    number = 0
    for queue in ("c", "b", "a"):
        for _ in range(130):
            number += 1
            simulation.submit(f"{queue}{number}", queue, seconds=rng.uniform(200, 2000))
        simulation.settle()
        simulation.pass_time(100)
    for _ in range(12):
        simulation.pass_time(100)
        held = {queue: simulation.cores(queue) for queue in weights}
        for queue, weight in weights.items():
            number += 1
            while sum(job.queue == queue for job in simulation.waiting.values()) < 20:
                number += 1
                simulation.submit(f"{queue}{number}", queue, seconds=rng.uniform(200, 2000))
            assert held[queue] == pytest.approx(weight * 10, rel=0.05)


def test_an_idle_queues_share_is_lent_at_once_and_returned_within_one_grace_period() -> None:
    simulation = Simulation(cluster(10, 10), {"a": 1, "b": 1}, grace=30)
    for i in range(150):
        simulation.submit(f"a{i}", "a")
    simulation.settle()
    assert simulation.cores("a") == 100, "all of it, in one cycle"
    simulation.pass_time(1000)
    for i in range(80):
        simulation.submit(f"b{i}", "b")
    simulation.settle()
    assert sum(run.leaves is not None for run in simulation.runs.values()) == 50
    simulation.pass_time(30)
    assert (simulation.cores("a"), simulation.cores("b")) == (50, 50)
    simulation.pass_time(3000)
    assert (simulation.cores("a"), simulation.cores("b")) == (50, 50)
    assert sum(map(len, simulation.preempted.values())) == 50, "no more than were needed"


def test_a_gang_of_16_is_served_among_queues_of_small_jobs() -> None:
    """Each pod of the gang needs half a node, and there is never a free core."""
    simulation = Simulation(cluster(16, 4), {"small": 1, "tiny": 1, "gangs": 2}, grace=5)
    rng = random.Random(2)
    for i in range(120):
        simulation.submit(f"small{i}", "small", seconds=rng.uniform(50, 100))
        simulation.submit(f"tiny{i}", "tiny", seconds=rng.uniform(50, 100))
    simulation.settle()
    simulation.pass_time(60)
    simulation.submit("gang", "gangs", cpu=2, pods=16, seconds=100)
    plan = simulation.settle()
    assert plan.held["gang"].reason is WaitReason.MAKING_ROOM
    simulation.pass_time(5)
    assert "gang" in simulation.runs
    simulation.pass_time(100)
    assert simulation.done["gangs"] == 1
    assert not simulation.preempted.get("gang")
    assert len(simulation.waiting) > 50, "the others would have had use for its room all the time"


def history(seed: int) -> int:
    """One random history; checks it as it goes, and returns how many jobs were preempted."""
    rng = random.Random(seed)
    weights = {name: rng.randint(1, 5) for name in "abc"[: rng.choice((2, 3, 3))]}
    simulation = Simulation(
        {f"n{i}": rng.choice((2, 3, 4)) for i in range(rng.randint(2, 4))},
        weights,
        level=rng.choice((75, 100, 100)),
        grace=rng.choice((0.5, 10)),
        period=rng.choice((60, 600)),
        gangs=seed % 3 != 0,
    )
    for number in range(rng.randint(3, 6)):
        queue = rng.choice(list(weights)[: 1 + number // 2])  # they wake up one by one
        for twin in range(rng.choice((1, 1, 2, 3))):
            pods = rng.choice((1, 1, 1, 2, 3))
            simulation.submit(
                f"{queue}{number}.{twin}", queue, rng.choice((1, 1, 2)), pods, rng.choice((20, 300, 10**6))
            )
        nobody_is_kept_from_its_share(simulation)
        simulation.pass_time(rng.choice((1, 5, 60)))
    assert simulation.gangs or not any(simulation.pods[name] > 1 for name in simulation.preempted)
    for moments in simulation.preempted.values():
        assert all(later - earlier >= simulation.period for earlier, later in pairwise(moments))
    return sum(map(len, simulation.preempted.values()))


def nobody_is_kept_from_its_share(simulation: Simulation) -> None:
    """No queue is below its share while a job of it waits that would fit within it, if jobs of queues above theirs left
    that may be asked to. Every set of such jobs is tried. Looked at when nobody leaves: nothing is promised then."""
    plan = simulation.settle()
    if any(run.leaves is not None for run in simulation.runs.values()):
        simulation.pass_time(simulation.grace)
        plan = simulation.settle()
    if any(run.leaves is not None for run in simulation.runs.values()):
        return
    seen = simulation.snapshot()
    # A job larger than the cluster is no demand.
    line = [job for job in simulation.waiting.values() if plan.held[job.key].reason not in TOO_LARGE]
    shares = Shares(
        seen, [q for q in simulation.weights if seen.queues[q].allocated or any(j.queue == q for j in line)]
    )
    donors = [gang for gang in seen.gangs if shares.over(gang.job.queue) and may_be_asked(simulation, gang)]
    for job in {(job.queue, job.shape, job.parallelism): job for job in line}.values():
        if shares.within(job.queue, job.shape, job.parallelism):
            for size in range(len(donors) + 1):
                for victims in combinations(donors, size):
                    assert not frees_enough(seen, shares, job, victims), (job.key, [gang.job.key for gang in victims])


def may_be_asked(simulation: Simulation, gang: Gang) -> bool:
    asked_lately = simulation.now - simulation.interrupted.get(gang.job.key, -1e9) < simulation.period
    return not asked_lately and (simulation.gangs or gang.job.parallelism == 1)


def frees_enough(seen: Snapshot, shares: Shares, job: Candidate, victims: tuple[Gang, ...]) -> bool:
    """Whether a job fits once these have left, room on the nodes and load alike, and no donor is below its share."""
    free = {name: node.allocatable["cpu"] - node.used["cpu"] for name, node in seen.nodes.items()}
    taken: dict[str, int] = {}
    for gang in victims:
        cpu = dict(gang.requests)["cpu"]
        taken[gang.job.queue] = taken.get(gang.job.queue, 0) + cpu * len(gang.nodes)
        for node in gang.nodes:
            free[node] += cpu
    if not all(shares.keeps(queue, {"cpu": cpu}) for queue, cpu in taken.items()):
        return False
    needs = job.shape.request("cpu")
    limit = seen.limits[0].plus(needs * job.parallelism - sum(taken.values()))
    return limit.under() and sum(cpu // needs for cpu in free.values() if cpu > 0) >= job.parallelism


def test_random_histories() -> None:
    preempted = [history(seed) for seed in range(HISTORIES)]
    assert sum(preempted) > HISTORIES / 4, "otherwise nothing was shown"
