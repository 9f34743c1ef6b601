"""The ledger of an adopted Job: what its status has of a `ScavengerJobStatus` beyond what clients of Jobs read.

It is one condition, `scavenger.dev/Ledger`, always False, so that nobody takes it for an end. Its reason is the phase,
its message this record as JSON of at most `MAX_BYTES`. What else the status has, such as the counts, is written once
and read from there (`book.py`).

Texts, sets of indexes and figures of devices that would make it too long are cut. Nothing follows from what is cut: an
interrupted index that is not named loses its turn, and a pod is deleted once its entry in `removing` is written.
`counted` is never cut, as a pod would be counted twice; `MAX_COUNTED` bounds it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec
from scavenger_api.array import ArrayStatus
from scavenger_api.indexes import format_indexes, indexes_of, parse_indexes
from scavenger_api.job import ConditionType, Phase, ScavengerJobStatus
from scavenger_api.times import format_time, parse_time

VERSION: Final = 1
MAX_BYTES: Final = 8 * 1024
MAX_COUNTED: Final = 80
"""Pods that one write counts. At most twice as many are named."""
MAX_SAID: Final = 256
"""Bytes of the sentence."""
MAX_SET: Final = 600
"""Bytes of a set of indexes."""
MAX_REMOVING: Final = 1500
"""Bytes of the pods that the admitter deletes."""
MAX_DEVICES: Final = 800
"""Bytes of the figures of devices."""
MAX_WORD: Final = 64
"""Characters of one word."""


class LedgerError(ValueError):
    """A ledger that this admitter cannot read: it leaves the Job alone."""


class Ledger(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What the message says. Times are RFC 3339, sums core-seconds.

    Attributes:
        v: version of this record.
        why: one word on the phase.
        cause: of the last interruption, until the job runs again.
        runs: when its first task started, and when its last one did.
        interrupted: how often it was interrupted.
        interrupted_at: when it was last.
        ended_at: when a run ended shortly after its start last.
        short: such runs in a row.
        ignored: failures that podFailurePolicy ignores.
        active: seconds in which a pod ran, up to activeSince.
        active_since: since when pods run without a break, where that is limited.
        checkpoint: the last one that was reported.
        useful: what was kept.
        lost: what was thrown away.
        served: `servedLevel`; an admitter that does not know it goes by interruptions.
        useful_of: devices requested times the time that was kept, in seconds.
        lost_of: the same of what was thrown away.
        done: workers of a work queue that do not start again.
        width: its workers when one had succeeded first. No other parallelism counts from then on.
        failed: indexes that failed.
        indexes: interrupted indexes. They start before others.
        counted: pods that are counted and may still have their finalizer.
        removing: pods that the admitter deletes, and why.
        asked: when the admitter first saw that the Job is to be released.
        late: seconds after its creation in which nobody looked at the Job.
        say: the state in a sentence.
    """

    v: int
    why: str = ""
    cause: str = ""
    runs: tuple[str, ...] = ()
    interrupted: int = 0
    interrupted_at: str = ""
    ended_at: str = ""
    short: int = 0
    ignored: int = 0
    active: int = 0
    active_since: str = ""
    checkpoint: str = ""
    useful: float = 0.0
    lost: float = 0.0
    served: int | None = None
    useful_of: dict[str, float] = {}
    lost_of: dict[str, float] = {}
    done: str = ""
    width: int = 0
    failed: str = ""
    indexes: str = ""
    counted: str = ""
    removing: str = ""
    asked: str = ""
    late: int = 0
    say: str = ""


_decoder: Final = msgspec.json.Decoder(Ledger)


class _Version(msgspec.Struct):
    v: int = 0


def read_ledger(message: str) -> Ledger:
    """What a message says. Raises LedgerError for one of another version, and for one that nobody has written."""
    try:
        version = msgspec.json.decode(message, type=_Version).v
        if version != VERSION:
            raise LedgerError(f"the ledger of this Job is of version {version}, and this admitter reads {VERSION}")
        return _decoder.decode(message)
    except msgspec.MsgspecError as error:
        raise LedgerError(f"the ledger of this Job cannot be read: {error}") from error


