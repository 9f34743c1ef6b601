"""What is told of an interruption is what is read again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scavenger_api.reasons import InterruptionReason
from scavenger_domain.interruptions import PHRASES, WITHOUT_A_POD, Interruption, read, tell

DETAIL = st.text(st.characters(blacklist_categories=["Cs"]), max_size=40)
NAME = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)


def test_every_cause_has_words_of_its_own() -> None:
    assert set(PHRASES) == set(InterruptionReason)
    assert len({*PHRASES.values(), *WITHOUT_A_POD.values()}) == len(PHRASES) + len(WITHOUT_A_POD)


@given(
    cause=st.sampled_from(InterruptionReason), pod=NAME, detail=DETAIL, lost=st.integers(0, 10**9), bound=st.booleans()
)
def test_told_of_a_pod_and_read_again(cause: InterruptionReason, pod: str, detail: str, lost: int, bound: bool) -> None:
    assert read(tell(cause, pod, detail, lost, at_most=bound)) == Interruption(cause, pod, detail, lost, bound)


@given(cause=st.sampled_from(InterruptionReason), detail=DETAIL, lost=st.integers(0, 10**9))
def test_told_of_no_pod_and_read_again(cause: InterruptionReason, detail: str, lost: int) -> None:
    known = cause if cause in WITHOUT_A_POD else None
    assert read(tell(cause, "", detail, lost, at_most=False)) == Interruption(known, "", detail, lost)


@pytest.mark.parametrize(
    "sentence",
    [
        "",
        "interrupted: pod a was preempted; 5 CPU-seco...",
        "interrupted: pod a was promoted; 5 CPU-seconds lost",
        "interrupted: pod a was preempted; 5 CPU-seconds lost; queued to start again",
        "Evicted because the load reached the eviction threshold; 5 CPU-seconds since the last checkpoint",
    ],
)
def test_what_is_no_such_sentence_is_not_read(sentence: str) -> None:
    assert read(sentence) is None
