"""The ledger of an adopted Job: the one reader and writer of its format, for all that look at such Jobs.

It is the message of the condition `scavenger.dev/Ledger`, as JSON: what a status of batch/v1 has no field for. The
admitter writes it (docs/designs/0032-adopted-jobs.md).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Final

VERSION: Final = 1


class LedgerError(ValueError):
    """A ledger that this program cannot read: it leaves the Job alone."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """What the message says. Times are RFC 3339, sums core-seconds.

    Attributes:
        v: version of this record.
        place: of a gang, its place in the queue. Each end of a run moves it, so it tells runs apart.
        why: one word on the phase.
        cause: of the last interruption, until the job runs again.
        runs: when its first task started, and when its last one did.
        interrupted: how often it was interrupted.
        interrupted_at: when it was last.
        own: of a gang, interruptions that give it no place in the queue.
        earned: of a gang, core-seconds that it had computed when an interruption gave it a place last; less than
            nothing where none has.
        ended_at: when a run ended shortly after its start last.
        short: such runs in a row.
        ignored: failures that podFailurePolicy ignores.
        active: seconds in which a pod ran, up to activeSince.
        active_since: since when pods run without a break, where that is limited.
        due: of a gang, the last moment at which a checkpoint was due. What is useful is counted up to there.
        checkpoint: the last one that was reported.
        useful: what was kept.
        lost: what was thrown away.
        served: `servedLevel`; an admitter that does not know it goes by interruptions.
        useful_of: devices requested times the time that was kept, in seconds.
        lost_of: the same of what was thrown away.
        usage: what its pods use, as `scavenger_domain.usage` has it in a table.
        done: workers of a work queue that do not start again.
        width: its workers when one had succeeded first. No other parallelism counts from then on.
        failed: indexes that failed.
        indexes: interrupted indexes. They start before others.
        retries: how often indexes that are not over started again after a failure, where each has retries of its own.
        counted: pods that are counted and may still have their finalizer.
        removing: pods that the admitter deletes, and why.
        asked: when the admitter first saw that the Job is to be released.
        late: seconds after its creation in which no admitter looked at the Job.
        say: the state in a sentence.
    """

    v: int = VERSION
    place: str = ""
    why: str = ""
    cause: str = ""
    runs: tuple[str, ...] = ()
    interrupted: int = 0
    interrupted_at: str = ""
    own: int = 0
    earned: float = -1.0
    ended_at: str = ""
    short: int = 0
    ignored: int = 0
    active: int = 0
    active_since: str = ""
    due: str = ""
    checkpoint: str = ""
    useful: float = 0.0
    lost: float = 0.0
    served: int | None = None
    useful_of: Mapping[str, float] = field(default_factory=dict)
    lost_of: Mapping[str, float] = field(default_factory=dict)
    usage: Mapping[str, float] = field(default_factory=dict)
    done: str = ""
    width: int = 0
    failed: str = ""
    indexes: str = ""
    retries: str = ""
    counted: str = ""
    removing: str = ""
    asked: str = ""
    late: int = 0
    say: str = ""

    @property
    def text(self) -> str:
        """The message. What is as by default is left out, but for the version."""
        said = {name: value for name, one in _FIELDS.items() if (value := getattr(self, one.name)) != _default(one)}
        return json.dumps({"v": self.v} | said, ensure_ascii=False, separators=(",", ":"))

    @property
    def counted_pods(self) -> frozenset[str]:
        """Names of the pods that are counted, as `scavenger_api.removing.pod_mark` gives them."""
        return frozenset(self.counted.split(",")) if self.counted else frozenset()


def _default(one: Any) -> Any:
    return one.default_factory() if one.default_factory is not MISSING else one.default


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


_FIELDS: Final = {_camel(one.name): one for one in fields(Ledger)}


def read_ledger(message: str) -> Ledger:
    """What a message says. Raises LedgerError for one of another version, and for one that no version writes."""
    try:
        said = json.loads(message)
    except (ValueError, RecursionError) as error:
        raise LedgerError(f"the ledger of this Job cannot be read: {error}") from error
    version = said.get("v") if isinstance(said, dict) else None
    if type(version) is not int or version != VERSION:
        raise LedgerError(f"the ledger of this Job is of version {version}, and this program reads {VERSION}")
    return Ledger(
        **{one.name: _value(name, said[name], _default(one)) for name, one in _FIELDS.items() if name in said}
    )


def _value(name: str, found: Any, default: Any) -> Any:
    """A value of the type that its field has. Raises LedgerError for another one."""
    if isinstance(default, tuple) and isinstance(found, list) and all(isinstance(one, str) for one in found):
        return tuple(found)
    if isinstance(default, float) and _is_number(found):
        return float(found)
    if isinstance(default, dict) and isinstance(found, dict) and all(map(_is_number, found.values())):
        return {key: float(one) for key, one in found.items()}
    if isinstance(default, str | int) and type(found) is type(default):
        return found
    if default is None and type(found) is int:
        return found
    wanted = "int" if default is None else type(default).__name__
    raise LedgerError(f"the ledger of this Job cannot be read: {name} is no {wanted}")


def _is_number(found: Any) -> bool:
    return isinstance(found, int | float) and not isinstance(found, bool)
