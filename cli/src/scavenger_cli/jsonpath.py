"""kubectl's JSONPath: `-o jsonpath=`, columns of one's own, --sort-by.

https://kubernetes.io/docs/reference/kubectl/jsonpath/ describes it. A template is text with expressions in braces.
Of an expression, all that kubectl knows is known here: fields, keys in quotes, indices, slices with steps, `*`, `..`,
unions, filters `[?(@.a == "b")]`, `range` and `end`, text in quotes. What differs: a map's values come in the order
of their keys, where kubectl's come in any order. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from scavenger_cli.comparisons import COMPARISONS

Values = list[Any]
Step = Callable[[Values], Values]
"""One step of an expression: from what has been found to what is found in it."""

_NUMBER: Final = re.compile(r"[+-]?\d[\d.]*")
_WORD: Final = re.compile(r"[^\s.,\[\]$@{}]+")
_FIELD: Final = re.compile(r"(?:\\.|[^\s.,\[\]$@{}\\])*")
_QUOTED: Final = re.compile(r""""(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""")
_KEY: Final = re.compile(r"'([^']*)'|\"([^\"]*)\"")
_SLICE: Final = re.compile(r"(-?\d*)(:-?\d*)?(:-?\d*)?")
_COMPARED: Final = re.compile(r"([^!<>=]+)([!<>=~]+)(.+)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


class TemplateError(ValueError):
    """A template cannot be read, or says nothing of this object. The message is a sentence without a full stop."""


@dataclass(frozen=True)
class Expression:
    """What stands in one pair of braces. word: `range` or `end`, else empty."""

    steps: tuple[Step, ...]
    word: str = ""

    def find(self, root: Any) -> Values:
        """All it leads to, starting at an object. Raises TemplateError."""
        found = [root]
        for step in self.steps:
            found = step(found)
        return found


Part = str | Expression


@dataclass(frozen=True)
class Template:
    """A whole template: texts, expressions, and loops over what `range` leads to."""

    parts: tuple[Part, ...]

    def results(self, root: Any) -> Iterator[Values]:
        """What each part comes to, one after another, loops gone through. Raises TemplateError."""
        yield from _results(self.parts, root)

    def text(self, root: Any) -> str:
        """The output of `-o jsonpath=`. Raises TemplateError."""
        return "".join(" ".join(map(shown, values)) for values in self.results(root))

    def as_json(self, root: Any) -> str:
        """The output of `-o jsonpath-as-json=`. Raises TemplateError."""
        return "".join(json.dumps(values, indent=4, ensure_ascii=False) + "\n" for values in self.results(root))


def shown(value: Any) -> str:
    """A value as kubectl prints it: strings bare, lists and maps as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict | list):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True)
    if value is None or isinstance(value, bool):
        return {None: "", True: "true", False: "false"}[value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return str(int(value))  # from 1e21 on, Go writes an exponent
    return str(value)


def _results(parts: Sequence[Part], root: Any) -> Iterator[Values]:
    position = 0
    while position < len(parts):
        part = parts[position]
        if isinstance(part, str):
            yield [part]
        elif part.word == "range":
            after = _end_of(parts, position)
            for value in part.find(root):
                yield from _results(parts[position + 1 : after], value)
            position = after
        else:
            yield part.find(root)
        position += 1


def _end_of(parts: Sequence[Part], start: int) -> int:
    depth = 0
    for position in range(start, len(parts)):
        part = parts[position]
        word = part.word if isinstance(part, Expression) else ""
        depth += {"range": 1, "end": -1}.get(word, 0)
        if depth == 0:
            return position
    return len(parts)  # kubectl does not ask for the last {end} either


# --- reading ------------------------------------------------------------------------------------------


def parse(template: str) -> Template:
    """A template as it is written after `-o jsonpath=`. Raises TemplateError."""
    parts: list[Part] = []
    position = 0
    while (brace := template.find("{", position)) >= 0:
        if brace > position:
            parts.append(template[position:brace])
        expression, position = _expression(template, brace + 1, "}")
        parts.append(expression)
    if position < len(template):
        parts.append(template[position:])
    depth = 0
    for part in parts:
        depth += {"range": 1, "end": -1}.get(part.word if isinstance(part, Expression) else "", 0)
        if depth < 0:
            raise TemplateError("there is an {end} without a {range}")
    return Template(tuple(parts))


def parse_relaxed(path: str) -> Expression:
    """The path of a column or of --sort-by: `.a.b`, `a.b`, `{.a.b}` or `{a.b}`. Raises TemplateError."""
    inner = path[1:-1] if path.startswith("{") and path.endswith("}") else path
    if not inner or "{" in inner or "}" in inner:
        raise TemplateError(f"{path!r} is not a path; write it as .metadata.name")
    inner = inner if inner.startswith((".", "[", "$", "@")) else f".{inner}"
    expression, end = _expression(inner, 0, "")
    assert end == len(inner)
    return expression


def _expression(text: str, position: int, closing: str) -> tuple[Expression, int]:
    """Read an expression up to its closing brace, or to the end of the text where there is none to come."""
    steps: list[Step] = []
    word = ""
    while position < len(text) and text[position] != closing:
        if text[position] in " $@":
            position += 1
        elif text[position].isalpha():
            found, position = _match(_WORD, text, position, "")
            word = _keyword(found, word, steps)
        else:
            step, position = _step(text, position)
            steps.append(step)
    if closing and position == len(text):
        raise TemplateError(f"a brace is not closed: {text!r}")
    return Expression(tuple(steps), word), position + len(closing)


def _step(text: str, position: int) -> tuple[Step, int]:
    """The step that begins here, and where it ends."""
    mark = text[position]
    if mark == "[":
        return _bracket(text, position)
    if mark in "\"'":
        quoted, position = _match(_QUOTED, text, position, f"a quote is not closed: {text[position:]!r}")
        return _constant(_unquoted(quoted)), position
    if text.startswith("..", position):
        return _descend, position + (2 if text[position + 2 : position + 3] in ("", "[", " ", "}") else 1)
    if mark == ".":
        return _field(text, position + 1)
    if mark in "+-" or mark.isdigit():
        number, position = _match(_NUMBER, text, position, f"{text[position:]!r} is not a number")
        return _constant(_number(number)), position
    raise TemplateError(f"{mark!r} means nothing here: {text!r}")


def _keyword(found: str, word: str, steps: list[Step]) -> str:
    """The word of an expression after one more; true and false are values."""
    if found in ("true", "false"):
        steps.append(_constant(found == "true"))
        return word
    if found not in ("range", "end"):
        raise TemplateError(f"{found!r} is neither a field (write .{found}) nor range or end")
    return found


def _match(pattern: re.Pattern[str], text: str, position: int, otherwise: str) -> tuple[str, int]:
    found = pattern.match(text, position)
    if found is None or not found[0]:
        raise TemplateError(otherwise)
    return found[0], found.end()


def _number(text: str) -> int | float:
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        raise TemplateError(f"{text!r} is not a number") from None


def _unquoted(text: str) -> str:
    def one(found: re.Match[str]) -> str:
        code = found[1]
        return chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPED.get(code, code)

    return _ESCAPE.sub(one, text[1:-1])


def _field(text: str, position: int) -> tuple[Step, int]:
    found = _FIELD.match(text, position)
    name = found[0] if found else ""
    end = position + len(name)
    if name == "*":
        return _every, end
    # A single dot is the object itself, as in `{.}` and `{.[0]}`.
    return (_constant_step if not name else _key(name.replace("\\", ""))), end


def _bracket(text: str, position: int) -> tuple[Step, int]:
    """A step in brackets: a filter, a key, an index, a slice, or several of these."""
    if text.startswith("[?(", position):
        inside, end = _filter_end(text, position + 3)
        return _filter(inside), end
    end = text.find("]", position)
    if end < 0:
        raise TemplateError(f"a bracket is not closed: {text[position:]!r}")
    choices = [_choice(one.strip()) for one in text[position + 1 : end].split(",")]
    return choices[0] if len(choices) == 1 else _union(choices), end + 1


def _filter_end(text: str, position: int) -> tuple[str, int]:
    start = position
    while position < len(text):
        quoted = _QUOTED.match(text, position)
        if quoted is not None:
            position = quoted.end()
        elif text.startswith(")]", position):
            return text[start:position], position + 2
        else:
            position += 1
    raise TemplateError(f"a filter is not closed: {text[start - 3 :]!r}")


def _choice(text: str) -> Step:
    if text == "*":
        return _every
    if (key := _KEY.fullmatch(text)) is not None:
        return _key((key[1] or key[2] or "").replace("\\", ""))
    if (found := _SLICE.fullmatch(text)) is None or not text:
        raise TemplateError(f"[{text}] is neither an index, as [0] or [1:3], nor a key in quotes, as ['name']")
    first, last, step = found.groups()
    if last is None:
        return _index(int(first))
    bounds = [int(one) if one else None for one in (first, last[1:], (step or ":")[1:])]
    if bounds[2] is not None and bounds[2] <= 0:
        raise TemplateError(f"the step of [{text}] must be greater than zero")
    return _slice(slice(*bounds))


# --- steps --------------------------------------------------------------------------------------------


def _constant_step(found: Values) -> Values:
    return found


def _constant(value: Any) -> Step:
    return lambda found: [value] * len(found)


def _key(name: str) -> Step:
    return lambda found: [one[name] for one in found if isinstance(one, dict) and name in one]


def _lists(found: Values, what: str) -> Iterator[list[Any]]:
    for one in found:
        if one is None:
            continue
        if not isinstance(one, list):
            raise TemplateError(f"{what} is of lists only, and {shown(one)[:60]!r} is none")
        yield one


def _index(number: int) -> Step:
    def step(found: Values) -> Values:
        values = []
        for one in _lists(found, f"[{number}]"):
            if not -len(one) <= number < len(one):
                raise TemplateError(f"there is no [{number}] in a list of {len(one)}")
            values.append(one[number])
        return values

    return step


def _slice(bounds: slice) -> Step:
    return lambda found: [value for one in _lists(found, "a slice") for value in one[bounds]]


def _children(one: Any) -> list[Any]:
    if isinstance(one, dict):
        return [one[name] for name in sorted(one)]
    return one if isinstance(one, list) else []


def _every(found: Values) -> Values:
    return [value for one in found for value in _children(one)]


def _descend(found: Values) -> Values:
    values = []
    for one in found:
        if children := _children(one):
            values += [one, *_descend(children)]
    return values


def _union(choices: Sequence[Step]) -> Step:
    return lambda found: [value for choice in choices for value in choice(found)]


def _filter(text: str) -> Step:
    compared = _COMPARED.fullmatch(text)
    if compared is None:
        wanted, _ = _expression(text, 0, "")
        return lambda found: [v for one in _lists(found, "a filter") for v in one if wanted.find(v)]
    left, right = _expression(compared[1], 0, "")[0], _expression(compared[3], 0, "")[0]
    if (compare := COMPARISONS.get(compared[2])) is None:
        raise TemplateError(f"{compared[2]} is not a comparison; there are {', '.join(COMPARISONS)}")

    def holds(value: Any) -> bool:
        lefts, rights = left.find(value), right.find(value)
        if not lefts or not rights:
            return False
        if len(lefts) > 1 or len(rights) > 1:
            raise TemplateError(f"a filter compares single values, and ({text}) has several")
        return _compare(compare, lefts[0], rights[0], text)

    return lambda found: [v for one in _lists(found, "a filter") for v in one if holds(v)]


def _compare(compare: Callable[[Any, Any], bool], left: Any, right: Any, text: str) -> bool:
    numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in (left, right))
    if not numbers and type(left) is not type(right):
        raise TemplateError(f"({text}) compares {shown(left)!r} with {shown(right)!r}, which is of another type")
    try:
        return compare(left, right)
    except TypeError:
        raise TemplateError(f"({text}) compares what has no order") from None
