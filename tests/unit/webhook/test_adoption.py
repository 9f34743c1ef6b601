"""A user's Job that the API server sends here becomes the admitter's, with a queue."""

from __future__ import annotations

from typing import Any

import pytest
from scavenger_api import names

from .builders import Object, answer_to, facts, patched


def batch(labels: Object | None = None, **spec: Any) -> Object:
    metadata = {"name": "j", **({} if labels is None else {"labels": labels})}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": {}, **spec}}


@pytest.mark.parametrize(
    ("labels", "of_namespace", "after"),
    [
        ({names.LABEL_QUEUE: "q", "a": "b"}, None, {names.LABEL_QUEUE: "q", "a": "b"}),
        ({names.LABEL_QUEUE: "q"}, "night", {names.LABEL_QUEUE: "q"}),
        ({"a": "b"}, "night", {names.LABEL_QUEUE: "night", "a": "b"}),
        (None, "night", {names.LABEL_QUEUE: "night"}),
    ],
)
def test_it_is_the_admitter_s(labels: Object | None, of_namespace: str | None, after: Object) -> None:
    job = batch(labels)
    made = patched(job, answer_to("jobs", job, facts(adopt_queue=of_namespace)))

    assert made["spec"]["managedBy"] == names.MANAGED_BY_ADOPTER
    assert made["metadata"]["labels"] == after
    assert patched(made, answer_to("jobs", made, facts(adopt_queue=of_namespace))) == made


@pytest.mark.parametrize(
    ("job", "queue"),
    [
        (batch({names.LABEL_QUEUE: "q"}, managedBy="kubernetes.io/job-controller"), "night"),
        (batch({names.LABEL_QUEUE: "q"}, managedBy=names.MANAGED_BY), "night"),
        (batch(), None),
    ],
    ids=["the Job controller's", "a ScavengerJob's", "no queue known"],
)
def test_it_stays_somebody_s(job: Object, queue: str | None) -> None:
    answer = answer_to("jobs", job, facts(adopt_queue=queue))

    assert answer.allowed
    assert answer.patch is None


@pytest.mark.parametrize("operation", ["UPDATE", "DELETE"])
def test_only_its_creation_is_looked_at(operation: str) -> None:
    job = batch({names.LABEL_QUEUE: "q"})

    assert answer_to("jobs", job, facts(adopt_queue="q"), operation=operation, old=job).patch is None


def test_a_large_template_is_not_the_webhook_s_business() -> None:
    job = batch({names.LABEL_QUEUE: "q"}, template={"spec": {"containers": [{"env": [{"name": "a"}] * 3000}]}})

    assert answer_to("jobs", job, facts()).patch is not None
