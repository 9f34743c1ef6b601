"""The plan of an adopted Job: that of an array, and what of it is written into the status of the Job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import msgspec
from scavenger_api.job import Phase, ScavengerJobStatus
from scavenger_api.names import CONDITION_LEDGER

from scavenger_admitter.core.adopted.book import PodCounts, job_status, patch_of
from scavenger_admitter.core.adopted.ledger import read_ledger
from scavenger_admitter.core.adopted.unlabel import unlabel
from scavenger_admitter.core.adopted.work import AdoptedJob, status_of_job
from scavenger_admitter.core.lifecycle.array.plan import plan_array
from scavenger_admitter.core.lifecycle.observation import Observation, Outcome

COUNT_EVERY: Final = timedelta(seconds=10)
"""A status in which nothing but counts of pods differs is written so often."""

_COUNTS: Final = frozenset({"active", "ready", "terminating"})


def plan_adopted(observed: Observation) -> Outcome:
    """The next status of a Job, and what follows from it. Pure.

    The status of the lifecycle comes back as the status of the Job keeps it, so that the next look begins with what
    this one has ended with.
    """
    job, outcome = observed.seen.job, plan_array(observed)
    assert isinstance(job, AdoptedJob), "a Job"
    seen = observed.seen
    phase = outcome.status.phase
    if phase is None:
        return outcome
    if phase is not Phase.SUSPENDED and not phase.finished:  # else its deletions say what clients see anyway
        outcome = replace(outcome, actions=(*unlabel(seen.every_pod), *outcome.actions))
    pods = PodCounts.of(seen.every_pod, job.metadata.uid)
    found = job_status(job, outcome.status, pods, seen.now)
    patch = patch_of(job, found)
    verdict_waits = outcome.unproven and not outcome.counted and not phase.finished  # it says more than this write
    leaves = pods.terminating and job.spec.array.at_once <= 1 and patch.keys() <= _COUNTS  # so does its end
    if verdict_waits or leaves or not worth_a_write(job, patch):
        return replace(outcome, status=job.status, changed=False, quiet_until=None)
    kept = kept_status(job, found)
    wait = _wait(observed, patch) if patch.keys() <= _COUNTS else 0.0
    if wait > 0:
        soonest = wait if outcome.requeue_after is None else min(wait, outcome.requeue_after)
        return replace(outcome, status=job.status, changed=False, requeue_after=soonest, quiet_until=None)
    return replace(outcome, status=kept, changed=True, job_status=patch)


def worth_a_write(job: AdoptedJob, patch: dict[str, Any]) -> bool:
    """Whether a patch says anything, and more than that pods which are counted, or were deleted, are gone."""
    if patch.keys() != {"conditions"}:
        return bool(patch)
    before, after = (_told(listed) for listed in (job.written.get("conditions") or (), patch["conditions"]))
    return before != after


def _told(listed: Iterable[Mapping[str, Any]]) -> list[Any]:
    """What conditions say, without times and without the pods that the ledger names."""
    said: list[Any] = []
    for one in listed:
        if one["type"] == CONDITION_LEDGER:
            said.append((one["reason"], msgspec.structs.replace(read_ledger(one["message"]), counted="", removing="")))
        else:
            said.append((one["type"], one["status"], one.get("reason"), one.get("message")))
    return said


def kept_status(job: AdoptedJob, found: dict[str, Any]) -> ScavengerJobStatus:
    """What the next look reads of a status. found: of `job_status`."""
    meta = {
        "name": job.metadata.name,
        "uid": job.metadata.uid,
        "generation": job.metadata.generation,
        "creationTimestamp": job.batch.metadata.creation_timestamp,
    }
    array = job.spec.array
    return ScavengerJobStatus.model_validate(status_of_job(meta, found, array.tasks, indexed=array.indexed))


def _wait(observed: Observation, patch: dict[str, Any]) -> float:
    """Seconds until counts alone are worth a write."""
    last, now = observed.known.last_write, observed.seen.now
    return (last + COUNT_EVERY - now).total_seconds() if last is not None and last <= now else 0.0
