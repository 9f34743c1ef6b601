from __future__ import annotations

from typing import Any

import pytest
import yaml
from scavenger_api.job import ScavengerJob
from scavenger_api.queue import ScavengerQueue
from scavenger_cli.exits import CliError, ExitCode
from scavenger_cli.manifests import RunOptions, is_ours, mount, parse, scavenger_job, scavenger_queue

from .conftest import Run

HEAD = "apiVersion: scavenger.dev/v1alpha1\nkind: ScavengerJob\nmetadata: {name: a}\n"


def test_documents_and_lists() -> None:
    queue = "{apiVersion: scavenger.dev/v1alpha1, kind: ScavengerQueue, metadata: {name: q}}"
    text = f"---\n{HEAD}---\n---\nkind: List\napiVersion: v1\nitems:\n- {queue}\n"
    assert [(one["kind"], one["metadata"]["name"]) for one in parse(text, "f")] == [
        *(("ScavengerJob", "a"), ("ScavengerQueue", "q"))
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "f holds no object"),
        ("a: b: c", "f is not YAML"),
        ("- 1", "f: not an object, but list"),
        ("kind: Job\napiVersion: batch/v1", "f holds no ScavengerJob"),
        ("kind: ScavengrJob\napiVersion: scavenger.dev/v1alpha1", "ScavengrJob of scavenger.dev/v1alpha1 is not"),
        ("kind: ScavengerJob\napiVersion: batch/v1", "ScavengerJob of batch/v1 is not"),
        (HEAD + "---\nmetadata: {name: a}", "f, object 2: no kind of no apiVersion is not"),
        (HEAD.replace("v1alpha1", "v1"), "scavenger.dev/v1 is not"),
        (HEAD + "---\n" + HEAD.replace("{name: a}", "{}"), "f, object 2: metadata.name is missing"),
    ],
)
def test_what_is_no_manifest(text: str, words: str) -> None:
    with pytest.raises(CliError, match=words) as caught:
        parse(text, "f")
    assert caught.value.code is ExitCode.USAGE


def test_objects_of_other_kinds_are_left_to_apply() -> None:
    claim = "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: state}}"
    read = parse(f"{claim}\n---\n{HEAD}", "f")
    assert [one["metadata"]["name"] for one in read if is_ours(one)] == ["a"]
    assert [one["kind"] for one in read if not is_ours(one)] == ["PersistentVolumeClaim"]


def test_every_option_of_run_is_a_field_of_the_spec() -> None:
    options = RunOptions(
        image="i",
        cpu="2",
        memory="4Gi",
        words=["--steps=5"],
        parallelism=4,
        queue="night",
        snapshot="state",
        interruption_after="10m",
        checkpoint_exit_code=85,
        grace_seconds=5,
        ttl_seconds=60,
        suspend=True,
        service_account="runner",
        user=0,
        fs_group=1000,
        env=["A=1", "B=x=y"],
        resources=["nvidia.com/gpu=1"],
        node_selector=["disk=ssd"],
        pvcs=["state:/state"],
        config_maps=["conf:/conf:ro"],
        secrets=["key:/key"],
        labels=["team=md"],
    )
    made = scavenger_job("sim", options)
    assert made["metadata"] == {"name": "sim", "labels": {"team": "md"}}
    model = ScavengerJob.model_validate(made)
    written = model.spec.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)
    assert written == made["spec"]
    assert made["spec"] == {
        "image": "i",
        "args": ["--steps=5"],
        "parallelism": 4,
        "queue": "night",
        "interruptionAfter": "10m",
        "checkpointExitCode": 85,
        "snapshot": {"volume": "state"},
        "terminationGracePeriodSeconds": 5,
        "ttlSecondsAfterFinished": 60,
        "suspend": True,
        "serviceAccountName": "runner",
        "runAsUser": 0,
        "fsGroup": 1000,
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "x=y"}],
        "resources": {"requests": {"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": "1"}},
        "nodeSelector": {"disk": "ssd"},
        "persistentVolumeClaims": [{"name": "state", "mountPath": "/state"}],
        "configMaps": [{"name": "conf", "mountPath": "/conf", "readOnly": True}],
        "secrets": [{"name": "key", "mountPath": "/key"}],
    }


