"""The ledger of an adopted Job: what its status has of a `ScavengerJobStatus` beyond what clients of Jobs read.

It is one condition, `scavenger.dev/Ledger`, always False, so that no client takes it for an end. Its reason is the
phase, its message this record as JSON of at most `MAX_BYTES`. What else the status has, such as the counts, is written
once and read from there (`book.py`).

Texts, sets of indexes and figures of devices that would make it too long are cut. Nothing follows from what is cut: an
interrupted index that is not named loses its turn, and a pod is deleted once its entry in `removing` is written. Counts
of retries that are cut stand on the pods of their indexes, which stay until then (`retries.py`).
`counted` is never cut, as a pod would be counted twice; `MAX_COUNTED` bounds it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec
from scavenger_api.array import ArrayStatus
from scavenger_api.indexes import format_counts, format_indexes, indexes_of, parse_counts, parse_indexes
from scavenger_api.job import ConditionType, Phase, ScavengerJobStatus
from scavenger_api.ledger import Ledger
from scavenger_api.times import format_micro_time, format_time
from scavenger_domain.usage import usage_in_table

from scavenger_admitter.core.recommended import usage_in

MAX_BYTES: Final = 8 * 1024
MAX_COUNTED: Final = 80
"""Pods that one write counts. At most twice as many are named."""
MAX_SAID: Final = 256
"""Bytes of the sentence."""
MAX_SET: Final = 600
"""Bytes of a set of indexes."""
LONGEST_COUNT: Final = len(",99998-99999:15")
"""Bytes that the count of one more index needs at most."""
MAX_REMOVING: Final = 1500
"""Bytes of the pods that the admitter deletes."""
MAX_DEVICES: Final = 800
"""Bytes of the figures of devices."""
MAX_WORD: Final = 64
"""Characters of one word."""


def write_ledger(
    status: ScavengerJobStatus,
    done: int = 0,
    *,
    gang: bool = False,
    width: int = 0,
    failed_told: bool = False,
    asked: datetime | None = None,
    late: int = 0,
) -> str:
    """The message that a status is written as.

    Args:
        status: of the job.
        done: the set of workers that do not start again, of a work queue.
        gang: its pods are one run, which the place in the queue tells from others.
        width: its workers when one had succeeded first; 0 before that.
        failed_told: clients see which indexes failed, so the status has them elsewhere.
        asked: when its release was seen first.
        late: seconds in which no admitter looked at the Job.
    """
    array = status.array or ArrayStatus()
    ledger = Ledger(
        place=format_micro_time(status.queued_timestamp) if gang and status.queued_timestamp is not None else "",
        why=_why(status)[:MAX_WORD],
        cause=_cause(status)[:MAX_WORD],
        runs=tuple(map(format_time, (*status.running_timestamps[:1], *status.running_timestamps[1:][-1:]))),
        interrupted=status.interrupted_count,
        interrupted_at=_time(max(status.interrupted_timestamps, default=None)),
        own=(status.own_interrupted_count or 0) if gang else 0,
        earned=round(status.earned_cpu_seconds, 3) if gang and status.earned_cpu_seconds is not None else -1.0,
        ended_at=_time(status.ended_timestamp),
        short=status.short_runs or 0,
        ignored=status.ignored_failures or 0,
        active=status.active_seconds or 0,
        active_since=_time(array.active_since),
        due=_time(status.priority_start_over_timestamp) if gang else "",
        checkpoint=_time(status.last_checkpoint_timestamp),
        useful=round(status.useful_cpu_seconds, 3),
        lost=round(status.lost_cpu_seconds, 3),
        served=status.served_level,
        useful_of=_figures(status.useful_seconds),
        lost_of=_figures(status.lost_seconds),
        usage=_usage(status),
        done=_indexes(format_indexes(done)),
        width=width,
        failed="" if failed_told else _indexes(array.failed_indexes),
        indexes=_indexes(array.interrupted_indexes),
        retries=_retries(array),
        counted=",".join(array.counted),
        removing=_joined(status.removing or (), MAX_REMOVING),
        asked=_time(asked),
        late=late,
        say=_cut(status.message or "", MAX_SAID),
    )
    return ledger.text


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


def _usage(status: ScavengerJobStatus) -> dict[str, float]:
    """Usage of CPU and memory, and of as many devices as have space, by name."""
    used = usage_in(status)
    table = usage_in_table(used)
    for name in sorted(used.devices if used is not None else (), reverse=True):
        if len(msgspec.json.encode(table)) <= MAX_DEVICES:
            break
        table = {key: value for key, value in table.items() if not key.startswith(f"{name}.")}
    return table


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


def may_be_cut(retries: str) -> bool:
    """Whether more retries were to be written than had space. retries: as the ledger has them."""
    return len(retries) > MAX_SET - LONGEST_COUNT


def _retries(array: ArrayStatus) -> str:
    """How often tasks started again that may do so again: those of interrupted indexes, and then of the lowest, as many
    as have space. The pods of the others say it as well (`retries.py`)."""
    over, first = (parse_indexes(text) for text in (array.completed_indexes, array.interrupted_indexes))
    over |= parse_indexes(array.failed_indexes)
    counts = [one for one in parse_counts(array.retries_used).items() if not over >> one[0] & 1]
    counts.sort(key=lambda one: (not first >> one[0] & 1, one[0]))
    if len(text := format_counts(dict(counts))) <= MAX_SET:
        return text
    fits, most = 0, len(counts)
    while most - fits > 1:
        middle = (fits + most) // 2
        enough = len(format_counts(dict(counts[:middle]))) <= MAX_SET
        fits, most = (middle, most) if enough else (fits, middle)
    return format_counts(dict(counts[:fits]))


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
