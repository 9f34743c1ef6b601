"""What it costs to hold 5,000 pods of 3.5 KB: CPU and memory of the informer, beside the typed client's
models.

Each measurement runs in a process of its own, as memory once taken is not given back. Measured is decoding
and storing with two indices, page by page; the bytes of a page are there already, as they come from the
socket, and are let go after.

And what the watch of ScavengerJobs costs the admitter: the first version of a job, one with another status, and one
that it has written itself, with a pod template and without.
"""

from __future__ import annotations

import gc
import json
import random
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, TypedDict

PODS = 5_000
PAGE = 500
NODES = 200
RUNS = 3
VERSIONS = 200
TEMPLATE_BYTES = 8 * 1024


class Figure(TypedDict):
    """One result. goal: what the value should reach, in the same unit; None for information."""

    name: str
    value: float
    unit: str
    goal: str | None


def pod(number: int, rng: random.Random) -> dict[str, Any]:
    """A pod as a cluster has them: 3.5 KB, of which a third is managedFields."""
    namespace, node = f"team-{number % 25}", f"node-{rng.randrange(NODES)}"
    uid = f"{rng.getrandbits(32):08x}-0000-4000-8000-{number:012d}"
    owner = f"{number // 4:08d}-aaaa-4000-8000-000000000000"
    stamp = "2026-01-05T08:00:00Z"
    return {
        "metadata": {
            "name": f"worker-{number // 4}-{number % 4}-{rng.getrandbits(20):05x}",
            "generateName": f"worker-{number // 4}-{number % 4}-",
            "namespace": namespace,
            "uid": uid,
            "resourceVersion": str(100_000 + number),
            "creationTimestamp": stamp,
            "labels": {
                "app.kubernetes.io/name": f"worker-{number // 4}",
                "batch.kubernetes.io/job-name": f"worker-{number // 4}",
                "batch.kubernetes.io/controller-uid": owner,
                "scavenger.dev/job": f"worker-{number // 4}",
                "scavenger.dev/queue": f"queue-{number % 7}",
                "scavenger.dev/preemption-class": "preemptible",
            },
            "annotations": {
                "batch.kubernetes.io/job-completion-index": str(number % 4),
                "scavenger.dev/running-priority": str(rng.randrange(100_000)),
            },
            "ownerReferences": [
                {
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "name": f"worker-{number // 4}",
                    "uid": owner,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "managedFields": [
                {
                    "manager": "kube-controller-manager",
                    "operation": "Update",
                    "apiVersion": "v1",
                    "time": stamp,
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {
                        "f:metadata": {
                            "f:labels": {f"f:label-{n}": {} for n in range(12)},
                            "f:generateName": {},
                        },
                        "f:spec": {
                            'k:{"name":"main"}': {f"f:field-{n}": {} for n in range(14)},
                            "f:dnsPolicy": {},
                            "f:enableServiceLinks": {},
                            "f:restartPolicy": {},
                        },
                    },
                }
            ],
        },
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example.org/team/worker:v1.2.3",
                    "command": ["/bin/worker", "--shards", "16"],
                    "env": [{"name": f"SETTING_{n}", "value": f"value-{n}"} for n in range(4)],
                    "resources": {
                        "limits": {"cpu": "500m", "memory": "1Gi"},
                        "requests": {"cpu": "500m", "memory": "1Gi"},
                    },
                    "volumeMounts": [
                        {
                            "name": "kube-api-access-abcde",
                            "readOnly": True,
                            "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
                        }
                    ],
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                    "imagePullPolicy": "IfNotPresent",
                }
            ],
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 30,
            "nodeName": node,
            "schedulerName": "default-scheduler",
            "priorityClassName": "scavenger-preemptible",
            "priority": -2000,
            "tolerations": [
                {
                    "key": f"node.kubernetes.io/{what}",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
                for what in ("not-ready", "unreachable")
            ],
        },
        "status": {
            "phase": "Running",
            "conditions": [
                {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": stamp}
                for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
            ],
            "hostIP": "10.0.0.1",
            "podIP": "10.1.2.3",
            "podIPs": [{"ip": "10.1.2.3"}],
            "startTime": stamp,
            "containerStatuses": [
                {
                    "name": "main",
                    "state": {"running": {"startedAt": stamp}},
                    "lastState": {},
                    "ready": True,
                    "restartCount": 0,
                    "image": "registry.example.org/team/worker:v1.2.3",
                    "imageID": "registry.example.org/team/worker@sha256:" + "0" * 64,
                    "containerID": "containerd://" + "1" * 64,
                    "started": True,
                }
            ],
            "qosClass": "Guaranteed",
        },
    }


def write_pages(folder: Path) -> float:
    """Write the pages as the API server would send them; returns the mean size of a pod in bytes."""
    rng = random.Random(1)
    sizes = 0
    for start in range(0, PODS, PAGE):
        items = [pod(number, rng) for number in range(start, start + PAGE)]
        more = {"continue": "x"} if start + PAGE < PODS else {}
        body = {"kind": "PodList", "metadata": {"resourceVersion": "999999", **more}, "items": items}
        text = json.dumps(body, separators=(",", ":"))
        sizes += len(text)
        (folder / f"{start:06d}.json").write_text(text)
    return sizes / PODS


def measure(what: str, folder: Path) -> dict[str, float]:
    """In this process: CPU seconds and growth of the resident set, for `informer` or `typed`."""
    hold = {"informer": _informer, "typed": _typed}[what]
    work = hold()
    work(b'{"metadata":{"resourceVersion":"1"},"items":[]}')  # imports and code paths are not what is measured
    gc.collect()
    before = _resident()
    cpu = 0.0
    held = []
    for path in sorted(folder.glob("*.json")):
        body = path.read_bytes()
        began = time.process_time()
        held.append(work(body))
        cpu += time.process_time() - began
        del body
    return {"cpu": cpu, "rss_mb": _resident() - before}


def _informer() -> Any:
    from scavenger_kube.decode import StructDecoder
    from scavenger_kube.kinds import Pod
    from scavenger_runtime.cache import Cache, by_node, by_owner_uid

    decoder = StructDecoder(Pod)
    cache: Cache[Pod] = Cache({"node": by_node, "owner": by_owner_uid})

    def work(body: bytes) -> Any:
        for one in decoder.page(body).items:
            cache.put(one, initial=True)
        return cache

    return work


def events() -> list[Figure]:
    """What an event of a watch on ScavengerJobs costs, in microseconds, and what it was before specs were kept."""
    template = {"name": "main", "image": "a", "env": [{"name": "TEXT", "value": "x" * TEMPLATE_BYTES}]}
    specs = {"flat": {}, "templated": {"template": {"spec": {"containers": [template]}}}}
    return [figure for name, spec in specs.items() for figure in _events_of(name, spec)]


def _events_of(name: str, spec: dict[str, Any]) -> list[Figure]:
    from scavenger_api.job import ScavengerJob
    from scavenger_kube.decode import ModelDecoder

    first = ModelDecoder(ScavengerJob).event(_job_event(spec, 0)).obj
    decoders = {
        "first": ModelDecoder(ScavengerJob),
        "status": ModelDecoder(ScavengerJob, lambda _: first),
        "written": ModelDecoder(ScavengerJob, lambda _: first),
    }
    lines = [_job_event(spec, number) for number in range(1, VERSIONS + 1)]
    taken: dict[str, list[float]] = {which: [] for which in decoders}
    for _ in range(20):  # in turn, as the machine is not always as fast
        for which, decoder in decoders.items():
            some = [_job_event(spec, 0)] * VERSIONS if which == "written" else lines
            began = time.process_time()
            held = [decoder.event(line) for line in some]
            taken[which].append((time.process_time() - began) / len(held))
    return [
        {"name": f"informer.decode.job_{name}.{which}", "value": min(found) * 1e6, "unit": "us", "goal": None}
        for which, found in taken.items()
    ]


def _job_event(spec: dict[str, Any], number: int) -> bytes:
    from scavenger_testing.builders import scavengerjob_dict

    stamp = "2026-01-05T08:00:00Z"
    job = scavengerjob_dict("worker", phase="Running")
    if "template" in spec:
        job["spec"] = {**spec, "queue": "default", "parallelism": 1}
    job["metadata"] |= {"uid": "u", "generation": 1, "resourceVersion": str(100 + number), "creationTimestamp": stamp}
    told = {"status": "True", "reason": "Running", "message": "all pods run", "lastTransitionTime": stamp}
    job["status"] |= {"conditions": [{"type": kind, **told} for kind in ("Admitted", "Running")], "message": "runs"}
    return json.dumps({"type": "MODIFIED", "object": job}, separators=(",", ":")).encode()


def _typed() -> Any:
    from kubernetes_asyncio import client

    api = client.ApiClient.__new__(client.ApiClient)
    api.configuration = client.Configuration()

    def work(body: bytes) -> Any:
        return client.ApiClient._ApiClient__deserialize(api, json.loads(body), "V1PodList")  # type: ignore[attr-defined]  # it is private

    return work


def _resident() -> float:
    """Megabytes now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def _fresh(what: str, folder: Path) -> dict[str, float]:
    answer = subprocess.run([sys.executable, __file__, what, str(folder)], check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(answer.stdout)
    return found


def run() -> list[Figure]:
    """Measure."""
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        size = write_pages(folder)
        ours = min((_fresh("informer", folder) for _ in range(RUNS)), key=lambda found: found["cpu"])
        typed = _fresh("typed", folder)
    return [
        {"name": "informer.decode.cpu_seconds", "value": ours["cpu"], "unit": "s", "goal": "<= 0.15"},
        {"name": "informer.decode.rss_mb", "value": ours["rss_mb"], "unit": "MB", "goal": "<= 40"},
        {
            "name": "informer.decode.ratio_to_typed_client",
            "value": typed["cpu"] / ours["cpu"],
            "unit": "x faster",
            "goal": ">= 20",
        },
        {"name": "informer.typed_client.cpu_seconds", "value": typed["cpu"], "unit": "s", "goal": None},
        {"name": "informer.typed_client.rss_mb", "value": typed["rss_mb"], "unit": "MB", "goal": None},
        {"name": "informer.pod_bytes", "value": size, "unit": "B", "goal": None},
        *events(),
    ]


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(measure(sys.argv[1], Path(sys.argv[2]))))
    else:
        for figure in run():
            print(f"{figure['name']:40} {figure['value']:14.4g} {figure['unit']:10} {figure['goal'] or ''}")
