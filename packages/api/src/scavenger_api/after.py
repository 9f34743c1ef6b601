"""Jobs that start after others (docs/designs/0033-jobs-after-jobs.md)."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from scavenger_api.model import Model, cel
from scavenger_api.names import MAX_NAME_LENGTH

MAX_AFTER: Final = 16
"""Other jobs that one job may wait for."""

JobName = Annotated[str, Field(min_length=1, max_length=MAX_NAME_LENGTH, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]


class AfterJob(Model):
    """Another job, and what has to become of it first."""

    job: JobName
    """A ScavengerJob of the same namespace. It may be created later."""
    when: Literal["Completed", "Ended"] = "Completed"
    """Completed: it has completed. Ended: it has completed or failed."""


class FollowedJob(Model):
    """What became of a job of spec.after."""

    job: JobName
    """Its name."""
    uid: Annotated[str, Field(max_length=64)]
    """The UID of the first job of this name that the admitter saw. Another job of the name does not count."""
    ended: Literal["Completed", "Failed"] | None = None
    """How it ended; absent as long as it has not."""


def after_rules() -> list[dict[str, str]]:
    """CEL on a ScavengerJob: the one circle that it shows by itself."""
    return [
        cel(
            "!has(self.spec.after) || self.spec.after.all(a, a.job != self.metadata.name)",
            "a job cannot start after itself; leave it out",
            field_path=".spec.after",
        )
    ]
