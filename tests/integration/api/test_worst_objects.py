"""The admitter with the memory that its chart gives it, beside the worst objects that a tenant can store."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest
import yaml
from scavenger_api import names
from scavenger_api.quantity import units
from scavenger_cluster import cgroups
from scavenger_cluster.ports import any_free_port
from scavenger_kube.client import ApiClient
from scavenger_kube.resources import encode
from scavenger_testing.place import GROUPS, account
from scavenger_testing.waiting import wait

if TYPE_CHECKING:
    from tests.integration.conftest import Kubectl

pytestmark = pytest.mark.long

Manifest = dict[str, Any]
ROOT = Path(__file__).resolve().parents[3]
ADMITTER = account("admitter")
AT_ONCE = 4
EVENTS, JOBS, TEMPLATES = 300, 800, 100
"""How many of each. As a whole, the texts of the first two take 500 MB, as much as the admitter may have."""
LIMITS = ("memory.limit_in_bytes", "memory.max")
PEAKS = ("memory.max_usage_in_bytes", "memory.peak")


def limit() -> int:
    """Bytes that the chart gives the admitter."""
    values = yaml.safe_load((ROOT / "charts/scavenger-admitter/values.yaml").read_text())
    return units(values["resources"]["limits"]["memory"])


@contextmanager
def group_of_memory(size: int) -> Iterator[tuple[str, Path]]:
    """A control group whose processes have so many bytes together, and its folder."""
    group = f"/{cgroups.PARENT}/memory-{os.getpid()}"
    try:
        cgroups.create(group)
        folders = [hierarchy / group.strip("/") for hierarchy in cgroups.hierarchies()]
        file = next(found for folder in folders for name in LIMITS if (found := folder / name).exists())
        file.write_text(str(size))
    except (OSError, StopIteration):
        pytest.skip("needs to be root, and a control group for memory")
    try:
        yield group, file.parent
    finally:
        cgroups.kill(group)
        for folder in folders:
            with suppress(OSError):
                folder.rmdir()


def mounts() -> Manifest:
    """A template of 174 KiB."""
    many = [{"name": "v", "mountPath": f"/{number:05}"} for number in range(4000)]
    container: Manifest = {"name": "main", "image": "a", "volumeMounts": many}
    container["resources"] = {"requests": {"cpu": "1", "memory": "64Mi"}}
    return {"template": {"spec": {"containers": [container], "volumes": [{"name": "v", "emptyDir": {}}]}}}


async def fill(kubeconfig: Path, namespace: str) -> None:
    """The worst objects."""
    event = {"involvedObject": {"kind": "Pod", "namespace": namespace, "name": "p"}, "reason": "FailedMount"}
    pod = {"containers": [{"name": "a", "image": "a"}], "restartPolicy": "Never"}
    job = {"suspend": True, "template": {"spec": pod}}
    notes = {"annotations": {"example.com/a": "x" * 250_000}}
    scavenger = {"apiVersion": names.API_VERSION, "kind": "ScavengerJob", "spec": mounts()}
    deep = b'{"f:a":' * 9000 + b"{}" + b"}" * 9000
    fields = {"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": "DEEP"}
    deeply = encode({"metadata": {"name": "deep", "managedFields": [fields]}, "data": {}}).replace(b'"DEEP"', deep)
    async with await ApiClient.connect(kubeconfig=str(kubeconfig), request_timeout=120) as client:
        places = asyncio.Semaphore(AT_ONCE)

        async def store(plural: str, body: object) -> None:
            async with places:
                path = f"{GROUPS.get(plural, '/api/v1')}/namespaces/{namespace}/{plural}"
                await client.request("POST", path, body=body if isinstance(body, bytes) else encode(body))

        await asyncio.gather(
            *(
                store("events", {"metadata": {"name": f"e-{n}"}, "message": "m" * 10**6, **event})
                for n in range(EVENTS)
            ),
            *(store("jobs", {"metadata": {"name": f"j-{n}", **notes}, "spec": job}) for n in range(JOBS)),
            *(store("scavengerjobs", {**scavenger, "metadata": {"name": f"s-{n}"}}) for n in range(TEMPLATES)),
            store("configmaps", deeply),
        )


def test_the_admitter_lives_beside_the_worst_objects(api_cluster: Kubectl, namespace: str, tmp_path: Path) -> None:
    """It begins beside them and reads them all at once; a neighbour's job is told why it waits."""
    asyncio.run(fill(api_cluster.kubeconfig, namespace))
    port, log = any_free_port(), tmp_path / "admitter.log"
    environment = {
        **os.environ,
        "KUBECONFIG": str(kubeconfig_of_admitter(api_cluster, tmp_path)),
        "SCAVENGER_HEALTH_PORT": str(port),
        "SCAVENGER_LEADER_ELECT": "false",
    }
    with group_of_memory(limit()) as (group, folder), log.open("w") as output:
        words = cgroups.joining(group, [sys.executable, "-m", "scavenger_admitter"])
        with subprocess.Popen(words, env=environment, stdout=output, stderr=output) as admitter:
            try:
                wait("it is ready", lambda: admitter.poll() is not None or ready(port))
                api_cluster.ok("apply", "-f", "-", stdin=orjson.dumps(neighbour(namespace)).decode())
                wait("it says why", lambda: admitter.poll() is not None or phase(api_cluster, namespace) == "Waiting")
                assert admitter.poll() is None, log.read_text()[-3000:]
                peak = next(int(file.read_text()) for name in PEAKS if (file := folder / name).exists())
                assert peak < limit(), peak
            finally:
                admitter.terminate()
                api_cluster("delete", "clusterrolebinding", "worst-objects")


def kubeconfig_of_admitter(kubectl: Kubectl, folder: Path) -> Path:
    """Acts under the account of the admitter, whose writes the policies let in."""
    kubectl("create", "clusterrolebinding", "worst-objects", "--clusterrole=cluster-admin", f"--user={ADMITTER}")
    found = orjson.loads(kubectl.ok("config", "view", "--raw", "-o", "json"))
    for one in found["users"]:
        one["user"]["as"] = ADMITTER
    path = folder / "kubeconfig"
    path.write_bytes(orjson.dumps(found))
    return path


def neighbour(namespace: str) -> Manifest:
    """A small job."""
    spec = {"image": "a", "resources": {"requests": {"cpu": "1", "memory": "64Mi"}}}
    meta = {"name": "neighbour", "namespace": namespace}
    return {"apiVersion": names.API_VERSION, "kind": "ScavengerJob", "metadata": meta, "spec": spec}


def phase(kubectl: Kubectl, namespace: str) -> str:
    """Of the neighbour's job."""
    found = kubectl.inside(namespace).get("scavengerjob", "neighbour")
    return str(found.get("status", {}).get("phase", ""))


def ready(port: int) -> bool:
    """Whether its probe says so."""
    with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2) as answer:
        return bool(answer.status == 200)
    return False
