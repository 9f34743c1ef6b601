"""The format of the ledger of an adopted Job."""

from __future__ import annotations

import pytest
from scavenger_api.ledger import Ledger, LedgerError, read_ledger

LEDGER = Ledger(
    why="Quota", runs=("2026-03-01T12:00:00Z",), interrupted=2, useful=7200.0, lost_of={"x/gpu": 1.5}, say="é"
)
TEXT = (
    '{"v":1,"why":"Quota","runs":["2026-03-01T12:00:00Z"],"interrupted":2,"useful":7200.0,"lostOf":{"x/gpu":1.5},'
    '"say":"é"}'
)


def test_a_ledger_is_written_and_read() -> None:
    assert LEDGER.text == TEXT
    assert read_ledger(TEXT) == LEDGER


def test_what_a_later_admitter_adds_to_this_version_is_passed_over() -> None:
    assert read_ledger('{"v":1,"later":3,"useful":1,"counted":"0-a,1-b"}') == Ledger(useful=1.0, counted="0-a,1-b")
    assert read_ledger('{"v":1,"counted":"0-a,1-b"}').counted_pods == {"0-a", "1-b"}
    assert Ledger().counted_pods == frozenset()


@pytest.mark.parametrize(
    "message",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"v":2}',
        '{"v":"1"}',
        '{"v":true}',
        '{"v":1,"interrupted":"many"}',
        '{"v":1,"interrupted":true}',
        '{"v":1,"useful":"much"}',
        '{"v":1,"usefulOf":{"x":"y"}}',
        '{"v":1,"runs":"now"}',
        '{"v":1,"runs":[1]}',
        '{"v":1,"say":' + 100_000 * "[" + "}",
    ],
)
def test_a_ledger_that_cannot_be_read_says_so(message: str) -> None:
    with pytest.raises(LedgerError, match="the ledger of this Job"):
        read_ledger(message)
