"""All that the tables hold of a study, for tables and files."""

from __future__ import annotations

from collections import defaultdict

from sqlalchemy import select
from sqlalchemy.ext.asyncio import async_sessionmaker

from scavenger_tuner.database.engine import connect
from scavenger_tuner.database.tables import AttemptRow, ConfigurationRow


async def everything(url: str, study: str | None = None) -> list[tuple[ConfigurationRow, list[AttemptRow]]]:
    """Configurations of a study, or of all, each with its attempts, in the order in which they were asked for and made.

    One consistent state of the database.
    """
    configurations = select(ConfigurationRow).order_by(ConfigurationRow.id)
    if study is not None:
        configurations = configurations.where(ConfigurationRow.study == study)
    engine = connect(url)
    try:
        sessions = async_sessionmaker(engine.execution_options(isolation_level="REPEATABLE READ"))
        async with sessions.begin() as session:
            rows = (await session.scalars(configurations)).all()
            attempts = (await session.scalars(select(AttemptRow).order_by(AttemptRow.number))).all()
            session.expunge_all()
    finally:
        await engine.dispose()
    made: dict[int, list[AttemptRow]] = defaultdict(list)
    for attempt in attempts:
        made[attempt.configuration_id].append(attempt)
    return [(row, made[row.id]) for row in rows]
