"""What jobs use: figures over runs, and how they are written and read."""

from __future__ import annotations

import random

import pytest
from scavenger_domain.recommendation import Measured, recommend
from scavenger_domain.usage import (
    JobUsage,
    ResourceUsage,
    UsageBook,
    read_usage,
    usage_in_table,
    usage_in_words,
    usage_of_table,
)

MEBI = 2**20
REQUESTED = {"cpu": 4000, "memory": 8 * 2**30}


def measured(*cores: float, known: JobUsage | None = None, run: str = "r", memory: int = MEBI) -> UsageBook:
    """A book of one run with a sample a minute."""
    book = UsageBook(known)
    for minute, one in enumerate(cores):
        book.add(run, {"cpu": one * 1000, "memory": memory}, REQUESTED, 60, minute * 60)
    return book


def cpu(book: UsageBook) -> ResourceUsage:
    assert book.usage is not None
    return book.usage.resources["cpu"]


def test_percentiles_are_exact_to_an_eighth_and_the_maximum_is_exact() -> None:
    drawn = random.Random(1)
    cores = sorted(drawn.lognormvariate(0, 1) for _ in range(2000))
    found = cpu(measured(*cores))
    assert found.max == pytest.approx(cores[-1] * 1000, abs=1)
    for share, amount in ((0.5, found.p50), (0.95, found.p95)):
        exact = cores[int(share * len(cores)) - 1] * 1000
        assert exact / 1.13 <= amount <= exact * 1.13
    assert found.requested == 4000


def test_less_than_five_minutes_say_nothing() -> None:
    assert measured(1, 1, 1, 1).usage is None
    assert measured(1, 1, 1, 1, 1).usage is not None


def test_another_process_goes_on_with_what_the_status_says() -> None:
    """The figures are those of before, its runs and seconds count, and what it sees outweighs nothing."""
    before = measured(*[1.0] * 90, *[3.0] * 10)
    before.end_before(1e9)
    first = before.usage
    assert first is not None
    after = UsageBook(read_usage(usage_in_words(first)))
    assert after.usage == first
    after.add("s", {"cpu": 100, "memory": MEBI}, REQUESTED, 60, 1e9)
    again = after.usage
    assert again is not None
    assert (again.runs, again.pod_seconds) == (2, 6060)
    assert again.resources["cpu"].max == 3000
    assert again.resources["cpu"].p50 == first.resources["cpu"].p50


def test_each_run_counts_once_in_what_is_typical() -> None:
    book = UsageBook()
    for run, peak in enumerate((1.0, 1.1, 1.2, 9.0, 1.1)):
        book.add(str(run), {"cpu": peak * 1000}, REQUESTED, 600, run * 1000)
        book.add(str(run), {"cpu": 100}, REQUESTED, 60, run * 1000 + 60)
    for _ in range(2):
        assert book.usage is not None
        assert book.usage.runs == 5
        assert 950 <= cpu(book).typical <= 1250
        assert cpu(book).max == 9000
        assert "memory" not in book.usage.resources
        book.end_before(1e9)
    assert book.last == 0


def test_figures_are_written_and_read_the_same() -> None:
    usage = measured(*[0.7] * 9, 1.1, memory=700 * MEBI).usage
    assert usage is not None
    words = usage_in_words(usage)
    assert words["cpu"]["requested"] == "4"
    assert words["memory"]["max"] == "700Mi"
    assert len(str(words)) < 300
    assert read_usage(words) == usage
    assert usage_of_table(usage_in_table(usage)) == usage


def test_devices_are_counted_in_thousandths() -> None:
    """A part of one may be used, and the whole one is requested."""
    book, gpu = UsageBook(), "nvidia.com/gpu"
    for minute, share in enumerate((0.2, 0.2, 0.2, 0.2, 0.7)):
        book.add("r", {gpu: 1000 * share, "cpu": 100}, {gpu: 2000, "cpu": 4000}, 100, minute * 100)
    usage = book.usage
    assert usage is not None
    assert list(usage.resources) == ["cpu", gpu]
    words = usage_in_words(usage)
    assert (words["devices"][gpu]["requested"], words["devices"][gpu]["max"]) == ("2", "700m")
    assert read_usage(words) == usage
    assert usage_of_table(usage_in_table(usage)) == usage
    assert UsageBook(usage).usage == usage
    assert recommend(Measured(usage), ()).amounts.keys() <= {"cpu"}


@pytest.mark.parametrize(
    "words",
    [None, {}, {"podSeconds": 1}, {"podSeconds": "x", "runs": 1}, {"podSeconds": 9, "runs": 1, "cpu": {"p50": "1"}}],
)
def test_what_nobody_can_read_says_nothing(words: dict[str, object] | None) -> None:
    assert read_usage(words) is None
    assert usage_of_table({"cpu.max": 3.0}) is None
