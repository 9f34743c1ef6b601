"""Claims, the informer of their jobs, and the loop that has endings decided and written down. Decides nothing.

Each step of a configuration begins with what the database and the cluster say, and ends with one write: the attempt in
the database, then its folder, then its job; the ending in the database, in the transaction that begins what follows.
Whoever dies in between is followed by a tuner that finds the last of these, and does the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from scavenger_kube.client import ApiClient
from scavenger_kube.errors import ApiError, Invalid, NotFound
from scavenger_runtime.clock import Clock
from scavenger_runtime.informer import Change, Informer
from scavenger_runtime.logging import get_logger
from scavenger_runtime.queue import PriorityQueue
from scavenger_runtime.reconcile import ReconcileLoop, Result
from scavenger_runtime.service import ServiceContext
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from scavenger_tuner import metrics
from scavenger_tuner.core import endings
from scavenger_tuner.core.learning import choose
from scavenger_tuner.core.objects import job_name, selector
from scavenger_tuner.core.rules import Failure, GiveUp, next_trial
from scavenger_tuner.core.trial import Trial
from scavenger_tuner.database.engine import connect
from scavenger_tuner.database.store import Attempt, Claim, ClaimLost, Store, Work
from scavenger_tuner.database.tables import State
from scavenger_tuner.exchange import read_left, write_input
from scavenger_tuner.facts import SCAVENGER_JOBS, Job, configuration_of, job_facts, why_refused
from scavenger_tuner.settings import TunerSettings
from scavenger_tuner.sweep import Sweep
from scavenger_tuner.writer import Writer

RETRY_SECONDS = (0.5, 30.0)
"""Wait after a step that failed: at first, and at most."""

log = get_logger(__name__)


async def main(context: ServiceContext[TunerSettings]) -> None:
    """The service: every replica works, none leads."""
    settings = context.settings
    engine = connect(settings.database_url.get_secret_value())
    try:
        store = Store(engine, settings.identity, settings.claim_ttl)
        tuner = Tuner(context.client, settings, store, context.clock)
        context.add_informer(tuner.jobs)
        context.probes.add_readiness("database", lambda: tuner.reached or "not reached")
        await context.wait_synced()
        await tuner.run()
    finally:
        await engine.dispose()


class Tuner:
    """Follows the configurations it has claimed. `run` works until cancelled, once the informer is synced."""

    def __init__(self, client: ApiClient, settings: TunerSettings, store: Store, clock: Clock) -> None:
        self._settings = settings
        self._site = settings.site()
        self._limits = settings.limits()
        self._patience = settings.patience()
        self._store = store
        self._clock = clock
        self._writer = Writer(client, self._site)
        self._held: dict[str, Claim] = {}
        self._let_go: set[str] = set()  # since claims were last renewed
        self.sweep = Sweep(self._site.instance, store, self._writer)
        self.reached = False
        """The database has answered the last time."""
        self.jobs: Informer[Job] = Informer(
            client, SCAVENGER_JOBS, namespace=settings.namespace, label_selector=selector(self._site), clock=clock
        )
        self.jobs.add_handler(self._on_job)
        base, most = RETRY_SECONDS
        self._loop = ReconcileLoop(
            "configurations",
            self._reconcile,
            workers=settings.workers,
            queue=PriorityQueue(clock=clock, base_delay=base, max_delay=most),
            clock=clock,
        )

    @property
    def held(self) -> Mapping[str, Claim]:
        """What is claimed, by the number of the configuration."""
        return self._held

    async def run(self) -> None:
        """Claim and follow until cancelled; then give back what is claimed, for others to take at once."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._claim_for_ever(), name="claims")
                group.create_task(self._loop.run(), name="configurations")
        finally:
            await self._release()

    def _on_job(self, change: Change[Job]) -> None:
        key = configuration_of(change.obj)
        if key in self._held:
            self._loop.add(key)

    # --- claims ---

    async def _claim_for_ever(self) -> None:
        await self._ensure_volume_claim()
        while True:
            try:
                await self.claim()
                self.reached = True
                await self.sweep.run(self.jobs)
            except DATABASE_AWAY as error:
                self._missed(error)
            except ApiError as error:
                log.warning("surplus job not deleted", error=str(error))
            await self._clock.sleep(self._settings.claim_period)

    async def _ensure_volume_claim(self) -> None:
        settings = self._settings
        while True:
            try:
                return await self._writer.ensure_claim(
                    settings.claim_size, settings.claim_access_mode, settings.claim_storage_class
                )
            except ApiError as error:
                log.warning("volume claim not created", claim=settings.claim, error=str(error))
            await self._clock.sleep(settings.claim_period)

    async def claim(self) -> None:
        """Renew what is held, let go of what is not any more, and take more where there is room for it.

        What the database says is held and was not known of was taken by a transaction whose answer was lost.
        """
        self._let_go.clear()
        claims = list(await self._store.renew())
        room = self._settings.concurrency - len(claims)
        if room > 0:
            claims += await self._store.claim(room)
        held = {str(claim.configuration): claim for claim in claims if str(claim.configuration) not in self._let_go}
        new = [claim for key, claim in held.items() if self._held.get(key) != claim]
        self._held = held
        metrics.HELD.set(len(held))
        for claim in sorted(new, key=lambda claim: claim.configuration):
            log.info("claimed", configuration=claim.configuration, claims=claim.number)
            self._loop.add(str(claim.configuration))

    async def _release(self) -> None:
        try:
            await self._store.release()
        except DATABASE_AWAY as error:
            log.warning("claims not given back: they end by themselves", error=_line(error))

    # --- a step ---

    async def _reconcile(self, key: str) -> Result | None:
        claim = self._held.get(key)
        if claim is None:
            return None
        try:
            return await self.step(claim)
        except ClaimLost:
            metrics.LOST.inc()
            log.warning("claim lost", configuration=claim.configuration)
            self._drop(claim)
            return None
        except NotFound as error:  # the namespace, or the queue: somebody may make it
            log.warning("not created", configuration=claim.configuration, error=str(error))
            return Result(requeue_after=self._settings.follow_period)
        except DATABASE_AWAY as error:
            self._missed(error)
            return Result(requeue_after=RETRY_SECONDS[0])

    def _drop(self, claim: Claim) -> None:
        key = str(claim.configuration)
        self._held.pop(key, None)
        self._let_go.add(key)

    async def step(self, claim: Claim) -> Result | None:
        """What is due next of a configuration. Raises ClaimLost, ApiError, OSError."""
        work = await self._store.load(claim)
        if work.attempt is None:
            await self._store.begin(claim, await self._first_trial(work))
            return Result(requeue_after=0.0)
        name = job_name(self._site.instance, work.configuration, work.key, work.attempt.number)
        if work.attempt.cancelling is not None:
            await self._writer.delete(name)
            return await self._end(claim, work, work.attempt.cancelling, "", None)
        return await self._look(claim, work, work.attempt, name)

    async def _first_trial(self, work: Work) -> Trial:
        """The configuration as it was asked for, in the shape that does best."""
        choice = choose(work.asked.molecules, await self._store.seen(work.asked.model), self._limits.max_cores)
        metrics.EXPLORED.labels("learned" if choice.yielded is not None else "explored").inc()
        log.info(
            "shape chosen",
            configuration=work.configuration,
            model=work.asked.model,
            ranks=choice.shape.ranks,
            threads=choice.shape.threads,
            yielded=choice.yielded,
        )
        return Trial.of(work.asked, choice.shape)

    async def _look(self, claim: Claim, work: Work, attempt: Attempt, name: str) -> Result | None:
        """See what has become of the attempt under way."""
        folder, now = self._settings.folder / name, self._clock.now()
        job = self.jobs.get(f"{self._site.namespace}/{name}")
        facts = None if job is None else job_facts(job, now)
        found = endings.ending(facts, await asyncio.to_thread(read_left, folder), now, self._patience)
        if isinstance(found, endings.Create):
            try:
                await self._create(work, attempt.trial, name, folder)
            except Invalid as refused:
                failure = Failure(attempt.trial, why_refused(refused))
                return await self._end(claim, work, failure, str(refused)[: endings.MESSAGE_LENGTH], None)
        elif isinstance(found, endings.Succeeded):
            await self._succeed(claim, work, attempt.trial, found, facts)
            return None
        elif isinstance(found, endings.Failed):
            failure = Failure(attempt.trial, found.reason)
            if not found.cancel:
                return await self._end(claim, work, failure, found.message, facts)
            await self._store.cancel(claim, failure, found.message, facts)
            return Result(requeue_after=0.0)
        return Result(requeue_after=self._settings.follow_period)

    async def _create(self, work: Work, trial: Trial, name: str, folder: Path) -> None:
        """First the folder, then the job that mounts it. The informer shows the job when it is there."""
        await asyncio.to_thread(write_input, folder, trial.configuration, self._settings.wall_time, self._site.user)
        if await self._writer.create(name, work.configuration, trial):
            metrics.STARTED.inc()
            log.info(
                "attempt started",
                configuration=work.configuration,
                job=name,
                model=trial.configuration.model,
                molecules=trial.configuration.molecules,
                time_step=trial.configuration.time_step,
                ranks=trial.shape.ranks,
                threads=trial.shape.threads,
                memory_mib=trial.memory_mib,
            )

    async def _succeed(
        self, claim: Claim, work: Work, trial: Trial, found: endings.Succeeded, facts: endings.JobFacts | None
    ) -> None:
        await self._store.succeed(claim, found.result, facts)
        self._drop(claim)
        result = found.result
        metrics.ENDED.labels("Succeeded").inc()
        metrics.FINISHED.labels(State.COMPLETED).inc()
        if result.ns_per_day is not None:
            shown = metrics.NS_PER_DAY.labels(trial.configuration.model, trial.shape.ranks, trial.shape.threads)
            shown.set(result.ns_per_day)
        log.info(
            "completed",
            configuration=work.configuration,
            density=result.density.value,
            diffusion=result.diffusion.value,
            ns_per_day=result.ns_per_day,
            recomputed_steps=result.recomputed_steps,
            interruptions=0 if facts is None else facts.interruptions,
        )

    async def _end(
        self, claim: Claim, work: Work, failure: Failure, message: str, facts: endings.JobFacts | None
    ) -> Result | None:
        """An attempt has failed: what is tried next, or why nothing is."""
        then = next_trial([*work.failures, failure], self._limits)
        await self._store.fail(claim, failure, message, facts, then)
        metrics.ENDED.labels(failure.reason).inc()
        if not isinstance(then, GiveUp):
            log.info("attempt failed", configuration=work.configuration, reason=failure.reason, message=message)
            return Result(requeue_after=0.0)
        self._drop(claim)
        metrics.FINISHED.labels(State.FAILED).inc()
        log.warning("given up", configuration=work.configuration, reason=then.why, message=message)
        return None

    def _missed(self, error: DBAPIError | PoolTimeoutError) -> None:
        self.reached = False
        metrics.DATABASE_ERRORS.inc()
        log.warning("database not reached", error=_line(error))


DATABASE_AWAY = (OperationalError, InterfaceError, PoolTimeoutError)
"""What is raised while PostgreSQL is away, or has just come back."""


def _line(error: Exception) -> str:
    return " ".join(str(getattr(error, "orig", None) or error).split())
