"""Facts for tests of pictures, and the moment they are of."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from scavenger_api import names
from scavenger_api.levels import LevelsState, PublishedLevels, ResourceLevels
from scavenger_api.reasons import InterruptionReason
from scavenger_board.core.now import picture_now
from scavenger_board.core.picture import Picture
from scavenger_board.core.snapshot import EventFacts, JobFacts, PodFacts, Snapshot
from scavenger_domain import interruptions
from scavenger_testing.clock import START

NOW = START
LEVELS_ABOUT = f"ConfigMap {names.SYSTEM_NAMESPACE}/{names.LEVELS_CONFIGMAP}"


def ago(**span: float) -> datetime:
    return NOW - timedelta(**span)


def job(name: str = "a", phase: str = "Waiting", **fields: Any) -> JobFacts:
    given = {"key": f"lab/{name}", "uid": f"uid-{name}", "queue": "lab", "created": ago(hours=5), **fields}
    return JobFacts(phase=phase, **given)


def pod(name: str, node: str = "n", job: str = "", **fields: Any) -> PodFacts:
    return PodFacts(f"lab/{name}", node, f"lab/{job}" if job else "", **fields)


def told(
    name: str, at: datetime, cause: InterruptionReason = InterruptionReason.PREEMPTED, lost: float = 60.0, **fields: Any
) -> EventFacts:
    """The admitter's Event about the interruption of a job."""
    sentence = interruptions.tell(
        cause, fields.pop("pod", f"{name}-0-abcde"), fields.pop("detail", ""), lost, at_most=False
    )
    return EventFacts(f"lab/{name}.1", at, f"ScavengerJob lab/{name}", f"uid-{name}", "Interrupted", sentence, **fields)


def victim(name: str, at: datetime, whom: str, reason: str = interruptions.PREEMPTED_BY) -> EventFacts:
    """The scheduler's Event on a pod of a job."""
    return EventFacts(f"lab/{name}.{reason}.{whom}", at, f"Pod lab/{name}-0-abcde", "", reason, "", f"Pod {whom}")


def published(
    cpu: float = 50.0, *, state: LevelsState = LevelsState.FILLING, admit: bool = True, age: float = 5.0, **fields: Any
) -> dict[str, str]:
    """data of the ConfigMap: cpu with levels 70, 80, 85, observed `age` seconds ago."""
    row = ResourceLevels(
        cpu, 70.0, 80.0, 85.0, gives_way=fields.pop("gives_way", 0.0), ramping=fields.pop("ramping", 0.0)
    )
    at = None if state is LevelsState.BLIND else ago(seconds=age)
    return PublishedLevels(state, 33.0, admit, 20.0, at, 10.0, {"cpu": row}, **fields).to_data()


def shown(**fields: Any) -> Picture:
    """The picture of a snapshot of now."""
    return picture_now(Snapshot(NOW, **fields), levels_about=LEVELS_ABOUT)
