"""`tuner`: asks for configurations, says what has become of them, brings tables up to date, and runs the service."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from alembic.util import CommandError
from pydantic import ValidationError
from scavenger_runtime.service import run_service
from scavenger_runtime.settings import ENV_PREFIX
from sqlalchemy.exc import ArgumentError, DBAPIError

from scavenger_tuner.controller import main as service
from scavenger_tuner.database.reading import everything
from scavenger_tuner.database.schema import migrate
from scavenger_tuner.database.store import ask
from scavenger_tuner.report import Found, Listed, as_csv, found, list_table, listed, results_table
from scavenger_tuner.settings import DATABASE_URL, TunerSettings
from scavenger_tuner.study import Study, StudyError, explain

EXIT_FAILED = 1
EXIT_USAGE = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["run"]:
        return run_service(TunerSettings.load(words[1:]), service)
    given = _parser().parse_args(words)
    command: Callable[[argparse.Namespace], str] = given.command
    try:
        sys.stdout.write(command(given))
    except (StudyError, ValidationError) as error:
        return _fail(EXIT_USAGE, explain(error))
    except DBAPIError as error:
        return _fail(EXIT_FAILED, explain(error.orig or error))
    except (ArgumentError, CommandError, OSError) as error:
        return _fail(EXIT_FAILED, explain(error))
    return 0


def _fail(code: int, message: str) -> int:
    sys.stderr.write(f"tuner: error: {message}\n")
    return code


def _migrate(given: argparse.Namespace) -> str:
    return f"the tables have revision {migrate(given.database_url, given.to) or 'none'}\n"


def _add(given: argparse.Namespace) -> str:
    if given.file is not None:
        study = Study.read(given.file)
    else:
        study = Study(
            study=given.study,
            models=(given.model,),
            molecules=given.molecules,
            temperatures=(given.temperature,),
            seeds=(given.seed,),
            steps=given.steps,
            time_step=given.time_step,
        )
    asked = study.configurations()
    new = asyncio.run(ask(given.database_url, study.study, asked))
    return f"{new} added to study {study.study}, {len(asked) - new} were there\n"


def _list(given: argparse.Namespace) -> str:
    lines = [listed(*each) for each in asyncio.run(everything(given.database_url, given.study))]
    return as_csv(Listed, lines) if given.csv else list_table(lines)


def _results(given: argparse.Namespace) -> str:
    every = [found(*each) for each in asyncio.run(everything(given.database_url, given.study))]
    lines = [line for line in every if line is not None]
    return as_csv(Found, lines) if given.csv else results_table(lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tuner", description=__doc__, allow_abbrev=False)
    variable = f"{ENV_PREFIX}DATABASE_URL"
    database = argparse.ArgumentParser(add_help=False)
    database.add_argument(
        "--database-url",
        default=os.environ.get(variable, DATABASE_URL),
        metavar="URL",
        help=f"of PostgreSQL (default: {DATABASE_URL}; env: {variable})",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    one = commands.add_parser("migrate", parents=[database], help="bring the tables up to date")
    one.add_argument("--to", default="head", metavar="REVISION", help="or to a revision; `base`: remove them")
    one.set_defaults(command=_migrate)

    one = commands.add_parser("add", parents=[database], help="ask for configurations: a study file, or one")
    one.add_argument("file", nargs="?", type=Path, help="a study in YAML; without one, a single configuration")
    one.add_argument("--study", default="default")
    one.add_argument("--model", default="spce")
    one.add_argument("--molecules", type=int, default=500)
    one.add_argument("--temperature", type=float, default=298.15, help="kelvin")
    one.add_argument("--seed", type=int, default=1)
    one.add_argument("--steps", type=int, default=100_000)
    one.add_argument("--time-step", type=float, default=2.0, help="femtoseconds")
    one.set_defaults(command=_add)

    commands.add_parser("run", help="run the service: `tuner run --help` lists its settings", add_help=False)

    for name, text, command in (
        ("list", "all configurations, and what has become of them", _list),
        ("results", "what was found", _results),
    ):
        one = commands.add_parser(name, parents=[database], help=text)
        one.add_argument("--study", help="of that study only")
        one.add_argument("--csv", action="store_true", help="comma-separated values, numbers in full")
        one.set_defaults(command=command)
    return parser
