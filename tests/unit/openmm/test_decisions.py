"""What demo-apps/openmm decides and measures, without OpenMM, which is in tests/integration/programs."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from scavenger_cluster import stack
from scavenger_openmm import analysis, decisions, frames
from scavenger_water import ends, quantities

from tests.unit.water import given

read = partial(given.read, tuple(decisions.MODELS), molecules=216, temperature=300, steps=1030)


# --- segments ---


def test_segments_end_with_frames_and_with_the_last_step() -> None:
    found = read()
    ends_of, step = [], 0
    while step < found.steps:
        step = decisions.next_end(step, found)
        ends_of.append(step)
    assert ends_of == [*range(50, 1001, 50), 1030]


def test_blocks_make_all_steps_of_a_segment() -> None:
    assert list(decisions.blocks(100, 125)) == [10, 10, 5]
    assert list(decisions.blocks(100, 100)) == []


def test_seeds_follow_from_seed_and_step_alone() -> None:
    assert decisions.seeds(read(), 50) == decisions.seeds(read(steps=2000, temperature=310), 50)
    found = {decisions.seeds(read(seed=seed), step) for seed in (1, 2, 15) for step in (0, 50, 1000)}
    assert len(found) == 9
    assert all(1 <= number <= 2**31 - 1 for pair in found for number in pair)


@pytest.mark.parametrize(("interval", "found"), [(1, 1), (10, 10), (25, 25), (500, 25)])
def test_each_segment_changes_its_volume(interval: int, found: int) -> None:
    assert decisions.barostat_interval(read(output_interval=interval, steps=10**5)) == found


@pytest.mark.parametrize(
    ("steps", "pace", "found"), [(500, 0.01, True), (501, 0.01, False), (1, None, False), (0, 1.0, True)]
)
def test_a_segment_is_finished_only_where_that_is_soon(steps: int, pace: float | None, found: bool) -> None:
    assert decisions.is_worth_finishing(steps, pace) is found


# --- failures ---


def test_energies_tell_what_is_unstable() -> None:
    right = 0.5 * (6 * 216 - 3) * 0.0083144626 * 300  # half kT for each degree of freedom
    assert decisions.why_unstable(-8000.0, right, read()) == ""
    assert decisions.why_unstable(-8000.0, 1.45 * right, read()) == ""
    assert decisions.why_unstable(-8000.0, 1.6 * right, read()) == "480 K instead of 300 K"
    for potential, kinetic in ((math.nan, right), (math.inf, right), (-8000.0, math.nan)):
        assert "not finite" in decisions.why_unstable(potential, kinetic, read())


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("Particle coordinate is NaN.  For more information, see https://github.com/openmm", "UNSTABLE"),
        ("Energy or force at minimum is infinite or NaN.", "UNSTABLE"),
        ("The periodic box size has decreased to less than twice the nonbonded cutoff.", "UNSTABLE"),
        ("std::bad_alloc", "OUT_OF_MEMORY"),
        ("Unable to allocate 3.2 GiB for an array", "OUT_OF_MEMORY"),
        ("There is no registered Platform called CPU", "ERROR"),
    ],
)
def test_exceptions_of_openmm_have_reasons(message: str, reason: str) -> None:
    assert decisions.reason_of(message) is ends.Reason[reason]


# --- the trajectory ---


def test_frames_are_read_as_they_were_written_and_cut_back(tmp_path: Path) -> None:
    found = frames.Frames(tmp_path / "frames.bin", 2)
    assert found.cut(0)
    for number in range(3):
        found.append(2.0 + number, np.arange(6.0).reshape(2, 3) + number)
    found.flush()
    edges, positions = found.read()
    assert edges.tolist() == [2.0, 3.0, 4.0]
    assert positions[2].tolist() == [[2.0, 3.0, 4.0], [5.0, 6.0, 7.0]]
    assert found.cut(2)
    assert found.read()[0].tolist() == [2.0, 3.0]
    assert not found.cut(3)
    assert found.read()[0].tolist() == [2.0, 3.0]


def test_frames_of_the_equilibration_are_left_out() -> None:
    # 20 frames, after 50, 100, …, 1000 steps; the first 206 steps are left out.
    assert analysis.analysed(read(), 20) == 4
    assert analysis.analysed(read(equilibration=0), 20) == 0


# --- quantities ---


def test_density_is_that_of_the_box_with_the_error_of_block_averages() -> None:
    edge = (216 * 18.01528 / 0.602214076 / 1000) ** (1 / 3)  # 1 g/cm³
    found = analysis.density(np.full(20, edge), 216)
    assert found.value == pytest.approx(1000)
    assert found.error == pytest.approx(0, abs=1e-9)
    uneven = analysis.density(np.array([edge] * 10 + [edge * 1.01] * 10), 216)
    assert uneven.value == pytest.approx((1000 + 1000 / 1.01**3) / 2)
    # Five blocks of four frames: two of either kind, and one of both.
    high, low = 1000.0, 1000 / 1.01**3
    assert uneven.error == pytest.approx(np.std([high, high, (high + low) / 2, low, low], ddof=1) / 5**0.5)
    with pytest.raises(quantities.NotFiniteError):
        analysis.density(np.array([edge] * 19 + [math.nan]), 216)


def test_diffusion_is_that_of_a_random_walk_across_the_faces_of_the_box() -> None:
    source = np.random.default_rng(5)
    steps = source.normal(0, 0.05, (200, 400, 3))
    ways = np.cumsum(steps, axis=0)
    edges = np.full(200, 1.9)
    found = analysis.diffusion(edges, ways % 1.9, 0.5)
    # <r²> = 3 σ² for each step: D = σ² / (2 t), 0.05² nm² / 1 ps = 2.5e-3 nm²/ps = 2.5e-5 cm²/s.
    assert found.value == pytest.approx(2.5, rel=0.1)
    assert found.error is not None
    assert found.error < 0.5
    assert analysis.diffusion(edges, ways, 0.5).value == pytest.approx(found.value)


def test_diffusion_of_the_fewest_frames_and_of_none_that_are_finite() -> None:
    ways = np.cumsum(np.random.default_rng(1).normal(0, 0.05, (10, 216, 3)), axis=0)
    assert math.isfinite(analysis.diffusion(np.full(10, 1.9), ways, 0.1).value)
    with pytest.raises(quantities.NotFiniteError):
        analysis.diffusion(np.full(10, 1.9), ways * math.nan, 0.1)


# --- the program ---


def test_without_openmm_it_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "configuration.json").write_text(read().to_json())
    # -S: without the packages of this environment.
    command = [sys.executable, "-S", "-m", "scavenger_openmm", f"--dir={tmp_path}"]
    done = subprocess.run(command, env={"PYTHONPATH": stack.python_path("openmm")})
    assert done.returncode == 1
    failure = json.loads((tmp_path / "failure.json").read_text())
    assert failure["reason"] == "Error"
    assert "pip install --require-hashes -r demo-apps/openmm/requirements.txt" in failure["message"]
