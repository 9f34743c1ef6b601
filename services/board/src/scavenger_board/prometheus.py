"""Prometheus, asked about moments that are over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from datetime import datetime
from typing import Any, Final, TypeVar

from msgspec.structs import replace
from scavenger_runtime.logging import get_logger
from scavenger_runtime.prometheus import PrometheusClient, PrometheusError

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
        self._client = PrometheusClient(
            settings.prometheus_url,
            timeout=settings.prometheus_timeout,
            token_file=settings.prometheus_token_file,
            ca_file=settings.prometheus_ca_file,
        )
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
        await self._client.close()

    async def _within(self, *asked: Coroutine[Any, Any, T]) -> list[T]:
        """All answers. Raises AnswerError."""
        try:
            return await self._client.together(*asked)
        except (AnswerError, PrometheusError) as error:
            log.warning("Prometheus says nothing", problem=str(error))
            raise AnswerError(str(error)) from error

    async def _ask(self, path: str, form: Mapping[str, str], read: Callable[[bytes], T]) -> T:
        async with self._places:
            body = await self._client.request(path, form, MAX_ANSWER)
        return read(body)
