"""Pages to look things up in, generated from the code that they are about.

    python -m tools.reference --write     write them
    python -m tools.reference --check     exit 1 where one is out of date

| page | from |
|---|---|
| docs/api.md | the models of `packages/api`, as the CRDs have them |
| docs/settings.md | the settings classes of the services |
| docs/events.md | `scavenger_api.events` |
| docs/costs.md | `tools.costs`, which has the numbers from where they are enforced |
| the table of exit codes in docs/cli.md | `scavenger_cli.exits` |

docs/metrics.md and docs/dashboards.md are written by `tools.dashboards`; docs/reasons.md has what to do beside each
reason and is written by hand, and a test holds it to `scavenger_api.reasons`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from scavenger_api import crd, names
from scavenger_api.events import EVENTS
from scavenger_api.job import ScavengerJobSpec
from scavenger_api.shared_settings import SharedSettings
from scavenger_cli.exits import ExitCode
from scavenger_runtime.events import BURST
from scavenger_runtime.settings import ENV_PREFIX, ServiceSettings, is_deprecated

from tools import generate_charts as charts
from tools import generated as generated_files
from tools.costs import COSTS, THINGS, Bound
from tools.generated import ROOT

DOCS: Final = ROOT / "docs"
MARK: Final = "<!-- generated from the code by `python -m tools.reference`; do not edit -->\n"
EXITS: Final = re.compile(r"(<!-- exit codes: generated -->\n).*?(<!-- end -->)", re.DOTALL)

Schema = Mapping[str, Any]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    escaped = ([cell.replace("|", r"\|") for cell in line] for line in rows)
    body = "".join(f"| {' | '.join(line)} |\n" for line in escaped)
    return f"| {' | '.join(head)} |\n|{'---|' * len(head)}\n{body}".replace("|  |\n", "| |\n")


# --- docs/api.md ---

API_HEADER: Final = f"""\
{MARK}# ScavengerJob and ScavengerQueue

Every field of `{names.API_VERSION}`, with its type, its default, and what the API server accepts. A dot leads into an
object, `[]` into the entries of a list. Fields of a ScavengerJob's spec that are not called changeable stay as they
were created; `kubectl explain sj.spec` says the same of the CRDs of a cluster.
"""
KINDS: Final = (("ScavengerJob", "sj", crd.job_crd), ("ScavengerQueue", "sq", crd.queue_crd))
LIMITS: Final = (
    ("minimum", "at least {}"),
    ("maximum", "at most {}"),
    ("minLength", "at least {} characters"),
    ("maxLength", "at most {} characters"),
    ("minItems", "at least {} entries"),
    ("maxItems", "at most {} entries"),
)


LEAST: Final = "at least 1 characters"


def api_page() -> str:
    """The page."""
    parts = [API_HEADER]
    for kind, short, definition in KINDS:
        schema = definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        parts.append(f"\n## {kind} (`{short}`)\n\n{schema['description']}\n")
        for part in ("spec", "status"):
            rows = list(fields(schema["properties"][part], kind, part))
            head = ("field", "type", "default", "") if part == "spec" else ("field", "type", "")
            parts.append(f"\n### {part.capitalize()} of a {kind}\n\n{table(head, rows)}")
        parts.append(f"\n### What else must hold of a {kind}\n\n" + "".join(f"- {rule}\n" for rule in rules(schema)))
    return "".join(parts)


def fields(schema: Schema, kind: str, part: str, prefix: str = "") -> Iterator[Sequence[str]]:
    """A row for each field, those of objects below them. What is in the status has no defaults."""
    required = frozenset(schema.get("required", ()))
    for name, field in schema.get("properties", {}).items():
        path = f"{prefix}{name}"
        words = [field.get("description", "")]
        if name in required and part == "spec":
            words.append("Required.")
        if kind == "ScavengerJob" and part == "spec" and not prefix and name in ScavengerJobSpec.MUTABLE:
            words.append("Changeable.")
        if bounds := limits(field):
            words.append(f"({', '.join(bounds)})")
        default = (default_of(field),) if part == "spec" else ()
        yield (f"`{path}`", type_of(field), *default, " ".join(filter(None, words)))
        inner = field.get("items", field)
        yield from fields(inner, kind, part, f"{path}{'[]' if 'items' in field else ''}.")


def type_of(field: Schema) -> str:
    """In a word or two."""
    if field.get("x-kubernetes-int-or-string"):
        return "quantity"
    if "enum" in field:
        return " or ".join(f"`{value}`" for value in field["enum"])
    if "items" in field:
        return f"list of {type_of(field['items'])}"
    if isinstance(field.get("additionalProperties"), Mapping):
        return f"map of {type_of(field['additionalProperties'])}"
    return str(field.get("format") or field.get("type", ""))


def default_of(field: Schema) -> str:
    """As it is written in YAML; empty where there is none."""
    value = field.get("default")
    return "" if value in (None, {}, []) else f"`{str(value).lower() if isinstance(value, bool) else value}`"


def limits(field: Schema) -> list[str]:
    """What the schema itself refuses, in words."""
    found = [words.format(field[key]) for key, words in LIMITS if key in field]
    return ["not empty" if words == LEAST else words for words in found]


def rules(schema: Schema, path: str = "") -> Iterator[str]:
    """The messages of the CEL rules, with the field that they are about; those against change are said otherwise."""
    for rule in schema.get("x-kubernetes-validations", ()):
        if not rule["message"].startswith("immutable"):
            where = f"{path}{rule.get('fieldPath', '')}".lstrip(".")
            yield f"`{where}`: {rule['message']}" if where else rule["message"]
    for name, field in schema.get("properties", {}).items():
        yield from rules(field.get("items", field), f"{path}.{name}{'[]' if 'items' in field else ''}")


# --- docs/settings.md ---

SETTINGS_HEADER: Final = f"""\
{MARK}# Settings

