"""The search, over days whose figures follow from the settings by a formula."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from scavenger_simulator.commands.changes import parse_changes
from scavenger_simulator.commands.progress import Progress
from scavenger_simulator.commands.tuning import KNOBS, Candidate, Score, Tuned, recommend, score, tune
from scavenger_simulator.inputs.reading import InputError
from scavenger_simulator.policy import Policy
from scavenger_simulator.result import RunResult, Totals
from scavenger_simulator.scenario import Scenario
from scavenger_simulator.settings import Settings

from .builders import scenario

pytestmark = pytest.mark.slow

DAY = 86_400.0
SCHEMA = Path(__file__).parents[3] / "charts/scavenger-regulator/values.schema.json"


class Silent:
    def isatty(self) -> bool:
        return False

    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None: ...


def search(
    simulate: Callable[..., RunResult], *, days: int = 4, trials: int = 25, seed: int = 1, changes: tuple[str, ...] = ()
) -> Tuned:
    progress = Progress(Silent(), lambda: 0.0)  # type: ignore[arg-type]
    return tune([scenario(end=days * DAY)], parse_changes(changes), simulate, progress, trials=trials, seed=seed)


def by_formula(
    day: Scenario, settings: Settings, policy: Policy, seed: int, progress: Callable[[float], None] | None
) -> RunResult:
    """Less reserve is more work, and under 10 percent more loss as well."""
    reserve = settings.regulator.reserve
    totals = Totals(useful=1000 - 10 * reserve, lost=max(0.0, 10 - reserve) * 20, periods=100)
    return RunResult(day.name, policy.value, seed, totals)


def overfitting(day: Scenario, settings: Settings, policy: Policy, seed: int, progress: object) -> RunResult:
    """What is better on the first and third day is worse on the others."""
    odd = int(day.start // DAY) % 2 == 0
    reserve = settings.regulator.reserve
    return RunResult(
        day.name, policy.value, seed, Totals(useful=1000 - reserve if odd else 1000 + reserve, periods=100)
    )


def test_every_searched_setting_is_one_of_the_chart() -> None:
    settings = json.loads(SCHEMA.read_text())["properties"]["settings"]["properties"]
    assert {knob.name for knob in KNOBS} <= settings.keys()


def test_the_front_is_found_and_what_costs_no_more_is_recommended() -> None:
    tuned = search(by_formula)
    assert (len(tuned.train), len(tuned.held_out)) == (2, 2)
    assert set(tuned.train).isdisjoint(tuned.held_out)
    assert tuned.before.settings["reserve"] == 20
    lost = [one.trained.lost for one in tuned.front]
    useful = [one.trained.useful for one in tuned.front]
    assert lost == sorted(lost)
    assert useful == sorted(useful), "on the front, more is lost only where more is won"
    assert tuned.recommended is not None
    assert tuned.recommended.settings["reserve"] == 10, "below it, work is lost"
    assert tuned.recommended.held_out.useful == 2 * 900
    text = tuned.as_text()
    values = yaml.safe_load(text[text.index("# Recommended") :])
    assert values == {"settings": tuned.recommended.settings}
    assert parse_changes([f"{name}={value}" for name, value in values["settings"].items()]) == values["settings"]
    assert json.loads(tuned.as_json())["recommended"]["heldOut"]["useful"] == 1800


def test_what_is_better_on_the_days_it_was_found_on_alone_is_not_recommended() -> None:
    tuned = search(overfitting)
    assert tuned.recommended is None
    assert min(one.settings["reserve"] for one in tuned.front) < 20
    assert "Keep the settings" in tuned.as_text()
    assert json.loads(tuned.as_json())["recommended"] is None


def test_the_same_seed_searches_the_same() -> None:
    one, same, other = search(by_formula), search(by_formula), search(by_formula, seed=2)
    assert one.as_json() == same.as_json()
    assert one.as_text() == same.as_text()
    assert one.as_json() != other.as_json()


def test_settings_that_are_not_searched_are_kept() -> None:
    seen = set()

    def simulate(day: Scenario, settings: Settings, policy: Policy, seed: int, progress: object) -> RunResult:
        seen.add((settings.regulator.cooldown, settings.metrics_age))
        return RunResult(day.name, policy.value, seed, Totals())

    tuned = search(simulate, trials=3, changes=("cooldown=77", "metricsAge=9", "reserve=33"))
    assert seen == {(77.0, 9.0)}
    assert tuned.before.settings["reserve"] == 33


def test_one_day_is_not_enough() -> None:
    with pytest.raises(InputError, match="only one day") as caught:
        search(by_formula, days=1)
    assert "--length" in caught.value.remedy
    with pytest.raises(InputError, match="nothing to try"):
        search(by_formula, trials=0)


def test_without_optuna_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(InputError, match="optuna") as caught:
        search(by_formula)
    assert "scavenger-simulator[tune]" in caught.value.remedy


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (Score(2, 1, 1), Score(1, 1, 1), True),
        (Score(1, 1, 1), Score(1, 1, 1), False),
        (Score(2, 2, 1), Score(1, 1, 1), False),
        (Score(1, 1, 0), Score(1, 1, 1), True),
    ],
)
def test_a_score_beats_another_only_in_all_figures(one: Score, other: Score, expected: bool) -> None:
    assert one.beats(other) is expected


def test_a_recommendation_costs_no_more_on_either_half() -> None:
    before = Candidate({}, Score(1000, 10, 0.01), Score(1000, 10, 0.01))
    better = replace(before, trained=Score(1100, 10, 0.01), held_out=Score(1050, 10, 0.01))
    assert recommend(before, [before, better]) == better
    for worse in (
        replace(better, held_out=Score(1050, 12, 0.01)),
        replace(better, trained=Score(1100, 10, 0.02)),
        replace(better, held_out=Score(1000, 10, 0.01)),
    ):
        assert recommend(before, [before, worse]) is None


def test_a_score_counts_the_periods_that_are_scavengings_doing() -> None:
    runs = [
        RunResult(
            "a", "ours", 1, Totals(useful=5, lost=1, periods=10, periods_above_upper=4, periods_above_upper_ordinary=1)
        ),
        RunResult("b", "ours", 1, Totals(useful=7, lost=2, periods=10, periods_above_upper=1)),
    ]
    assert score(runs) == Score(12, 3, 0.2)
    assert score([]) == Score(0, 0, 0.0)
