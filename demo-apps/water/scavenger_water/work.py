"""One start of a program in its work folder: what it reads there, what it leaves, and its exit code."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from scavenger_checkpoint import EXIT_SAVED, EXIT_STOPPED, StopRequest, report_checkpoint, write_atomically

from scavenger_water.configuration import Configuration, ConfigurationError, read_configuration
from scavenger_water.ends import FailedError, Reason, StoppedError
from scavenger_water.quantities import NotFiniteError, Quantity
from scavenger_water.record import Start, computed, ns_per_day


@dataclass(frozen=True)
class Measured:
    """What a program has found, and in which starts."""

    density: Quantity
    diffusion: Quantity
    starts: Sequence[Start]


@dataclass(frozen=True)
class Work:
    """One start in a folder that nobody else works in."""

    folder: Path
    configuration: Path
    """Where configuration.json is."""
    models: Sequence[str]
    """Of water, that the program has."""
    ranks: int
    threads: int
    checkpoint_minutes: float
    stop: StopRequest
    held: int
    """Descriptor of the lock on the folder."""

    @property
    def inner(self) -> Path:
        """The folder of what is the program's own: input, checkpoints, trajectory, record."""
        return self.folder / "run"

    def execute(self, compute: Callable[[Work, Configuration], Measured]) -> int:
        """Go as far as may be; the exit code.

        `compute` simulates from where the folder is to the end, and measures. It raises StoppedError when it was told
        to end, FailedError where it cannot go on, and NotFiniteError where what it has found is no number.
        """
        self.inner.mkdir(exist_ok=True)
        (self.folder / "failure.json").unlink(missing_ok=True)
        try:
            return self._compute(compute)
        except StoppedError as stopped:
            if stopped.saved is None:
                return EXIT_STOPPED
            report_checkpoint(stopped.saved)
            return EXIT_SAVED
        except NotFiniteError as error:
            return self._fail(Reason.UNSTABLE, f"not finite: {error}")
        except FailedError as error:
            return self._fail(error.reason, str(error))

    def _compute(self, compute: Callable[[Work, Configuration], Measured]) -> int:
        configuration = self._configuration()
        if (self.folder / "result.json").exists():
            say("finished already")
            return 0
        result = self._result(compute(self, configuration), configuration)
        write_atomically(self.folder / "result.json", json.dumps(result, indent=1) + "\n")
        say("finished", steps=configuration.steps)
        return 0

    def _configuration(self) -> Configuration:
        """The configuration, which must be the one that the work was begun with."""
        try:
            configuration = read_configuration(self.configuration.read_text(), self.models)
        except FileNotFoundError as error:
            raise FailedError(Reason.INVALID_CONFIGURATION, f"there is no {self.configuration}") from error
        except (ConfigurationError, UnicodeDecodeError) as error:
            raise FailedError(Reason.INVALID_CONFIGURATION, str(error)) from error
        begun = self.inner / "configuration.json"
        if not begun.exists():
            write_atomically(begun, configuration.to_json())
        elif begun.read_text() != configuration.to_json():
            text = "configuration.json is not that with which the work in this folder was begun; use another folder"
            raise FailedError(Reason.OTHER_CONFIGURATION, text)
        return configuration

    def _result(self, measured: Measured, configuration: Configuration) -> Mapping[str, object]:
        """result.json: what was measured, and what it took."""
        return {
            "density": measured.density.to_json(),
            "diffusion": measured.diffusion.to_json(),
            "ns_per_day": ns_per_day(measured.starts, configuration.time_step_fs),
            "steps": configuration.steps,
            "recomputed_steps": max(0, computed(measured.starts) - configuration.steps),
            "starts": len(measured.starts),
            "ranks": self.ranks,
            "threads": self.threads,
        }

    def _fail(self, reason: Reason, message: str) -> int:
        say("failed", reason=reason.value, message=message)
        failure = {"reason": reason.value, "message": message}
        write_atomically(self.folder / "failure.json", json.dumps(failure, indent=1) + "\n")
        return reason.exit_code


def seconds_left(configuration: Configuration, starts: Sequence[Start], step: int) -> float | None:
    """What is left of the time that all starts together may take, in seconds; None: no limit.

    `step`: how far it is. Raises FailedError where nothing is left.
    """
    if configuration.wall_seconds is None:
        return None
    left = configuration.wall_seconds - sum(start.seconds for start in starts)
    if left <= 0:
        raise FailedError(Reason.WALL_TIME, f"step {step} of {configuration.steps} when its time was over")
    return left


def say(event: str, **details: object) -> None:
    """One line of the log."""
    more = "".join(f" {key}={json.dumps(value)}" for key, value in details.items())
    sys.stdout.write(f"{datetime.now(UTC).strftime('%Y-%m-%dT%H:%M:%SZ')} {event}{more}\n")
    sys.stdout.flush()
