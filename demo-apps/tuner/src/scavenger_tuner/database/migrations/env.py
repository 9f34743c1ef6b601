"""What alembic runs: the steps of this folder, on the connection that `scavenger_tuner.database.schema` hands over."""

from __future__ import annotations

from alembic import context

from scavenger_tuner.database.tables import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    transaction_per_migration=True,
)
with context.begin_transaction():
    context.run_migrations()
