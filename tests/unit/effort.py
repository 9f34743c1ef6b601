"""How much is tried of what holds whatever the input: thoroughly, or, with `--hypothesis-profile=quick`, a tenth."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

THOROUGH = 100
"""Examples of a property that asks for no other number."""

QUICK = THOROUGH // 10

FEWEST = 5


def register_profiles() -> None:
    """Make both known, and the thorough one what is done unless told otherwise."""
    # No deadline: how long an example takes says more about what else runs on the machine.
    whenever = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("thorough", whenever, max_examples=THOROUGH)
    settings.register_profile("quick", whenever, max_examples=QUICK)
    settings.load_profile("thorough")


def examples(number: int) -> int:
    """That many in a thorough run, and as many fewer as there are of other properties."""
    return max(FEWEST, number * settings().max_examples // THOROUGH)
