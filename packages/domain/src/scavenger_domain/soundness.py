"""Whether decisions are checked as they are made: in tests and simulations, and not in production.

A core has a function `assert_sound` beside each decision. It says what holds of every result, whatever the cluster
looks like, and raises AssertionError in words that name the field. Services never turn the checks on.
"""

from __future__ import annotations

from typing import Final


class Checks:
    """The switch.

    Attributes:
        on: whether decisions are checked.
    """

    __slots__ = ("on",)

    def __init__(self) -> None:
        self.on = False


CHECKS: Final = Checks()
