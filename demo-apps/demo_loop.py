"""A day in the office, in a minute: the regular load rises, and the learnt levels say when jobs have to leave.

Each line shows what the regulator publishes and what the pods carry, in words.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final

from demo_stage import LOOK, SHOP, DemoError, Size, Stage, console, deployment, millicores, ordinary, say, until
from demo_story import caused, names
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from scavenger_api.names import LABEL_JOB, LABEL_PREEMPTION_CLASS, LEVELS_OBSERVED_AT, NON_PREEMPTIBLE
from scavenger_api.reasons import InterruptionReason
from scavenger_cli.words import bar
from scavenger_regulator.core.levels import INITIAL

COLUMNS: Final = ("time", "CPU in use", "what happens", "jobs", "interrupted")
CELLS: Final = 30
"""Of the bar, which is full at 100 %."""
MARK: Final = "|"
"""Where a level is on the bar."""
HAPPENS: Final = {
    "Filling": "jobs start",
    "Speculative": "jobs start up to the second mark; more of them may be displaced",
    "Evicting": "jobs leave until the load is at the first mark",
    "Blind": "no metrics: no job starts or leaves",
}
"""In each state of the regulator."""
BURN: Final = "while True: pass"
MOST: Final = 16
"""Units that the rush is at most."""
POINTS: Final = 5
"""Percent of the cluster that a unit is."""
MARGIN: Final = 15.0
"""Points above the upper level that are aimed at: what is measured goes up and down, and jobs come to their end."""
FILLED: Final = 22.0
"""Seconds until jobs have filled what there is, up to the admission level, and are in the figures, at most."""
STEADY: Final = 3.0
"""Points by which two measurements in a row differ at most where no job has come or gone."""
GIVEN_WAY: Final = 45.0
"""Seconds until somebody leaves, or the load has come down without that."""
STILL_ABOVE: Final = (None, "Evicting", "Blind")
PEAKS: Final = 3
"""Of the rush: jobs that come to their end just then make room as well."""
SMALLER: Final = 3
"""Rushes, until the regulator was seen between its levels."""
SEEN: Final = 18.0
"""Seconds until a step of the rush is in the figures: as old as they get, and a period."""
MOMENT: Final = 5.0
"""Seconds from one row to the next, unless the regulator changes its state."""
LEVELS: Final = ("lower", "admission", "upper")
LEGEND: Final = "CPU in use. Jobs start up to the second mark, leave from the third on, and stop leaving at the first"
UNLEARNT: Final = (INITIAL.lower, INITIAL.admission, INITIAL.upper)
LEFT: Final = (InterruptionReason.ABOVE_UPPER_LEVEL, InterruptionReason.YIELD_AT_CHECKPOINT)


class Watch:
    """The table: a row for all that is news. On a terminal it is redrawn in place, elsewhere each row is a line.

    clock: seconds, monotonic.
    """

    def __init__(self, stage: Stage, clock: Callable[[], float] = time.monotonic) -> None:
        self.stage = stage
        self.clock = clock
        self.began = clock()
        self.rows: list[tuple[str, ...]] = []
        self.told = -MOMENT
        """When the last row was added."""
        self.seen: set[str] = set()
        self.live = Live(self.table(), console=console, refresh_per_second=2) if console.is_terminal else None

    def __enter__(self) -> Watch:
        if self.live is not None:
            self.live.start()
        else:
            say(LEGEND)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live is not None:
            self.live.stop()

    def table(self) -> Table:
        """What has been seen so far."""
        table = Table(*COLUMNS, title=LEGEND)
        for row in self.rows:
            table.add_row(*row)
        return table

    def states(self) -> set[str]:
        """Those that the regulator was seen in."""
        return self.seen

    def look(self) -> dict[str, str]:
        """Look once, add a row if anything changed, and return what the regulator publishes."""
        published = self.stage.levels()
        row = row_of(published, self.stage)
        if row is None:
            return published
        self.seen.add(published["state"])
        if self.is_news(row):
            self.told = self.clock()
            self.rows.append((f"{self.told - self.began:.0f} s", *row))
            if self.live is not None:
                self.live.update(self.table(), refresh=True)
            else:
                say(escape(sentence(row)))
        return published

    def is_news(self, row: Sequence[str]) -> bool:
        """Whether a row is added: at once for another state, and otherwise one for a moment, in which jobs come and go
        one after the other, and not for a load that moves within a cell of the bar."""
        if not self.rows:
            return True
        _, *last = self.rows[-1]
        if row[1] != last[1]:
            return True
        differs = (row[0][:CELLS], *row[2:]) != (last[0][:CELLS], *last[2:])
        return differs and self.clock() - self.told >= MOMENT

    def until(self, what: str, condition: Callable[[Mapping[str, str]], Any], timeout: float = 150.0) -> None:
        """Watch until it has come about; DemoError when it does not in time."""
        until(what, lambda: condition(self.look()), timeout)

    def within(self, seconds: float, condition: Callable[[Mapping[str, str]], Any]) -> bool:
        """Watch so long at most; whether it has come about."""
        deadline = time.monotonic() + seconds
        while not condition(self.look()):
            if time.monotonic() > deadline:
                return False
            time.sleep(LOOK)
        return True


def row_of(published: Mapping[str, str], stage: Stage) -> tuple[str, ...] | None:
    """A row without its time; None before anything is known."""
    if "load.cpu" not in published:
        return None
    labels = [pod["metadata"]["labels"] for pod in stage.scavenger_pods()]
    protected = {found.get(LABEL_JOB) for found in labels if found.get(LABEL_PREEMPTION_CLASS) == NON_PREEMPTIBLE}
    load = float(published["load.cpu"])
    gauge = bar(load / 100, CELLS, {level / 100: MARK for level in levels_of(published)})
    running = stage.in_phase("Running")
    return (
        f"{gauge} {load:3.0f} %",
        HAPPENS[published["state"]],
        f"{len(running)} job{' runs' if len(running) == 1 else 's run'}, {len(protected & set(running))} protected",
        " ".join(stage.in_phase("Interrupted")),
    )


def sentence(row: tuple[str, ...]) -> str:
    """A row in one line."""
    gauge, happens, jobs, interrupted = row
    return f"{gauge}  {happens}. {jobs}{f'. Interrupted: {interrupted}' if interrupted else ''}"


def levels_of(published: Mapping[str, str]) -> tuple[float, ...]:
    """The three of cpu, in percent."""
    return tuple(float(published[f"{name}.cpu"]) for name in LEVELS)


def tell(stage: Stage, sweep: bool) -> None:
    """The levels are learnt; the rush comes, is made room for, and goes. DemoError when it does not come about.

    sweep: there is a job on reclaimed capacity, which is to be seen to run.
    """
    say("the regulator learns its levels from what it measures; then a rush of regular pods comes")
    with Watch(stage) as watch:
        watch.until("levels that were learnt", lambda seen: "load.cpu" in seen and levels_of(seen) != UNLEARNT)
        if sweep:
            watch.until("the job on reclaimed capacity runs", lambda _: stage.status("sweep").get("runningTimestamps"))
            say("sweep runs on CPU that reserved requests. Now reserved goes, and jobs that wait start on all of it")
            stage.scale("reserved", 0)
        rush = Rush(stage, watch)
        watch.within(FILLED, Steady(stage))
        say("the rush begins: regular pods that use more CPU than they request")
        rush.rise("Speculative", lambda seen: levels_of(seen)[0])
        learnt = stage.levels()
        rush.peak()
        rush.end()
        watch.until("they are back", lambda _: not rush.left() & {*stage.in_phase("Interrupted")})
        rush.see_speculative()
    tell_levels(learnt)
    say(
        f"{names(sorted(rush.gone))} left, with the least unsaved work, and came back; no regular pod was touched",
        "green",
    )


class Steady:
    """Whether the load has been measured twice in a row, and was the same."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.at = ""
        self.was: tuple[float, list[str]] = (math.inf, [])

    def __call__(self, seen: Mapping[str, str]) -> bool:
        """seen: what the regulator publishes; empty where it publishes nothing."""
        if seen.get(LEVELS_OBSERVED_AT, "") == self.at or "load.cpu" not in seen:
            return False
        self.at, before = seen.get(LEVELS_OBSERVED_AT, ""), self.was
        self.was = (float(seen["load.cpu"]), self.stage.in_phase("Running"))
        return abs(self.was[0] - before[0]) <= STEADY and self.was[1] == before[1]


