"""Starts that admission has granted: the Job, its pods, or the pods of tasks, and what the API server says of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from scavenger_api.job import ScavengerJob
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import AlreadyExists, ApiError
from scavenger_runtime.clock import Clock
from scavenger_runtime.logging import get_logger

from scavenger_admitter import metrics
from scavenger_admitter.admission_feed import AdmissionFeed
from scavenger_admitter.attempt import Attempt, Response
from scavenger_admitter.core.admission.placement.headroom import ANYWHERE, Target
from scavenger_admitter.core.lifecycle.actions import CreateJob, CreatePods, StartTasks
from scavenger_admitter.core.lifecycle.confirmed import Confirmed
from scavenger_admitter.core.lifecycle.observation import Observation, Outcome
from scavenger_admitter.core.lifecycle.start_failures import UNMANAGED, Refusal
from scavenger_admitter.core.manifest import target_of
from scavenger_admitter.create_limiter import CreateLimiter
from scavenger_admitter.facts import run_of
from scavenger_admitter.freshness import decide_creation
from scavenger_admitter.informers import Informers
from scavenger_admitter.job_record import Answer, JobRecords
from scavenger_admitter.writer import Writer

BEHIND_SECONDS = 5.0
"""A job of which informers do not show what the API server has is looked at again after so long at the most."""

log = get_logger(__name__)

Start: TypeAlias = CreateJob | StartTasks
"""What makes use of a grant."""


@dataclass(slots=True)
class _Sent:
    """How far a start has come.

    Attributes:
        made: tasks whose pods are created; of a job 1, once its Job is.
        refusal: why the API server did not take the rest.
    """

    made: int = 0
    refusal: Refusal | None = None


class Starter:
    """Creates what admission has granted, and tells the feed how that went.

    Args:
        client: to ask for pods that no informer may show yet.
        clock: for the moments of answers.
        informers: what the API server shows.
        records: of all jobs.
        writer: for everything that is written.
        feed: told what the API server answers.
        limiter: who may create its Job.
    """

    def __init__(
        self,
        *,
        client: ApiClient,
        clock: Clock,
        informers: Informers,
        records: JobRecords,
        writer: Writer,
        feed: AdmissionFeed,
        limiter: CreateLimiter,
    ) -> None:
        self._client = client
        self._clock = clock
        self._informers = informers
        self._records = records
        self._writer = writer
        self._feed = feed
        self._limiter = limiter

    def may_start(self, key: str) -> bool:
        """Whether it is the job's turn to create what it was granted."""
        return self._limiter.may_create(key)

    def pods_sent(self, job: ScavengerJob, start: Start | None, *, lacking: bool) -> int:
        """How many pods are about to be created.

        Args:
            job: whose they are.
            start: that makes use of a grant; None where there is none.
            lacking: whether a start goes on that lacks pods.
        """
        if isinstance(start, StartTasks):
            return len(start.indexes)
        if lacking:
            return max(1, job.spec.parallelism - len(self._records[job.key].gang_of(run_of(job)).made))
        return job.spec.parallelism if start is not None else 0

    async def create(self, job: ScavengerJob, observed: Observation, decided: Confirmed[Outcome]) -> None:
        """Create what a job lacks, as far as the API server has no pod that forbids it.

        Args:
            job: with its status as it is written.
            observed: what was known of it.
            decided: what follows.
        """
        if observed.granted.units:
            self._limiter.start(job.key)
        match await decide_creation(self._client, observed, self._records[job.key].heard, decided):
            case Confirmed(value=CreateJob() | StartTasks()) as start:
                await self.start(job, start)
            case Confirmed(value=CreatePods()) as rest:
                await self._go_on(job, rest)
            case _:
                log.info("nothing created: the informer of pods is behind", job=job.key)
                self._feed.revoke(job.key, BEHIND_SECONDS)

    async def start(self, job: ScavengerJob, confirmed: Confirmed[Start]) -> None:
        """Make use of a grant, unless it was taken back meanwhile. What follows from the answers of the API server is
        decided by the lifecycle."""
        key, (run, grant) = job.key, _grant_of(confirmed.value)
        attempt = self._records[key].attempt
        if not attempt.is_granted(run, grant):
            return
        self._records.started(key)
        attempt.post(self._clock.monotonic())
        sent = _Sent()
        try:
            await self._send(job, confirmed, attempt, sent)
        except ApiError as error:
            # There is a Job where tasks have pods, and where the API server has left it to the Job controller.
            sent.refusal = _refusal(error, of_pod=sent.made > 0 or error.reason == UNMANAGED)
            words = {"reason": error.reason, "error": str(error), "created": sent.made}
            log.warning("start refused", job=key, queue=job.spec.queue, **words)
        except Exception as error:  # a start that is not followed would hold its capacity for ever
            sent.refusal = Refusal(repr(error))
            log.exception("start failed", job=key, created=sent.made)
        else:
            metrics.STARTS.labels(self._informers.queue_label(job)).inc(sent.made)
        finally:
            self._limiter.release(key)
        # Else the job is gone, another one has its name, or its place in the queue has moved.
        if self._records[key].attempt is attempt and attempt.is_of(run, grant):
            tasks = len(confirmed.value.indexes) if isinstance(confirmed.value, StartTasks) else 0
            self._feed.on_response(key, Response(sent.refusal, tasks, sent.made))

    async def _send(self, job: ScavengerJob, confirmed: Confirmed[Start], attempt: Attempt, sent: _Sent) -> None:
        """Raises ApiError where the API server refuses the Job, or a task."""
        again, target = attempt.failures > 0, _target(job, attempt)
        match confirmed:
            case Confirmed(value=StartTasks()) as tasks:
                await self._send_tasks(job, tasks, target, sent, again=again)
            case Confirmed(value=CreateJob()) as run:
                try:
                    batch = await self._writer.create(job, run, target, again=again)
                except AlreadyExists:  # the admitter's from before a restart, or another owner's: its event shows which
                    return
                sent.made = 1
                sent.refusal = await self._create_pods(job, run, batch, target)
                _log_start(job, attempt)

    async def _send_tasks(
        self, job: ScavengerJob, confirmed: Confirmed[StartTasks], target: Target, sent: _Sent, *, again: bool
    ) -> None:
        record, indexes = self._records[job.key], confirmed.value.indexes

        def answered(index: int, pod: str, *, taken: bool, size: int) -> None:
            self._limiter.start(job.key)
            sent.made += not taken
            record.pod_bytes = max(record.pod_bytes, size)
            (record.taken if taken else record.posted)[index] = Answer(pod, self._clock.monotonic())

        await self._writer.start_tasks(job, confirmed, target, answered, again=again)
        shown = {"tasks": sent.made, "first": indexes[0], "last": indexes[-1]}
        log.info("started tasks", job=job.key, queue=job.spec.queue, **shown)

    async def _create_pods(
        self,
        job: ScavengerJob,
        confirmed: Confirmed[CreateJob | CreatePods],
        batch: dict[str, Any],
        target: Target | None,
    ) -> Refusal | None:
        """Create the pods of a Job; returns why one was refused, unless that will pass."""
        key, run = job.key, confirmed.value.run
        if batch["spec"].get("suspend"):
            return None
        gang = self._records[key].gang_of(run)
        shown = {pod.metadata.name for pod in self._informers.members(job)}
        gang.sync(shown, self._clock.monotonic())
        before = set(gang.made)
        try:
            pods = await self._writer.pods_of_run(job, batch, run, target, min(shown, default=""))
            await self._writer.create_pods(pods, confirmed, gang.made, lambda: self._limiter.start(key))
        except ApiError as error:
            gang.failed(before, self._clock.monotonic())
            refusal = _refusal(error, of_pod=True)
            passes = refusal.passes(job.spec)
            log.warning("pods refused", job=key, reason=error.reason, error=str(error), again=passes)
            return None if passes else refusal
        gang.complete = True
        return None

    async def _go_on(self, job: ScavengerJob, confirmed: Confirmed[CreatePods]) -> None:
        """The pods that another process, or an earlier try, left out: from the template that the Job has."""
        batch = await self._writer.batch_job(job.metadata.namespace, job.metadata.name)
        if batch["metadata"]["uid"] != confirmed.value.uid:
            return
        attempt = self._records[job.key].attempt
        known = attempt.run == confirmed.value.run and attempt.start is not None
        refusal = await self._create_pods(job, confirmed, batch, _target(job, attempt) if known else None)
        if refusal is not None and self._records[job.key].attempt.run == confirmed.value.run:
            self._feed.on_response(job.key, Response(refusal))


def _grant_of(start: Start) -> tuple[str, int]:
    """The run and the number of the grant that a start makes use of."""
    return (start.run, 0) if isinstance(start, CreateJob) else (start.job.run, start.grant)


def _refusal(error: ApiError, *, of_pod: bool) -> Refusal:
    return Refusal(str(error), error.status, error.reason, error.causes(), of_pod)


def _target(job: ScavengerJob, attempt: Attempt) -> Target:
    """Where the pods of the start that was granted may go."""
    target = ANYWHERE if attempt.start is None else target_of(job, attempt.start.target, attempt.failures)
    return replace(
        target,
        rather=attempt.pulls_on,
        rather_not=attempt.others_than,
        rather_not_on=attempt.unfit_architectures,
    )


def _log_start(job: ScavengerJob, attempt: Attempt) -> None:
    start = attempt.start
    log.info(
        "started",
        job=job.key,
        queue=job.spec.queue,
        pods=job.spec.parallelism,
        interrupted=job.status.interrupted_count,
        nodes=sorted(set(start.nodes)) if start else [],
        load_percent={name: ppm / 10_000 for name, ppm in start.load_ppm} if start else {},
    )
