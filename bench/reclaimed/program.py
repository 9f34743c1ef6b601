"""What the ordinary pods run: a small HTTP server that does as it is told. Nothing but the standard library.

GET /spin                                   a request of a service: SPIN_SECONDS of computing
GET /burn?seconds=3&processes=2             all the CPU there is; answers how much has been computed
GET /hold?mib=500&rate=40                   grow (or shrink) to so much memory, so many MiB a second
GET /load?url=…&rate=100&seconds=5&seed=1   call another one at random moments; answers the latencies in seconds
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import mmap
import os
import random
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any
from urllib.parse import parse_qsl, urlsplit

PORT = 8080
MIB = 1 << 20
SPIN_SECONDS = 0.003
PROCESSES = 2 * (os.cpu_count() or 1)
CHUNK = 1000


def compute(count: int) -> None:
    """A fixed amount of work: `count` chunks."""
    for _ in range(count):
        for _ in range(CHUNK):
            pass


def compute_for(seconds: float) -> int:
    """Compute for so long by the clock on the wall; returns the chunks done."""
    done, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        compute(1)
        done += 1
    return done


def chunks_of(seconds: float) -> int:
    """How many chunks take so long when nobody disturbs: the best of many tries."""
    best = 1.0
    for _ in range(50):
        began = time.perf_counter()
        compute(10)
        best = min(best, (time.perf_counter() - began) / 10)
    return max(1, round(seconds / best))


class Service:
    """The routes; one request is computed at a time, as in many a real service."""

    def __init__(self) -> None:
        # The processes exist before the first burst: a burst is to begin at once.
        self.pool = ProcessPoolExecutor(PROCESSES, mp_context=get_context("fork"))
        list(self.pool.map(compute, [10] * PROCESSES * 8))
        self.request = chunks_of(SPIN_SECONDS)
        self.held: list[mmap.mmap] = []
        self.routes: dict[str, Callable[..., Awaitable[Any]]] = {
            "/spin": self.spin,
            "/burn": self.burn,
            "/hold": self.hold,
            "/load": load,
        }

    async def spin(self) -> str:
        compute(self.request)
        return "done"

    async def burn(self, seconds: str, processes: str) -> int:
        loop = asyncio.get_running_loop()
        work = [loop.run_in_executor(self.pool, compute_for, float(seconds)) for _ in range(int(processes))]
        return sum(await asyncio.gather(*work))

    async def hold(self, mib: str, rate: str) -> int:
        """Pages are written to: what is only reserved is not used. Mappings of their own go back at once."""
        wanted, pause = int(mib), 10 / float(rate)
        while len(self.held) > wanted:
            self.held.pop().close()
        while len(self.held) < wanted:
            for _ in range(min(10, wanted - len(self.held))):
                block = mmap.mmap(-1, MIB)
                block.write(b"x" * MIB)
                self.held.append(block)
            await asyncio.sleep(pause)
        return len(self.held)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, kept until the other side closes it."""
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while head := (await reader.readuntil(b"\r\n\r\n")).decode():
                url = urlsplit(head.split()[1])
                answer = json.dumps(await self.routes[url.path](**dict(parse_qsl(url.query)))).encode()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(answer), answer))
                await writer.drain()
        writer.close()


async def load(url: str, rate: str, seconds: str, seed: str) -> list[float]:
    """Requests at random moments (exponential gaps), sent when they are due whether or not others wait.

    A latency counts from the moment the request was due, so that a stall is felt by all who would have come.
    """
    target, rng = urlsplit(url), random.Random(int(seed))
    idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
    head = f"GET {target.path} HTTP/1.1\r\nHost: {target.netloc}\r\n\r\n".encode()

    async def call(due: float) -> float:
        await asyncio.sleep(due - time.monotonic())
        reader, writer = idle.pop() if idle else await asyncio.open_connection(target.hostname, target.port)
        writer.write(head)
        await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(len(json.dumps("done")))
        idle.append((reader, writer))
        return time.monotonic() - due

    due, end = time.monotonic() + 0.1, time.monotonic() + 0.1 + float(seconds)
    calls = []
    while due < end:
        calls.append(asyncio.ensure_future(call(due)))
        due += rng.expovariate(float(rate))
    latencies = await asyncio.gather(*calls)
    for _, writer in idle:
        writer.close()
    return latencies


async def main() -> None:
    server = await asyncio.start_server(Service().serve, "0.0.0.0", PORT)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
