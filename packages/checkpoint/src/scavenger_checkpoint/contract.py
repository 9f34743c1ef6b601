"""The words of the contract: exit codes, environment, the line that reports a checkpoint. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Final

VERSION: Final = 1
"""Of the contract that docs/checkpoint-contract.md describes."""

EXIT_SAVED: Final = 85
"""Ended with its state saved and work left; what `checkpointExitCode` of the job should say. HTCondor's convention."""
EXIT_STOPPED: Final = 143
"""Ended on SIGTERM with nothing saved, as a shell tells of a program that the signal ended: 128 + 15."""

MESSAGE_PATH: Final = "/dev/termination-log"
"""Where the kubelet reads the termination message of a container, unless its pod says otherwise."""
ENV_MESSAGE_PATH: Final = "SCAVENGER_TERMINATION_MESSAGE_PATH"
"""Another place for it: for a program that runs outside a container, as under the tester."""
MESSAGE_LIMIT: Final = 4096
"""Bytes of the message that the kubelet keeps: the last ones of the file (`MaxContainerTerminationMessageLength`)."""

_PATTERN = re.compile(r"([^,\[]*)\[(\d+)-(\d+)\]([^,\[]*)", re.ASCII)
# RFC 3339, section 5.6.
FINISHED = "finished"
"""The last line of the termination message of a program that is done, and ends with 0."""

_CHECKPOINT = re.compile(
    r"checkpoint=(\d{4}-\d{2}-\d{2})[Tt](\d{2}:\d{2}:\d{2})(?:\.(\d+))?([Zz]|[+-]\d{2}:\d{2})", re.ASCII
)


@dataclass(frozen=True)
class Place:
    """What a scavenger job tells each of its containers."""

    index: int = 0
    """Which pod of the gang this is, from 0."""
    parallelism: int = 1
    """How many pods the gang has."""
    peers: tuple[str, ...] = ()
    """DNS names of all of them, in the order of their indexes; empty where there is one."""
    restarts: int = 0
    """How often the job was started before."""
    checkpoint_interval: float | None = None
    """Seconds: a checkpoint is due at least this often; None outside a scavenger job."""

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Place:
        """Read it from the environment, which has defaults for a program that runs by itself.

        Raises ValueError where a variable is no number.
        """
        interval = environment.get("SCAVENGER_CHECKPOINT_INTERVAL")
        return cls(
            index=int(environment.get("SCAVENGER_INDEX") or 0),
            parallelism=int(environment.get("SCAVENGER_PARALLELISM") or 1),
            peers=_peers(environment.get("SCAVENGER_PEERS", "")),
            restarts=int(environment.get("SCAVENGER_RESTARTS") or 0),
            checkpoint_interval=float(interval) if interval else None,
        )


def _peers(text: str) -> tuple[str, ...]:
    """Names with commas between; of a gang too large for that one pattern, `job-[0-4999].sj-job.default.svc`."""
    pattern = _PATTERN.fullmatch(text)
    if pattern is None:
        return tuple(name for name in text.split(",") if name)
    before, first, last, after = pattern.groups()
    return tuple(f"{before}{number}{after}" for number in range(int(first), int(last) + 1))


def checkpoint_line(moment: datetime) -> str:
    """The last line of the termination message: `checkpoint=2026-01-02T03:04:05.000006Z`.

    `moment`: when the state that was saved was taken. Raises ValueError where it has no time zone.
    """
    if moment.tzinfo is None:
        raise ValueError("the moment of a checkpoint needs a time zone: datetime.now(timezone.utc)")
    return f"checkpoint={moment.astimezone(timezone.utc).strftime('%Y-%m-%dT%H:%M:%S.%fZ')}"


def reported_checkpoint(message: str) -> datetime | None:
    """The moment that a termination message reports in its last line, in UTC; None where it reports none.

    Only space at the ends of the line, and empty lines after it, are overlooked.
    """
    lines = message.rstrip().splitlines()
    found = _CHECKPOINT.fullmatch(lines[-1].strip()) if lines else None
    if found is None:
        return None
    day, time, fraction, zone = found.groups()
    # Python 3.9 reads three or six digits of a fraction and no Z.
    offset = "+00:00" if zone in "Zz" else zone
    try:
        moment = datetime.fromisoformat(f"{day}T{time}.{(fraction or '')[:6]:0<6}{offset}")
        return moment.astimezone(timezone.utc)
    except (ValueError, OverflowError):  # the 31st of February; the year 1, east of Greenwich
        return None
