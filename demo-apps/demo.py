"""The story of a scavenger job on a real cluster: it runs, gives way, comes back, and its result is right.

    make demo
    python demo-apps/demo.py [--keep] [--name NAME]

Brings up an embedded cluster with one node of one core and the services of this repository, tells the story with times,
and takes everything down again. Exit code 0 means that every step was seen to happen.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import demo_loop
from demo_stage import NAMESPACE, DemoError, Stage, console, say, until
from rich.table import Table
from scavenger_cluster import Cluster, cgroups, stack
from scavenger_cluster.api import namespaced
from scavenger_cluster.errors import ClusterError

COUNTER = Path(__file__).parent / "counter" / "counter.py"
ORDINARY_CPU = "500m"


def scavenger_job(name: str, parallelism: int, cpu: str, steps: int, seconds: int) -> dict[str, Any]:
    """A ScavengerJob that counts, with its checkpoints in a folder of its own on the volume."""
    arguments = ["run", f"--dir=/data/{name}", f"--steps={steps}", f"--seconds={seconds}", "--checkpoint-every=3"]
    return {
        "apiVersion": "scavenger.dev/v1alpha1",
        "kind": "ScavengerJob",
        "metadata": {"name": name},
        "spec": {
            "image": stack.COUNTER_IMAGE,
            "args": arguments,
            "parallelism": parallelism,
            "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}},
            "persistentVolumeClaims": [{"name": "checkpoints", "mountPath": "/data"}],
            "interruptionAfter": "30s",
            "terminationGracePeriodSeconds": 5,
        },
    }


def ordinary_pod(name: str) -> dict[str, Any]:
    """A pod without any mention of scavenging, that needs more room than is left."""
    sleep = "import signal, time; signal.signal(signal.SIGTERM, lambda *_: exit(0)); time.sleep(3600)"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 2,
            "containers": [
                {
                    "name": "web",
                    "image": stack.COUNTER_IMAGE,
                    "command": ["python3", "-c", sleep],
                    "resources": {"requests": {"cpu": ORDINARY_CPU, "memory": "64Mi"}},
                }
            ],
        },
    }


def tell(stage: Stage, name: str, parallelism: int, cpu: str, work: tuple[int, int]) -> tuple[str, ...]:
    """One story from submission to the right result; returns its line of the summary."""
    steps, seconds = work
    pods = f"{parallelism} pods of {cpu} CPU" if parallelism > 1 else f"one pod of {cpu} CPU"
    stage.apply(scavenger_job(name, parallelism, cpu, steps, seconds))
    say(f"[b]{name}[/b] submitted: a ScavengerJob, {pods}, about {seconds} s of work, a checkpoint every 3 s")
    submitted = time.monotonic()
    stage.phase(name, "Running")
    where = "in a real container" if stage.real else "on a fake node"
    say(f"[b]{name}[/b] Running {where} ({time.monotonic() - submitted:.1f} s after it was submitted)", "green")
    time.sleep(seconds * 0.3)  # long enough to have something at risk, and to be interrupted well before the end

    stage.apply(ordinary_pod(f"{name}-web"))
    say(f"an ordinary pod arrives and needs {ORDINARY_CPU} CPU: there is no such room beside {name}")
    arrived = time.monotonic()
    interrupted = stage.phase(name, "Interrupted")
    say(f"[b]{name}[/b] Interrupted (count {interrupted['interruptedCount']}): {interrupted['message']}", "yellow")
    until("the ordinary pod runs", lambda: running(stage, f"{name}-web"))
    say(f"the ordinary pod is Running, {time.monotonic() - arrived:.1f} s after it arrived", "green")
    time.sleep(3)

    stage.kubectl("delete", "pod", f"{name}-web", "--wait=false")
    say("the ordinary pod leaves")
    status = stage.phase(name, "Running")
    if len(status["runningTimestamps"]) != 2:
        raise DemoError(f"{name} has run {len(status['runningTimestamps'])} times, not twice")
    say(f"[b]{name}[/b] Running again, from its checkpoint", "green")
    result = finish(stage, name)
    return (
        name,
        str(parallelism),
        str(stage.status(name)["interruptedCount"]),
        f"{stage.status(name)['usefulCPUSeconds']:.1f}",
        f"{stage.status(name)['lostCPUSeconds']:.1f}",
        result,
    )


def running(stage: Stage, pod: str) -> bool:
    """Whether an ordinary pod runs."""
    found = stage.cluster.client.find(namespaced("pod", NAMESPACE, pod))
    return found is not None and found["status"].get("phase") == "Running"


def finish(stage: Stage, name: str) -> str:
    """Wait for the end and have the result verified; returns what the verification said."""
    if not stage.real:
        for pod in stage.pods(name):
            done = json.dumps({"status": {"phase": "Succeeded"}})
            stage.kubectl("patch", "pod", pod["metadata"]["name"], "--subresource=status", "--type=merge", "-p", done)
        stage.phase(name, "Completed")
        say(f"[b]{name}[/b] Completed (marked so by this demo: a fake node runs no program)", "green")
        return "not computed: fake node"
    status = stage.phase(name, "Completed")
    useful, lost = status["usefulCPUSeconds"], status["lostCPUSeconds"]
    say(f"[b]{name}[/b] Completed: {useful:.1f} CPU-seconds useful, {lost:.1f} lost", "green")
    verified = subprocess.run(
        [sys.executable, str(COUNTER), "verify", "--dir", str(stage.volume / name)],
        capture_output=True,
        text=True,
        check=False,
    )
    for line in (verified.stdout + verified.stderr).strip().splitlines():
        say(f"  {line}")
    if verified.returncode != 0:
        raise DemoError(f"the result of {name} is wrong")
    return "correct"


def story(cluster: Cluster, metrics: Callable[[], None]) -> None:
    """Both stories, the summary, and the loop. `metrics`: returns when the metrics API has figures."""
    stage = Stage(cluster, cluster.data_dir / "demo-volume")
    stage.prepare()
    table = Table("job", "pods", "interrupted", "CPU-seconds useful", "CPU-seconds lost", "result")
    table.add_row(*tell(stage, "pi", 1, "600m", (200, 10)))
    say("the same for a gang of two: both run, or none; when one is taken, both leave")
    table.add_row(*tell(stage, "gang", 2, "300m", (400, 10)))
    console.print(table)
    console.print(stage.kubectl("get", "sj"))
    stage.kubectl("delete", "sj", "--all")
    if stage.real:
        metrics()
        demo_loop.tell(stage)
    else:
        say("the closed loop is left out: it needs the figures of real containers", "yellow")


def perform(cluster: Cluster, nodes: str, *, dns: bool) -> None:
    """Bring everything up and tell the story; what is needed last is built while the first part is told.

    No pod of the story asks for a name, so a name server is for those who look around afterwards: `dns`.
    """
    say("bringing up a real Kubernetes on this machine; the first time it is built from source, which takes a while")
    with stack.images_meanwhile(cluster.report):
        cluster.up(nodes, dns=dns, fake_cpu="1", arguments={"kubelet": stack.offer(cpu=1000)})
    stack.install(cluster)
    stack.start(cluster, ["admitter", "webhook"])
    if not cluster.state.real:
        story(cluster, metrics=lambda: None)
        return
    stack.build_images(cluster)
    with ThreadPoolExecutor(1) as pool:
        completed = pool.submit(cluster.up, metrics=True)
        story(cluster, metrics=completed.result)


def main() -> int:
    """Run the demo; 0 when all of it was seen to happen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", default="demo", help="name of the embedded cluster (default: demo)")
    # One node of one core: the story is about room that there is not.
    parser.add_argument("--nodes", default="auto:1", help="one node, real:1 or fake:1 (default: what is possible)")
    parser.add_argument("--keep", action="store_true", help="leave the cluster running, and say how to use it")
    arguments = parser.parse_args()
    try:
        show(Cluster(arguments.name, report=lambda line: say(line, "dim")), arguments.nodes, keep=arguments.keep)
    except (DemoError, ClusterError) as error:
        say(f"the demo failed: {error}", "red")
        return 1
    say("the whole story was seen to happen", "b green")
    return 0


def show(cluster: Cluster, nodes: str, *, keep: bool) -> None:
    """Bring up a new cluster and tell the story on it; then it is taken down, or kept."""
    cluster.down()
    try:
        with cgroups.cpu_claim():
            perform(cluster, nodes, dns=keep)
    finally:
        if keep:
            console.print(f"\nThe cluster is still there: {stack.paste_line(cluster)}")
        else:
            cluster.down()


if __name__ == "__main__":
    sys.exit(main())
