"""Structured logs: one JSON object a line, with time, level, service, logger and event, then what the line is
about.

The standard library's loggers (ours and the libraries') go the same way, so that a process speaks one language.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from datetime import datetime
from typing import Any, TextIO

import orjson
import structlog
from scavenger_domain.plain_text import CONTROLS, plain
from structlog.typing import Processor

LEVELS = ("debug", "info", "warning", "error")

NOISY = ("aiohttp.access", "asyncio", "client", "urllib3")
"""Library loggers that say little of use below WARNING."""


def configure_logging(service: str, *, level: str = "info", format: str = "json", stream: TextIO | None = None) -> None:
    """Send all logs of the process to `stream` (default: stderr) as JSON lines or, for a human, as `console`.

    level: debug, info, warning or error. Raises ValueError for any other.
    """
    if level not in LEVELS:
        raise ValueError(f"log level {level!r} is none of {', '.join(LEVELS)}")
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_formatter(service, format))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in NOISY:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    logging.captureWarnings(True)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_shared(service),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def get_logger(name: str = "scavenger", **context: Any) -> structlog.stdlib.BoundLogger:
    """A logger that writes `context` on each of its lines: `get_logger(__name__, job="ns/name")`."""
    logger: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name, **context)
    return logger


def _shared(service: str) -> list[Processor]:
    def add_service(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        event.setdefault("service", service)
        return event

    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        add_service,
        structlog.processors.StackInfoRenderer(),
    ]


def _formatter(service: str, format: str) -> logging.Formatter:
    last: list[Processor]
    if format == "json":
        last = [structlog.processors.format_exc_info, _order, structlog.processors.JSONRenderer(_dumps)]
    elif format == "console":
        last = [_plain, structlog.dev.ConsoleRenderer(timestamp_key="time", colors=sys.stderr.isatty())]
    else:
        raise ValueError(f"log format {format!r} is neither json nor console")
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[structlog.stdlib.PositionalArgumentsFormatter(), *_shared(service)],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
    )


def _order(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """What every line has comes first, so that lines can be read without a tool."""
    first = {key: event[key] for key in ("time", "level", "service", "logger", "event") if key in event}
    return first | {key: value for key, value in event.items() if key not in first}


def _plain(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """For a terminal, which obeys what strangers write."""
    return {key: plain(value) if isinstance(value, str) else value for key, value in event.items()}


def _dumps(event: Any, **_options: Any) -> str:
    return orjson.dumps(event, default=_as_text, option=orjson.OPT_NON_STR_KEYS).decode().translate(CONTROLS)


def _as_text(value: Any) -> Any:
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    return value.isoformat() if isinstance(value, datetime) else str(value)
