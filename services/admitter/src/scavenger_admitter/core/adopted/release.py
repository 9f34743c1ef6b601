"""An adopted Job that is to become a regular Job: what runs ends by itself, or goes once it has saved its state.

Nothing starts any more. That is what a Job with less parallelism does, so no other rule is needed: it has as much as
there are pods that have saved nothing since the release was asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Final

from scavenger_api.reasons import InterruptionReason
from scavenger_api.times import micros
from scavenger_domain.pod_ends import deleting, started_at
from scavenger_domain.pod_reading import checkpoint_of
from scavenger_kube import kinds

from scavenger_admitter.core.adopted.work import AdoptedJob
from scavenger_admitter.core.lifecycle.accounting import run_of
from scavenger_admitter.core.lifecycle.observation import InterruptDecision, Observation

LOOK_SECONDS: Final = 5.0
"""Between two looks at a Job that is to be released, and of which something runs."""


def wound_down(job: AdoptedJob, pods: Iterable[kinds.Pod]) -> AdoptedJob:
    """The Job with as much parallelism as it may have now. One whose release was not requested is unchanged.

    Args:
        job: as it was read.
        pods: all that carry its name.
    """
    if not job.released:
        return job
    waited = sum(_runs_unsaved(pod, job.asked) for pod in pods if _of(pod, job))
    array = job.spec.tasks
    array = array.model_copy(update={"max_running": min(waited, array.at_once)})
    return job.model_copy(update={"spec": job.spec.model_copy(update={"array": array})})


def gang_wound_down(observed: Observation, job: AdoptedJob) -> Observation:
    """The same for a gang, which is one run: nothing of it starts, and it is interrupted when all its pods have saved.

    Args:
        observed: what is known of it.
        job: it.
    """
    if not job.released:
        return observed
    waited = any(_runs_unsaved(pod, job.asked) for pod in observed.seen.pods if _of(pod, job))
    why = InterruptDecision(InterruptionReason.MAX_RUNNING, "the Job becomes a regular Job")
    take = {} if waited else {run_of(job.status): why}
    return replace(observed, granted=replace(observed.granted, units=0, take=take))


def _of(pod: kinds.Pod, job: AdoptedJob) -> bool:
    owner = pod.metadata.controller
    return owner is not None and owner.uid == job.metadata.uid


def _runs_unsaved(pod: kinds.Pod, asked: datetime | None) -> bool:
    """Whether its program runs, and has reported no checkpoint since then."""
    if pod.ended or deleting(pod) or started_at(pod) is None:
        return False
    saved = checkpoint_of(pod.metadata.annotations)
    return asked is None or saved is None or saved <= micros(asked)
