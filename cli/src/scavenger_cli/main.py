"""The entry point of `kubectl sj`: the commands by name, and every way a command can end.

The command that is asked for is loaded, and of the others none; modules that only some commands need (rich, yaml) are
imported where they are used: what ends after 0.3 seconds is not to spend as long on loading what it does not use.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, Final

import msgspec
import typer
from scavenger_kube.errors import ApiError
from typer.exceptions import TyperException

from scavenger_cli.access import declare, global_parameters, interruptible
from scavenger_cli.exits import CliError, ExitCode, Interrupted
from scavenger_cli.output import note, say, say_error
from scavenger_cli.remedies import as_cli_error

_OPTIONS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


HELP = """Submit, watch and understand scavenger jobs: low-priority jobs that run on idle capacity.

\b
Examples:
  kubectl sj run pi --image python:3.12 --user 65532 --cpu 1 --memory 1Gi --command -- python pi.py
  kubectl sj why pi
  kubectl sj logs -f pi

\b
Exit codes: 0 done, 1 refused or unreachable, 2 wrong command line, 3 not found,
4 the job failed, 5 timed out, 130 Ctrl-C.
"""


def _app(help: str) -> typer.Typer:
    return typer.Typer(
        help=help,
        no_args_is_help=True,
        add_completion=False,  # kubectl completes by kubectl_complete-sj
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # rich would double the time of --help
        context_settings=_OPTIONS,
    )


def own_version() -> str:
    """The version of this program, as it was installed."""
    from importlib.metadata import PackageNotFoundError, version

    for distribution in ("scavenger-cli", "kubectl-sj"):
        with suppress(PackageNotFoundError):
            return version(distribution)
    return "unknown"


def _show_version(wanted: bool) -> None:
    if wanted:
        say(own_version())
        raise typer.Exit


def root(**flags: Any) -> None:
    """What is asked before any command: the global flags, which a command reads from its context."""


def queues_root(**flags: Any) -> None:
    """The same between `queue` and its command."""


VERSION = Annotated[bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Print the version.")]
_VERSION = inspect.Parameter("show_version", inspect.Parameter.KEYWORD_ONLY, annotation=VERSION, default=False)

COMMANDS: Final = {
    "lint": "linting.lint",
    "convert": "converting.convert",
    "submit": "submitting.submit",
    "sbatch": "batching.sbatch",
    "run": "submitting.run",
    "list": "listing.list_jobs",
    "get": "showing.get",
    "describe": "describing.describe",
    "watch": "listing.watch",
    "history": "listing.history",
    "tasks": "arrays.tasks",
    "retry": "arrays.retry",
    "logs": "showing.logs",
    "wait": "changing.wait",
    "why": "showing.why",
    "suspend": "changing.suspend",
    "resume": "changing.resume",
    "move": "changing.move",
    "resubmit": "resubmitting.resubmit",
    "cancel": "changing.cancel",
    "delete": "changing.delete",
    "release": "releasing.release",
    "top": "showing.top",
    "recommend": "recommending.recommend",
    "levels": "showing.levels",
    "board": "boarding.board",
    "doctor": "examining.doctor",
    "version": "describing.version",
    "simulate": "simulating.simulate",
}
"""Every command, by the module of `commands` and the function in it."""
QUEUE_COMMANDS: Final = {
    "create": "queues.create",
    "list": "queues.list_queues",
    "get": "queues.get",
    "view": "queues.get",
    "set": "queues.change",
    "close": "queues.close",
    "open": "queues.open_queue",
    "delete": "queues.delete",
}
SETTINGS: Final = {
    "simulate": {"allow_extra_args": True, "ignore_unknown_options": True},
    "sbatch": {"allow_interspersed_args": False, "ignore_unknown_options": True},
}
"""What these commands do not know themselves is the simulator's, and Slurm's."""


def application(words: Collection[str] = ()) -> typer.Typer:
    """The command line, with the commands that are among the words; with all where none is.

    To load all of them takes a fifth of the time of a whole `kubectl sj list`.
    """
    app = _app(HELP)
    app.callback()(declare(root, [_VERSION, *global_parameters(hidden=False, namespace=True)]))
    named = [name for name in (*COMMANDS, "queue") if name in words]
    _add(app, [name for name in named or COMMANDS if name != "queue"], COMMANDS)
    if "queue" in (named or ["queue"]):
        queues = _app("Queues: weighted shares of what scavenging may use.")
        queues.callback()(declare(queues_root, global_parameters(hidden=True, namespace=True)))
        _add(queues, [name for name in QUEUE_COMMANDS if name in words] or QUEUE_COMMANDS, QUEUE_COMMANDS)
        app.add_typer(queues, name="queue")
    return app


def _add(app: typer.Typer, names: Iterable[str], functions: Mapping[str, str]) -> None:
    for name in names:
        module, _, function = functions[name].partition(".")
        settings = {**_OPTIONS, **SETTINGS.get(name, {})}
        command = getattr(importlib.import_module(f"scavenger_cli.commands.{module}"), function)
        app.command(name, context_settings=settings)(command)


PLAIN: Final = (
    (r"Input should be a valid integer.*", "write a whole number"),
    (r"Input should be a valid number.*", "write a number"),
    (r"Input should be greater than or equal to (\S+)", r"write \1 or more"),
    (r"Input should be less than or equal to (\S+)", r"write \1 or less"),
)
"""What typer says in the words of its library for validation, and what to say instead."""

DRY_RUNS: Final = {"--dry-run=server": "--dry-run", "--dry-run=client": "--dry-run-client"}
"""kubectl's values of an option that may also stand alone, which typer has no words for."""


