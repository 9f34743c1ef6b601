"""Pods as users write them for Jobs, on real kubelets: what they rely on is there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from scavenger_cluster import Cluster, stack
from scavenger_testing.world import World, shared_folder

pytestmark = pytest.mark.real

SOME = {"cpu": "50m", "memory": "64Mi"}
HOST = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def python(name: str, *lines: str, **fields: Any) -> dict[str, Any]:
    return {
        "name": name,
        "image": stack.COUNTER_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-u", "-c", "\n".join(lines)],
        "resources": {"requests": SOME, "limits": SOME},
        **fields,
    }


def templated(name: str, *containers: dict[str, Any], pod: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [*containers], **(pod or {})}}
    return {
        "apiVersion": "scavenger.dev/v1alpha1",
        "kind": "ScavengerJob",
        "metadata": {"name": name},
        "spec": {"template": template, **spec},
    }


def test_the_program_finds_what_an_init_container_prepared_and_room_in_memory(world: World) -> None:
    world.kubectl("create", "secret", "generic", "token", "--from-literal=k=secret")
    mount = {"name": "in", "mountPath": "/in"}
    prepare = python("prepare", "open('/in/data', 'w').write('forty-two')", volumeMounts=[mount])
    main = python(
        "sim",
        "import os",
        "print('data', open('data').read())",
        "open('/dev/shm/big', 'wb').write(b'x' * 100 * 2**20)",
        "print('shm', os.path.getsize('/dev/shm/big'))",
        "print('key', open('/keys/renamed').read(), oct(os.stat('/keys/renamed').st_mode & 0o777))",
        workingDir="/in",
        resources={"limits": {"cpu": "100m", "memory": "256Mi"}},
        volumeMounts=[mount, {"name": "shm", "mountPath": "/dev/shm"}, {"name": "key", "mountPath": "/keys"}],
    )
    key = {"secretName": "token", "items": [{"key": "k", "path": "renamed"}], "defaultMode": 0o444}
    volumes = [
        {"name": "in", "emptyDir": {}},
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "200Mi"}},
        {"name": "key", "secret": key},
    ]
    world.apply(templated("prepared", main, pod={"initContainers": [prepare], "volumes": volumes}))

    world.wait_phase("prepared", "Completed")

    log = world.kubectl("logs", "-l", "app=prepared", "--tail=-1")
    assert "data forty-two" in log
    assert f"shm {100 * 2**20}" in log
    assert "key secret 0o444" in log


def test_a_job_ends_with_its_program_and_not_with_what_runs_beside_it(world: World) -> None:
    forever = ("import time", "time.sleep(3600)")
    proxy = python("proxy", *forever, restartPolicy="Always")
    ship = python("ship", *forever)
    main = python("scan", "import os", "print('index', os.environ['SCAVENGER_INDEX'])")
    job = templated("beside", ship, main, pod={"initContainers": [proxy]}, mainContainer="scan")
    job["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 1
    world.apply(job)

    world.wait_phase("beside", "Completed")
    world.wait("what ran beside it is stopped", lambda: not world.staying("beside"))


def test_a_failed_init_container_is_the_end_of_the_job(world: World) -> None:
    prepare = python("prepare", "raise SystemExit(3)")
    world.apply(templated("unprepared", python("sim", "pass"), pod={"initContainers": [prepare]}))

    status = world.wait_phase("unprepared", "Failed")

    assert "init container prepare" in status["message"]
    assert "exited with code 3" in status["message"]


@pytest.mark.long
def test_members_of_a_gang_go_to_nodes_of_their_own(world: World) -> None:
    apart = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "apart"}}}
    affinity = {
        "podAntiAffinity": {REQUIRED: [apart]},
        "nodeAffinity": {
            REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [{"key": HOST, "operator": "Exists"}]}]}
        },
    }
    main = python("flow", "import time", "time.sleep(8)")
    world.apply(templated("apart", main, pod={"affinity": affinity}, parallelism=2))

    world.wait_phase("apart", "Running")
    nodes = {pod["spec"]["nodeName"] for pod in world.pods("apart")}
    world.wait_phase("apart", "Completed")

    assert len(nodes) == 2


def test_a_job_runs_on_the_node_that_has_its_local_volume(world: World, cluster: Cluster, tmp_path: Path) -> None:
    nodes = [node["metadata"]["name"] for node in cluster.client.get("/api/v1/nodes")["items"]]
    with ExitStack() as volumes:
        for node in nodes:
            volumes.enter_context(shared_folder(world, tmp_path / node, node, node))
            main = python(
                "sim", "open('/data/seen', 'w').write('x')", volumeMounts=[{"name": "d", "mountPath": "/data"}]
            )
            claim = {"name": "d", "persistentVolumeClaim": {"claimName": node}}
            world.apply(templated(f"at-{node}", main, pod={"volumes": [claim]}))

        for node in nodes:
            world.wait_phase(f"at-{node}", "Completed")
            (pod,) = world.pods(f"at-{node}")
            assert pod["spec"]["nodeName"] == node
            assert (tmp_path / node / "seen").read_text() == "x"
    assert len(nodes) > 1


INJECTS = "example.org/inject"
SEEN = "example.org/seen"


@pytest.fixture
def injecting(world: World, cluster: Cluster) -> Iterator[None]:
    """An admission policy that reads an annotation of pods in this namespace and writes another one."""
    annotations = "object.metadata.annotations"
    patch = (
        f'op: "add", path: "/metadata/annotations/" + jsonpatch.escapeKey("{SEEN}"), value: {annotations}["{INJECTS}"]'
    )
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    policy = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [
            {"name": "asks", "expression": f'has({annotations}) && "{INJECTS}" in {annotations}'},
        ],
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": f"[JSONPatch{{{patch}}}]"}}],
    }
    of_namespace = {"matchLabels": {"kubernetes.io/metadata.name": world.namespace}}
    binding = {"policyName": world.namespace, "matchResources": {"namespaceSelector": of_namespace}}
    objects = [
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": world.namespace},
            "spec": spec,
        }
        for kind, spec in (("MutatingAdmissionPolicy", policy), ("MutatingAdmissionPolicyBinding", binding))
    ]
    cluster.apply(yaml.safe_dump_all(objects))

    def in_force() -> bool:
        probe = ("run", "probe", "--image=probe", f"--annotations={INJECTS}=mesh", "--dry-run=server", "-o", "json")
        return SEEN in json.loads(world.kubectl(*probe))["metadata"]["annotations"]

    try:
        world.wait("the policy to be in force", in_force)
        yield
    finally:
        for kind in ("mutatingadmissionpolicybinding", "mutatingadmissionpolicy"):
            cluster.kubectl("delete", kind, world.namespace, "--wait=false")


@pytest.mark.long
@pytest.mark.usefixtures("injecting")
def test_admission_reads_the_annotations_of_a_template(world: World) -> None:
    value = {"fieldRef": {"fieldPath": f"metadata.annotations['{SEEN}']"}}
    main = python("sim", "import os", "print('seen', os.environ['SEEN'])", env=[{"name": "SEEN", "valueFrom": value}])
    job = templated("noted", main)
    job["spec"]["template"]["metadata"]["annotations"] = {INJECTS: "mesh"}
    world.apply(job)

    world.wait_phase("noted", "Completed")

    (pod,) = world.pods("noted")
    assert "seen mesh" in world.log(pod["metadata"]["name"])
