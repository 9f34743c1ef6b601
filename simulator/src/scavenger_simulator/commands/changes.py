"""What is set otherwise than by default: options of the regulator by their names in its chart, and a few of the run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final

import yaml
from pydantic import TypeAdapter, ValidationError
from scavenger_api.shared_settings import FIELDS, flag_field
from scavenger_api.weights import weights_of
from scavenger_prioritizer.core.snapshot import ShareOf
from scavenger_regulator.core.eviction.plan import SORTERS
from scavenger_regulator.settings import RegulatorSettings

from scavenger_simulator.inputs.distributions import parse_value
from scavenger_simulator.inputs.reading import InputError
from scavenger_simulator.report.document import camel_case
from scavenger_simulator.settings import Settings

OF_THE_RUN: Final = (
    "metrics_period",
    "metrics_age",
    "prioritizer_period",
    "admission_interval",
    "start_seconds",
    "keep_turn_after",
    "interrupted_first",
    "non_preemptible_wait",
    "full_wait_from",
    "starved_after",
)
"""Fields of Settings that are not the regulator's. All in seconds but interrupted_first."""
START_OVER_WINDOW: Final = "start_over_window"
"""The prioritizer's setting of that name, in seconds."""
SHARE_OF: Final = "share_of"
"""The prioritizer's setting of that name."""
RECLAIM_GANGS: Final = "reclaim_gangs"
"""The admitter's setting of that name."""
_NOT_OF_THE_REGULATOR: Final = (*OF_THE_RUN, START_OVER_WINDOW, SHARE_OF, RECLAIM_GANGS)
_CHOICES: Final[Mapping[str, Mapping[str, Any]]] = {
    "interrupted_first": {word: word for word in ("always", "short-runs", "least-served")},
    SHARE_OF: {share.value: share for share in ShareOf},
    RECLAIM_GANGS: {"false": False, "true": True},
}
"""Settings that are no seconds: the values that each takes, by their words."""
_MICROSECONDS: Final = 1_000_000
_OF_THE_REGULATOR: Final = {camel_case(name): name for name in RegulatorSettings.__annotations__}
_SHARED: Final = {key: flag_field(field) for key, field in FIELDS.items()}
"""What all components read alike, by the names in the chart scavenger-base."""
_NAMES: Final = {**_OF_THE_REGULATOR, **{camel_case(name): name for name in _NOT_OF_THE_REGULATOR}, **_SHARED}

REGULATOR_CHART: Final = "scavenger-regulator"
BASE_CHART: Final = "scavenger-base"
LEVEL_POLICIES: Final = "levelPolicies"
"""A value of the chart scavenger-regulator that is a list there, and a text for the service."""
WEIGHTS: Final = "resourceWeights"
"""A value of the chart scavenger-base that is a mapping there, and a text in the ConfigMap."""

Changes = dict[str, Any]
"""By name as in the chart, such as historyWindow: the value, checked."""


def parse_changes(words: Iterable[str], *values_files: Path) -> Changes:
    """From `--set NAME=VALUE` and files given to `helm --values`: of the charts scavenger-regulator and scavenger-base,
    or of scavenger, which has both. The former win, and later files go before earlier ones. Raises InputError."""
    found: Changes = {}
    for path in values_files:
        found = _with(found, _of_chart(path))
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise InputError(f"--set {word}: there is no value", "write NAME=VALUE, such as reserve=15")
        name = camel_case(name.strip().replace("-", "_"))
        if name not in _NAMES:
            remedy = f"names are those of charts/scavenger-regulator: {', '.join(sorted(_NAMES))}"
            raise InputError(f"--set {word}: there is no setting {name!r}", remedy)
        found = _with(found, {name: _checked(name, value.strip(), "--set")})
    return found


def _with(found: Changes, more: Changes) -> Changes:
    """Changes and later ones. One setting may have two names."""
    fields = {_NAMES[name] for name in more}
    return {name: value for name, value in found.items() if _NAMES[name] not in fields} | more


