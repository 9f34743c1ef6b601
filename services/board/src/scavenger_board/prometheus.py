"""Prometheus, asked about moments that are over."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Coroutine, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeVar

import aiohttp
from msgspec.structs import replace
from scavenger_runtime.logging import get_logger

from scavenger_board.core.history import MOST_POINTS, LoadRow
from scavenger_board.core.past import Recorded
from scavenger_board.core.recorded import (
    MOMENT,
    SPAN,
    AnswerError,
    load_row,
    read_matrix,
    read_vector,
    recorded,
)
from scavenger_board.settings import BoardSettings

MAX_QUESTIONS: Final = 4
"""Under way at once, of all clients."""

MIN_STEP: Final = 10.0
"""Seconds between two points: a regulator measures no more often."""

MAX_ANSWER: Final = 16 * 2**20
"""Bytes."""

log = get_logger(__name__)

T = TypeVar("T")


class Prometheus:
    """Asks over HTTP. What goes wrong is said in the answer: a page that shows the rest is better than none."""

    def __init__(self, settings: BoardSettings) -> None:
        self._url = settings.prometheus_url.rstrip("/")
        self._timeout = settings.prometheus_timeout
        self._token_file = settings.prometheus_token_file
        authority = settings.prometheus_ca_file
        self._ssl = ssl.create_default_context(cafile=authority) if authority else True
        self._session: aiohttp.ClientSession | None = None
        self._places = asyncio.Semaphore(MAX_QUESTIONS)

    async def at(self, moment: datetime) -> Recorded:
        """What it says of a moment."""
        stamp = {"time": f"{moment.timestamp():.3f}"}
        names = list(MOMENT)
        try:
            asked = [self._ask("query", {"query": MOMENT[name], **stamp}, read_vector) for name in names]
            answers = await self._within(*asked)
        except AnswerError as error:
            return Recorded(problem=str(error))
        return recorded(dict(zip(names, answers, strict=True)), moment)

    async def load(self, start: datetime, end: datetime) -> LoadRow:
        """Load and levels over a span."""
        step = max(MIN_STEP, (end - start).total_seconds() / MOST_POINTS)
        span = {"start": f"{start.timestamp():.3f}", "end": f"{end.timestamp():.3f}", "step": f"{step:.3f}"}
        try:
            asked = [self._ask("query_range", {"query": query, **span}, read_matrix) for query in SPAN]
            answers = await self._within(*asked)
        except AnswerError as error:
            return replace(load_row([[]] * len(SPAN), start, end), problem=str(error))
        return load_row(answers, start, end)

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def _within(self, *asked: Coroutine[Any, Any, T]) -> list[T]:
        """All answers. Raises AnswerError."""
        try:
            async with asyncio.timeout(self._timeout):
                return await asyncio.gather(*asked)
        except TimeoutError:
            problem = f"it did not answer within {self._timeout:g} s (--prometheus-timeout)"
        except AnswerError as error:
            problem = str(error)
        except (aiohttp.ClientError, OSError) as error:
            problem = f"it cannot be reached: {error}"
        log.warning("Prometheus says nothing", problem=problem)
        raise AnswerError(problem)

    async def _ask(self, path: str, form: Mapping[str, str], read: Callable[[bytes], T]) -> T:
        headers = {}
        if self._token_file:  # read again each time, as it may rotate
            token = await asyncio.to_thread(Path(self._token_file).read_text)
            headers["Authorization"] = f"Bearer {token.strip()}"
        if self._session is None:
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=self._ssl))
        url = f"{self._url}/api/v1/{path}"
        async with self._places, self._session.post(url, data=form, headers=headers) as answer:
            body = bytearray()
            async for part in answer.content.iter_any():
                body += part
                if len(body) > MAX_ANSWER:
                    raise AnswerError(f"its answer is longer than {MAX_ANSWER // 2**20} MiB")
            if answer.status >= 400 and not body.startswith(b"{"):
                raise AnswerError(f"it answered with status {answer.status}")
        return read(bytes(body))
