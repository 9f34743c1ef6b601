"""`kubectl sj release`: what is said and asked; the steps themselves are in tests/unit/admitter/test_release.py."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from scavenger_api import names
from scavenger_api.times import format_time

from .conftest import Answer, Run, Server, listed, status

JOBS = "/apis/batch/v1/namespaces/lab/jobs"
PODS = "/api/v1/namespaces/lab/pods"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{names.SYSTEM_NAMESPACE}/leases/{names.ADMITTER}"
ASKED = {names.ANNOTATION_RELEASE: names.RELEASE_REQUESTED}


def job(*conditions: str, annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    stated = [{"type": kind, "status": "True"} for kind in conditions]
    meta = {"name": "a", "namespace": "lab", "uid": "u", "resourceVersion": "1", "annotations": annotations or {}}
    wanted = {"managedBy": names.MANAGED_BY_ADOPTER, "template": {"spec": {}}, **spec}
    return {"metadata": meta, "spec": wanted, "status": {"conditions": stated}}


@pytest.fixture
def lab(server: Server) -> Server:
    """A namespace in which a pod of Job a runs, beside an admitter that leads."""
    server.on(JOBS, listed())
    pod = {"metadata": {"name": "p", "uid": "v", "ownerReferences": [{"uid": "u"}]}, "status": {"phase": "Running"}}
    server.on(PODS, listed(pod))
    spec = {"holderIdentity": "x", "renewTime": format_time(datetime.now(UTC))}
    server.on(LEASE, Answer(body={"metadata": {"name": names.ADMITTER}, "spec": spec}))
    return server


def test_a_job_that_does_not_exist(lab: Server, sj: Run) -> None:
    code, out, err = sj("release", "a")
    assert (code, out) == (3, "")
    assert "job.batch/a does not exist" in err


def test_a_regular_job_and_one_that_has_finished_are_left_alone(lab: Server, sj: Run) -> None:
    lab.on(f"{JOBS}/a", Answer(body=job(managedBy=None)), Answer(body=job("Complete")))
    assert sj("release", "a", "a")[:2] == (
        0,
        "job.batch/a is a regular Job\njob.batch/a has finished: it needs no admitter\n",
    )
    assert {one.method for one in lab.requests} == {"GET"}


def test_whoever_may_not_release_reads_why(lab: Server, sj: Run) -> None:
    lab.on(f"{JOBS}/a", Answer(body=job()))
    lab.on(f"{JOBS}/a", Answer(403, status(403, "Forbidden", "only who has the verb release")), method="PATCH")
    code, _, err = sj("release", "a")
    assert code == 1
    assert "only who has the verb release" in err


def test_it_waits_for_a_pod_until_the_time_is_over(lab: Server, sj: Run) -> None:
    lab.on(f"{JOBS}/a", Answer(body=job(annotations=ASKED)))
    code, _, err = sj("release", "a", "--timeout", "100ms")
    assert code == 5
    assert "waiting for the end or the next checkpoint of p" in err
    assert "repeat the command" in err
    assert not [one for one in lab.requests if one.method != "GET"]


def test_now_deletes_the_pod_and_a_lost_answer_is_looked_at_again(lab: Server, sj: Run) -> None:
    lab.on(f"{JOBS}/a", Answer(body=job(annotations=ASKED)))
    lab.on(f"{PODS}/p", Answer(409, status(409, "Conflict")), method="DELETE")
    code, _, err = sj("release", "a", "--now", "--timeout", "100ms")
    deleted = lab.asked(f"{PODS}/p", "DELETE")
    assert deleted[0].body["preconditions"] == {"uid": "v"}
    assert len(deleted) > 1
    assert code == 5, err


def test_a_job_of_a_controller_is_deleted_where_that_is_said(lab: Server, sj: Run) -> None:
    owned = job()
    owned["metadata"]["ownerReferences"] = [{"kind": "CronJob", "name": "night", "uid": "c", "controller": True}]
    lab.on(f"{JOBS}/a", Answer(body=owned), Answer(404, status(404, "NotFound", "gone")))
    lab.on(f"{JOBS}/a", Answer(body={}), method="DELETE")
    assert sj("release", "a", "--delete")[:2] == (0, "job.batch/a deleted: its owner decides what follows\n")
    assert len(lab.asked(f"{JOBS}/a", "DELETE")) == 1
