"""Process 1 of the first pod: waits for the agents of the others, runs mpirun, and tells all how it ended."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from scavenger_checkpoint import EXIT_SAVED, EXIT_STOPPED, StopRequest

from scavenger_mpi.channel import ChannelError, Message, call
from scavenger_mpi.log import say
from scavenger_mpi.member import Member, hostfile
from scavenger_mpi.processes import Farewell

EXIT_ABSENT: Final = 1
EXIT_NO_MPIRUN: Final = 127
_TURN: Final = 0.1
_ANSWER: Final = 5.0
_AT_ONCE: Final = 64
_BEREFT: Final = 5.0
"""Seconds: where another pod has failed, its end is to be the first that the job knows of."""


class Launcher:
    """One start of the program, on all members."""

    def __init__(self, member: Member, slots: int, patience: float, stop: StopRequest) -> None:
        """`slots`: ranks of each member. `patience`: seconds to wait for their agents."""
        self._member = member
        self._slots = slots
        self._patience = patience
        self._stop = stop
        self._others = range(1, member.place.parallelism)

    def execute(self, program: Sequence[str]) -> int:
        """Run it until it ends; the exit code."""
        began = time.monotonic()
        while absent := self._missing():
            if self._stop.wait(_TURN):
                say("told to end, and nothing was begun")
                return EXIT_STOPPED
            if time.monotonic() - began > self._patience:
                names = ", ".join(self._member.place.peers[index] for index in absent)
                say(f"error: no agent answers after {self._patience:g} s at {names}: may the pods reach each other?")
                return EXIT_ABSENT
        with tempfile.TemporaryDirectory(prefix="sj-mpi-", ignore_cleanup_errors=True) as folder:
            code = self._run(program, folder)
        return self._conclude(code)

    def command(self, program: Sequence[str], hosts: Path) -> list[str]:
        """The command line of mpirun. What else is to be set can be set by `OMPI_MCA_…` variables."""
        words = ["mpirun", "-np", str(self._slots * self._member.place.parallelism), "--bind-to", "none"]
        # Who waits lets others run: what the pod has of a core is not for spinning.
        words += ["--mca", "mpi_yield_when_idle", "1"]
        if self._others:
            words += ["--hostfile", str(hosts), "--leave-session-attached"]
            words += ["--mca", "plm", "rsh", "--mca", "plm_rsh_agent", f"{sys.executable} -m scavenger_mpi.client"]
            # Only the launcher calls. And names are told apart by more than what stands before the first dot.
            words += ["--mca", "plm_rsh_no_tree_spawn", "1", "--mca", "orte_keep_fqdn_hostnames", "1"]
        else:
            words += ["--oversubscribe"]
        return [*words, *program]

    def _run(self, program: Sequence[str], folder: str) -> int:
        hosts = Path(folder) / "hosts"
        # By the name that it knows itself by: mpirun looks for a daemon at every name that does not lead to its own
        # host, and a pod's own record in the DNS may come later than those of the others.
        hosts.write_text(hostfile((socket.gethostname(), *self._member.place.peers[1:]), self._slots))
        try:
            mpirun = subprocess.Popen(self.command(program, hosts), env={**os.environ, "TMPDIR": folder})
        except OSError as error:
            say(f"error: mpirun cannot be started ({error}); on Debian: apt-get install openmpi-bin")
            return EXIT_NO_MPIRUN
        say(f"mpirun was started with {self._slots * self._member.place.parallelism} ranks")
        farewell = Farewell(mpirun.pid)
        while mpirun.poll() is None:
            if self._stop:
                farewell.send()  # not to mpirun, which would give its ranks a second
                time.sleep(_TURN)
            else:
                self._stop.wait(_TURN)
        code = mpirun.returncode
        say(f"mpirun ended with {code}")
        return code if code >= 0 else 128 - code

    def _conclude(self, code: int) -> int:
        """What this pod ends with, and all others as well."""
        if code not in (0, EXIT_SAVED) and not self._stop and self._missing():
            say("a member is gone: this is no failure of the program, which goes on from its last checkpoint")
            self._stop.wait(_BEREFT)
            code = EXIT_SAVED
        # Each of them, whoever else was told.
        told = self._ask_all({"verb": "end", "code": code})
        if code == 0 and None in told.values():
            say("all is done, and not all members could be told: the next start will tell them")
            return EXIT_SAVED
        return code

    def _missing(self) -> list[int]:
        """The members whose agent does not answer, or was told to end."""
        answers = self._ask_all({"verb": "ready"})
        return [index for index, answer in answers.items() if answer is None or answer.get("stopping")]

    def _ask_all(self, request: Message) -> dict[int, Message | None]:
        """The answers of all agents by index. At once: those of a lost node would take the time of the others."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return dict(zip(self._others, pool.map(lambda index: self._ask(index, request), self._others), strict=True))

    def _ask(self, index: int, request: Message) -> Message | None:
        """The answer of an agent; None where there is none."""
        member = self._member
        try:
            channel = call(member.place.peers[index], member.port, member.secret, member.gang(index), _ANSWER)
        except ChannelError:
            return None
        try:
            channel.send(request)
            return channel.receive()
        except ChannelError:
            return None
        finally:
            channel.close()
