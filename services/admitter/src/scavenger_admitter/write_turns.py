"""Whose reconcile may write now: a job waits for its turn in the budget, and no worker waits with it.

The turn comes before the write and not within it: a job that has waited is looked at again, and what is written is
decided on what is so then. So a worker is never held up by a write that can wait, while one that cannot is behind it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from scavenger_api.job import Phase, ScavengerJob
from scavenger_runtime.write_budget import Urgency, WriteBudget

from scavenger_admitter.core.lifecycle.actions import DeleteJob, DeletePod, DeleteScavengerJob, EndJob, ReleasePod
from scavenger_admitter.core.lifecycle.observation import Outcome
from scavenger_admitter.wakeups import Wakeups


def urgency_of(job: ScavengerJob, outcome: Outcome) -> Urgency:
    """How urgent it is to write this outcome of a job: as urgent as the most urgent part of it."""
    gang = job.spec.parallelism > 1
    return max((_of_status(job, outcome), *_of_actions(outcome.actions, gang)))


def can_wait(job: ScavengerJob, outcome: Outcome) -> bool:
    """Whether the outcome is as good as written: the job stays in its phase, and no other job is affected until the
    write has its turn."""
    if outcome.quiet_until is not None:
        return True
    new, old = outcome.status, job.status
    stays = new.phase is old.phase and new.queued_timestamp == old.queued_timestamp
    stays = stays and new.after == old.after and new.recommended == old.recommended
    return stays and not outcome.start_failed


def _of_status(job: ScavengerJob, outcome: Outcome) -> Urgency:
    """Of the status alone. One that could be left out, as it follows from the Job at every look, explains. One of the
    same phase that cannot be left out queues its job again."""
    phase = outcome.status.phase
    if outcome.counted:
        return Urgency.COUNT
    if phase is None or can_wait(job, outcome):
        return Urgency.EXPLAIN
    begins = phase in (Phase.WAITING, Phase.STARTING, Phase.RUNNING)
    return Urgency.START if begins or phase is job.status.phase else Urgency.COUNT


def _of_actions(actions: Iterable[Any], gang: bool) -> Iterable[Urgency]:
    for action in actions:
        match action:
            case DeleteJob() | DeletePod() | EndJob():
                yield Urgency.CANCEL if gang else Urgency.COUNT
            case ReleasePod():
                yield Urgency.COUNT
            case DeleteScavengerJob():
                yield Urgency.EXPLAIN
            case _:  # what else follows from a status begins something
                yield Urgency.START


class WriteTurns:
    """The turns of jobs, by key.

    budget: what they take them from. wakeups: for a job whose turn has come.
    """

    def __init__(self, budget: WriteBudget, wakeups: Wakeups) -> None:
        self._budget = budget
        self._wakeups = wakeups
        self._waiting: dict[str, tuple[Urgency, asyncio.Task[None]]] = {}
        self._given: set[str] = set()

    def take(self, key: str, urgency: Urgency, requests: int) -> bool:
        """Whether the job may send so many requests now. If not it is woken when its turn has come; one that waits
        already and has become more urgent goes on waiting as such. Without anything to send it waits no longer."""
        if requests < 1:
            self._drop(key)
            return True
        if not self._has_turn(key, urgency):
            return False
        self._budget.spend(requests - 1)
        return True

    def ready(self, key: str, urgency: Urgency) -> bool:
        """Whether the job may send a request now; `take` says what comes of that. If not it is woken as by `take`."""
        if self._has_turn(key, urgency):
            self._given.add(key)
            return True
        return False

    def _has_turn(self, key: str, urgency: Urgency) -> bool:
        if key in self._given:
            self._given.discard(key)
            return True
        if key in self._waiting:
            before, task = self._waiting[key]
            if urgency <= before:
                return False
            task.cancel()
            del self._waiting[key]
        if self._budget.try_take(urgency):
            return True
        self._waiting[key] = urgency, asyncio.get_running_loop().create_task(self._wait(key, urgency))
        return False

    async def _wait(self, key: str, urgency: Urgency) -> None:
        await self._budget.take(urgency)
        del self._waiting[key]
        self._given.add(key)
        self._wakeups.reconcile(key)

    def _drop(self, key: str) -> None:
        if key in self._waiting:
            self._waiting.pop(key)[1].cancel()
        if key in self._given:
            self._given.discard(key)
            self._budget.give_back()
