"""Study files, and tables of what became of them."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from scavenger_tuner.database.tables import AttemptRow, ConfigurationRow
from scavenger_tuner.report import Found, Listed, as_csv, found, list_table, listed, results_table
from scavenger_tuner.study import Study, StudyError

EXAMPLE = Path(__file__).resolve().parents[3] / "demo-apps" / "tuner" / "study.yaml"


def test_the_example_is_three_models_three_temperatures_several_seeds() -> None:
    configurations = Study.read(EXAMPLE).configurations()

    assert len({each.model for each in configurations}) == 3
    assert len({each.temperature for each in configurations}) == 3
    assert len({each.seed for each in configurations}) >= 3
    assert len(set(configurations)) == len(configurations)
    assert len({each.seed for each in configurations[:9]}) == 1  # each model and temperature before the next seed
    assert configurations[0].time_step == 2.0


@pytest.mark.parametrize(
    ("text", "trouble"),
    [
        ("study: a\nmodels: [spce]\n", "molecules: Field required"),
        ("study: A b\nmodels: [spce]\nmolecules: 1\ntemperatures: [1]\nseeds: [1]\nsteps: 1\n", "study: "),
        ("study: a\nmodels: []\nmolecules: 1\ntemperatures: [1]\nseeds: [1]\nsteps: 1\n", "models: "),
        ("study: a\nmodels: [x]\nmolecules: 1\ntemperatures: [.nan]\nseeds: [1]\nsteps: 1\n", "temperatures.0: "),
        ("study: a\nmodels: [x]\nmolecules: 1\ntemperatures: [1]\nseeds: [1]\nsteps: 1\nstep: 2\n", "step: Extra"),
        ("- a\n", "the file: "),
        ("{", "while parsing"),
    ],
)
def test_a_bad_study_says_where(tmp_path: Path, text: str, trouble: str) -> None:
    (tmp_path / "study.yaml").write_text(text)

    with pytest.raises(StudyError) as caught:
        Study.read(tmp_path / "study.yaml")

    assert trouble in str(caught.value)


ROW = ConfigurationRow(
    id=4,
    key=UUID(int=1),
    study="water",
    model="spce",
    molecules=500,
    temperature=298.15,
    seed=2,
    steps=1000,
    time_step=2.0,
    state="Completed",
    reason="",
    claimed_by=None,
)
FAILED = AttemptRow(
    number=1,
    model="spce",
    molecules=500,
    steps=1000,
    time_step=2.0,
    ranks=1,
    threads=1,
    memory_mib=256,
    state="Failed",
    reason="Unstable",
    message="",
    result=None,
    interruptions=2,
    lost_cpu_seconds=1.5,
)
DONE = AttemptRow(
    number=2,
    model="spce",
    molecules=500,
    steps=2000,
    time_step=1.0,
    ranks=1,
    threads=2,
    memory_mib=256,
    state="Succeeded",
    reason="",
    message="",
    result={
        "density": {"value": 0.9971, "error": 0.0012, "unit": "g/cm3"},
        "diffusion": {"value": 2.43, "error": 0.11, "unit": "1e-5 cm2/s"},
        "ns_per_day": 150.0,
        "steps": 2000,
        "recomputed_steps": 30,
        "ranks": 1,
        "threads": 2,
    },
    ns_per_day=150.0,
    interruptions=3,
    lost_cpu_seconds=0.5,
)


def test_lists() -> None:
    line = listed(ROW, [FAILED])

    assert (line.attempts, line.tried, line.reason) == (1, "1x1 256Mi", "Unstable")
    assert list_table([line]).splitlines() == [
        "ID  STUDY  MODEL  MOLECULES  KELVIN  SEED  STATE      ATTEMPTS  TRIED      REASON",
        "4   water  spce   500        298.15  2     Completed  1         1x1 256Mi  Unstable",
    ]
    assert as_csv(Listed, [line]).splitlines()[1] == "4,water,spce,500,298.15,2,Completed,1,1x1 256Mi,,Unstable"


def test_results() -> None:
    line = found(ROW, [FAILED, DONE])

    assert line is not None
    assert (line.steps, line.time_step, line.attempts, line.interruptions, line.lost_cpu_seconds) == (2000, 1, 2, 5, 2)
    assert "0.9971 ± 0.0012 g/cm3  2.43 ± 0.11 1e-5 cm2/s  150     1x2" in results_table([line])
    (read,) = csv.DictReader(io.StringIO(as_csv(Found, [line])))
    assert float(read["density_error"]) == 0.0012
    assert found(ROW, [FAILED]) is None


def test_results_that_were_too_short_to_estimate() -> None:
    result = {**(DONE.result or {}), "density": {"value": 0.99, "error": None, "unit": "g/cm3"}, "ns_per_day": None}
    line = found(ROW, [AttemptRow(**{**_columns(DONE), "result": result})])

    assert line is not None
    assert (line.density_error, line.ns_per_day) == (None, None)
    assert "0.99 g/cm3" in results_table([line])


def _columns(row: AttemptRow) -> dict[str, Any]:
    return {name: value for name, value in vars(row).items() if not name.startswith("_")}
