"""docs/demo.md: its excerpt comes from a log of the demo, and its counts fit the story."""

from __future__ import annotations

import re

import demo_story
import pytest

from docs.demo_excerpt import PAGE, lines_of, rewritten, shape

COUNTS = re.compile(r"(\d+) jobs? runs?, (\d+) protected(?:\. Interrupted: (.*))?")
LOG = """\
   1.0 s  bringing up a real Kubernetes
  34.0 s  6 of them run, in real containers
  60.0 s  ██████████████████████████████  40 %  jobs start. 4 jobs run, 2 protected. Interrupted: bio-3
  65.0 s  ███████████████░░░░░░░░░░░░░░░  50 %  jobs start. 5 jobs run, 4 protected
  70.0 s  $ kubectl sj board --port=0
"""


def page(*lines: str) -> str:
    return "\n".join(("Text.", "", "```", *lines, "```", "", "More."))


def test_the_lines_of_a_log_replace_those_of_the_page() -> None:
    bar = f"  10.0 s  {'█' * 30}  99 %  jobs start. 1 jobs run, 1 protected. Interrupted: bio-1 bio-2"
    old = page("   5.0 s  9 of them run, in real containers", bar)
    assert lines_of(rewritten(old, LOG)) == [LOG.splitlines()[1], LOG.splitlines()[3]], "the last of those that repeat"
    with pytest.raises(ValueError, match="of them ran"):
        rewritten(page("   5.0 s  9 of them ran"), LOG)
    with pytest.raises(ValueError, match="of them run"):
        rewritten(page("  70.0 s  $ kubectl sj board --port=0", "   5.0 s  9 of them run, in real containers"), LOG)


def test_the_page_is_what_a_log_gives() -> None:
    text = PAGE.read_text()
    assert rewritten(text, "\n".join(lines_of(text))) == text


def test_its_counts_fit_the_story() -> None:
    """A gang is one job, and a job is protected only while it runs."""
    jobs = demo_story.BIO_JOBS + 2  # and fold, and sweep
    found = [match for line in lines_of(PAGE.read_text()) if (match := COUNTS.search(line))]
    assert len(found) >= 3
    for match in found:
        running, protected, interrupted = int(match[1]), int(match[2]), (match[3] or "").split()
        assert protected <= running <= jobs - len(interrupted), match[0]


def test_what_differs_each_time_is_left_out() -> None:
    told = (
        "  50.4 s  the gang fold runs: bio-3 and bio-9 left for it",
        " 151.0 s  the gang fold runs: bio-1, bio-2 and bio-11 left for it",
    )
    assert shape(told[0]) == shape(told[1])
    assert shape(told[0]) != shape(told[0].replace("left", "went"))
