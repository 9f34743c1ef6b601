"""The same with kubectl and a token of the user's own, where a command is what users would try."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from scavenger_testing.place import job
from scavenger_testing.waiting import wait

from .conftest import Tenant, phase, pods_of

pytestmark = pytest.mark.long

COMMANDS = [
    ("delete pod {pod} --grace-period=2592000 --wait=false", "grace"),
    ('patch job mine --type=merge -p {{"spec":{{"suspend":true}}}}', "Job"),
    ('patch job mine --type=json -p [{{"op":"replace","path":"/spec/parallelism","value":200}}]', "Job"),
    ("label pod {pod} scavenger.dev/preemption-class=non-preemptible --overwrite", "prioritizer only"),
    ("label pod {pod} scavenger.dev/job-", "do not change"),
    ("annotate pod {pod} scavenger.dev/running-priority=999999999 --overwrite", "prioritizer only"),
    ("annotate job mine scavenger.dev/restarts=2000000000 --overwrite", "scavenger.dev/restarts"),
    ("drain fake-000 --ignore-daemonsets", "forbidden"),
    ("taint node fake-000 a=b:NoSchedule", "forbidden"),
    ("label namespace {ns} pod-security.kubernetes.io/enforce=privileged", "forbidden"),
    ('patch sj mine --type=merge --subresource=status -p {{"status":{{"phase":"Running"}}}}', "forbidden"),
    ('patch sj mine --type=merge -p {{"spec":{{"interruptionAfter":"160h"}}}}', "immutable"),
    ("create token scavenger-admitter -n scavenger-system", "forbidden"),
]
HONEST = [
    "get sj",
    "describe sj mine",
    "get pods -l scavenger.dev/job=mine",
    "label pod {pod} team=a",
    "annotate sj mine team=a",
    'patch sj mine --type=merge -p {{"spec":{{"ttlSecondsAfterFinished":3600}}}}',
    "delete pod {pod} --wait=false",
]


@pytest.fixture(scope="module")
def running(tenant: Tenant) -> Iterator[Tenant]:
    """The user's job `mine` runs."""
    tenant.ok("create", "-f", "-", stdin=job("mine"))
    wait("the user's job runs", lambda: phase(tenant.place, "mine") == "Running")
    yield tenant
    tenant.ok("delete", "sj", "mine")


def words(tenant: Tenant, command: str) -> list[str]:
    """`command` as kubectl gets it, with the names of this run."""
    pod = pods_of(tenant.place, "mine")[0]["metadata"]["name"]
    return command.format(pod=pod, ns=tenant.place.namespace).split()


@pytest.mark.parametrize(("command", "said"), COMMANDS, ids=[command for command, _ in COMMANDS])
def test_refused(running: Tenant, command: str, said: str) -> None:
    done = running.run(*words(running, command))
    assert done.returncode != 0, done.stdout
    assert said in done.stderr


@pytest.mark.parametrize("command", HONEST)
def test_honest(running: Tenant, command: str) -> None:
    running.ok(*words(running, command))
