"""The program: `scavenger-simulator run|compare|tune`."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence

from scavenger_simulator.commands import options
from scavenger_simulator.commands.changes import parse_changes, settings_of
from scavenger_simulator.commands.comparison import compare
from scavenger_simulator.commands.options import Arguments
from scavenger_simulator.commands.progress import Progress
from scavenger_simulator.commands.tuning import tune
from scavenger_simulator.inputs.catalog import build
from scavenger_simulator.inputs.reading import InputError
from scavenger_simulator.policy import Policy
from scavenger_simulator.report.document import as_json
from scavenger_simulator.report.figures import Study
from scavenger_simulator.report.page import as_page
from scavenger_simulator.report.table import as_text
from scavenger_simulator.scenario import Scenario
from scavenger_simulator.simulation import simulate

INTERRUPTED = 130


def main(words: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code: 0 done, 1 an input cannot be used, 2 wrong command line."""
    arguments = options.parser(_run, _compare, _tune).parse_args(words)
    progress = Progress(sys.stderr, time.monotonic, silent=arguments.quiet)
    try:
        arguments.does(arguments, progress)
        return 0
    except InputError as error:
        return progress.refused(error)
    except BrokenPipeError:  # as in `… | head`: nobody reads on
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        progress.clear()
        sys.stderr.write("interrupted\n")
        return INTERRUPTED


def _scenarios(arguments: Arguments, progress: Progress) -> list[Scenario]:
    return [
        build(one, options.history(arguments, one.length, progress.told), progress.told)
        for one in options.sources(arguments)
    ]


def _run(arguments: Arguments, progress: Progress) -> None:
    _studies(arguments, progress, (arguments.policy,))


def _compare(arguments: Arguments, progress: Progress) -> None:
    _studies(arguments, progress, arguments.policies)


def _studies(arguments: Arguments, progress: Progress, policies: Sequence[Policy]) -> None:
    changes = parse_changes(arguments.set, *arguments.values)
    settings = settings_of(changes)
    found: list[Study] = []
    for scenario in _scenarios(arguments, progress):
        found.append(compare(scenario, settings, policies, simulate, progress, changes))
    progress.clear()
    sys.stdout.write(as_json(found) if arguments.output == "json" else "\n".join(as_text(study) for study in found))
    if arguments.html:
        _write_page(arguments, found)


def _write_page(arguments: Arguments, studies: Sequence[Study]) -> None:
    try:
        arguments.html.write_text(as_page(studies), encoding="utf-8")
    except OSError as error:
        remedy = "give a path that can be written"
        raise InputError(f"it cannot be written: {error.strerror}", remedy, source=str(arguments.html)) from error
    sys.stderr.write(f"charts: {arguments.html}\n")


def _tune(arguments: Arguments, progress: Progress) -> None:
    changes = parse_changes(arguments.set, *arguments.values)
    scenarios = _scenarios(arguments, progress)
    tuned = tune(scenarios, changes, simulate, progress, trials=arguments.trials, seed=arguments.seed)
    progress.clear()
    sys.stdout.write(tuned.as_json() if arguments.output == "json" else tuned.as_text())
