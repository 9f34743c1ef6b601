"""What mpirun calls in the place of ssh: `HOST COMMAND`, of which only Open MPI's daemon is ever started."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import PurePath

from scavenger_mpi.agent import DAEMON, EXIT_NO_DAEMON
from scavenger_mpi.channel import ChannelError, call
from scavenger_mpi.member import Member, MemberError

EXIT_USAGE = 2
EXIT_LOST = 255
"""As ssh ends when it cannot get through."""
_TIMEOUT = 30.0


def daemon_arguments(words: Sequence[str]) -> list[str]:
    """The arguments of the daemon in a command that is meant for a shell, and may set variables before it.

    For users whose shell is sh, mpirun has it read their profile first, and all of that in parentheses. Raises
    ValueError where it starts something else.
    """
    parsed = shlex.split(" ".join(words))
    if parsed[:1] == ["("] and parsed[-1] == ")":
        parsed = parsed[1:-1]
    for number, word in enumerate(parsed):
        if PurePath(word).name == DAEMON:
            return parsed[number + 1 :]
    raise ValueError(f"only {DAEMON} is started here, and not: {' '.join(words)}")


def main(words: Sequence[str]) -> int:
    """Have the daemon started there, and wait for its end; the exit code."""
    try:
        member = Member.read(os.environ)
        host, arguments = words[0], daemon_arguments(words[1:])
        index = member.place.peers.index(host)
    except (MemberError, IndexError, ValueError) as error:
        sys.stderr.write(f"error: {error}\n")
        return EXIT_USAGE
    try:
        channel = call(host, member.port, member.secret, member.gang(index), _TIMEOUT)
        channel.send({"verb": "daemon", "arguments": arguments})
        answer = channel.receive()
        if "refused" in answer:
            sys.stderr.write(f"error: {host}: {answer['refused']}\n")
            return EXIT_NO_DAEMON
        channel.wait_for_ever()
        code = int(channel.receive()["code"])
    except ChannelError as error:
        sys.stderr.write(f"error: {host}: {error}\n")
        return EXIT_LOST
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
