"""Everything that charts, manifests and their documentation have in common, written once.

    python -m tools.generate_charts --write     write the files
    python -m tools.generate_charts --check     exit 1 with a diff when they are out of date

| source | what is written |
|---|---|
| `tools/values/common.schema.json` | values.schema.json of every component that runs |
| `tools/values/services.yaml` | values.yaml of every service |
| `tools/values/<component>.*` | the values that one chart has beside those of all |
| `tools/values/scavenger.yaml`, values.yaml of each component | values.yaml of the chart of all components |
| `services/*/settings.py` | the settings in both: a misspelt one is refused by name |
| `charts/scavenger-library/templates/_moved.tpl` | values that moved in the schemas: the chart refuses them in words |
| `packages/api` | the CRDs in `charts/scavenger-crds/files` |
| `charts/*`, rendered with their defaults | `manifests/base`, `manifests/<service>`, `manifests/uninstall` |
| the schemas, the rendered roles | `docs/charts.md` |
| Chart.yaml and values.yaml of each chart | its README.md |
"""

from __future__ import annotations

import argparse
import difflib
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import BeforeValidator
from pydantic.fields import FieldInfo
from scavenger_api import crd, names
from scavenger_cluster.build import ensure_tools
from scavenger_cluster.errors import ClusterError
from scavenger_runtime.settings import ServiceSettings, parse_seconds

from tools import rights

ROOT: Final = Path(__file__).resolve().parents[1]
VALUES: Final = ROOT / "tools" / "values"
MOVED: Final = ROOT / "charts" / "scavenger-library" / "templates" / "_moved.tpl"
SERVICES: Final = ("admitter", "regulator", "prioritizer", "webhook", "board")
LOOKED_AT: Final = frozenset({"board"})
"""Services that nothing in the cluster waits for: one replica."""
SCHEDULER: Final = "scheduler"
"""kube-scheduler with a plugin: flags, probes and values of its own, and nothing to clean up."""
NOT_OF_THE_SCHEDULER: Final = frozenset({"uninstall", "metrics", "extraEnv", "extraVolumes", "extraVolumeMounts"})
UMBRELLA: Final = "scavenger"
"""The chart of all components."""
CHARTS: Final = ("scavenger-crds", "scavenger-base", *(f"scavenger-{name}" for name in (*SERVICES, SCHEDULER)))
"""In the order they are installed."""

REGISTRY: Final = "localhost"
"""Of the images in manifests/: what is loaded into the nodes. No node finds it anywhere else."""

OPTIONS: Final = {
    "settings.snapshotImage": ("scavenger-admitter", "settings.snapshotImage=snapshot:1"),
    "reclaimed.enabled": ("scavenger-regulator", "reclaimed.enabled=true"),
    "global.adopt.enabled": ("scavenger-admitter", "global.adopt.enabled=true"),
    "global.disruptionCosts.pods": ("scavenger-prioritizer", "global.disruptionCosts.pods=true"),
    "global.disruptionCosts.workloads": ("scavenger-prioritizer", "global.disruptionCosts.workloads=true"),
}
"""Values that give a component more rights: the chart, and how they are set."""

USERS: Final = ("scavenger-jobs-", "scavenger-queues-")
"""Roles that are for users, not for components."""
NO_CA: Final = "bm9uZQ=="
"""In the place of the caBundle, of which each cluster has its own. manifests/ have none: docs/webhook.md."""

HEADER: Final = "generated from {source} by `python -m tools.generate_charts`; do not edit"
GIVEN_BY_THE_CHART: Final = frozenset(
    {
        "namespace",
        "kubeconfig",
        "context",
        "identity",
        "health_port",
        "metrics_tls_folder",
        "metrics_auth",
        "metrics_port",
        "added_metrics",
        "level_policies",
        "device_metrics",
    }
)
HANDED_DOWN: Final = frozenset({"scavenger-library"})
"""In the schemas because helm adds it to the values of every chart that has the library in it."""
DURATION: Final = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+$"
MANIFESTS_OF_A_SERVICE: Final = (
    "rbac",
    "secret",
    "policies",
    "configmap",
    "last-words",
    "deployment",
    "pdb",
    "service",
    "webhook-service",
    "networkpolicy",
    "configurations",
)
PAGE: Final = """\
<!-- {header} -->
# Values and rights of the charts

## Values

The charts of the components have the same values, beside the `settings` of each ([settings.md](settings.md)).
[configure.md](configure.md#values-of-the-components) says more about them.

{values}
## Rights

Each service account has the rights of this table and no others. The second scheduler also has Kubernetes' own roles
`system:kube-scheduler` and `system:volume-scheduler`. The table is that of `manifests/`, and of the charts by default.
The last rows are rights that a value of a chart adds.

The last column says what bounds the writes of a component: admission policies `scavenger-guard-NAME`
([security.md](security.md#admission-policies)), the name in the role, or why the right is accepted as it is.

{rights}"""

