"""The CustomResourceDefinitions, generated from the models, and not edited by hand.

    python -m scavenger_api.crd --write manifests/crds     write the files
    python -m scavenger_api.crd --check manifests/crds     exit 1 with a diff when they are out of date

Pydantic speaks JSON Schema, the API server *structural* OpenAPI v3: no `$ref`, no `anyOf` with null, one type
per field. A default in the CRD is a promise that the API server fills the field in, so only values of `spec`
become defaults. Fields of a ScavengerJob's spec that are not in `ScavengerJobSpec.MUTABLE` may not change.

The API server evaluates the rules of the whole object at every write of its status, which are many. A field that a
rule reads costs it as much as there are fields beside it, so what need not be asked then is not
(docs/designs/0007-under-pressure.md).
"""

from __future__ import annotations

import argparse
import difflib
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from scavenger_api import names
from scavenger_api.job import ScavengerJob, ScavengerJobSpec
from scavenger_api.model import Model, cel
from scavenger_api.queue import ScavengerQueue

Schema = dict[str, Any]

HEADER: Final = "# generated from packages/api by `python -m scavenger_api.crd`; do not edit\n"
REMEDY: Final = f"create a new {ScavengerJob.__name__} instead"

AT_CREATION: Final = "oldSelf.hasValue() || "
"""Begins rules about what does not change: at any later write they hold without being looked at."""

RULES: Final = "x-kubernetes-validations"

_KEPT: Final = frozenset(
    {
        "description",
        "type",
        "format",
        "enum",
        "default",
        "pattern",
        "minLength",
        "maxLength",
        "minimum",
        "maximum",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
        "required",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-map-type",
        "x-kubernetes-preserve-unknown-fields",
        RULES,
    }
)
_DROPPED: Final = frozenset({"title", "$defs", "const"})
_NESTED: Final = frozenset({"$ref", "anyOf", "properties", "items", "additionalProperties"})


class SchemaError(Exception):
    """A model uses something that a structural schema cannot say."""


# --- JSON Schema to structural schema ---


def structural(model: type[Model], *, defaults: bool = True) -> Schema:
    """The structural schema of a model. Without `defaults`, the API server fills nothing in.

    Raises:
        SchemaError: when the model says something a structural schema has no word for.
    """
    schema = model.model_json_schema(by_alias=True)
    return _convert(schema, schema.get("$defs", {}), defaults=defaults)


def _convert(node: Mapping[str, Any], definitions: Mapping[str, Any], *, defaults: bool) -> Schema:
    node = _resolved(node, definitions)
    unknown = set(node) - _KEPT - _DROPPED - _NESTED
    if unknown:
        raise SchemaError(f"no structural schema for {sorted(unknown)} in {json.dumps(node)}")
    schema: Schema = {key: node[key] for key in node if key in _KEPT}
    if "description" in schema:
        schema["description"] = " ".join(schema["description"].split())
    if not defaults or schema.get("default") is None:
        schema.pop("default", None)
    if "const" in node:
        schema["enum"] = [node["const"]]
    if "anyOf" in node:  # only int-or-string is left; these two entries are part of how a CRD writes it
        schema["anyOf"] = node["anyOf"]
        schema.pop("type", None)
    if "items" in node:
        schema["items"] = _convert(node["items"], definitions, defaults=defaults)
    if isinstance(node.get("additionalProperties"), Mapping):
        schema["additionalProperties"] = _convert(node["additionalProperties"], definitions, defaults=defaults)
    if "properties" in node:
        schema["properties"] = {
            name: _convert(child, definitions, defaults=defaults) for name, child in node["properties"].items()
        }
    return schema


