"""What -o says, and objects in that form: JSON, YAML or names."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Any, Final

import msgspec
from scavenger_api import names
from scavenger_domain.plain_text import CONTROLS, plain

from scavenger_cli.exits import CliError, ExitCode


class Format(StrEnum):
    """-o of a command."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"

    @property
    def table(self) -> bool:
        """Whether the command draws a table of its own."""
        return self in (Format.TABLE, Format.WIDE)

    @property
    def wide(self) -> bool:
        """Whether that table is to have all columns."""
        return self is Format.WIDE


DATA: Final = (Format.TABLE, Format.WIDE, Format.JSON, Format.YAML)
"""The forms of commands that show data which are no objects of the API."""
_BARE: Final = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*(?:[ :=,+()%][A-Za-z0-9_./-]+)*")
"""Strings that no reader of YAML takes for anything else, `_WORDS` apart. A colon or comma is never before a space."""
_WORDS: Final = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"))


def output_of(text: str, command: str, allowed: Iterable[Format] = Format) -> Format:
    """Read -o. allowed: the forms that say something of this command. Raises CliError."""
    if text in list(allowed):
        return Format(text)
    remedy = f"choose one of {', '.join(allowed)}"
    if text.startswith(("jsonpath", "custom-columns", "go-template", "template")):
        remedy += "; templates and columns are kubectl's: `kubectl get scavengerjobs -o …`"
    raise CliError(f"{command} has no output {text}", remedy, ExitCode.USAGE)


def print_objects(items: Iterable[dict[str, Any]], form: Format, kind: str, *, single: bool) -> None:
    """Objects as JSON, YAML or names; each is written before the next one is asked for.

    kind: for -o name, where an object does not say it itself. single: one object, not a list of one.
    """
    if form is Format.NAME:
        lines = (f"{_resource(item, kind)}/{item['metadata']['name']}\n" for item in items)
        sys.stdout.writelines(lines)
    elif single:
        print_data(next(iter(items)), form)
    else:
        sys.stdout.writelines(_yaml_list(items) if form is Format.YAML else _json_list(items))


def _resource(item: dict[str, Any], kind: str) -> str:
    """The kind of an object as kubectl writes it."""
    group = str(item.get("apiVersion") or names.API_VERSION).partition("/")[0]
    return f"{item.get('kind', kind).lower()}.{group}"


def print_data(data: Any, form: Format) -> None:
    """Plain data as JSON or YAML."""
    sys.stdout.write(yaml_text(data) if form is Format.YAML else _json(data) + "\n")


def yaml_text(data: Any) -> str:
    """Plain data as kubectl writes it: keys sorted, lists not indented, strings bare where that is unmistakable."""
    import yaml

    return str(yaml.dump(data, Dumper=_dumper(), allow_unicode=True, width=1 << 30)).translate(CONTROLS)


@functools.cache
def _dumper() -> Any:
    """PyYAML's, made to quote what it reads as a string and other readers as a number or a boolean, as 1e3 and y."""
    import yaml

    class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
        def ignore_aliases(self, data: Any) -> bool:
            return True

    def text(dumper: Any, value: str) -> Any:
        bare = _BARE.fullmatch(value) and value.lower() not in _WORDS
        lines = "\n" in value and plain(value) == value  # else as escapes, which only a quoted string may have
        style = "|" if lines else None if bare else '"'
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    return Dumper


def _json(data: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(data), indent=4).decode().translate(CONTROLS)


def _yaml_list(items: Iterable[dict[str, Any]]) -> Iterator[str]:
    yield "apiVersion: v1\n"
    head = "items:\n"
    for item in items:
        yield head + yaml_text([item])
        head = ""
    yield ("items: []\n" if head else "") + "kind: List\nmetadata: {}\n"


def _json_list(items: Iterable[dict[str, Any]]) -> Iterator[str]:
    yield '{\n    "apiVersion": "v1",\n    "items": ['
    comma = ""
    for item in items:
        yield comma + "\n" + "\n".join(f"        {line}" for line in _json(item).split("\n"))
        comma = ","
    yield ("\n    " if comma else "") + '],\n    "kind": "List",\n    "metadata": {}\n}\n'
