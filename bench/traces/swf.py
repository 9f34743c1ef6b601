"""Standard Workload Format: jobs of batch systems, as the Parallel Workloads Archive keeps them (version 2.2).

Of a line's 18 fields, submission (2), run time (4) and processors (5) are read; `;` begins a comment, -1 means unknown.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scavenger_simulator.inputs.demand_csv import MOST_PODS, Window
from scavenger_simulator.inputs.habits import Habits
from scavenger_simulator.inputs.reading import InputError, Row, lines
from scavenger_simulator.scenario import ScavengerDemand

LEAST_FIELDS: Final = 5
FIELDS: Final = ("job", "submit", "wait", "run", "processors")


@dataclass(frozen=True, slots=True)
class SwfJob:
    """A line of the log: name, seconds from the start of the window to its submission, run time, processors."""

    name: str
    submitted: float
    run_seconds: float
    processors: int

    def demand(self, seed: int, habits: Habits) -> ScavengerDemand:
        """As a scavenger job, a pod for each processor."""
        return habits.job(seed, self.name, self.submitted, self.run_seconds, pods=self.processors)


def read_swf(path: Path, window: Window) -> tuple[SwfJob, ...]:
    """The jobs submitted in the window.

    Jobs without a run time (cancelled, unknown) are left out. Raises InputError.
    """
    found = []
    for number, line in lines(path):
        words = line.split(maxsplit=LEAST_FIELDS)
        if not words or words[0].startswith(";"):
            continue
        if len(words) < LEAST_FIELDS:
            remedy = "a line has 18 fields with blanks between them: the Standard Workload Format"
            raise InputError(f"it has {len(words)} fields", remedy, source=str(path), line=number)
        row = Row(str(path), number, dict(zip(FIELDS, words, strict=False)))
        submit, run = row.number("submit", least=-1), row.number("run", least=-1)
        processors = max(1, math.ceil(row.number("processors", least=-1, most=MOST_PODS)))
        if run > 0 and window.start <= submit < window.end:
            found.append(SwfJob(f"swf-{words[0]}", submit - window.start, run, processors))
    return tuple(found)
