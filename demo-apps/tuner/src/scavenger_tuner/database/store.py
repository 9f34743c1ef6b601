"""What tuners do with the tables. Every function is one transaction.

A claim is a row's `claimed_by`, with an end, `claimed_until`, that its tuner moves on while it lives. Who finds a row
free, or its claim at an end, takes it with FOR UPDATE SKIP LOCKED; the database's clock alone decides. A claim is a
name, and not a lock held open: it outlives a restart of PostgreSQL, needs no connection of its own for the hours that a
run takes, and works behind a pooler. The price is that work of a killed tuner rests until the claim's end, while its
jobs run on. A tuner that was away for so long, and comes back, writes nothing: whatever is written of a configuration
needs the claim, and the number that each claim has.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from sqlalchemy import ColumnElement, Select, and_, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker

from scavenger_tuner.core.endings import JobFacts, Result
from scavenger_tuner.core.learning import Run, Seen
from scavenger_tuner.core.rules import Failure, GiveUp, Reason
from scavenger_tuner.core.trial import Configuration, Shape, Trial
from scavenger_tuner.database.engine import connect
from scavenger_tuner.database.tables import AttemptRow, AttemptState, ConfigurationRow, State

RUNS: Final = 500
"""The newest finished runs of a model that the choice of a shape looks at."""

REMEMBERED: Final = timedelta(days=1)
"""For how long it counts that something was too large for any node: nodes come and go."""


class ClaimLost(Exception):  # noqa: N818 - an outcome, not a fault
    """Somebody else has the configuration now, or it is at its end."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A configuration that is this tuner's for now. number: of the claim, see `ConfigurationRow.claims`."""

    configuration: int
    number: int


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt that is not at its end. cancelling: why its job is to be deleted; None where it is not."""

    number: int
    trial: Trial
    cancelling: Failure | None


@dataclass(frozen=True, slots=True)
class Work:
    """A configuration, what has failed of it so far, and the attempt under way, if there is one."""

    configuration: int
    key: str
    asked: Configuration
    failures: Sequence[Failure]
    attempt: Attempt | None


class Store:
    """The tables, for one tuner. owner: its name in claims, which no other process has. ttl: seconds that a claim holds
    unless it is renewed.

    All of it raises sqlalchemy.exc.OperationalError, or InterfaceError, while PostgreSQL is away; whether the
    transaction under way was committed is not known then, and has to be looked up.
    """

    def __init__(self, engine: AsyncEngine, owner: str, ttl: float) -> None:
        self._sessions = async_sessionmaker(engine, expire_on_commit=False)
        self._owner = owner
        self._ttl = timedelta(seconds=ttl)

    # --- claims ---

    async def claim(self, most: int) -> list[Claim]:
        """Take up to so many configurations that are nobody's, the oldest first."""
        row = ConfigurationRow
        free = or_(row.claimed_until.is_(None), row.claimed_until < func.now())
        chosen = (
            select(row.id)
            .where(row.finished_at.is_(None), free)
            .order_by(row.id)
            .limit(most)
            .with_for_update(skip_locked=True)
            .cte("chosen")  # evaluated once, whatever the planner makes of it: else the limit would not hold
        )
        taken = (
            update(row)
            .where(row.id.in_(select(chosen.c.id)))
            .values(
                claimed_by=self._owner,
                claimed_until=func.now() + self._ttl,
                claims=row.claims + 1,
                state=State.RUNNING,
            )
            .returning(row.id, row.claims)
        )
        async with self._sessions.begin() as session:
            found = (await session.execute(taken)).all()
        return sorted((Claim(*each) for each in found), key=lambda claim: claim.configuration)

    async def renew(self) -> set[Claim]:
        """Move the end of all claims on, and say which these are. One that is at its end, and that nobody has taken,
        is renewed as well."""
        row = ConfigurationRow
        mine = (
            update(row)
            .where(row.claimed_by == self._owner, row.finished_at.is_(None))
            .values(claimed_until=func.now() + self._ttl)
            .returning(row.id, row.claims)
        )
        async with self._sessions.begin() as session:
            return {Claim(*each) for each in (await session.execute(mine)).all()}

    async def release(self) -> None:
        """Give back what is claimed, for others to take at once."""
        row = ConfigurationRow
        async with self._sessions.begin() as session:
            await session.execute(
                update(row).where(row.claimed_by == self._owner).values(claimed_by=None, claimed_until=None)
            )

    # --- reading ---

    async def load(self, claim: Claim) -> Work:
        """All of a configuration. Raises ClaimLost."""
        async with self._sessions.begin() as session:
            row = await session.scalar(select(ConfigurationRow).where(self._held(claim)))
            if row is None:
                raise ClaimLost(claim)
            attempts = (await session.scalars(_attempts(claim.configuration))).all()
        return _work(row, attempts)

    async def seen(self, model: str) -> Seen:
        """What is known of a model, over all studies and tuners."""
        row = AttemptRow
        succeeded = (
            select(row)
            .where(row.model == model, row.state == AttemptState.SUCCEEDED, row.ns_per_day > 0)
            .order_by(row.id.desc())
            .limit(RUNS)
        )
        underway = select(row).where(row.model == model, row.ended_at.is_(None))
        refused = select(row).where(row.model == model, row.reason == Reason.DECOMPOSITION)
        too_large = select(func.min(row.ranks * row.threads)).where(
            row.reason == Reason.TOO_LARGE, row.created_at > func.now() - REMEMBERED
        )
        async with self._sessions.begin() as session:
            return Seen(
                runs=[_run(each) for each in await session.scalars(succeeded)],
                underway=[_shape(each) for each in await session.scalars(underway)],
                refused=frozenset((_shape(each), each.molecules) for each in await session.scalars(refused)),
                too_large=await session.scalar(too_large),
            )

    async def ended(self, configurations: Collection[int]) -> list[tuple[int, str, int]]:
        """The attempts at these configurations that are at their end: configuration, its key, number of the attempt."""
        asked = (
            select(ConfigurationRow.id, ConfigurationRow.key, AttemptRow.number)
            .join(AttemptRow, AttemptRow.configuration_id == ConfigurationRow.id)
            .where(ConfigurationRow.id.in_(configurations), AttemptRow.ended_at.is_not(None))
        )
        async with self._sessions.begin() as session:
            return [(number, key.hex, attempt) for number, key, attempt in (await session.execute(asked)).all()]

    # --- writing ---

    async def begin(self, claim: Claim, trial: Trial) -> None:
        """Write the first attempt of a configuration down, before there is anything of it in the cluster.

        Raises ClaimLost, and sqlalchemy.exc.IntegrityError where there is an attempt.
        """
        async with self._claimed(claim) as (session, row):
            session.add(_attempt(row.id, 1, row.model, trial))

    async def cancel(self, claim: Claim, failure: Failure, message: str, job: JobFacts | None) -> None:
        """Write down that the attempt under way has failed, and that its job has to be deleted. Raises ClaimLost."""
        async with self._claimed(claim) as (session, row):
            attempt = await _open(session, row.id)
            attempt.state, attempt.reason, attempt.message = AttemptState.CANCELLING, failure.reason, message
            _account(attempt, job)

    async def fail(
        self, claim: Claim, failure: Failure, message: str, job: JobFacts | None, then: Trial | GiveUp
    ) -> None:
        """End the attempt under way as failed, and begin the next one, or give the configuration up. What was written
        when it was cancelled stays. Raises ClaimLost."""
        async with self._claimed(claim) as (session, row):
            attempt = await _open(session, row.id)
            if attempt.state != AttemptState.CANCELLING:
                attempt.reason, attempt.message = failure.reason, message
                _account(attempt, job)
            attempt.state, attempt.ended_at = AttemptState.FAILED, func.now()
            if isinstance(then, GiveUp):
                _finish(row, State.FAILED, then.why)
            else:
                await session.flush()  # the one before is closed first: at most one is open
                session.add(_attempt(row.id, attempt.number + 1, row.model, then))

    async def succeed(self, claim: Claim, result: Result, job: JobFacts | None) -> None:
        """End the attempt under way with its result, and with it the configuration. Raises ClaimLost."""
        async with self._claimed(claim) as (session, row):
            attempt = await _open(session, row.id)
            attempt.state, attempt.ended_at = AttemptState.SUCCEEDED, func.now()
            attempt.result, attempt.ns_per_day = result.model_dump(mode="json"), result.ns_per_day
            _account(attempt, job)
            _finish(row, State.COMPLETED, "")

    @asynccontextmanager
    async def _claimed(self, claim: Claim) -> AsyncIterator[tuple[AsyncSession, ConfigurationRow]]:
        """A transaction in which the claim holds, and nobody else takes it."""
        async with self._sessions.begin() as session:
            row = await session.scalar(select(ConfigurationRow).where(self._held(claim)).with_for_update())
            if row is None:
                raise ClaimLost(claim)
            yield session, row

    def _held(self, claim: Claim) -> ColumnElement[bool]:
        row = ConfigurationRow
        return and_(
            row.id == claim.configuration,
            row.claimed_by == self._owner,
            row.claims == claim.number,
            row.finished_at.is_(None),
        )


