"""What a cluster says of a job before it is submitted: its API server, of a Job that is not kept, its namespace and its
nodes. With the user's own rights; what these do not allow is not asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

import msgspec
from scavenger_api import names
from scavenger_api.main_container import main_index
from scavenger_domain.node_affinity import LABEL_ARCHITECTURE, required_terms, selects_node
from scavenger_domain.pod_security import Level, default_user, level_of
from scavenger_domain.taints import TolerationLike, lasting, of_resources, tolerates
from scavenger_kube.errors import ApiError, Invalid
from scavenger_kube.kinds import Node, PodSpec
from scavenger_kube.resources import JOBS, NAMESPACES, Namespace

from scavenger_cli import paths, remedies
from scavenger_cli.access import Access
from scavenger_cli.exits import CliError
from scavenger_cli.manifests import Manifest
from scavenger_cli.objects import decode, decode_items

_NAME: Final = "spec.template."
T = TypeVar("T")


def refusals(access: Access, job: Manifest) -> list[str]:
    """What the API server does not take of a job's pod template, with the path of each field in the ScavengerJob.
    Nothing for a job without one, and where no cluster answers or Jobs may not be created."""
    template = job["spec"].get("template")
    if not isinstance(template, dict) or not isinstance(template.get("spec"), dict):
        return []
    body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"generateName": "trial-"},
        "spec": {"template": {**template, "spec": {**template["spec"], "restartPolicy": "Never"}}},
    }
    params = {"dryRun": "All", "fieldValidation": "Strict", "fieldManager": "kubectl-sj"}
    try:
        access.client.request("POST", JOBS.path(_namespace(access, job)), body=body, params=params)
    except Invalid as error:
        return [line.strip() for line in remedies.invalid_fields(error)[1:] if _NAME in line]
    except (ApiError, CliError):
        return []
    finally:
        access.client.new_warnings()  # of PodSecurity, about what the admitter fills in
    return []


def with_sizes(access: Access, job: Manifest) -> Manifest:
    """The job with the cpu and memory that the cluster gives to one that names none, by its namespace or for all: what
    the API server would keep of it, of which nothing but resources is taken over. As it is where no cluster answers, or
    it does not take the job."""
    body = {**job, "metadata": {**job["metadata"], "namespace": _namespace(access, job)}}
    params = {"dryRun": "All", "fieldManager": "kubectl-sj"}
    path = paths.jobs(_namespace(access, job))
    answer = _asked(lambda: access.client.request("POST", path, body=body, params=params))
    access.client.new_warnings()  # `lint` has words of its own
    spec, made = dict(job["spec"]), msgspec.json.decode(answer)["spec"] if answer else {}
    if "template" not in spec:
        spec |= {"resources": made["resources"]} if "resources" in made else {}
    elif "template" in made:
        spec["template"] = _with_resources(spec["template"], made["template"])
    return {**job, "spec": spec}


def _with_resources(template: Manifest, made: Manifest) -> Manifest:
    """A template with the resources of the containers of another one."""
    pod = dict(template["spec"])
    for kind in ("containers", "initContainers"):
        sizes = {one.get("name"): one.get("resources") for one in made["spec"].get(kind) or ()}
        if kind in pod:
            pod[kind] = [
                {**one, "resources": found} if (found := sizes.get(one.get("name"))) else one for one in pod[kind] or ()
            ]
    return {**template, "spec": pod}


def warnings(access: Access, job: Manifest) -> Iterator[str]:
    """What the namespace and the nodes of a cluster would do to a job."""
    spec = job["spec"]
    namespace = _asked(lambda: decode(access.client.get(NAMESPACES.path(name=_namespace(access, job))), Namespace))
    if namespace is not None and not _names_user(spec):
        meta = namespace.metadata
        if level_of(meta.labels) is Level.RESTRICTED and default_user(meta.annotations) is None:
            where = "spec.runAsUser" if "template" not in spec else "spec.template.spec.securityContext.runAsUser"
            yield f"{where}: no user is named, and an image that runs as root fails with RunsAsRoot; write 65532"
    nodes = _asked(lambda: decode_items(access.client.get(paths.NODES), Node)) or []
    yield from _taint_warnings(nodes, spec)
    yield from _architecture_warnings(nodes, spec)


def _architecture_warnings(nodes: Sequence[Node], spec: Manifest) -> Iterator[str]:
    """Nodes of several architectures, of which an image may have one alone."""
    pod = spec["template"]["spec"] if "template" in spec else spec
    wanted, terms = (pod.get("nodeSelector") or {}).items(), required_terms(pod.get("affinity") or {})
    found = {
        node.metadata.labels.get(LABEL_ARCHITECTURE, "")
        for node in nodes
        if wanted <= node.metadata.labels.items() and selects_node(terms, node.metadata.name, node.metadata.labels)
    } - {""}
    if len(found) > 1:
        where = "spec.nodeSelector" if "template" not in spec else f"{_NAME}spec.nodeSelector"
        yield (
            f"{where}: it may run on nodes of the architectures {', '.join(sorted(found))}; where the image has "
            f"programs for one of them alone, write {LABEL_ARCHITECTURE}: {min(found)}"
        )


def _taint_warnings(nodes: Sequence[Node], spec: Manifest) -> Iterator[str]:
    """Devices that only nodes have whose taints the job does not tolerate."""
    pod = _pod(spec)
    asked = sorted({name for one in pod.containers for name in one.resources.limits if "/" in name})
    tolerations: list[TolerationLike] = [*pod.tolerations, *of_resources(asked)]
    where = "spec." if "template" not in spec else _NAME + "spec."
    for name in asked:
        having = [node for node in nodes if node.status.allocatable.get(name, "0") != "0"]
        kept = [{t.key for t in lasting(node.spec.taints) if not tolerates(tolerations, t)} for node in having]
        if kept and all(kept):
            taints = ", ".join(sorted(set().union(*kept)))
            yield f"{where}tolerations: every node with {name} has a taint that is not tolerated: {taints}"


def _pod(spec: Manifest) -> PodSpec:
    """The pod of a job, as far as it is asked about here."""
    if "template" in spec:
        return msgspec.convert(spec["template"]["spec"], PodSpec)
    resources = spec.get("resources") or {}
    limits = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    main = {"name": names.MAIN_CONTAINER, "resources": {"limits": limits}}
    return msgspec.convert({"containers": [main], "tolerations": spec.get("tolerations") or []}, PodSpec)


def _names_user(spec: Manifest) -> bool:
    if "template" not in spec:
        contexts = [spec, spec.get("securityContext")]
    else:
        pod = spec["template"]["spec"]
        containers: list[Manifest] = pod["containers"]
        main = containers[main_index([one["name"] for one in containers], spec.get("mainContainer"))]
        contexts = [pod.get("securityContext"), main.get("securityContext")]
    return any(field in (context or {}) for context in contexts for field in ("runAsUser", "runAsNonRoot"))


def _namespace(access: Access, job: Manifest) -> str:
    return str(job["metadata"].get("namespace") or access.namespace)


def _asked(ask: Callable[[], T]) -> T | None:
    """None where no cluster answers, or it does not tell."""
    try:
        return ask()
    except (ApiError, CliError):
        return None
