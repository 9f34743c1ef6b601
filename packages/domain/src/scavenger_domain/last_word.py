"""How old the last word of a component is: a status says nothing of what happened since its writer stopped looking."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from scavenger_api.names import LEADER_SILENT_SECONDS

SILENT_AFTER: Final = timedelta(seconds=LEADER_SILENT_SECONDS)
"""A component whose Lease is older does not look."""


def silent(renewed: datetime | None, now: datetime) -> bool:
    """Whether a component does not look. renewed: when it last renewed its Lease; None where it has none."""
    return renewed is None or now - renewed > SILENT_AFTER


def as_of(component: str, renewed: datetime | None, now: datetime) -> str:
    """What holds of all that a component writes: `as of 10:04 UTC; the admitter has not looked since`.

    Args:
        component: in words, such as `the admitter`.
        renewed: as for `silent`.
        now: the present moment.

    Returns:
        The words; empty while the component looks.
    """
    if renewed is None:
        return f"as {component} left them; nothing says when"
    if not silent(renewed, now):
        return ""
    at = renewed.strftime("%H:%M UTC" if now - renewed < timedelta(hours=12) else "%Y-%m-%d %H:%M UTC")
    return f"as of {at}; {component} has not looked since"
