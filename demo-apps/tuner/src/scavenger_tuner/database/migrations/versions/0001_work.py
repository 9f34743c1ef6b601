"""Configurations, and the attempts at them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Both tables, with what must hold of them."""
    _configurations()
    _attempts()


def downgrade() -> None:
    """Nothing."""
    op.drop_table("attempts")
    op.drop_table("configurations")


def _configurations() -> None:
    op.create_table(
        "configurations",
        sa.Column("id", sa.BigInteger(), sa.Identity(), nullable=False),
        sa.Column("key", sa.Uuid(), server_default=sa.text("gen_random_uuid()"), nullable=False),
        sa.Column("study", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("molecules", sa.Integer(), nullable=False),
        sa.Column("temperature", sa.Float(53), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("steps", sa.BigInteger(), nullable=False),
        sa.Column("time_step", sa.Float(53), nullable=False),
        sa.Column("state", sa.Text(), server_default="Waiting", nullable=False),
        sa.Column("reason", sa.Text(), server_default="", nullable=False),
        sa.Column("claimed_by", sa.Text()),
        sa.Column("claimed_until", sa.DateTime(timezone=True)),
        sa.Column("claims", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True)),
        sa.PrimaryKeyConstraint("id", name="configurations_pkey"),
        sa.UniqueConstraint(
            "study", "model", "molecules", "temperature", "seed", "steps", "time_step", name="configurations_asked_once"
        ),
        sa.CheckConstraint("state IN ('Waiting', 'Running', 'Completed', 'Failed')", name=op.f("configurations_state")),
        sa.CheckConstraint(
            "molecules > 0 AND temperature > 0 AND steps > 0 AND time_step > 0", name=op.f("configurations_amounts")
        ),
        sa.CheckConstraint(
            "(claimed_by IS NULL) = (claimed_until IS NULL)", name=op.f("configurations_claim_is_whole")
        ),
        sa.CheckConstraint(
            "(state IN ('Completed', 'Failed')) = (finished_at IS NOT NULL)", name=op.f("configurations_finished")
        ),
    )
    op.create_index(
        "configurations_unfinished", "configurations", ["id"], postgresql_where=sa.text("finished_at IS NULL")
    )


def _attempts() -> None:
    op.create_table(
        "attempts",
        sa.Column("id", sa.BigInteger(), sa.Identity(), nullable=False),
        sa.Column("configuration_id", sa.BigInteger(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("molecules", sa.Integer(), nullable=False),
        sa.Column("steps", sa.BigInteger(), nullable=False),
        sa.Column("time_step", sa.Float(53), nullable=False),
        sa.Column("ranks", sa.Integer(), nullable=False),
        sa.Column("threads", sa.Integer(), nullable=False),
        sa.Column("memory_mib", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), server_default="Open", nullable=False),
        sa.Column("reason", sa.Text(), server_default="", nullable=False),
        sa.Column("message", sa.Text(), server_default="", nullable=False),
        sa.Column("result", postgresql.JSONB(none_as_null=True)),
        sa.Column("ns_per_day", sa.Float(53)),
        sa.Column("interruptions", sa.Integer(), server_default="0", nullable=False),
        sa.Column("useful_cpu_seconds", sa.Float(53), server_default="0", nullable=False),
        sa.Column("lost_cpu_seconds", sa.Float(53), server_default="0", nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True)),
        sa.PrimaryKeyConstraint("id", name="attempts_pkey"),
        sa.ForeignKeyConstraint(
            ["configuration_id"], ["configurations.id"], name="attempts_configuration_id_fkey", ondelete="CASCADE"
        ),
        sa.UniqueConstraint("configuration_id", "number", name="attempts_numbered"),
        sa.CheckConstraint("state IN ('Open', 'Cancelling', 'Succeeded', 'Failed')", name=op.f("attempts_state")),
        sa.CheckConstraint("(state IN ('Succeeded', 'Failed')) = (ended_at IS NOT NULL)", name=op.f("attempts_ended")),
        sa.CheckConstraint("(state = 'Succeeded') = (result IS NOT NULL)", name=op.f("attempts_result_of_success")),
    )
    op.create_index(
        "attempts_one_open",
        "attempts",
        ["configuration_id"],
        unique=True,
        postgresql_where=sa.text("ended_at IS NULL"),
    )
    op.create_index(
        "attempts_one_success",
        "attempts",
        ["configuration_id"],
        unique=True,
        postgresql_where=sa.text("state = 'Succeeded'"),
    )
    op.create_index("attempts_model", "attempts", ["model"])
