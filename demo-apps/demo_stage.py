"""The cluster that the demo's story is told on, and the words it is told in.

Whatever changes anything is a command that anybody could type, and is shown; what only looks asks the API.
"""

from __future__ import annotations

import json
import math
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import yaml
from rich.console import Console
from rich.markup import escape
from scavenger_api.names import LEVELS_CONFIGMAP, SYSTEM_NAMESPACE
from scavenger_api.quantity import parse_quantity
from scavenger_kube import kubeconfig
from scavenger_kube.blocking import Client
from scavenger_kube.errors import NotFound

ROOT: Final = Path(__file__).resolve().parents[1]
SHOP, CHEM, BIO = NAMESPACES = ("demo-shop", "demo-chemistry", "demo-biology")
"""Regular workloads, and two teams, each with a queue of the same name."""
TIMEOUT: Final = 120.0
"""Seconds for what comes within a few on a machine that has nothing else to do."""
LOOK: Final = 0.4
"""Seconds between two looks."""

console = Console(highlight=False, soft_wrap=True)
started = time.monotonic()

Object = dict[str, Any]


class DemoError(Exception):
    """Something that the story promises did not happen."""


def say(text: str, style: str = "") -> None:
    """One line of the story, with the time since the demo began."""
    console.print(f"[dim]{time.monotonic() - started:6.1f} s[/dim]  [{style or 'default'}]{text}[/]")