README: Final = """\
<!-- {header} -->
# {name}

{description}.

It needs Kubernetes {kubernetes} and Helm 3.14, or newer{before}. In a checkout:

```sh
helm upgrade --install {name} charts/{name} --namespace scavenger-system --create-namespace --wait{registry}
```

With a packaged chart, name its file in the place of `charts/{name}`.{more} The rest is in `docs/install.md` of the
repository.

## Values

`helm show values` prints each with its default and what it does.

| value | default |
|---|---|
{values}
"""

Files = dict[Path, str]
Schema = dict[str, Any]


# --- settings ---


def settings_of(service: str) -> type[ServiceSettings]:
    """The settings class of a service."""
    module = import_module(f"scavenger_{service}.settings")
    found: type[ServiceSettings] = getattr(module, f"{service.capitalize()}Settings")
    return found


def camel(name: str) -> str:
    """`start_timeout` as values.yaml has it: `startTimeout`."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def takes_durations(field: FieldInfo) -> bool:
    """Whether a setting is a number of seconds that can be written as `1h30m`."""
    return any(isinstance(entry, BeforeValidator) and entry.func is parse_seconds for entry in field.metadata)


def setting_schemas(settings: type[ServiceSettings]) -> dict[str, Schema]:
    """The schema of each setting, by its name in values.yaml."""
    whole = settings.model_json_schema()
    found = {}
    for name, field in settings.model_fields.items():
        if name in GIVEN_BY_THE_CHART:
            continue
        schema = _resolved(whole["properties"][name], whole.get("$defs", {}))
        if takes_durations(field):
            schema |= {"type": ["number", "string"], "pattern": DURATION}
        found[camel(name)] = schema
    return found


def _resolved(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> Schema:
    """Without `$ref`, null and what a reader of values.yaml has no use for."""
    schema = dict(node)
    if "$ref" in schema:
        schema = dict(definitions[schema.pop("$ref").rpartition("/")[2]]) | schema
    if "anyOf" in schema:
        present = [option for option in schema.pop("anyOf") if option.get("type") != "null"]
        schema = present[0] | schema
    schema.pop("title", None)
    unit = schema.pop("unit", None)
    if unit:
        schema["description"] = f"{schema['description']} ({unit})"
    return schema


def settings_block(service: str) -> str:
    """The settings in values.yaml: each with what it does and its default, commented out."""
    lines = [
        "# Every flag of the service (environment SCAVENGER_*). What is not given has the default shown here.",
        "# Durations are seconds, or 90s, 5m, 1h30m.",
        "settings: {}",
    ]
    for name, schema in setting_schemas(settings_of(service)).items():
        if schema.get("deprecated"):
            continue
        default = json.dumps(schema.get("default"))
        lines += [f"  # {schema['description']}", f"  # {name}: {default}"]
    return "\n".join(lines) + "\n"


# --- charts ---


def chart_files() -> Files:
    """What is written into charts/."""
    charts = ROOT / "charts"
    files = {charts / "scavenger-crds" / "files" / name: content for name, content in crd.files().items()}
    for service in SERVICES:
        head = "# " + HEADER.format(source=f"tools/values and the settings of the {service}") + "\n\n"
        values = (VALUES / "services.yaml").read_text().replace("SERVICE", service)
        if service in LOOKED_AT:
            values = values.replace("replicas: 2", "replicas: 1")
        files[charts / f"scavenger-{service}" / "values.yaml"] = head + values + "\n" + own_values(service)
    files[charts / UMBRELLA / "values.yaml"] = values_of_all(files)
    for component in (*SERVICES, SCHEDULER):
        schema = json.dumps(values_schema(component), indent=2)
        files[charts / f"scavenger-{component}" / "values.schema.json"] = schema + "\n"
    for name in (UMBRELLA, *CHARTS):
        path = charts / name / "values.yaml"
        files[charts / name / "README.md"] = readme(name, files[path] if path in files else path.read_text())
    return files


def readme(name: str, values: str) -> str:
    """README.md of a chart, as registries of charts and `helm show readme` show it. values: the text of values.yaml."""
    about = yaml.safe_load((ROOT / "charts" / name / "Chart.yaml").read_text())
    defaults = yaml.safe_load(values)
    shown = ((key, json.dumps(value)) for key, value in defaults.items())
    of_all = " Put the values of a component under the name of its chart." * (name == UMBRELLA)
    return README.format(
        header=HEADER.format(source="Chart.yaml and values.yaml"),
        name=name,
        description=about["description"],
        kubernetes=re.sub(r"^>=|\.0-0.*$", "", about["kubeVersion"]),
        before=f", and {' and '.join(f'`{chart}`' for chart in before(name))} in the cluster" if before(name) else "",
        registry=" \\\n    --set global.image.registry=registry.example.com"
        if "image" in defaults.get("global", {})
        else "",
        more=of_all,
        values="\n".join(f"| `{key}` | {f'`{text}`' if len(text) < _LONG else '…'} |" for key, text in shown),
    )


_LONG: Final = 60
"""Characters of a default that a table has no place for."""


def before(name: str) -> tuple[str, ...]:
    """The charts that are installed before this one, unless it is that of all."""
    if name == UMBRELLA:
        return ()
    return CHARTS[: min(CHARTS.index(name), 2)]


def values_of_all(files: Files) -> str:
    """values.yaml of the chart of all components: its own values, and those of each component, commented out.

    `helm show values` prints this file and none of the charts inside.
    """
    parts = [(VALUES / f"{UMBRELLA}.yaml").read_text()]
    for chart in CHARTS[1:]:
        path = ROOT / "charts" / chart / "values.yaml"
        text = files[path] if path in files else path.read_text()
        lines = [line for line in text.splitlines() if "do not edit" not in line]
        body = "\n".join(f"#   {line}".rstrip() for line in "\n".join(lines).strip().splitlines())
        parts.append(f"# {chart}:\n{body}\n")
    return "# " + HEADER.format(source="tools/values") + "\n\n" + "\n".join(parts)


def own_values(service: str) -> str:
    """The end of values.yaml: what one service's chart alone has, and its settings."""
    own = VALUES / f"{service}.yaml"
    return (own.read_text() + "\n" if own.exists() else "") + settings_block(service)


