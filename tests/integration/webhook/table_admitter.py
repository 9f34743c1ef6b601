"""Jobs by the admitter, as it makes them and as it would if somebody had taken it over."""

from __future__ import annotations

from typing import Any

from scavenger_testing.place import Object, job, pod

from .table import Case
from .table_guard import ADMITTER, CLASS, FINALIZERS, LABELS, META, SCAVENGER, SJ, UNPRIVILEGED, container, workload

PORT = {"containerPort": 80, "hostPort": 80}
PROFILE = {"type": "RuntimeDefault"}
APPARMOR = "container.apparmor.security.beta.kubernetes.io/main"
SECOND = {"name": "k", "controller": False}


def confined(**context: Any) -> Object:
    """A container with this security context."""
    usual = {"runAsNonRoot": True} if context.get("privileged") else UNPRIVILEGED  # or it is not valid
    return {**container("main", {}), "securityContext": {**usual, **context}}


def volume(**source: Any) -> Object:
    return {"volumes": [{"name": "v", **source}]}


def made(name: str, *expected: str, namespace: str = "", meta: Object | None = None, **spec: Any) -> Case:
    """A Job by the admitter, as it makes them but for what is said."""
    body = workload("Job", **{**SCAVENGER, "meta": META | (meta or {}), **spec})
    return Case(f"the admitter's Job {name}", "jobs", body, expected, user=ADMITTER, namespace=namespace)


OF_JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "1-2", "controller": True}
POD_META: Object = {
    "name": "j-0-abcde",
    "labels": {**LABELS, "scavenger.dev/preemption-class": "preemptible"},
    "ownerReferences": [OF_JOB],
    **FINALIZERS,
}


def task(index: str, name: str, suffix: str = "") -> Object:
    """What a pod of an array has in its metadata. suffix: of its Job; empty for one from before an upgrade."""
    annotations = {"annotations": {"scavenger.dev/pod-suffix": suffix}} if suffix else {}
    return {"name": name, "labels": {**POD_META["labels"], "scavenger.dev/task": index}, **annotations}


def member(index: str, name: str, suffix: str) -> Object:
    """What a pod of a gang, or of a job, has in its metadata."""
    annotations = {"batch.kubernetes.io/job-completion-index": index, "scavenger.dev/pod-suffix": suffix}
    return {"name": name, "annotations": annotations}


def of_job(name: str, *expected: str, namespace: str = "", meta: Object | None = None, **spec: Any) -> Case:
    """A pod by the admitter, as it creates them for its Jobs but for what is said."""
    check = spec.pop("check", {})
    usual = {**CLASS, "containers": [container("main", {})], "automountServiceAccountToken": False}
    body = pod(meta={**POD_META, **(meta or {})}, **{**usual, **spec})
    return Case(f"the admitter's pod {name}", "pods", body, expected, user=ADMITTER, namespace=namespace, check=check)


KEYS_ONLY = "the admitter creates Secrets with the keys of snapshots of ScavengerJobs only"


def key(
    name: str, *expected: str, namespace: str = "", meta: Object | None = None, data: Object | None = None, **more: Any
) -> Case:
    """The Secret with the key of a job's snapshots, as the admitter creates it but for what is said."""
    metadata: Object = {"name": "j-snapshot-key", "labels": LABELS, "ownerReferences": [SJ], **(meta or {})}
    body = {
        "metadata": metadata,
        "type": "scavenger.dev/snapshot-key",
        "immutable": True,
        "data": {"key": "a2V5", "owner": "MS0y", **(data or {})},
        **more,
    }
    return Case(f"the admitter's key {name}", "secrets", body, expected, user=ADMITTER, namespace=namespace)


RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "privileged": False,
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
NODE = "get nothing of the node"
GETS = "gets nothing of the node"
POWERFUL: dict[str, Any] = {"serviceAccountName": "powerful", "automountServiceAccountToken": True}
SIDECAR = {**container("proxy", {}), "securityContext": {**UNPRIVILEGED, "runAsUser": 1337}}
NETWORK = {"capabilities": {"add": ["NET_ADMIN", "NET_RAW"]}}
OF_ROOT = {"runAsNonRoot": False, "runAsUser": 0}
UNNAMED = "as another user than root, without escalation"


def beside(name: str, expected: str, **context: Any) -> list[Case]:
    """A second container and an init container with this security context, in a pod and in a Job of the admitter."""
    other = {**confined(**context), "name": "other"}
    both: dict[str, Any] = {"containers": [container("main", {}), other], "initContainers": [{**other, "name": "init"}]}
    return [of_job(f"beside one {name}", expected, **both), made(f"beside one {name}", expected, **both)]


