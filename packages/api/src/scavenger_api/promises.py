"""What the annotations of a Job promise: the one reader of them, for every component that looks at adopted Jobs.

A run keeps the promises that it started with: the admitter writes them on its pod, whatever the Job says later.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from scavenger_api.duration import DurationError, parse_duration
from scavenger_api.names import (
    ANNOTATION_CHECKPOINT_EXIT_CODE,
    ANNOTATION_GANG,
    ANNOTATION_INTERRUPTION_AFTER,
    DEFAULT_INTERRUPTION_AFTER,
    KIND_JOB,
    LABEL_KIND,
)

_LEAST: Final = timedelta(seconds=1)
_MOST: Final = timedelta(days=7)


def promised_interval(annotations: Mapping[str, str]) -> str | None:
    """The time in which a checkpoint is due, as a duration.

    Args:
        annotations: of the Job, or of a pod of it.

    Returns:
        None where the Job says nothing, or what admission refuses: the default holds then.
    """
    text = annotations.get(ANNOTATION_INTERRUPTION_AFTER, "")
    try:
        span = parse_duration(text)
    except (DurationError, OverflowError):
        return None
    return text if _LEAST <= span <= _MOST else None


def promised_exit_code(annotations: Mapping[str, str]) -> int | None:
    """With which the program ends when it has saved its state and is not done; None where the Job says nothing, or what
    admission refuses.

    Args:
        annotations: of the Job, or of a pod of it.
    """
    code = annotations.get(ANNOTATION_CHECKPOINT_EXIT_CODE, "")
    readable = code.isascii() and code.isdecimal() and len(code) <= 3
    return int(code) if readable and 1 <= int(code) <= 255 else None


def gang_size(annotations: Mapping[str, str], completions: int | None, completion_mode: str | None, place: str) -> int:
    """How many pods of a Job start, and are interrupted, together; 0 where each of them stands for itself.

    Admission refuses the annotation on a Job that is not Indexed, or whose parallelism is not its completions. The
    parallelism of a gang does not change, so it is not read here. Once the ledger speaks of a gang the Job stays one:
    pods of its run belong to no task, so nobody would end them, or start others under their names.

    Args:
        annotations: of the Job.
        completions: of its spec.
        completion_mode: of its spec.
        place: in the queue, of its ledger; only that of a gang has one.
    """
    if completions is None or completion_mode != "Indexed":
        return 0
    if place:
        return max(1, completions)
    return completions if annotations.get(ANNOTATION_GANG) == "true" and completions > 1 else 0


def frozen_promises(annotations: Mapping[str, str]) -> dict[str, str]:
    """The annotations of a pod that starts now. They say how often a checkpoint is due even where the Job says nothing,
    which tells them from those of a pod that has no promises of its own.

    Args:
        annotations: of the Job.
    """
    found = {ANNOTATION_INTERRUPTION_AFTER: promised_interval(annotations) or DEFAULT_INTERRUPTION_AFTER}
    if promised_exit_code(annotations) is not None:
        found[ANNOTATION_CHECKPOINT_EXIT_CODE] = annotations[ANNOTATION_CHECKPOINT_EXIT_CODE]
    return found


def kept_interval(labels: Mapping[str, str], annotations: Mapping[str, str]) -> str | None:
    """The time in which a checkpoint of a run is due; None where its pod has no promises of its own, and those of its
    job hold.

    Args:
        labels: of the pod.
        annotations: of the pod.
    """
    return promised_interval(annotations) if labels.get(LABEL_KIND) == KIND_JOB else None
