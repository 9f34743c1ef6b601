"""Jobs with snapshots: what becomes of their program, and when they are not started."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from scavenger_admitter.core import snapshots
from scavenger_admitter.core.lifecycle.observation import LifecycleSettings
from scavenger_admitter.core.manifest import job_manifest
from scavenger_admitter.core.pods_of_job import pod_of_task
from scavenger_admitter.slim_jobs import slim
from scavenger_api.job import Phase, ScavengerJob
from scavenger_api.rules.job import problems_of_its_own, warnings_of_its_own

from . import builders as b

IMAGE = "registry.example.com/scavenger/snapshot:1"
SNAPSHOT = {"volume": "work", "every": "10m"}
CLAIM = {"name": "work", "mountPath": "/data"}
SHORT: dict[str, Any] = {
    "command": ["./simulate", "--case", "$(SCAVENGER_INDEX)"],
    "args": ["--long"],
    "persistentVolumeClaims": [CLAIM],
    "snapshot": SNAPSHOT,
}


def job(phase: Phase | None = None, **spec: Any) -> ScavengerJob:
    return b.job(phase, spec={**SHORT, **spec})


def of_template(main: dict[str, Any], **spec: Any) -> ScavengerJob:
    some = {"cpu": "1", "memory": "1Gi"}
    sidecar = {"name": "log", "image": "log:1", "resources": {"requests": some, "limits": some}}
    program = {"name": "sim", "image": "sim:2", "resources": {"requests": some, "limits": some}, **main}
    volumes = [{"name": "work", "persistentVolumeClaim": {"claimName": "work"}}]
    template = {"spec": {"containers": [sidecar, program], "volumes": volumes}}
    fields = {"image": None, "resources": None, "template": template, "mainContainer": "sim", "snapshot": SNAPSHOT}
    return b.job(spec={**fields, **spec})


def pod(made: ScavengerJob) -> dict[str, Any]:
    body = job_manifest(made, restarts=0, run="r", max_grace_seconds=20, snapshot_image=IMAGE)
    found: dict[str, Any] = body["spec"]["template"]["spec"]
    return found


def test_the_program_runs_under_snap() -> None:
    (bring,), (main,) = (pod(job())[kind] for kind in ("initContainers", "containers"))
    assert (bring["image"], bring["args"]) == (IMAGE, ["install", "/.scavenger"])
    assert bring["resources"] == main["resources"]
    assert main["command"] == [
        "/.scavenger/snap",
        "run",
        "--base=/data",
        f"--dir=/data/.snapshot/ns_{b.UID}",
        "--key=/.scavenger-key/job-snapshot-key",
        "--adopt=/data/.snapshot/job",
        "--every=600s",
        "--grace=20s",
        "--exit-code=85",
        f"--owner={b.UID}",
        f"--image-id={job().spec.image}",
        "--",
        *SHORT["command"],
        "--long",
    ]
    assert "args" not in main
    mounted = {mount["mountPath"]: mount["name"] for mount in main["volumeMounts"]}
    assert {volume["name"] for volume in pod(job())["volumes"]} == set(mounted.values())
    assert bring["volumeMounts"] == [{"name": mounted["/.scavenger"], "mountPath": "/.scavenger"}]


def test_a_template_keeps_its_other_containers() -> None:
    made = of_template({"command": ["sim"], "volumeMounts": [{"name": "work", "mountPath": "/w/"}]})
    log, main = pod(made)["containers"]
    assert "command" not in log
    assert main["command"][2:4] == ["--base=/w", f"--dir=/w/.snapshot/ns_{b.UID}"]
    assert main["command"][-1] == "sim"


def test_each_task_has_a_folder_of_its_own() -> None:
    made = job(array={"tasks": 3})
    body = job_manifest(made, restarts=0, run="r", max_grace_seconds=20, snapshot_image=IMAGE)
    body["metadata"]["uid"] = "u"
    task = pod_of_task(body, 2, queue="q", affinity={})
    (main,) = task["spec"]["containers"]
    assert f"--dir=/data/.snapshot/ns_{b.UID}/$(SCAVENGER_TASK)" in main["command"]
    assert f"--owner={b.UID}/$(SCAVENGER_TASK)" in main["command"]
    assert {"name": "SCAVENGER_TASK", "value": "2"} in main["env"]


@pytest.mark.parametrize("every", ["99999999999999999999h", "31m"])
def test_interruption_after_bounds_the_time_between_snapshots(every: str) -> None:
    """The webhook refuses such a time, and is optional."""
    (main,) = pod(job(snapshot={"volume": "work", "every": every}, interruptionAfter="30m"))["containers"]
    assert "--every=1800s" in main["command"]


def test_two_jobs_never_have_one_folder() -> None:
    """Neither two of one name in two namespaces that share a volume, nor one that is created again."""
    first = job()
    others = [{"namespace": "other"}, {"uid": "another-uid"}]
    made = [first, *(first.model_copy(update={"metadata": first.metadata.model_copy(update=one)}) for one in others)]
    folders = {word for one in made for word in pod(one)["containers"][0]["command"] if word.startswith("--dir=")}
    assert len(folders) == 3


def test_only_the_program_finds_the_key() -> None:
    made = of_template({"command": ["sim"], "volumeMounts": [{"name": "work", "mountPath": "/w/"}]})
    found = pod(made)
    volume = next(one for one in found["volumes"] if one["name"] == snapshots.KEY)
    assert volume["secret"] == {"secretName": "job-snapshot-key", "defaultMode": 0o444}
    mounts = {
        one["name"]: [mount for mount in one.get("volumeMounts", ()) if mount["name"] == snapshots.KEY]
        for one in (*found["initContainers"], *found["containers"])
    }
    mount = {"name": snapshots.KEY, "mountPath": "/.scavenger-key/job-snapshot-key", "readOnly": True}
    assert mounts == {snapshots.NAME: [], "log": [], "sim": [mount]}


@pytest.mark.parametrize(
    ("spec", "ran", "adopts"), [({}, False, False), ({}, True, True), ({"array": {"tasks": 2}}, True, False)]
)
def test_the_secret_says_whose_it_is(spec: dict[str, Any], ran: bool, adopts: bool) -> None:
    """And whether the job has snapshots from before there were keys. An array goes on as it was started."""
    made = job(**spec)
    if ran:
        made = made.model_copy(update={"status": made.status.model_copy(update={"running_timestamps": (b.at(9),)})})
    body = snapshots.key_manifest(made, b"k" * 32)
    assert (body["type"], body["immutable"]) == ("scavenger.dev/snapshot-key", True)
    assert body["metadata"]["name"] == "job-snapshot-key"
    (owner,) = body["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("ScavengerJob", b.UID, True)
    data = {name: base64.b64decode(value) for name, value in body["data"].items()}
    assert data == {"key": b"k" * 32, "owner": b.UID.encode(), **({"adopt": b"true"} if adopts else {})}


def test_jobs_without_snapshots_change_in_nothing() -> None:
    made = job(snapshot=None)
    plain = job_manifest(made, restarts=0, run="r", max_grace_seconds=20)
    assert job_manifest(made, restarts=0, run="r", max_grace_seconds=20, snapshot_image=IMAGE) == plain


def test_each_snapshot_counts_as_a_checkpoint() -> None:
    assert job().spec.checkpoint_interval.total_seconds() == 600
    assert job(snapshot={"volume": "work"}).spec.checkpoint_interval.total_seconds() == 1800
    assert (job().spec.saved_exit_code, job(checkpointExitCode=3).spec.saved_exit_code) == (85, 3)
    assert job(snapshot=None).spec.saved_exit_code is None


PROBLEMS: list[tuple[dict[str, Any], str]] = [
    ({"command": None}, "spec.command"),
    ({"persistentVolumeClaims": [CLAIM | {"name": "other"}]}, "spec.snapshot.volume"),
    ({"persistentVolumeClaims": [CLAIM | {"readOnly": True}]}, "spec.snapshot.volume"),
    ({"snapshot": SNAPSHOT | {"every": "29s"}}, "spec.snapshot.every"),
    ({"snapshot": SNAPSHOT | {"every": "31m"}}, "spec.snapshot.every"),
]


@pytest.mark.parametrize(("spec", "field"), PROBLEMS)
def test_what_it_lacks_is_told_by_its_field(spec: dict[str, Any], field: str) -> None:
    assert [problem.field for problem in problems_of_its_own(job(**spec).spec)] == [field]


@pytest.mark.parametrize(
    ("main", "field"),
    [
        ({"volumeMounts": [{"name": "work", "mountPath": "/w"}]}, "spec.template.spec.containers[1].command"),
        ({"command": ["sim"]}, "spec.snapshot.volume"),
        (
            {"command": ["sim"], "volumeMounts": [{"name": "work", "mountPath": "/w", "readOnly": True}]},
            "spec.snapshot.volume",
        ),
    ],
)
def test_so_is_what_its_template_lacks(main: dict[str, Any], field: str) -> None:
    assert [problem.field for problem in problems_of_its_own(of_template(main).spec)] == [field]


def test_nothing_is_wrong_with_a_whole_one() -> None:
    assert list(problems_of_its_own(job().spec)) == []
    assert list(warnings_of_its_own(job().spec)) == []


@pytest.mark.parametrize(("snapshot", "warned"), [(SNAPSHOT, 1), (None, 0)])
def test_who_asks_for_devices_is_told_that_there_are_none(snapshot: Any, warned: int) -> None:
    some = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}
    made = job(resources={"requests": some, "limits": some}, snapshot=snapshot)
    assert ["asks for nvidia.com/gpu" in text for text in warnings_of_its_own(made.spec)] == [True] * warned


@pytest.mark.parametrize(
    ("spec", "there", "words"),
    [
        ({}, False, "there are no snapshots on this cluster"),
        ({"command": None}, True, "spec.command"),
    ],
)
def test_a_job_that_cannot_have_them_has_failed(spec: dict[str, Any], there: bool, words: str) -> None:
    made = b.decide(b.seen(job(Phase.WAITING, **spec), 5, rules=LifecycleSettings(snapshots=there)))
    assert made.status.phase is Phase.FAILED
    assert words in (made.status.message or "")


def test_others_stand_for_admission() -> None:
    made = b.decide(b.seen(job(Phase.WAITING), 5, rules=LifecycleSettings(snapshots=True)))
    assert made.candidate
    assert made.status.phase is Phase.WAITING


def test_a_large_one_is_kept_without_its_words() -> None:
    words = ["./simulate", *("x" * 1000 for _ in range(40))]
    small = slim(job(command=words))
    assert small.spec.command == ("",)
    assert list(problems_of_its_own(small.spec)) == []
