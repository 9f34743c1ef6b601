"""Connections to PostgreSQL, none of which waits for ever."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy.engine import URL, make_url
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

CONNECT_ARGS: Final[dict[str, Any]] = {
    "connect_timeout": 20,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
    "application_name": "scavenger-tuner",
    "options": "-c statement_timeout=30s -c idle_in_transaction_session_timeout=60s -c lock_timeout=20s",
}
"""Seconds, and milliseconds for tcp_user_timeout: a database whose machine is gone is missed within half a minute."""

POOL_SIZE: Final = 5


def psycopg_url(url: str) -> URL:
    """The URL, spoken by psycopg 3 whatever driver it names. Raises sqlalchemy.exc.ArgumentError for what is none."""
    return make_url(url).set(drivername="postgresql+psycopg")


def connect(url: str) -> AsyncEngine:
    """An engine whose connections are tried before they are used: PostgreSQL may have been restarted since."""
    return create_async_engine(
        psycopg_url(url), pool_pre_ping=True, pool_size=POOL_SIZE, max_overflow=0, connect_args=CONNECT_ARGS
    )