def _resolved(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> Schema:
    """The node with its `$ref` and its `anyOf [X, null]` folded in; what stands at the node itself wins."""
    if "$ref" in node:
        target = definitions[str(node["$ref"]).rpartition("/")[2]]
        own = {key: value for key, value in node.items() if key != "$ref"}
        return _resolved({**target, **own}, definitions)
    if "anyOf" in node and not node.get("x-kubernetes-int-or-string"):
        present = [option for option in node["anyOf"] if option.get("type") != "null"]
        if len(present) != 1:
            raise SchemaError(f"a field has one type in a structural schema, not {json.dumps(node['anyOf'])}")
        own = {key: value for key, value in node.items() if key != "anyOf"}
        return _resolved({**present[0], **own}, definitions)
    return dict(node)


# --- what the models do not say themselves ---


def immutability_rule(spec: type[ScavengerJobSpec], schema: Schema) -> dict[str, str]:
    """One transition rule for all fields that may not change: not their value, nor from absent to present or back.

    A field with a default, or a required one, is always there; the others need `has()`, or CEL stops with an error.
    Where nothing has changed, as in every write of a status, the fields are not compared one by one; where something
    has, the message says which.
    """
    required = frozenset(schema.get("required", ()))
    same: dict[str, str] = {}
    for name, field in schema["properties"].items():
        if name in spec.MUTABLE:
            continue
        parts = [_same(name, part, field) for part in spec.FIXED_PARTS.get(name, ())]
        same[name] = " && ".join(parts or [f"self.{name} == oldSelf.{name}"])
        if name not in required and "default" not in field:
            there, was_there = f"has(self.{name})", f"has(oldSelf.{name})"
            whole = f"({same[name]})" if len(parts) > 1 else same[name]
            same[name] = f"{there} == {was_there} && (!{there} || {whole})"
    changed = "".join(f"(({rule}) ? '' : 'spec.{name}: ') + " for name, rule in same.items())
    return cel(
        "self == oldSelf || (" + " && ".join(f"({rule})" for rule in same.values()) + ")",
        f"immutable, but for {', '.join(sorted(spec.MUTABLE))}; {REMEDY}",
        words=f"{changed}'immutable; {REMEDY}'",
        reason="FieldValueForbidden",
    )


def _same(name: str, part: str, field: Schema) -> str:
    """CEL: a part of a field that is there is as it was, and is still absent where it was."""
    same = f"self.{name}.{part} == oldSelf.{name}.{part}"
    if part in field.get("required", ()) or "default" in field["properties"][part]:
        return same
    there, was_there = f"has(self.{name}.{part})", f"has(oldSelf.{name}.{part})"
    return f"({there} == {was_there} && (!{there} || {same}))"


def at_creation(schema: Schema, fixed: Callable[[str], bool]) -> None:
    """Have rules about what does not change looked at when an object is created, and not at each write after that.

    `fixed`: whether all that a rule is about stays as it was. Elements of a list have one of before where the list says
    what tells them apart; without it, the API server takes no rule that asks for it.
    """
    for rule in schema.get(RULES, ()):
        if "oldSelf" not in rule["rule"] and fixed(rule["rule"]):
            rule.update(rule=f"{AT_CREATION}({rule['rule']})", optionalOldSelf=True)
    children = list(schema.get("properties", {}).values())
    if "x-kubernetes-list-map-keys" in schema:
        children.append(schema["items"])
    children += [schema[name] for name in ("additionalProperties",) if name in schema]
    for child in children:
        at_creation(child, fixed)


def _root(model: type[Model]) -> Schema:
    """The schema of a whole object: metadata is the API server's business, status has no defaults."""
    schema = structural(model)
    without_defaults = structural(model, defaults=False)
    properties = schema["properties"]
    properties["apiVersion"] = {
        "description": "Version of this representation of the object.",
        "type": "string",
    }
    properties["kind"] = {"description": "What this object is.", "type": "string"}
    properties["metadata"] = {"type": "object"}
    properties["status"] = without_defaults["properties"]["status"]
    spec = properties["spec"]
    if "default" in spec:
        spec["default"] = {}  # its own fields have their defaults
    return schema


def _column(name: str, kind: str, path: str, description: str, *, wide: bool = False) -> Schema:
    column: Schema = {"name": name, "type": kind, "jsonPath": path, "description": description}
    if wide:
        column["priority"] = 1
    return column


_AGE: Final = _column("Age", "date", ".metadata.creationTimestamp", "Time since the object was created.")

JOB_COLUMNS: Final = (
    _column("Queue", "string", ".spec.queue", "The ScavengerQueue that the job is queued in."),
    _column("Status", "string", ".status.phase", "Where the job is in its life."),
    _column("Interrupted", "integer", ".status.interruptedCount", "How often the job was interrupted."),
    _column(
        "Runtime",
        "date",
        f'.status.conditions[?(@.reason=="{names.REASON_RUNNING}")].lastTransitionTime',
        "Time since all pods of the present run were running; empty while the job does not run.",
    ),
    _AGE,
    _column(
        "Reason",
        "string",
        '.status.conditions[?(@.status=="False")].reason',
        "Why the job waits or has failed: the reason of the first condition that is False.",
    ),
    _column("Pods", "integer", ".spec.parallelism", "Pods in the gang.", wide=True),
    _column("Tasks", "string", ".status.array.progress", "Tasks of the array that completed, of all.", wide=True),
    _column(
        "Class",
        "string",
        ".status.preemption.class",
        "non-preemptible while it is protected; a running job without it is preemptible.",
        wide=True,
    ),
    _column(
        "Last-Checkpoint",
        "date",
        ".status.lastCheckpointTimestamp",
        "Time since the last checkpoint that the application reported.",
        wide=True,
    ),
    _column("Message", "string", ".status.message", "Why the job is where it is.", wide=True),
)

QUEUE_COLUMNS: Final = (
    _column("Weight", "integer", ".spec.weight", "The queue's weight against the other queues."),
    _column("State", "string", ".status.state", "Whether the queue takes and starts jobs."),
    _column("Waiting", "integer", ".status.jobs.waiting", "Jobs that never ran and wait."),
    _column("Running", "integer", ".status.jobs.running", "Jobs with all pods running."),
    _column("Interrupted", "integer", ".status.jobs.interrupted", "Interrupted jobs that wait to go on."),
    _AGE,
    _column("Starting", "integer", ".status.jobs.starting", "Jobs whose pods are starting.", wide=True),
    _column("Suspended", "integer", ".status.jobs.suspended", "Jobs taken off the cluster.", wide=True),
    _column("Completed", "integer", ".status.jobs.completed", "Jobs that completed.", wide=True),
    _column("Failed", "integer", ".status.jobs.failed", "Jobs that failed.", wide=True),
)


def _definition(
    *, names_: Schema, scope: str, schema: Schema, columns: Sequence[Schema], selectable: Sequence[str] = ()
) -> Schema:
    version: Schema = {
        "name": names.VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
        "additionalPrinterColumns": list(columns),
    }
    if selectable:
        version["selectableFields"] = [{"jsonPath": path} for path in selectable]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{names_['plural']}.{names.GROUP}",
            "labels": {"app.kubernetes.io/part-of": "scavenger-jobs"},
        },
        "spec": {"group": names.GROUP, "names": names_, "scope": scope, "versions": [version]},
    }


