"""Sets of the indexes of tasks, and counts of them."""

import base64
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scavenger_api.indexes import (
    BITS,
    MAX_COUNTS_LENGTH,
    MAX_RANGES,
    MAX_SET_LENGTH,
    MAX_TASKS,
    NIBBLES,
    IndexesError,
    all_of,
    format_counts,
    format_indexes,
    indexes_of,
    lowest,
    parse_counts,
    parse_indexes,
    set_of,
)

SETS = st.sets(st.integers(0, MAX_TASKS - 1), max_size=300) | st.sets(st.integers(0, 40))
COUNTS = st.dictionaries(st.integers(0, MAX_TASKS - 1) | st.integers(0, 40), st.integers(1, 15), max_size=300)


@pytest.mark.parametrize(
    ("indexes", "text"),
    [
        ((), ""),
        ((0,), "0"),
        ((1, 3, 4, 5, 7), "1,3-5,7"),  # the example of batch/v1
        ((7, 8), "7,8"),
        ((99_999,), "99999"),
        (range(1000), "0-999"),
    ],
)
def test_ranges_as_batch_v1_writes_them(indexes: range | tuple[int, ...], text: str) -> None:
    assert format_indexes(set_of(indexes)) == text
    assert parse_indexes(text) == set_of(indexes)


def test_a_range_of_two_is_read_as_well() -> None:
    assert parse_indexes("7-8") == set_of((7, 8))


@given(SETS)
def test_a_set_is_what_its_text_says(indexes: set[int]) -> None:
    value = set_of(indexes)
    assert parse_indexes(format_indexes(value)) == value
    assert list(indexes_of(value)) == sorted(indexes)
    assert value.bit_count() == len(indexes)


@given(SETS, st.integers(0, 50))
def test_the_lowest(indexes: set[int], most: int) -> None:
    assert list(indexes_of(lowest(set_of(indexes), most))) == sorted(indexes)[:most]


@given(st.integers(0, MAX_TASKS), st.floats(0, 1), st.integers(0, 2**32))
def test_a_text_is_bounded_whatever_the_set(size: int, share: float, seed: int) -> None:
    chosen = random.Random(seed)
    indexes = set_of(index for index in range(size) if chosen.random() < share)
    text = format_indexes(indexes)
    assert len(text) <= MAX_SET_LENGTH
    assert text.startswith(BITS) or len(text) <= MAX_RANGES
    assert parse_indexes(text) == indexes


def test_a_set_with_many_gaps_is_written_as_bits() -> None:
    odd = set_of(range(1, MAX_TASKS, 2))
    assert format_indexes(odd).startswith(BITS)
    assert parse_indexes(format_indexes(odd)) == odd
    assert format_indexes(all_of(MAX_TASKS)) == "0-99999"


@given(COUNTS)
def test_counts_are_what_their_text_says(counts: dict[int, int]) -> None:
    assert parse_counts(format_counts(counts)) == counts


def test_counts_run_by_run() -> None:
    assert format_counts({7: 1, 40: 2, 41: 2, 42: 2, 43: 1, 44: 0}) == "7:1,40-42:2,43:1"
    assert format_counts({}) == ""


def test_counts_of_everybody_are_bounded() -> None:
    counts = {index: 1 + index % 15 for index in range(MAX_TASKS)}
    text = format_counts(counts)
    assert text.startswith(NIBBLES)
    assert len(text) <= MAX_COUNTS_LENGTH < 67_000
    assert parse_counts(text) == counts


@pytest.mark.parametrize(
    "text",
    ["x", "1,", ",", "2,1", "1-3,3", "3-1", "100000", "0-100000", "-1", "1:2", "bits:!", "bits:A", " 1", "\u0661"],
)
def test_what_is_no_set_says_so(text: str) -> None:
    with pytest.raises(IndexesError):
        parse_indexes(text)


@pytest.mark.parametrize("text", ["1", "1:0", "1:16", "1:", ":1", "2:1,1:1", "nibbles:x", "bits:AQ=="])
def test_what_are_no_counts_says_so(text: str) -> None:
    with pytest.raises(IndexesError):
        parse_counts(text)


def test_too_many_bits_are_refused() -> None:
    more = base64.b64encode(bytes(MAX_TASKS // 8) + b"\x01").decode()
    with pytest.raises(IndexesError, match="or more"):
        parse_indexes(f"{BITS}{more}")
