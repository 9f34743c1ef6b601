"""Settings searched on some days and tried on others.

A setting is tried on half of the days and judged by three figures that pull in different directions: useful core-hours,
lost core-hours, and periods above the upper level that are scavenging's doing. None of them is weighed against another:
what no other setting beats in all three is the trade-off front. Those on it are then run on the days that were held
out, and so are the settings one had before. What is recommended must be no worse there than these.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import yaml

from scavenger_simulator.commands.changes import Changes, settings_of
from scavenger_simulator.commands.comparison import Simulate
from scavenger_simulator.commands.progress import Progress
from scavenger_simulator.inputs.days import by_days
from scavenger_simulator.inputs.reading import InputError
from scavenger_simulator.policy import Policy
from scavenger_simulator.report.document import plain
from scavenger_simulator.report.table import number, text_table
from scavenger_simulator.result import RunResult
from scavenger_simulator.scenario import Scenario

if TYPE_CHECKING:
    import optuna

SCHEMA: Final = "scavenger.dev/simulation-tuning/v1"
HOUR: Final = 3600.0
LOST_SLACK: Final = 0.001
ABOVE_SLACK: Final = 0.0005
"""By how much a recommended setting may cost more than the one before: a thousandth of its useful work, and one period
in two thousand. Less than that is chance."""


@dataclass(frozen=True, slots=True)
class Knob:
    """A setting that is searched: its name in the chart, and its least and greatest value and step, or its choices."""

    name: str
    low: float = 0.0
    high: float = 0.0
    step: float = 1.0
    choices: tuple[float, ...] = ()


KNOBS: Final = (
    Knob("reserve", 2.0, 40.0, 2.0),
    Knob("historyWindow", choices=(1 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, 24 * HOUR)),
    Knob("floor", 10.0, 100.0, 10.0),
    Knob("admissionMargin", 0.0, 12.0, 1.0),
    Knob("period", choices=(15.0, 30.0, 60.0, 120.0)),
)


@dataclass(frozen=True, slots=True)
class Score:
    """Figures of some days together. useful, lost: core-hours. above: share of the periods (0 to 1) in which the load
    was above the upper level with jobs, and would not have been without."""

    useful: float
    lost: float
    above: float

    def beats(self, other: Score) -> bool:
        """Whether it is as good in all figures and better in one."""
        as_good = self.useful >= other.useful and self.lost <= other.lost and self.above <= other.above
        return as_good and self != other


@dataclass(frozen=True, slots=True)
class Candidate:
    """Settings by their names in the chart, with what they came to on both halves of the days."""

    settings: Mapping[str, Any]
    trained: Score
    held_out: Score


@dataclass(frozen=True, slots=True)
class Tuned:
    """What a search found. before: with the settings as they were. front: by what they lose, ascending. recommended:
    None where nothing is better on the days held out."""

    train: tuple[str, ...]
    held_out: tuple[str, ...]
    trials: int
    seed: int
    before: Candidate
    front: tuple[Candidate, ...]
    recommended: Candidate | None

    def as_json(self) -> str:
        """Sorted, rounded, the same bytes for the same search."""
        document = {
            "schema": SCHEMA,
            "days": {"trained": self.train, "heldOut": self.held_out},
            "trials": self.trials,
            "seed": self.seed,
            "before": asdict(self.before),
            "front": [asdict(one) for one in self.front],
            "recommended": asdict(self.recommended) if self.recommended else None,
        }
        return json.dumps(plain(document), indent=2, sort_keys=True, allow_nan=False) + "\n"

    def as_text(self) -> str:
        """The front, and the values to give to helm."""
        header = [*(knob.name for knob in KNOBS), "useful", "lost", "above %", "held out: useful", "lost", "above %"]
        rows = [["before", *_row(self.before)], *([str(i), *_row(one)] for i, one in enumerate(self.front, 1))]
        lines = [
            f"tried {self.trials} settings on {', '.join(self.train)}",
            f"held out: {', '.join(self.held_out)}; core-hours, and periods above the upper level by scavenging",
            "",
            *text_table(["", *header], rows),
            "",
        ]
        if self.recommended is None:
            lines.append("Keep the settings: on the days held out none of these is better without costing more.")
            return "\n".join(lines) + "\n"
        number_of = self.front.index(self.recommended) + 1
        values = yaml.safe_dump({"settings": dict(self.recommended.settings)}, sort_keys=True)
        lines.append(f"# Recommended, number {number_of}: more useful work on the days held out, and no more lost.")
        lines.append("# helm upgrade scavenger-regulator charts/scavenger-regulator --reuse-values --values THIS")
        return "\n".join(lines) + "\n" + values


def _row(one: Candidate) -> list[str]:
    settings = [f"{one.settings[knob.name]:g}" for knob in KNOBS]
    return [*settings, *(cell for score in (one.trained, one.held_out) for cell in _cells(score))]


def _cells(score: Score) -> list[str]:
    return [number(score.useful, 1), number(score.lost, 1), number(100 * score.above, 2)]


def tune(
    scenarios: Sequence[Scenario],
    changes: Changes,
    simulate: Simulate,
    progress: Progress,
    *,
    trials: int,
    seed: int,
) -> Tuned:
    """Search. changes: the settings one has, which are tried first and kept where nothing is searched.

    Raises InputError where there are fewer than two days, or optuna is not installed.
    """
    days = [day for scenario in scenarios for day in by_days(scenario)]
    if len(days) < 2:
        remedy = "give several scenarios, or --length 2d or more: a setting tuned to one day is worth nothing"
        raise InputError("there is only one day", remedy)
    if trials < 1:
        raise InputError("there is nothing to try", "give --trials of at least 1")
    train, held_out = days[0::2], days[1::2]
    measure = _Measure(changes, simulate)
    before = _settings_before(changes)
    scores = _search(before, lambda settings: measure(settings, train, progress), progress, trials, seed)
    front = [key for key in scores if not any(other.beats(scores[key]) for other in scores.values())]
    front.sort(key=lambda key: (scores[key].lost, scores[key].useful, key))
    first = _key(before)
    candidates = {}
    for at, key in enumerate(wanted := list(dict.fromkeys([first, *front])), 1):
        progress.told(f"days held out: setting {at} of {len(wanted)}")
        settings = dict(zip((knob.name for knob in KNOBS), key, strict=True))
        candidates[key] = Candidate(settings, scores[key], measure(settings, held_out, progress))
    found = tuple(candidates[key] for key in front)
    return Tuned(
        train=tuple(day.name for day in train),
        held_out=tuple(day.name for day in held_out),
        trials=trials,
        seed=seed,
        before=candidates[first],
        front=found,
        recommended=recommend(candidates[first], found),
    )


Key = tuple[float, ...]
"""Values of KNOBS, in their order."""


def _key(settings: Mapping[str, float]) -> Key:
    return tuple(settings[knob.name] for knob in KNOBS)


def _search(
    before: Mapping[str, float],
    measure: Callable[[Mapping[str, float]], Score],
    progress: Progress,
    trials: int,
    seed: int,
) -> dict[Key, Score]:
    """The settings before, and those that are suggested from what the ones before came to."""
    study = _study(trials, seed)
    progress.told("the settings as they are")
    scores = {_key(before): measure(before)}
    for number_of in range(1, trials + 1):
        progress.told(f"setting {number_of} of {trials}")
        asked = study.ask()
        settings = {knob.name: _suggest(asked, knob) for knob in KNOBS}
        if (key := _key(settings)) not in scores:
            scores[key] = measure(settings)
        study.tell(asked, (scores[key].useful, scores[key].lost, scores[key].above))
    return scores


def recommend(before: Candidate, front: Iterable[Candidate]) -> Candidate | None:
    """The setting with the most useful work on the days it was trained on, of those that there and on the days held
    out lose no more and are no more above the upper level than the settings before; None where it is not better."""

    def costs_no_more(one: Score, than: Score) -> bool:
        return one.lost <= than.lost + LOST_SLACK * than.useful and one.above <= than.above + ABOVE_SLACK

    allowed = [
        one
        for one in front
        if costs_no_more(one.trained, before.trained)
        and costs_no_more(one.held_out, before.held_out)
        and one.held_out.useful > before.held_out.useful
    ]
    return max(allowed, key=lambda one: one.trained.useful, default=None)


class _Measure:
    """Runs settings on days."""

    def __init__(self, changes: Changes, simulate: Simulate) -> None:
        self._changes = changes
        self._simulate = simulate

    def __call__(self, settings: Mapping[str, float], days: Sequence[Scenario], progress: Progress) -> Score:
        """What they come to on all of the days together."""
        chosen = settings_of({**self._changes, **settings})
        runs = []
        for number_of, day in enumerate(days):

            def share(done: float, before: int = number_of) -> None:
                progress.share((before + done) / len(days))

            runs.append(self._simulate(day, chosen, Policy.OURS, day.seed, share))
        return score(runs)


def score(runs: Sequence[RunResult]) -> Score:
    """The figures of some runs together."""
    periods = sum(run.totals.periods for run in runs)
    above = sum(run.totals.periods_above_upper - run.totals.periods_above_upper_ordinary for run in runs)
    return Score(
        useful=sum(run.totals.useful for run in runs),
        lost=sum(run.totals.lost for run in runs),
        above=above / periods if periods else 0.0,
    )


def _settings_before(changes: Changes) -> dict[str, float]:
    """The searched settings as they are."""
    settings = settings_of(changes)
    rules = settings.regulator
    return {
        "reserve": rules.reserve,
        "historyWindow": settings.history_window,
        "floor": rules.floor,
        "admissionMargin": rules.admission_margin,
        "period": rules.period,
    }


def _study(trials: int, seed: int) -> optuna.Study:
    try:
        import optuna
    except ImportError:
        remedy = "pip install 'scavenger-simulator[tune]', or optuna itself"
        raise InputError("tuning needs optuna, which is not installed", remedy) from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=max(5, min(20, trials // 3)))
    return optuna.create_study(directions=["maximize", "minimize", "minimize"], sampler=sampler)


def _suggest(trial: optuna.Trial, knob: Knob) -> float:
    if knob.choices:
        return float(trial.suggest_categorical(knob.name, knob.choices))
    return trial.suggest_float(knob.name, knob.low, knob.high, step=knob.step)
