"""What the annotations of a Job promise: the one reader of them, for every component that looks at adopted Jobs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from scavenger_api.duration import DurationError, parse_duration
from scavenger_api.names import ANNOTATION_INTERRUPTION_AFTER

_BOUNDS: Final = (timedelta(seconds=1), timedelta(days=7))


def promised_interval(annotations: Mapping[str, str]) -> str | None:
    """The time in which a checkpoint is due, as a duration.

    Args:
        annotations: of the Job.

    Returns:
        None where the Job says nothing, or what admission refuses: the default holds then.
    """
    text = annotations.get(ANNOTATION_INTERRUPTION_AFTER, "")
    least, most = _BOUNDS
    try:
        return text if least <= parse_duration(text) <= most else None
    except (DurationError, OverflowError):
        return None