Each setting of a service is a flag, an environment variable and a value of its chart: `--start-timeout`,
`{ENV_PREFIX}START_TIMEOUT` and `settings.startTimeout`. A flag goes before the variable, and that before the default.
Durations are seconds, or `90s`, `5m`, `1h30m`; lists are separated by commas, and are lists in values. A value that is
misspelt or out of its bounds is refused by helm, and by the service itself, by name. The service also refuses settings
that do not go together; what has to hold is listed below the table.
[configure.md](configure.md#settings) says how to set them, and what a change does.
"""
SHARED_SETTINGS: Final = """
## All components

The ConfigMap `scavenger-settings` has what admitter, regulator, prioritizer, scheduler plugin and `kubectl sj` read
alike. Set values of these names in the chart `scavenger-base`
([preemption-classes.md](preemption-classes.md#settings-of-all-components)).

"""
BOUNDS: Final = (
    ("minimum", "at least"),
    ("exclusiveMinimum", "above"),
    ("maximum", "at most"),
    ("exclusiveMaximum", "below"),
)
SERVICES: Final = charts.SERVICES


def settings_page() -> str:
    """The page."""
    common = ServiceSettings.model_fields
    parts = [SETTINGS_HEADER, "\n## Every service\n\n", settings_table(ServiceSettings, list(common))]
    parts.append(refusals(ServiceSettings, None))
    parts.append(SHARED_SETTINGS + shared_table())
    for service in SERVICES:
        found = charts.settings_of(service)
        own = [name for name, field in found.model_fields.items() if name not in common and not is_deprecated(field)]
        title, meaning = service.capitalize(), " ".join((found.__doc__ or "").split())
        parts.append(f"\n## {title}\n\n{meaning}\n\n{settings_table(found, own)}{refusals(found, ServiceSettings)}")
        other = [name for name in common if found.model_fields[name].default != common[name].default]
        if other := [name for name in other if common[name].default_factory is None]:
            changed = ", ".join(f"`{flag(name)}` is {shown(found, name)}" for name in other)
            parts.append(f"\nUnlike above, {changed}.\n")
    return "".join(parts)


def shared_table() -> str:
    """A row for each key of the ConfigMap that all components read, as the chart that writes it describes it."""
    schema = json.loads((ROOT / "charts" / "scavenger-base" / "values.schema.json").read_text())
    rows = []
    for key, default in SharedSettings().to_data().items():
        one = schema["properties"][key]
        said = [f"{words} {one[bound]:g}" for bound, words in BOUNDS if bound in one]
        rows.append((f"`{key}`", f"`{default}`", "; ".join([one["description"], *said])))
    return table(("key", "default", ""), rows)


def refusals(settings: type[ServiceSettings], but_for: type[ServiceSettings] | None) -> str:
    """What has to hold of several settings together, as its validators say it; not what holds of `but_for`."""
    known = but_for.__pydantic_decorators__.model_validators if but_for is not None else {}
    found = settings.__pydantic_decorators__.model_validators
    said = [" ".join((one.func.__doc__ or "").split()) for name, one in found.items() if name not in known]
    return "\nRefused where it does not hold:\n\n" + "".join(f"- {text}\n" for text in said) if any(said) else ""


def settings_table(settings: type[ServiceSettings], chosen: Sequence[str]) -> str:
    """A row for each of these settings."""
    properties = settings.model_json_schema()["properties"]
    rows = []
    for name in chosen:
        value = "the chart's own" if name in charts.GIVEN_BY_THE_CHART else f"`{charts.camel(name)}`"
        rows.append((f"`{flag(name)}`", value, shown(settings, name), words_of(settings, name, properties[name])))
    return table(("flag", "value in `settings`", "default", ""), rows)


def flag(name: str) -> str:
    """Of a setting."""
    return "--" + name.replace("_", "-")


def shown(settings: type[ServiceSettings], name: str) -> str:
    """The default, as one would write it."""
    field = settings.model_fields[name]
    value = field.default
    if field.default_factory is not None:
        return "new at each start"
    if charts.takes_durations(settings.model_fields[name]):
        return f"`{duration(value)}`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple | list):
        return f"`{','.join(str(one) for one in value)}`" if value else ""
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`" if value not in (None, "") else ""


def duration(seconds: float) -> str:
    """Seconds as a service reads them: `1h30m`."""
    rest, parts = float(seconds), ""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        count, rest = divmod(rest, size)
        parts += f"{count:.0f}{unit}" if count else ""
    return parts + (f"{rest:g}s" if rest or not parts else "")


def words_of(settings: type[ServiceSettings], name: str, schema: Schema) -> str:
    """What it does, its unit where that is no duration, what it may be, and its bounds."""
    text, unit = schema["description"], schema.get("unit", "")
    if unit and not charts.takes_durations(settings.model_fields[name]):
        text += f" ({unit})"
    if "enum" in schema:
        text += "; " + " or ".join(f"`{value}`" for value in schema["enum"])
    said = [f"{words} {schema[key]:g}" for key, words in BOUNDS if key in schema]
    return f"{text}; {', '.join(said)}" if said else text


# --- docs/events.md ---

EVENTS_HEADER: Final = f"""\
{MARK}# Events

What the components tell about an object, in `kubectl describe` and `kubectl get events`. Repetitions within ten
minutes are a count on the Event that is there, and about one object no more than {BURST} are written at once. The API
server forgets them after an hour, unless it is told otherwise (`--event-ttl`); no component decides by them.

    kubectl get events -A --field-selector reason=Interrupted

What a job waits for stands in its conditions ([reasons.md](reasons.md)). An Event says it where no waiting helps.
Of the Events on a ScavengerJob, an [adopted Job](adopted-jobs.md) has the warnings.
"""


def events_page() -> str:
    """The page."""
    parts = [EVENTS_HEADER]
    for by, kinds in groupby(EVENTS, key=lambda kind: kind.by):
        rows = [(f"`{one.reason}`", "Warning" if one.warning else "Normal", one.about, one.meaning) for one in kinds]
        parts.append(f"\n## `{by}`\n\n{table(('reason', 'type', 'on', ''), rows)}")
    return "".join(parts)


# --- exit codes ---


# --- docs/costs.md ---

COSTS_HEADER: Final = f"""\
{MARK}# What one object may cost

Tenants choose how large, how deep and how many their objects are. This page has a bound for each thing that they can
create. It names who enforces the bound, and the test that tries the worst that is let in. Tenants cannot create
ScavengerQueues.

Cluster administrators bound the number of objects of a namespace by a
[ResourceQuota](https://kubernetes.io/docs/concepts/policy/resource-quotas/). Set `count/scavengerjobs.scavenger.dev`
and `count/pods`, and `count/jobs.batch` where Jobs are adopted. Without them a namespace may have as many as the API
server stores.
"""


def costs_page() -> str:
    """The page."""
    head = ("cost", "of one", "of a namespace", "enforced by", "test")
    return COSTS_HEADER + "".join(
        f"\n## {thing}\n\n{table(head, [_cost_row(cost, bounds[cost]) for cost in COSTS if cost in bounds])}"
        for thing, bounds in THINGS.items()
    )


def _cost_row(cost: str, bound: Bound) -> Sequence[str]:
    file, _, name = bound.test.partition("::")
    return cost, bound.one, bound.namespace, bound.by, f"[{name}](../{file})"


def exit_codes(page: str) -> str:
    """The page of the command line, with the table as it should be. ValueError where it has no place for it."""
    rows = [(str(code.value), code.__doc__ or "") for code in ExitCode]
    text, count = EXITS.subn(rf"\g<1>\n{table(('code', 'means'), rows)}\n\g<2>", page)
    if count != 1:
        raise ValueError("docs/cli.md has no place for the exit codes")
    return text


def generated() -> dict[Path, str]:
    """What is to be in which file."""
    cli = DOCS / "cli.md"
    pages = {"api.md": api_page(), "settings.md": settings_page(), "events.md": events_page(), "costs.md": costs_page()}
    return {**{DOCS / name: text for name, text in pages.items()}, cli: exit_codes(cli.read_text())}


def main(words: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    return generated_files.main("tools.reference", __doc__ or "", generated, words)


if __name__ == "__main__":
    sys.exit(main())
