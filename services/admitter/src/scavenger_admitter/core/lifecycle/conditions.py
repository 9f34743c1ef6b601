"""The conditions of a ScavengerJob as its status has them."""

from __future__ import annotations

from datetime import datetime

from scavenger_api.job import ConditionType
from scavenger_api.model import Condition
from scavenger_domain.job_states import State, worth_saying

from scavenger_admitter.core.lifecycle.accounting import second


def written(
    before: tuple[Condition, ...], wanted: dict[ConditionType, State], *, generation: int, now: datetime
) -> tuple[Condition, ...]:
    """The conditions to write: `lastTransitionTime` moves only when the status flips; foreign types are kept, and those
    that say nothing are left out."""
    known = {condition.type: condition for condition in before}
    result = []
    for kind, state in wanted.items():
        old = known.pop(kind.value, None)
        if not worth_saying(kind, state, known=old is not None):
            continue
        since = old.last_transition_time if old is not None and old.status == state.status else second(now)
        message = state.message
        if message is None:
            message = old.message if old is not None and old.status == state.status else ""
        result.append(
            Condition(
                type=kind.value,
                status=state.status,
                observed_generation=generation,
                last_transition_time=since,
                reason=state.reason,
                message=message,
            )
        )
    return (*result, *known.values())
