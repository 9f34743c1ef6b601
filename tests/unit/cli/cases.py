"""Facts for the tests: one fixed moment, jobs and clusters in a line each."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from scavenger_api.levels import LevelsView
from scavenger_api.times import format_micro_time, format_time
from scavenger_cli.facts import Facts
from scavenger_cli.objects import Job, Queue
from scavenger_cli.room import room_for
from scavenger_kube.kinds import Node, Pod
from scavenger_testing import builders

NOW = datetime(2026, 1, 5, 12, 0, 0, tzinfo=UTC)
USAGE = {
    "podSeconds": 5 * 3600,
    "runs": 1,
    "cpu": {"requested": "4", "p50": "700m", "p95": "900m", "max": "1100m", "typical": "1100m"},
    "memory": {"requested": "8Gi", "p50": "1Gi", "p95": "2Gi", "max": "2Gi", "typical": "2Gi"},
}
"""What a pod of a job uses of 4 cores and 8 GiB."""


def ago(seconds: float) -> str:
    """A time that many seconds before NOW."""
    return format_time(NOW - timedelta(seconds=seconds))


def queued(seconds: float) -> str:
    """The same to the microsecond."""
    return format_micro_time(NOW - timedelta(seconds=seconds))


def job(
    name: str = "sim", phase: str | None = "Waiting", *, status: dict[str, Any] | None = None, **fields: Any
) -> Job:
    """A job that has been in line for five minutes. fields: as for `builders.scavengerjob_dict`."""
    found = {"queuedTimestamp": queued(300), **(status or {})}
    fields.setdefault("created", ago(600))
    made = builders.scavengerjob_dict(name, phase=phase, status=found if phase else None, **fields)
    return msgspec.convert(made, Job)


def queue(name: str = "night", *, status: dict[str, Any] | None = None, **spec: Any) -> Queue:
    """A queue. spec: its weight, quota, closed."""
    meta = builders.metadata(name, namespace=None, created=ago(3600))
    return msgspec.convert({"metadata": meta, "spec": spec, "status": status or {}}, Queue)


def levels(**changes: str) -> LevelsView:
    """Published 10 s ago: cpu load 50 %, admission 80 %."""
    data = {
        "state": "Filling",
        "admit": "true",
        "preemptiblePercentage": "33",
        "reserve": "20",
        "observedAt": ago(10),
        "periodSeconds": "15",
        **{f"{name}.cpu": value for name, value in _LEVELS.items()},
        **{key.replace("_", "."): value for key, value in changes.items()},
    }
    return LevelsView.of(data, NOW)


_LEVELS = {"load": "50", "mean": "40", "stdev": "5", "lower": "75", "admission": "80", "upper": "88"}
NO_REGULATOR = LevelsView.of(None, NOW)


def nodes(count: int = 3, **fields: Any) -> list[Node]:
    """Nodes of 8 cpu, 32Gi."""
    return [builders.node(f"node-{i}", **fields) for i in range(1, count + 1)]


def facts(
    subject: Job | None = None, *, cluster: list[Node] | None = None, others: list[Pod] | None = None, **known: Any
) -> Facts:
    """Everything readable, an empty cluster of three nodes with an admitter, unless told otherwise.

    cluster, others: its nodes, and the pods on them.
    """
    subject = subject or job()
    view = known.setdefault("levels", levels())
    closed, since = (view.closed_nodes, view.unseen_since) if view is not None else (frozenset(), None)
    headroom = view.headroom if view is not None else {}
    room = room_for(subject.spec, nodes() if cluster is None else cluster, others or [], closed, since, headroom)
    defaults: dict[str, Any] = {
        "queues": (queue("default", weight=1),),
        "line": (1, 1),
        "room": room,
        "admitter_seen": NOW - timedelta(seconds=2),
        "admitter_known": True,
    }
    return Facts(subject, NOW, **{**defaults, **known})
