"""Bringing the tables up to date, or back: alembic on a connection of our own, with no ini file."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, text

from scavenger_tuner.database.engine import CONNECT_ARGS, psycopg_url

MIGRATIONS: Final = Path(__file__).parent / "migrations"

MIGRATION_LOCK: Final = 7_236_021_814
"""An advisory lock: of several that migrate at once, one does, and the others find it done."""


def migrate(url: str, revision: str = "head") -> str | None:
    """Bring the tables to a revision (`head`, `base`, or the name of one). Returns the revision they have then.

    Raises sqlalchemy.exc.OperationalError where the database is not there, and alembic.util.CommandError for a revision
    that is not.
    """
    engine = create_engine(psycopg_url(url), connect_args={**CONNECT_ARGS, "options": ""})
    try:
        with engine.connect() as connection:
            connection.execute(text("SELECT pg_advisory_lock(:lock)"), {"lock": MIGRATION_LOCK})
            connection.commit()  # the lock is the session's, and stays
            _run(connection, revision)
            return current(connection)
    finally:
        engine.dispose()


def current(connection: Connection) -> str | None:
    """The revision that the tables have; None where there are none."""
    return MigrationContext.configure(connection).get_current_revision()


def head() -> str | None:
    """The newest revision."""
    return ScriptDirectory.from_config(_config()).get_current_head()


def _run(connection: Connection, revision: str) -> None:
    config = _config()
    config.attributes["connection"] = connection
    if revision == "base":
        command.downgrade(config, revision)
    elif revision == "head" or _is_ahead(config, connection, revision):
        command.upgrade(config, revision)
    else:
        command.downgrade(config, revision)
    connection.commit()


def _is_ahead(config: Config, connection: Connection, revision: str) -> bool:
    """Whether the tables have not come to that revision yet."""
    now = current(connection)
    if now is None:
        return True
    scripts = ScriptDirectory.from_config(config)
    return revision not in {script.revision for script in scripts.iterate_revisions(now, "base")}


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    return config
