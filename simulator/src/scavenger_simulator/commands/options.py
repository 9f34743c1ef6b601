"""The command line: what can be said, and what it comes to."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from scavenger_simulator.commands.comparison import COMPARED
from scavenger_simulator.commands.progress import Progress
from scavenger_simulator.inputs.asking import over_http, through_api_server
from scavenger_simulator.inputs.catalog import NAMED, Sources, named
from scavenger_simulator.inputs.distributions import Distribution, parse_distribution, parse_value
from scavenger_simulator.inputs.habits import HABITS, Habits
from scavenger_simulator.inputs.prometheus import Ask, History, Range, Told, read_prometheus
from scavenger_simulator.inputs.reading import InputError
from scavenger_simulator.policy import Policy

Arguments = argparse.Namespace
Run = Callable[[Arguments, Progress], None]
"""What a command does."""


def _typed(parse: Callable[[str], Any], name: str) -> Callable[[str], Any]:
    """For argparse: a parser whose ValueErrors are shown in its own words."""

    def typed(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    typed.__name__ = name
    return typed


DURATION: Final = _typed(parse_value, "duration")


def _share(text: str) -> float:
    value = parse_value(text)
    if not 0 < value <= 1:
        raise ValueError(f"{text!r} is not above 0 and at most 1")
    return value


def _policies(text: str) -> tuple[Policy, ...]:
    if text == "all":
        return tuple(Policy)
    try:
        return tuple(Policy(word.strip()) for word in text.split(","))
    except ValueError:
        raise ValueError(f"policies are {', '.join(Policy)}; or all") from None


def _habit(text: str) -> tuple[str, Distribution]:
    name, equals, value = text.partition("=")
    name = name.strip().replace("-", "_")
    if not equals or name not in HABITS:
        raise ValueError(f"write NAME=DISTRIBUTION, with a name of {', '.join(HABITS)}")
    return name, parse_distribution(value)


def _weight(text: str) -> tuple[str, int]:
    name, _, weight = text.partition("=")
    if not name or not weight.isdecimal() or int(weight) < 1:
        raise ValueError("write NAME=WEIGHT, with a whole weight from 1 on")
    return name, int(weight)


def _moment(text: str) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is no time: write it as 2026-01-31T12:00:00Z") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def parser(run: Run, compare: Run, tune: Run) -> argparse.ArgumentParser:
    """Describe all commands, each with what it does."""
    top = argparse.ArgumentParser(
        prog="scavenger-simulator",
        description="What scavenging would have given a cluster: the services' own decisions on its past.",
    )
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    one = commands.add_parser("run", help="one policy, in detail")
    one.add_argument("--policy", type=_typed(lambda text: Policy(text), "policy"), default=Policy.OURS)
    several = commands.add_parser("compare", help="policies side by side on the same input")
    several.add_argument(
        "--policies",
        type=_typed(_policies, "policies"),
        default=COMPARED,
        metavar="P,P",
        help=f"of {', '.join(Policy)}; or all",
    )
    search = commands.add_parser("tune", help="search settings, and try what is found on other days")
    search.add_argument("--trials", type=int, default=60, help="settings to try (default 60)")
    for command, does in ((one, run), (several, compare), (search, tune)):
        command.set_defaults(does=does)
        _add_scenario(command)
        _add_prometheus(command)
        _add_settings(command)
        command.add_argument("-o", "--output", choices=("table", "json"), default="table", help="on standard output")
        command.add_argument("--quiet", action="store_true", help="no progress on standard error")
    for command in (one, several):
        command.add_argument("--html", type=Path, metavar="FILE", help="write a page with charts as well")
    return top


def _add_scenario(command: argparse.ArgumentParser) -> None:
    command.add_argument("scenario", nargs="+", metavar="SCENARIO", help=f"one or more of {', '.join(NAMED)}")
    group = command.add_argument_group("what is simulated (defaults are those of the scenario)")
    group.add_argument("--seed", type=int, default=1, help="of all that is drawn (default 1)")
    group.add_argument(
        "--ordinary", action="append", metavar="SOURCE", help="synthetic:PATTERN or prometheus; several add up"
    )
    group.add_argument("--nodes", help="auto, or COUNTxCPU:MEMORY[@POOL],… such as 20x16:64Gi,4x96:384Gi@gpu")
    group.add_argument(
        "--demand", action="append", metavar="SOURCE", help="csv:FILE, synthetic or none; several add up"
    )
    group.add_argument("--demand-start", type=DURATION, metavar="DURATION", help="where in the CSV file to begin")
    group.add_argument("--length", type=DURATION, metavar="DURATION", help="how long (default 1d)")
    group.add_argument("--pods", type=int, help="synthetic ordinary pods, about (default 1000)")
    group.add_argument(
        "--requested", type=_typed(_share, "share"), help="of the room at the peak, with auto nodes (0.5)"
    )
    group.add_argument("--demand-share", type=_typed(_share, "share"), help="work asked for, of all CPU time (0.6)")
    group.add_argument(
        "--queue", action="append", type=_typed(_weight, "queue"), metavar="NAME=WEIGHT", help="of a queue"
    )
    group.add_argument(
        "--job",
        action="append",
        type=_typed(_habit, "habit"),
        metavar="NAME=DISTRIBUTION",
        help=f"how jobs behave: {', '.join(HABITS)}; as 30m, uniform:10m:2h or lognormal:30m:0.5",
    )
    group.add_argument("--reported", type=float, help="share of jobs that report their checkpoints (0.5)")


def _add_prometheus(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("the scenario `prometheus`: one's own cluster")
    group.add_argument("--prometheus-url", metavar="URL", help="its address, without /api")
    group.add_argument("--prometheus-service", metavar="NAMESPACE/SERVICE:PORT", help="or through the API server")
    group.add_argument("--prometheus-token-file", metavar="FILE", help="with a bearer token")
    group.add_argument("--prometheus-ca-file", metavar="FILE", help="with the authority of its certificate")
    group.add_argument("--to", type=_typed(_moment, "time"), metavar="TIME", help="end of the range (default: now)")
    group.add_argument("--step", type=DURATION, default=300.0, metavar="DURATION", help="of the range (default 5m)")
    group.add_argument("--kubeconfig", metavar="FILE", help="path of the kubeconfig")
    group.add_argument("--context", metavar="NAME", help="context of the kubeconfig")


def _add_settings(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("settings, by their names in charts/scavenger-regulator")
    group.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="such as reserve=15")
    said = "values of scavenger-regulator, scavenger-base or scavenger; may be repeated"
    group.add_argument("--values", type=Path, action="append", default=[], metavar="FILE", help=said)


def sources(arguments: Arguments) -> list[Sources]:
    """What each scenario is made of. Raises InputError."""
    return [_changed(named(name), arguments) for name in arguments.scenario]


def _changed(one: Sources, arguments: Arguments) -> Sources:
    given = {
        name: value
        for name in ("nodes", "demand_start", "length", "pods", "requested", "demand_share")
        if (value := getattr(arguments, name)) is not None
    }
    for name in ("ordinary", "demand"):
        if words := getattr(arguments, name):
            given[name] = tuple(words)
    habits = Habits(**dict(arguments.job or ()))
    if arguments.reported is not None:
        habits = replace(habits, reported=arguments.reported)
    changed = replace(one, **given, seed=arguments.seed, habits=habits, queues=dict(arguments.queue or ()))
    if not 0 < changed.length < math.inf or changed.pods < 1:
        raise InputError("nothing is to be simulated", "give a --length and --pods above 0")
    return changed


def history(arguments: Arguments, length: float, told: Told) -> Callable[[], History] | None:
    """What asks Prometheus for the last `length` seconds; None where it is not said where it is. Raises InputError."""
    if not (arguments.prometheus_url or arguments.prometheus_service):
        return None
    where = arguments.prometheus_url or arguments.prometheus_service
    end = arguments.to if arguments.to is not None else datetime.now(UTC).timestamp()
    # On a whole step, so that the same range asked for again has the same moments.
    end = math.floor(end / arguments.step) * arguments.step
    return lambda: read_prometheus(_asking(arguments), Range(end - length, end, arguments.step), where, told)


def _asking(arguments: Arguments) -> Ask:
    if arguments.prometheus_url:
        return over_http(
            arguments.prometheus_url,
            token_file=arguments.prometheus_token_file,
            ca_file=arguments.prometheus_ca_file,
        )
    return through_api_server(arguments.prometheus_service, path=arguments.kubeconfig, context=arguments.context)
