"""What the prioritizer writes to the API: labels, annotations, budgets and Events. Decides nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from scavenger_api import names
from scavenger_domain.gang import MICROSECONDS
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import ApiError, Conflict, NotFound, TooManyRequests, Unauthorized, Unavailable
from scavenger_kube.kinds import ConfigMap, Pod
from scavenger_kube.resources import CONFIGMAPS, PODDISRUPTIONBUDGETS, PODS
from scavenger_runtime.clock import Clock
from scavenger_runtime.events import EventRecorder
from scavenger_runtime.logging import get_logger
from scavenger_runtime.write_budget import Urgency, WriteBudget

from scavenger_prioritizer import metrics
from scavenger_prioritizer.core.plan import ClassPlan, PodWrite
from scavenger_prioritizer.core.snapshot import PodFacts
from scavenger_prioritizer.facts import BUDGET_SPEC, FactsCache

BUDGET_LABELS: Final = {
    names.LABEL_MANAGED_BY: names.PRIORITIZER,
    "app.kubernetes.io/part-of": "scavenger-jobs",
}

PASS_SECONDS: Final = 5.0
"""A pass writes for no longer, nor more than the budget has for so long: what is left is decided again."""

REMEMBERED: Final = 3600 * MICROSECONDS
"""For how long it is remembered when a running priority was written; more than any pace."""

Write = Callable[[], Awaitable[object]]


@dataclass(frozen=True)
class Step:
    """Writes of one kind, made before those of the next step are.

    urgency: of each; None for those that free capacity. These wait for no turn: while victims leave there are few
    turns, and the next regular pods wait for just this. Writes are made several at a time, but for those that no pod
    waits for (`Urgency.EXPLAIN`): the busier the API server is, the fewer of these there are.
    """

    kind: str
    writes: Sequence[Write]
    urgency: Urgency | None


log = get_logger(__name__)


class PlanWriter:
    """Carries plans out, and notes in the caches what it has written, until the informers show it.

    budget: of requests. clock: how long a pass takes. max_writes: most writes of one plan. concurrent_writes: how many
    of these are under way at once, where a pod waits for them.
    """

    def __init__(
        self,
        client: ApiClient,
        events: EventRecorder,
        pods: FactsCache[Pod, PodFacts],
        *,
        budget: WriteBudget,
        clock: Clock,
        max_writes: int,
        concurrent_writes: int,
    ) -> None:
        self._client = client
        self._events = events
        self._pods = pods
        self._budget = budget
        self._clock = clock
        self._max_writes = max_writes
        self._concurrent_writes = concurrent_writes
        self._now = 0
        self.written_at: dict[str, int] = {}
        """Jobs and tasks by unit, and when their running priority was written, for those that must not be again."""
        self.exposed_at: dict[str, int] = {}
        """The same, and when they were written to be preemptible."""
        self.idle_budgets: Mapping[str, int] = {}
        """Namespaces in which the budget selects nothing, and since when."""

    async def carry_out(self, plan: ClassPlan, outdated: Callable[[], bool] = lambda: False) -> int:
        """Write what the plan says, in its order and as much as may be; returns how many writes are left over.

        outdated: whether there is something new to decide on. What no pod waits for is left to the next plan then.

        Raises the ApiError that shows that the API server cannot be written to at all at the moment.
        """
        left, turns = self._max_writes, self._budget.affordable(PASS_SECONDS)
        until = self._clock.monotonic() + PASS_SECONDS
        pending = plan.writes
        self._now = plan.now
        self.written_at, self.exposed_at = (
            {key: at for key, at in times.items() if plan.now < at + REMEMBERED}
            for times in (self.written_at, self.exposed_at)
        )
        self.idle_budgets = plan.idle_budgets
        for step in self._steps(plan):
            most = left if step.urgency is None else min(left, turns)
            made = await self._all(step, step.writes[:most], until, outdated)
            left, pending = left - made, pending - made
            if step.urgency is not None:
                turns -= made
            if made < len(step.writes):
                break
        if plan.writes:
            log.info(
                "classes written",
                protected=len(plan.protect),
                unprotected=len(plan.unprotect),
                refreshed=len(plan.refresh),
                budgets=len(plan.budgets_needed) + len(plan.budgets_surplus),
                pending=pending,
            )
        return pending

    def record_kept(self, levels: ConfigMap, reason: str) -> None:
        """An Event on the levels: classes no longer follow them, for this reason."""
        self._events.warning(CONFIGMAPS, levels, "ClassesKept", f"Running jobs keep their preemption classes: {reason}")

    def record_followed(self, levels: ConfigMap) -> None:
        """An Event on the levels: classes follow them again."""
        text = "The preemption classes of running jobs follow the levels again"
        self._events.normal(CONFIGMAPS, levels, "ClassesFollow", text)

    def _steps(self, plan: ClassPlan) -> Iterator[Step]:
        """All of a plan, in its order."""
        count = Urgency.COUNT
        more, protect, unprotect, rest = ([partial(self._write_pod, w) for w in step] for step in plan.class_steps)
        yield Step("budget", [partial(self._apply_budget, n) for n in plan.budgets_needed], count)
        yield Step("cover", [partial(self._write_pod, w) for w in plan.cover], count)
        yield Step("unprotect", more, None)
        yield Step("protect", protect, count)
        yield Step("unprotect", unprotect, count)
        yield Step("protect", rest, Urgency.EXPLAIN)
        yield Step("refresh", [partial(self._write_pod, w) for w in plan.refresh], Urgency.EXPLAIN)
        yield Step("budget", [partial(self._remove_budget, n) for n in plan.budgets_surplus], count)

    async def _all(self, step: Step, writes: Sequence[Write], until: float, outdated: Callable[[], bool]) -> int:
        """These writes of a step, and how many of them were made until then, on the monotonic clock. The first sign
        that the API server is not there ends them."""
        explains = step.urgency is Urgency.EXPLAIN
        queue = iter(writes)
        made = 0

        async def work() -> None:
            nonlocal made
            for write in queue:
                if step.urgency is None:
                    self._budget.spend(1)
                else:
                    await self._budget.take(step.urgency)
                metrics.WRITES.labels(step.kind, await outcome_of(step.kind, write)).inc()
                made += 1
                if self._clock.monotonic() >= until or (explains and outdated()):
                    return

        width = min(len(writes), 1 if explains else self._concurrent_writes)
        workers = [asyncio.ensure_future(work()) for _ in range(width)]
        try:
            await asyncio.gather(*workers)
        except ApiError:
            metrics.WRITES.labels(step.kind, "failed").inc()
            raise
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
        return made

    async def _write_pod(self, write: PodWrite) -> None:
        """Labels and annotation in one patch. The UID keeps it from a later pod of the same name."""
        pod, metadata = write.pod, dict[str, Any](uid=write.pod.uid)
        labels: dict[str, str | None] = {}
        if write.class_ is not None:
            labels[names.LABEL_PREEMPTION_CLASS] = write.class_
        if write.exempt is not None:
            labels[names.LABEL_BUDGET] = names.NO_BUDGET if write.exempt else None
        if labels:
            metadata["labels"] = labels
        if write.priority is not None:
            metadata["annotations"] = {names.ANNOTATION_RUNNING_PRIORITY: str(write.priority)}
        await self._client.strategic_patch(PODS, pod.namespace, pod.name, {"metadata": metadata})
        self._pods.note(pod, class_=write.class_, written=write.priority, exempt=write.exempt)
        if write.class_ == names.PREEMPTIBLE:
            self.exposed_at[pod.unit] = self._now
        if write.class_ is not None or write.priority is not None:
            self.written_at[pod.unit] = self._now

    async def _apply_budget(self, namespace: str) -> None:
        body = {
            "apiVersion": PODDISRUPTIONBUDGETS.api_version,
            "kind": PODDISRUPTIONBUDGETS.kind,
            "metadata": {"namespace": namespace, "name": names.DISRUPTION_BUDGET, "labels": BUDGET_LABELS},
            "spec": BUDGET_SPEC,
        }
        await self._client.apply(
            PODDISRUPTIONBUDGETS, namespace, names.DISRUPTION_BUDGET, body, field_manager=names.PRIORITIZER
        )

    async def _remove_budget(self, namespace: str) -> None:
        await self._client.delete(PODDISRUPTIONBUDGETS, namespace, names.DISRUPTION_BUDGET)


async def outcome_of(kind: str, write: Write) -> str:
    """Carry one write out and say what became of it.

    An object that is gone or has changed is planned again in the next pass; so is one that is refused, in case what
    refuses it is gone by then. Raises Unavailable, Unauthorized and TooManyRequests: all other writes would meet the
    same.
    """
    try:
        await write()
    except NotFound:
        return "gone"
    except Conflict:
        return "conflict"
    except (Unavailable, Unauthorized, TooManyRequests):
        raise
    except ApiError as error:
        log.warning("write refused", kind=kind, status=error.status, reason=error.reason, error=str(error))
        return "refused"
    return "written"
