"""Messages between the members of one gang, each of which proves that its sender knows the secret of the job.

A connection begins with a random number from either side. What follows are lines, a code and a message in JSON. The
code is an HMAC-SHA256 of the secret over the gang, both numbers, the direction, the place in the conversation and the
message: none can be made up, changed, left out, repeated in another conversation, or sent back to who wrote it. The
messages can be read on the way; there is nothing secret in them.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import socket
from typing import Any, Final

Message = dict[str, Any]

_LONGEST: Final = 256 * 1024
"""Bytes of a line. The command line of a daemon has a few kilobytes."""
LEAST_SECRET: Final = 16
"""Bytes of a secret, at least."""


class ChannelError(Exception):
    """The other side is gone, says what is no message, or does not know the secret."""


class Channel:
    """One side of one connection."""

    def __init__(self, connection: socket.socket, secret: bytes, gang: str, *, calling: bool) -> None:
        """Exchange the random numbers. `gang`: what both sides must agree on. Raises ChannelError."""
        self._connection = connection
        self._file = connection.makefile("rb")
        self._secret = secret
        self._calling = calling
        self._sent = 0
        self._received = 0
        own = secrets.token_hex(32)
        try:
            connection.sendall(f"{own}\n".encode())
            other = self._line()
        except (OSError, ChannelError) as error:
            self.close()
            raise ChannelError(str(error)) from error
        numbers = (own, other) if calling else (other, own)
        self._conversation = "\n".join((gang, *numbers))

    def send(self, message: Message) -> None:
        """Raises ChannelError."""
        text = json.dumps(message)
        code = self._code(self._calling, self._sent, text)
        self._sent += 1
        try:
            self._connection.sendall(f"{code} {text}\n".encode())
        except OSError as error:
            raise ChannelError(str(error)) from error

    def receive(self) -> Message:
        """The next message. Raises ChannelError, after as long as the connection waits."""
        code, _, text = self._line().partition(" ")
        if not hmac.compare_digest(code.encode(), self._code(not self._calling, self._received, text).encode()):
            raise ChannelError("the other side does not know the secret, or is of another gang or run")
        self._received += 1
        found: Message = json.loads(text)
        return found

    def wait_for_ever(self) -> None:
        """From now on `receive` waits until there is a message, or the connection ends."""
        self._connection.settimeout(None)

    def close(self) -> None:
        """End the conversation."""
        self._file.close()
        self._connection.close()

    def _line(self) -> str:
        try:
            line = self._file.readline(_LONGEST)
            if not line.endswith(b"\n"):
                raise ChannelError("the connection was closed" if len(line) < _LONGEST else "too long a message")
            return line[:-1].decode("ascii")
        except (OSError, UnicodeDecodeError) as error:
            raise ChannelError(str(error)) from error

    def _code(self, from_caller: bool, number: int, text: str) -> str:
        whole = f"{self._conversation}\n{'caller' if from_caller else 'agent'}\n{number}\n{text}"
        return hmac.new(self._secret, whole.encode(), hashlib.sha256).hexdigest()


def call(host: str, port: int, secret: bytes, gang: str, timeout: float) -> Channel:
    """Call an agent; `timeout`: seconds to wait for a connection, and for its first number. Raises ChannelError."""
    try:
        connection = socket.create_connection((host, port), timeout)
    except OSError as error:
        raise ChannelError(str(error)) from error
    return Channel(connection, secret, gang, calling=True)
