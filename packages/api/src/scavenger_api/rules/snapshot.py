"""Snapshots: what a job needs for them, beside what the schema says."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from scavenger_api.duration import DurationError, parse_duration
from scavenger_api.job import ScavengerJobSpec
from scavenger_api.rules.problem import Problem, warning
from scavenger_api.template import containers_of

LEAST: Final = timedelta(seconds=30)


def snapshot_problems(spec: ScavengerJobSpec) -> Iterator[Problem]:
    """Why a job with snapshots cannot have them as they are written."""
    if spec.snapshot is None:
        return
    yield from _interval_problems(spec)
    if not spec.has_command:
        text = "with snapshot it is mandatory: the entrypoint of the image is not known; write what the image runs"
        yield Problem(f"{_where(spec)}.command", text)
    if spec.snapshot_path is None:
        text = f"the program has no volume {spec.snapshot.volume!r} that it may write to; name one that it mounts"
        yield Problem("spec.snapshot.volume", text)


def snapshot_warnings(spec: ScavengerJobSpec) -> Iterator[str]:
    """What a program with snapshots will not find."""
    if spec.snapshot is not None and spec.devices:
        devices = ", ".join(spec.devices)
        yield warning(f"spec.snapshot: a program with snapshots finds no devices, and the job asks for {devices}")


def _interval_problems(spec: ScavengerJobSpec) -> Iterator[Problem]:
    every = spec.snapshot.every if spec.snapshot is not None else None
    if every is None:
        return
    try:
        time, most = parse_duration(every), parse_duration(spec.interruption_after)
    except DurationError as error:
        yield Problem("spec.snapshot.every", str(error))
        return
    if time < LEAST:
        yield Problem("spec.snapshot.every", f"{every} is less than 30s; write 30s or more")
    if time > most:
        text = f"{every} is more than interruptionAfter, {spec.interruption_after}; write that or less"
        yield Problem("spec.snapshot.every", text)


def _where(spec: ScavengerJobSpec) -> str:
    if spec.template is None:
        return "spec"
    return next(path for path, one in containers_of(spec.template.spec) if one is spec.program)
