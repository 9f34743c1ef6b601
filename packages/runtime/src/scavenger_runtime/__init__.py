"""Informer, work queue, election, probes, settings and logging for Kubernetes services on asyncio.

Importing the package is cheap: what needs asyncio, aiohttp, pydantic or structlog is loaded when it is first asked for
(PEP 562), and kubernetes_asyncio (2 s and 95 MB) only by `ApiClient.connect`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from scavenger_runtime.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)

if TYPE_CHECKING:
    from scavenger_runtime.background import BackgroundTasks
    from scavenger_runtime.clock import Clock, SystemClock
    from scavenger_runtime.election import Elector, LeadershipLost
    from scavenger_runtime.events import EventRecorder
    from scavenger_runtime.informer import Change, Informer, ModelDecoder, StructDecoder
    from scavenger_runtime.logging import configure_logging, get_logger
    from scavenger_runtime.probes import ProbeServer
    from scavenger_runtime.queue import LOW_PRIORITY, PriorityQueue, ShutDown
    from scavenger_runtime.reconcile import ReconcileLoop, Result
    from scavenger_runtime.resources import Resource
    from scavenger_runtime.service import ServiceContext, run_service
    from scavenger_runtime.settings import ServiceSettings
    from scavenger_runtime.transport import ApiClient

_LAZY = {
    "LOW_PRIORITY": "queue",
    "ApiClient": "transport",
    "BackgroundTasks": "background",
    "Change": "informer",
    "Clock": "clock",
    "Elector": "election",
    "EventRecorder": "events",
    "Informer": "informer",
    "LeadershipLost": "election",
    "ModelDecoder": "informer",
    "PriorityQueue": "queue",
    "ProbeServer": "probes",
    "ReconcileLoop": "reconcile",
    "Resource": "resources",
    "Result": "reconcile",
    "ServiceContext": "service",
    "ServiceSettings": "settings",
    "ShutDown": "queue",
    "StructDecoder": "informer",
    "SystemClock": "clock",
    "configure_logging": "logging",
    "get_logger": "logging",
    "run_service": "service",
}

__all__ = [
    "LOW_PRIORITY",
    "AlreadyExists",
    "ApiClient",
    "ApiError",
    "BackgroundTasks",
    "Change",
    "Clock",
    "Conflict",
    "Elector",
    "EventRecorder",
    "Forbidden",
    "Gone",
    "Informer",
    "Invalid",
    "LeadershipLost",
    "ModelDecoder",
    "NotFound",
    "PriorityQueue",
    "ProbeServer",
    "ReconcileLoop",
    "Resource",
    "Result",
    "ServiceContext",
    "ServiceSettings",
    "ShutDown",
    "StructDecoder",
    "SystemClock",
    "TooManyRequests",
    "Unauthorized",
    "Unavailable",
    "configure_logging",
    "get_logger",
    "run_service",
]


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value
