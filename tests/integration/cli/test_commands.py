"""Every command against the real API server and the real admitter; what it prints is compared line by line."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from fcntl import ioctl
from functools import partial
from pathlib import Path

import pytest
import yaml
from scavenger_cluster import Cluster
from scavenger_cluster.build import ensure_tools
from scavenger_testing.printed import normalised
from scavenger_testing.waiting import TIMEOUT

from .conftest import CPUS, NODES, Sj

SMALL = ("--image", "none", "--cpu", "2", "--memory", "1Gi", "--grace", "1")

MANIFEST = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: state}
spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}}
---
apiVersion: scavenger.dev/v1alpha1
kind: ScavengerJob
metadata: {name: first}
spec: {image: none, resources: {requests: {cpu: 2, memory: 1Gi}}, terminationGracePeriodSeconds: 1}
---
apiVersion: scavenger.dev/v1alpha1
kind: ScavengerJob
metadata: {name: second}
spec:
  {image: none, parallelism: 2, suspend: true, terminationGracePeriodSeconds: 1,
   resources: {requests: {cpu: 500m, memory: 1Gi}}}
"""


def test_from_submission_to_the_end(sj: Sj) -> None:
    file = sj.folder / "jobs.yaml"
    file.write_text(MANIFEST)
    assert sj("submit", str(file)) == [
        "persistentvolumeclaim/state created",
        "scavengerjob.scavenger.dev/first created",
        "scavengerjob.scavenger.dev/second created",
    ]
    assert sj("wait", "first", "--for=running", "--timeout", "120s") == ["scavengerjob.scavenger.dev/first running"]
    sj("wait", "second", "--for=suspended", "--timeout", "120s")
    assert sj("list") == [
        "NAME  QUEUE  STATUS  INTERRUPTED  RUNTIME  AGE  REASON",
        "first  default  Running  0  SPAN  SPAN",
        "second  default  Suspended  0  SPAN  Suspended",
    ]
    assert sj("list", "-A", "-o", "wide", "--status", "running", namespace=False) == [
        "NAMESPACE  NAME  KIND  QUEUE  STATUS  INTERRUPTED  RUNTIME  AGE  REASON  PODS  TASKS  CPU  MEMORY  "
        "CPU-USED  MEMORY-USED  CAPACITY  CLASS  UNSAVED  LAST-CHECKPOINT  MESSAGE",
        f"{sj.namespace}  first  ScavengerJob  default  Running  0  SPAN  SPAN  1  2  1Gi  Guaranteed  preemptible  "
        "CPUTIME  running",
    ]
    assert sj("resume", "second") == ["scavengerjob.scavenger.dev/second resumed"]
    sj("wait", "second", "--for=running", "--timeout", "120s")
    assert sj("suspend", "first", "second") == [
        "scavengerjob.scavenger.dev/first suspended",
        "scavengerjob.scavenger.dev/second suspended",
    ]
    assert sj("suspend", "first") == ["scavengerjob.scavenger.dev/first is suspended already"]
    # Before that its status may still say Running, of the pod that has to go.
    assert sj("wait", "first", "--for=suspended", "--timeout", "120s") == ["scavengerjob.scavenger.dev/first suspended"]
    sj("resume", "first")
    sj("wait", "first", "--for=running", "--timeout", "120s")
    sj.annotate_pods("first", **{"run-seconds": "0", "exit-code": "0"})
    assert sj("wait", "first", "--timeout", "120s") == ["scavengerjob.scavenger.dev/first completed"]
    assert sj.refused(1, "cancel", "first") == [
        "error: first is Completed already: nothing to cancel",
        "  kubectl sj delete first removes it",
    ]
    assert sj("cancel", "second") == ["scavengerjob.scavenger.dev/second cancelled"]
    assert sj("delete", "--finished") == ["scavengerjob.scavenger.dev/first deleted"]
    assert sj.refused(0, "list") == [f"No jobs found in namespace {sj.namespace}."]


