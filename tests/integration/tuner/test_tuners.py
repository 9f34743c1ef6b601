"""Several tuners as processes, on a real API server and a real PostgreSQL, with the rights of their manifests.

The test plays the admitter and the programs. Two tuners are killed with SIGKILL, PostgreSQL is restarted as after a
crash; nothing is taken twice and nothing is lost.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from scavenger_admitter.core.manifest import job_manifest
from scavenger_api import names
from scavenger_api.job import ScavengerJob
from scavenger_kube.blocking import Client
from scavenger_kube.errors import NotFound, TooManyRequests
from scavenger_kube.kubeconfig import load
from scavenger_testing.postgres import Postgres
from scavenger_testing.tuners import MANIFESTS, Tuners, as_somebody, rights_in
from scavenger_testing.waiting import wait
from scavenger_tuner.core.objects import scavenger_job
from scavenger_tuner.core.trial import Configuration, Shape, Trial
from scavenger_tuner.settings import TunerSettings

from tests.integration.conftest import Kubectl

from .database import Database, Rows
from .programs import HOPELESS_SEED, HUNGRY_SEED, LARGE_SEED, UNSTABLE_SEED, Object, outcome

pytestmark = pytest.mark.long

ADMITTER = f"system:serviceaccount:{names.SYSTEM_NAMESPACE}:{names.ADMITTER}"
TIMEOUT = 240.0

SEEDS = range(1, 13)
CONCURRENCY = 3


class Cluster:
    """The API server, and what of a cluster the test plays."""

    def __init__(self, kubeconfig: Path, namespace: str, folder: Path) -> None:
        # Rights of an administrator, and the name that the guard lets write statuses.
        config = as_somebody(kubeconfig, folder / "admitter", ADMITTER, "system:masters")
        self._client = Client(lambda: load(str(config)))
        self._jobs = f"/apis/{names.API_VERSION}/namespaces/{namespace}/scavengerjobs"
        self._work = folder / "work"
        self.uids: dict[str, set[str]] = defaultdict(set)

    def look(self) -> list[Object]:
        """All jobs there are; who they are is kept."""
        found: list[Object] = json.loads(wait("a list of jobs", self._ask, TIMEOUT))["items"]
        for job in found:
            self.uids[job["metadata"]["name"]].add(job["metadata"]["uid"])
        return found

    def _ask(self) -> bytes:
        try:
            return self._client.get(self._jobs)
        except TooManyRequests:  # of a definition that is new: "storage is (re)initializing"
            return b""

    def play(self, most: int = 1000) -> None:
        """Have up to so many jobs that nothing has become of run, and end."""
        fresh = [job["metadata"]["name"] for job in self.look() if not job.get("status")]
        for name in sorted(fresh)[:most]:
            status = outcome(self._work, name)
            try:
                self._client.patch(f"{self._jobs}/{name}/status", {"status": status})
            except NotFound:  # whoever takes a job away does it once it has a status
                raise AssertionError(f"{name} was deleted before it had ended") from None

    def close(self) -> None:
        self._client.close()


@pytest.fixture
def rights(api_cluster: Kubectl, namespace: str) -> None:
    """What the manifests of the tuner give its service account, in this namespace, where it holds already."""
    rendered = api_cluster.ok("kustomize", str(MANIFESTS / "tuner"))
    api_cluster.ok("apply", "-f", "-", stdin=rights_in(rendered, namespace))
    wait("the rights", lambda: may(api_cluster, namespace, "create", "scavengerjobs.scavenger.dev"))


def may(kubectl: Kubectl, of: str, verb: str, resource: str, where: str = "") -> bool:
    """Whether the tuner of one namespace may do that there, or elsewhere."""
    account = f"--as=system:serviceaccount:{of}:tuner"
    return kubectl("auth", "can-i", account, verb, resource, f"--namespace={where or of}").stdout.strip() == "yes"


@pytest.fixture
def cluster_of(kubeconfig: Path, namespace: str, rights: None, tmp_path: Path) -> Iterator[Cluster]:
    (tmp_path / "work").mkdir()
    made = Cluster(kubeconfig, namespace, tmp_path)
    yield made
    made.close()


@pytest.fixture
def tuners(kubeconfig: Path, namespace: str, rights: None, tmp_path: Path, url: str) -> Iterator[Tuners]:
    made = Tuners(kubeconfig, namespace, tmp_path, url, {"concurrency": str(CONCURRENCY), "max-cores": "2"})
    yield made
    made.close()


def test_nothing_twice_nothing_lost(postgres: Postgres, url: str, cluster_of: Cluster, tuners: Tuners) -> None:
    database = Database(url)
    database.ask_for([Configuration("spce", 300, 300.0, seed, 1000, 2.0) for seed in SEEDS])

    def until(what: str, finished: int, at_a_time: int = 1000) -> None:
        def done() -> bool:
            cluster_of.play(at_a_time)
            return database.finished() >= finished

        wait(what, done, TIMEOUT, tuners.logs)

    for name in ("a", "b", "c"):
        tuners.start(name)
    # Each has as much as it takes on, and none of it ends: all three are at work.
    wait("all at work", lambda: len(cluster_of.look()) == 3 * CONCURRENCY, TIMEOUT, tuners.logs)
    tuners.kill("a")
    until("some finished", 3, at_a_time=2)
    postgres.restart()
    until("more finished", 6, at_a_time=2)
    tuners.kill("b")
    tuners.start("d")
    wait("its successor at work", lambda: tuners.at_work("d"), TIMEOUT, tuners.logs)
    until("all finished", len(SEEDS))

    codes = tuners.stop()
    cluster_of.look()
    _check(database.rows(), cluster_of.uids)
    assert codes == [0, 0], tuners.logs()


def _check(rows: Rows, uids: dict[str, set[str]]) -> None:
    """Every configuration is at its end, with the attempts that it took and no more; each attempt had one job."""
    reasons = {row.seed: [one.reason for one in attempts] for row, attempts in rows}
    expected: dict[int, list[str]] = {
        **{seed: [""] for seed in SEEDS},
        UNSTABLE_SEED: ["Unstable", ""],
        LARGE_SEED: ["TooLarge", ""],
        HUNGRY_SEED: ["OutOfMemory", ""],
        HOPELESS_SEED: ["Invalid"],
    }
    assert reasons == expected
    assert {row.seed for row, _ in rows if row.state == "Failed"} == {HOPELESS_SEED}
    assert {row.seed for row, _ in rows if row.state == "Completed"} == set(SEEDS) - {HOPELESS_SEED}
    assert all([one.number for one in attempts] == list(range(1, len(attempts) + 1)) for _, attempts in rows)
    wanted = {f"tuner-{row.id}-{row.key.hex[:8]}-{one.number}" for row, attempts in rows for one in attempts}
    assert uids.keys() == wanted
    assert all(len(ever) == 1 for ever in uids.values()), uids
    assert all(row.claimed_by is None for row, _ in rows)
    for row, attempts in rows:
        if row.state == "Completed":
            found: Any = attempts[-1].result
            assert found["diffusion"]["value"] == 2.0 + row.seed
            assert found["density"]["value"] == 1.0 - attempts[-1].time_step / 1000
            assert attempts[-1].interruptions == 2


def test_the_rights_are_no_more_than_needed(api_cluster: Kubectl, namespace: str, rights: None) -> None:
    allowed = partial(may, api_cluster, namespace)
    assert all(allowed(verb, "scavengerjobs.scavenger.dev") for verb in ("list", "watch", "create", "delete"))
    assert allowed("create", "persistentvolumeclaims")
    assert allowed("get", "persistentvolumeclaims/tuner")
    assert not allowed("create", "scavengerjobs.scavenger.dev", "default")
    for verb, resource in (
        ("get", "secrets"),
        ("list", "pods"),
        ("create", "pods"),
        ("delete", "persistentvolumeclaims/tuner"),
        ("get", "persistentvolumeclaims/other"),
        ("patch", "scavengerjobs.scavenger.dev"),
        ("patch", "scavengerjobs.scavenger.dev/status"),
    ):
        assert not allowed(verb, resource), (verb, resource)


def test_the_pods_of_its_jobs_pass_the_guard_and_pod_security(
    api_cluster: Kubectl, namespace: str, rights: None
) -> None:
    """The job that a tuner writes, the Job that the admitter makes of it, and the pod that Kubernetes makes of that.

    With a sub path of the shared claim, where PodSecurity enforces `restricted`.
    """
    api_cluster.ok("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    site = TunerSettings(namespace=namespace).site()
    trial = Trial.of(Configuration("spce", 500, 300.0, 1, 1000, 2.0), Shape(2, 2))
    tuner, admitter = f"--as=system:serviceaccount:{namespace}:tuner", (f"--as={ADMITTER}", "--as-group=system:masters")

    created = api_cluster.ok(
        "create", tuner, "-f", "-", "-o", "json", stdin=json.dumps(scavenger_job(site, "tuner-1-abc-1", 1, trial))
    )
    job = job_manifest(ScavengerJob.model_validate_json(created), restarts=0, run="1", max_grace_seconds=300)
    del job["spec"]["managedBy"]  # no admitter is there, so the Job controller creates its pod
    api_cluster.ok("create", *admitter, "-f", "-", stdin=json.dumps(job))

    def pods() -> list[Object]:
        found: list[Object] = api_cluster.inside(namespace).get("pods")["items"]
        return found

    def events() -> str:
        return api_cluster.ok("get", "events", f"--namespace={namespace}")

    (pod,) = wait("its pod", pods, TIMEOUT, events)
    (container,) = pod["spec"]["containers"]
    assert [(mount["mountPath"], mount["subPath"]) for mount in container["volumeMounts"]] == [
        ("/data", "tuner-1-abc-1")
    ]
    assert pod["spec"]["securityContext"]["fsGroup"] == site.user
    unbound = json.dumps({"metadata": {"finalizers": None}})  # nobody is there to take it off
    api_cluster.ok("patch", "pod", pod["metadata"]["name"], f"--namespace={namespace}", "--type=merge", f"-p={unbound}")


def test_the_manifests_are_taken_and_are_restricted(api_cluster: Kubectl) -> None:
    """With PodSecurity `restricted` warning of whatever it would refuse; nothing is made."""
    rendered = list(yaml.safe_load_all(api_cluster.ok("kustomize", str(MANIFESTS))))
    (science,) = [each for each in rendered if each["kind"] == "Namespace"]
    api_cluster.ok("create", "-f", "-", stdin=yaml.safe_dump(science))
    try:
        done = api_cluster(
            "create",
            "--dry-run=server",
            "-f",
            "-",
            stdin=yaml.safe_dump_all([each for each in rendered if each["kind"] != "Namespace"]),
        )
        assert done.returncode == 0, done.stderr
        assert "PodSecurity" not in done.stderr
        assert {each["kind"] for each in rendered} >= {"Deployment", "StatefulSet", "Role", "PersistentVolumeClaim"}
        assert all(each["metadata"]["namespace"] == "science" for each in rendered if each is not science)
    finally:
        api_cluster.ok("delete", "namespace", "science", "--wait=false")
