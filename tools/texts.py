"""The texts that users read outside of the documentation, by kind: `python -m tools.prose` measures them like pages.

Each reader yields where a text stands, and the text. What a program fills in later is one word of it.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final

import typer
import yaml
from markdown_it import MarkdownIt
from scavenger_cli import main as cli

from tools import generate_charts as charts
from tools.cli_file import DESCRIPTION

ROOT: Final = Path(__file__).resolve().parents[1]
GENERATED_PAGES: Final = ("api", "charts", "costs", "dashboards", "events", "metrics", "settings")
FILLED_IN: Final = "x"
"""In the place of what a template, a program or a script fills in."""
FEWEST_WORDS: Final = 5
"""Of a string in the code that is a text. Shorter ones are names, keys and parts of texts."""

_TEMPLATE: Final = re.compile(r"{{.*?}}", re.DOTALL)
_YAML: Final = re.compile(r"#?\s*(?:- )?[\w./-]+:(?:\s|$)(?!.*[a-z][.;]( |$))|#?\s*- \w+=")
"""A comment that is an example."""
_SCRIPT_TEXT: Final = re.compile(r'"((?:[^"\\\n]|\\.)* (?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)* (?:[^`\\]|\\.)*)`')
_NO_PROSE: Final = re.compile(r"[{}\\^=|]|&&|\(\?|[A-Z_]{4,} [A-Z_]{4,}|\w\(\w+\)")
_SOURCES: Final = ("packages/*/src", "services/*/src", "cli/src")

Texts = Iterator[tuple[str, str]]


def comments(text: str) -> Iterator[str]:
    """The comments of a YAML file: each paragraph, and each at the end of a line. Examples in YAML are left out."""
    found: list[str] = []
    for line in text.splitlines():
        before, mark, comment = line.partition("# ")
        if mark and not before.strip():
            if not _YAML.match(comment):
                found.append(comment.strip())
            continue
        if found:
            yield " ".join(found)
            found = []
        if mark and before.count(chr(34)) % 2 == 0:
            yield comment.strip()
    if found:
        yield " ".join(found)


def values() -> Texts:
    """Comments of values.yaml, where people write them."""
    written = [ROOT / "charts" / f"scavenger-{name}" / "values.yaml" for name in ("base", "crds", charts.SCHEDULER)]
    for path in (*sorted((ROOT / "tools" / "values").glob("*.yaml")), *written):
        for text in comments(path.read_text()):
            yield _name(path), text


def schemas() -> Texts:
    """Descriptions in the schemas of values that people write, and what to do in place of values that moved."""
    generated = {f"scavenger-{name}" for name in (*charts.SERVICES, charts.SCHEDULER)}
    chosen = (path for path in ROOT.glob("charts/*/values.schema.json") if path.parent.name not in generated)
    for path in (*sorted((ROOT / "tools" / "values").glob("*.json")), *sorted(chosen)):
        for text in _values_of(json.loads(path.read_text()), {"description"}):
            yield _name(path), text
    for chart, paths in charts.moved().items():
        for value, words in paths.items():
            yield f"{chart} {value}", words


def notes() -> Texts:
    """What helm prints after an installation, and why it refuses one; without the commands."""
    for path in (
        *sorted(ROOT.glob("charts/*/templates/NOTES.txt")),
        *sorted(ROOT.glob("charts/*/templates/_notes.tpl")),
    ):
        text = _TEMPLATE.sub(lambda match: "\n\n" if match[0].startswith("{{-") else FILLED_IN, path.read_text())
        for paragraph in re.split(r"\n\s*\n", re.sub(r"^ {2,}.*$", "", text, flags=re.MULTILINE)):
            yield _name(path), " ".join(paragraph.split())
    for path in sorted(ROOT.glob("charts/*/templates/*")):
        for text in re.findall(r'fail (?:\(printf )?"((?:[^"\\]|\\.)*)"', path.read_text() if path.is_file() else ""):
            yield _name(path), re.sub(r"%\w", FILLED_IN, text)


def about_charts() -> Texts:
    """The description of each chart."""
    for path in sorted(ROOT.glob("charts/*/Chart.yaml")):
        yield _name(path), yaml.safe_load(path.read_text())["description"]


def alerts() -> Texts:
    """Summary and description of each alert."""
    path = ROOT / "charts" / "scavenger-base" / "files" / "rules" / "scavenger.rules.yaml"
    rules = (rule for group in yaml.safe_load(path.read_text())["groups"] for rule in group["rules"])
    for rule in rules:
        for key in ("summary", "description"):
            yield rule["alert"], _TEMPLATE.sub(FILLED_IN, rule["annotations"][key])


def policies() -> Texts:
    """What admission policies say to users that they refuse or warn."""
    for path in sorted((ROOT / "manifests").rglob("*.yaml")):
        if "crds" not in path.parts:
            for document in yaml.safe_load_all(path.read_text()):
                if document and document["kind"].endswith("AdmissionPolicy"):
                    for text in _values_of(document, {"message"}):
                        yield _name(path), text


def generated_pages() -> Texts:
    """The last column of the tables of generated pages: fields of the CRDs, settings, metrics, Events, panels."""
    for name in (*GENERATED_PAGES, "reasons"):
        row: list[str] = []
        for token in MarkdownIt("commonmark").enable("table").parse((ROOT / "docs" / f"{name}.md").read_text()):
            if token.type == "tr_open":
                row = []
            elif token.type == "inline":
                row.append(token.content)
            elif token.type == "tr_close" and row:
                yield f"docs/{name}.md: {row[0]}", row[-1]


def commands() -> Texts:
    """The help of `kubectl sj`."""
    yield from _help(typer.main.get_command(cli.application()), "kubectl sj")


def _help(command: Any, path: str) -> Texts:
    text = re.sub(r"\n[^\n]*\b(?:Examples?|Exit codes):\n.*", "", command.help or "", flags=re.DOTALL)
    yield path, text.replace("\b", "")
    for option in command.params:
        yield f"{path} {option.name}", option.help or ""
    for name, inner in getattr(command, "commands", {}).items():
        yield from _help(inner, f"{path} {name}")


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._in: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in.append(tag)
        self.found += [text for name, text in attrs if text and name in ("title", "placeholder", "aria-label")]

    def handle_endtag(self, tag: str) -> None:
        while self._in and self._in.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if "script" not in self._in and "style" not in self._in and data.strip():
            self.found.append(data.strip())


def board() -> Texts:
    """The texts of the board's page and of its scripts."""
    static = ROOT / "services" / "board" / "src" / "scavenger_board" / "static"
    page = _Page()
    page.feed((static / "index.html").read_text())
    for text in page.found:
        yield _name(static / "index.html"), text
    for path in sorted(static.glob("*.js")):
        code = re.sub(r"^\s*//.*$", "", path.read_text(), flags=re.MULTILINE)
        for match in _SCRIPT_TEXT.finditer(code):
            text = re.sub(r"\$\{(?:[^{}]|\{[^{}]*\})*\}", FILLED_IN, match[1] or match[2])
            if len(text.split()) >= FEWEST_WORDS and not _NO_PROSE.search(text):
                yield _name(path), text


