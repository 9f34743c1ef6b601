"""A PostgreSQL 15 of the test's own: on a socket in a folder of its own, as a user that is not root, without a network.

It cannot be disturbed by one that runs on the machine, and disturbs none.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scavenger_cluster.requirements import install

BINARIES = Path("/usr/lib/postgresql/15/bin")
PACKAGE = "postgresql-15"
USER = "nobody"
"""Whom it runs as where the tests are root, as which PostgreSQL refuses to run."""

SERVER_OPTIONS = {
    "listen_addresses": "",
    "max_connections": "60",
    "shared_buffers": "16MB",
    "dynamic_shared_memory_type": "mmap",
    "fsync": "off",  # what a killed process has written is in the kernel: only a machine that dies loses it
    "autovacuum": "off",
}


def install_postgresql() -> None:
    """Install the Debian package where it is missing; MissingRequirementError without the right to."""
    if not (BINARIES / "postgres").exists():
        install([PACKAGE], lambda line: None, allowed=True)


_LIMIT = 120
"""Seconds that a server has to start or stop; pg_ctl itself would wait for half of that."""


@contextmanager
def serving() -> Iterator[Postgres]:
    """One that serves, and goes afterwards; MissingRequirementError where it cannot be installed."""
    install_postgresql()
    server = Postgres()
    try:
        server.start()
        yield server
    finally:
        server.stop()


class Postgres:
    """A server: `start`, `restart`, `stop`. url: of its one database, as the one user there is."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tuner-pg-", dir="/tmp"))
        self._data = self.folder / "data"
        self._root = os.geteuid() == 0
        self._user = pwd.getpwnam(USER)
        if self._root:
            os.chown(self.folder, self._user.pw_uid, self._user.pw_gid)
        self.url = f"postgresql://tuner@/tuner?host={self.folder}"

    def start(self) -> None:
        """Make the database, and serve it; returns once it answers."""
        self._run("initdb", "--username=tuner", "--auth=trust", "--no-sync", "--encoding=UTF8", "--no-locale")
        options = "".join(f"{name} = '{value}'\n" for name, value in SERVER_OPTIONS.items())
        with (self._data / "postgresql.conf").open("a") as file:
            file.write(f"{options}unix_socket_directories = '{self.folder}'\n")
        self._run("pg_ctl", "start", "--wait", f"--log={self.folder / 'log'}")
        self._run("createdb", f"--host={self.folder}", "--username=tuner", "tuner", data=False)

    def restart(self) -> None:
        """As after a crash: nothing is finished, and all connections are cut; returns once it answers."""
        self._run("pg_ctl", "restart", "--wait", "--mode=immediate", f"--log={self.folder / 'log'}")

    def stop(self) -> None:
        """End it, and leave nothing behind."""
        try:
            if (self._data / "postmaster.pid").exists():
                self._run("pg_ctl", "stop", "--wait", "--mode=immediate")
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def database(self, name: str) -> str:
        """One more database, empty; its URL."""
        self._run("createdb", f"--host={self.folder}", "--username=tuner", name, data=False)
        return self.url.replace("/tuner?", f"/{name}?")

    def _run(self, program: str, *words: str, data: bool = True) -> None:
        # What pg_ctl leaves running would hold a pipe open for ever.
        stays = program == "pg_ctl"
        done = subprocess.run(
            [str(BINARIES / program), *([f"--pgdata={self._data}"] if data else []), *words],
            cwd=self.folder,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "PGCTLTIMEOUT": f"{_LIMIT:g}"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL if stays else subprocess.PIPE,
            text=True,
            timeout=2 * _LIMIT,
            check=False,
            user=self._user.pw_uid if self._root else None,
            group=self._user.pw_gid if self._root else None,
            extra_groups=[] if self._root else None,
        )
        log = self.folder / "log"
        assert done.returncode == 0, f"{program}: {done.stderr}{log.read_text() if log.exists() else ''}"