async def ask(url: str, study: str, configurations: Collection[Configuration]) -> int:
    """`add` to a database that is not connected to yet."""
    engine = connect(url)
    try:
        return await add(engine, study, configurations)
    finally:
        await engine.dispose()


async def add(engine: AsyncEngine, study: str, configurations: Collection[Configuration]) -> int:
    """Ask for configurations; those that the study has already are not asked for twice. Returns how many are new."""
    if not configurations:
        return 0
    rows = [
        {
            "study": study,
            "model": each.model,
            "molecules": each.molecules,
            "temperature": each.temperature,
            "seed": each.seed,
            "steps": each.steps,
            "time_step": each.time_step,
        }
        for each in configurations
    ]
    asked = insert(ConfigurationRow).values(rows).on_conflict_do_nothing().returning(ConfigurationRow.id)
    async with async_sessionmaker(engine).begin() as session:
        return len((await session.execute(asked)).all())


def _attempts(configuration: int) -> Select[AttemptRow]:
    return select(AttemptRow).where(AttemptRow.configuration_id == configuration).order_by(AttemptRow.number)


async def _open(session: AsyncSession, configuration: int) -> AttemptRow:
    found = await session.scalars(_attempts(configuration).where(AttemptRow.ended_at.is_(None)))
    return found.one()


