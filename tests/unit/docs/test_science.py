"""The table and the picture of the study: seeds are put together rightly, and what is drawn is what was found."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from docs import pictures

ROOT = Path(__file__).resolve().parents[3]

if TYPE_CHECKING:
    import science_figures as figures
else:
    figures = pictures.science_figures


def run(seed: int, **changes: Any) -> Any:
    """A run of SPC/E at 298.15 K."""
    given = {
        "model": "spce",
        "temperature": 298.15,
        "seed": seed,
        "density": 1000.0,
        "density_error": 3.0,
        "diffusion": 2.0,
        "diffusion_error": None,
        "steps": 1000,
        "recomputed_steps": 0,
        "interruptions": 3,
    }
    return figures.Run(**{**given, **changes})


def test_the_error_of_a_mean_is_the_larger_of_what_values_say_and_how_far_they_are_apart() -> None:
    agreeing = figures.together([(1.0, 0.3), (1.0, 0.4)])
    apart = figures.together([(1.0, 0.01), (3.0, 0.01)])

    assert agreeing.value == 1.0
    assert agreeing.error == pytest.approx(0.25)
    assert apart.value == 2.0
    assert apart.error == pytest.approx(1.0)
    assert figures.together([(5.0, None)]) == figures.Value(5.0, 0.0)


def test_seeds_are_one_line_and_models_and_temperatures_are_not() -> None:
    found = figures.lines([run(1), run(2, recomputed_steps=5), run(1, model="tip3p"), run(1, temperature=308.15)])

    assert [(line.model, line.temperature, line.seeds) for line in found] == [
        ("spce", 298.15, 2),
        ("spce", 308.15, 1),
        ("tip3p", 298.15, 1),
    ]
    assert (found[0].interruptions, found[0].steps, found[0].recomputed_steps) == (6, 2000, 5)


def test_water_as_it_was_measured() -> None:
    """The values of the table that the formula was fitted to (Holz, Heil and Sacco 2000)."""
    for celsius, measured in ((4, 1.261), (15, 1.765), (25, 2.299), (35, 2.907)):
        assert figures.diffusion_of_water(273.15 + celsius) == pytest.approx(measured, abs=0.011)


def test_the_table_has_both_beside_each_other() -> None:
    columns, (row,) = figures.table([run(1), run(2, recomputed_steps=5)])

    assert dict(zip(columns[-2:], row[-2:], strict=True)) == {"interrupted": "6", "steps recomputed": "5 of 2000"}
    assert row[:5] == ["spce", "298.15", "2", "1000 ± 2.1", "997.0"]
    assert row[6] == "2.30"


def test_every_line_is_drawn_with_its_error() -> None:
    runs = [run(1), run(2, density=1010.0), run(1, model="tip3p", temperature=308.15, diffusion=5.0)]
    data = {"molecules": 256, "picoseconds": 60.0, "runs": [vars_of(one) for one in runs]}

    drawn = pictures.science(data)

    for axes in drawn.axes:
        points = [point for bars in axes.containers for point in bars[0].get_xdata()]
        assert len(points) == len(figures.lines(runs))
    assert "3 runs of 256 molecules over 60 ps, interrupted 9 times" in drawn.texts[0].get_text()


def vars_of(one: Any) -> dict[str, Any]:
    """A run as the file has it."""
    return {name: getattr(one, name) for name in one.__dataclass_fields__}
