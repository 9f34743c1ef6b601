"""Clients of Jobs as they are, on real kubelets: their Jobs are adopted by the label of the namespace, and interrupted.

docs/clients.md has the rules by which they tell success from failure.
"""

from __future__ import annotations

import random
import shutil
import time
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from scavenger_api import names
from scavenger_cluster import Cluster, images, stack
from scavenger_cluster.api import namespaced
from scavenger_cluster.shell import run
from scavenger_domain.adopted import adopted, ledger_of
from scavenger_kube.resources import MERGE_PATCH
from scavenger_testing.world import IMAGE, SETTINGS, World

from tests.e2e.test_arrays import remove
from tests.e2e.test_restricted import label

pytestmark = [pytest.mark.real, pytest.mark.timeout(600), pytest.mark.long]

FOLDER = Path(__file__).parent / "snakemake"
ROOT = FOLDER.parents[2]
Object = dict[str, Any]


@pytest.fixture(scope="module")
def adopting(cluster: Cluster) -> Iterator[None]:
    """The policies that adopt Jobs, and an admitter that runs them."""
    stack.adopt_jobs(cluster)
    stack.start(cluster, ["admitter"], {**SETTINGS, "SCAVENGER_ADOPT": "true"})
    yield
    stack.adopt_no_jobs(cluster)
    stack.start(cluster, ["admitter"], SETTINGS)


@pytest.fixture
def served(adopting: None, world: World) -> Iterator[World]:
    """A namespace whose Jobs are all adopted."""
    label(world, names.LABEL_ADOPT, names.ADOPT_ALL)
    probe = job_of("probe", "true")
    path = f"{namespaced('jobs', world.namespace)}?dryRun=All"
    world.wait("Jobs to be adopted", lambda: adopted(world.cluster.client.request("POST", path, probe)))
    yield world
    world.kubectl("delete", "cronjobs,jobs", "--all", "--timeout=110s")


