"""The words of the conditions: one list, each with its meaning, and all of them documented."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from scavenger_api.evictions import EvictionReason
from scavenger_api.reasons import LISTS, InterruptionReason, Reason, WaitReason

WORDS = [word for words in LISTS for word in words]
ROW = re.compile(r"^\| `(\w+)` \| (.+?) \| (.+?) \|$", re.MULTILINE)


@pytest.mark.parametrize("word", WORDS)
def test_a_word_is_one_word_with_a_meaning(word: Reason) -> None:
    assert re.fullmatch(r"[A-Z][A-Za-z]*", word)
    assert word.__doc__ is not None
    assert re.fullmatch(r"[A-Z][^|\n]*\.", word.__doc__), "a sentence that fits into a table"
    assert f"{word}" == word.value
    assert word == word.value


def test_a_word_of_one_list_means_one_thing() -> None:
    assert len({*WORDS}) == len(WORDS)


def test_what_the_regulator_says_of_an_eviction_is_the_reason_of_the_interruption() -> None:
    assert {*EvictionReason} <= {*InterruptionReason}
    assert not {*EvictionReason} & {*WaitReason}


def test_the_documentation_has_every_word_with_its_meaning_and_what_to_do() -> None:
    """In the order of the lists, and no word that is in none."""
    text = (Path(__file__).parents[3] / "docs" / "reasons.md").read_text()
    rows = ROW.findall(text)
    assert [(word, meaning) for word, meaning, _ in rows] == [(word.value, word.__doc__) for word in WORDS]
    assert all(remedy.endswith((".", ")")) for *_, remedy in rows)
