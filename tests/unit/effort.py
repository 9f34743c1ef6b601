"""How much is tried of what holds whatever the input.

`thorough` is what `make test` runs: the same examples every time, so that it fails for a change and for nothing else.
`quick` is a tenth of that with examples of its own at each run, and `fuzz` ten times as many: what one of those finds
is to become a test with a name.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

THOROUGH = 100
"""Examples of a property that asks for no other number."""

QUICK = THOROUGH // 10

FUZZ = THOROUGH * 10

FEWEST = 5


def register_profiles() -> None:
    """Make all known, and the thorough one what is done unless told otherwise."""
    # No deadline: how long an example takes says more about what else runs on the machine.
    whenever = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("thorough", whenever, max_examples=THOROUGH, derandomize=True, database=None)
    settings.register_profile("quick", whenever, max_examples=QUICK)
    settings.register_profile("fuzz", whenever, max_examples=FUZZ)
    settings.load_profile("thorough")


def examples(number: int) -> int:
    """That many in a thorough run, and as many fewer or more as there are of other properties."""
    return max(FEWEST, number * settings().max_examples // THOROUGH)