def test_the_story_of_an_interruption(sj: Sj) -> None:
    sj("run", "sim", *SMALL, "--interruption-after", "10m", "--", "--steps=5")
    sj("wait", "sim", "--for=running", "--timeout", "120s")
    sj.cluster.client.delete(sj.path("pods", sj.pods("sim")[0]["metadata"]["name"]))
    sj.until("sim counted", lambda: sj.job("sim")["status"].get("interruptedCount") == 1)
    sj("wait", "sim", "--for=running", "--timeout", "120s")
    shown = sj("get", "sim")
    cpu_time = shown.pop(9)
    assert shown == [
        f"Job  {sj.namespace}/sim",
        "Queue  default",
        "Status  Running for SPAN",
        "Message  running",
        "Asks for  2 cpu, 1Gi memory",
        "Capacity  Guaranteed: capacity that no pod has requested",
        "Image  none",
        "Checkpoints  at least every SPAN; next due in SPAN",
        "Interrupted  1 time",
        "Class  preemptible",
        "",
        "Timeline:",
        "  TIME  SPAN ago  submitted",
        "  TIME  SPAN ago  running",
        "  TIME  SPAN ago  interrupted after SPAN",
        "  TIME  SPAN ago  running, after 1st interruption",
    ]
    assert re.fullmatch(r"CPU time  CPUTIME useful, CPUTIME lost.*, CPUTIME unsaved", cpu_time)
    found = yaml.safe_load("\n".join(sj.run("get", "sim", "-o", "yaml").stdout.splitlines()))
    assert found["spec"]["args"] == ["--steps=5"]
    assert "managedFields" not in found["metadata"]
    assert sj("get", "sim", "-o", "name") == ["scavengerjob.scavenger.dev/sim"]
    sj.annotate_pods("sim", **{"run-seconds": "0", "exit-code": "3"})
    assert sj.refused(4, "wait", "sim", "--timeout", "120s") == [
        "error: sim failed: container main of pod sim-0-POD exited with code 3",
        "  kubectl sj why sim",
    ]
    assert sj("why", "sim")[0] == "sim failed SPAN ago: container main of pod sim-0-POD exited with code 3."
    assert " ".join("\n".join(sj("why", "sim")).split()).endswith("a failed job is never retried by itself")


def test_why(sj: Sj) -> None:
    """Each of these waits for another reason."""
    jobs = {
        "big": ("--cpu", "20"),
        "picky": ("--cpu", "1", "--node-selector", "disk=ssd"),
        "lost": ("--cpu", "1", "--queue", "nowhere"),
        "broad": ("--cpu", "6", "--parallelism", "9"),
        "over": ("--cpu", "6", "--parallelism", "4"),
    }

    def in_line(name: str) -> bool:
        return bool(sj.job(name).get("status", {}).get("phase") == "Waiting")

    for name, options in jobs.items():
        sj("run", name, "--image", "none", "--memory", "1Gi", "--grace", "1", *options)
        # Before the next one comes: of several that it sees at the same time, the admitter may put any first in line.
        sj.until(f"{name} in line", partial(in_line, name))
    for name, words in {
        "big": "largest node",
        "picky": "nodeSelector",
        "lost": "no ScavengerQueue",
        "broad": "all nodes together",
        "over": "admission threshold",
    }.items():
        sj.until_message(name, words)
    assert sj("why", "big") == [
        "big has been waiting for SPAN: cannot start as things are: requests 20 cpu; the",
        "largest node offers 8 cpu: lower resources.requests or add a node.",
        "",
        "  cpu requests  0 % now, 62.5 % with this job; new jobs start below 70 %",
        "  memory requests  0 % now, 0.8 % with this job; new jobs start below 70 %",
        "  it needs  20 cpu, 1Gi memory",
        "  largest free place  8 cpu, 32Gi memory (node fake-001)",
        "  capacity now  for no such pod on 4 nodes it may use",
        "  position  1st of 4 in queue default",
        "",
        "What helps:",
        "  - submit it again with lower resources",
        "  - add a larger node",
    ]
    assert sj("why", "over") == [
        "over has been waiting for SPAN: cpu load would be 75 %; it has to stay under the",
        "admission threshold of 70 %.",
        "",
        "  cpu requests  0 % now; new jobs start below 70 %",
        "  memory requests  0 % now, 3.1 % with this job; new jobs start below 70 %",
        "  it needs  4 pods of 6 cpu, 1Gi memory",
        "  largest free place  8 cpu, 32Gi memory (node fake-001)",
        "  capacity now  for 4 such pods on 4 nodes it may use",
        "  position  4th of 4 in queue default",
        "",
        "What helps:",
        "  - wait: it starts when regular workloads or other jobs have freed enough",
        "  - a job of less than 22.4 cpu in all would be under the level",
    ]
    causes = {
        name: json.loads(sj.run("why", name, "-o", "json").stdout)["cause"] for name in ("picky", "lost", "broad")
    }
    assert causes == {"picky": "NoSelectorMatch", "lost": "QueueMissing", "broad": "LargerThanCluster"}
    assert sj("move", "lost", "--priority", "5") == ["scavengerjob.scavenger.dev/lost moved to priority 5"]
    assert sj("move", "lost", "--queue", "default") == ["scavengerjob.scavenger.dev/lost moved to queue default"]
    sj("wait", "lost", "--for=running", "--timeout", "120s")
    assert sj("why", "lost")[0] == "lost has been running for SPAN."