class Rush:
    """A regular Deployment, `rush`, that uses far more than it asks for. What is measured is always what was a while
    ago; so how much of it is needed is told from what runs now."""

    def __init__(self, stage: Stage, watch: Watch) -> None:
        self.stage = stage
        self.watch = watch
        self.units = 0
        self.gone: set[str] = set()
        self.size = Size.of(stage.unit)
        self.ordinary = float(stage.levels()["mean.cpu"])
        asks = self.size.cpu / (5 if stage.measured else 1)
        stage.apply(SHOP, deployment("rush", 0, ordinary("rush", stage.image, asks, [BURN], self.size.cpu)))

    def load(self) -> float:
        """What is to be expected, in percent."""
        jobs = sum(limits_of(pod) for pod in self.stage.scavenger_pods() if pod["status"]["phase"] == "Running")
        return self.ordinary + POINTS * (jobs / self.stage.unit + self.units)

    def rise(self, state: str, target: Callable[[Mapping[str, str]], float], patience: float = 0.0) -> None:
        """Until the regulator is in that state, or beyond. target: the load to aim at, in percent; patience: seconds
        before anything is done about it. DemoError where it does not come about."""
        while not self.watch.within(patience, lambda seen: seen.get("state") in (state, "Evicting")):
            if self.units == MOST:
                raise DemoError(f"the load never made the regulator {state}: {self.stage.levels()}")
            lacking = math.ceil((target(self.stage.levels()) - self.load()) / POINTS)
            self.units = min(MOST, self.units + max(1, lacking))
            self.stage.scale("rush", self.units * self.size.pods)
            patience = SEEN

    def peak(self) -> None:
        """Until jobs leave for it. DemoError where none does."""
        for _ in range(PEAKS):
            self.rise("Evicting", lambda seen: levels_of(seen)[2] + MARGIN)
            self.watch.within(GIVEN_WAY, lambda seen: self.left() or seen.get("state") not in STILL_ABOVE)
            if self.gone:
                return
        raise DemoError("the load was above its eviction threshold, and no job has left")

    def end(self) -> None:
        """The rush is over."""
        say("the rush is over")
        self.units = 0
        self.stage.scale("rush", 0)

    def see_speculative(self) -> None:
        """A smaller rush, where the load has passed from below its lower level to above the upper one at once, as other
        things rose in the same seconds. DemoError where it always passes."""
        for _ in range(SMALLER):
            if "Speculative" in self.watch.states():
                return
            say("the load rose past both levels at once: a smaller rush shows what lies between them")
            self.watch.within(GIVEN_WAY, lambda seen: seen.get("state") == "Filling")
            self.rise("Speculative", lambda seen: levels_of(seen)[0])
            self.end()
        if "Speculative" not in self.watch.states():
            raise DemoError("the load has always passed from below its lower level to above the upper one at once")

    def left(self) -> set[str]:
        """The jobs that the regulator has taken off their nodes so far: their status says so until they are back."""
        self.gone.update(name for cause in LEFT for name in caused(self.stage, cause))
        return self.gone


def limits_of(pod: Mapping[str, Any]) -> float:
    """Millicores that the containers of a pod may use."""
    return sum(millicores(one["resources"]["limits"]["cpu"]) for one in pod["spec"]["containers"])


def tell_levels(learnt: Mapping[str, str]) -> None:
    """How the levels came about."""
    lower, admission, upper = levels_of(learnt)
    say(
        f"the levels were learnt: the regular load varied by {float(learnt['stdev.cpu']):.0f} points, so "
        f"jobs started below {admission:.0f} %, and from {upper:.0f} % on some left until it was {lower:.0f} %"
    )
