"""Which member of the gang this process is, and what its members know together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from scavenger_checkpoint import Place

from scavenger_mpi.channel import LEAST_SECRET

ENV_SECRET = "SCAVENGER_MPI_SECRET"
"""The file with the secret of the job; of a mounted Secret."""
ENV_PORT = "SCAVENGER_MPI_PORT"
"""The TCP port of the agents."""
DEFAULT_SECRET = "/secrets/mpi/key"
DEFAULT_PORT = 2222


class MemberError(Exception):
    """The job is not set up as it must be."""


@dataclass(frozen=True)
class Member:
    """A member of a gang."""

    place: Place
    port: int
    secret: bytes

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Member:
        """Read it from the environment. A gang of one needs no secret. Raises MemberError."""
        place = Place.read(environment)
        port = int(environment.get(ENV_PORT) or DEFAULT_PORT)
        if place.parallelism == 1:
            return cls(place, port, b"")
        if len(place.peers) != place.parallelism:
            raise MemberError(f"SCAVENGER_PEERS names {len(place.peers)} of {place.parallelism} members")
        file = Path(environment.get(ENV_SECRET) or DEFAULT_SECRET)
        try:
            secret = file.read_bytes().strip()
        except OSError as error:
            raise MemberError(f"no secret in {file} ({error.strerror}): mount the Secret of the job there") from error
        if len(secret) < LEAST_SECRET:
            raise MemberError(f"the secret in {file} has {len(secret)} bytes; {LEAST_SECRET} are the least")
        return cls(place, port, secret)

    def gang(self, index: int) -> str:
        """What a caller and the agent of that index agree on: members, which of them, and which start of the job.

        Whoever is left of an earlier start can neither call nor be called.
        """
        return f"{','.join(self.place.peers)}\n{index}\n{self.place.restarts}"


def hostfile(peers: tuple[str, ...], slots: int) -> str:
    """Open MPI's list of hosts, each with so many ranks."""
    return "".join(f"{peer} slots={slots}\n" for peer in peers)
