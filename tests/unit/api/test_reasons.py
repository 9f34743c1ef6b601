"""The words of the conditions: one list, each with its meaning, and all of them documented."""

from __future__ import annotations

import re

import pytest
from scavenger_api.evictions import EvictionReason
from scavenger_api.reasons import LISTS, InterruptionReason, Reason, WaitReason

WORDS = [word for words in LISTS for word in words]


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