def _of_chart(path: Path) -> Changes:
    try:
        values = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"it cannot be read: {error}", "give the values of the chart", source=str(path)) from error
    if not isinstance(values, Mapping):
        values = {}
    regulator, base = (_part(values, chart) for chart in (REGULATOR_CHART, BASE_CHART))
    settings, shared = regulator.get("settings"), {name: base[name] for name in _SHARED if name in base}
    if not isinstance(settings, Mapping) and not shared and LEVEL_POLICIES not in regulator:
        remedy = (
            f"give the values of charts/{REGULATOR_CHART}, which have `settings`, or of charts/{BASE_CHART}, such as "
            "startupCostSeconds"
        )
        raise InputError("it has no settings", remedy, source=str(path))
    if isinstance(weights := shared.get(WEIGHTS), Mapping):
        shared[WEIGHTS] = ",".join(f"{name}={weight}" for name, weight in weights.items())
    # What the regulator alone is told, by a key of the last version, goes before. Other names are of the service and
    # not of its decisions: addresses, the election of a leader.
    told = {**shared, **(settings if isinstance(settings, Mapping) else {})}
    if policies := regulator.get(LEVEL_POLICIES):
        told[LEVEL_POLICIES] = json.dumps(policies)
    return {str(name): _checked(str(name), value, str(path)) for name, value in told.items() if name in _NAMES}


def _part(values: Mapping[str, Any], chart: str) -> Mapping[str, Any]:
    """The values of a chart, from its own or from those of the chart scavenger."""
    part = values.get(chart)
    return part if isinstance(part, Mapping) else values


def _checked(name: str, value: Any, source: str) -> Any:
    field = _NAMES[name]
    try:
        if field in _CHOICES:
            word = str(value).lower()  # YAML has true and false of its own
            if word not in _CHOICES[field]:
                raise ValueError(f"{value!r} is no value: choose from {', '.join(_CHOICES[field])}")
            return _CHOICES[field][word]
        if field in _NOT_OF_THE_REGULATOR:
            return parse_value(str(value))
        info = RegulatorSettings.model_fields[field]
        kind: Any = Annotated[info.annotation, info]
        adapter: TypeAdapter[Any] = TypeAdapter(kind)
        checked = adapter.validate_python(value)
        if field == "order" and (unknown := set(checked) - set(SORTERS)):
            raise ValueError(f"there is no sorter {min(unknown)!r}: choose from {', '.join(SORTERS)}")
        return checked
    except ValidationError as error:
        problem = f"{value!r} is no value: {error.errors()[0]['msg']}"
    except ValueError as error:
        problem = str(error)
    raise InputError(problem, "docs/levels.md says what the settings mean", source=source, field=name) from None


def settings_of(changes: Mapping[str, Any]) -> Settings:
    """The settings of a run with these changes. Raises InputError where they contradict each other, or are not
    simulated."""
    fields = {_NAMES[name]: value for name, value in changes.items() if value is not None}
    ours = {name: fields.pop(name) for name in OF_THE_RUN if name in fields}
    window = fields.pop(START_OVER_WINDOW, None)
    own: dict[str, Any] = {} if window is None else {"window": round(window * _MICROSECONDS)}
    own |= {SHARE_OF: fields.pop(SHARE_OF)} if SHARE_OF in fields else {}
    gangs = fields.pop(RECLAIM_GANGS, False)
    try:
        settings = Settings.of(**fields).changed(**ours)
        settings.check()
    except ValueError as error:
        raise InputError(str(error), "docs/settings.md says what goes together") from None
    # One setting of one name in two or three services.
    shared: dict[str, Any] = {}
    for name, known_as in (("startup_cost", "startup_cost"), ("trusted_interval", "trusted")):
        if name in fields:
            shared[known_as] = round(fields[name] * _MICROSECONDS)
    if "resource_weights" in fields:
        shared["weights"] = weights_of(fields["resource_weights"])
    preemption = replace(settings.preemption, minimum_run=fields.get("minimum_run", False), gangs=gangs, **shared)
    return settings.changed(prioritizer=replace(settings.prioritizer, **shared, **own), preemption=preemption)
