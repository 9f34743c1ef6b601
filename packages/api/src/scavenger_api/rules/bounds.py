"""What the administrator allows any job, whatever its namespace. The webhook refuses a job beyond these bounds; the
admitter starts none, as the webhook is optional. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Self

from scavenger_api.duration import DurationError, format_duration
from scavenger_api.job import ScavengerJobSpec
from scavenger_api.names import EVERY_TAINT, MAX_INTERRUPTION_AFTER_SECONDS
from scavenger_api.quantity import TAINT_EFFECT, QuantityError, readable_amounts, resources_with_taints
from scavenger_api.rules.problem import FORBIDDEN, Problem, shown


@dataclass(frozen=True, slots=True)
class Bounds:
    """The administrator's bounds.

    Attributes:
        max_interval: the longest `interruptionAfter`.
        tolerated: keys of the taints that jobs may tolerate, beside those of resources that they ask for; None for all.
    """

    max_interval: timedelta = timedelta(seconds=MAX_INTERRUPTION_AFTER_SECONDS)
    tolerated: tuple[str, ...] | None = ()

    @classmethod
    def of(cls, max_interval_seconds: float, allowed_tolerations: Sequence[str]) -> Self:
        """The bounds as settings have them."""
        every = EVERY_TAINT in allowed_tolerations
        return cls(timedelta(seconds=max_interval_seconds), None if every else tuple(allowed_tolerations))


BY_DEFAULT: Final = Bounds()


def bound_problems(spec: ScavengerJobSpec, bounds: Bounds) -> Iterator[Problem]:
    """Where a job asks for more than the administrator allows."""
    yield from _interval_problems(spec, bounds.max_interval)
    yield from _toleration_problems(spec, bounds.tolerated)


def requested(spec: ScavengerJobSpec) -> dict[str, int]:
    """What one pod asks for, without what is not a quantity: that is a problem of its own, and keeps nothing else from
    being said.
    """
    if spec.resources is not None:
        return readable_amounts(spec.resources.effective())
    with suppress(QuantityError):
        return dict(spec.requests)
    return {}


def _interval_problems(spec: ScavengerJobSpec, most: timedelta) -> Iterator[Problem]:
    try:
        wanted = spec.checkpoint_interval
    except (DurationError, OverflowError):
        return  # longer than there are dates; the definition refuses it
    if wanted > most:
        allowed = format_duration(most)
        text = (
            f"{spec.interruption_after} is more than the {allowed} that the administrator allows, as so much would be "
            f"lost at once; write {allowed} or less, and checkpoints as often"
        )
        yield Problem("spec.interruptionAfter", text)


def _toleration_problems(spec: ScavengerJobSpec, allowed: tuple[str, ...] | None) -> Iterator[Problem]:
    if allowed is None or not spec.tolerated:
        return
    given = resources_with_taints(requested(spec))
    where = "spec." if spec.template is None else "spec.template.spec."
    for index, toleration in enumerate(spec.tolerated):
        of_resource = toleration.key in given and toleration.effect == TAINT_EFFECT
        if toleration.key not in allowed and not of_resource:
            what = f"taints {shown(toleration.key)}" if toleration.key else "every taint, as it names no key"
            remedy = f"name one of {', '.join(allowed)}, or remove it" if allowed else "remove it"
            text = f"it tolerates {what}, which the administrator does not allow scavenger jobs; {remedy}"
            yield Problem(f"{where}tolerations[{index}].key", text, FORBIDDEN)