def values_schema(component: str) -> Schema:
    """The schema of the values of a component: those of all, and its own."""
    schema: Schema = json.loads((VALUES / "common.schema.json").read_text())
    own = VALUES / f"{component}.schema.json"
    if own.exists():
        schema["properties"] |= json.loads(own.read_text())["properties"]
    if component == SCHEDULER:
        schema["properties"] = {k: v for k, v in schema["properties"].items() if k not in NOT_OF_THE_SCHEDULER}
        for key in ("adopt", "disruptionCosts"):
            del schema["properties"]["global"]["properties"][key]
    else:
        schema["properties"]["settings"] = {
            "type": "object",
            "additionalProperties": False,
            "description": f"settings of the {component}",
            "properties": setting_schemas(settings_of(component)),
        }
    for path, words in moved().get(f"scavenger-{component}", {}).items():
        *above, key = path.split(".")
        node = schema
        for name in above:
            node = node["properties"][name]
        node["properties"][key] = {"description": f"refused: {words}", "deprecated": True}
    return schema


def moved() -> dict[str, dict[str, str]]:
    """Values that charts no longer have, by chart and path, and what to do in place of setting them."""
    text = MOVED.read_text()
    table = re.search(r'define "scavenger\.moved" -}}\n(.*?)\n{{- end }}', text, re.DOTALL)
    if table is None:
        raise ValueError(f"{MOVED.relative_to(ROOT)} has no table of values that moved")
    found: dict[str, dict[str, str]] = yaml.safe_load(table[1])
    return found


# --- manifests ---


