"""What -o says, and objects in that form: JSON, YAML, names, a JSONPath template, columns of one's own."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from scavenger_api import names

from scavenger_cli.exits import CliError, ExitCode

if TYPE_CHECKING:  # few want one, and it takes a hundredth of a second to load
    from scavenger_cli.jsonpath import Expression, Template


class Format(StrEnum):
    """-o of a command, without what may stand behind its equals sign."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"
    JSONPATH = "jsonpath"
    JSONPATH_AS_JSON = "jsonpath-as-json"
    CUSTOM_COLUMNS = "custom-columns"


TABLES: Final = (Format.TABLE, Format.WIDE)
DATA: Final = (Format.JSON, Format.YAML, Format.JSONPATH, Format.JSONPATH_AS_JSON)
"""What fits data that are no objects of the API."""
TEMPLATES: Final = (Format.JSONPATH, Format.JSONPATH_AS_JSON, Format.CUSTOM_COLUMNS)
NONE: Final = "<none>"
COLUMN_GAP: Final = "   "
COLUMN_WIDTH: Final = 6
"""The least a column of one's own takes, its gap included: that of kubectl's tables."""


@dataclass(frozen=True)
class Column:
    """A column of `-o custom-columns=`."""

    header: str
    path: Expression


@dataclass(frozen=True)
class Output:
    """-o as it was given. template: of the JSONPath forms. columns: of custom-columns."""

    form: Format = Format.TABLE
    template: Template | None = None
    columns: tuple[Column, ...] = ()
    headers: bool = True

    @property
    def table(self) -> bool:
        """Whether the command draws a table of its own."""
        return self.form in TABLES

    @property
    def wide(self) -> bool:
        """Whether that table is to have all columns."""
        return self.form is Format.WIDE


def output_of(text: str, command: str, allowed: Iterable[Format] = Format, *, headers: bool = True) -> Output:
    """Read -o. allowed: the forms that say something of this command. Raises CliError."""
    word, sign, expression = text.partition("=")
    if word.endswith("-file") and word.removesuffix("-file") in TEMPLATES:
        word, expression = word.removesuffix("-file"), _file(expression)
    if word.removesuffix("-file") in ("go-template", "template", "templatefile"):
        remedy = "take -o jsonpath=, or `kubectl get scavengerjobs -o go-template=`"
        raise CliError("go-template is Go's own language and is not supported here", remedy, ExitCode.USAGE)
    choice = [f"{one}=…" if one in TEMPLATES else str(one) for one in allowed]
    if word not in list(allowed) or (sign and word not in TEMPLATES):
        raise CliError(f"{command} has no output {text}", f"choose one of {', '.join(choice)}", ExitCode.USAGE)
    form = Format(word)
    if form not in TEMPLATES:
        return Output(form, headers=headers)
    if not expression:
        example = "NAME:.metadata.name" if form is Format.CUSTOM_COLUMNS else "'{.metadata.name}'"
        raise CliError(f"-o {form} says nothing of what to print", f"write -o {form}={example}", ExitCode.USAGE)
    return _templated(form, expression, headers)


