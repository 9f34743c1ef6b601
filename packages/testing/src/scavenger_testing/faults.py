"""What goes wrong, on command, with the requests to the API server in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from scavenger_testing.answers import Answer, Cut, Request, refused
from scavenger_testing.store import Refusal

WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


@dataclass(slots=True)
class Fault:
    """What goes wrong with the next `times` requests it fits. status None: the connection is dropped (drop) or never
    answered (hang), or the request is handled late (delay)."""

    action: Literal["fail", "drop", "hang", "delay", "drop_after"]
    times: int
    methods: frozenset[str]
    path: str
    status: int = 0
    reason: str = ""
    retry_after: float | None = None
    seconds: float = 0.0
    body: bytes | None = None

    def fits(self, request: Request) -> bool:
        """Whether it is meant for this request."""
        return self.times > 0 and request.method in self.methods and self.path in request.target


class Faults:
    """The faults that are still to come, in the order in which they were asked for."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self._hanging = asyncio.Event()

    def __iter__(self) -> Iterator[Fault]:
        return iter(self._faults)

    def add(self, fault: Fault) -> None:
        """Have it befall the next requests that it fits."""
        self._faults.append(fault)

    def take(self, request: Request) -> Fault | None:
        """The first fault that is meant for this request, counted as used."""
        fault = next((fault for fault in self._faults if fault.fits(request)), None)
        if fault is not None:
            fault.times -= 1
        return fault

    def heal(self) -> None:
        """Forget all of them, and let go of what hangs."""
        self._faults.clear()
        self.release()
        self._hanging = asyncio.Event()

    def release(self) -> None:
        """Let go of what hangs, now and from now on."""
        self._hanging.set()

    async def befall(self, fault: Fault) -> Answer | None:
        """Have a fault befall a request that has not been handled; None where it is to be handled all the same. Raises
        Cut."""
        if fault.action == "fail":
            refusal = Refusal(fault.status, fault.reason, f"injected: {fault.status} {fault.reason}")
            return refused(refusal, fault.retry_after, fault.body)
        if fault.action == "delay":
            await asyncio.sleep(fault.seconds)
        if fault.action == "hang":
            await self._hanging.wait()
        if fault.action in ("hang", "drop"):
            raise Cut
        return None