def job_crd() -> Schema:
    """The CustomResourceDefinition of ScavengerJob.

    It is in category `all`, as batch/v1 Jobs are: `kubectl delete all --all` that took the Jobs and left the
    ScavengerJobs would only interrupt them.
    """
    schema = _root(ScavengerJob)
    spec = schema["properties"]["spec"]
    mutable = re.compile(rf"\bself\.(?:spec\.)?({'|'.join(ScavengerJobSpec.MUTABLE)})\b")
    at_creation(spec, lambda rule: mutable.search(rule) is None)
    for rule in schema[RULES]:  # a name does not change either
        at_creation({RULES: [rule]}, lambda text: mutable.search(text) is None)
    spec[RULES] = [*spec.get(RULES, ()), immutability_rule(ScavengerJobSpec, spec)]
    return _definition(
        names_={
            "kind": "ScavengerJob",
            "listKind": "ScavengerJobList",
            "plural": "scavengerjobs",
            "singular": "scavengerjob",
            "shortNames": ["sj"],
            "categories": ["all", "scavenger"],
        },
        scope="Namespaced",
        schema=schema,
        columns=JOB_COLUMNS,
        selectable=(".spec.queue", ".status.phase"),
    )


def queue_crd() -> Schema:
    """The CustomResourceDefinition of ScavengerQueue."""
    return _definition(
        names_={
            "kind": "ScavengerQueue",
            "listKind": "ScavengerQueueList",
            "plural": "scavengerqueues",
            "singular": "scavengerqueue",
            "shortNames": ["sq"],
            "categories": ["scavenger"],
        },
        scope="Cluster",
        schema=_root(ScavengerQueue),
        columns=QUEUE_COLUMNS,
    )


