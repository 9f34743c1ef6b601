"""The members of a training: how they find each other, and what they tell each other. One that is alone is a gang, too.

The backend is gloo, over TCP. Index 0 is the one that the others call.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, Final

import torch
from scavenger_checkpoint import Place, StopRequest
from torch import distributed

_SILENCE: Final = timedelta(seconds=60)
"""A member that says nothing for so long in the middle of a step is lost: its node may be gone without a word."""
_RETRY: Final = 0.1
_ANSWER: Final = 2.0


class StoppedError(Exception):
    """Told to end while waiting for the others."""


class AbsentError(Exception):
    """The others have not come."""


class LostError(Exception):
    """Another member was there and is gone."""


class Gang:
    """A member's view of the gang."""

    def __init__(self, index: int, size: int) -> None:
        """A gang of more than one has been joined before."""
        self.index = index
        self.size = size

    def sum(self, vector: torch.Tensor) -> torch.Tensor:
        """The sum over all members, the same bits for each; `vector` may be overwritten. Raises LostError."""
        if self.size > 1:
            with _lost():
                distributed.all_reduce(vector)
        return vector

    def gather(self, vector: torch.Tensor) -> list[torch.Tensor]:
        """The vectors of all members in the order of their indexes; they have the same size. Raises LostError."""
        if self.size == 1:
            return [vector]
        found = [torch.empty_like(vector) for _ in range(self.size)]
        with _lost():
            distributed.all_gather(found, vector)
        return found

    def from_first(self, content: bytes) -> bytes:
        """What index 0 has given here; that of the others counts for nothing. Raises LostError."""
        if self.size == 1:
            return content
        length = torch.tensor([len(content)])
        with _lost():
            distributed.broadcast(length, 0)
            buffer = torch.zeros(int(length), dtype=torch.uint8)
            if self.index == 0:
                buffer = torch.frombuffer(bytearray(content), dtype=torch.uint8) if content else buffer
            distributed.broadcast(buffer, 0)
        return bytes(buffer.numpy().tobytes())


def join(place: Place, port: int, patience: float, stop: StopRequest, say: Callable[[str], None]) -> Gang:
    """Find the other members. Raises StoppedError, LostError, and AbsentError after `patience` seconds without them.

    It waits here and not in torch, which would not hear a signal before the others are there.
    """
    if place.parallelism == 1:
        return Gang(0, 1)
    waits = _waits(patience, stop)
    # Its own name is in the DNS a moment later than the process is there.
    host = "localhost" if place.index == 0 else place.peers[0]
    if place.index > 0:
        say(f"looking for {host}:{port}")
        while not _answers(host, port):
            next(waits)
    with _lost():
        store = distributed.TCPStore(
            host, port, None, place.index == 0, timedelta(seconds=patience), wait_for_workers=False
        )
        store.add("here", 1)
        while store.add("here", 0) < place.parallelism:
            next(waits)
        distributed.init_process_group(
            "gloo", store=store, rank=place.index, world_size=place.parallelism, timeout=_SILENCE
        )
    return Gang(place.index, place.parallelism)


def _waits(patience: float, stop: StopRequest) -> Iterator[Any]:
    """Each `next` is a short sleep, as long as there is patience."""
    for _ in range(max(1, int(patience / _RETRY))):
        if stop.wait(_RETRY):
            raise StoppedError
        yield
    raise AbsentError(f"not all members were there within {patience:g} s: may they reach each other?")


def _answers(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), _ANSWER):
            return True
    except OSError:  # no such name yet, or nobody there yet
        return False


@contextlib.contextmanager
def _lost() -> Iterator[None]:
    """What gloo and its store say in many words: the other side is gone."""
    try:
        yield
    except RuntimeError as error:
        raise LostError(" ".join(str(error).split())) from error
