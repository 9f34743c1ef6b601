"""The rules' language: what each expression comes to is what cel-go says of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from scavenger_api.crd import job_crd, queue_crd
from scavenger_cli.lint.cel import CelError, compiled, found_in, holds

JOB = {"name": "a-b", "n": 3, "list": [1, 2], "map": {"cpu": "500m", "memory": 2}, "flag": False, "quote": "it's"}


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("self.n == 3 && self.n in [1, 3]", True),
        ("self.n < 3 || self.n >= 4", False),
        ("!self.flag", True),
        ("!(self.n != 3) && true", True),
        ("has(self.list) && !has(self.nothing)", True),
        ("self.list.all(x, x > 0) && self.list.exists(y, y == 2)", True),
        ("self.list.map(x, x).sum() == 3 && self.list.filter(x, x > 9).map(x, x).sum() == 0", True),
        ("[has(self.a), has(self.n)].filter(x, x).size() == 1", True),
        ("self.map.all(k, quantity(string(self.map[k])).isGreaterThan(quantity('0')))", True),
        ("quantity('1').compareTo(quantity('1000m')) == 0 && quantity('2Gi').isLessThan(quantity('3Gi'))", True),
        ("quantity('1.5').isInteger() || !quantity('2').isInteger()", False),
        ("duration('90s') >= duration('1m') && duration('1h') <= duration('60m')", True),
        (
            "self.name.startsWith('a') && self.name.endsWith('b') && size(self.name) == 3",
            True,
        ),
        ("self.name.matches('^[a-z-]+$')", True),
        (r"self.quote == 'it\'s' && self.quote == \"it's\"".replace('\\"', '"'), True),
        ("self.nothing == 1 || self.n == 3", True),
        ("self.n == 3 || self.nothing == 1", True),
        ("self.nothing == 1 && self.n == 4", False),
        ("self.list.exists(x, x.nothing == 1 || x == 2)", True),
        ("self.list[1] == 2 && self['n'] == 3 && null == null", True),
    ],
)
def test_what_a_rule_comes_to(rule: str, expected: bool) -> None:
    assert holds(rule, JOB) is expected


@pytest.mark.parametrize(
    "rule", ["self.nothing == 1", "self.nothing || false", "quantity('x') == 1", "self.name > 1", "self.n"]
)
def test_what_comes_to_no_value_is_an_error(rule: str) -> None:
    with pytest.raises(CelError):
        holds(rule, JOB)


@pytest.mark.parametrize(
    "rule", ["self.", "self.name.upperAscii()", "now()", "1 +", "(self", "self.n ~ 1", "1 2", "self.all(x)"]
)
def test_what_cannot_be_read_is_an_error(rule: str) -> None:
    with pytest.raises(CelError):
        compiled(rule)


def rules(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        yield from (one["rule"] for one in schema.get("x-kubernetes-validations", ()))
        schema = list(schema.values())
    if isinstance(schema, list):
        for one in schema:
            yield from rules(one)


def test_every_rule_of_the_definitions_can_be_read() -> None:
    found = {*rules(job_crd()), *rules(queue_crd())}
    assert len(found) >= 29
    for rule in found:
        compiled(rule)


def test_patterns_are_those_of_re2() -> None:
    assert found_in("^a$", "a")
    assert not found_in("^a$", "a\n")
    assert not found_in(r"^\d$", "٣")
