"""Informer, work queue, election, probes, settings and logging for Kubernetes services on asyncio.

Importing the package is cheap: what needs asyncio, aiohttp, pydantic or structlog is loaded when it is first asked for
(PEP 562).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scavenger_runtime.background import BackgroundTasks
    from scavenger_runtime.clock import Clock, SystemClock
    from scavenger_runtime.election import Elector, LeadershipLost
    from scavenger_runtime.events import EventRecorder
    from scavenger_runtime.informer import Change, Informer
    from scavenger_runtime.logging import configure_logging, get_logger
    from scavenger_runtime.probes import ProbeServer
    from scavenger_runtime.queue import LOW_PRIORITY, PriorityQueue, ShutDown
    from scavenger_runtime.reconcile import ReconcileLoop, Result
    from scavenger_runtime.service import ServiceContext, run_service
    from scavenger_runtime.settings import ServiceSettings

_LAZY = {
    "LOW_PRIORITY": "queue",
    "BackgroundTasks": "background",
    "Change": "informer",
    "Clock": "clock",
    "Elector": "election",
    "EventRecorder": "events",
    "Informer": "informer",
    "LeadershipLost": "election",
    "PriorityQueue": "queue",
    "ProbeServer": "probes",
    "ReconcileLoop": "reconcile",
    "Result": "reconcile",
    "ServiceContext": "service",
    "ServiceSettings": "settings",
    "ShutDown": "queue",
    "SystemClock": "clock",
    "configure_logging": "logging",
    "get_logger": "logging",
    "run_service": "service",
}

__all__ = [
    "LOW_PRIORITY",
    "BackgroundTasks",
    "Change",
    "Clock",
    "Elector",
    "EventRecorder",
    "Informer",
    "LeadershipLost",
    "PriorityQueue",
    "ProbeServer",
    "ReconcileLoop",
    "Result",
    "ServiceContext",
    "ServiceSettings",
    "ShutDown",
    "SystemClock",
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
