"""convert: Jobs and CronJobs as ScavengerJobs, and what is said of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from scavenger_cli.convert import converted
from scavenger_cli.exits import CliError
from scavenger_cli.lint.check import check
from scavenger_domain.pod_security import Level
from scavenger_testing import pages

from .conftest import Run

PAGE = Path(__file__).resolve().parents[3] / "docs" / "move-a-job.md"
BLOCKS = [yaml.safe_load(block) for block in pages.blocks(PAGE, "## Before and after", "yaml")]
PAIRS = list(zip(BLOCKS[::2], BLOCKS[1::2], strict=True))
POD: dict[str, Any] = {
    "containers": [{"name": "main", "image": "app:1", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}]
}


def job(pod: dict[str, Any] | None = None, metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    template = {"spec": POD | (pod or {})} | ({"metadata": metadata} if metadata else {})
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "sim"},
        "spec": {"backoffLimit": 0, "template": template} | spec,
    }


@pytest.mark.parametrize(("before", "after"), PAIRS, ids=[after["metadata"]["name"] for _, after in PAIRS])
def test_the_pairs_of_the_page(before: dict[str, Any], after: dict[str, Any]) -> None:
    made, _ = converted(before)
    assert check(made, Level.RESTRICTED) == ([], [])
    if "template" in after["spec"]:
        assert {**made, "spec": after["spec"] | made["spec"]} == {**after, "spec": after["spec"] | made["spec"]}
        assert made["spec"]["template"] == after["spec"]["template"]
        assert made["spec"].get("parallelism") == after["spec"].get("parallelism")


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        (job(), []),
        (job(completionMode="NonIndexed", suspend=True, ttlSecondsAfterFinished=60), []),
        (job(successPolicy={}), ["spec.successPolicy: left out"]),
        (job(parallelism=4), ["spec.parallelism: the 4 workers of a queue are 4 tasks"]),
        (job(parallelism=4, completions=4, completionMode="Indexed"), ["spec.parallelism: the 4 pods are one gang"]),
        (job(parallelism=4, completions=1), []),
        (job({"restartPolicy": "Never", "schedulerName": "default-scheduler"}), []),
        (job({"restartPolicy": "OnFailure"}), ["spec.template.spec.restartPolicy: OnFailure is left out"]),
        (job({"priorityClassName": "high"}), ["spec.template.spec.priorityClassName: high is left out"]),
        (job({"nodeName": "n"}), ["spec.template.spec.nodeName: left out: the scheduler"]),
        (
            job({"containers": POD["containers"] * 2}),
            ["spec.template.spec.containers: the first, main, is"],
        ),
        (job(metadata={"creationTimestamp": None, "finalizers": ["a/b"]}), ["spec.template.metadata.finalizers"]),
        (
            job(metadata={"annotations": {"karpenter.sh/do-not-disrupt": "true", "a": "b"}}),
            ["spec.template.metadata.annotations[karpenter.sh/do-not-disrupt]: the admitter leaves it out"],
        ),
        (job(selector={"matchLabels": {"controller-uid": "u"}}, manualSelector=False), []),
    ],
)
def test_a_line_for_each_thing_that_changes(given: dict[str, Any], lines: list[str]) -> None:
    _, found = converted(given)
    assert len(found) == len(lines), found
    assert all(line.startswith(start) for line, start in zip(found, lines, strict=True)), found


def test_an_absent_backoff_limit_is_six() -> None:
    given = job()
    del given["spec"]["backoffLimit"]
    made, lines = converted(given)
    assert (made["spec"]["backoffLimit"], lines) == (6, [])


def test_retries_and_the_deadline_are_kept() -> None:
    made, lines = converted(job(backoffLimit=3, activeDeadlineSeconds=60))
    assert (made["spec"]["backoffLimit"], made["spec"]["activeDeadlineSeconds"], lines) == (3, 60, [])


def test_rules_about_failures_are_kept_where_they_mean_the_same() -> None:
    final = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [2]}}
    free = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
    never = {**free, "action": "FailJob"}
    index = {**final, "action": "FailIndex"}
    made, lines = converted(job(podFailurePolicy={"rules": [final, free, never, index]}))
    assert made["spec"]["podFailurePolicy"] == {"rules": [final, free, never]}
    assert lines == [
        "spec.podFailurePolicy.rules[2]: never matches: an interruption is no failure",
        "spec.podFailurePolicy.rules[3]: left out: a gang has no index that fails alone",
    ]


def test_what_the_api_server_wrote_is_not_kept() -> None:
    labels = {"controller-uid": "u", "batch.kubernetes.io/job-name": "sim", "team": "a"}
    given = job(metadata={"labels": labels}) | {"status": {"active": 1}}
    given["metadata"] |= {"uid": "u", "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"}}
    made, lines = converted(given)
    assert made["metadata"] == {"name": "sim"}
    assert made["spec"]["template"]["metadata"] == {"labels": {"team": "a"}}
    assert (lines, "status" in made) == ([], False)


def test_a_cron_job_loses_its_schedule() -> None:
    given = job(completions=3, parallelism=3, completionMode="Indexed")
    cron = given | {"kind": "CronJob", "spec": {"schedule": "@daily", "jobTemplate": {"spec": given["spec"]}}}
    made, lines = converted(cron)
    assert made["spec"] == {"parallelism": 3, "template": {"spec": POD}}
    assert lines == [
        "spec.schedule: left out: a ScavengerJob has nothing like it",
        "spec.jobTemplate.spec.parallelism: the 3 pods are one gang: all run or none, and all must succeed",
    ]


def job_set(*jobs: dict[str, Any], **spec: Any) -> dict[str, Any]:
    api = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "sim"}}
    return {**api, "spec": {"replicatedJobs": [*jobs], **spec}}


def replicated(replicas: int, **spec: Any) -> dict[str, Any]:
    return {"name": "w", "replicas": replicas, "template": {"spec": job(**spec)["spec"]}}


def test_a_job_set_of_pods_that_are_alike_is_a_gang() -> None:
    policy = {"failurePolicy": {"maxRestarts": 3}, "network": {"enableDNSHostnames": True}, "suspend": True}
    made, lines = converted(job_set(replicated(2, completions=4, parallelism=4), **policy))
    assert made["kind"] == "ScavengerJob"
    assert (made["spec"]["parallelism"], made["spec"]["backoffLimit"], made["spec"]["suspend"]) == (8, 3, True)
    assert check(made, Level.RESTRICTED)[0] == []
    assert [line.partition(":")[0] for line in lines] == [
        "spec.replicatedJobs[0].replicas",
        "spec.network",
        "spec.replicatedJobs[0].template.spec.parallelism",
    ]


def pytorch(master: dict[str, Any], worker: dict[str, Any], **spec: Any) -> dict[str, Any]:
    api = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "sim"}}
    roles = {"Master": {"replicas": 1, "template": master}, "Worker": {"replicas": 3, "template": worker}}
    return {**api, "spec": {"pytorchReplicaSpecs": roles, **spec}}


TORCH = [
    {"name": "MASTER_ADDR", "value": "sim-0.sj-sim"},
    {"name": "MASTER_PORT", "value": "23456"},
    {"name": "WORLD_SIZE", "value": "$(SCAVENGER_PARALLELISM)"},
    {"name": "RANK", "value": "$(SCAVENGER_INDEX)"},
]


def test_a_pytorch_job_is_a_gang_whose_first_is_the_master() -> None:
    template = {"spec": POD}
    made, lines = converted(pytorch(template, template, runPolicy={"backoffLimit": 2, "activeDeadlineSeconds": 60}))
    assert made["spec"] == {
        "activeDeadlineSeconds": 60,
        "parallelism": 4,
        "backoffLimit": 2,
        "template": {"spec": {"containers": [POD["containers"][0] | {"env": TORCH}]}},
    }
    assert check(made, Level.RESTRICTED)[0] == []
    assert [line.partition(":")[0] for line in lines] == ["spec.pytorchReplicaSpecs.Master.parallelism"]
    nameless = pytorch(template, template) | {"metadata": {"generateName": "sim-"}}
    made, lines = converted(nameless)
    assert made["spec"]["template"]["spec"]["containers"][0]["env"] == TORCH[1:]
    assert "MASTER_ADDR is not known" in lines[-1]
    with pytest.raises(CliError, match="not alike"):
        converted(pytorch(template, {"spec": {**POD, "hostname": "x"}}))
    made = pytorch(template, template)
    made["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = "3"
    with pytest.raises(CliError, match="replicas is not a number"):
        converted(made)


def test_a_job_set_of_different_jobs_is_no_gang() -> None:
    with pytest.raises(CliError, match="not alike"):
        converted(job_set(replicated(1), replicated(1)))


@pytest.mark.parametrize("given", [job() | {"spec": 1}, job() | {"metadata": None}])
def test_what_cannot_be_converted(given: dict[str, Any]) -> None:
    with pytest.raises(CliError):
        converted(given)


def test_the_command(sj: Run, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text("\n---\n".join(map(json.dumps, (job(), job({"restartPolicy": "OnFailure"})))))
    mpi = {"apiVersion": "kubeflow.org/v1", "kind": "MPIJob", "metadata": {"name": "sim"}, "spec": {}}
    bare = job({"containers": [{"name": "main", "image": "app:1"}]})
    bad.write_text("\n---\n".join(map(json.dumps, (mpi, bare))))

    code, out, err = sj("convert", str(good))
    assert (code, len(list(yaml.safe_load_all(out)))) == (0, 2)
    assert "Job sim: spec.template.spec.restartPolicy: OnFailure is left out" in err
    assert err.startswith(
        "Job sim: where the cluster adopts Jobs, it stays one: the label scavenger.dev/queue is enough"
    )
    assert err.count("is enough") == 1, "said once"
    out_file = tmp_path / "made.yaml"
    out_file.write_text(out)
    assert sj("lint", str(out_file))[0] == 0

    code, out, err = sj("convert", str(bad))
    assert (code, len(list(yaml.safe_load_all(out)))) == (2, 1)
    assert not err.startswith("MPIJob sim: where")
    assert "MPIJob sim: spec.mpiReplicaSpecs: a launcher and its workers are not alike" in err
    assert "memory is mandatory" in err
    assert err.endswith("error: 3 problems\n")
    assert sj("convert", str(out_file))[0] == 2


def test_lint_of_a_job_points_to_it(sj: Run, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(json.dumps(job()))
    code, _, err = sj("lint", str(path))
    assert code == 2
    assert "`kubectl sj convert` makes ScavengerJobs of Job, CronJob, JobSet, MPIJob, PyTorchJob" in err


# --- pods, and MPIJobs ---

TOKEN = {"name": "kube-api-access-x7k2p"}
EXECUTOR = {"name": "wait", "image": "argoexec:v3", "command": ["argoexec", "wait"], "volumeMounts": [TOKEN]}


def pod(*containers: dict[str, Any], **more: Any) -> dict[str, Any]:
    metadata = {"name": "step", "uid": "u", **more.pop("metadata", {})}
    kept = {"nodeName": "n1", "priority": 0, "preemptionPolicy": "PreemptLowerPriority", "restartPolicy": "Never"}
    spec = {**kept, "serviceAccountName": "default", "serviceAccount": "default", **more, "containers": [*containers]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Running"}}


def test_of_a_pod_what_the_api_server_wrote_goes() -> None:
    main = {**POD["containers"][0], "volumeMounts": [{**TOKEN, "mountPath": "/var/run"}]}
    given = pod(main, volumes=[{**TOKEN, "projected": {}}], tolerations=[{"key": "node.kubernetes.io/not-ready"}])
    made, lines = converted(given)
    assert made == {
        "apiVersion": "scavenger.dev/v1alpha1",
        "kind": "ScavengerJob",
        "metadata": {"name": "step"},
        "spec": {"template": {"spec": POD}},
    }
    assert lines == []


def test_of_a_pod_of_argo_the_program_is_left() -> None:
    executor = {"name": "init", "image": "argoexec:v3", "command": ["argoexec", "init"]}
    main = {
        **POD["containers"][0],
        "command": ["/var/run/argo/argoexec", "emissary", "--loglevel", "info", "--", "python", "sim.py"],
        "args": ["--steps=9"],
        "env": [{"name": "ARGO_CONTAINER_NAME", "value": "main"}, {"name": "SEED", "value": "7"}],
        "volumeMounts": [
            {"name": "var-run-argo", "mountPath": "/var/run/argo"},
            {"name": "data", "mountPath": "/data"},
        ],
    }
    volumes = [{"name": "var-run-argo", "emptyDir": {}}, {"name": "data", "persistentVolumeClaim": {"claimName": "d"}}]
    marks = {"labels": {"workflows.argoproj.io/workflow": "w", "team": "a"}}
    made, lines = converted(pod(EXECUTOR, main, initContainers=[executor], volumes=volumes, metadata=marks))
    left = {
        "name": "main",
        "image": "app:1",
        "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
        "command": ["python", "sim.py"],
        "args": ["--steps=9"],
        "env": [{"name": "SEED", "value": "7"}],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    assert made["spec"] == {
        "template": {"metadata": {"labels": {"team": "a"}}, "spec": {"containers": [left], "volumes": volumes[1:]}}
    }
    assert check(made, Level.RESTRICTED)[0] == []
    assert len(lines) == 1
    assert "the executor (init, wait) is left out; Argo Workflows does not see" in lines[0]


def test_of_a_pod_of_nextflow_the_labels_go() -> None:
    task = {**POD["containers"][0], "name": "nf-1", "args": ["/usr/bin/bash", "-ue", "/work/.command.run"]}
    made, lines = converted(pod(task, metadata={"labels": {"nextflow.io/app": "nextflow"}}))
    assert made["spec"] == {"template": {"spec": {"containers": [task]}}}
    assert lines == [
        "metadata.labels: nextflow.io/* are left out; Nextflow does not see what becomes of a ScavengerJob: run it "
        "outside the workflow, or wait for it in a step"
    ]


def test_a_pod_without_containers_is_none() -> None:
    with pytest.raises(CliError, match=r"spec\.containers"):
        converted({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {}})


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
def test_an_mpi_job_is_refused_with_what_to_do(sj: Run, tmp_path: Path, version: str) -> None:
    path = tmp_path / "mpi.yaml"
    kind = {"apiVersion": f"kubeflow.org/{version}", "kind": "MPIJob", "metadata": {"name": "wave"}, "spec": {}}
    path.write_text(json.dumps(kind))
    code, out, err = sj("convert", str(path))
    assert (code, out) == (2, "")
    assert "MPIJob wave: spec.mpiReplicaSpecs: a launcher and its workers are not alike" in err
    assert "demo-apps/mpi" in err


# --- arrays ---


@pytest.mark.parametrize(
    ("spec", "array", "limit", "lines"),
    [
        ({"completions": 5, "parallelism": 2}, {"tasks": 5, "maxRunning": 2, "failFast": True}, None, []),
        ({"completions": 50, "parallelism": 50}, {"tasks": 50, "failFast": True}, None, []),
        (
            {"completions": 50, "parallelism": 5, "completionMode": "Indexed", "backoffLimitPerIndex": 2},
            {"tasks": 50, "maxRunning": 5},
            2,
            [],
        ),
        (
            {"completions": 4, "backoffLimit": 3},
            {"tasks": 4, "maxRunning": 1, "failFast": True},
            3,
            ["spec.backoffLimit: 3 is for each task, and not for all together"],
        ),
        (
            {"completions": 4, "backoffLimit": 99, "activeDeadlineSeconds": 60},
            {"tasks": 4, "maxRunning": 1, "failFast": True},
            15,
            ["spec.backoffLimit: 99 becomes 15, the most that a task of an array has"],
        ),
        (
            {"parallelism": 3},
            {"tasks": 3, "failFast": True},
            None,
            [
                "spec.parallelism: the 3 workers of a queue are 3 tasks; one that is interrupted starts again, also "
                "when the queue is empty"
            ],
        ),
    ],
)
def test_pods_that_do_without_each_other_are_an_array(
    spec: dict[str, Any], array: dict[str, Any], limit: int | None, lines: list[str]
) -> None:
    made, found = converted(job(**spec))
    assert made["spec"]["array"] == array
    assert "parallelism" not in made["spec"]
    assert (made["spec"].get("backoffLimit"), found) == (limit, lines)
    assert check(made, Level.RESTRICTED)[0] == []


def test_a_rule_for_an_index_stays_where_indexes_are_tasks() -> None:
    rule = {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [3]}}
    many: dict[str, Any] = {"completions": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 1}
    made, lines = converted(job(**many, activeDeadlineSeconds=60, podFailurePolicy={"rules": [rule]}))
    assert (made["spec"]["podFailurePolicy"], made["spec"]["activeDeadlineSeconds"]) == ({"rules": [rule]}, 60)
    assert lines == []
    assert check(made, Level.RESTRICTED)[0] == []


# --- what was dropped in silence ---


def test_a_pytorch_job_that_restarts_is_told() -> None:
    given = pytorch({"spec": POD}, {"spec": POD}, runPolicy={"cleanPodPolicy": "All"})
    given["spec"]["pytorchReplicaSpecs"]["Worker"]["restartPolicy"] = "OnFailure"
    given["spec"]["pytorchReplicaSpecs"]["Master"]["restartPolicy"] = "Never"
    told = [line.partition(":")[0] for line in converted(given)[1]]
    assert told[:2] == ["spec.runPolicy.cleanPodPolicy", "spec.pytorchReplicaSpecs.Worker.restartPolicy"]


def test_a_job_set_that_restarts_otherwise_is_told() -> None:
    given = job_set(
        {**replicated(2), "groupName": "g"}, failurePolicy={"maxRestarts": 1, "restartStrategy": "Recreate"}
    )
    told = [line.partition(":")[0] for line in converted(given)[1]]
    assert {"spec.failurePolicy.restartStrategy", "spec.replicatedJobs[0].groupName"} <= {*told}


def test_members_find_each_other_by_the_service_of_the_gang() -> None:
    main = {
        **POD["containers"][0],
        "command": ["torchrun", "--master-addr=sim-0.peers:29500"],
        "args": ["sim-$(JOB_COMPLETION_INDEX).peers.lab.svc", "xsim-0.peers", "sim-0.peers-2"],
        "env": [{"name": "MASTER_ADDR", "value": "sim-0.peers"}, {"name": "OTHER", "valueFrom": {}}],
    }
    given = job({"containers": [main], "subdomain": "peers"}, parallelism=4, completions=4, completionMode="Indexed")
    made, lines = converted(given)
    (found,) = made["spec"]["template"]["spec"]["containers"]
    assert found["command"][1] == "--master-addr=sim-0.sj-sim:29500"
    assert found["args"] == ["sim-$(JOB_COMPLETION_INDEX).sj-sim.lab.svc", "xsim-0.peers", "sim-0.peers-2"]
    assert found["env"][0]["value"] == "sim-0.sj-sim"
    assert "sim-N.peers becomes sim-N.sj-sim: the Service of the gang has that name" in lines
    main["env"] = [{"name": "MASTER_ADDR", "value": "rendezvous.lab"}]
    _, lines = converted(job({"containers": [main]}, parallelism=4, completions=4, completionMode="Indexed"))
    assert any(line.startswith("env MASTER_ADDR: rendezvous.lab may not be found") for line in lines)


# --- kinds of others ---


def volcano(*tasks: dict[str, Any], **spec: Any) -> dict[str, Any]:
    api = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "sim"}}
    return {**api, "spec": {"tasks": [*tasks], **spec}}


def test_a_volcano_job_of_pods_that_are_alike_is_a_gang(sj: Run, tmp_path: Path) -> None:
    given = volcano({"name": "w", "replicas": 4, "template": {"spec": POD}, "policies": []}, minAvailable=3, queue="q")
    made, lines = converted(given)
    assert (made["spec"]["parallelism"], made["spec"]["backoffLimit"]) == (4, 3)
    assert made["spec"]["template"]["spec"]["containers"][0]["env"][0] == {
        "name": "VC_TASK_INDEX",
        "value": "$(SCAVENGER_INDEX)",
    }
    assert [line.partition(":")[0] for line in lines] == [
        "spec.minAvailable",
        "spec.queue",
        "spec.tasks[0].policies",
        "spec.tasks[0].parallelism",
    ]
    assert check(made, Level.RESTRICTED)[0] == []
    path = tmp_path / "volcano.yaml"
    path.write_text(json.dumps(given))
    code, out, _ = sj("convert", str(path))
    assert (code, yaml.safe_load(out)["spec"]["parallelism"]) == (0, 4)


def test_a_volcano_job_whose_pods_may_run_alone_is_an_array() -> None:
    made, _ = converted(volcano({"replicas": 4, "template": {"spec": POD}}, minAvailable=1))
    assert made["spec"]["array"] == {"tasks": 4, "failFast": True}
    assert made["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"] == "$(SCAVENGER_TASK)"


@pytest.mark.parametrize(
    ("version", "kind", "words"),
    [
        ("batch.volcano.sh/v1alpha1", "Job", "spec.tasks is missing"),
        ("ray.io/v1", "RayJob", "KubeRay runs it"),
        ("sparkoperator.k8s.io/v1beta2", "SparkApplication", "local[N]"),
        ("example.org/v1", "Job", "holds no Job"),
    ],
)
def test_no_kind_gives_an_empty_file(sj: Run, tmp_path: Path, version: str, kind: str, words: str) -> None:
    path = tmp_path / "other.yaml"
    path.write_text(json.dumps({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "spec": {}}))
    code, out, err = sj("convert", str(path))
    assert (code, out) == (2, "")
    assert words in err


def test_volcano_tasks_that_differ_are_no_gang() -> None:
    with pytest.raises(CliError, match="not alike"):
        converted(volcano({"template": {"spec": POD}}, {"template": {"spec": {**POD, "hostname": "x"}}}))
    with pytest.raises(CliError, match="replicas is not a number"):
        converted(volcano({"replicas": "2", "template": {"spec": POD}}))
