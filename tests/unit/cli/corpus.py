"""Sixty templates of our own making, as people write them: what they have in common with those counted in public.

The shares are those of templates that users wrote (`SHARES`, in percent). Arrays are as many as among all that were
counted, 10 of 188. Which template has what follows from its number: it is the same every time.
"""

from __future__ import annotations

from typing import Any, Final

Object = dict[str, Any]

SIZE: Final = 60
SHARES: Final = {
    "retries": 54,
    "labels": 40,
    "requests below limits": 35,
    "emptyDir": 29,
    "affinity": 24,
    "workingDir": 19,
    "no cpu or memory": 19,
    "init containers": 17,
    "deadline": 10,
    "other volumes": 9,
    "annotations": 4,
    "sidecars": 4,
    "GPUs": 41,
    "claims": 34,
}
"""Percent of the templates that have it."""
ARRAYS: Final = (11, 29, 47)
"""Jobs of more completions than parallelism."""
KINDS: Final = {
    "CronJob": range(5, 60, 10),
    "JobSet": range(8, 60, 15),
    "MPIJob": (3, 22, 43),
    "PyTorchJob": range(6, 60, 11),
}
"""Numbers of the templates of each kind; the others are Jobs."""


def has(number: int, feature: str) -> bool:
    """Whether this template has it. Each feature begins elsewhere and goes round by its own stride."""
    place = list(SHARES).index(feature)
    stride = (7, 11, 13, 17, 19, 23, 29)[place % 7]
    return (number * stride + 5 * place) % SIZE < round(SHARES[feature] * SIZE / 100)


def kind_of(number: int) -> str:
    """The kind of this template."""
    return next((kind for kind, numbers in KINDS.items() if number in numbers), "Job")


def templates() -> list[Object]:
    """All of them."""
    return [_object(number) for number in range(SIZE)]


def _object(number: int) -> Object:
    kind, job = kind_of(number), _job(number)
    metadata = {"name": f"work-{number}"}
    if kind == "CronJob":
        spec: Object = {"schedule": "0 3 * * *", "jobTemplate": {"spec": job}}
    elif kind == "JobSet":
        spec = {"replicatedJobs": [{"name": "workers", "replicas": 1, "template": {"spec": job}}]}
        metadata = {"name": f"work-{number}"}
    elif kind in ("MPIJob", "PyTorchJob"):
        roles = {"MPIJob": ("Launcher", "Worker"), "PyTorchJob": ("Master", "Worker")}[kind]
        replicas = {
            role: {"replicas": size, "template": job["template"]} for role, size in zip(roles, (1, 3), strict=True)
        }
        policy = {name: job[name] for name in ("backoffLimit", "activeDeadlineSeconds") if name in job}
        spec = {f"{'mpi' if kind == 'MPIJob' else 'pytorch'}ReplicaSpecs": replicas, "runPolicy": policy}
    else:
        spec = job
    return {"apiVersion": _VERSIONS[kind], "kind": kind, "metadata": metadata, "spec": spec}


_VERSIONS: Final = {
    "Job": "batch/v1",
    "CronJob": "batch/v1",
    "JobSet": "jobset.x-k8s.io/v1alpha2",
    "MPIJob": "kubeflow.org/v2beta1",
    "PyTorchJob": "kubeflow.org/v1",
}


def _job(number: int) -> Object:
    found: Object = {"backoffLimit": 1 + number % 4 if has(number, "retries") else 0, "template": _template(number)}
    if has(number, "deadline"):
        found["activeDeadlineSeconds"] = 3600 * (1 + number % 5)
    if number in ARRAYS:
        found |= {"completions": 20, "parallelism": 4, "completionMode": "Indexed"}
    elif number % 9 == 0:
        found |= {"completions": 2, "parallelism": 2, "completionMode": "Indexed"}
    return found


def _template(number: int) -> Object:
    metadata: Object = {}
    if has(number, "labels"):
        metadata["labels"] = {"app": f"work-{number}", "team": "abc"[number % 3]}
    if has(number, "annotations"):
        metadata["annotations"] = {"sidecar.istio.io/inject": "false"}
    volumes = [*_volumes(number)]
    pod: Object = {"restartPolicy": "OnFailure" if number % 2 else "Never", "containers": [_main(number, volumes)]}
    if has(number, "init containers"):
        mounts = [{"name": volume["name"], "mountPath": f"/{volume['name']}"} for volume in volumes]
        some = {"cpu": "100m", "memory": "128Mi"}
        asked = {} if has(number, "no cpu or memory") else {"resources": {"requests": some, "limits": some}}
        pod["initContainers"] = [{"name": "fetch", "image": "data:1", "args": ["/in"], "volumeMounts": mounts, **asked}]
    if has(number, "sidecars"):
        beside = {"name": "ship", "image": "ship:2", "restartPolicy": "Always"}
        pod["initContainers"] = [*pod.get("initContainers", ()), beside]
    if has(number, "affinity"):
        pod["affinity"] = _affinity(number)
    if volumes:
        pod["volumes"] = volumes
    return {**({"metadata": metadata} if metadata else {}), "spec": pod}


def _main(number: int, volumes: list[Object]) -> Object:
    main: Object = {"name": "main", "image": f"registry.example.com/work:{number}", "args": ["--resume"]}
    if has(number, "workingDir"):
        main["workingDir"] = "/workspace"
    if resources := _resources(number):
        main["resources"] = resources
    if volumes:
        main["volumeMounts"] = [
            {"name": volume["name"], "mountPath": "/dev/shm" if volume["name"] == "shm" else f"/{volume['name']}"}
            for volume in volumes
        ]
    return main


def _resources(number: int) -> Object:
    gpus = {"nvidia.com/gpu": "1"} if has(number, "GPUs") else {}
    if has(number, "no cpu or memory"):
        return {"limits": gpus} if gpus else {}
    limits = {"cpu": "4", "memory": "16Gi", **gpus}
    requests = {"cpu": "1", "memory": "8Gi", **gpus} if has(number, "requests below limits") else limits
    return {"requests": requests, "limits": limits}


def _volumes(number: int) -> list[Object]:
    found: list[Object] = []
    if has(number, "emptyDir"):
        shm = {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "2Gi"}}
        found.append(shm if number % 4 else {"name": "scratch", "emptyDir": {}})
    if has(number, "claims"):
        found.append({"name": "data", "persistentVolumeClaim": {"claimName": f"data-{number}"}})
    if has(number, "other volumes"):
        nfs = {"nfs": {"server": "files.example.com", "path": "/export"}}
        csi = {"csi": {"driver": "secrets-store.csi.k8s.io", "readOnly": True}}
        found.append({"name": "other", **(csi if number % 3 else nfs)})
    return found


def _affinity(number: int) -> Object:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    key = "example.com/pool"
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": ["batch", "gpu"]}]}]
    apart = [{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": f"work-{number}"}}}]
    node = {"nodeAffinity": {required: {"nodeSelectorTerms": terms}}}
    return {**node, "podAntiAffinity": {required: apart}} if number % 3 == 0 else node
