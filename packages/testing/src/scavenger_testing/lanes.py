"""Tests that run beside each other on one machine, and what must not be theirs together."""

from __future__ import annotations

import os
from typing import Final

ENVIRONMENT: Final = "SCAVENGER_TEST_LANE"


def cluster_name(name: str) -> str:
    """The name of a cluster that only this process of tests has.

    Tests of one file may be in several lanes of `make test-clusters`; two processes that bring up a cluster of the same
    name would be given the same one, with each other's jobs in it, and the first to end would take it down.
    """
    lane = os.environ.get(ENVIRONMENT)
    return f"{name}-{lane}" if lane else name
