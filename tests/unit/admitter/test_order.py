"""What the tests on a real control plane make of an order of starts. Jobs are letters; three start at once."""

from __future__ import annotations

import pytest

from tests.integration.admitter.order import left_out, overtaken

BATCH = 3


@pytest.mark.parametrize(
    ("terms", "wanted"),
    [
        pytest.param(["abcdefghi"], [], id="in line"),
        pytest.param(["cbafedihg"], [], id="any order inside a cycle"),
        pytest.param(["bcadefghi"], [], id="the last of its cycle"),
        pytest.param(["bcdaefghi"], [("a", "d")], id="overtaken by one of the next cycle"),
        pytest.param(["bcdefghia"], [("a", "d")], id="the last of all: with the first that passed it"),
        pytest.param(["bcdefghi"], [("a", "d")], id="never started, though those behind it were"),
        pytest.param(["ighfedcba"], [(job, "i") for job in "abcdef"], id="from the end"),
        pytest.param(["abc"], [], id="not reached yet"),
        pytest.param([], [], id="nobody started"),
        pytest.param(["abc", "defghi"], [], id="the leader dies between two cycles"),
        pytest.param(["abcf", "edhgi"], [], id="two of a cycle get lost: they come with the first of the next"),
        pytest.param(["abcf", "gedhi"], [], id="in any order, though g stands three places behind d in the whole line"),
        pytest.param(["abcf", "eghdi"], [("d", "h")], id="but not after the first three"),
        pytest.param(["abcg", "defhi"], [("d", "g")], id="a dead leader that went on before a cycle was through"),
        pytest.param(["abcef", "ghdi"], [], id="one got lost: the third that the successor starts"),
        pytest.param(["abcef", "hgid"], [("d", "i")], id="the fourth"),
        pytest.param(["abcf", "", "edghi"], [], id="a leader that started nothing"),
        pytest.param(["abcf", "g", "edhi"], [], id="the successor dies in its first cycle, too"),
        pytest.param(["abcf", "g", "ehid"], [("d", "i")], id="what the first of them passed over still comes first"),
        pytest.param(["abcf", "d", "ghie"], [("e", "i")], id="and so does the rest of it"),
    ],
)
def test_who_was_overtaken(terms: list[str], wanted: list[tuple[str, str]]) -> None:
    assert overtaken("abcdefghi", terms, BATCH) == wanted


def test_with_batches_of_one_every_change_of_order_counts() -> None:
    assert overtaken("abc", ["abc"], 1) == []
    assert overtaken("abc", ["bac"], 1) == [("a", "b")]
    assert overtaken("abc", ["acb"], 1) == [("b", "c")]


@pytest.mark.parametrize(
    ("started", "wanted"), [("", ""), ("ab", ""), ("b", "a"), ("dac", "b"), ("d", "abc"), ("abcd", "")]
)
def test_who_was_left_out(started: str, wanted: str) -> None:
    assert left_out("abcd", started) == list(wanted)
