"""The indexes of an array: what the CRD cannot say of them."""

from __future__ import annotations

from collections.abc import Iterator

from scavenger_api.indexes import IndexesError
from scavenger_api.job import ScavengerJobSpec
from scavenger_api.rules.problem import Problem
from scavenger_api.task_numbers import parse_numbers


def array_problems(spec: ScavengerJobSpec) -> Iterator[Problem]:
    """Why the indexes of an array are none."""
    if spec.array is None or spec.array.indexes is None:
        return
    try:
        parse_numbers(spec.array.indexes)
    except IndexesError as error:
        yield Problem("spec.array.indexes", str(error))
