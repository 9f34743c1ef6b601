"""What a cluster says of a job before it is submitted, and jobs that are run from the files of others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from scavenger_testing import builders

from .conftest import Answer, Run, Server, listed, status

TRIALS = "/apis/batch/v1/namespaces/lab/jobs"
CREATED = "/apis/scavenger.dev/v1alpha1/namespaces/lab/scavengerjobs"
NAMESPACE = "/api/v1/namespaces/lab"
SOME = {"cpu": "1", "memory": "1Gi"}


def template(**container: Any) -> dict[str, Any]:
    main = {"name": "sim", "image": "sim:1", "resources": {"limits": SOME}, **container}
    return {"spec": {"containers": [main], "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "d"}}]}}


def written(
    tmp_path: Path, spec: dict[str, Any], kind: str = "ScavengerJob", api: str = "scavenger.dev/v1alpha1"
) -> str:
    path = tmp_path / "job.yaml"
    path.write_text(json.dumps({"apiVersion": api, "kind": kind, "metadata": {"name": "sim"}, "spec": spec}))
    return str(path)


def invalid(*causes: tuple[str, str]) -> Answer:
    details = {"causes": [{"reason": "FieldValueInvalid", "field": field, "message": text} for field, text in causes]}
    return Answer(422, status(422, "Invalid", "Job is invalid", details=details))


@pytest.mark.parametrize("command", ["submit", "lint"])
def test_the_api_server_judges_the_pod_and_nothing_is_created(
    sj: Run, server: Server, tmp_path: Path, command: str
) -> None:
    server.on(
        TRIALS, invalid(("spec.template.spec.containers[0].ports[0].containerPort", "must be less")), method="POST"
    )
    code, out, err = sj(command, written(tmp_path, {"template": template(ports=[{"containerPort": 70000}])}))
    assert code != 0
    assert "spec.template.spec.containers[0].ports[0].containerPort: must be less" in out + err
    (trial,) = server.asked(TRIALS, "POST")
    assert trial.query["dryRun"] == "All"
    assert trial.body["spec"]["template"]["spec"]["restartPolicy"] == "Never"
    assert not server.asked(CREATED, "POST")


@pytest.mark.parametrize("answer", [Answer(403, status(403, "Forbidden")), Answer(500, {}), Answer(404, {})])
def test_who_may_not_create_jobs_is_judged_later(sj: Run, server: Server, tmp_path: Path, answer: Answer) -> None:
    server.on(TRIALS, answer, method="POST")
    server.on(CREATED, Answer(201, builders.scavengerjob_dict("sim", namespace="lab")), method="POST")
    assert sj("submit", written(tmp_path, {"template": template()}))[0] == 0
    assert len(server.asked(CREATED, "POST")) == 1


def test_the_short_form_is_not_tried(sj: Run, server: Server, tmp_path: Path) -> None:
    server.on(CREATED, Answer(201, builders.scavengerjob_dict("sim", namespace="lab")), method="POST")
    assert sj("submit", written(tmp_path, {"image": "sim:1", "resources": {"requests": SOME}}))[0] == 0
    assert not server.asked(TRIALS, "POST")


@pytest.mark.parametrize(
    ("marks", "container", "warned"),
    [
        ({}, {}, True),
        ({"annotations": {"scavenger.dev/run-as-user": "65532"}}, {}, False),
        ({"labels": {"scavenger.dev/pod-security": "baseline"}}, {}, False),
        ({}, {"securityContext": {"runAsUser": 1000}}, False),
    ],
)
def test_lint_warns_where_nobody_names_a_user(
    sj: Run, server: Server, tmp_path: Path, marks: dict[str, Any], container: dict[str, Any], warned: bool
) -> None:
    server.on(NAMESPACE, Answer(body={"metadata": {"name": "lab", **marks}}))
    code, _, err = sj("lint", written(tmp_path, {"template": template(**container)}))
    assert code == 0
    assert ("spec.template.spec.securityContext.runAsUser: no user is named" in err) == warned


@pytest.mark.parametrize(
    ("taints", "warned"),
    [
        ([[], ["team"]], False),
        ([["team"], ["team", "nvidia.com/gpu"]], True),
        ([["nvidia.com/gpu"]], False),
        ([["node.kubernetes.io/not-ready"]], False),
    ],
)
def test_lint_warns_of_gpus_behind_taints(
    sj: Run, server: Server, tmp_path: Path, taints: list[list[str]], warned: bool
) -> None:
    nodes = [
        {
            "metadata": {"name": f"n{number}"},
            "spec": {"taints": [{"key": key, "effect": "NoSchedule"} for key in keys]},
            "status": {"allocatable": {"nvidia.com/gpu": "4"}},
        }
        for number, keys in enumerate(taints)
    ]
    server.on("/api/v1/nodes", listed(*nodes))
    spec = {"template": template(resources={"limits": {**SOME, "nvidia.com/gpu": "1"}})}
    err = sj("lint", written(tmp_path, spec))[2]
    said = "spec.template.spec.tolerations: every node with nvidia.com/gpu has a taint that is not tolerated: team"
    assert (said in err) == warned


@pytest.mark.parametrize(
    ("architectures", "pod", "warned"),
    [
        (["amd64", "arm64"], {}, True),
        (["amd64", "amd64", ""], {}, False),
        (["amd64", "arm64"], {"nodeSelector": {"kubernetes.io/arch": "arm64"}}, False),
        (["amd64", "arm64"], {"nodeSelector": {"team": "blue"}}, False),
        (
            ["amd64", "arm64"],
            {
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {
                                    "matchExpressions": [
                                        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}
                                    ]
                                }
                            ]
                        }
                    }
                }
            },
            False,
        ),
    ],
)
def test_lint_warns_of_nodes_of_several_architectures(
    sj: Run, server: Server, tmp_path: Path, architectures: list[str], pod: dict[str, Any], warned: bool
) -> None:
    nodes = [
        {"metadata": {"name": f"n{number}", "labels": {"kubernetes.io/arch": one} if one else {}}}
        for number, one in enumerate(architectures)
    ]
    server.on("/api/v1/nodes", listed(*nodes))
    made = template()
    err = sj("lint", written(tmp_path, {"template": {**made, "spec": {**made["spec"], **pod}}}))[2]
    said = "spec.template.spec.nodeSelector: it may run on nodes of the architectures amd64, arm64; where the image has"
    assert (said in err) == warned


def test_a_job_of_others_is_run(sj: Run, server: Server, tmp_path: Path) -> None:
    server.on(CREATED, Answer(201, builders.scavengerjob_dict("mine", namespace="lab")), method="POST")
    pod = {**template()["spec"], "restartPolicy": "OnFailure"}
    file = written(tmp_path, {"backoffLimit": 2, "template": {"spec": pod}}, "Job", "batch/v1")
    code, _, err = sj("run", "mine", "--from", file, "--queue", "night", "--priority", "3")
    assert code == 0
    assert "Job: spec.template.spec.restartPolicy: OnFailure is left out" in err
    (request,) = server.asked(CREATED, "POST")
    made = request.body
    assert made["metadata"] == {"name": "mine"}
    assert made["spec"] == {"backoffLimit": 2, "template": template(), "queue": "night", "priority": 3}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--image", "x"), "image: the file of --from says it"),
        (("--cpu", "1", "--suspended"), "cpu, suspend: the file of --from says it"),
    ],
)
def test_what_the_file_says_is_not_said_again(sj: Run, tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    file = written(tmp_path, {"template": template()}, "Job", "batch/v1")
    code, _, err = sj("run", "--from", file, *words)
    assert (code, said in err) == (2, True)


def test_without_a_file_all_is_asked_for(sj: Run) -> None:
    code, _, err = sj("run", "mine", "--image", "sim:1")
    assert (code, "--cpu, --memory missing" in err) == (2, True)


@pytest.mark.parametrize(
    "spec",
    [
        {"image": "sim:1"},
        {"template": template(resources={})},
        {"template": template(resources={"limits": {"cpu": 1}})},
    ],
    ids=["flat", "template", "only memory is missing"],
)
def test_lint_knows_the_sizes_that_the_cluster_gives(
    sj: Run, server: Server, tmp_path: Path, spec: dict[str, Any]
) -> None:
    kept = {"apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerJob", "metadata": {"name": "sim"}}
    filled = {"template": template()} if "template" in spec else {**spec, "resources": {"requests": SOME}}
    server.on(CREATED, Answer(201, {**kept, "spec": filled}), method="POST")
    code, out, err = sj("lint", written(tmp_path, spec))
    assert (code, out.rstrip().endswith(": ok")) == (0, True), out + err
    (trial,) = server.asked(CREATED, "POST")
    assert trial.query["dryRun"] == "All"


@pytest.mark.parametrize("answer", [Answer(422, status(422, "Invalid")), Answer(403, status(403, "Forbidden"))])
def test_lint_tells_what_is_missing_where_the_cluster_gives_none(
    sj: Run, server: Server, tmp_path: Path, answer: Answer
) -> None:
    server.on(CREATED, answer, method="POST")
    code, out, _ = sj("lint", written(tmp_path, {"image": "sim:1"}))
    assert (code, "spec.resources" in out) == (2, True), out


def test_lint_asks_for_no_sizes_of_a_job_that_names_them(sj: Run, server: Server, tmp_path: Path) -> None:
    assert sj("lint", written(tmp_path, {"image": "sim:1", "resources": {"requests": SOME}}))[0] == 0
    assert not server.asked(CREATED, "POST")
