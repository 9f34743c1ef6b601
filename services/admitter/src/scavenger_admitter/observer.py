"""What is known of one job at one moment: from informers, its record, and the admission loop."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from scavenger_api.indexes import set_of
from scavenger_api.job import ScavengerJob
from scavenger_api.rules.bounds import Bounds
from scavenger_api.usage import RecommendedRequests
from scavenger_domain.pod_ends import started_at
from scavenger_domain.usage import JobUsage
from scavenger_kube.kinds import Pod
from scavenger_runtime.clock import Clock

from scavenger_admitter.admission_loop import AdmissionLoop
from scavenger_admitter.attempt import Stage
from scavenger_admitter.core.lifecycle import accounting
from scavenger_admitter.core.lifecycle.actions import DeletePod
from scavenger_admitter.core.lifecycle.exits_seen import remembered
from scavenger_admitter.core.lifecycle.observation import (
    Granted,
    InterruptDecision,
    Known,
    LifecycleSettings,
    NamespaceSeen,
    Observation,
    References,
    Seen,
    StartKnown,
)
from scavenger_admitter.core.lifecycle.other_jobs import OtherJob, find_circle, other_job, waits_for
from scavenger_admitter.explain import Explanations
from scavenger_admitter.facts import run_of
from scavenger_admitter.informers import Informers
from scavenger_admitter.job_record import GangPods, JobRecords
from scavenger_admitter.settings import AdmitterSettings
from scavenger_admitter.slim_jobs import size_of
from scavenger_admitter.success_evidence import SuccessEvidence


class Observer:
    """Looks at one job after the other.

    Args:
        settings: of the admitter.
        clock: for `now`.
        informers: what the API server shows.
        records: of all jobs.
        admission: says why jobs wait.
        explanations: which of them are told.
        usage: CPU time that pods on reclaimed capacity used.
        used: what the pods of a job used over all its runs.
        recommended: what the pods of a job request from the next start on.
        evidence: of successes.
        renewed_before: when an admitter before this process last said that it was at work.
    """

    def __init__(
        self,
        *,
        settings: AdmitterSettings,
        clock: Clock,
        informers: Informers,
        records: JobRecords,
        admission: AdmissionLoop,
        explanations: Explanations,
        usage: accounting.Usage,
        used: Callable[[ScavengerJob], JobUsage | None],
        recommended: Callable[[ScavengerJob], RecommendedRequests | None],
        evidence: SuccessEvidence,
        renewed_before: Callable[[], datetime | None],
    ) -> None:
        self._clock = clock
        self._informers = informers
        self._records = records
        self._admission = admission
        self._explanations = explanations
        self._usage = usage
        self._used = used
        self._recommended = recommended
        self._evidence = evidence
        self._renewed_before = renewed_before
        self._rules = LifecycleSettings(
            start_timeout=timedelta(seconds=settings.start_timeout),
            unschedulable_after=timedelta(seconds=settings.unschedulable_after),
            reclaim_period=timedelta(seconds=settings.reclaim_period),
            snapshots=bool(settings.snapshot_image),
            certain_hints=frozenset(settings.certain_hints),
            bounds=Bounds.of(settings.max_interruption_after, settings.allowed_tolerations),
            turns=settings.interrupted_first == "short-runs",
            least_served=settings.interrupted_first == "least-served",
            quiet_for=timedelta(seconds=settings.explain_after),
        )

    def observe(self, key: str, job: ScavengerJob) -> Observation:
        """What is known of a job now."""
        record = self._records[key]
        deleted = frozenset(action.uid for action in record.done if isinstance(action, DeletePod))
        shown = self._informers.arrays.by_uid(key, record.take)
        take = record.take_now({run_of(job), *(pod.metadata.uid for pod in shown)})
        seen = self._seen(key, job, (*take, *deleted))
        record.exits = remembered(record.exits, seen.pods)
        return Observation(
            seen,
            replace(self._known(key, job, deleted), evidence=self._evidence.of(key, seen.pods), exits=record.exits),
            self._granted(key, job, take),
            self._rules_now(),
        )

    def _rules_now(self) -> LifecycleSettings:
        """The settings of the admitter, and those of all components at this moment."""
        shared = self._informers.shared.current
        return replace(
            self._rules,
            trusted_interval=timedelta(seconds=shared.trusted_interval_seconds),
            startup_cost=timedelta(seconds=shared.startup_cost_seconds),
            weights=shared.resource_weights,
        )

    def _seen(self, key: str, job: ScavengerJob, told: Collection[str]) -> Seen:
        informers, record, namespace = self._informers, self._records[key], job.metadata.namespace
        batch, (pods, untouched) = informers.batch_of(job), informers.look(job, told)
        return Seen(
            job=job,
            batch=batch,
            pods=pods,
            nodes=informers.nodes_of(pods),
            now=self._clock.now(),
            untouched=untouched,
            said=informers.said(key),
            namespace=NamespaceSeen(informers.level(namespace), informers.gets_token(job), informers.user(namespace)),
            references=References(record.missing, record.volumes.message),
            diagnosis=informers.diagnosis(_unstarted(pods)) if batch is not None else None,
            usage=self._usage,
            used=self._used(job),
            spec_bytes=size_of(job),
            others=self._others(key, job),
            circle=find_circle(job.metadata.name, partial(self._waited_for, namespace)) if waits_for(job) else (),
        )

    def _others(self, key: str, job: ScavengerJob) -> list[OtherJob]:
        """The jobs that a job waits for: those that ended and are gone, and those that are there."""
        namespace, record = job.metadata.namespace, self._records[key]
        found = [ended for one in waits_for(job) if (ended := record.ended_others.get(one.job)) is not None]
        there = (self._informers.jobs.get(f"{namespace}/{one.job}") for one in waits_for(job))
        return [*found, *(other_job(one) for one in there if one is not None)]

    def _waited_for(self, namespace: str, name: str) -> list[str]:
        job = self._informers.jobs.get(f"{namespace}/{name}")
        return [one.job for one in waits_for(job)] if job is not None else []

    def _known(self, key: str, job: ScavengerJob, deleted: frozenset[str]) -> Known:
        record, now = self._records[key], self._clock.now()
        return Known(
            name_used=self._records.was_started(key),
            reboots=self._informers.reboots,
            deleted=deleted,
            last_write=record.written_at,
            last_queue_position=self._records.last_queue_position,
            architectures=partial(self._informers.architectures, job),
            wanted_by_own=partial(self._informers.waits.wanted, job.metadata.namespace, now=now),
            next_requests=partial(self._recommended, job),
            pod_bytes=record.pod_bytes,
            last_seen=record.pod_gone or self._renewed_before(),
            start=self._start(key, run_of(job)),
        )

    def _start(self, key: str, run: str) -> StartKnown:
        record, now = self._records[key], self._clock.monotonic()
        attempt = record.attempt
        gang = record.gang if record.gang.run == run else GangPods()
        made = (answer.pod for answer in record.posted.values())
        posted = record.posted_now(self._informers.named_pods(key, made), now)
        return StartKnown(
            posted=set_of(posted) if posted else int(attempt.stage is Stage.POSTED),
            name_taken=record.taken_now(now),
            shown=attempt.stage is Stage.SEEN and attempt.run == run,
            all_created=gang.complete,
            own=attempt.run == run or record.gang.run == run,
            pods_wait=gang.not_before - now,
            refused=attempt.refusal if attempt.stage is Stage.REFUSED and attempt.run == run else None,
            failures=attempt.failures,
            lack=attempt.lack,
            unfit_architectures=frozenset(attempt.unfit_architectures),
        )

    def _granted(self, key: str, job: ScavengerJob, take: Mapping[str, InterruptDecision]) -> Granted:
        attempt = self._records[key].attempt
        return Granted(
            units=attempt.units,
            number=attempt.number,
            wait=self._explanations.tell(key, job, self._admission.held.get(key)),
            take=take,
        )


def _unstarted(pods: Iterable[Pod]) -> Iterable[Pod]:
    """The pods about whose starts Events may say something: those of which no container has run."""
    return [pod for pod in pods if not pod.ended and started_at(pod) is None]
