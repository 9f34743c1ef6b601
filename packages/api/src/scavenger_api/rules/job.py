"""A job by itself: what is wrong with it, whatever the cluster. The webhook refuses by it; `lint` tells it before."""

from __future__ import annotations

from collections.abc import Iterator

from scavenger_api.job import ScavengerJobSpec
from scavenger_api.rules.array import array_problems
from scavenger_api.rules.image import image_problem
from scavenger_api.rules.mounts import mount_problems, mount_warnings
from scavenger_api.rules.problem import Problem, shown
from scavenger_api.rules.quantities import quantity_problems, size_warnings
from scavenger_api.rules.references import reference_problems
from scavenger_api.rules.size import size_problems
from scavenger_api.rules.snapshot import snapshot_problems, snapshot_warnings
from scavenger_api.rules.template import images_of, template_problems, template_warnings


def problems_of_its_own(spec: ScavengerJobSpec) -> Iterator[Problem]:
    """Everything that is wrong with the fields of a job."""
    yield from size_problems(spec)
    yield from array_problems(spec)
    yield from template_problems(spec)
    yield from _image_problems(spec)
    yield from quantity_problems(spec)
    yield from reference_problems(spec)
    yield from mount_problems(spec)
    yield from snapshot_problems(spec)


def warnings_of_its_own(spec: ScavengerJobSpec) -> Iterator[str]:
    """What is not wrong with the fields of a job without problems, and will surprise."""
    yield from mount_warnings(spec)
    yield from template_warnings(spec)
    yield from size_warnings(spec)
    yield from snapshot_warnings(spec)


def _image_problems(spec: ScavengerJobSpec) -> Iterator[Problem]:
    for field, image in images_of(spec):
        problem = image_problem(image)
        if problem:
            yield Problem(field, f"{shown(image, 120)}: {problem}")
