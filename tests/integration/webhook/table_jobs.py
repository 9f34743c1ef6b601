"""ScavengerJobs, good and bad."""

from __future__ import annotations

from typing import Any

from scavenger_testing.place import Object, job

from .table import Case


def j(name: str, *expected: str, fields: str = "", warned: str = "", **spec: Any) -> Case:
    return Case(name, "scavengerjobs", job(**spec), expected, tuple(fields.split()), warned)


def resources(**requests: str) -> Object:
    return {"requests": {"cpu": "1", "memory": "64Mi", **requests}}


def env(**source: Object) -> list[Object]:
    return [{"name": "X", "valueFrom": source}]


def pvc(*paths: str) -> list[Object]:
    return [{"name": "data", "mountPath": path} for path in paths]


REQUESTS = "spec.resources.requests"
DIGEST = "sha256:" + "a" * 64

JOBS = [
    j("the least there can be"),
    j(
        "all there can be",
        warned="persistentvolumeclaim 'data' not found",
        image=f"registry.example.com:5000/team/app:1.2@{DIGEST}",
        queue="open",
        env=[{"name": "A", "value": "b"}, *env(fieldRef={"fieldPath": "metadata.labels['a.b/c']"})],
        envFrom=[{"prefix": "P_", "configMapRef": {"name": "c"}}],
        nodeSelector={"kubernetes.io/hostname": "fake-001"},
        persistentVolumeClaims=pvc("/data"),
        secrets=[{"name": "s", "mountPath": "/etc/app", "readOnly": True}],
        terminationGracePeriodSeconds=300,
    ),
    j(
        "no such queue",
        "there is no queue 'nowhere'",
        "choose another queue (`kubectl get scavengerqueues` lists them)",
        fields="spec.queue",
        queue="nowhere",
    ),
    j("closed queue", "queue closed is closed and takes no new jobs", fields="spec.queue", queue="closed"),
    j("queue being deleted", "queue going is being deleted", fields="spec.queue", queue="going"),
    j("as root", "0 is root", "scavenger.dev/pod-security=baseline", fields="spec.runAsUser", runAsUser=0),
    j(
        "with rights of root",
        "CHOWN are rights of root",
        fields="spec.securityContext.capabilities.add",
        securityContext={"capabilities": {"add": ["CHOWN", "NET_BIND_SERVICE"]}},
    ),
    j(
        "privileged",
        "scavenger jobs get nothing of the node",
        fields="spec.securityContext.privileged",
        securityContext={"privileged": True},
    ),
    j(
        "with the rights that all may have",
        runAsUser=1000,
        securityContext={"readOnlyRootFilesystem": True, "capabilities": {"add": ["NET_BIND_SERVICE"]}},
    ),
    j("within the quota", queue="small", parallelism=2),
    j(
        "over the quota as a gang",
        "3 pods ask for 3 of cpu, more than queue small may use: the job could never start",
        fields="spec.resources",
        queue="small",
        parallelism=3,
    ),
    j(
        "over the quota alone",
        "the pod asks for 2Gi of memory, more than queue small may use",
        fields="spec.resources",
        queue="small",
        resources=resources(memory="2Gi"),
    ),
    j("larger than any node", warned="it asks for 17 of cpu, and none has so much", resources=resources(cpu="17")),
    j(
        "a device nobody has",
        warned="it asks for 1 of nvidia.com/gpu, and none has so much",
        resources=resources(**{"nvidia.com/gpu": "1"}),
    ),
    j("labels nobody has", warned="no node has disk=ssd", nodeSelector={"disk": "ssd"}),
    j(
        "grace period",
        "900 is more than the 300 seconds that the administrator allows",
        fields="spec.terminationGracePeriodSeconds",
        terminationGracePeriodSeconds=900,
    ),
    j("image with a scheme", "leave out https://", fields="spec.image", image="https://example.com/app"),
    j(
        "image in capitals",
        "in lower case: write example.com/team/app",
        fields="spec.image",
        image="example.com/Team/App",
    ),
    j("image without a name", "the name of the image is missing", fields="spec.image", image="example.com/:1"),
    j("image with an empty tag", "the tag, after the last colon", fields="spec.image", image="example.com/app:"),
    j(
        "image with a short digest",
        "a sha256 digest has 64 lower-case hexadecimal digits, this one has 40",
        fields="spec.image",
        image="app@sha256:" + "a" * 40,
    ),
    j("image by its id", "64 hexadecimal digits are an image's id", fields="spec.image", image="a" * 64),
    j("image with two dots", "single '.', '_' or '-' between them", fields="spec.image", image="example.com/a..b"),
    j("image from localhost", image="localhost:5000/app"),
    j(
        "memory without a unit",
        "512 is 512 bytes, with which no container starts",
        fields=f"{REQUESTS}[memory]",
        resources=resources(memory="512"),
    ),
    j(
        "memory in thousandths",
        "is a fraction of a byte (m means thousandths)",
        fields=f"{REQUESTS}[memory]",
        resources=resources(memory="512m"),
    ),
    j("sizes that the API server rounds up", resources=resources(cpu="0.5m", memory="1.2Gi")),
    j("cpu in millions", "is more than a million cores", fields=f"{REQUESTS}[cpu]", resources=resources(cpu="2M")),
    j(
        "page size",
        "3Mi is not a multiple of the page size 2Mi",
        fields=f"{REQUESTS}[hugepages-2Mi]",
        resources=resources(**{"hugepages-2Mi": "3Mi"}),
    ),
    j(
        "no such page size",
        "'big' is not the size of a page",
        fields=f"{REQUESTS}[hugepages-big]",
        resources=resources(**{"hugepages-big": "3Mi"}),
    ),
    j(
        "device of nobody",
        "no device is called so",
        fields=f"{REQUESTS}[kubernetes.io/gpu]",
        resources=resources(**{"kubernetes.io/gpu": "1"}),
    ),
    j(
        "the same folder twice",
        "is the same folder as spec.persistentVolumeClaims[0].mountPath",
        fields="spec.persistentVolumeClaims[1].mountPath",
        persistentVolumeClaims=pvc("/data", "/data/"),
    ),
    j("hides the configuration", warned="/etc hides the configuration", persistentVolumeClaims=pvc("/etc")),
    j("hides everything", warned="/ hides everything", persistentVolumeClaims=pvc("/")),
    j("in the kernel's folder", warned="lies in a folder of the kernel", persistentVolumeClaims=pvc("/proc/sys")),
    j(
        "key of a node selector",
        "before the slash stands a domain in lower case",
        fields="spec.nodeSelector[A_b/c]",
        nodeSelector={"A_b/c": "d"},
    ),
    j(
        "value of a node selector",
        "'-d': a value has up to 63",
        fields="spec.nodeSelector[c]",
        nodeSelector={"c": "-d"},
    ),
    j(
        "tolerating every taint",
        "every taint, as it names no key",
        fields="spec.tolerations[0].key",
        tolerations=[{"operator": "Exists"}],
    ),
    j(
        "taint",
        "'a b': a name has up to 63",
        fields="spec.tolerations[0].key spec.tolerations[0].key",
        tolerations=[{"key": "a b", "operator": "Exists"}],
    ),
    j(
        "key of a secret",
        "'a b' cannot be a key",
        fields="spec.env[0].valueFrom.secretKeyRef.key",
        env=env(secretKeyRef={"name": "s", "key": "a b"}),
    ),
    j(
        "field of the pod",
        "'status.phase' is no field that a variable can show",
        fields="spec.env[0].valueFrom.fieldRef.fieldPath",
        env=env(fieldRef={"fieldPath": "status.phase"}),
    ),
    j(
        "resource of the container",
        "'limits.gpu' is no resource of a container",
        fields="spec.env[0].valueFrom.resourceFieldRef.resource",
        env=env(resourceFieldRef={"resource": "limits.gpu"}),
    ),
    j(
        "prefix of variables",
        "'1=' cannot begin the name of a variable",
        fields="spec.envFrom[0].prefix",
        envFrom=[{"prefix": "1=", "secretRef": {"name": "s"}}],
    ),
    j(
        "everything at once",
        "there is no queue",
        "is invalid: [",
        fields="spec.queue spec.image spec.terminationGracePeriodSeconds spec.resources.requests[memory]",
        queue="nowhere",
        image="app@sha256:1",
        terminationGracePeriodSeconds=400,
        resources=resources(memory="1"),
    ),
    # The definition's own rules go on holding, and come first.
    j("no memory", "memory is mandatory", resources={"requests": {"cpu": "1"}}),
    j(
        "path in use",
        "..",
        "write a relative path",
        persistentVolumeClaims=[{"name": "d", "mountPath": "/d", "subPath": "../x"}],
    ),
]