def write_ledger(
    status: ScavengerJobStatus, done: int = 0, *, width: int = 0, asked: datetime | None = None, late: int = 0
) -> str:
    """The message that a status is written as.

    Args:
        status: of the job.
        done: the set of workers that do not start again, of a work queue.
        width: its workers when one had succeeded first; 0 before that.
        asked: when its release was seen first.
        late: seconds in which nobody looked at the Job.
    """
    array = status.array or ArrayStatus()
    ledger = Ledger(
        v=VERSION,
        why=_why(status)[:MAX_WORD],
        cause=_cause(status)[:MAX_WORD],
        runs=tuple(map(format_time, (*status.running_timestamps[:1], *status.running_timestamps[1:][-1:]))),
        interrupted=status.interrupted_count,
        interrupted_at=_time(max(status.interrupted_timestamps, default=None)),
        ended_at=_time(status.ended_timestamp),
        short=status.short_runs or 0,
        ignored=status.ignored_failures or 0,
        active=status.active_seconds or 0,
        active_since=_time(array.active_since),
        checkpoint=_time(status.last_checkpoint_timestamp),
        useful=round(status.useful_cpu_seconds, 3),
        lost=round(status.lost_cpu_seconds, 3),
        served=status.served_level,
        useful_of=_figures(status.useful_seconds),
        lost_of=_figures(status.lost_seconds),
        done=_indexes(format_indexes(done)),
        width=width,
        failed=_indexes(array.failed_indexes),
        indexes=_indexes(array.interrupted_indexes),
        counted=",".join(array.counted),
        removing=_joined(status.removing or (), MAX_REMOVING),
        asked=_time(asked),
        late=late,
        say=_cut(status.message or "", MAX_SAID),
    )
    return msgspec.json.encode(ledger).decode()


def fields_of(ledger: Ledger, phase: Phase) -> dict[str, Any]:
    """The fields of a `ScavengerJobStatus` that a ledger has, as JSON values; those of its array are left out."""
    return {
        "phase": phase.value,
        "runningTimestamps": ledger.runs,
        "interruptedCount": ledger.interrupted,
        "interruptedTimestamps": [ledger.interrupted_at] if ledger.interrupted_at else [],
        "endedTimestamp": ledger.ended_at or None,
        "shortRuns": ledger.short or None,
        "ignoredFailures": ledger.ignored or None,
        "activeSeconds": ledger.active or None,
        "lastCheckpointTimestamp": ledger.checkpoint or None,
        "usefulCPUSeconds": ledger.useful,
        "lostCPUSeconds": ledger.lost,
        "servedLevel": ledger.served,
        "usefulSeconds": ledger.useful_of or None,
        "lostSeconds": ledger.lost_of or None,
        "removing": tuple(ledger.removing.split(",")) if ledger.removing else None,
        "message": ledger.say or None,
    }


def active_since(ledger: Ledger) -> datetime | None:
    """Since when pods run without a break."""
    return parse_time(ledger.active_since)


def _why(status: ScavengerJobStatus) -> str:
    kind = ConditionType.SUCCEEDED if status.phase is Phase.FAILED else ConditionType.ADMITTED
    found = status.condition(kind)
    return found.reason if found is not None and found.status == "False" else ""


def _cause(status: ScavengerJobStatus) -> str:
    found = status.condition(ConditionType.INTERRUPTED)
    return found.reason if found is not None and found.status == "True" else ""


def _time(at: datetime | None) -> str:
    return format_time(at) if at is not None else ""


def _figures(of: Mapping[str, float] | None) -> dict[str, float]:
    """As many of these as have space, by name."""
    kept: dict[str, float] = {}
    for name in sorted(of or {}):
        kept[name] = round((of or {})[name], 3)
        if len(msgspec.json.encode(kept)) > MAX_DEVICES // 2:
            del kept[name]
            break
    return kept


def _indexes(text: str) -> str:
    """A set of indexes as ranges: the lowest, as many as have space."""
    if len(text) <= MAX_SET and not text.startswith("bits:"):
        return text
    found, kept = parse_indexes(text), 0
    for index in indexes_of(found):
        more = kept | 1 << index
        if len(format_indexes(more)) > MAX_SET:
            break
        kept = more
    return format_indexes(kept)


def _joined(entries: Sequence[str], most: int) -> str:
    """The first entries, as many as have space."""
    kept, left = [], most
    for one in entries:
        left -= len(one) + 1
        if left < 0:
            break
        kept.append(one)
    return ",".join(kept)


def _cut(text: str, most: int) -> str:
    """A sentence of at most so many bytes as JSON."""
    if len(msgspec.json.encode(text)) - 2 <= most:
        return text
    kept = text[:most]
    while len(msgspec.json.encode(kept + "…")) - 2 > most:
        kept = kept[: len(kept) - max(1, len(kept) // 16)]
    return kept + "…"
