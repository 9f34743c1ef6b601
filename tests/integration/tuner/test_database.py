"""The tables and what is done with them, on a real PostgreSQL."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from scavenger_testing.postgres import Postgres
from scavenger_tuner.cli import main
from scavenger_tuner.core.endings import Figure, JobFacts, Result
from scavenger_tuner.core.learning import Run
from scavenger_tuner.core.rules import Failure, GiveUp, Reason
from scavenger_tuner.core.trial import Configuration, Shape, Trial
from scavenger_tuner.database.engine import psycopg_url
from scavenger_tuner.database.reading import everything
from scavenger_tuner.database.schema import current, head, migrate
from scavenger_tuner.database.store import Claim, ClaimLost, Store, add
from scavenger_tuner.database.tables import Base
from sqlalchemy import create_engine, inspect, text
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncEngine

FOR_EVER = 3600.0
FIGURE = Figure(value=1.0, error=0.1, unit="g/cm3")


def configuration(seed: int, model: str = "spce") -> Configuration:
    return Configuration(model, 500, 300.0, seed, 1000, 2.0)


def trial(seed: int = 1, shape: Shape | None = None) -> Trial:
    return Trial.of(configuration(seed), shape or Shape(1, 1))


def result(ns_per_day: float = 100.0) -> Result:
    return Result(
        density=FIGURE, diffusion=FIGURE, ns_per_day=ns_per_day, steps=1, recomputed_steps=0, ranks=1, threads=1
    )


def numbers(claims: Sequence[Claim]) -> list[int]:
    return [claim.configuration for claim in claims]


# --- migrations ---


def test_the_tables_come_and_go(empty_url: str) -> None:
    engine = create_engine(psycopg_url(empty_url))
    for _ in range(2):
        assert migrate(empty_url) == head()
        assert set(inspect(engine).get_table_names()) == {"alembic_version", "attempts", "configurations"}
        assert migrate(empty_url) == head()
        assert migrate(empty_url, "base") is None
        assert inspect(engine).get_table_names() == ["alembic_version"]
    assert migrate(empty_url, "0001") == "0001"
    engine.dispose()


def test_the_tables_are_the_ones_that_the_program_knows(url: str) -> None:
    engine = create_engine(psycopg_url(url))
    with engine.connect() as connection:
        assert current(connection) == head()
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []
        stands = {
            table: {constraint["name"] for constraint in inspect(connection).get_check_constraints(table)}
            for table in Base.metadata.tables
        }
    engine.dispose()
    known = {
        name: {str(each.name) for each in table.constraints if each.__visit_name__.endswith("check_constraint")}
        for name, table in Base.metadata.tables.items()
    }
    assert stands == known


def test_several_that_migrate_at_once(empty_url: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(migrate, [empty_url] * 4)) == [head()] * 4


# --- claims ---


async def test_many_claim_at_once_and_nothing_is_taken_twice(engine: AsyncEngine) -> None:
    await add(engine, "s", [configuration(seed) for seed in range(1, 41)])
    stores = [Store(engine, f"tuner-{n}", FOR_EVER) for n in range(8)]

    taken = await asyncio.gather(*(store.claim(3) for store in stores for _ in range(3)))

    assert all(len(claims) <= 3 for claims in taken)
    every = [number for claims in taken for number in numbers(claims)]
    assert len(every) == len(set(every))
    rest = numbers(await stores[0].claim(100))
    assert sorted(every + rest) == list(range(1, 41))
    assert await stores[1].claim(100) == []


async def test_the_oldest_go_first(engine: AsyncEngine) -> None:
    await add(engine, "s", [configuration(seed) for seed in range(1, 6)])
    store = Store(engine, "a", FOR_EVER)

    assert numbers(await store.claim(2)) == [1, 2]
    assert numbers(await store.claim(2)) == [3, 4]


async def test_what_a_silent_tuner_held_is_taken_and_it_writes_nothing_any_more(engine: AsyncEngine) -> None:
    await add(engine, "s", [configuration(1)])
    silent, other = Store(engine, "silent", 0.0), Store(engine, "other", FOR_EVER)
    (old,) = await silent.claim(1)
    await silent.begin(old, trial())
    (new,) = await other.claim(1)

    assert (new.configuration, new.number) == (old.configuration, old.number + 1)
    assert await silent.renew() == set()
    failure = Failure(trial(), Reason.UNSTABLE)
    for write in (
        silent.load(old),
        silent.begin(old, trial()),
        silent.cancel(old, failure, "", None),
        silent.fail(old, failure, "", None, trial()),
        silent.succeed(old, result(), None),
    ):
        with pytest.raises(ClaimLost):
            await write
    work = await other.load(new)
    assert work.attempt is not None
    assert (work.attempt.number, work.attempt.trial, work.failures) == (1, trial(), [])


async def test_a_claim_that_is_over_and_was_not_taken_is_renewed(engine: AsyncEngine) -> None:
    await add(engine, "s", [configuration(1)])
    store = Store(engine, "a", 0.0)
    claims = await store.claim(1)

    assert await store.renew() == set(claims)


async def test_the_same_name_again_is_another_claim(engine: AsyncEngine) -> None:
    await add(engine, "s", [configuration(1)])
    store = Store(engine, "a", 0.0)
    (old,) = await store.claim(1)
    (new,) = await store.claim(1)

    assert await store.renew() == {new}
    with pytest.raises(ClaimLost):
        await store.load(old)


async def test_what_is_given_back_is_taken_at_once(engine: AsyncEngine) -> None:
    await add(engine, "s", [configuration(1), configuration(2)])
    one, other = Store(engine, "a", FOR_EVER), Store(engine, "b", FOR_EVER)
    await one.claim(2)
    await one.release()

    assert numbers(await other.claim(5)) == [1, 2]


# --- attempts ---


async def test_the_attempts_of_a_configuration(engine: AsyncEngine, url: str) -> None:
    await add(engine, "s", [configuration(1)])
    store = Store(engine, "a", FOR_EVER)
    (claim,) = await store.claim(1)
    facts = JobFacts("Failed", created=None, interruptions=2, useful=5.0, lost=1.0)  # type: ignore[arg-type]
    slower = trial().with_configuration(time_step=1.0, steps=2000)

    assert (await store.load(claim)).attempt is None
    await store.begin(claim, trial())
    await store.fail(claim, Failure(trial(), Reason.UNSTABLE), "LINCS", facts, slower)
    failure = Failure(slower, Reason.WALL_TIME)
    await store.cancel(claim, failure, "too long", facts)
    work = await store.load(claim)
    assert work.attempt is not None
    assert (work.attempt.number, work.attempt.cancelling) == (2, failure)
    assert work.failures == [Failure(trial(), Reason.UNSTABLE)]
    await store.fail(claim, failure, "", None, trial(shape=Shape(1, 2)))
    await store.succeed(claim, result(), facts)

    with pytest.raises(ClaimLost):
        await store.load(claim)
    assert await store.claim(1) == []
    ((row, attempts),) = await everything(url)
    assert (row.state, row.reason, row.claimed_by) == ("Completed", "", None)
    assert [(each.number, each.state, each.reason, each.message) for each in attempts] == [
        (1, "Failed", "Unstable", "LINCS"),
        (2, "Failed", "WallTime", "too long"),
        (3, "Succeeded", "", ""),
    ]
    assert [each.interruptions for each in attempts] == [2, 2, 2]
    assert attempts[2].result == result().model_dump(mode="json")


async def test_giving_up(engine: AsyncEngine, url: str) -> None:
    await add(engine, "s", [configuration(1)])
    store = Store(engine, "a", FOR_EVER)
    (claim,) = await store.claim(1)
    await store.begin(claim, trial())
    await store.fail(claim, Failure(trial(), Reason.INVALID), "no such model", None, GiveUp("nothing is left"))

    assert await store.claim(1) == []
    ((row, _),) = await everything(url)
    assert (row.state, row.reason) == ("Failed", "nothing is left")


async def test_two_attempts_at_once_are_refused_by_the_tables(engine: AsyncEngine) -> None:
    await add(engine, "s", [configuration(1)])
    store = Store(engine, "a", FOR_EVER)
    (claim,) = await store.claim(1)
    await store.begin(claim, trial())

    with pytest.raises(IntegrityError):
        await store.begin(claim, trial())
    with pytest.raises(IntegrityError, match="attempts_one_open"):
        async with engine.begin() as connection:
            await connection.execute(
                text(
                    "INSERT INTO attempts (configuration_id, number, model, molecules, steps, time_step, ranks,"
                    " threads, memory_mib) VALUES (1, 2, 'spce', 1, 1, 1, 1, 1, 1)"
                )
            )


async def test_what_is_known_of_a_model(engine: AsyncEngine) -> None:
    await add(engine, "s", [configuration(seed) for seed in range(1, 5)])
    await add(engine, "s", [configuration(1, model="tip3p")])
    store = Store(engine, "a", FOR_EVER)
    done, refused, large, open_, other = await store.claim(5)
    for claim, shape in ((done, Shape(1, 2)), (refused, Shape(4, 1)), (large, Shape(2, 2)), (open_, Shape(1, 1))):
        await store.begin(claim, trial(claim.configuration, shape))
    await store.begin(other, trial())
    await store.succeed(done, result(120.0), None)
    await store.fail(refused, Failure(trial(), Reason.DECOMPOSITION), "", None, GiveUp("no"))
    await store.fail(large, Failure(trial(), Reason.TOO_LARGE), "", None, GiveUp("no"))

    seen = await store.seen("spce")

    assert seen.runs == [Run(500, 2.0, Shape(1, 2), 120.0)]
    assert list(seen.underway) == [Shape(1, 1)]
    assert seen.refused == {(Shape(4, 1), 500)}
    assert seen.too_large == 4


async def test_what_was_asked_for_already_is_not_asked_for_twice(engine: AsyncEngine) -> None:
    assert await add(engine, "s", [configuration(1), configuration(2)]) == 2
    assert await add(engine, "s", [configuration(2), configuration(3)]) == 1
    assert await add(engine, "t", [configuration(1)]) == 1
    assert await add(engine, "t", []) == 0


async def test_a_restart_of_the_database_keeps_claims(postgres: Postgres, engine: AsyncEngine) -> None:
    await add(engine, "s", [configuration(1), configuration(2)])
    one, other = Store(engine, "a", FOR_EVER), Store(engine, "b", FOR_EVER)
    (claim,) = await one.claim(1)
    await one.begin(claim, trial())

    await asyncio.to_thread(postgres.restart)

    work = await one.load(claim)  # over a connection that was tried, and found dead
    assert work.attempt is not None
    assert numbers(await other.claim(5)) == [2]


# --- the command line ---


def test_the_commands(empty_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*words: str) -> str:
        assert main([words[0], f"--database-url={empty_url}", *words[1:]]) == 0
        return capsys.readouterr().out

    study = tmp_path / "study.yaml"
    study.write_text(
        "study: water\nmodels: [spce, tip3p]\nmolecules: 500\ntemperatures: [300]\nseeds: [1, 2]\nsteps: 10\n"
    )

    assert run("migrate") == f"the tables have revision {head()}\n"
    assert run("add", str(study)) == "4 added to study water, 0 were there\n"
    assert run("add", str(study)) == "0 added to study water, 4 were there\n"
    assert run("add", "--model=tip4p", "--seed=9") == "1 added to study default, 0 were there\n"
    assert len(run("list").splitlines()) == 6
    (line,) = csv.DictReader(io.StringIO(run("list", "--study=default", "--csv")))
    assert (line["model"], line["seed"], line["state"]) == ("tip4p", "9", "Waiting")
    (head_line,) = run("results").splitlines()
    assert head_line.split()[-4:] == ["SHAPE", "ATTEMPTS", "INTERRUPTED", "RECOMPUTED"]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["list", "--database-url=postgresql://x@/nowhere?host=/nowhere"], 1, "No such file or directory"),
        (["list", "--database-url=what"], 1, "Could not parse"),
        (["add", "not-there.yaml"], 1, "not-there.yaml"),
        (["add", "--molecules=0"], 2, "molecules: "),
    ],
)
def test_what_goes_wrong_is_said_in_a_line(
    capsys: pytest.CaptureFixture[str], words: list[str], code: int, message: str
) -> None:
    assert main(words) == code
    said = capsys.readouterr().err
    assert message in said
    assert len(said.splitlines()) == 1


def test_tables_that_are_not_there_are_said_so(empty_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", f"--database-url={empty_url}"]) == 1
    assert 'relation "configurations" does not exist' in capsys.readouterr().err


async def test_what_the_tables_refuse(engine: AsyncEngine) -> None:
    with pytest.raises(DBAPIError, match="configurations_amounts"):
        await add(engine, "s", [Configuration("spce", 0, 300.0, 1, 1, 2.0)])
