"""What the pods of scavenger jobs are called: the one owner of the rule, in both directions.

A pod is called `JOB-INDEX-SUFFIX`. The suffix is chosen when the Job is created, and stands in the template of the Job
(`names.ANNOTATION_POD_SUFFIX`), which does not change. So all processes give a pod the same name.

| pods of | suffix | follows from |
|---|---|---|
| an array | `x` and four characters of those that Kubernetes generates names of | the UID of the ScavengerJob: all lives of a task have one name |
| a job or a gang | five digits of base 36 | the place in the queue: each run has other names |

The two forms never meet, whatever jobs are called: neither suffix has a dash, so a name has one job, one index and one
suffix, and no suffix is of both forms. A StatefulSet makes none of these names, as its names end with a number. The
Job controller draws five characters for the pods of its own Jobs, and draws again where a name is taken.

Jobs from before this rule have no such annotation. Their tasks are called `JOB-INDEX`, and their runs have the suffix
of `older_run_suffix`. Both are read for one version.
"""  # noqa: E501 - a table

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from scavenger_api.names import MAX_LABEL_LENGTH

GENERATED: Final = "bcdfghjklmnpqrstvwxz2456789"
"""The characters of names that Kubernetes generates (k8s.io/apimachinery/pkg/util/rand): no vowels, so no words."""
TASK_SUFFIX: Final = re.compile(f"x[{GENERATED}]{{3,4}}")
"""Of the pods of an array. Three characters where four would make the longest of its names too long for a label."""
RUN_SUFFIX: Final = re.compile("(?![0-9]{5})[0-9a-wyz][0-9a-z]{4}")
"""Of the pods of a job or a gang: not that of an array, and no number, with which names of a StatefulSet end."""

_LENGTH: Final = 5
"""Of a suffix: as long as those that Kubernetes generates."""
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_FIRST: Final = str.maketrans("x0123456789", "wabcdefghij")
_PARTS: Final = re.compile(rf"(0|[1-9][0-9]{{0,8}})(?:-([0-9a-z]{{5}}|{TASK_SUFFIX.pattern}))?")


@dataclass(frozen=True, slots=True)
class Parts:
    """What the name of a pod says beside its job.

    Attributes:
        index: of the task, or of the member of a gang.
        suffix: empty where the pod is of a task of a Job from before there were suffixes.
    """

    index: int
    suffix: str


def host_name(job: str, index: int) -> str:
    """The host name of a pod. job: name of its ScavengerJob. index: of the task, or of the member of a gang."""
    return f"{job}-{index}"


def pod_name(job: str, index: int, suffix: str) -> str:
    """The name of a pod. job, index: as in `host_name`. suffix: of its Job; empty as in `Parts`."""
    return f"{host_name(job, index)}-{suffix}" if suffix else host_name(job, index)


def parts_of(name: str, job: str) -> Parts | None:
    """What the name of a pod says; None where no pod of this job is called so.

    Args:
        name: of a pod.
        job: name of the ScavengerJob.
    """
    found = _PARTS.fullmatch(name.removeprefix(f"{job}-")) if name.startswith(f"{job}-") else None
    return Parts(int(found[1]), found[2] or "") if found is not None else None


def task_suffix(uid: str, job: str, tasks: int) -> str:
    """The suffix of the pods of an array: the same for all lives of its tasks, also where its Job is created again.

    Args:
        uid: of the ScavengerJob.
        job: its name.
        tasks: how many it has.
    """
    rest, text = number_of(uid), "x"
    while len(text) < _LENGTH:
        rest, digit = divmod(rest, len(GENERATED))
        text += GENERATED[digit]
    too_long = len(pod_name(job, tasks - 1, text)) > MAX_LABEL_LENGTH
    return text[:-1] if too_long else text


def number_of(uid: str) -> int:
    """A number of 32 bits that follows from a UID: FNV-1a, as for the hashes of templates in names of ReplicaSets."""
    found = 0x811C9DC5
    for byte in uid.encode():
        found = (found ^ byte) * 0x01000193 & 0xFFFFFFFF
    return found


def short_name(number: int) -> str:
    """Four digits of base 36: a number below 36⁴, or what is left of a larger one."""
    text = ""
    for _ in range(4):
        number, digit = divmod(number, len(_DIGITS))
        text = _DIGITS[digit] + text
    return text


def run_suffix(queued: int) -> str:
    """The suffix of the pods of one run of a job.

    Args:
        queued: its place in the queue, microseconds since the epoch. Two runs have the same suffix only where they are
            a multiple of 1.679616 seconds apart.
    """
    text = older_run_suffix(queued)
    return text if RUN_SUFFIX.fullmatch(text) else text[0].translate(_FIRST) + text[1:]


def older_run_suffix(queued: int) -> str:
    """The suffix of the pods of one run, of a Job whose template names none. queued: as in `run_suffix`."""
    rest, text = queued, ""
    while len(text) < _LENGTH:
        rest, digit = divmod(rest, len(_DIGITS))
        text = _DIGITS[digit] + text
    return text
