"""A configuration, as tests of the programs that measure water change it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from scavenger_water.configuration import Configuration, read_configuration

GIVEN: Final[dict[str, Any]] = {
    "model": "spce",
    "molecules": 500,
    "temperature": 298.15,
    "seed": 1,
    "time_step_fs": 2,
    "steps": 1000,
    "output_interval": 50,
}


def read(models: Sequence[str], **changes: Any) -> Configuration:
    """What is read of it; `...` for what it is not to have."""
    given = {key: value for key, value in {**GIVEN, **changes}.items() if value is not ...}
    return read_configuration(json.dumps(given), models)
