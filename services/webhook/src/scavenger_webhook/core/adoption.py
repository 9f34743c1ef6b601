"""batch/v1 Jobs of served namespaces become the admitter's, where no policy of the API server sees to it.

Which Jobs these are is said in the webhook configuration, by the conditions that the policy has as well
(charts/scavenger-library/templates/_adopt.tpl). The API server sends no others.
"""

from __future__ import annotations

from typing import Any

from scavenger_api import names
from scavenger_api.model import Model

from scavenger_webhook.core.snapshot import Facts
from scavenger_webhook.core.verdict import ACCEPTED, Verdict


class BatchMeta(Model):
    """Metadata of a Job, as far as it is read."""

    labels: dict[str, str] | None = None


class BatchSpec(Model):
    """What decides about who runs a Job."""

    managed_by: str | None = None


class BatchJob(Model):
    """batch/v1 Job, as it is being created."""

    metadata: BatchMeta = BatchMeta()
    spec: BatchSpec


def review_batch_job(job: BatchJob, facts: Facts) -> Verdict:
    """Give a Job to the admitter, and a queue where it names none.

    A Job that a component runs already stays so: the field is immutable. Where the queue of the namespace is not known,
    the Job stays as it is, and runs as a regular Job.
    """
    labels = job.metadata.labels or {}
    queue = labels.get(names.LABEL_QUEUE, facts.adopt_queue)
    if job.spec.managed_by or queue is None:
        return ACCEPTED
    patch: list[dict[str, Any]] = [{"op": "add", "path": "/spec/managedBy", "value": names.MANAGED_BY_ADOPTER}]
    if names.LABEL_QUEUE not in labels:
        whole = {**labels, names.LABEL_QUEUE: queue}
        patch.append({"op": "add", "path": "/metadata/labels", "value": whole})
    return Verdict(patch=tuple(patch))
