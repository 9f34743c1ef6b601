"""Bugs that are put into the services on purpose are found, and without them nothing is wrong.

BUGS=all takes those as well that it takes the whole system to see, and the one that takes PYTHONHASHSEED=0.
"""

from __future__ import annotations

import os

import pytest

from tests.simulation.mutations import BUGS, Bug, found_in
from tests.simulation.system.history import History, simulate
from tests.simulation.system.situations import SamePlace
from tests.simulation.system.system import System

OFF = (System, SamePlace)
CHOSEN = [bug for bug in BUGS if os.environ.get("BUGS") == "all" or not issubclass(bug.shows, OFF)]


@pytest.mark.parametrize("situation", list(dict.fromkeys(bug.shows for bug in CHOSEN)))
def test_nothing_is_wrong_in_a_situation(situation: type[History]) -> None:
    simulate(1, situation)


@pytest.mark.parametrize("bug", CHOSEN, ids=lambda bug: bug.name.replace(" ", "-"))
def test_a_bug_shows_in_its_situation(bug: Bug) -> None:
    assert found_in(bug) is not None
