"""What all components read alike: the ConfigMap `scavenger-settings`, read in one place.

The chart scavenger-base writes it, and cluster administrators may edit it. Admitter, regulator, prioritizer watch it,
`kubectl sj` reads it with each command, and the scheduler plugin has a parser of its own (settings.go), which is tested
against the same table of cases (services/scheduler/pkg/preemption/testdata/settings_cases.json).

A reader must be safe whatever stands in it, so `SharedSettings.read` never raises: a bad value leaves the last
good one, and is told in words. A missing key has its default, as in a ConfigMap that an older chart wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from scavenger_api import names
from scavenger_api.weights import BLANKS, DEFAULT_WEIGHTS, Weights, read_amount, weights_of

MOST_SECONDS: Final = names.MAX_INTERRUPTION_AFTER_SECONDS
"""No job may promise checkpoints less often, so that nothing here means anything beyond."""

SECONDS: Final = "_seconds"
"""The end of the names of durations. The flags of the components do not have it."""


@dataclass(frozen=True, slots=True)
class SharedSettings:
    """The content of `scavenger-settings`. A key of the ConfigMap is the name of the field in camel case.

    Attributes:
        startup_cost_seconds: added per core to the unsaved work of a job until the first checkpoint after its start.
        trusted_interval_seconds: the longest `interruptionAfter` that is taken at its word.
        start_over_window_seconds: a job is preemptible for so long after a checkpoint, reported or due, and for so long
            and the start-up cost after a start.
        minimum_run: whether a job that was interrupted runs for its checkpoint interval before it is taken again.
        resource_weights: what the resources of a pod count as.
    """

    startup_cost_seconds: float = names.DEFAULT_STARTUP_COST_SECONDS
    trusted_interval_seconds: float = names.DEFAULT_TRUSTED_INTERVAL_SECONDS
    start_over_window_seconds: float = names.DEFAULT_START_OVER_WINDOW_SECONDS
    minimum_run: bool = False
    resource_weights: Weights = DEFAULT_WEIGHTS

    @property
    def startup_cost(self) -> int:
        """`startup_cost_seconds` in whole microseconds, as decisions count."""
        return _micros(self.startup_cost_seconds)

    @property
    def trusted_interval(self) -> int:
        """`trusted_interval_seconds` in whole microseconds."""
        return _micros(self.trusted_interval_seconds)

    @property
    def start_over_window(self) -> int:
        """`start_over_window_seconds` in whole microseconds."""
        return _micros(self.start_over_window_seconds)

    def read(self, data: Mapping[str, str]) -> Reading:
        """What the ConfigMap says. Never raises.

        Args:
            data: of the ConfigMap; empty where there is none. Keys of other versions are left alone.

        Returns:
            the settings, in which bad keys have the value that they have here, and what is wrong with each of those.
        """
        found: dict[str, Any] = {}
        problems: dict[str, str] = {}
        for key, field in FIELDS.items():
            if key not in data:
                continue
            try:
                found[field] = _READERS[field](data[key])
            except ValueError as error:  # WeightsError is one
                problems[key] = str(error)
                found[field] = getattr(self, field)
        return Reading(replace(SharedSettings(), **found), MappingProxyType(problems))

    def to_data(self) -> dict[str, str]:
        """The `data` of a ConfigMap that says so."""
        return {key: _text(getattr(self, field)) for key, field in FIELDS.items()}


class Reading(NamedTuple):
    """What was read: the settings, and by key what is wrong with its value."""

    settings: SharedSettings
    problems: Mapping[str, str]


def _micros(seconds: float) -> int:
    return round(seconds * 1_000_000)


def key_of(field: str) -> str:
    """The key of a field: `startupCostSeconds` of `startup_cost_seconds`."""
    first, *rest = field.split("_")
    return first + "".join(word.capitalize() for word in rest)


def flag_field(field: str) -> str:
    """The field of a service's settings that had the value until now: `startup_cost` of `startup_cost_seconds`."""
    return field.removesuffix(SECONDS)


FIELDS: Final[Mapping[str, str]] = MappingProxyType({key_of(one.name): one.name for one in fields(SharedSettings)})
"""The field of each key."""


def _text(value: float | bool | Weights) -> str:
    if isinstance(value, Weights):
        return value.text()
    return str(value).lower() if isinstance(value, bool) else f"{value:.10g}"


def _seconds(least: float) -> Callable[[str], float]:
    def read(text: str) -> float:
        seconds = read_amount(text)
        if seconds is None or not least <= seconds <= MOST_SECONDS:
            raise ValueError(f"{text[:80]!r} is no number of seconds from {least:g} to {MOST_SECONDS:.0f}")
        return seconds

    return read


def _truth(text: str) -> bool:
    found = text.strip(BLANKS)
    if found not in ("true", "false"):
        raise ValueError(f"{text[:80]!r} is neither true nor false")
    return found == "true"


_READERS: Final[Mapping[str, Callable[[str], Any]]] = MappingProxyType(
    {
        "startup_cost_seconds": _seconds(0),
        "trusted_interval_seconds": _seconds(1),
        "start_over_window_seconds": _seconds(0),
        "minimum_run": _truth,
        "resource_weights": weights_of,
    }
)

DEFAULT_SETTINGS: Final = SharedSettings()
