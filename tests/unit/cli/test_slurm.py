"""Scripts for Slurm's sbatch as ScavengerJobs."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from scavenger_cli.exits import CliError
from scavenger_cli.lint.check import check
from scavenger_cli.slurm import Submission, converted, is_script
from scavenger_cli.slurm_options import OPTIONS, mebibytes, minutes, read_script, read_words
from scavenger_domain.pod_security import Level

from .conftest import Answer, Run, Server, expanded

BODY = "cd /work\nexec ./sim --resume"
JOBS = "/apis/scavenger.dev/v1alpha1/namespaces/lab/scavengerjobs"


def script(*options: str, body: str = BODY, interpreter: str = "/bin/bash") -> str:
    return "\n".join([f"#!{interpreter}", *(f"#SBATCH {one}" for one in options), body])


def of(text: str, **given: Any) -> tuple[dict[str, Any], list[str]]:
    made, lines = converted(text, Submission(image="a:1", **given))
    return made["spec"], lines


def env(spec: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["value"] for one in spec["env"]}


def test_a_script_of_one_node() -> None:
    made, lines = converted(
        script("-J Fold_1", "-c 4", "--ntasks=2", "--mem=16G", "-t 1-12:30", "--gres=gpu:2  # don't ask for more"),
        Submission(image="fold:1"),
    )
    assert made["metadata"] == {"name": "fold-1"}
    spec = made["spec"]
    variables = env(spec)
    assert {name: value for name, value in spec.items() if name != "env"} == {
        "image": "fold:1",
        "command": ["/bin/bash", "-c", BODY, "fold-1"],
        "resources": {"requests": {"cpu": "8", "memory": "16Gi", "nvidia.com/gpu": "2"}},
        "activeDeadlineSeconds": ((24 + 12) * 60 + 30) * 60,
    }
    assert (variables["SLURM_JOB_ID"], variables["SLURM_JOB_NAME"]) == ("fold-1", "Fold_1")
    assert (variables["SLURM_CPUS_PER_TASK"], variables["SLURM_NTASKS"]) == ("4", "2")
    assert variables["SLURM_RESTART_COUNT"] == "$(SCAVENGER_RESTARTS)"
    assert check(made, Level.RESTRICTED) == ([], [])
    assert lines == ["--ntasks: one pod has the cpu of all 2 tasks; the script starts them itself"]


def test_nodes_are_pods_of_a_gang() -> None:
    spec, lines = of(script("-N4", "-n 16", "--mem-per-cpu 500", "--gpus=8"))
    assert spec["parallelism"] == 4
    assert spec["resources"]["requests"] == {"cpu": "4", "memory": "2000Mi", "nvidia.com/gpu": "2"}
    assert env(spec)["SLURM_NODEID"] == "$(SCAVENGER_INDEX)"
    assert [line.partition(":")[0] for line in lines] == ["--nodes"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("30", 30),
        ("0:30", 1),
        ("30:15", 31),
        ("2:00:00", 120),
        ("1-0", 1440),
        ("1-", 1440),
        ("1-2:03:04", 1564),
        ("0", 0),
        ("0:00", 0),
        ("-1", 0),
        ("INFINITE", 0),
        ("unlimited", 0),
    ],
)
def test_times(text: str, found: int) -> None:
    assert minutes("--time", text) == found
    assert of(script(f"--time={text}"))[0].get("activeDeadlineSeconds") == (found * 60 or None)


@pytest.mark.parametrize(("text", "found"), [("4000", 4000), ("1k", 1), ("1025K", 2), ("16GB", 16384), ("1T", 2**20)])
def test_memory(text: str, found: int) -> None:
    assert mebibytes("--mem", text) == found


@pytest.mark.parametrize(
    ("text", "array"),
    [
        ("0-999%100", {"tasks": 1000, "maxRunning": 100}),
        ("0-9", {"tasks": 10}),
        ("0", {"tasks": 1}),
        ("1-20%4", {"indexes": "1-20", "maxRunning": 4}),
        ("0-99:3", {"indexes": "0-99:3"}),
        ("1,5,9-12", {"indexes": "1,5,9-12"}),
        ("[1-3,7]", {"indexes": "1-3,7"}),
        ("7,3,1-4", {"indexes": "1-4,7"}),
        ("2,0,1", {"tasks": 3}),
        ("1-9%0", {"indexes": "1-9"}),
    ],
)
def test_arrays(text: str, array: dict[str, Any]) -> None:
    made, lines = converted(
        script(f"--array={text}", "--mem=1G", "-t 30", body="work $SLURM_ARRAY_TASK_ID"), Submission(image="a:1")
    )
    assert made["spec"]["array"] == array
    assert check(made, Level.RESTRICTED)[0] == []
    assert [line.partition(":")[0] for line in lines] == ["--time"]


@pytest.mark.parametrize(("body", "code"), [("sleep 60", 124), ("exit 3", 3)])
def test_a_time_limit_ends_a_run_of_a_task(body: str, code: int) -> None:
    spec, _ = of(script("-a 1-3", "-t 1", "--mem=1G", body=body))
    assert "activeDeadlineSeconds" not in spec
    words = [expanded(word, {}).replace("timeout -k 30 60", "timeout -k 30 0.2") for word in spec["command"]]
    assert subprocess.run(words, check=False).returncode == code
    without = [word.replace("command -v timeout", "command -v no-such-program") for word in words]
    assert code == 124 or subprocess.run(without, check=False).returncode == code


def test_a_task_knows_its_array() -> None:
    found = env(of(script("-a 5-20:5"), number=77)[0])
    assert {name: value for name, value in found.items() if "ARRAY" in name} == {
        "SLURM_ARRAY_JOB_ID": "77",
        "SLURM_ARRAY_TASK_ID": "$(SCAVENGER_TASK)",
        "SLURM_ARRAY_TASK_COUNT": "4",
        "SLURM_ARRAY_TASK_MIN": "5",
        "SLURM_ARRAY_TASK_MAX": "20",
        "SLURM_ARRAY_TASK_STEP": "5",
    }
    assert found["SLURM_RESTART_COUNT"] == "$(SCAVENGER_RESTARTS)"


def test_options_end_at_the_first_command() -> None:
    """As in Slurm, where a here document of a script that writes scripts has no say."""
    text = script("-c 2", "", body="# a comment\n\n#SBATCH --mem=1G\nset -e\n#SBATCH -c 64\ncat <<E\n#SBATCH -N 9\nE")
    spec, lines = of(text)
    assert spec["resources"]["requests"] == {"cpu": "2", "memory": "1Gi"}
    assert "parallelism" not in spec
    assert spec["command"][2].endswith("set -e\n#SBATCH -c 64\ncat <<E\n#SBATCH -N 9\nE")
    assert [line for line in lines if "first command" in line] == [
        "#SBATCH -c 64: left out: it stands behind the first command, where Slurm ignores it, too",
        "#SBATCH -N 9: left out: it stands behind the first command, where Slurm ignores it, too",
    ]


def test_the_command_line_goes_before_the_environment_and_that_before_the_script() -> None:
    text = script("-t 10", "--gpus=1", "--mem=1G")
    environment = {"SBATCH_TIMELIMIT": "20", "SBATCH_GPUS": "2", "SBATCH_NTASKS": "9"}
    spec, _ = of(text, environment=environment, options={"time": "30"})
    assert spec["activeDeadlineSeconds"] == 1800
    assert spec["resources"]["requests"] == {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "2"}


# --- the program ---

PYTHON = "import os, sys\nprint(sys.argv[1:], '$$', \"$(HOME)\")"


@pytest.mark.parametrize(
    ("interpreter", "body", "said"),
    [
        ("/bin/sh", 'echo "$0 $1 $2 $(echo a) ${#}"', "job a b c a 2"),
        ("/bin/bash -l", 'echo "$1"', "a b"),
        ("/usr/bin/env bash", 'test $$ -gt 0 && echo "$2"', "c"),
        ("/usr/bin/env python3", PYTHON, "['a b', 'c'] $$ $(HOME)"),
        ("/usr/bin/env -S python3 -u", PYTHON, "['a b', 'c'] $$ $(HOME)"),
        ("/usr/bin/awk -f", 'BEGIN {print ARGV[1] "$$" ARGV[2]}', "a b$$c"),
    ],
)
def test_the_interpreter_runs_the_script_with_its_arguments(interpreter: str, body: str, said: str) -> None:
    spec, _ = of(script(interpreter=interpreter, body=body), arguments=["a b", "c"])
    assert spec["command"][: len(interpreter.split(None, 1))] == interpreter.split(None, 1) or "awk" in interpreter
    words = [expanded(word, {"HOME": "/root"}) for word in spec["command"]]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip() == said


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("srun echo a 'b  c'", "a b  c\n"),
        ("srun -n 1 --mpi pmix --cpu-bind=none -u echo a", "a\n"),
        ("set -e; if srun test 1 = 1; then srun --ntasks 1 -- echo a; fi | cat", "a\n"),
        ("x=$(srun echo a)\necho $x", "a\n"),
    ],
)
@pytest.mark.parametrize("interpreter", ["/bin/sh", "/bin/bash"])
def test_srun_of_one_task_is_its_program(interpreter: str, body: str, said: str) -> None:
    spec, lines = of(script("--mem=1G", body=body, interpreter=interpreter))
    words = [expanded(word, {}) for word in spec["command"]]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == said
    assert lines == []


@pytest.mark.parametrize(
    ("option", "body"),
    [
        ("-n 4", "srun echo a"),
        ("-N 2", "srun echo a"),
        ("-c 1", "exec srun echo a"),
        ("-c 1", "srun -o file echo a"),
        ("-c 1", "srun echo a\nls | xargs srun echo"),
    ],
)
def test_srun_of_more_is_told(option: str, body: str) -> None:
    spec, lines = of(script("--mem=1G", option, body=body))
    assert spec["command"][2] == body
    assert any(line.startswith("srun: ") for line in lines)


def test_output_goes_to_a_claim_where_there_is_one(tmp_path: Path) -> None:
    text = script("-o out-%x-%A_%3a.log", "-J fold", "-a 1-5", body="echo here; echo there >&2; pwd")
    spec, lines = of(text, claims=[f"work:{tmp_path}"], number=9)
    assert spec["persistentVolumeClaims"] == [{"name": "work", "mountPath": str(tmp_path)}]
    variables = {**env(spec), "SLURM_ARRAY_TASK_ID": "4", "PATH": "/usr/bin:/bin"}
    for _ in range(2):
        subprocess.run([expanded(word, {"HOME": "/root"}) for word in spec["command"]], env=variables, check=True)
    written = (tmp_path / "out-fold-9_004.log").read_text()
    assert written == f"here\nthere\n{tmp_path}\n" * 2, "what an interrupted run wrote stays"
    assert env(spec)["SLURM_SUBMIT_DIR"] == str(tmp_path)
    assert any(line.startswith("--output: the output goes to") for line in lines)
    spec, lines = of(text)
    assert spec["command"][0] == "/bin/bash"
    assert any("kubectl sj logs shows it" in line for line in lines)


def test_what_is_exported() -> None:
    text = script("--export=ALL,SEED=3,LEVEL,ABSENT")
    spec, lines = of(text, environment={"LEVEL": "high $(x)", "OTHER": "o"})
    assert {name: value for name, value in env(spec).items() if not name.startswith("SLURM_")} == {
        "SEED": "3",
        "LEVEL": "high $$(x)",
    }
    assert [line for line in lines if "export" in line] == [
        "--export: ABSENT is left out: it is not set where the job is submitted"
    ]


def test_signals_and_hold() -> None:
    spec, lines = of(script("--signal=B:TERM@120", "--hold", "--mem=1G"))
    assert (spec["terminationGracePeriodSeconds"], spec["suspend"], lines) == (120, True, [])
    assert of(script("--signal=USR1", "--mem=1G"))[1] == [
        "--signal: the program gets SIGTERM in the place of USR1, before an interruption"
    ]


def test_what_has_no_place_is_told() -> None:
    body = "module load gromacs; exec srun gmx mdrun -nt $SLURM_CPUS_PER_TASK $SLURM_NODELIST"
    options = ("-p long", "--exclusive", "--requeue", "-o out.txt", "--gres=gpu:a100:2,lustre", "--comment=x")
    _, lines = of(script(*options, body=body))
    assert [line.partition(":")[0] for line in lines] == [
        "--partition",
        "--exclusive",
        "--gres",
        "--gres",
        "srun",
        "module",
        "SLURM_NODELIST",
        "--output",
        "--mem is missing",
    ]
    assert of(script("--mem=0"))[1][-1].startswith("--mem=0: the pod gets the memory")


@pytest.mark.parametrize("name", [name for name in OPTIONS if name not in ("wrap", "nodes", "array")])
def test_every_option_is_honoured_or_told(name: str) -> None:
    """None is dropped without a word, but those that change nothing of a job."""
    values = {
        "time": "5",
        "time-min": "5",
        "signal": "TERM",
        "gres": "gpu:1",
        "export": "A=1",
        "chdir": "/x",
        "mem": "2G",
        "dependency": "afterok:fold",
    }
    value = values.get(name, "2")
    plain, told = of(script("--mem=1G" if not name.startswith("mem") else ""))
    spec, lines = of(script("--mem=1G" if not name.startswith("mem") else ""), options={name: value})
    quiet = {"comment", "parsable", "quiet", "verbose", "ignore-pbs", "test-only", "wait", "requeue", "job-name"}
    quiet |= {"container", "container-image", "cpus-per-gpu"}  # where no image and no GPU is asked for
    assert name in quiet or spec != plain or lines != told


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--array=9-1", "ends before it begins"),
        ("--array=0-9 -N2", "one pod"),
        ("--array=0-100000", "at most 100,000"),
        ("--array=1-9%x", "no number of tasks at a time"),
        ("-c x", "not a number"),
        ("-c \u0662", "not a number"),
        ("--mem=lots", "16G"),
        ("-t soon", "12:00:00"),
        ("-t 1:2:3:4", "12:00:00"),
        ("-J 'x", "quotation"),
        ("--signal=???", "no signal"),
        ("--no-such=3", "no such option"),
        ("--mem-pe=3", "--mem-per-cpu, --mem-per-gpu"),
        ("-Z", "no such option"),
        ("--hold=3", "takes no value"),
        ("word", "word is no option"),
        ("-t", "its value is missing"),
    ],
)
def test_what_cannot_be_read(option: str, words: str) -> None:
    with pytest.raises(CliError) as refused:
        of(script(option))
    assert words in f"{refused.value} {refused.value.remedy}"


def test_words_of_a_command_line() -> None:
    words = ["-n4", "--cpus-per-t=2", "-HQ", "--exclusive", "--time", "5", "run.sh", "-x"]
    assert read_words(words) == (
        [("ntasks", "4"), ("cpus-per-task", "2"), ("hold", ""), ("quiet", ""), ("exclusive", ""), ("time", "5")],
        ["run.sh", "-x"],
    )


def test_a_manifest_is_no_script() -> None:
    with pytest.raises(CliError, match="begins with #!"):
        read_script("kind: Job\n")


@pytest.mark.parametrize("words", [("lint",), ("submit",), ("run", "--from")])
def test_other_commands_name_the_one_for_scripts(sj: Run, tmp_path: Path, words: tuple[str, ...]) -> None:
    path = tmp_path / "fold.sh"
    path.write_text(script())
    code, _, err = sj(*words, str(path))
    assert (code, "`kubectl sj sbatch` submits scripts" in err) == (2, True)


def test_convert(sj: Run, tmp_path: Path) -> None:
    path = tmp_path / "fold.sbatch"
    path.write_text(script("-J fold", "--mem=1G"))
    assert is_script(path.read_text())
    assert "a batch script runs in an image, and none is named" in sj("convert", str(path))[2]
    code, out, err = sj("convert", str(path), "--image", "fold:1")
    assert code == 0
    assert yaml.safe_load(out)["spec"]["image"] == "fold:1"
    assert "no volume outlives a pod" in err


# --- sbatch ---


def test_sbatch_submits(server: Server, sj: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "fold.sh"
    path.write_text(script("-J fold", "--mem=1G", "--array=1-20"))
    monkeypatch.setenv("SBATCH_CONTAINER", "fold:1")
    server.on(JOBS, Answer(body={"kind": "ScavengerJob", "metadata": {"name": "fold-7"}}), method="POST")
    code, out, err = sj(
        "sbatch", "-c", "4", "--pvc", "work:/work", "--queue=night", str(path), "--dry-run=client", "-n"
    )
    assert (code, out) == (0, "scavengerjob.scavenger.dev/fold-7 created\n")
    body = server.asked(JOBS, "POST")[0].body
    name, _, number = body["metadata"]["name"].rpartition("-")
    assert (name, body["spec"]["queue"], body["spec"]["image"]) == ("fold", "night", "fold:1")
    assert env(body["spec"])["SLURM_JOB_ID"] == number
    assert body["spec"]["command"][-2:] == ["--dry-run=client", "-n"], "behind the script are its arguments"
    assert err.splitlines()[:2] == [
        "understood: resources: 4 cpu, 1Gi memory",
        "understood: array: 20 tasks with the indexes 1-20",
    ]


def test_sbatch_as_a_trial(sj: Run) -> None:
    words = ("--dry-run=client", "--namespace=lab", "--image=a:1", "--mem=1G", "--parsable")
    code, out, _ = sj("sbatch", *words, "--wrap", "echo hello")
    assert code == 0
    assert out.startswith("scavengerjob.scavenger.dev/job-")
    code, _, err = sj("sbatch", "--image=a:1", "--array=5-1", "--wrap", "echo hello")
    assert (code, "ends before it begins" in err) == (2, True)


def test_sbatch_of_a_file_that_is_no_script(sj: Run, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("kind: Job\n")
    assert "is no batch script" in sj("sbatch", str(path))[2]
    assert "options stand before the script" in sj("sbatch", "nowhere.sh")[2]


# --- dependencies ---


@pytest.mark.parametrize(
    ("text", "after", "said"),
    [
        ("afterok:fold-7", [("fold-7", "Completed")], ""),
        ("afterany:fold-7", [("fold-7", "Ended")], ""),
        ("afterok:7", [("fold-7", "Completed")], ""),
        ("afterok:7:8,afterany:a-9", [("fold-7", "Completed"), ("prep-8", "Completed"), ("a-9", "Ended")], ""),
        ("afterok:scavengerjob.scavenger.dev/fold-7", [("fold-7", "Completed")], ""),
        ("afterany:7,afterok:7", [("fold-7", "Completed")], ""),
        ("afterok:7?afterok:8", [("fold-7", "Completed"), ("prep-8", "Completed")], "for all of these jobs"),
        ("afterok:7_3", [("fold-7", "Completed")], "for all tasks of fold-7"),
        ("aftercorr:7", [("fold-7", "Completed")], "for all tasks of fold-7"),
        ("after:7+5", [], "after is left out: it may start before that job"),
        ("singleton", [], "singleton is left out: it may run beside"),
    ],
)
def test_dependencies(text: str, after: list[tuple[str, str]], said: str) -> None:
    spec, lines = of(script("--mem=1G", f"--dependency={text}"), jobs=lambda: ["fold-7", "prep-8", "fold-17"])
    assert [(one["job"], one["when"]) for one in spec.get("after", ())] == after
    assert [line for line in lines if line.startswith("--dependency")] == [
        line for line in lines if said and said in line
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("afternotok:fold-7", "starts only when another one fails"),
        ("afterok:9", "no job with the number 9 is known"),
        ("afterok:8", "2 jobs have the number 8"),
        ("afterok", "cannot be read"),
        ("afterok:", "cannot be read"),
        ("singleton:7", "cannot be read"),
        ("soon:7", "cannot be read"),
    ],
)
def test_dependencies_that_are_refused(text: str, said: str) -> None:
    with pytest.raises(CliError, match=said):
        of(script(f"--dependency={text}"), jobs=lambda: ["a-8", "b-8", "b-18"])


def test_a_number_is_not_known_without_a_cluster() -> None:
    with pytest.raises(CliError, match="no job with the number 7 is known"):
        of(script("-d afterok:7"))


def test_sbatch_finds_jobs_by_their_numbers(server: Server, sj: Run, tmp_path: Path) -> None:
    there = [{"metadata": {"name": name, "namespace": "lab"}} for name in ("fold-7", "fold-8")]
    server.on(JOBS, Answer(body={"kind": "ScavengerJobList", "metadata": {}, "items": there}))
    server.on(JOBS, Answer(body={"kind": "ScavengerJob", "metadata": {"name": "sum-9"}}), method="POST")
    words = ("--image=a:1", "--mem=1G", "--dependency=afterok:7", "--wrap", "echo hello")
    code, _, err = sj("sbatch", *words)
    assert code == 0
    assert server.asked(JOBS, "POST")[0].body["spec"]["after"] == [{"job": "fold-7", "when": "Completed"}]
    assert "understood: dependency: it starts when fold-7 has completed" in err


def test_a_number_that_another_job_has_is_drawn_again(server: Server, sj: Run) -> None:
    taken = {"kind": "Status", "status": "Failure", "reason": "AlreadyExists", "code": 409, "message": "exists"}
    made = {"kind": "ScavengerJob", "metadata": {"name": "job-7"}}
    server.on(JOBS, Answer(409, taken), Answer(409, taken), Answer(body=made), method="POST")
    code, _, err = sj("sbatch", "--image=a:1", "--mem=1G", "--wrap", "echo hello")
    assert code == 0, err
    bodies = [request.body for request in server.asked(JOBS, "POST")]
    numbers = [body["metadata"]["name"].rpartition("-")[2] for body in bodies]
    assert len(set(numbers)) == 3
    assert all(env(body["spec"])["SLURM_JOB_ID"] == number for body, number in zip(bodies, numbers, strict=True))
    assert all(0 < int(number) < 2**31 for number in numbers)


def test_jobs_that_are_submitted_at_once_have_numbers_of_their_own(server: Server, sj: Run) -> None:
    server.on(JOBS, Answer(body={"kind": "ScavengerJob", "metadata": {"name": "job-7"}}), method="POST")
    for _ in range(20):
        assert sj("sbatch", "--image=a:1", "--mem=1G", "--wrap", "echo hello")[0] == 0
    assert len({request.body["metadata"]["name"] for request in server.asked(JOBS, "POST")}) == 20
