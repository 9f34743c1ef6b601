"""Whose identity a scavenger job has: its service account's only where the namespace allows it, in whatever form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from scavenger_cluster import Cluster, stack
from scavenger_testing.place import MERGE_PATCH, Answer, Object, Place, account, job

from .table_admitter import made, of_job

CERTIFICATE = {"podCertificate": {"signerName": "example.com/s", "keyType": "ED25519", "credentialBundlePath": "c"}}
TOKEN = {"serviceAccountToken": {"path": "t"}}
NAMED = "other, allowed"
UNNAMED = "which this namespace does not allow"


def projected(*sources: Object) -> Object:
    return {"name": "v", "projected": {"sources": list(sources)}}


SIZES = {"cpu": "1", "memory": "64Mi"}
EQUAL = {"requests": SIZES, "limits": SIZES}
CSI = {"name": "v", "csi": {"driver": "secrets-store.csi.example.com"}}
DATA = projected({"configMap": {"name": "c"}}, {"secret": {"name": "s"}}, {"downwardAPI": {}})


class Identity(NamedTuple):
    """A job's account and volume. `refused`: the API server refuses its Job and its pods even with accounts: Warn."""

    name: str
    account: str | None
    volume: Object | None
    allowed: bool
    refused: bool = False


CASES = [
    Identity("the default account", None, None, allowed=True),
    Identity("the default account by name", "default", None, allowed=True),
    Identity("data for the default account", None, DATA, allowed=True),
    Identity("an account that is allowed", "allowed", None, allowed=True),
    Identity("a driver that hears of an account that is allowed", "allowed", CSI, allowed=True),
    Identity("an account by its name alone", "robot", None, allowed=False),
    Identity("a driver that hears of the default account", None, CSI, allowed=False),
    Identity("a driver that hears of another account", "robot", CSI, allowed=False),
    Identity("a certificate of the default account", None, projected(CERTIFICATE), allowed=False, refused=True),
    Identity("a certificate of another account", "robot", projected(CERTIFICATE), allowed=False, refused=True),
    Identity(
        "a token among data", "robot", projected({"configMap": {"name": "c"}}, TOKEN), allowed=False, refused=True
    ),
]


@pytest.fixture(scope="module", autouse=True)
def _accounts(place: Place) -> None:
    for name in ("allowed", "robot"):
        assert place.create("serviceaccounts", {"metadata": {"name": name}}).allowed
    note = {"metadata": {"annotations": {"scavenger.dev/service-accounts": NAMED}}}
    assert place.server("PATCH", f"/api/v1/namespaces/{place.namespace}", note, content_type=MERGE_PATCH).allowed


@pytest.fixture(scope="module")
def strict(cluster: Cluster, place: Place) -> Iterator[None]:
    """The guard with guard.accounts: Deny, and a driver that it knows; afterwards as the manifests have it."""
    option = "--set=guard.accounts=Deny,guard.csiDrivers={known.csi.example.com}"
    text = stack.rendered("scavenger-base", cluster.report, option, templates=("guard-workloads", "guard-pods"))
    words = ("apply", "--server-side", "--force-conflicts", "-f")
    try:
        cluster.kubectl(*words, "-", input=text)
        place.wait("the account is refused everywhere", lambda: verdicts(place, CASES[5]) == {False})
        yield
    finally:
        for name in ("guard-workloads", "guard-pods"):
            cluster.kubectl(*words, str(stack.MANIFESTS / "base" / f"{name}.yaml"))
        place.wait("the account is refused nowhere", lambda: verdicts(place, CASES[5]) == {True})


def verdicts(place: Place, case: Identity) -> set[bool]:
    """Whether each way to use the account is allowed.

    The API server takes up one policy after the other, so both values are possible for a moment after a change.
    """
    return {answer.allowed for answer in (*submitted(place, case), *start(place, case))}


def submit(place: Place, case: Identity) -> Answer:
    """As a user does; the answer is the same in all forms that are possible."""
    first, *others = submitted(place, case)
    for other in others:
        assert (other.allowed, other.warnings) == (first.allowed, first.warnings)
    return first


def submitted(place: Place, case: Identity) -> list[Answer]:
    """The answers to a job with a template and, where that is possible, to one without."""
    spec: Object = {"containers": [{"name": "main", "image": "n", "resources": EQUAL}]}
    if case.account:
        spec["serviceAccountName"] = case.account
    if case.volume:
        spec["volumes"] = [case.volume]
    forms = [job(image=None, resources=None, template={"spec": spec})]
    if case.volume is None:
        forms.append(job(serviceAccountName=case.account))
    return [place.try_create("scavengerjobs", form) for form in forms]


def start(place: Place, case: Identity) -> tuple[Answer, Answer]:
    """The Job and its pod, as the admitter makes them."""
    spec: dict[str, Any] = {"serviceAccountName": case.account} if case.account else {}
    spec |= {"volumes": [case.volume]} if case.volume else {}
    who = {"user": account("admitter")}
    batch, one = made("", **spec).body, of_job("", **spec).body
    return place.try_create("jobs", batch, **who), place.try_create("pods", one, **who)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_job_that_has_an_identity_by_more_than_its_token_is_warned(place: Place, case: Identity) -> None:
    answer = submit(place, case)
    assert answer.allowed, answer
    assert any(UNNAMED in warning for warning in answer.warnings) == (not case.allowed), answer.warnings
    for said in start(place, case):
        assert said.allowed == (not case.refused) or not understood(said), said


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_with_accounts_deny_it_is_refused(place: Place, case: Identity) -> None:
    answer = submit(place, case)
    assert (answer.allowed, UNNAMED in answer.message) == (case.allowed, not case.allowed), answer
    for said in start(place, case):
        assert said.allowed == case.allowed or not understood(said), said


@pytest.mark.usefixtures("strict")
def test_a_driver_that_the_administrator_knows_is_for_everybody(place: Place) -> None:
    known = {"name": "v", "csi": {"driver": "known.csi.example.com"}}
    case = Identity("", None, known, allowed=True)
    assert submit(place, case).allowed
    assert [said.code for said in start(place, case)] == [201, 201]


def understood(answer: Answer) -> bool:
    """Whether the API server knows all fields: one that knows no certificates of pods refuses the volume itself."""
    return answer.allowed or "must specify" not in answer.message