def krew() -> Texts:
    """The description of the plugin in krew's index."""
    yield "tools/cli_file.py", DESCRIPTION


def targets() -> Texts:
    """What `make help` prints."""
    for name, text in re.findall(r"^([a-z-]+):.*?## (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE):
        yield f"make {name}", text


def messages() -> Texts:
    """Strings of the code that are texts: messages of conditions, Events, errors and remedies."""
    for path in _sources():
        for text in strings(ast.parse(path.read_text())):
            if len(text.split()) >= FEWEST_WORDS and not _NO_PROSE.search(text):
                yield _name(path), text


def strings(node: ast.AST) -> Iterator[str]:
    """The strings of a module that are no docstrings."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return  # a docstring
    if isinstance(node, ast.JoinedStr):
        parts = (str(part.value) if isinstance(part, ast.Constant) else FILLED_IN for part in node.values)
        yield "".join(parts)
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    for child in ast.iter_child_nodes(node):
        yield from strings(child)


def docstrings() -> Texts:
    """The docstrings of packages, components and the command line."""
    for path in _sources():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                yield f"{_name(path)}:{node.lineno}", str(node.value.value)


def _sources() -> Iterator[Path]:
    for pattern in _SOURCES:
        for folder in sorted(ROOT.glob(pattern)):
            yield from sorted(folder.rglob("*.py"))


def _values_of(node: Any, keys: set[str]) -> Iterator[str]:
    if isinstance(node, Mapping):
        for key, value in node.items():
            if key in keys and isinstance(value, str):
                yield value
            else:
                yield from _values_of(value, keys)
    elif isinstance(node, list):
        for value in node:
            yield from _values_of(value, keys)


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


READERS: Final[Mapping[str, Callable[[], Texts]]] = {
    "values.yaml": values,
    "values.schema.json": schemas,
    "NOTES.txt": notes,
    "Chart.yaml": about_charts,
    "alerts": alerts,
    "policies": policies,
    "generated pages": generated_pages,
    "kubectl sj": commands,
    "board": board,
    "krew": krew,
    "make": targets,
    "messages": messages,
}
"""Every kind that is checked, and its reader."""
