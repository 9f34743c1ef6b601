"""What cannot be undone follows only from what caches prove, or the API server was asked for.

A start, a verdict and the deletion of a Job are `Confirmed`. The writer takes nothing else, and only this module makes
values of that type (docs/designs/0019-confirm-before-what-cannot-be-undone.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final, Generic, TypeVar, final

from scavenger_api.job import ScavengerJobStatus
from scavenger_domain.pod_ends import deleting
from scavenger_kube.kinds import Pod

from scavenger_admitter.core.adopted.plan import plan_adopted
from scavenger_admitter.core.lifecycle.actions import Cleanup, Creation, DeletePod
from scavenger_admitter.core.lifecycle.books.book import kind_of
from scavenger_admitter.core.lifecycle.exits_seen import restored
from scavenger_admitter.core.lifecycle.intents import committed
from scavenger_admitter.core.lifecycle.observation import Asked, Observation, Outcome, Seen
from scavenger_admitter.core.lifecycle.plan import plan_job

T_co = TypeVar("T_co", covariant=True)


class _Proof:
    """Only this module has one."""


_PROOF: Final = _Proof()


@final
class Confirmed(Generic[T_co]):
    """Something that no cache that is behind can have made wrong.

    Attributes:
        value: what that is.
        basis: the observation that it follows from; None where it follows from no single one.
    """

    __slots__ = ("basis", "value")

    def __init__(self, value: T_co, proof: _Proof, basis: Observation | None = None) -> None:
        self.value = value
        self.basis = basis


def confirm(observed: Observation) -> Confirmed[Outcome] | None:
    """What follows from an observation; None where the API server is to be asked for the Job and its pods first."""
    basis, observed = observed, _with_exits(observed)
    asked = observed.seen.asked is Asked.RUN
    if not asked and _doubtful(observed):
        return None
    outcome = _plan(observed)
    final = not asked and kind_of(observed.seen).final(observed.seen, outcome)
    return None if final else Confirmed(outcome, _PROOF, basis)


def confirm_creation(
    observed: Observation, decided: Confirmed[Outcome] | None = None
) -> Confirmed[Creation | None] | None:
    """What is to be created for a job; None where the API server is to be asked for its pods first. It is not asked
    where there was no Job of this name: the pods from before this process began to lead are shown.

    Args:
        observed: what is known.
        decided: what was decided a moment ago. It is not planned a second time where that was on the same observation.
    """
    basis, observed = observed, _with_exits(observed)
    seen = observed.seen
    if seen.asked is Asked.NOTHING and observed.known.name_used and kind_of(seen).anew(seen):
        return None
    same = decided is not None and decided.basis is basis
    actions = (decided.value if decided is not None and same else _plan(observed)).actions
    return Confirmed(next((one for one in actions if isinstance(one, Creation)), None), _PROOF)


def cleanups(
    decided: Confirmed[Outcome], done: Collection[Cleanup], written: ScavengerJobStatus
) -> Confirmed[tuple[Cleanup, ...]]:
    """What follows but to create something.

    Args:
        decided: what was.
        done: what has been done and is not shown yet.
        written: the status as the API server has it. A pod is not deleted before it says why.
    """
    wanted = (one for one in decided.value.actions if not isinstance(one, Creation) and one not in done)
    return Confirmed(tuple(one for one in wanted if not isinstance(one, DeletePod) or committed(one, written)), _PROOF)


def placed(seen: Seen) -> Iterator[tuple[str, Pod]]:
    """The pods that have a node, each with its name."""
    for pod in seen.pods:
        if pod.spec.node_name:
            yield pod.spec.node_name, pod


def _with_exits(observed: Observation) -> Observation:
    """The same with the ends of pods as they were seen first."""
    exits, seen = observed.known.exits, observed.seen
    if not exits:
        return observed
    return replace(observed, seen=replace(seen, pods=tuple(restored(pod, exits) for pod in seen.pods)))


def _doubtful(observed: Observation) -> bool:
    """Whether something is missing that the status, or a pod, says was there: either it is gone, or its informer is
    behind the others, and what follows from the one must not be done for the other."""
    seen = observed.seen
    if any(deleting(pod) and not pod.ended and seen.nodes.get(name) is None for name, pod in placed(seen)):
        return True
    return kind_of(seen).lacks(observed)


def _plan(observed: Observation) -> Outcome:
    return plan_adopted(observed) if observed.seen.job.spec.as_written else plan_job(observed)