def _attempt(configuration: int, number: int, model: str, trial: Trial) -> AttemptRow:
    return AttemptRow(
        configuration_id=configuration,
        number=number,
        model=model,
        molecules=trial.configuration.molecules,
        steps=trial.configuration.steps,
        time_step=trial.configuration.time_step,
        ranks=trial.shape.ranks,
        threads=trial.shape.threads,
        memory_mib=trial.memory_mib,
    )


def _account(attempt: AttemptRow, job: JobFacts | None) -> None:
    if job is not None:
        attempt.interruptions = job.interruptions
        attempt.useful_cpu_seconds, attempt.lost_cpu_seconds = job.useful, job.lost


def _finish(row: ConfigurationRow, state: State, reason: str) -> None:
    row.state, row.reason, row.finished_at = state, reason, func.now()
    row.claimed_by = row.claimed_until = None


def _work(row: ConfigurationRow, attempts: Sequence[AttemptRow]) -> Work:
    asked = Configuration(row.model, row.molecules, row.temperature, row.seed, row.steps, row.time_step)
    failed = [each for each in attempts if each.state == AttemptState.FAILED]
    under_way = next((each for each in attempts if each.ended_at is None), None)
    return Work(
        configuration=row.id,
        key=row.key.hex,
        asked=asked,
        failures=[_failure(asked, each) for each in failed],
        attempt=None
        if under_way is None
        else Attempt(
            number=under_way.number,
            trial=_trial(asked, under_way),
            cancelling=_failure(asked, under_way) if under_way.state == AttemptState.CANCELLING else None,
        ),
    )


def _failure(asked: Configuration, row: AttemptRow) -> Failure:
    return Failure(_trial(asked, row), Reason.of(row.reason))


def _trial(asked: Configuration, row: AttemptRow) -> Trial:
    """Model, temperature and seed are as asked for; the rest is what was tried."""
    configuration = Configuration(
        model=asked.model,
        molecules=row.molecules,
        temperature=asked.temperature,
        seed=asked.seed,
        steps=row.steps,
        time_step=row.time_step,
    )
    return Trial(configuration, _shape(row), row.memory_mib)


def _shape(row: AttemptRow) -> Shape:
    return Shape(row.ranks, row.threads)


def _run(row: AttemptRow) -> Run:
    return Run(row.molecules, row.time_step, _shape(row), row.ns_per_day or 0.0)
