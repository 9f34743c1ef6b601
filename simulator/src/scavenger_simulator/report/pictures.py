"""The charts of one run: load against levels, who ran, who left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from scavenger_simulator.report.charts import Chart, Point
from scavenger_simulator.report.figures import Study
from scavenger_simulator.report.table import number, seconds
from scavenger_simulator.result import Moment, MomentKind, ResourcePoint, RunResult
from scavenger_simulator.result import Point as Sample

MOST_POINTS: Final = 720
"""More than there are pixels is not drawn."""
LANES: Final = 60
LANE_HEIGHT: Final = 8.0
BINS: Final = 48

RUNNING: Final = "#9ecae1"
ORDINARY: Final = "#c9c9c9"
LEFT_BY: Final = {
    MomentKind.PREEMPTED: ("preempted for a regular pod", "#d95f02"),
    MomentKind.EVICTED: ("evicted above the upper level", "#b3261e"),
    MomentKind.YIELDED: ("yielded after a checkpoint", "#e6ab02"),
    MomentKind.RECLAIMED: ("gave a share back", "#7570b3"),
    MomentKind.COMPLETED: ("completed", "#2e8540"),
}
LEVELS: Final = (("upper", "#b3261e", False), ("admission", "#2e8540", True), ("lower", "#1f6fb2", False))
LOAD: Final = "#08306b"
EVICTING: Final = "#b3261e"


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart with its heading, and what its colours mean: names and colours."""

    heading: str
    svg: str
    legend: tuple[tuple[str, str], ...]


def pictures(study: Study, run: RunResult) -> Iterator[Picture]:
    """All charts of a run; those of which nothing was recorded are left out."""
    if run.points:
        yield _load(study, run, "CPU", lambda sample: sample.cpu)
        yield _load(study, run, "Memory", lambda sample: sample.memory)
        for name in run.points[-1].pools:
            yield _load(study, run, f"CPU of pool {name}", partial(_of_pool, name, "cpu"), name)
            yield _load(study, run, f"Memory of pool {name}", partial(_of_pool, name, "memory"), name)
        yield _running(study, run)
    moments = [moment for moment in run.moments if moment.kind in LEFT_BY]
    if moments:
        yield _leaving(study, moments)
        yield _lanes(study, run)


def _of_pool(name: str, resource: str, sample: Sample) -> ResourcePoint:
    found: ResourcePoint = getattr(sample.pools[name], resource)
    return found


