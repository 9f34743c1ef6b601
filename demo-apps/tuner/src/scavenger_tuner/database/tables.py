"""The tables: what is asked for, and what was tried for it.

The rules that must hold whatever a tuner does are constraints: at most one attempt of a configuration is open at a
time, at most one succeeds, and the same configuration is not in a study twice.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    DateTime,
    Float,
    ForeignKey,
    Identity,
    Index,
    Integer,
    MetaData,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

NAMES = {
    "ix": "%(table_name)s_%(column_0_name)s",
    "uq": "%(table_name)s_%(column_0_name)s_key",
    "ck": "%(table_name)s_%(constraint_name)s",
    "fk": "%(table_name)s_%(column_0_name)s_fkey",
    "pk": "%(table_name)s_pkey",
}


class State(StrEnum):
    """Of a configuration."""

    WAITING = "Waiting"
    RUNNING = "Running"
    COMPLETED = "Completed"
    FAILED = "Failed"


class AttemptState(StrEnum):
    """Of an attempt. Cancelling: it has failed, and its job is still to be deleted."""

    OPEN = "Open"
    CANCELLING = "Cancelling"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class Base(DeclarativeBase):
    """The tables of the tuner."""

    metadata = MetaData(naming_convention=NAMES)


class ConfigurationRow(Base):
    """A configuration that somebody wants the result of. temperature: kelvin; time_step: femtoseconds."""

    __tablename__ = "configurations"

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    key: Mapped[UUID] = mapped_column(Uuid, server_default=text("gen_random_uuid()"))
    study: Mapped[str] = mapped_column(Text)
    model: Mapped[str] = mapped_column(Text)
    molecules: Mapped[int] = mapped_column(Integer)
    temperature: Mapped[float] = mapped_column(Float(53))
    seed: Mapped[int] = mapped_column(BigInteger)
    steps: Mapped[int] = mapped_column(BigInteger)
    time_step: Mapped[float] = mapped_column(Float(53))
    state: Mapped[str] = mapped_column(Text, server_default=State.WAITING)
    reason: Mapped[str] = mapped_column(Text, server_default="")
    claimed_by: Mapped[str | None] = mapped_column(Text)
    claimed_until: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))
    claims: Mapped[int] = mapped_column(BigInteger, server_default="0")
    """How often it was claimed: with `claimed_by` the token without which nothing of it is written."""
    created_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=text("now()"))
    finished_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))

    __table_args__ = (
        UniqueConstraint(
            "study", "model", "molecules", "temperature", "seed", "steps", "time_step", name="configurations_asked_once"
        ),
        CheckConstraint("state IN ('Waiting', 'Running', 'Completed', 'Failed')", name="state"),
        CheckConstraint("molecules > 0 AND temperature > 0 AND steps > 0 AND time_step > 0", name="amounts"),
        CheckConstraint("(claimed_by IS NULL) = (claimed_until IS NULL)", name="claim_is_whole"),
        CheckConstraint("(state IN ('Completed', 'Failed')) = (finished_at IS NOT NULL)", name="finished"),
        Index("configurations_unfinished", "id", postgresql_where=text("finished_at IS NULL")),
    )


class AttemptRow(Base):
    """One attempt at a configuration: what was run, in what, and what came of it. memory: MiB."""

    __tablename__ = "attempts"

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    configuration_id: Mapped[int] = mapped_column(BigInteger, ForeignKey("configurations.id", ondelete="CASCADE"))
    number: Mapped[int] = mapped_column(Integer)
    model: Mapped[str] = mapped_column(Text)
    molecules: Mapped[int] = mapped_column(Integer)
    steps: Mapped[int] = mapped_column(BigInteger)
    time_step: Mapped[float] = mapped_column(Float(53))
    ranks: Mapped[int] = mapped_column(Integer)
    threads: Mapped[int] = mapped_column(Integer)
    memory_mib: Mapped[int] = mapped_column(Integer)
    state: Mapped[str] = mapped_column(Text, server_default=AttemptState.OPEN)
    reason: Mapped[str] = mapped_column(Text, server_default="")
    message: Mapped[str] = mapped_column(Text, server_default="")
    result: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    ns_per_day: Mapped[float | None] = mapped_column(Float(53))
    interruptions: Mapped[int] = mapped_column(Integer, server_default="0")
    useful_cpu_seconds: Mapped[float] = mapped_column(Float(53), server_default="0")
    lost_cpu_seconds: Mapped[float] = mapped_column(Float(53), server_default="0")
    created_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=text("now()"))
    ended_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))

    __table_args__ = (
        UniqueConstraint("configuration_id", "number", name="attempts_numbered"),
        CheckConstraint("state IN ('Open', 'Cancelling', 'Succeeded', 'Failed')", name="state"),
        CheckConstraint("(state IN ('Succeeded', 'Failed')) = (ended_at IS NOT NULL)", name="ended"),
        CheckConstraint("(state = 'Succeeded') = (result IS NOT NULL)", name="result_of_success"),
        Index("attempts_one_open", "configuration_id", unique=True, postgresql_where=text("ended_at IS NULL")),
        Index("attempts_one_success", "configuration_id", unique=True, postgresql_where=text("state = 'Succeeded'")),
        Index("attempts_model", "model"),
    )