def test_what_was_not_given_is_left_to_the_api() -> None:
    plain = scavenger_job("sim", RunOptions("i", "1", "1Gi"))
    assert plain["spec"] == {"image": "i", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    command = scavenger_job("sim", RunOptions("i", "1", "1Gi", words=["python", "x.py"], command=True))
    assert (command["spec"]["command"], "args" in command["spec"]) == (["python", "x.py"], False)


def test_queues() -> None:
    made = scavenger_queue("night", 3, ["cpu=200,memory=1Ti", "nvidia.com/gpu=4"])
    model = ScavengerQueue.model_validate(made)
    assert (model.spec.weight, model.spec.quota) == (3, {"cpu": "200", "memory": "1Ti", "nvidia.com/gpu": "4"})
    assert scavenger_queue("night", 1, ())["spec"] == {"weight": 1}


@pytest.mark.parametrize("text", ["state", "state:relative", ":/path", "state:/path:rw"])
def test_what_is_no_mount(text: str) -> None:
    with pytest.raises(CliError, match="is not a mount"):
        mount("--pvc", text)


@pytest.mark.parametrize("change", [{"env": ["A"]}, {"resources": ["=1"]}])
def test_what_is_no_assignment(change: dict[str, Any]) -> None:
    with pytest.raises(CliError, match="is not an assignment"):
        scavenger_job("sim", RunOptions("i", "1", "1Gi", **change))


def test_run_of_an_array(sj: Run) -> None:
    words = ("run", "sweep", "--image", "i", "--cpu", "1", "--memory", "1Gi", "--dry-run=client", "-o", "yaml")
    code, out, _ = sj(*words, "--array", "1-20%4", "--backoff-limit", "2")
    spec = yaml.safe_load(out)["spec"]
    assert (code, spec["array"], spec["backoffLimit"]) == (0, {"indexes": "1-20", "maxRunning": 4}, 2)
    assert sj(*words, "--array", "20-1")[0] == 2
    assert "parallelism 1" in sj(*words, "--array", "1-20", "--parallelism", "2")[2]


def test_run_after_other_jobs(sj: Run) -> None:
    words = ("run", "sum", "--image", "i", "--cpu", "1", "--memory", "1Gi", "--dry-run=client", "-o", "yaml")
    code, out, _ = sj(*words, "--after", "sweep", "--after", "prep:ended")
    assert (code, yaml.safe_load(out)["spec"]["after"]) == (0, [{"job": "sweep"}, {"job": "prep", "when": "Ended"}])
    assert "NAME:ended for one that may fail" in sj(*words, "--after", "sweep:started")[2]
    assert "spec.after: a job cannot start after itself" in sj(*words, "--after", "sum")[2]


def test_run_with_recommended_requests() -> None:
    made = scavenger_job("sim", RunOptions(image="i", cpu="2", memory="4Gi", recommended=True))
    assert made["spec"]["resourcesFrom"] == "Recommended"
    assert made["spec"]["resources"] == {"requests": {"cpu": "2", "memory": "4Gi"}}
    assert "resourcesFrom" not in scavenger_job("sim", RunOptions(image="i", cpu="2", memory="4Gi"))["spec"]


def test_run_on_reclaimed_capacity_sets_limits() -> None:
    options = RunOptions(image="i", cpu="2", memory="4Gi", resources=["nvidia.com/gpu=1"], reclaimed=True)
    made = scavenger_job("sweep", options)
    assert made["spec"]["capacity"] == "Reclaimed"
    assert made["spec"]["resources"] == {"limits": {"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": "1"}}
    assert "capacity" not in scavenger_job("sim", RunOptions(image="i", cpu="2", memory="4Gi"))["spec"]