def files() -> dict[str, str]:
    """File name to content of every generated manifest."""
    return {
        f"{crd['metadata']['name'].replace('.', '_', 1)}.yaml": HEADER + to_yaml(crd)
        for crd in (job_crd(), queue_crd())
    }


# --- YAML, as little of it as JSON values need, so that pydantic stays the only dependency ---

_PLAIN: Final = re.compile(r"(?:[A-Za-z/]|\.[A-Za-z])[A-Za-z0-9_./-]*(?: [A-Za-z0-9_./(),;-]+)*")
_NOT_STRINGS: Final = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n", ".inf", ".nan"})


def to_yaml(value: object) -> str:
    """JSON values as a YAML block, in their order; strings are quoted where YAML could misread them."""
    return "".join(f"{line}\n" for line in _lines(value))


def _lines(value: object) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        for key, child in value.items():
            yield from _entry(f"{_scalar(key)}:", child)
    elif isinstance(value, list | tuple) and value:
        for child in value:
            first, *rest = _lines(child)
            yield f"- {first}"
            yield from (f"  {line}" for line in rest)
    else:
        yield _scalar(value)


def _entry(key: str, value: object) -> Iterator[str]:
    if isinstance(value, Mapping | list | tuple) and value:
        yield key
        yield from (f"  {line}" for line in _lines(value))
    else:
        yield f"{key} {_scalar(value)}"


def _scalar(value: object) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _NOT_STRINGS:
        return value
    return json.dumps(value, ensure_ascii=False)  # every JSON scalar is a YAML scalar


# --- command line ---


def check(folder: Path) -> str:
    """The diff from the files in `folder` to what would be generated; empty when they are up to date."""
    return "".join(
        line
        for name, content in files().items()
        for line in difflib.unified_diff(
            (folder / name).read_text().splitlines(keepends=True) if (folder / name).exists() else [],
            content.splitlines(keepends=True),
            fromfile=f"{folder / name}",
            tofile=f"{folder / name} (generated)",
        )
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Write or check the manifests; the process's exit code."""
    parser = argparse.ArgumentParser(prog="python -m scavenger_api.crd", description="Generate the CRDs.")
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", type=Path, metavar="FOLDER", help="write the CRDs into this folder")
    action.add_argument(
        "--check",
        type=Path,
        metavar="FOLDER",
        nargs="?",
        const=Path("manifests/crds"),
        help="exit 1 with a diff when the CRDs in this folder (default manifests/crds) are out of date",
    )
    options = parser.parse_args(argv)
    if options.write is not None:
        options.write.mkdir(parents=True, exist_ok=True)
        for name, content in files().items():
            (options.write / name).write_text(content)
        return 0
    difference = check(options.check)
    sys.stdout.write(difference)
    return 1 if difference else 0


if __name__ == "__main__":
    sys.exit(main())
