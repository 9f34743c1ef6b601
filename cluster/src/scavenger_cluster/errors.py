"""What can go wrong, in words a user can act on."""

from __future__ import annotations

from pathlib import Path


class ClusterError(Exception):
    """Anything the user should read as one clear message instead of a traceback."""


class MissingRequirementError(ClusterError):
    """A program, package or permission that this machine lacks."""


class PortBusyError(ClusterError):
    """A port the cluster needs is taken by somebody else."""


class WaitTimeoutError(ClusterError):
    """A condition did not come true before its deadline."""


class CommandError(ClusterError):
    """A program we ran to completion failed; carries what it said."""

    def __init__(self, argv: list[str], code: int, output: str) -> None:
        """Keep the exit code and the output; the message shows the last lines of it."""
        self.argv = argv
        self.code = code
        self.output = output
        super().__init__(f"{' '.join(argv)} failed with exit code {code}:\n{tail(output)}")


class ComponentFailedError(ClusterError):
    """A component of the cluster died or never became ready; shows the end of its log."""

    def __init__(self, name: str, problem: str, log: Path) -> None:
        """Read the tail of the component's log into the message."""
        text = log.read_text(errors="replace") if log.exists() else "(no log was written)"
        super().__init__(f"{name} {problem}\nthe end of its log ({log}):\n{tail(text, 15)}")


def tail(text: str, lines: int = 20) -> str:
    """Return the last lines of a text, for error messages."""
    return "\n".join(text.rstrip().splitlines()[-lines:])
