"""From the database to the result: GROMACS on real kubelets, through a tuner, whatever is killed on the way.

Pods are deleted and evicted at random steps of their programs (the seed is the test's), the tuner is killed with
SIGKILL twice, and PostgreSQL is restarted as after a crash. What happens when follows from how far the programs are,
and from nothing else: on a slow machine all of it happens later.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from scavenger_cluster import MissingRequirementError, stack
from scavenger_testing.interruptions import Interruptions
from scavenger_testing.laboratory import Laboratory, laboratory
from scavenger_testing.world import World
from scavenger_tuner.core.objects import job_name
from scavenger_tuner.core.trial import Configuration
from scavenger_tuner.database.tables import AttemptRow, ConfigurationRow

from tests.integration.tuner.database import Database

pytestmark = [pytest.mark.real, pytest.mark.cpu, pytest.mark.long]

SEED = 18
STEPS = 16_000
MOMENTS = (500, 5_000)
"""Between which steps a program is interrupted: enough are left then that it is not done before it is told to stop,
also where a disturbance takes seconds in between."""
INTERRUPTIONS = 2
"""Of each configuration that is interrupted."""
WATER = [Configuration("spce", 216, 298.15, seed, STEPS, 2.0) for seed in (1, 2)]
WILD = Configuration("spce", 216, 298.15, 3, 1_000, 10.0)
"""Its time step is too long: water flies apart."""
TIMEOUT = 480.0


def job_of(row: ConfigurationRow, attempt: AttemptRow) -> str:
    """The name of an attempt's job and folder."""
    return job_name("tuner", row.id, row.key.hex, attempt.number)


@pytest.fixture
def place(world: World, tmp_path: Path) -> Iterator[Laboratory]:
    stack.build_gromacs_image(world.cluster)
    settings = {"image": stack.GROMACS_IMAGE, "max-cores": "1", "grace-seconds": "60"}
    with ExitStack() as stays:
        try:
            made = stays.enter_context(laboratory(world, tmp_path, settings))
        except MissingRequirementError as error:
            pytest.skip(str(error))
        yield made


@pytest.mark.timeout(900)
def test_results_are_right_whatever_is_killed(place: Laboratory) -> None:
    world, work, postgres, tuners = place.world, place.work, place.postgres, place.tuners
    database = Database(postgres.url)
    database.ask_for([*WATER, WILD])
    interruptions = Interruptions(world, work, seed=SEED, between=MOMENTS, times=INTERRUPTIONS)

    def succeed(old: str, new: str) -> None:
        tuners.kill(old)
        tuners.start(new)

    # Each when so many interruptions have been, and the tuner of the time has taken what the one before has left.
    disturbances: list[tuple[int, str, Callable[[], None]]] = [
        (1, "a", lambda: succeed("a", "b")),
        (2, "b", postgres.restart),
        (3, "b", lambda: succeed("b", "c")),
    ]
    tuners.start("a")

    def over() -> bool:
        rows = database.rows()
        for row, attempts in rows:
            if row.seed != WILD.seed and attempts and attempts[-1].ended_at is None:
                interruptions.look(str(row.seed), job_of(row, attempts[-1]))
        if disturbances and interruptions.count >= disturbances[0][0] and tuners.has_claimed(disturbances[0][1]):
            disturbances.pop(0)[2]()
        return not disturbances and all(row.finished_at is not None for row, _ in rows)

    world.wait("all at its end", over, TIMEOUT)
    world.wait("the last tuner is up", lambda: tuners.at_work("c"))
    assert tuners.stop() == [0], tuners.logs()

    rows = database.rows()
    assert [row.state for row, _ in rows] == ["Completed"] * (len(WATER) + 1), tuners.logs()
    assert all(row.claimed_by is None for row, _ in rows)
    made = {job_of(row, attempt) for row, attempts in rows for attempt in attempts}
    assert {job["metadata"]["name"] for job in world.objects("scavengerjobs")} == made, "nothing twice"
    assert interruptions.count == INTERRUPTIONS * len(WATER)
    for row, attempts in rows[: len(WATER)]:
        _check_interrupted(attempts, left(work, row, attempts))
    _check_tamed(rows[-1][1], left(work, *rows[-1]))


def left(work: Path, row: ConfigurationRow, attempts: Sequence[AttemptRow]) -> dict[str, Any]:
    """What the program of the last attempt has written."""
    found: dict[str, Any] = json.loads((work / job_of(row, attempts[-1]) / "result.json").read_text())
    return found


def _check_interrupted(attempts: Sequence[AttemptRow], written: dict[str, Any]) -> None:
    """One attempt, interrupted as often as it was, and every step made once."""
    (attempt,) = attempts
    assert attempt.interruptions == INTERRUPTIONS
    assert written["starts"] == INTERRUPTIONS + 1
    assert (written["steps"], written["recomputed_steps"]) == (STEPS, 0)
    assert attempt.result is not None
    assert attempt.result["recomputed_steps"] == 0
    assert attempt.useful_cpu_seconds > attempt.lost_cpu_seconds
    _check_water(attempt, written)


def _check_tamed(attempts: Sequence[AttemptRow], written: dict[str, Any]) -> None:
    """It failed with a time step that is too long, and succeeded with one that is not, over the same time."""
    *failed, succeeded = attempts
    assert failed
    assert {attempt.reason for attempt in failed} == {"Unstable"}
    assert [attempt.time_step for attempt in attempts] == [
        WILD.time_step / 2**number for number in range(len(attempts))
    ]
    assert succeeded.steps * succeeded.time_step == WILD.steps * WILD.time_step
    assert written["steps"] == succeeded.steps
    _check_water(succeeded, written)


def _check_water(attempt: AttemptRow, written: dict[str, Any]) -> None:
    """The database has what the program wrote, and that is water: 998 kg/m^3, in a very short run."""
    assert attempt.result is not None
    assert 900 < attempt.result["density"]["value"] < 1100
    for quantity in ("density", "diffusion"):
        assert attempt.result[quantity] == written[quantity]
        assert math.isfinite(written[quantity]["value"])
    assert attempt.ns_per_day == written["ns_per_day"] > 0