def test_queues(sj: Sj) -> None:
    name = f"night-{sj.namespace}"

    def queue(*words: str) -> list[str]:
        return [line.replace(name, "NIGHT") for line in sj("queue", *words, namespace=False)]

    try:
        assert queue("create", name, "--weight", "3", "--quota", "cpu=10,memory=1Ti") == [
            "scavengerqueue.scavenger.dev/NIGHT created"
        ]
        assert queue("close", name) == ["scavengerqueue.scavenger.dev/NIGHT closed"]
        sj("run", "sim", *SMALL, "--queue", name)
        sj.until_message("sim", "closed")
        why = " ".join("\n".join(sj("why", "sim")).split())
        closed = f"cannot start as things are: queue {name} is closed: open it, or name another queue."
        assert f"sim has been waiting for SPAN: {closed}" in why
        assert f"open it: kubectl sj queue open {name}" in why
        assert queue("open", name) == ["scavengerqueue.scavenger.dev/NIGHT opened"]
        sj("wait", "sim", "--for=running", "--timeout", "120s")
        assert queue("set", name, "--weight", "5", "--quota", "memory=-") == [
            "scavengerqueue.scavenger.dev/NIGHT changed"
        ]
        shown = queue("get", name)
        assert shown[:4] == ["Queue  NIGHT", "State  Open", "Weight  5", "Quota  cpu=10"]
        listed = queue("list")
        assert listed[0] == "NAME  STATE  WEIGHT  TOTAL  PENDING  RUNNING  CPU  SHARE  QUOTA  AGE"
        assert any(line.startswith("NIGHT  Open  5") for line in listed)
        assert f"scavengerqueue.scavenger.dev/{name}" in sj("queue", "list", "-o", "name", namespace=False)
        assert sj.refused(1, "queue", "delete", name, namespace=False)[0] == f"error: a job is in queue {name}"
    finally:
        assert queue("delete", name, "--yes")[0].startswith("scavengerqueue.scavenger.dev/NIGHT deleted")


def test_errors_are_sentences(sj: Sj) -> None:
    sj("run", "simulation", *SMALL, "--suspended")
    ns = sj.namespace
    assert sj.refused(3, "get", "simulatoin") == [
        f"error: there is no ScavengerJob simulatoin in namespace {ns}",
        "  did you mean simulation?",
    ]
    assert sj.refused(3, "why", "simulation", "-n", "default", namespace=False) == [
        "error: there is no ScavengerJob simulation in namespace default",
        f"  there is one in {ns}: add -n {ns}",
    ]
    assert sj.refused(1, "run", "simulation", *SMALL) == [
        "error: there is a ScavengerJob simulation already",
        "  choose another name; `kubectl sj get simulation` shows the one there is",
    ]
    assert sj.refused(1, "run", "Bad", "--image", "none", "--cpu", "zero", "--memory", "1Gi") == [
        "error: Bad is not valid:",
        "  metadata.name: write lower case letters, digits and dashes, with a letter or a digit at both ends",
        "  spec.resources.requests.cpu: write a quantity: a number with an optional suffix, as SPAN, 2 or 4Gi",
    ]
    assert sj.refused(1, "run", "long", *SMALL, "--interruption-after", "9d") == [
        "error: long is not valid:",
        "  spec.interruptionAfter: write a duration from SPAN to SPAN, as SPAN, SPAN or SPAN",
    ]
    typo = MANIFEST.replace("parallelism", "paralelism")
    assert sj.refused(1, "submit", "-", stdin=typo) == [
        "error: second is not valid:",
        "  unknown field spec.paralelism: did you mean parallelism?",
    ]
    assert sj.refused(3, "get", "first")[0].startswith("error: there is no ScavengerJob first")  # all, or none
    assert sj.refused(3, "run", "a", *SMALL, "-n", "no-such", namespace=False) == [
        "error: there is no namespace no-such",
        "  create it with `kubectl create namespace no-such`",
    ]
    assert sj.refused(3, "move", "simulation", "--queue", "nihgt")[0] == "error: there is no ScavengerQueue nihgt"
    assert sj.refused(5, "wait", "simulation", "--timeout", "50ms") == [
        "error: simulation was not completed within CPUTIME",
        "  kubectl sj why simulation says what is in the way",
    ]
    assert sj.refused(1, "logs", "simulation")[0] == "error: no pod of simulation has run that is still there"
    assert sj.refused(2, "list", "--status", "dead")[0] == "error: there is no status dead"


