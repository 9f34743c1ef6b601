"""Process 1 of each pod: `python3 -m scavenger_mpi [--slots N] -- PROGRAM`. The first pod launches, the others obey."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from scavenger_checkpoint import StopRequest

from scavenger_mpi.agent import Agent
from scavenger_mpi.launcher import Launcher
from scavenger_mpi.log import say
from scavenger_mpi.member import DEFAULT_PORT, DEFAULT_SECRET, ENV_PORT, ENV_SECRET, Member, MemberError

EXIT_USAGE = 2


def main(words: Sequence[str] | None = None) -> int:
    """Be the launcher or an agent, as the place in the gang says; the exit code."""
    parser = argparse.ArgumentParser(
        prog="scavenger_mpi",
        description=__doc__,
        epilog=f"The secret of the job is in the file {ENV_SECRET} ({DEFAULT_SECRET}), the port of the agents in "
        f"{ENV_PORT} ({DEFAULT_PORT}).",
    )
    parser.add_argument("--slots", type=int, default=1, metavar="N", help="ranks in each pod (1)")
    parser.add_argument("--patience", type=float, default=1800.0, metavar="S", help="seconds to wait for agents (1800)")
    parser.add_argument("--bind", default="", metavar="ADDRESS", help="where an agent listens (all addresses)")
    parser.add_argument("program", nargs="+", metavar="PROGRAM", help="the MPI program and its arguments, after --")
    options = parser.parse_args(words)
    stop = StopRequest()
    try:
        member = Member.read(os.environ)
        if member.place.index == 0:
            return Launcher(member, options.slots, options.patience, stop).execute(options.program)
        return Agent(member, options.bind, stop).execute()
    except (MemberError, ValueError, OSError) as error:
        say(f"error: {error}")
        return EXIT_USAGE


if __name__ == "__main__":
    sys.exit(main())
