"""The labels by which clients find the pods of a Job come off a pod as soon as it is deleted.

Snakemake and Nextflow judge a Job by the container of its labelled pod, and do so once a second. An interrupted program
may end with 0, so half a second with the labels on would end its work.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scavenger_api.names import JOB_LABELS, KIND_JOB, LABEL_KIND
from scavenger_domain.pod_ends import deleting
from scavenger_kube import kinds

from scavenger_admitter.core.lifecycle.actions import UnlabelPod


def unlabel(pods: Iterable[kinds.Pod]) -> Iterator[UnlabelPod]:
    """What is done with pods of adopted Jobs that are told to go while they run."""
    for pod in pods:
        labels = pod.metadata.labels
        if not deleting(pod) or pod.ended or labels.get(LABEL_KIND) != KIND_JOB:
            continue
        if any(label in labels for label in JOB_LABELS):
            yield UnlabelPod(pod.metadata.name, pod.metadata.uid)
