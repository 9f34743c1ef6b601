"""What a query of PromQL is about: the metrics it names, and the labels it asks of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from tools.dashboards.catalogue import FOREIGN, TARGET_LABELS, Metric

_TOKEN: Final = re.compile(r'\s*("[^"]*"|\[[^\]]*\]|[A-Za-z_:][\w:]*|[0-9][\w.]*|=~|!~|!=|==|>=|<=|.)', re.DOTALL)
_CLAUSES: Final = frozenset({"by", "without", "on", "ignoring", "group_left", "group_right"})
_WORDS: Final = frozenset({"and", "or", "unless", "bool", "offset", "inf", "nan"})
_AGGREGATORS: Final = frozenset({"sum", "max", "min", "avg", "count", "topk", "bottomk", "quantile"})


@dataclass
class Query:
    """selected: each metric with the labels of its selector. grouped: labels of `by`, `on` and the like."""

    selected: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    grouped: set[str] = field(default_factory=set)


def parse(expression: str) -> Query:
    """Take an expression apart, as far as names go; operators and numbers are not looked at."""
    found = Query()
    tokens = iter([match[1] for match in _TOKEN.finditer(expression)] + [""])
    token = next(tokens)
    while token:
        following = next(tokens)
        if token in _CLAUSES:
            found.grouped.update(_names(tokens, ")"))
            following = next(tokens)
        elif _is_metric(token, following):
            labels: tuple[str, ...] = ()
            if following == "{":
                labels = tuple(_names(tokens, "}"))
                following = next(tokens)
            found.selected.append((token, labels))
        token = following
    return found


def of_targets(expression: str, matchers: str) -> str:
    """The expression with matchers added to the selector of each metric."""
    tokens = [match[0] for match in _TOKEN.finditer(expression)] + [""]
    made, end = "", ""
    for token, following in pairwise(tokens):
        made += token
        name, after = token.strip(), following.strip()
        if end:
            end = "" if name == end else end
        elif name in _CLAUSES:
            end = ")"
        elif name == "{":
            made += matchers if after == "}" else f"{matchers},"
            end = "}"
        elif _is_metric(name, after) and after != "{":
            made += f"{{{matchers}}}"
    return made


def _is_metric(token: str, following: str) -> bool:
    if not re.fullmatch(r"[A-Za-z_:][\w:]*", token) or following == "(":
        return False
    return token.lower() not in _WORDS and token not in _AGGREGATORS


def _names(tokens: Iterator[str], end: str) -> Iterator[str]:
    """The names until the end of a list; what is in quotes is a value."""
    for token in tokens:
        if token == end:
            return
        if re.fullmatch(r"[A-Za-z_]\w*", token):
            yield token


def wrong(expression: str, metrics: Iterable[Metric], legend: str = "") -> list[str]:
    """What an expression names that is not there: metrics nobody shows, labels they lack. legend: with `{{label}}`."""
    known = dict(series for metric in (*metrics, *FOREIGN) for series in metric.series())
    query, problems = parse(expression), []
    there = set(TARGET_LABELS) | {"le"}
    for name, labels in query.selected:
        if name not in known:
            problems.append(f"no service shows {name}")
            continue
        there.update(known[name])
        problems += [f"{name} has no label {label}" for label in labels if label not in (*known[name], *TARGET_LABELS)]
    asked = query.grouped | set(re.findall(r"{{\s*(\w+)\s*}}", legend))
    return problems + [f"nothing in {expression} has the label {label}" for label in sorted(asked - there)]
