"""A simulation that is stopped, dumped and resumed gives what it gives in one go."""

from __future__ import annotations

import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from scavenger_simulator.policy import Policy
from scavenger_simulator.result import MomentKind
from scavenger_simulator.scenario import Scenario
from scavenger_simulator.settings import Settings
from scavenger_simulator.simulation import Simulation, simulate

from tests.unit.simulator.builders import job, nodes, ordinary, scenario, trace

pytestmark = pytest.mark.slow

HOUR = 3600.0
SETTINGS = Settings().changed(starved_after=HOUR, full_wait_from=HOUR)


def busy(seed: int) -> Scenario:
    """Four hours in which jobs, gangs, tasks and regular pods come, and jobs have to go for pods and for the load."""
    rng = random.Random(seed)
    jobs = [
        job(
            f"job-{i}",
            at=rng.uniform(0, 2 * HOUR),
            cores=rng.choice([1, 2]),
            work=rng.uniform(600, 2 * HOUR),
            pods=rng.choice([1, 1, 2]),
            queue=rng.choice(["default", "other"]),
            checkpoint_every=rng.choice([None, 600.0]),
        )
        for i in range(40)
    ]
    jobs += [job(f"array-{i}", at=300.0, work=1200.0, array="array") for i in range(12)]
    waves = trace([rng.uniform(0.2, 3.0) for _ in range(48)])
    pods = [
        replace(
            ordinary(f"web-{i}", arrives=rng.uniform(0, 3 * HOUR), cores=rng.choice([2, 4, 6])),
            leaves=rng.uniform(3 * HOUR, 5 * HOUR),
            usage=waves,
            interactive=rng.random() < 0.3,
        )
        for i in range(12)
    ]
    return scenario(nodes=nodes(4), jobs=jobs, ordinary=pods, end=4 * HOUR, queues={"other": 2})


@pytest.mark.parametrize(
    ("policy", "seed"),
    [(Policy.OURS, 1), (Policy.OURS, 2), (Policy.RANDOM, 1), (Policy.NEWEST_ADMISSION, 1), (Policy.PLAIN, 1)],
)
def test_stopped_and_resumed_is_the_same_as_in_one_go(policy: Policy, seed: int) -> None:
    what = busy(seed)
    whole = simulate(what, SETTINGS, policy, seed)
    assert {moment.kind for moment in whole.moments} > {MomentKind.STARTED, MomentKind.COMPLETED}
    stopped = Simulation(what, SETTINGS, policy, seed)
    for at in (0.0, 1799.5, HOUR, 2.3 * HOUR, 4 * HOUR):
        stopped.run(at)
        stopped = Simulation.resume(stopped.dump())
    assert repr(stopped.result()) == repr(whole)


def test_one_state_is_resumed_as_often_as_one_likes() -> None:
    first = Simulation(replace(busy(3), end=2 * HOUR), SETTINGS, Policy.OURS, 3)
    first.run(HOUR)
    state = first.dump()
    results = [repr(Simulation.resume(state).result()) for _ in range(2)]
    assert results == [repr(first.result())] * 2


def test_another_process_goes_on_from_it(tmp_path: Path) -> None:
    first = Simulation(replace(busy(4), end=2 * HOUR), SETTINGS, Policy.OURS, 4)
    first.run(HOUR)
    path = tmp_path / "state"
    path.write_bytes(first.dump())
    code = (
        "import sys, pathlib; from scavenger_simulator.simulation import Simulation; "
        "print(Simulation.resume(pathlib.Path(sys.argv[1]).read_bytes()).result())"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=True, stdout=subprocess.PIPE, text=True)
    assert done.stdout.strip() == repr(first.result())


@pytest.mark.parametrize("state", [b"", b"state", b"\x80\x05N."])
def test_what_is_no_state_is_refused(state: bytes) -> None:
    with pytest.raises(ValueError, match="state"):
        Simulation.resume(state)


def test_the_oracle_has_no_state() -> None:
    with pytest.raises(ValueError, match="decides nothing"):
        Simulation(busy(1), SETTINGS, Policy.ORACLE, 1)