def until(what: str, condition: Callable[[], Any], timeout: float = TIMEOUT) -> Any:
    """Poll until the condition holds; DemoError when it does not in time."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise DemoError(f"waited {timeout:.0f} s in vain: {what}")
        time.sleep(LOOK)


@dataclass(frozen=True)
class Size:
    """So much CPU in so many pods alike; a program of one thread uses a core at most. cpu: millicores of each pod."""

    pods: int
    cpu: int

    @classmethod
    def of(cls, millicores: float, at_least: int = 1) -> Size:
        """As few pods as can use it, but so many."""
        pods = max(at_least, math.ceil(millicores / 1000))
        return cls(pods, max(1, round(millicores / pods)))


@dataclass(frozen=True)
class Stage:
    """A cluster, as whoever tells the story sees it.

    environment: with a PATH on which kubectl, helm and kubectl-sj are, and the KUBECONFIG. real: containers run, and
    the services are in pods. measured: the metrics API has figures. unit: a twentieth of its CPU, in millicores. image:
    of the program that counts. snap: image of what saves programs without checkpoints; empty where none runs.
    scheduler: of ordinary pods that need room at once.
    """

    environment: Mapping[str, str]
    real: bool
    measured: bool
    unit: float
    image: str
    snap: str = ""
    scheduler: str | None = None

    @cached_property
    def client(self) -> Client:
        """Of the API server, with what the kubeconfig says."""
        return Client(lambda: kubeconfig.load(self.environment.get("KUBECONFIG")))

    # --- commands ---

    def run(self, *words: str, input: str | None = None, shown: str = "") -> str:
        """Run a command and return what it prints. shown: how the command is shown; not at all, where it is empty.
        DemoError with what it said when it fails."""
        if shown:
            say(escape(f"$ {shown}"), "bold")
        done = subprocess.run(
            words,
            input=input,
            cwd=ROOT,
            env=dict(self.environment),
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode != 0:
            said = (done.stderr.strip() or done.stdout.strip())[-3000:]
            raise DemoError(f"{shlex.join(words[:6])} … ended with {done.returncode}: {said}")
        return done.stdout

    def shell(self, *words: str) -> str:
        """Run a command, and show it as one would type it."""
        return self.run(*words, shown=shlex.join(words))

    def apply(self, namespace: str, *objects: Object) -> None:
        """Create or change objects."""
        self.run("kubectl", "apply", "-n", namespace, "-f", "-", input=yaml.safe_dump_all(objects))

    def scale(self, deployment: str, replicas: int) -> None:
        """Have an ordinary Deployment run with so many pods."""
        self.shell("kubectl", "-n", SHOP, "scale", f"deployment/{deployment}", f"--replicas={replicas}")

    def ready(self, namespace: str, *deployments: str) -> None:
        """Wait until these Deployments are."""
        for name in deployments:
            self.run("kubectl", "-n", namespace, "rollout", "status", f"deployment/{name}", f"--timeout={TIMEOUT:.0f}s")

    # --- looks ---

    def get(self, path: str, **params: str) -> Any:
        """What the API server has there; None where it has nothing."""
        try:
            return json.loads(self.client.get(path, params))
        except NotFound:
            return None

    def items(self, path: str, **params: str) -> list[Object]:
        """The objects of a list."""
        return list((self.get(path, **params) or {}).get("items") or ())

    def jobs(self) -> dict[str, Object]:
        """The status of each ScavengerJob of the demo, by name."""
        found = self.items("/apis/scavenger.dev/v1alpha1/scavengerjobs")
        ours = (job for job in found if job["metadata"]["namespace"] in NAMESPACES)
        return {job["metadata"]["name"]: dict(job.get("status") or {}) for job in ours}

    def status(self, job: str) -> Object:
        """status of a ScavengerJob; empty before there is one."""
        return self.jobs().get(job, {})

    def in_phase(self, *phases: str) -> list[str]:
        """The names of the demo's jobs in one of these phases."""
        return sorted(name for name, status in self.jobs().items() if status.get("phase") in phases)

    def pods(self, namespace: str, selector: str = "") -> list[Object]:
        """Pods that nobody has deleted."""
        found = self.items(f"/api/v1/namespaces/{namespace}/pods", labelSelector=selector)
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def scavenger_pods(self) -> list[Object]:
        """Pods of the demo's jobs."""
        return [pod for team in (CHEM, BIO) for pod in self.pods(team, "scavenger.dev/job")]

    def running(self, pod: str) -> bool:
        """Whether an ordinary pod of the shop runs."""
        found = self.get(f"/api/v1/namespaces/{SHOP}/pods/{pod}") or {}
        return bool((found.get("status") or {}).get("phase") == "Running")

    def levels(self) -> dict[str, str]:
        """What the regulator publishes; empty before it has measured."""
        found = self.get(f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/configmaps/{LEVELS_CONFIGMAP}") or {}
        return dict(found.get("data") or {})

    def free(self) -> dict[str, float]:
        """Millicores that are not requested yet, of each node."""
        left = {name: millicores(node["status"]["allocatable"]["cpu"]) for name, node in self.nodes().items()}
        for pod in self.items("/api/v1/pods"):
            node = pod["spec"].get("nodeName", "")
            if node in left and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
                left[node] -= requests_of(pod)
        return left

    def nodes(self) -> dict[str, Object]:
        """The nodes that take pods, by name."""
        found = self.items("/api/v1/nodes")
        return {node["metadata"]["name"]: node for node in found if takes_pods(node)}

    def describe(self) -> str:
        """What there is, for whoever has to find out why the story did not come about."""
        looks = (
            ("get", "pods,sj,sq", "-A", "-o", "wide"),
            ("get", "configmap", LEVELS_CONFIGMAP, "-n", SYSTEM_NAMESPACE, "-o", "jsonpath={.data}"),
            ("get", "events", "-A", "--sort-by=.metadata.creationTimestamp"),
        )
        parts = []
        for words in looks:
            try:
                parts.append(self.run("kubectl", *words)[-6000:])
            except DemoError as error:
                parts.append(str(error))
        return "\n".join(parts)


def programs_on(folder: Path, tools: Mapping[str, Path], config: Path | None = None) -> dict[str, str]:
    """An environment in which these programs, `kubectl sj`, and a kubeconfig of its own are found. folder: for that."""
    programs = folder / "bin"
    programs.mkdir()
    for name, program in tools.items():
        (programs / name).symlink_to(program)
    path = [str(programs), str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    homes = {f"HELM_{name}_HOME": str(folder / "helm" / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
    environment = {**os.environ, "PATH": os.pathsep.join(path), **homes, "KUBECACHEDIR": str(folder / "kubectl")}
    return environment if config is None else {**environment, "KUBECONFIG": str(config)}


def takes_pods(node: Object) -> bool:
    """Whether a pod without tolerations may go there."""
    spec = node.get("spec") or {}
    conditions = {one["type"]: one["status"] for one in (node.get("status") or {}).get("conditions", ())}
    closed = any(taint.get("effect") != "PreferNoSchedule" for taint in spec.get("taints") or ())
    return conditions.get("Ready") == "True" and not closed and not spec.get("unschedulable")


def requests_of(pod: Object) -> float:
    """Millicores that the containers of a pod request."""
    asked = ((one.get("resources") or {}).get("requests") or {} for one in pod["spec"]["containers"])
    return sum(millicores(each["cpu"]) for each in asked if "cpu" in each)


def millicores(quantity: str) -> float:
    """A quantity of CPU."""
    return float(1000 * parse_quantity(quantity))


def ordinary(name: str, image: str, requests: float, program: Sequence[str], limit: float | None = None) -> Object:
    """spec of an ordinary pod of so many millicores, without any mention of scavenging."""
    resources: Object = {"requests": {"cpu": f"{max(1, round(requests))}m", "memory": "24Mi"}}
    if limit is not None:
        resources["limits"] = {"cpu": f"{round(limit)}m"}
    container = {"name": name, "image": image, "command": ["python3", "-c", *program], "resources": resources}
    return {"terminationGracePeriodSeconds": 1, "containers": [container]}


def deployment(name: str, replicas: int, spec: Object) -> Object:
    """An ordinary Deployment."""
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }
