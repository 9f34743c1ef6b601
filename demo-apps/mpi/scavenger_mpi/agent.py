"""Process 1 of every pod but the first: starts Open MPI's daemon when the launcher of its gang says so, and no more."""

from __future__ import annotations

import os
import select
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from contextlib import closing, suppress
from typing import Final

from scavenger_checkpoint import EXIT_STOPPED, StopRequest

from scavenger_mpi.channel import Channel, ChannelError, Message
from scavenger_mpi.log import say
from scavenger_mpi.member import Member
from scavenger_mpi.processes import Farewell, kill_below

DAEMON: Final = "orted"
EXIT_NO_DAEMON: Final = 127
_TURN: Final = 0.1
_SILENCE: Final = 10.0
"""Seconds in which a caller has to prove that it knows the secret."""
_CALLERS: Final = 16
"""At a time; nobody who knows no secret can use up more than that."""
_FAREWELL: Final = 5.0
"""Seconds that an agent which was told to end waits for the verdict of the launcher, after its ranks have ended."""


class Agent:
    """One agent, from its start to its end."""

    def __init__(self, member: Member, bind: str, stop: StopRequest) -> None:
        """`bind`: the address to listen on, "" for all. Raises OSError where it cannot listen."""
        self._member = member
        self._stop = stop
        self._gang = member.gang(member.place.index)
        self._callers = threading.BoundedSemaphore(_CALLERS)
        self._lock = threading.Lock()
        self._begun = False
        self._daemon: subprocess.Popen[bytes] | None = None
        self._verdict: int | None = None
        self._server = socket.create_server((bind, member.port))

    def execute(self) -> int:
        """Serve until the launcher says how it all ended, or until told to end; the exit code."""
        threading.Thread(target=self._accept, daemon=True).start()
        say(f"agent {self._member.place.index} of {self._member.place.parallelism} waits for the launcher")
        farewell = Farewell(os.getpid())
        left: float | None = None
        while self._verdict is None:
            if self._stop:
                if self._running():
                    farewell.send()
                elif left is None:
                    left = time.monotonic()
                elif not self._begun or time.monotonic() - left > _FAREWELL:
                    say("told to end")
                    return EXIT_STOPPED
                time.sleep(_TURN)
            else:
                self._stop.wait(_TURN)
        say(f"the launcher says that all ended with {self._verdict}")
        return self._verdict

    def _running(self) -> bool:
        daemon = self._daemon
        return daemon is not None and daemon.poll() is None

    def _accept(self) -> None:
        while True:
            connection, _ = self._server.accept()
            if not self._callers.acquire(blocking=False):
                connection.close()
                continue
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        # A time-out of the connection would begin anew with each byte.
        proof = threading.Timer(_SILENCE, _hang_up, (connection,))
        proof.daemon = True
        proof.start()
        try:
            connection.settimeout(_SILENCE)
            with closing(Channel(connection, self._member.secret, self._gang, calling=False)) as channel:
                request = channel.receive()
                proof.cancel()
                self._obey(channel, connection, request)
        except ChannelError as error:
            say(f"a caller was turned away: {error}")
        finally:
            proof.cancel()
            connection.close()
            self._callers.release()

    def _obey(self, channel: Channel, connection: socket.socket, request: Message) -> None:
        """Three things can be asked for: whether it is there, the daemon, and the end."""
        verb = request.get("verb")
        if verb == "ready":
            channel.send({"stopping": bool(self._stop)})
        elif verb == "daemon":
            self._run(channel, connection, [str(word) for word in request.get("arguments", ())])
        elif verb == "end":
            channel.send({})
            self._verdict = int(request.get("code", EXIT_STOPPED))
        else:
            channel.send({"refused": f"{verb!r} is nothing that an agent does"})

    def _run(self, channel: Channel, connection: socket.socket, arguments: list[str]) -> None:
        """Start the daemon, once, and stay with it; it ends when its caller is gone."""
        with self._lock:
            first, self._begun = not self._begun, True
        program = shutil.which(DAEMON)
        if program is None:
            channel.send({"refused": f"there is no {DAEMON}"})
            return
        if not first or self._stop:
            channel.send({"refused": "told to end" if self._stop else "it was started before"})
            return
        with tempfile.TemporaryDirectory(prefix="sj-mpi-", ignore_cleanup_errors=True) as folder:
            # A folder of its own for its sockets: nobody else's daemon has the same.
            self._daemon = subprocess.Popen([program, *arguments], env={**os.environ, "TMPDIR": folder})
            say(f"{DAEMON} was started")
            channel.send({})
            while self._running():
                if select.select([connection], [], [], _TURN)[0]:
                    say("the launcher is gone")
                    kill_below(os.getpid())
                    self._daemon.wait()
            say(f"{DAEMON} ended with {self._daemon.returncode}")
            with suppress(ChannelError):
                channel.send({"code": self._daemon.returncode})
            kill_below(os.getpid())


def _hang_up(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