def rendered(helm: Path, chart: str, *values: str) -> Iterator[tuple[str, str]]:
    """Each document of a chart with default values, and a registry: the template it comes from, and its text.

    Args:
        helm: the program.
        chart: its name.
        values: others than the default ones, as `--set` takes them.

    Raises:
        subprocess.CalledProcessError: when helm refuses the chart.
    """
    command: list[str | Path] = [
        helm,
        "template",
        chart,
        ROOT / "charts" / chart,
        f"--namespace={names.SYSTEM_NAMESPACE}",
    ]
    if chart not in CHARTS[:2]:
        command.append(f"--set=image.registry={REGISTRY}")
    if chart == "scavenger-webhook":
        command.append(f"--set=admission.caBundle={NO_CA}")
    command += [f"--set={value}" for value in values]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    text = re.sub(rf"^ *caBundle: {NO_CA}\n", "", text, flags=re.MULTILINE)
    for document in re.split(r"^---\n", text, flags=re.MULTILINE):
        source, _, body = document.partition("\n")
        if body.strip():
            lines = (line.rstrip() for line in body.strip().splitlines())
            yield Path(source.removeprefix("# Source: ")).stem, "\n".join(lines) + "\n"


def manifest_files(helm: Path) -> Files:
    """What is written into manifests/: a file per template, all of a service's in its folder."""
    files: Files = {}
    for chart in CHARTS[1:]:
        name = chart.removeprefix("scavenger-")
        folder = ROOT / "manifests" / name
        by_template: dict[str, list[str]] = {}
        for template, body in rendered(helm, chart):
            by_template.setdefault(template, []).append(without_hooks(body))
        head = f"# {HEADER.format(source=f'charts/{chart}')}\n"
        if "uninstall" in by_template:
            text = "---\n".join(by_template.pop("uninstall"))
            files[ROOT / "manifests" / "uninstall" / f"{name}.yaml"] = head + text
        for template, bodies in by_template.items():
            files[folder / f"{template}.yaml"] = head + "---\n".join(bodies)
        if name in (*SERVICES, SCHEDULER):
            parts = [part for part in MANIFESTS_OF_A_SERVICE if part in by_template]
            files[folder / "kustomization.yaml"] = (
                f"{head}apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n"
                + "".join(f"  - {part}.yaml\n" for part in parts)
            )
    return files


def without_hooks(body: str) -> str:
    """A document without the annotations that only helm understands."""
    return re.sub(r"^  annotations:\n(?:    helm\.sh/.*\n)+", "", body, flags=re.MULTILINE)


# --- documentation ---


def documentation(manifests: Files, options: Mapping[str, str]) -> Files:
    """docs/charts.md. options: as `with_options` gives them."""
    header = HEADER.format(source="tools/values and the roles of the charts")
    rights = rbac_table(manifests, options)
    return {ROOT / "docs" / "charts.md": PAGE.format(header=header, values=values_table(), rights=rights)}


def with_options(helm: Path) -> dict[str, str]:
    """The text of a chart with each of the values that give its component more rights."""
    return {
        option: "---\n".join(body for _, body in rendered(helm, chart, value))
        for option, (chart, value) in OPTIONS.items()
    }


def values_table() -> str:
    """The values that the charts of all services have."""
    schema = json.loads((VALUES / "common.schema.json").read_text())
    defaults = yaml.safe_load((VALUES / "services.yaml").read_text())
    lines = ["| value | default | |", "|---|---|---|"]
    for path, text in _described(schema, ""):
        if path in HANDED_DOWN:
            continue
        default: Any = defaults
        for key in path.split("."):
            default = default[key]
        shown = f"`{json.dumps(default)}`".replace("SERVICE", "<service>")
        if isinstance(default, dict) and default:
            shown = "see values.yaml"
        lines.append(f"| `{path}` | {shown} | {text} |")
    return "\n".join(lines) + "\n"


