"""What a tuner shows on /metrics, beside what the runtime shows of informers and requests."""

from __future__ import annotations

from typing import Final

from scavenger_runtime.metrics import counter, gauge

HELD: Final = gauge("tuner_configurations_held", "Configurations that this tuner follows.")
STARTED: Final = counter("tuner_attempts_started", "Attempts whose job this tuner created.")
ENDED: Final = counter("tuner_attempts_ended", "Attempts at their end, by what came of them.", ("outcome",))
FINISHED: Final = counter("tuner_configurations_finished", "Configurations at their end, by state.", ("state",))
LOST: Final = counter("tuner_claims_lost", "Claims that somebody else had when this tuner came back to them.")
DATABASE_ERRORS: Final = counter("tuner_database_errors", "Transactions that PostgreSQL did not answer.")
EXPLORED: Final = counter("tuner_shapes_chosen", "Shapes of first attempts, by why they were chosen.", ("why",))
NS_PER_DAY: Final = gauge("tuner_ns_per_day", "Of the last finished run.", ("model", "ranks", "threads"))