def without_values(words: Sequence[str]) -> list[str]:
    """A command line with flags in the place of DRY_RUNS; what follows `--` or `sbatch` is the program's own."""
    end = min((words.index(word) for word in ("--", "sbatch") if word in words), default=len(words))
    return [*(DRY_RUNS.get(word, word) for word in words[:end]), *words[end:]]


COMPLETIONS = ("kubectl_complete-sj", "kubectl_complete-scavenger")
"""What kubectl calls for the tab key. `kubectl sj` as one file is that too, by a link of such a name."""


def main() -> None:
    """Run the command line, and end the process with one of ExitCode."""
    if os.path.basename(sys.argv[0]) in COMPLETIONS:  # noqa: PTH119 - pathlib is not needed otherwise
        from scavenger_cli import complete

        complete.main()
        return
    interruptible()
    try:
        words = without_values(sys.argv[1:])
        code = application(words)(args=words, prog_name="kubectl sj", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else ExitCode.OK)
    except TyperException as error:
        _say_misuse(error)
        sys.exit(ExitCode.USAGE)
    except CliError as error:
        say_error(error)
        sys.exit(error.code)
    except ApiError as error:
        say_error(as_cli_error(error))
        sys.exit(as_cli_error(error).code)
    except msgspec.DecodeError as error:
        # A portal that wants a login answers 200 with a page of its own.
        say_error(CliError(f"the answer is not that of an API server: {error}", "check the server of the kubeconfig"))
        sys.exit(ExitCode.ERROR)
    except Interrupted:
        sys.exit(ExitCode.INTERRUPTED)
    except BrokenPipeError:  # as in `kubectl sj list | head`: the reader is gone, and no message is printed
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(ExitCode.OK)


def _say_misuse(error: TyperException) -> None:
    """What is wrong with the words of the command line; of a group without a command, its help."""
    message = getattr(error, "format_message", lambda: str(error))()
    if message.startswith("Usage:"):
        note(message)
        return
    for pattern, plain in PLAIN:
        message = re.sub(pattern, plain, message)
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "kubectl sj"
    say_error(CliError(message[:1].lower() + message[1:].removesuffix("."), f"`{path} -h` shows what it takes"))


if __name__ == "__main__":
    main()
