"""Jobs that no webhook adopted in a namespace that is served as a whole.

Where a webhook adopts Jobs and does not answer, those that name no queue run as regular Jobs. What the API server's
conditions leave out runs as a regular Job as well (charts/scavenger-library/templates/_adopt.tpl), and nothing on a Job
tells the two apart. So the sentence names both.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from scavenger_api import names
from scavenger_domain.pod_ends import moment
from scavenger_kube import kinds

NEW: Final = timedelta(minutes=1)
"""An older Job was created before the admitter looked, perhaps before its namespace was served."""

SAID: Final = (
    "runs as a regular Job: either the webhook did not answer when it was created, or it is of a kind, or has a field, "
    "that is not adopted. With the label scavenger.dev/queue it would be adopted or refused. The label "
    "scavenger.dev/adopt: never ends these Events"
)


def worth_telling(job: kinds.Job, namespace: Mapping[str, str], now: datetime) -> bool:
    """Whether users are told that a Job which has just appeared is a regular Job.

    Args:
        job: as the API server has it.
        namespace: labels of its namespace.
        now: the moment.
    """
    meta, created = job.metadata, moment(job.metadata.creation_timestamp)
    if namespace.get(names.LABEL_ADOPT) != names.ADOPT_ALL or job.spec.managed_by or created is None:
        return False
    queued = not meta.labels.keys().isdisjoint((names.LABEL_JOB, names.LABEL_QUEUE, names.LABEL_KUEUE_QUEUE))
    opted_out = meta.labels.get(names.LABEL_ADOPT) == names.ADOPT_NEVER
    return not (queued or opted_out) and now - created <= NEW