def _described(schema: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    for name, child in schema.get("properties", {}).items():
        if "description" in child:
            yield prefix + name, child["description"]
        else:
            yield from _described(child, f"{prefix}{name}.")


def rbac_table(manifests: Files, options: Mapping[str, str]) -> str:
    """Who may do what: every rule of every role that the charts install, and those that a value adds. Raises ValueError
    for a write that nothing bounds."""
    policies = rights.policies_of(manifests.values())
    lines = ["| role | where | may | on | writes are bound by |", "|---|---|---|---|---|"]
    for path, text in sorted(manifests.items()):
        during = ", during `helm uninstall`" if path.parent.name == "uninstall" else ""
        lines += [_row(role, during, rule, policies) for role, rule in _rules(text)]
    known = [found for text in manifests.values() for found in _rules(text)]
    for option, text in options.items():
        more = rights.policies_of([*manifests.values(), text])
        added = (found for found in _rules(text) if found not in known)
        lines += [_row(role, f", with `{option}`", rule, more) for role, rule in added]
    return "\n".join(lines) + "\n"


def _rules(text: str) -> Iterator[tuple[tuple[str, str], Mapping[str, Any]]]:
    """The rules of the roles in a manifest, each with the name of its role, and where that holds."""
    for document in yaml.safe_load_all(text):
        if document and document["kind"] in ("ClusterRole", "Role"):
            own = rights.namespace_of(document) or "own namespace"
            where = "cluster" if document["kind"] == "ClusterRole" else own
            yield from (((where, document["metadata"]["name"]), rule) for rule in document["rules"])


def _row(role: tuple[str, str], when: str, rule: Mapping[str, Any], policies: Sequence[rights.Policy]) -> str:
    where, name = role
    cells = (f"`{name}`", where + when, _verbs(rule), _objects(rule), _bounds(name, rule, policies))
    return f"| {' | '.join(cells)} |".replace("|  |", "| |")


def _verbs(rule: Mapping[str, Any]) -> str:
    return ", ".join(rule["verbs"])


def _bounds(name: str, rule: Mapping[str, Any], policies: Sequence[rights.Policy]) -> str:
    if name.startswith(USERS):
        return ""
    found = (names or (accepted,) for _, names, accepted in rights.bounds(name, rule, policies))
    said = dict.fromkeys(one for names in found for one in names)
    return ", ".join(one if ":" in one or one == "the name" else f"`{one}`" for one in said)


def _objects(rule: Mapping[str, Any]) -> str:
    groups = "/".join(group or "core" for group in rule["apiGroups"])
    only = ", ".join(f"`{name}`" for name in rule.get("resourceNames", ()))
    return f"{', '.join(rule['resources'])} ({groups})" + (f": only {only}" if only else "")


# --- write or check ---


def stale(wanted: Files) -> list[Path]:
    """Files in wholly generated folders that nothing writes any more."""
    folders = {path.parent for path in wanted if path.parent.name in {*SERVICES, SCHEDULER, "files", "uninstall"}}
    return sorted({file for folder in folders for file in folder.glob("*") if file.is_file()} - set(wanted))


def write(files: Files) -> int:
    """Write what has changed; returns how many files those are."""
    changed = {path: text for path, text in files.items() if not path.exists() or path.read_text() != text}
    for path, text in changed.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for path in stale(files):
        path.unlink()
    return len(changed)


def check(files: Files) -> int:
    """Print what would change; returns how many files those are."""
    wrong = 0
    for path in [*files, *stale(files)]:
        old = path.read_text() if path.exists() else ""
        new = files.get(path, "")
        if old != new:
            wrong += 1
            shown = str(path.relative_to(ROOT))
            diff = difflib.unified_diff(old.splitlines(True), new.splitlines(True), shown, f"{shown} (generated)")
            sys.stdout.writelines(diff)
    return wrong


def main(words: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.generate_charts", description=__doc__.partition("\n")[0])
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--write", action="store_true", help="write the files")
    mode.add_argument("--check", action="store_true", help="exit 1 with a diff when they are out of date")
    act = write if parser.parse_args(words).write else check
    try:
        helm = ensure_tools(["helm"], lambda line: print(line, file=sys.stderr, flush=True))["helm"]  # noqa: T201
        wrong = act(chart_files())  # first: the manifests are rendered from them
        manifests = manifest_files(helm)
        wrong += act(manifests | documentation(manifests, with_options(helm)))
    except ClusterError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    except subprocess.CalledProcessError as error:
        sys.stderr.write(f"error: {error.stderr}\n")
        return 1
    if act is check and wrong:
        sys.stderr.write(f"{wrong} files are out of date; run: make generate\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
