"""Which ports are free, and who has the ones that are not."""

from __future__ import annotations

import contextlib
import os
import random
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from scavenger_cluster.errors import PortBusyError, WaitTimeoutError
from scavenger_cluster.waiting import wait_for

LISTEN = "0A"

RANGE: Final = range(10_000, 20_000)
"""Below those that kernels give to connections, and to whoever asks for any port; clusters have others (`plan`)."""


def is_free(address: str, port: int) -> bool:
    """Tell whether a server could listen on the port."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True


def any_free_port(address: str = "127.0.0.1") -> int:
    """Return a port that nobody listens on, and that no connection is given before it is used, or used again.

    A program may take seconds until it listens, and a service that is started again wants the port that it had. Raises
    OSError where all are taken.
    """
    for port in random.SystemRandom().sample(RANGE, len(RANGE)):
        if is_free(address, port):
            return port
    raise OSError(f"no port of {RANGE} is free on {address}")


def check_free(ports: Mapping[str, int], *, option: str, address: str = "0.0.0.0", patience: float = 1.0) -> None:
    """Raise PortBusyError for the first port that is taken, naming the option to change and the holder.

    A process that just died may hold a port for `patience` seconds more.
    """
    for component, port in ports.items():
        try:
            wait_for(f"port {port}", lambda port=port: is_free(address, port), timeout=patience)  # type: ignore[misc]
        except WaitTimeoutError:
            raise PortBusyError(
                f"port {port}, needed by {component}, is taken by {holder(port)}; "
                f"stop that, or choose other ports with {option}"
            ) from None


def holder(port: int) -> str:
    """Describe the process that listens on a port, as far as we may see it."""
    inodes = set(listening_inodes(port, _tables()))
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and inodes & _socket_inodes(process):
            with contextlib.suppress(OSError):  # gone meanwhile
                command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                return f"process {process.name} ({command[:80]})"
    return "another process (whose name only root may see)" if os.geteuid() else "an unknown process"


def listening_inodes(port: int, tables: Iterable[str]) -> list[str]:
    """Return the socket inodes that listen on a port, from the text of /proc/net/tcp and tcp6."""
    found = []
    for table in tables:
        for line in table.splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                found.append(fields[9])
    return found


def _tables() -> list[str]:
    return [path.read_text() for path in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")) if path.exists()]


def _socket_inodes(process: Path) -> set[str]:
    found = set()
    with contextlib.suppress(OSError):
        for descriptor in (process / "fd").iterdir():
            with contextlib.suppress(OSError):
                target = str(descriptor.readlink())
                if target.startswith("socket:["):
                    found.add(target[8:-1])
    return found