def test_who_may_not_look(sj: Sj) -> None:
    """A researcher with the role `edit` in one namespace is told what can be told."""
    kubectl = sj.cluster.kubectl
    kubectl("-n", sj.namespace, "create", "serviceaccount", "researcher")
    kubectl(
        *("-n", sj.namespace, "create", "rolebinding", "researcher", "--clusterrole=edit"),
        f"--serviceaccount={sj.namespace}:researcher",
    )
    token = kubectl("-n", sj.namespace, "create", "token", "researcher").strip()
    config = yaml.safe_load(Path(sj.cluster.kubeconfig).read_text())
    config["users"] = [{"name": one["name"], "user": {"token": token}} for one in config["users"]]
    file = sj.folder / "researcher.yaml"
    file.write_text(yaml.safe_dump(config))
    sj.environment["KUBECONFIG"] = str(file)
    # Rights come to the API server by watches, and those of `edit` are put together by a controller.
    trial = ("run", "trial", "--image", "none", "--cpu", "20", "--memory", "1Gi", "--dry-run")
    sj.until("the role to be known", lambda: sj.run(*trial).returncode == 0)
    sj("run", "mine", "--image", "none", "--cpu", "20", "--memory", "1Gi")
    sj.until_message("mine", "largest node")
    user = f"system:serviceaccount:{sj.namespace}:researcher"
    assert sj("why", "mine") == [
        "mine has been waiting for SPAN: cannot start as things are: requests 20 cpu; the",
        "largest node offers 8 cpu: lower resources.requests or add a node.",
        "",
        "  it needs  20 cpu, 1Gi memory",
        "  not permitted  to read the levels",
        "  not permitted  to read nodes",
        "  not permitted  to read queues",
        "  not permitted  to read jobs of other namespaces",
        "",
        "What helps:",
        "  - submit it again with lower resources",
        "  - add a larger node",
    ]
    assert sj.refused(1, "list", "-A", namespace=False) == [
        f"error: {user} may not list scavengerjobs in the whole cluster",
        "  name a namespace with -n, or ask an administrator for the ClusterRole scavenger-jobs-view",
    ]
    assert sj.refused(1, "queue", "create", "mine", namespace=False)[1] == (
        "  queues belong to the cluster: ask an administrator"
    )
    assert sj("list")[1] == "mine  default  Waiting  0  SPAN  LargerThanAnyNode"
    sj.environment["KUBECONFIG"] = str(sj.cluster.kubeconfig)


LEVELS = {
    "state": "Speculative",
    "admit": "true",
    "preemptiblePercentage": "61.5",
    "reserve": "20",
    "periodSeconds": "600",  # levels are stale after three periods
    **{
        f"{k}.cpu": v
        for k, v in zip(
            ("load", "mean", "stdev", "lower", "upper", "admission"), (78, 41.3, 6.2, 73.8, 87.1, 81), strict=True
        )
    },
    **{f"{k}.memory": v for k, v in zip(("load", "lower", "upper", "admission"), (31, 75, 88.3, 80), strict=True)},
}


@pytest.fixture
def levels(cluster: Cluster) -> object:
    """What a regulator publishes."""
    path = "/api/v1/namespaces/scavenger-system/configmaps"
    data = {**{k: str(v) for k, v in LEVELS.items()}, "observedAt": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "scavenger-levels"}, "data": data}
    cluster.client.request("POST", path, body)
    yield data
    cluster.client.delete(f"{path}/scavenger-levels")


