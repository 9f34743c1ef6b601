"""The command line as a whole: its help, its exit codes, its forms of output."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from scavenger_cli import main
from scavenger_cli.exits import ExitCode
from scavenger_cli.facts import Cause
from scavenger_testing.builders import node_dict, pod_dict, scavengerjob_dict, terminated, waiting

from .conftest import Answer, Request, Run, Server, event, listed, status

ROOT = Path(__file__).resolve().parents[3]
ALL_JOBS = "/apis/scavenger.dev/v1alpha1/scavengerjobs"
JOBS = "/apis/scavenger.dev/v1alpha1/namespaces/lab/scavengerjobs"
PODS = "/api/v1/namespaces/lab/pods"


def commands(command: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    command = command or typer.main.get_command(main.application())
    for name, inner in getattr(command, "commands", {}).items():
        if hasattr(inner, "commands"):
            yield from commands(inner, (*path, name))
        else:
            yield (*path, name), inner


EVERY = dict(commands())


@pytest.mark.parametrize("path", EVERY, ids=" ".join)
def test_help_has_an_example_of_the_command(path: tuple[str, ...]) -> None:
    text = EVERY[path].help
    assert f"kubectl sj {' '.join(path)}" in text
    assert len(text.strip().split("\n")[0]) <= 45, "the list of commands cuts it"
    assert all(option.help for option in EVERY[path].params)


@pytest.mark.parametrize("path", EVERY, ids=" ".join)
def test_every_command_takes_the_options_of_kubectl(path: tuple[str, ...]) -> None:
    names = {name for option in EVERY[path].params for name in option.opts}
    if path == ("convert",):
        assert not {"--context", "--kubeconfig", "-n", "-A"} & names, "it asks no cluster"
        return
    if path == ("sbatch",):
        assert names == {"words"}, "Slurm's options have these letters; it reads all words itself"
        return
    assert {"--context", "--kubeconfig"} <= names
    of_the_cluster = path[0] in ("queue", "levels", "board", "doctor", "simulate", "version")
    assert ({"-n", "--namespace"} <= names) != (of_the_cluster and path != ("queue", "list"))
    assert ("-A" in names) == (path[-1] in ("list", "watch", "history", "top", "recommend") and path[0] != "queue")


def test_the_documentation_knows_every_command_cause_and_exit_code() -> None:
    text = (ROOT / "docs" / "cli.md").read_text()
    for path in EVERY:
        assert f"`{' '.join(path)}" in text, path
    for cause in Cause:
        assert f"`{cause}`" in text
    for code in ExitCode:
        assert f"| {code.value} |" in text


SLOW = {"aiohttp", "asyncio", "kubernetes_asyncio", "pydantic", "rich", "yaml", "structlog", "importlib.metadata"}
"""Each of them takes longer to load than all the rest of a command."""


def test_what_is_slow_to_load_is_loaded_by_who_needs_it() -> None:
    code = "import sys, scavenger_cli.main as m, scavenger_cli.complete; m.application(); print(*sys.modules)"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    assert "scavenger_cli.main" in loaded
    assert not SLOW & loaded


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("list",), ["list"]),
        (("-n", "list", "get", "x"), ["list", "get"]),
        (("queue", "list"), ["list", "queue"]),
        (("-n", "lab"), [*main.COMMANDS, "queue"]),
        (("lst",), [*main.COMMANDS, "queue"]),
    ],
    ids=" ".join,
)
def test_only_the_commands_that_may_be_meant_are_loaded(words: tuple[str, ...], names: list[str]) -> None:
    command: Any = typer.main.get_command(main.application(words))
    assert sorted(command.commands) == sorted(names)
    if "queue" in words:
        assert list(command.commands["queue"].commands) == ["list"]


def test_a_command_that_is_not_there_is_told_of_the_others(sj: Run) -> None:
    code, _, err = sj("lisst")
    assert code == 2
    assert "list" in err
    assert sj("-n", "list", "queue", "lisst")[0] == 2


def one(name: str, phase: str = "Waiting", **fields: Any) -> dict[str, Any]:
    made = scavengerjob_dict(name, namespace="lab", phase=phase, uid=f"uid-{name}", **fields)
    made["metadata"]["managedFields"] = [{"manager": "somebody"}]
    return made


def test_a_list_in_every_form(server: Server, sj: Run) -> None:
    server.on(JOBS, listed(one("b", "Running"), one("a")))
    code, out, _ = sj("list")
    assert code == 0
    assert [line.split()[:4] for line in out.splitlines()] == [
        ["NAME", "QUEUE", "STATUS", "INTERRUPTED"],
        ["a", "default", "Waiting", "0"],
        ["b", "default", "Running", "0"],
    ]
    assert sj("list", "-o", "name", "--status", "running")[1] == "scavengerjob.scavenger.dev/b\n"
    found = json.loads(sj("list", "-o", "json", "-q", "default")[1])
    assert (found["kind"], found["apiVersion"]) == ("List", "v1")
    assert [item["metadata"].get("managedFields") for item in found["items"]] == [None, None]
    assert yaml.safe_load(sj("list", "-o", "yaml")[1]) == found
    assert sj("list", "-q", "night") == (0, "", "No jobs found in namespace lab.\n")


@pytest.mark.parametrize(
    ("answer", "words", "code", "says"),
    [
        (Answer(401, status(401, "Unauthorized")), ("list",), 1, "log in again"),
        (Answer(503, status(503, "ServiceUnavailable", "overloaded")), ("list",), 1, "answers overloaded (503)"),
        (
            Answer(404, status(404, "NotFound", "the server could not find")),
            ("list",),
            1,
            "helm install scavenger charts/scavenger",
        ),
        (Answer(body=b"<html>"), ("list",), 1, "the answer is not that of an API server"),
        (Answer(), ("list", "--kubeconfig", "/nowhere"), 1, "there is no kubeconfig /nowhere"),
        (Answer(), ("list", "--context", "prod"), 1, "there are: test"),
        (Answer(), ("list", "--colour"), 2, "error: no such option"),
        (
            Answer(),
            ("top", "--limit", "x"),
            2,
            "error: invalid value for '--limit': write a whole number\n  `kubectl sj top -h`",
        ),
        (Answer(), ("queue", "create", "q", "--weight", "0"), 2, "'--weight' / '-w': write 1 or more"),
        (Answer(), ("lst",), 2, "id you mean 'list'?"),
        (Answer(), ("why",), 2, "error: missing argument"),
        (Answer(), ("why", "a", "-o", "name"), 2, "why has no output name"),
        (Answer(), ("wait", "a", "--timeout", "soon"), 2, "'soon' is not a duration"),
        (Answer(), ("delete",), 2, "give names, or --finished, or --all"),
        (Answer(), ("submit", "/nowhere.yaml"), 2, "/nowhere.yaml cannot be read"),
    ],
)
def test_exit_codes(server: Server, sj: Run, answer: Answer, words: tuple[str, ...], code: int, says: str) -> None:
    server.on(JOBS, answer)
    found, out, err = sj(*words)
    assert found == code, err
    assert says in err
    assert out == ""


def test_ctrl_c(server: Server, sj: Run) -> None:
    def interrupt(request: Request) -> Answer:
        signal.raise_signal(signal.SIGINT)
        return listed()

    server.on(JOBS, interrupt)
    assert sj("list")[0] == 130


def test_one_failure_does_not_keep_the_others_back(server: Server, sj: Run) -> None:
    server.on(ALL_JOBS, listed(one("a"), one("c")))
    for name in ("a", "c"):
        server.on(f"{JOBS}/{name}", Answer(body=one(name)))
        server.on(f"{JOBS}/{name}", Answer(body={}), method="DELETE")
    code, out, err = sj("cancel", "a", "b", "c")
    assert code == 3
    assert out.splitlines() == ["scavengerjob.scavenger.dev/a cancelled", "scavengerjob.scavenger.dev/c cancelled"]
    assert "there is no ScavengerJob b in namespace lab" in err
    deletion = server.asked(f"{JOBS}/a", "DELETE")[0].body
    assert (deletion["propagationPolicy"], deletion["preconditions"]) == ("Background", {"uid": "uid-a"})


def test_deleting_what_has_finished(server: Server, sj: Run) -> None:
    server.on(JOBS, listed(one("a", "Completed"), one("b", "Running"), one("c", "Failed")))
    for name in ("a", "b", "c"):
        server.on(f"{JOBS}/{name}", Answer(body={}), method="DELETE")
    assert sj("delete", "--finished")[1].split() == [
        *("scavengerjob.scavenger.dev/a", "deleted", "scavengerjob.scavenger.dev/c", "deleted")
    ]


def test_following_the_logs_of_a_job_that_fails(server: Server, sj: Run) -> None:
    failed = one("a", "Failed", status={"message": "exited with code 3"})
    server.on(f"{JOBS}/a", Answer(body=failed))
    server.on(JOBS, listed(failed))
    server.on(JOBS, Answer(lines=[]), watch=True)
    server.on(PODS, listed())
    server.on(PODS, Answer(lines=[]), watch=True)
    code, out, err = sj("logs", "-f", "a")
    assert (code, out) == (4, "")
    assert err.splitlines() == [
        "--- a failed: exited with code 3 ---",
        "error: a failed: exited with code 3",
        "  kubectl sj why a -n lab",
    ]


def test_why_names_the_secrets_that_a_pod_pulls_with(server: Server, sj: Run) -> None:
    server.on(f"{JOBS}/a", Answer(body=one("a", "Starting")))
    server.on(
        "/api/v1/namespaces/scavenger-system/configmaps/scavenger-levels", Answer(404, status(404, "NotFound", "none"))
    )
    pod = pod_dict("a-0", namespace="lab", container_statuses=[waiting("ImagePullBackOff", "401\nUnauthorized")])
    pod["spec"]["imagePullSecrets"] = [{"name": "login"}]
    server.on(PODS, listed(pod))
    code, out, _ = sj("why", "a", "-o", "json")
    assert code == 0
    (found,) = [one["text"] for one in json.loads(out)["findings"] if one["label"] == "pod a-0"]
    assert found.startswith("image example.org/app:1 of registry example.org, with the secret login: ImagePullBackOff")


def test_the_last_words_of_a_job_that_is_deleted(server: Server, sj: Run) -> None:
    server.on(f"{JOBS}/a", Answer(body=one("a", "Running")))
    server.on(JOBS, listed(one("a", "Running")))
    server.on(JOBS, Answer(lines=[event("DELETED", one("a", "Running"))]), watch=True)
    pod = pod_dict("a-0", namespace="lab", uid="uid-pod", phase="Failed", container_statuses=[terminated(1)])
    server.on(PODS, listed(pod))
    server.on(PODS, Answer(lines=[]), watch=True)
    server.on(f"{PODS}/a-0/log", Answer(lines=[b"2026-01-05T12:00:00.000000000Z checkpoint written"]))
    code, out, err = sj("logs", "-f", "a")
    assert (code, out) == (3, "checkpoint written\n")
    assert err.splitlines() == ["--- a running ---", "--- a is deleted ---", "error: a was deleted"]


def test_submitting_is_strict(server: Server, sj: Run, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("{apiVersion: scavenger.dev/v1alpha1, kind: ScavengerJob, metadata: {name: a}, spec: {image: i}}")
    server.on(JOBS, Answer(201, one("a")), method="POST")
    assert sj("submit", str(file))[:2] == (0, "scavengerjob.scavenger.dev/a created\n")
    assert server.asked(JOBS, "POST")[0].query == {"fieldValidation": "Strict", "fieldManager": "kubectl-sj"}
    assert sj("submit", str(file), "--dry-run")[1] == "scavengerjob.scavenger.dev/a created (dry run)\n"
    assert server.asked(JOBS, "POST")[1].query["dryRun"] == "All"


def test_without_a_cluster_a_manifest_is_printed(
    server: Server, sj: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    words = ("run", "pi", "--image", "python:3.12", "--cpu", "1", "--memory", "1Gi", "-n", "night", "-o", "yaml")
    code, out, err = sj(*words, "--dry-run=client", "--wait", "--", "--dry-run=server")
    assert (code, err) == (0, "")
    assert yaml.safe_load(out) == {
        "apiVersion": "scavenger.dev/v1alpha1",
        "kind": "ScavengerJob",
        "metadata": {"name": "pi", "namespace": "night"},
        "spec": {
            "image": "python:3.12",
            "args": ["--dry-run=server"],
            "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
        },
    }
    assert sj(*words[:-2], "--dry-run=client")[1] == "scavengerjob.scavenger.dev/pi created (dry run)\n"
    assert not server.requests
    assert sj(*words, "--dry-run=server")[0] == 1, "that needs a cluster"


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (("--image", "App:1"), "spec.image"),
        (("--cpu", "0"), "spec.resources"),
        (("--memory", "16"), "spec.resources.requests[memory]"),
        (("--queue", "Night"), "spec.queue"),
        (("--resource", "gpu=1"), "spec.resources"),
        (("--user", "0"), "spec.runAsUser"),
        (("--interruption-after", "8d"), "spec.interruptionAfter"),
        (("--label", "team=a b"), "metadata.labels[team]"),
        (("--env", "SCAVENGER_INDEX=1"), "spec.env[0].name"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_without_a_cluster_a_job_is_judged_as_lint_judges_it(
    server: Server, sj: Run, tmp_path: Path, words: tuple[str, ...], field: str
) -> None:
    code, out, err = sj("run", "pi", "--image", "a", "--cpu", "1", "--memory", "1Gi", *words, "--dry-run=client")
    assert (code, out) == (2, "")
    assert f"error: ScavengerJob pi is not valid:\n  {field}: " in err
    assert not server.requests


def test_without_a_cluster_all_of_a_file_is_judged_before_any_is_printed(
    server: Server, sj: Run, tmp_path: Path
) -> None:
    file = tmp_path / "jobs.yaml"
    good = scavengerjob_dict("a")
    file.write_text(yaml.safe_dump_all([good, {**good, "metadata": {"name": "b"}, "spec": {"requests": {}}}]))
    code, out, err = sj("submit", str(file), "--dry-run=client", "-o", "yaml")
    assert (code, out) == (2, "")
    assert "spec.requests: unknown field; write resources.requests" in err
    assert not server.requests


def test_without_a_cluster_the_level_of_the_namespace_can_be_told(server: Server, sj: Run) -> None:
    words = ("run", "pi", "--image", "a", "--cpu", "1", "--memory", "1Gi", "--user", "0", "--dry-run=client")
    assert sj(*words, "--pod-security", "baseline")[0] == 0
    code, _, err = sj(*words, "--pod-security", "none")
    assert code == 2
    assert "there is no level none" in err


CLAIMS = "/api/v1/namespaces/lab/persistentvolumeclaims"
BESIDE = (
    "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: state}}\n---\n"
    "{apiVersion: scavenger.dev/v1alpha1, kind: ScavengerJob, metadata: {name: a}, spec: {image: i}}"
)


def beside(server: Server, claim: Answer) -> Server:
    """Claims are served, and creating one is answered so."""
    served = [
        {"name": "persistentvolumeclaims/status", "kind": "PersistentVolumeClaim", "namespaced": True},
        {"name": "persistentvolumeclaims", "kind": "PersistentVolumeClaim", "namespaced": True},
    ]
    server.on("/api/v1", Answer(body={"kind": "APIResourceList", "resources": served}))
    server.on(CLAIMS, claim, method="POST")
    server.on(JOBS, Answer(201, one("a")), method="POST")
    return server


def test_submitting_creates_what_stands_beside_a_job(server: Server, sj: Run, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(BESIDE)
    beside(server, Answer(201, {"kind": "PersistentVolumeClaim", "metadata": {"name": "state"}}))
    code, out, err = sj("submit", str(file))
    assert (code, out.splitlines()) == (
        0,
        ["persistentvolumeclaim/state created", "scavengerjob.scavenger.dev/a created"],
    ), err
    trial, made = server.asked(CLAIMS, "POST")
    assert (trial.query["dryRun"], made.query.get("dryRun"), made.body["metadata"]["name"]) == ("All", None, "state")


def test_a_claim_that_exists_stays_as_it_is(server: Server, sj: Run, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(BESIDE)
    beside(server, Answer(409, status(409, "AlreadyExists")))
    code, out, err = sj("submit", str(file))
    assert (code, out) == (0, "scavengerjob.scavenger.dev/a created\n"), err
    assert err == "PersistentVolumeClaim state exists already, and stays as it is\n"


@pytest.mark.parametrize("served", [Answer(404, status(404, "NotFound")), Answer(body={"resources": []})])
def test_nothing_is_created_beside_an_unknown_kind(server: Server, sj: Run, tmp_path: Path, served: Answer) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(BESIDE.replace("v1, kind: P", "shop.example/v1, kind: P", 1))
    server.on("/apis/shop.example/v1", served)
    code, _, err = sj("submit", str(file))
    assert code == 1
    assert err.startswith("error: the cluster has no kind PersistentVolumeClaim of shop.example/v1")
    assert not server.asked(JOBS, "POST")


def test_a_trial_of_many_says_of_each_what_it_would_do(server: Server, sj: Run, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(BESIDE)
    beside(server, Answer(201, {"kind": "PersistentVolumeClaim", "metadata": {"name": "state"}}))
    assert sj("submit", str(file), "--dry-run")[1].splitlines() == [
        "persistentvolumeclaim/state created (dry run)",
        "scavengerjob.scavenger.dev/a created (dry run)",
    ]


WARNED = {"Warning": '299 - "spec.capacity: no node offers \\"reclaimed\\" capacity"'}


def test_warnings_are_passed_on_once(server: Server, sj: Run, tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    text = "{apiVersion: scavenger.dev/v1alpha1, kind: ScavengerJob, metadata: {name: a}, spec: {image: i}}"
    file.write_text(f"{text}\n---\n{text}\n")
    server.on(JOBS, Answer(201, one("a"), headers=WARNED), method="POST")
    code, out, err = sj("submit", str(file))
    assert (code, out.splitlines()) == (0, ["scavengerjob.scavenger.dev/a created"] * 2)
    assert err == 'warning: spec.capacity: no node offers "reclaimed" capacity\n'


def test_a_refusal_comes_with_its_warnings(server: Server, sj: Run) -> None:
    server.on(JOBS, Answer(422, status(422, "Invalid", "no"), headers=WARNED), method="POST")
    code, _, err = sj("run", "a", "--image", "i", "--cpu", "1", "--memory", "1Gi", "--reclaimed")
    assert code == 1
    assert err.startswith("warning: spec.capacity: no node offers")
    spec = server.asked(JOBS, "POST")[0].body["spec"]
    assert (spec["capacity"], spec["resources"]) == ("Reclaimed", {"limits": {"cpu": "1", "memory": "1Gi"}})


@pytest.mark.parametrize("section", [(), ("jobs",)])
@pytest.mark.parametrize("form", ["wide", "json"])
def test_only_the_nodes_of_top_have_other_forms(sj: Run, section: tuple[str, ...], form: str) -> None:
    code, _, err = sj("top", *section, "-o", form)
    assert code == 2
    assert f"has no output {form}" in err


def test_nodes_for_programs(server: Server, sj: Run) -> None:
    server.on("/api/v1/nodes", listed(node_dict("n1", cpu="8", memory="32Gi")))
    server.on("/api/v1/pods", listed(pod_dict("web", node="n1", cpu="2", memory="1Gi", phase="Running")))
    code, out, _ = sj("top", "nodes", "-o", "json")
    assert code == 0
    found = json.loads(out)
    assert [node["name"] for node in found] == ["n1"]
    assert found[0]["cpu"]["reserved"] == "2"
    assert found[0]["cpu"]["used"] is None
    server.on("/api/v1/nodes", Answer(403, status(403, "Forbidden")))
    assert sj("top", "nodes", "-o", "json")[0] == 1
