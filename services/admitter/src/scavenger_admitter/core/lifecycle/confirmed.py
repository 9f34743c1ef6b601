"""What cannot be undone follows only from what caches prove, or the API server was asked for.

A start, a verdict and the deletion of a Job are `Confirmed`. The writer takes nothing else, and only this module makes
values of that type (docs/designs/0019-confirm-before-what-cannot-be-undone.md).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import Final, Generic, NamedTuple, TypeVar, final

from scavenger_api import names
from scavenger_api.job import Phase, ScavengerJobStatus
from scavenger_domain.pod_ends import deleting, goes_on
from scavenger_kube.kinds import Pod

from scavenger_admitter.core.adopted.plan import plan_adopted
from scavenger_admitter.core.lifecycle import accounting
from scavenger_admitter.core.lifecycle.actions import Cleanup, Creation, DeletePod
from scavenger_admitter.core.lifecycle.exits_seen import restored
from scavenger_admitter.core.lifecycle.intents import committed
from scavenger_admitter.core.lifecycle.observation import Asked, Observation, Outcome, Seen
from scavenger_admitter.core.lifecycle.plan import plan_job

T_co = TypeVar("T_co", covariant=True)


class _Proof:
    """Nobody outside of this module has one."""


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
    kind = _kind_of(observed.seen)
    outcome = _plan(observed)
    return None if not asked and kind.final(observed.seen, outcome) else Confirmed(outcome, _PROOF, basis)


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
    seen, kind = observed.seen, _kind_of(observed.seen)
    if seen.asked is Asked.NOTHING and observed.known.name_used and kind.anew(seen):
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
    return _kind_of(seen).lacks(observed)


def _lacks_job(observed: Observation) -> bool:
    """Whether tasks run whose Job is not shown. They say what became of them; that their Job is gone, it has to say."""
    seen, run = observed.seen, _run(observed.seen)
    uid = seen.batch.metadata.uid if seen.batch is not None else ""
    return any(not pod.ended and _of_another_job(pod, run, uid) for pod in seen.pods)


def _lacks_members(observed: Observation) -> bool:
    """Whether the Job of a run in progress, or a member of it, is not shown."""
    seen, start = observed.seen, observed.known.start
    status, run, refused = seen.job.status, _run(seen), start.refused
    active = start.shown or (status.phase is not None and status.phase.active)
    if seen.batch is None and refused is not None and refused.server_trouble:
        return True  # the Job may have been created all the same, and its informer be behind
    if seen.batch is None:
        mine = any(pod.metadata.annotations.get(names.ANNOTATION_RUN) == run for pod in seen.pods)
        return active or (mine and not (status.phase and status.phase.finished))
    if not active or accounting.run_start(status) is None:
        return False
    uid = seen.batch.metadata.uid
    members = sum((owner := pod.metadata.controller) is not None and owner.uid == uid for pod in seen.pods)
    return members < seen.job.spec.parallelism


def _of_another_job(pod: Pod, run: str, uid: str) -> bool:
    """Whether a pod of this run belongs to another Job than the one that is shown, which may be older or newer."""
    owner = pod.metadata.controller
    return pod.metadata.annotations.get(names.ANNOTATION_RUN) == run and owner is not None and owner.uid != uid


def _final(seen: Seen, outcome: Outcome) -> bool:
    """Whether there is a verdict that the pods shown do not prove: the job is Completed because its Job says so, or
    finished no longer; or a run ends as the job is suspended, or though no pod of it has ended or was told to stop:
    its work may be done, or somebody else may have interrupted it before."""
    before, after = seen.job.status.phase, outcome.status.phase
    if after is None:
        return False
    if before is not None and before.finished:
        return not after.finished
    run = _run(seen)
    mine = [pod for pod in seen.pods if pod.metadata.annotations.get(names.ANNOTATION_RUN, "") == run]
    if after is Phase.COMPLETED:
        return sum(pod.status.phase == "Succeeded" for pod in mine) < seen.job.spec.parallelism
    ends = before is not None and before.active and not after.active
    return ends and (after is Phase.SUSPENDED or all(map(goes_on, mine)))


def _run(seen: Seen) -> str:
    queued = seen.job.status.queued_timestamp
    return accounting.run_id(queued) if queued is not None else ""


class _Kind(NamedTuple):
    """What has to be proved of a plan.

    Attributes:
        lacks: whether something is not shown that was there.
        final: whether it has a verdict that the pods shown do not prove. Each task ended as its own pod says.
        anew: whether a start may meet pods of an earlier Job that no watch shows. Two pods of one task have the same
            name, so none can be created twice. But beside those of a Job that is gone too many tasks would run, and
            those of an array that was replaced have other names. So what the first start of a Job has found is asked
            for again until watches show it (`Heard`).
    """

    lacks: Callable[[Observation], bool]
    final: Callable[[Seen, Outcome], bool]
    anew: Callable[[Seen], bool]


_JOB: Final = _Kind(_lacks_members, _final, lambda _: True)
_ARRAY: Final = _Kind(_lacks_job, lambda *_: False, lambda seen: seen.batch is None)


def _plan(observed: Observation) -> Outcome:
    return plan_adopted(observed) if observed.seen.job.spec.as_written else plan_job(observed)


def _kind_of(seen: Seen) -> _Kind:
    return _JOB if seen.job.spec.array is None else _ARRAY