def test_levels_and_top_at_80_columns(sj: Sj, levels: dict[str, str]) -> None:
    shown = sj.run("levels", namespace=False).stdout.splitlines()
    assert [line.rstrip() for line in shown[1:]] == [
        "More than was meant to be filled is in use.",
        "61.5 % of the running jobs are preemptible; reserve 20 %; measured every 600 s.",
        "",
        "cpu     ██████████████████████████████████████████┃██░┃░░░┃░░░░░░░     78 %",
        "        lower 73.8 %, admission 81 %, upper 87.1 %",
        "        regular load 41.3 % on average, standard deviation 6.2 %",
        "",
        "memory  ██████████████████░░░░░░░░░░░░░░░░░░░░░░░░░┃░┃░░░░┃░░░░░░░     31 %",
        "        lower 75 %, admission 80 %, upper 88.3 %",
    ]
    assert yaml.safe_load(sj.run("levels", "-o", "yaml", namespace=False).stdout) == levels
    sj("run", "sim", *SMALL, "--suspended")
    top = [line.rstrip() for line in sj.run("top").stdout.splitlines()]
    assert all(len(line) <= 80 for line in top)
    assert normalised(top[0]) == ["Cluster  Speculative, new jobs may start, measured SPAN ago"]
    assert top[1:3] == [
        "  cpu    ███████████████████████┃░┃░░░░    78 %  start < 81 %, evict > 87.1 %",
        "  memory █████████░░░░░░░░░░░░░░┃░┃░░░░    31 %  start < 80 %, evict > 88.3 %",
    ]
    assert top[4].split() == ["NODE", "CPU", "(requests)", "MEMORY", "PODS", "SCAVENGER"]
    assert sj("top", "jobs")[-1].endswith("  0 on nodes, 0 queued")
    nodes = sj("top", "nodes")
    assert nodes[4].split() == ["NODE", "LOAD", "(requests)", "RESERVED", "USED", "RECLAIMED", "FREE"]
    assert len(nodes) == 5 + 2 * NODES
    found = json.loads(sj.run("top", "nodes", "-o", "json").stdout)
    assert {node["cpu"]["allocatable"] for node in found} == {str(CPUS)}
    assert {node["cpu"]["used"] for node in found} == {None}
    assert sj.refused(2, "top", "pods") == ["error: top has no section pods", "  choose one of nodes, queues, jobs"]


def test_watch_in_a_terminal_of_80_columns(sj: Sj) -> None:
    sj("run", "sim", *SMALL)
    sj("wait", "sim", "--for=running", "--timeout", "120s")
    leader, follower = pty.openpty()
    ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {**os.environ, **sj.environment, "TERM": "xterm"}
    environment.pop("COLUMNS")
    process = subprocess.Popen(
        [sys.executable, "-m", "scavenger_cli", "watch", "-n", sj.namespace],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env=environment,
    )
    os.close(follower)
    try:
        first = _frame_with(leader, "Running")
        sj("suspend", "sim")
        second = _frame_with(leader, "Suspended")
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT) == 130
    finally:
        process.kill()
        process.wait()
        os.close(leader)
    lines = [line.rstrip() for line in first.splitlines() if line.strip()]
    assert all(len(line) <= 80 for line in lines)
    table = [line.split() for line in lines]
    assert ["NAME", "QUEUE", "STATUS", "INTERR.", "RUNTIME", "AGE", "MESSAGE"] in table
    assert ["1", "running"] in table
    assert ["sim", "default", "Running", "0"] in [row[:4] for row in table]
    assert "sim" in second


def _frame_with(terminal: int, word: str) -> str:
    """The first whole frame that shows the word: each begins at the top left, and ends where the next one begins."""
    text = b""  # what is read at a time may end in the middle of a character
    end = time.monotonic() + TIMEOUT
    while True:
        for frame in text.split(b"\x1b[H")[1:-1]:
            if word.encode() in frame:
                return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", frame.decode()).replace("\r", "")
        assert time.monotonic() < end, text.decode(errors="replace")
        if select.select([terminal], [], [], 0.5)[0]:
            text += os.read(terminal, 65536)


def test_kubectl_finds_it_and_completes(sj: Sj) -> None:
    sj("run", "simulation", *SMALL, "--suspended")
    scripts = str(Path(sys.executable).parent)
    environment = {**os.environ, **sj.environment, "PATH": f"{scripts}:{os.environ['PATH']}"}
    kubectl = str(ensure_tools(["kubectl"], lambda line: None)["kubectl"])

    def ask(*words: str) -> list[str]:
        done = subprocess.run(
            [kubectl, *words], env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=True
        )
        return done.stdout.splitlines()

    assert ask("sj", "list", "-n", sj.namespace, "-o", "name") == ["scavengerjob.scavenger.dev/simulation"]
    assert ask("sj", "-n", sj.namespace, "list", "-o", "name") == ["scavengerjob.scavenger.dev/simulation"]
    assert ask("scavenger", "get", "simulation", "-n", sj.namespace, "-o", "name") == [
        "scavengerjob.scavenger.dev/simulation"
    ]

    def completes(*words: str) -> None:
        """A completion has three seconds, and then none rather than a shell that hangs; so it is asked for again."""
        sj.until(f"completed: {words}", lambda: ask("__complete", "sj", *words) == ["simulation", ":4"])

    completes("why", "-n", sj.namespace, "s")
    completes("-n", sj.namespace, "describe", "s")
    sj.until("the namespace completed", lambda: sj.namespace in ask("__complete", "sj", "list", "-n", "it-"))
