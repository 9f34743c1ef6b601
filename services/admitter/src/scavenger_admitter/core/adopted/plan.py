"""The plan of an adopted Job: that of an array or a gang, and what of it is written into the status of the Job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from scavenger_api.job import Phase, ScavengerJobStatus
from scavenger_api.ledger import Ledger, read_ledger
from scavenger_api.names import CONDITION_LEDGER
from scavenger_api.times import format_time
from scavenger_domain.adopted import status_in_own_words

from scavenger_admitter.core.adopted.book import PodCounts, job_status, patch_of
from scavenger_admitter.core.adopted.done import with_done, workers_done
from scavenger_admitter.core.adopted.release import LOOK_SECONDS, gang_wound_down, wound_down
from scavenger_admitter.core.adopted.retries import with_retries
from scavenger_admitter.core.adopted.unlabel import unlabel
from scavenger_admitter.core.adopted.work import AdoptedJob
from scavenger_admitter.core.lifecycle.observation import Observation, Outcome
from scavenger_admitter.core.lifecycle.plan import plan_job

COUNT_EVERY: Final = timedelta(seconds=10)
"""A status in which nothing but counts of pods differs is written so often."""

SOON_SECONDS: Final = 0.1
"""Until a Job is looked at again of which more follows from what is written now."""

_COUNTS: Final = frozenset({"active", "ready", "terminating"})


def plan_adopted(observed: Observation) -> Outcome:
    """The next status of a Job, and what follows from it. Pure.

    The status of the lifecycle comes back as the status of the Job keeps it, so that the next look begins with what
    this one has ended with.
    """
    seen, job = observed.seen, observed.seen.job
    assert isinstance(job, AdoptedJob), "a Job"
    if job.gang:
        known, outcome = job, plan_job(gang_wound_down(observed, job))
    else:
        known = with_retries(with_done(job, seen.every_pod), seen.every_pod)
        known = wound_down(known, seen.every_pod)
        outcome = plan_job(replace(observed, seen=replace(seen, job=known)))
    return _written(observed, job, known, outcome)


def _written(observed: Observation, job: AdoptedJob, known: AdoptedJob, outcome: Outcome) -> Outcome:
    """What follows, with the status in the words of batch/v1, or without where that is worth no write.

    Args:
        observed: the Job.
        job: the same, as it was read.
        known: the same, with what its pods say of its tasks.
        outcome: of the lifecycle.
    """
    seen = observed.seen
    if job.released and job.gang:
        outcome = replace(outcome, candidate=False)
    phase = outcome.status.phase
    if phase is None:
        return outcome
    if phase is not Phase.SUSPENDED and not phase.finished:  # else its deletions say what clients see anyway
        outcome = replace(outcome, actions=(*unlabel(seen.every_pod), *outcome.actions))
    array = outcome.status.array
    pods = PodCounts.of(seen.every_pod, job.metadata.uid, frozenset(array.counted) if array is not None else ())
    workers = workers_done(known, array, seen.every_pod) if array is not None and not job.gang else 0
    found = job_status(known, outcome.status, pods, seen.now, workers)
    if phase is Phase.FAILED and pods.active:  # they are deleted when this is written
        soonest = min(SOON_SECONDS, outcome.requeue_after or SOON_SECONDS)
        outcome = replace(outcome, requeue_after=soonest)
    patch = patch_of(job, found)
    # What is said of the pods of a task when its verdict is known is more than this write. A gang has other news.
    verdict_waits = not job.gang and _waits(outcome)
    if job.released and not pods.none_left:
        soonest = min(LOOK_SECONDS, outcome.requeue_after or LOOK_SECONDS)
        outcome = replace(outcome, requeue_after=soonest)
    alone = patch.keys() <= _COUNTS and phase is not Phase.SUSPENDED and not job.released
    leaves = alone and pods.terminating and job.at_once <= 1  # so does its end
    if verdict_waits or leaves or not worth_a_write(job, patch):
        return replace(outcome, status=job.status, changed=False, quiet_until=None)
    kept = kept_status(known, found)
    wait = _wait(observed) if alone else 0.0
    if wait > 0:
        soonest = wait if outcome.requeue_after is None else min(wait, outcome.requeue_after)
        return replace(outcome, status=job.status, changed=False, requeue_after=soonest, quiet_until=None)
    return replace(outcome, status=kept, changed=True, job_status=patch)


def _waits(outcome: Outcome) -> bool:
    """Whether a success is yet to be proven, and nothing else is counted."""
    return bool(outcome.unproven) and not outcome.counted and not (outcome.status.phase or Phase.WAITING).finished


def worth_a_write(job: AdoptedJob, patch: dict[str, Any]) -> bool:
    """Whether a patch says anything, and more than that pods which are counted, or were deleted, are gone."""
    if patch.keys() != {"conditions"}:
        return bool(patch)
    old, new = job.written.get("conditions") or (), patch["conditions"]
    return _told(old) != _told(new) or not _named(new) <= _named(old)


def _named(listed: Iterable[Mapping[str, Any]]) -> set[str]:
    """The pods that the ledger names: counted, or about to be deleted."""
    found = (read_ledger(one["message"]) for one in listed if one["type"] == CONDITION_LEDGER)
    return {pod for ledger in found for pod in (*ledger.counted.split(","), *ledger.removing.split(",")) if pod}


def _told(listed: Iterable[Mapping[str, Any]]) -> list[Any]:
    """What conditions say, without times, the pods that the ledger names, and what pods use: that goes along."""
    said: list[Any] = []
    for one in listed:
        if one["type"] == CONDITION_LEDGER:
            said.append((one["reason"], replace(read_ledger(one["message"]), counted="", removing="", usage={})))
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
    return ScavengerJobStatus.model_validate(status_in_own_words(meta, found, job.spec.array))


def _wait(observed: Observation) -> float:
    """Seconds until counts alone are worth a write."""
    last, now = observed.known.last_write, observed.seen.now
    return (last + COUNT_EVERY - now).total_seconds() if last is not None and last <= now else 0.0


def left_behind(job: AdoptedJob, outcome: Outcome, say: str, now: datetime) -> dict[str, Any]:
    """The merge patch of the status of a Job that no admitter runs any more, and whose pods go now.

    Args:
        job: the Job.
        outcome: of the last look at it: what has ended is counted.
        say: what its ledger says.
        now: the moment.
    """
    patch = dict(outcome.job_status or {})
    stated = [dict(one) for one in patch.get("conditions") or job.written.get("conditions") or ()]
    noted = next((one for one in stated if one["type"] == CONDITION_LEDGER), None)
    if noted is None:
        noted = {"type": CONDITION_LEDGER, "status": "False", "reason": Phase.WAITING.value}
        noted["lastTransitionTime"] = format_time(now)
        stated.append(noted)
    ledger = read_ledger(noted["message"]) if "message" in noted else Ledger()
    message = replace(ledger, say=say).text
    noted |= {"message": message, "lastProbeTime": format_time(now)}
    return {**patch, "active": 0, "ready": 0, "terminating": 0, "conditions": stated}
