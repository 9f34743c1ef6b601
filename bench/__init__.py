"""Benchmarks: `python -m bench`."""


class Skipped(Exception):  # noqa: N818 - a reason, not a fault
    """The benchmark cannot run on this machine; the message says why."""
