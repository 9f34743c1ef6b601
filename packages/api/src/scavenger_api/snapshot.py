"""Snapshots: the state of a program that writes no checkpoints, saved from outside (docs/designs/0026-snapshots.md)."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from scavenger_api.duration import DURATION_PATTERN
from scavenger_api.model import DnsLabel, Model, cel

EXIT_CODE: Final = 85
"""With which `snap run` ends after SIGTERM, where spec.checkpointExitCode says no other."""
UNTOUCHED_CODE: Final = 86
"""With which `snap run` ends where it cannot save the program or continue it: the snapshots are as they were."""


class SnapshotSpec(Model):
    """Where snapshots go, and how often one is taken."""

    volume: DnsLabel
    """The name of one of persistentVolumeClaims, or with template of a volume. The snapshots are in its folder
    .snapshot/NAMESPACE_UID, with the UID of the ScavengerJob, and those of a task in .snapshot/NAMESPACE_UID/INDEX."""
    every: Annotated[str | None, Field(max_length=32, pattern=DURATION_PATTERN)] = None
    """Time between two snapshots, from 30s to interruptionAfter; by default interruptionAfter. Each counts as a
    checkpoint."""


def snapshot_rules() -> list[dict[str, str]]:
    """CEL on the spec of a ScavengerJob: what a job with snapshots needs."""
    return [
        cel(
            "!has(self.snapshot) || self.parallelism == 1",
            "only jobs of one pod have snapshots; leave it out, or write checkpoints in the program",
            field_path=".snapshot",
        ),
        cel(
            "!has(self.snapshot) || self.capacity == 'Guaranteed'",
            "a job with snapshots cannot have capacity: Reclaimed; leave one of them out",
            field_path=".snapshot",
        ),
        cel(
            "!has(self.snapshot) || has(self.template) || has(self.command)",
            "with snapshot it is mandatory: the entrypoint of the image is not known",
            field_path=".command",
            reason="FieldValueRequired",
        ),
        cel(
            "!has(self.snapshot) || has(self.template) || (has(self.persistentVolumeClaims) && "
            "self.persistentVolumeClaims.exists(c, c.name == self.snapshot.volume))",
            "volume: it is none of persistentVolumeClaims; name the claim where snapshots go, and mount it",
            field_path=".snapshot",
        ),
    ]
