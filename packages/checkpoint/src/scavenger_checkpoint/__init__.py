"""What a program and a scavenger job agree on, for programs in Python; docs/checkpoint-contract.md has it for others.

    from scavenger_checkpoint import EXIT_SAVED, StopRequest, Store, report_checkpoint

    stop, store = StopRequest(), Store("/data/state")
    state = store.load().content or START
    while not finished(state):
        state = next_step(state)
        if stop:
            saved_at = datetime.now(timezone.utc)
            store.save(state)
            report_checkpoint(saved_at)
            sys.exit(EXIT_SAVED)
    report_finished()

`python -m scavenger_checkpoint test -- COMMAND` finds out whether a program, in whatever language, keeps to it.
"""

from __future__ import annotations

from scavenger_checkpoint.contract import EXIT_SAVED, EXIT_STOPPED, VERSION, Place, checkpoint_line, reported_checkpoint
from scavenger_checkpoint.files import Loaded, Store, write_atomically
from scavenger_checkpoint.report import report_checkpoint, report_finished
from scavenger_checkpoint.signals import StopRequest

__all__ = [
    "EXIT_SAVED",
    "EXIT_STOPPED",
    "VERSION",
    "Loaded",
    "Place",
    "StopRequest",
    "Store",
    "checkpoint_line",
    "report_checkpoint",
    "report_finished",
    "reported_checkpoint",
    "write_atomically",
]