def job_of(name: str, script: str, **spec: Any) -> Object:
    """A Job that knows nothing of scavenger jobs, and runs a script on the claim `state`."""
    container = {
        "name": "work",
        "image": IMAGE,
        "command": ["sh", "-c", script],
        "env": [{"name": "JOB", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['job-name']"}}}],
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
        "volumeMounts": [{"name": "state", "mountPath": "/state"}],
    }
    pod = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 2,
        "securityContext": {"runAsUser": 65532},
        "containers": [container],
        "volumes": [{"name": "state", "persistentVolumeClaim": {"claimName": "state"}}],
    }
    template = {"template": {"spec": pod}, "backoffLimit": 0, **spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": template}


class Watched:
    """The Jobs of a client, as they were seen last. Clients delete them.

    Attributes:
        jobs: by name, in the order of their creation.
        asked: how often the pod of each was removed.
    """

    def __init__(self, world: World, begun: Path, *, seed: int, within: float) -> None:
        """begun: has a file for each pod, with a line for each start of its program. within: seconds after which a
        program is no longer interrupted: it would be done before its pod has gone."""
        self.jobs: dict[str, Object] = {}
        self.asked: Counter[str] = Counter()
        self._world = world
        self._begun = begun
        self._within = within
        self._chosen = random.Random(seed)

    def look(self) -> list[Object]:
        """The Jobs that there are."""
        found = self._world.objects("jobs")
        self.jobs |= {job["metadata"]["name"]: job for job in sorted(found, key=_created)}
        return found

    def interrupt(self, most: int, *ways: str) -> None:
        """Remove a pod that has begun its work, at random: one of each Job, and so many of all."""
        may_go = [pod for pod in self._pods() if self._may_go(pod)]
        if may_go and self.asked.total() < most and self._chosen.random() < 0.3:
            pod = self._chosen.choice(may_go)
            self.asked[_job_of(pod)] += 1
            remove(self._world, pod, self._chosen.choice(ways))

    @property
    def interrupted(self) -> Counter[str]:
        """How often each was interrupted, by its ledger."""
        found = {name: ledger_of(job.get("status") or {}).interrupted for name, job in self.jobs.items()}
        return Counter({name: count for name, count in found.items() if count})

    def _pods(self) -> list[Object]:
        found = self._world.objects("pods", names.LABEL_JOB)
        return sorted((pod for pod in found if "deletionTimestamp" not in pod["metadata"]), key=_job_of)

    def _may_go(self, pod: Object) -> bool:
        if self.asked[_job_of(pod)] or pod["status"].get("phase") != "Running":
            return False
        with suppress(FileNotFoundError):
            began: float = (self._begun / pod["metadata"]["name"]).stat().st_mtime
            return 1 < time.time() - began < self._within
        return False


def _created(job: Object) -> tuple[str, str]:
    return job["metadata"]["creationTimestamp"], job["metadata"]["name"]


def _job_of(pod: Object) -> str:
    return str(pod["metadata"]["labels"][names.LABEL_JOB])


STEPS = 120
"""Of half a second: a minute. A CronJob names its Jobs after the minute, so it makes one a minute at most."""
EVERY_SECONDS = 20
COUNTS = f"""
set -e
cd /state
mkdir -p begun
step=$(cat $JOB.step 2>/dev/null || echo 0)
echo $step >> begun/$(hostname)
while [ $step -lt {STEPS} ]; do
    sleep 0.5
    step=$((step + 1))
    echo $step > $JOB.new
    mv $JOB.new $JOB.step
done
set -C  # what is there is not written again
echo done > $JOB.result
"""
RUNS = 2


def test_a_cron_job_waits_for_a_job_that_is_interrupted(served: World, shared: str, tmp_path: Path) -> None:
    """Each of two Jobs takes longer than the schedule says, and loses its pod once."""
    volume = tmp_path / "volume"
    watched = Watched(served, volume / "begun", seed=41, within=10)
    job = job_of("any", COUNTS)
    spec = {
        "schedule": f"@every {EVERY_SECONDS}s",
        "concurrencyPolicy": "Forbid",
        "successfulJobsHistoryLimit": 1,
        "failedJobsHistoryLimit": 1,
        "jobTemplate": {"spec": job["spec"]},
    }
    served.apply({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "night"}, "spec": spec})
    path = f"/apis/batch/v1/namespaces/{served.namespace}/cronjobs/night"

    def play() -> bool:
        there = watched.look()
        assert sum(not _is_done(one) for one in there) <= 1, "Forbid"
        if len(watched.jobs) == RUNS:  # this is the last one
            served.cluster.client.request("PATCH", path, {"spec": {"suspend": True}}, MERGE_PATCH)
        watched.interrupt(RUNS, "delete", "kill", "evict")
        return len(watched.jobs) == RUNS and all(map(_is_done, watched.jobs.values()))

    served.wait("its Jobs to end", play, timeout=300)
    assert all(map(adopted, watched.jobs.values()))
    assert watched.interrupted == watched.asked == Counter(watched.jobs.keys())
    counts = [{name: one["status"].get(name) for name in ("succeeded", "failed")} for one in watched.jobs.values()]
    assert counts == [{"succeeded": 1, "failed": None}] * RUNS
    for name in watched.jobs:
        (begun,) = (volume / "begun").glob(f"{name}-*")  # the name of its pods
        first, second = map(int, begun.read_text().split())
        assert first == 0 < second < STEPS, "it went on from where it was"
        assert (volume / f"{name}.result").read_text() == "done\n"

    last = next(reversed(watched.jobs))
    served.wait("the history to be cut", lambda: [one["metadata"]["name"] for one in served.objects("jobs")] == [last])
    ended = watched.jobs[last]["status"]["completionTime"]

    def told() -> bool:
        status = dict(served.cluster.client.get(path))["status"]
        return status.get("lastSuccessfulTime") == ended and not status.get("active")

    served.wait("its last success", told)
    reasons = Counter(event["reason"] for event in served.objects("events") if _is_about_cron_job(event))
    assert (reasons["SawCompletedJob"], reasons["UnexpectedJob"]) == (RUNS, 0)
    assert reasons["JobAlreadyActive"] > 0, "a Job was due, and waited"


def _is_done(job: Object) -> bool:
    stated = (job.get("status") or {}).get("conditions") or ()
    assert not any(one["type"] == "Failed" for one in stated), stated
    return any(one["type"] == "Complete" and one["status"] == "True" for one in stated)


def _is_about_cron_job(event: Object) -> bool:
    return bool(event["involvedObject"]["kind"] == "CronJob")


SNAKEMAKE = "localhost/scavenger/snakemake:test"
REQUIREMENTS = "requirements.txt"
STORAGE = "snakemake_storage_plugin_fs"
COMMAND = (
    "cp /flow/Snakefile . && exec python3 -m snakemake --executor kubernetes --kubernetes-namespace {namespace}"
    " --kubernetes-persistent-volumes state:/work --kubernetes-cpu-scalar 0.1 --container-image {image}"
    " --default-storage-provider fs --default-storage-prefix /work --default-resources mem_mb=150 disk_mb=20"
    " --jobs 4 --seconds-between-status-checks 2 --nocolor"
)
FLOW = 20
INTERRUPTIONS = 5
RIGHTS = (
    ("batch", ["jobs", "jobs/status"], ["create", "get", "list", "delete"]),
    ("", ["pods", "pods/log"], ["get", "list", "delete"]),
    ("", ["secrets"], ["create", "delete"]),
)


def test_a_workflow_of_snakemake_runs_unchanged(served: World, shared: str, tmp_path: Path) -> None:
    """The program itself is a regular pod; each of its twenty steps is a Job. It takes the first exit of a labelled pod
    for the end of a step, and two such pods for a mistake."""
    _load_image(served.cluster)
    volume = tmp_path / "volume"
    watched = Watched(served, volume / "begun", seed=7, within=3)
    served.apply(*_workflow(served.namespace))
    phase = ""

    def play() -> bool:
        nonlocal phase
        watched.look()
        watched.interrupt(INTERRUPTIONS, "delete", "kill", "evict")
        phase = (served.get("pod", "flow") or {"status": {}})["status"].get("phase", "")
        return phase in ("Succeeded", "Failed")

    served.wait("the workflow to end", play, timeout=400)
    log = served.log("flow")
    assert phase == "Succeeded", log[-6000:]
    assert (volume / "word.txt").read_text() == f"the sum of 16 squares is {sum(n * n for n in range(16))}\n"
    assert len(watched.jobs) == FLOW, sorted(watched.jobs)
    assert all(map(adopted, watched.jobs.values()))
    assert watched.asked.total() == INTERRUPTIONS
    assert watched.interrupted == watched.asked
    starts = {name: _starts(volume / "begun", name) for name in watched.jobs}
    assert starts == {name: 1 + watched.asked[name] for name in watched.jobs}
    assert log.count(" succeeded.") == FLOW
    assert " failed" not in log


def _load_image(cluster: Cluster) -> None:
    """Have the image of Snakemake in every node, built where there is none of these requirements yet."""
    containerfile, context = FOLDER / "Containerfile", ROOT / "dist" / "image" / "snakemake"
    sources = images.Sources((FOLDER / REQUIREMENTS,), FOLDER, partial(_prepare, context))
    archive = images.build_image(SNAKEMAKE, context, cluster.report, containerfile=containerfile, sources=sources)
    cluster.load_image(archive)


def _prepare(context: Path) -> None:
    """Write the context: the packages for the Python of the local base, and the storage plugin as a wheel again."""
    shutil.rmtree(context, ignore_errors=True)
    app = context / "app"
    into = ("--target", app, "--python-version", "3.11", "--link-mode", "copy", "--compile-bytecode")
    run([ROOT / "tools" / "uv", "pip", "install", "--no-deps", *into, "-r", FOLDER / REQUIREMENTS], timeout=600)
    (stem,) = (one.name.removesuffix(".dist-info") for one in app.glob(f"{STORAGE}-*.dist-info"))
    (context / "wheels").mkdir()
    with zipfile.ZipFile(context / "wheels" / f"{stem}-py3-none-any.whl", "w") as wheel:
        for path in app.glob(f"{STORAGE}*/**/*"):
            wheel.write(path, path.relative_to(app))


def _starts(folder: Path, job: str) -> int:
    """How often the program of a Job has begun, in pods of whatever name."""
    return sum(len(path.read_text().splitlines()) for path in folder.glob(f"{job}-*"))


def _workflow(namespace: str) -> list[Object]:
    """The program, its rights and its rules."""
    rules = [{"apiGroups": [group], "resources": kinds, "verbs": verbs} for group, kinds, verbs in RIGHTS]
    rbac = "rbac.authorization.k8s.io"
    flow = {"kind": "ServiceAccount", "name": "flow", "namespace": namespace}
    container = {
        "name": "snakemake",
        "image": SNAKEMAKE,
        "command": ["sh", "-c", COMMAND.format(namespace=namespace, image=SNAKEMAKE)],
        "workingDir": "/run",
        "env": [{"name": "HOME", "value": "/run"}],
        "volumeMounts": [
            {"name": "run", "mountPath": "/run"},
            {"name": "flow", "mountPath": "/flow"},
            {"name": "state", "mountPath": "/work"},
        ],
    }
    pod = {
        "restartPolicy": "Never",
        "serviceAccountName": "flow",
        "terminationGracePeriodSeconds": 2,
        "containers": [container],
        "volumes": [
            {"name": "run", "emptyDir": {}},
            {"name": "flow", "configMap": {"name": "flow"}},
            {"name": "state", "persistentVolumeClaim": {"claimName": "state"}},
        ],
    }
    snakefile = (FOLDER / "Snakefile").read_text()
    named = {"metadata": {"name": "flow"}}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", **named},
        {"apiVersion": f"{rbac}/v1", "kind": "Role", **named, "rules": rules},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            **named,
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "flow"},
            "subjects": [flow],
        },
        {"apiVersion": "v1", "kind": "ConfigMap", **named, "data": {"Snakefile": snakefile}},
        {"apiVersion": "v1", "kind": "Pod", **named, "spec": pod},
    ]