def _thinned(samples: Sequence[Sample]) -> list[Sequence[Sample]]:
    size = max(1, -(-len(samples) // MOST_POINTS))
    return [samples[i : i + size] for i in range(0, len(samples), size)]


def _series(
    groups: Sequence[Sequence[Sample]], of: Callable[[Sample], float], best: Callable[[Iterable[float]], float] = max
) -> list[Point]:
    """A value for each group of samples: the highest, so that no peak is lost."""
    return [(group[0].at, best(of(sample) for sample in group)) for group in groups]


def _load(
    study: Study, run: RunResult, name: str, of: Callable[[Sample], ResourcePoint], pool: str | None = None
) -> Picture:
    """Load and levels of one resource. pool: whose; None for the default pool."""
    chart = Chart(study.start, study.end, 100.0, height=280, unit="% of allocatable", title=f"{name} load and levels")
    groups = _thinned(run.points)
    ordinary = _series(groups, lambda sample: of(sample).ordinary)
    load = _series(groups, lambda sample: of(sample).load)
    chart.area(load, RUNNING, below=ordinary)
    chart.area(ordinary, ORDINARY)
    chart.line(load, LOAD, width=1.0)
    states = [(point.at, point.state if pool is None else point.pools[pool].state) for point in run.points]
    for first, last in _stretches(states, "Evicting"):
        chart.span(first, min(last, study.end), EVICTING)
    for level, colour, dashed in LEVELS:
        chart.line(_series(groups, lambda s, level=level: getattr(of(s), level)), colour, dashed=dashed)  # type: ignore[misc]
    legend = (
        ("regular pods", ORDINARY),
        ("scavenger jobs", RUNNING),
        *((f"{level} level", colour) for level, colour, _ in LEVELS),
        ("evicting (tinted)", EVICTING),
    )
    return Picture(f"{name}: load against levels", chart.svg(), legend)


def _stretches(states: Sequence[tuple[float, str]], state: str) -> Iterator[tuple[float, float]]:
    """From when to when a state held. states: with the moments from which they hold."""
    begin: float | None = None
    for at, one in states:
        if one == state and begin is None:
            begin = at
        elif one != state and begin is not None:
            yield begin, at
            begin = None
    if begin is not None:
        yield begin, states[-1][0]


def _running(study: Study, run: RunResult) -> Picture:
    groups = _thinned(run.points)
    running = _series(groups, lambda sample: sample.running)
    waiting = _series(groups, lambda sample: sample.waiting)
    most = max((value for _, value in (*running, *waiting)), default=1.0)
    chart = Chart(study.start, study.end, most * 1.05, height=200, unit="jobs", title="Jobs running and waiting")
    chart.area(running, RUNNING)
    chart.line(waiting, "#d95f02")
    return Picture("Jobs running and waiting", chart.svg(), (("running", RUNNING), ("waiting", "#d95f02")))


def _leaving(study: Study, moments: Sequence[Moment]) -> Picture:
    width = (study.end - study.start) / BINS
    counts = Counter((min(int((moment.at - study.start) / width), BINS - 1), moment.kind) for moment in moments)
    totals = Counter(at for at, _ in counts.elements())
    chart = Chart(
        study.start, study.end, max(totals.values()) * 1.05, height=200, unit="jobs", title="Who left, and why"
    )
    for at in range(BINS):
        low = 0
        for kind, (label, colour) in LEFT_BY.items():
            count = counts[at, kind]
            if count:
                begin = study.start + at * width
                chart.bar(begin, begin + width, low, low + count, colour, f"{count} {label}")
                low += count
    used = {moment.kind for moment in moments}
    return Picture("Who left, and why", chart.svg(), tuple(LEFT_BY[kind] for kind in LEFT_BY if kind in used))


def _lanes(study: Study, run: RunResult) -> Picture:
    """Some jobs as lanes: those that lost most first, then those that ran longest, shown by submission."""
    moments: dict[str, list[Moment]] = {}
    for moment in run.moments:
        moments.setdefault(moment.job, []).append(moment)
    ran = [job for job in run.jobs if job.name in moments]
    ran.sort(key=lambda job: (-job.lost, -job.useful, job.name))
    chosen = sorted(ran[:LANES], key=lambda job: (job.submitted, job.name))
    height = int(len(chosen) * LANE_HEIGHT) + 60
    chart = Chart(study.start, study.end, 1.0, height=height, unit="", title="Runs of the jobs that lost most")
    used: set[MomentKind] = set()
    for row, job in enumerate(chosen):
        about = f"{job.name}, {number(job.cores, 1)} cores, {seconds(job.work_seconds)} of work"
        used |= _lane(chart, row * LANE_HEIGHT, moments[job.name], study.end, about)
    legend = (("running", RUNNING), *(LEFT_BY[kind] for kind in LEFT_BY if kind in used))
    heading = f"Who ran, and how each run ended: the {len(chosen)} of {len(ran)} jobs that lost most"
    return Picture(heading, chart.svg(), legend)


def _lane(chart: Chart, row: float, moments: Sequence[Moment], end: float, about: str) -> set[MomentKind]:
    """Draw the runs of a job; returns how they ended."""
    begin: float | None = None
    marks = []
    for moment in moments:
        if moment.kind is MomentKind.STARTED:
            begin = moment.at
            continue
        if begin is not None:
            label, colour = LEFT_BY[moment.kind]
            tip = f"{about}: {label} after {seconds(moment.at - begin)}, {number(moment.lost)} core-seconds lost"
            chart.lane(row, begin, moment.at, LANE_HEIGHT - 2, RUNNING, tip)
            marks.append((moment.at, colour, tip, moment.kind))
        begin = None
    if begin is not None:
        chart.lane(row, begin, end, LANE_HEIGHT - 2, RUNNING, f"{about}: still runs at the end")
    for at, colour, tip, _ in marks:
        chart.mark(row, at, LANE_HEIGHT - 2, colour, tip)
    return {kind for *_, kind in marks}
