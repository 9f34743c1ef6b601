"""How components name a job: `NAMESPACE/NAME` of a ScavengerJob, `NAMESPACE/job.batch/NAME` of an adopted Job.

A ScavengerJob and a Job may have one name, and are two. No name has a slash in it, so their keys differ, and the
namespace is what stands before the first slash of either.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from scavenger_api.names import KIND_JOB, LABEL_JOB, LABEL_KIND, LABEL_QUEUE

ADOPTED: Final = "job.batch/"
"""Before the name of an adopted Job, as kubectl prints it."""
OF_USERS: Final = f"{LABEL_QUEUE},!{LABEL_JOB}"
"""Label selector of Jobs that name a queue and belong to no ScavengerJob."""


class JobKey(NamedTuple):
    """What a key says.

    Attributes:
        namespace: of the job.
        name: of the job.
        adopted: whether it is an adopted Job, and no ScavengerJob.
    """

    namespace: str
    name: str
    adopted: bool

    @property
    def selector(self) -> str:
        """By which the pods of exactly this job are found, in the terms of label selectors."""
        return f"{LABEL_KIND}={KIND_JOB}" if self.adopted else f"!{LABEL_KIND}"


def job_key(namespace: str, name: str, kind: str = "") -> str:
    """The key of a job.

    Args:
        namespace: of the job.
        name: of the job.
        kind: the label `scavenger.dev/kind` of its pods; empty for a ScavengerJob.
    """
    return f"{namespace}/{ADOPTED if kind == KIND_JOB else ''}{name}"


def parse_key(key: str) -> JobKey:
    """What a key says."""
    namespace, _, name = key.partition("/")
    return JobKey(namespace, name.removeprefix(ADOPTED), name.startswith(ADOPTED))
