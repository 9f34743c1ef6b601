"""The Common Expression Language, as far as the rules of the CRDs use it: so that lint needs none of its own.

https://github.com/google/cel-spec and https://kubernetes.io/docs/reference/using-api/cel/ say what it means. What a
rule uses beyond this is a CelError when it is read; a test reads every rule of the CRDs. Pure.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final

from scavenger_api.duration import DurationError, parse_duration
from scavenger_api.quantity import MAX_UNITS, QuantityError, parse_quantity

Names = Mapping[str, Any]
Node = Callable[[Names], Any]
"""An expression, read: from the values of names to its value. Raises CelError where CEL would stop with an error."""

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<string>'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\")|(?P<number>\d+)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<mark>&&|\|\||[=!<>]=|[<>!().,\[\]?:-]))",
    re.ASCII,
)
_COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda one, many: one in many,
}
_CONSTANTS: Final = {"true": True, "false": False, "null": None}


class CelError(ValueError):
    """An expression cannot be read, or comes to no value."""


@functools.lru_cache(maxsize=512)
def compiled(rule: str) -> Node:
    """A rule, ready to be asked. Raises CelError for one that cannot be read."""
    reader = _Reader(rule)
    node = reader.expression()
    if reader.token:
        raise CelError(f"{reader.token!r} is not expected in {rule!r}")
    return node


def holds(rule: str, value: Any) -> bool:
    """Whether a rule holds of a new object: `self`, and nothing as the optional `oldSelf`. Raises CelError where it
    comes to no value."""
    found = compiled(rule)({"self": value, "oldSelf": None})
    if not isinstance(found, bool):
        raise CelError(f"{rule!r} is neither true nor false")
    return found


# --- values -------------------------------------------------------------------------------------------


def _quantity(text: Any) -> Decimal:
    try:
        return parse_quantity(text)
    except QuantityError as error:
        raise CelError(str(error)) from error


def _duration(text: Any) -> timedelta:
    try:
        return parse_duration(text)
    except (DurationError, OverflowError) as error:
        raise CelError(str(error)) from error


def _string(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "quantity": _quantity,
    "duration": _duration,
    "string": _string,
    "size": len,
}
_METHODS: Final[dict[str, Callable[..., Any]]] = {
    "size": len,
    "sum": sum,
    "contains": lambda text, part: part in text,
    "startsWith": str.startswith,
    "endsWith": str.endswith,
    "matches": lambda text, pattern: found_in(pattern, text),
    "compareTo": lambda one, other: (one > other) - (one < other),
    "isGreaterThan": operator.gt,
    "isLessThan": operator.lt,
    "isInteger": lambda value: value == value.to_integral_value() and abs(value) <= MAX_UNITS,
    "hasValue": lambda value: value is not None,
}


def found_in(pattern: str, text: str) -> bool:
    """Whether a pattern in the syntax of RE2 is found in a text: `$` is the very end there, and digits are ASCII."""
    if pattern.endswith("$") and not pattern.endswith("\\$"):
        pattern = pattern[:-1] + r"\Z"
    return re.search(pattern, text, re.ASCII) is not None


def _all(values: Any, test: Callable[[Any], Any]) -> bool:
    return _and([functools.partial(test, value) for value in values])


_MACROS: Final[dict[str, Callable[[Any, Callable[[Any], Any]], Any]]] = {
    "all": _all,
    "exists": lambda values, test: _or([functools.partial(test, value) for value in values]),
    "filter": lambda values, test: [value for value in values if test(value)],
    "map": lambda values, each: [each(value) for value in values],
}


def _decided(parts: list[Callable[[], Any]], verdict: bool) -> bool:
    """Whether one of the parts comes to the verdict; an error counts only where none does, as CEL has it."""
    failed: CelError | None = None
    for part in parts:
        try:
            if part() is verdict:
                return True
        except CelError as error:
            failed = error
    if failed is not None:
        raise failed
    return False


def _or(parts: list[Callable[[], Any]]) -> bool:
    return _decided(parts, True)


def _and(parts: list[Callable[[], Any]]) -> bool:
    return not _decided(parts, False)


def _get(value: Any, key: Any) -> Any:
    try:
        return value[key]
    except (KeyError, IndexError, TypeError):
        raise CelError(f"no such key: {key}") from None


def _called(function: Callable[..., Any], *given: Any) -> Any:
    try:
        return function(*given)
    except (TypeError, AttributeError, ValueError) as error:
        raise CelError(f"no such overload: {error}") from error


# --- reading ------------------------------------------------------------------------------------------


class _Reader:
    """A rule, token by token, from the weakest operator to the strongest."""

    def __init__(self, rule: str) -> None:
        self._rule = rule
        self._position = 0
        self.kind = self.token = ""
        self._next()

    def _next(self) -> str:
        """Step to the next token; the one that was."""
        was = self.token
        if not self._rule[self._position :].strip():
            self.kind = self.token = ""
            return was
        found = _TOKEN.match(self._rule, self._position)
        if found is None:
            raise CelError(f"{self._rule[self._position :]!r} cannot be read in {self._rule!r}")
        self._position = found.end()
        self.kind, self.token = str(found.lastgroup), found[str(found.lastgroup)]
        return was

    def _taken(self, *tokens: str) -> bool:
        """Whether the next token is one of these; then it is stepped over."""
        wanted = self.kind != "string" and self.token in tokens
        if wanted:
            self._next()
        return wanted

    def _expect(self, token: str) -> None:
        if not self._taken(token):
            raise CelError(f"{token!r} is missing before {self.token!r} in {self._rule!r}")

    def _name(self) -> str:
        if self.kind != "name":
            raise CelError(f"a name is missing before {self.token!r} in {self._rule!r}")
        return self._next()

    def expression(self) -> Node:
        """The weakest operators: or, and."""
        parts = [self._conjunction()]
        while self._taken("||"):
            parts.append(self._conjunction())
        return parts[0] if len(parts) == 1 else lambda names: _or([functools.partial(p, names) for p in parts])

    def _conjunction(self) -> Node:
        parts = [self._comparison()]
        while self._taken("&&"):
            parts.append(self._comparison())
        return parts[0] if len(parts) == 1 else lambda names: _and([functools.partial(p, names) for p in parts])

    def _comparison(self) -> Node:
        left = self._unary()
        if self.kind == "string" or self.token not in _COMPARISONS:
            return left
        compare = _COMPARISONS[self._next()]
        right = self._unary()
        return lambda names: _called(compare, left(names), right(names))

    def _unary(self) -> Node:
        if self._taken("!"):
            inner = self._unary()
            return lambda names: not inner(names)
        return self._member()

    def _member(self) -> Node:
        node = self._primary()
        while True:
            if self._taken("."):
                node = self._selected(node, self._name())
            elif self._taken("["):
                node = self._indexed(node, self.expression())
                self._expect("]")
            else:
                return node

    def _indexed(self, node: Node, key: Node) -> Node:
        return lambda names: _get(node(names), key(names))

    def _selected(self, node: Node, name: str) -> Node:
        if not self._taken("("):
            return lambda names: _get(node(names), name)
        if name in _MACROS:
            return self._macro(node, _MACROS[name])
        if name not in _METHODS:
            raise CelError(f"{name}() is not known in {self._rule!r}")
        method, given = _METHODS[name], self._arguments(")")
        return lambda names: _called(method, node(names), *(one(names) for one in given))

    def _macro(self, node: Node, macro: Callable[[Any, Callable[[Any], Any]], Any]) -> Node:
        variable = self._name()
        self._expect(",")
        body = self.expression()
        self._expect(")")
        return lambda names: macro(node(names), lambda value: body({**names, variable: value}))

    def _arguments(self, closing: str) -> list[Node]:
        found: list[Node] = []
        while not self._taken(closing):
            if found:
                self._expect(",")
            found.append(self.expression())
        return found

    def _primary(self) -> Node:
        if self._taken("("):
            node = self.expression()
            self._expect(")")
            return node
        if self._taken("["):
            items = self._arguments("]")
            return lambda names: [item(names) for item in items]
        kind, token = self.kind, self._next()
        if kind == "number":
            return lambda names: int(token)
        if kind == "string":
            text = re.sub(r"\\(.)", r"\1", token[1:-1])
            return lambda names: text
        if kind != "name":
            raise CelError(f"{token!r} is not expected in {self._rule!r}")
        return self._named(token)

    def _named(self, name: str) -> Node:
        if name in _CONSTANTS:
            return lambda names: _CONSTANTS[name]
        if not self._taken("("):
            return lambda names: _get(names, name)
        given = self._arguments(")")
        if name == "has":
            return lambda names: _present(given[0], names)
        if name not in _FUNCTIONS:
            raise CelError(f"{name}() is not known in {self._rule!r}")
        return lambda names: _called(_FUNCTIONS[name], *(one(names) for one in given))


def _present(field: Node, names: Names) -> bool:
    """has(): whether a field is there. What holds the field may be missing itself only where CEL would say so too."""
    try:
        field(names)
    except CelError:
        return False
    return True
