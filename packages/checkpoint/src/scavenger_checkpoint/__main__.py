"""The command line: `python -m scavenger_checkpoint test -- COMMAND`."""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from scavenger_checkpoint.comparison import Result
from scavenger_checkpoint.contract import EXIT_SAVED
from scavenger_checkpoint.tester import Examination, Trial, Verdict

USAGE_ERROR = 2
DESCRIPTION = """\
Find out whether a program comes to the same result however it is interrupted.

COMMAND is run once uninterrupted. Then it is started in a fresh folder, sent SIGTERM or SIGKILL at a random moment, and
started again in the same folder, until it finishes; and all of it again until it was interrupted often enough. In a
folder of its own each time: its current one, and {folder} in the words of COMMAND. Name files outside of it by their
whole path.

Exit codes: 0 passed, 1 failed, 2 wrong usage, 3 never interrupted since it always finished before."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m scavenger_checkpoint", description="For programs in ScavengerJobs."
    )
    commands = parser.add_subparsers(required=True)
    test = commands.add_parser(
        "test",
        usage="python -m scavenger_checkpoint test [options] -- COMMAND [ARGUMENT ...]",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = test.add_argument
    add("--inputs", type=Path, metavar="DIR", help="files that every run begins with; they are copied")
    add("--result", action="append", default=[], metavar="FILE", help="must be the same, byte by byte; repeatable")
    add("--result-json", action="append", default=[], metavar="FILE", help="the same, value by value; repeatable")
    add("--tolerance", type=float, default=0.0, metavar="X", help="relative difference of numbers in JSON (0)")
    add("--ignore", action="append", default=[], metavar="KEY", help="key of the JSON not to compare; repeatable")
    add("--interruptions", type=_positive, default=6, metavar="N", help="how often it is interrupted (6)")
    add("--seed", type=int, help="of the random moments; by default a new one, which is printed")
    add("--by", choices=("seconds", "lines"), default="seconds", help="what moments are counted in (seconds)")
    add("--grace", type=float, default=30.0, metavar="S", help="seconds from SIGTERM to SIGKILL (30)")
    add("--limit", type=float, default=3600.0, metavar="S", help="seconds that one start may take (3600)")
    add("--exit-saved", type=int, default=EXIT_SAVED, metavar="CODE", help=f"checkpointExitCode ({EXIT_SAVED})")
    add("--folder", type=Path, metavar="DIR", help="new folder for runs and logs, which is kept; else a temporary one")
    add("command", nargs="+", metavar="COMMAND", help="the program and its arguments, after --")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def _trial(options: argparse.Namespace, folder: Path) -> Trial:
    ignored = frozenset(options.ignore)
    results = [Result(path) for path in options.result]
    results += [Result(path, True, options.tolerance, ignored) for path in options.result_json]
    command = [str(Path(options.command[0]).absolute()) if "/" in options.command[0] else options.command[0]]
    return Trial(
        command=command + options.command[1:],
        folder=folder,
        inputs=options.inputs,
        results=results,
        seed=random.SystemRandom().randrange(10**9) if options.seed is None else options.seed,
        interruptions=options.interruptions,
        grace=options.grace,
        limit=options.limit,
        by_lines=options.by == "lines",
        exit_saved=options.exit_saved,
    )


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code."""
    options = _parser().parse_args(words)
    if options.inputs is not None and not options.inputs.is_dir():
        sys.stderr.write(f"error: --inputs {options.inputs} is no folder\n")
        return USAGE_ERROR
    if options.folder is not None and options.folder.exists() and any(options.folder.iterdir()):
        sys.stderr.write(f"error: --folder {options.folder} is not empty; name a new one\n")
        return USAGE_ERROR
    folder = (options.folder or Path(tempfile.mkdtemp(prefix="scavenger-checkpoint-"))).absolute()
    trial = _trial(options, folder)
    _say(f"seed {trial.seed}: {trial.interruptions} interruptions, SIGTERM with {trial.grace:g} s of grace and SIGKILL")
    try:
        verdict = Examination(trial, _say).run()
    except OSError as error:
        sys.stderr.write(f"error: {error}\n")
        return USAGE_ERROR
    if options.folder is None and verdict is Verdict.PASSED:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        _say(f"runs and logs: {folder}")
    return int(verdict)


if __name__ == "__main__":
    sys.exit(main())