TOKEN_OF_MESH = {"serviceAccountToken": {"path": "istio-token", "audience": "istio-ca"}}
UNOWNED = "are made by the admitter only"
PODS_BY_ADMITTER = [
    of_job("of its Job", check={"priority": -2000}),
    of_job("that passes PodSecurity restricted", containers=[confined(**RESTRICTED)]),
    of_job("with volumes of its user", **volume(persistentVolumeClaim={"claimName": "c"})),
    of_job("with a token of its user's account", serviceAccountName="plain", automountServiceAccountToken=True),
    of_job(
        "with a sidecar that somebody injected",
        containers=[container("main", {}), SIDECAR],
        initContainers=[{**SIDECAR, "name": "init"}],
        **volume(emptyDir={}),
    ),
    of_job("of no Job", UNOWNED, meta={"ownerReferences": []}),
    of_job("of a ScavengerJob", UNOWNED, meta={"ownerReferences": [SJ]}),
    of_job(
        "of another Job", "belongs to the Job of its ScavengerJob", meta={"ownerReferences": [{**OF_JOB, "name": "k"}]}
    ),
    of_job("of another name", "and has its name", meta={"name": "coredns-0"}),
    of_job("of a run", meta=member("3", "j-3-wbcdf", "wbcdf")),
    of_job("of another run", "and has its name", meta=member("3", "j-3-wbcdf", "1bcdf")),
    of_job("of another member", "and has its name", meta=member("4", "j-3-wbcdf", "wbcdf")),
    of_job("of a run that is called as a task", "as a pod of an array is", meta=member("3", "j-3-xbcdf", "xbcdf")),
    of_job("of a task", meta=task("7", "j-7-xbcdf", "xbcdf")),
    of_job("of a task with a long name", meta=task("7", "j-7-xbcd", "xbcd")),
    of_job("of a task with another suffix", "and has its name", meta=task("7", "j-7-xbcdg", "xbcdf")),
    of_job("of a task with no suffix", "and has its name", meta=task("7", "j-7", "xbcdf")),
    of_job("of a task with the suffix of another index", "has its name", meta=task("8", "j-7-xbcdf", "xbcdf")),
    of_job("of a task that is called as a run", "index of a task", meta=task("7", "j-7-wbcdf", "wbcdf")),
    of_job("of a task with a word", "index of a task", meta=task("7", "j-7-xaeio", "xaeio")),
    of_job("of a task from before an upgrade", meta=task("7", "j-7")),
    of_job("of a task from before an upgrade with a suffix", "index of a task", meta=task("7", "j-7-xbcdf")),
    of_job("of another task", "is the index of a task", meta=task("8", "j-7")),
    of_job("of a task with no number", "is the index of a task", meta=task("x", "j-x")),
    of_job("without a label", "change pods of ScavengerJobs only", meta={"labels": {"app": "a"}}),
    of_job("without the finalizer", "its label and the finalizer", meta={"finalizers": []}),
    of_job("of another class", "has the class scavenger-preemptible", priorityClassName="high"),
    of_job("in kube-system", "namespace of the system", namespace="kube-system"),
    of_job("with a folder of the node", "no volumes of the node", **volume(hostPath={"path": "/"})),
    of_job("with the node's network", GETS, hostNetwork=True),
    of_job("with the node's processes", GETS, hostPID=True),
    of_job("with a port of the node", GETS, containers=[{**container("m", {}), "ports": [PORT]}]),
    of_job("on a node of its choice", GETS, nodeName="fake-000"),
    of_job("that is privileged", NODE, containers=[confined(privileged=True)]),
    of_job("with a privileged init container", NODE, initContainers=[{**confined(privileged=True), "name": "i"}]),
    of_job("that escalates", UNNAMED, containers=[confined(allowPrivilegeEscalation=True)]),
    of_job("with a capability", NODE, containers=[confined(capabilities={"add": ["NET_ADMIN"]})]),
    of_job("unconfined", NODE, containers=[confined(seccompProfile={"type": "Unconfined"})]),
    of_job("unconfined as a whole", GETS, securityContext={"seccompProfile": {"type": "Unconfined"}}),
    of_job("with the token of a mesh", **volume(projected={"sources": [TOKEN_OF_MESH]})),
    of_job("with a powerful account", "only where the annotation", **POWERFUL),
    of_job("with a powerful account but no token", **{**POWERFUL, "automountServiceAccountToken": False}),
]
BESIDE = [
    *beside("that says nothing of escalation", UNNAMED, allowPrivilegeEscalation=None),
    *beside("that escalates", UNNAMED, allowPrivilegeEscalation=True),
    *beside("that may be root", UNNAMED, runAsNonRoot=None),
    *beside("that is root", UNNAMED, **OF_ROOT),
    *beside("with the network of its pod", NODE, **NETWORK),
    of_job("as root", UNNAMED, containers=[confined(runAsNonRoot=None)], securityContext={"runAsUser": 0}),
    of_job("not as root as a whole", containers=[confined(runAsNonRoot=None)], securityContext={"runAsNonRoot": True}),
]
BY_ADMITTER = [
    *BESIDE,
    made(
        "that passes PodSecurity restricted",
        securityContext={"runAsNonRoot": True, "runAsUser": 1000, "fsGroup": 0, "seccompProfile": PROFILE},
        containers=[confined(**RESTRICTED)],
    ),
    made("without capabilities", containers=[confined(capabilities={"drop": ["ALL"]})]),
    made("with volumes of its user", **volume(persistentVolumeClaim={"claimName": "c"})),
    made("with a ConfigMap", **volume(configMap={"name": "c"})),
    made("with a Secret", **volume(secret={"secretName": "s"})),
    made("with a token of its user's account", serviceAccountName="plain", automountServiceAccountToken=True),
    made(
        "with the default account",
        "only where the annotation",
        serviceAccountName="default",
        automountServiceAccountToken=True,
    ),
    made("in kube-system", "namespace of the system", namespace="kube-system"),
    made("in the system's own namespace", "namespace of the system", namespace="scavenger-system"),
    made("with a token of nobody's choice", "gets a token only", automountServiceAccountToken=True),
    made("with a powerful account", "only where the annotation", **POWERFUL),
    made("with a powerful account but no token", **{**POWERFUL, "automountServiceAccountToken": False}),
    made(
        "with an account that the namespace does not name",
        "only where the annotation",
        serviceAccountName="unnamed",
        automountServiceAccountToken=True,
    ),
    made("with an init container", initContainers=[container("i", {})]),
    made("with a privileged init container", NODE, initContainers=[{**confined(privileged=True), "name": "i"}]),
    made(
        "with an escalating init container",
        UNNAMED,
        initContainers=[{**confined(allowPrivilegeEscalation=True), "name": "i"}],
    ),
    made("with a second container", containers=[container("main", {}), container("log", {})]),
    made(
        "with a privileged second container",
        NODE,
        containers=[container("m", {}), {**confined(privileged=True), "name": "i"}],
    ),
    made("with a folder of the node", NODE, **volume(hostPath={"path": "/"})),
    made("with an empty folder", **volume(emptyDir={})),
    made("with a folder of another machine", NODE, **volume(nfs={"server": "s", "path": "/"})),
    made("unconfined by an annotation", NODE, tmeta={**SCAVENGER["tmeta"], "annotations": {APPARMOR: "unconfined"}}),
    made(
        "with a projected token of nobody's choice",
        "gets a token only",
        **volume(projected={"sources": [{"serviceAccountToken": {"path": "t"}}]}),
    ),
    made("with the node's processes", NODE, hostPID=True),
    made("with the node's IPC", NODE, hostIPC=True),
    made("with a port of the node", NODE, containers=[{**container("m", {}), "ports": [PORT]}]),
    made("on a node of its choice", NODE, nodeName="fake-000"),
    made("that is privileged", NODE, containers=[confined(privileged=True)]),
    made("that escalates", UNNAMED, containers=[confined(allowPrivilegeEscalation=True)]),
    made("with a capability", NODE, containers=[confined(capabilities={"add": ["SYS_ADMIN"]})]),
    made("unconfined", NODE, containers=[confined(seccompProfile={"type": "Unconfined"})]),
    made("unconfined as a whole", NODE, securityContext={"seccompProfile": {"type": "Unconfined"}}),
    made("with a sysctl", NODE, securityContext={"sysctls": [{"name": "kernel.shm_rmid_forced", "value": "1"}]}),
    made("of another name", "under their names", meta={"name": "other"}),
    made("of another owner", "of the same name and named by its uid", meta={"ownerReferences": [{**SJ, "name": "k"}]}),
    made("of two owners", "belongs to a ScavengerJob", meta={"ownerReferences": [SJ, {**SJ, "uid": "3", **SECOND}]}),
    made("of no controller", "belongs to a ScavengerJob", meta={"ownerReferences": [{**SJ, "controller": False}]}),
    made("with pods of another job", "under their names", tmeta={"labels": {**LABELS, "scavenger.dev/job": "k"}}),
    key("as it makes them"),
    key("from before there were keys", data={"adopt": "dHJ1ZQ=="}),
    key("of another type", KEYS_ONLY, type="Opaque"),
    key("of another name", KEYS_ONLY, meta={"name": "token"}),
    key("of no job", KEYS_ONLY, meta={"ownerReferences": None}),
    key("of another owner", KEYS_ONLY, meta={"ownerReferences": [{**SJ, "name": "k"}]}),
    key("of a Job", KEYS_ONLY, meta={"ownerReferences": [OF_JOB]}),
    key("with more in it", KEYS_ONLY, data={"server": "YQ=="}),
    key("that can change", KEYS_ONLY, immutable=False),
    key("in a namespace of the system", KEYS_ONLY, namespace="kube-system"),
    Case(
        "a ScavengerJob in kube-system",
        "scavengerjobs",
        job(),
        ("no ScavengerJob runs in a namespace of the system",),
        namespace="kube-system",
    ),
]