def _file(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(f"the template {path} cannot be read: {error}", code=ExitCode.USAGE) from error


def _templated(form: Format, expression: str, headers: bool) -> Output:
    from scavenger_cli.jsonpath import TemplateError, parse

    try:
        if form is not Format.CUSTOM_COLUMNS:
            return Output(form, parse(expression), headers=headers)
        return Output(form, columns=_columns(expression), headers=headers)
    except TemplateError as error:
        raise CliError(f"-o {form}: {error}", code=ExitCode.USAGE) from error


def _columns(text: str) -> tuple[Column, ...]:
    """HEADER:PATH,…; or as a file has them, headers in its first line and paths below. Raises TemplateError."""
    from scavenger_cli.jsonpath import TemplateError, parse_relaxed

    lines = text.split("\n")
    if len(lines) > 1 and ":" not in lines[0]:
        headers, paths = lines[0].split(), lines[1].split()
        if len(headers) != len(paths):
            raise TemplateError(f"{len(headers)} headers stand over {len(paths)} paths")
        return tuple(Column(header, parse_relaxed(path)) for header, path in zip(headers, paths, strict=True))
    found = []
    for one in text.strip().split(","):
        header, sign, path = one.partition(":")
        if not sign or not header:
            raise TemplateError(f"{one!r} is not a column; write HEADER:.path.of.it")
        found.append(Column(header, parse_relaxed(path)))
    return tuple(found)


def print_objects(items: Iterable[dict[str, Any]], output: Output, kind: str, *, single: bool) -> None:
    """Objects as JSON, YAML, names, or by a template; each is written before the next one is asked for.

    kind: for -o name, where an object does not say it itself. single: one object, not a list of one. Raises CliError
    for a template that says nothing of them.
    """
    if output.form is Format.NAME:
        lines = (f"{item.get('kind', kind).lower()}.{names.GROUP}/{item['metadata']['name']}\n" for item in items)
        sys.stdout.writelines(lines)
    elif output.form is Format.CUSTOM_COLUMNS:
        sys.stdout.writelines(f"{line}\n" for line in custom_columns(items, output))
    elif single:
        print_data(next(iter(items)), output)
    elif output.form is Format.YAML:
        sys.stdout.writelines(_yaml_list(items))
    elif output.form is Format.JSON:
        sys.stdout.writelines(_json_list(items))
    else:
        print_data({"apiVersion": "v1", "items": list(items), "kind": "List", "metadata": {}}, output)


def print_data(data: Any, output: Output) -> None:
    """Plain data as JSON or YAML, or by a JSONPath template. Raises CliError for one that says nothing of them."""
    if output.form is Format.YAML:
        from scavenger_cli.yaml_text import yaml_text

        sys.stdout.write(yaml_text(data))
    elif output.template is None:
        sys.stdout.write(_json(data) + "\n")
    else:
        sys.stdout.write(_filled(output, data))


def _filled(output: Output, data: Any) -> str:
    from scavenger_cli.jsonpath import TemplateError

    assert output.template is not None
    try:
        as_json = output.form is Format.JSONPATH_AS_JSON
        return output.template.as_json(data) if as_json else output.template.text(data)
    except TemplateError as error:
        raise CliError(f"-o {output.form}: {error}") from error


def _json(data: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(data), indent=4).decode()


def _yaml_list(items: Iterable[dict[str, Any]]) -> Iterator[str]:
    from scavenger_cli.yaml_text import list_item

    yield "apiVersion: v1\n"
    head = "items:\n"
    for item in items:
        yield head + list_item(item)
        head = ""
    yield ("items: []\n" if head else "") + "kind: List\nmetadata: {}\n"


def _json_list(items: Iterable[dict[str, Any]]) -> Iterator[str]:
    yield '{\n    "apiVersion": "v1",\n    "items": ['
    comma = ""
    for item in items:
        yield comma + "\n" + "\n".join(f"        {line}" for line in _json(item).split("\n"))
        comma = ","
    yield ("\n    " if comma else "") + '],\n    "kind": "List",\n    "metadata": {}\n}\n'


def custom_columns(items: Iterable[dict[str, Any]], output: Output) -> list[str]:
    """The lines of `-o custom-columns=`, as wide as kubectl has them. Raises CliError."""
    from scavenger_cli.jsonpath import TemplateError, shown

    try:
        rows = [[",".join(map(shown, column.path.find(item))) or NONE for column in output.columns] for item in items]
    except TemplateError as error:
        raise CliError(f"-o {output.form}: {error}") from error
    return padded([*([[column.header for column in output.columns]] if output.headers else []), *rows])


def padded(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as lines; every cell but the last is as wide as its column."""
    gap = len(COLUMN_GAP)
    widths = [max(COLUMN_WIDTH, *(len(cell) + gap for cell in cells)) for cells in zip(*rows, strict=True)][:-1]
    return ["".join(cell.ljust(width) for cell, width in zip(row, [*widths, 0], strict=True)) for row in rows]
