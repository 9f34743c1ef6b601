"""The webhook adopts the Jobs that the policy of newer clusters adopts, and no others."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Final

import pytest
from scavenger_api import names
from scavenger_cluster import Cluster, stack
from scavenger_testing.place import Answer, Object, Place, Server, namespace, sized_spec

from .conftest import start_webhook

JOBS: Final = 60
NAMESPACES: Final[dict[str, Object]] = {
    "none": {},
    "labelled": {names.LABEL_ADOPT: "labelled"},
    "all": {names.LABEL_ADOPT: "all"},
    "all of a queue": {names.LABEL_ADOPT: "all", names.LABEL_ADOPT_QUEUE: "night"},
    "never": {names.LABEL_ADOPT: "never"},
}
DISRUPTED: Final = {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
INDEXED: Final[Object] = {"completionMode": "Indexed", "completions": 2}
META: Final[list[Object]] = [
    {"labels": {names.LABEL_QUEUE: "q"}},
    {"labels": {names.LABEL_ADOPT: "never"}},
    {"labels": {"kueue.x-k8s.io/queue-name": "k"}},
    {"labels": {"team": "a"}},
    {"annotations": {"helm.sh/hook": "post-install"}},
    {"annotations": {"argocd.argoproj.io/hook": "Sync"}},
    {"annotations": {names.ANNOTATION_INTERRUPTION_AFTER: "30m"}},
    {"annotations": {f"{names.GROUP}/gang": "true"}},
    {"ownerReferences": [{"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "o", "uid": "1"}]},
    {"ownerReferences": [{"apiVersion": "kubeflow.org/v1", "kind": "MPIJob", "name": "o", "uid": "1"}]},
    {"ownerReferences": [{"apiVersion": "batch/v1", "kind": "CronJob", "name": "o", "uid": "1"}]},
]
SPECS: Final[list[Object]] = [
    {"managedBy": "kubernetes.io/job-controller"},
    {"managedBy": "example.com/other"},
    {"managedBy": names.MANAGED_BY_ADOPTER},
    {"backoffLimitPerIndex": 16, **INDEXED},
    {"backoffLimitPerIndex": 1, "maxFailedIndexes": 1, **INDEXED},
    {"successPolicy": {"rules": [{"succeededCount": 1}]}, **INDEXED},
    {"podFailurePolicy": {"rules": [DISRUPTED]}},
    {"podFailurePolicy": {"rules": [{**DISRUPTED, "action": "Ignore"}]}},
    {"manualSelector": True, "selector": {"matchLabels": {"a": "b"}}},
    {"completions": 100_001, "parallelism": 1},
    {"completions": 5, "parallelism": 2, "suspend": True},
    {"ttlSecondsAfterFinished": 5, "backoffLimit": 0},
]
PODS: Final[list[Object]] = [
    {"priorityClassName": "system-node-critical"},
    {"nodeName": "n"},
    {"schedulingGates": [{"name": "a.b/c"}]},
    {"hostNetwork": True},
]


def generated(seed: int) -> Object:
    """A Job with a few of these properties, the first ones one by one."""
    draw = random.Random(seed)
    everything = [*(("meta", one) for one in META), *(("spec", one) for one in SPECS), *(("pod", one) for one in PODS)]
    chosen = [everything[seed]] if seed < len(everything) else draw.sample(everything, draw.randint(0, 4))
    job: Object = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}}
    template: Object = {"metadata": {"labels": {"a": "b"}}, "spec": sized_spec(restartPolicy="Never")}
    job["spec"] = {"template": template}
    for where, what in chosen:
        target = {"meta": job["metadata"], "spec": job["spec"], "pod": template["spec"]}[where]
        for key, value in what.items():
            target[key] = {**target[key], **value} if key in ("labels", "annotations") and key in target else value
    return job


@pytest.fixture(scope="module")
def places(cluster: Cluster, server: Server) -> Iterator[dict[str, Place]]:
    """A namespace of each kind, with the policies of `global.adopt.enabled`."""
    start_webhook(cluster)
    stack.adopt_jobs(cluster)
    try:
        with ExitStack() as stacked:
            yield {name: stacked.enter_context(namespace(cluster, server, **of)) for name, of in NAMESPACES.items()}
    finally:
        stack.rank_by_webhook(cluster)
        stack.adopt_no_jobs(cluster)


def verdict(answer: Answer) -> Any:
    """What becomes of a Job: who runs it, in which queue, with which warnings; or why it is refused."""
    if not answer.allowed:
        return answer.message.partition("denied request: ")[2] or answer.message
    meta, spec = answer.body["metadata"], answer.body["spec"]
    return spec.get("managedBy"), meta.get("labels", {}).get(names.LABEL_QUEUE), sorted(answer.warnings)


def verdicts(places: dict[str, Place]) -> dict[tuple[int, str], Any]:
    """Of each Job in each namespace."""
    return {
        (seed, kind): verdict(place.try_create("jobs", generated(seed)))
        for seed in range(JOBS)
        for kind, place in places.items()
    }


def test_the_webhook_answers_as_the_policy_does(cluster: Cluster, places: dict[str, Place]) -> None:
    plain = generated(META.index({"labels": {"team": "a"}}))

    def all_adopted() -> bool:
        answers = [places[kind].try_create("jobs", plain) for kind in ("all", "all of a queue")]
        answers.append(places["labelled"].try_create("jobs", generated(0)))
        return all(verdict(one)[0] == names.MANAGED_BY_ADOPTER for one in answers)

    def none_adopted() -> bool:
        return verdict(places["all"].try_create("jobs", plain))[0] is None

    places["all"].wait("the policy", all_adopted)
    by_policy = verdicts(places)
    stack.adopt_no_jobs(cluster)
    places["all"].wait("no policy", none_adopted)
    stack.adopt_jobs_by_webhook(cluster)
    places["all"].wait("the webhook", all_adopted)
    by_webhook = verdicts(places)
    assert {key: (by_policy[key], by_webhook[key]) for key in by_policy if by_policy[key] != by_webhook[key]} == {}
    runners = {found[0] for found in by_webhook.values() if isinstance(found, tuple)}
    assert {None, names.MANAGED_BY_ADOPTER, "example.com/other"} <= runners


def test_without_an_answer_who_asked_waits_and_others_run_as_regular_jobs(
    cluster: Cluster, places: dict[str, Place]
) -> None:
    """Last, as it stops the webhook."""
    place = places["all"]
    cluster.service_stop("webhook", grace=0)
    asked = place.try_create("jobs", generated(0))
    assert not asked.allowed
    assert "labelled.jobs.scavenger.dev" in asked.message
    unasked = place.try_create("jobs", generated(META.index({"labels": {"team": "a"}})))
    assert unasked.allowed
    assert "managedBy" not in unasked.body["spec"]
    start_webhook(cluster)
