"""What informers show may be old news, each of its own age. Where that matters, the API server itself is asked.

Two things would be wrong otherwise. What one informer does not show yet looks like something deleted: pods whose Job
the watch of Jobs has not brought so far are no orphans. And who takes over from another leader must not decide on what
was true before that one's last writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import msgspec
from scavenger_api import names
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import ApiError, NotFound
from scavenger_kube.kinds import Job, Node, ObjectMeta, Pod, Struct
from scavenger_kube.resources import JOBS, NODES, PODS, Params, Resource
from scavenger_runtime import Clock, Informer
from scavenger_runtime.logging import get_logger

from scavenger_admitter.core.lifecycle import accounting
from scavenger_admitter.core.lifecycle.observation import Observation
from scavenger_admitter.core.lifecycle.pods import deleting
from scavenger_admitter.facts import run_of, version
from scavenger_admitter.writer import SCAVENGERJOBS

PAGE: Final = 500
AGAIN_SECONDS: Final = 0.5
PATIENCE_SECONDS: Final = 30.0
"""An informer has listed anew by then, if it can at all. What it lacks still is something that it cannot read."""

log = get_logger(__name__)


class _Item(Struct, frozen=True, gc=False, rename="camel"):
    metadata: ObjectMeta = ObjectMeta()


class _ListMeta(Struct, frozen=True, gc=False, rename={"continue_": "continue"}):
    continue_: str = ""


class _List(Struct, frozen=True, gc=False, rename="camel"):
    metadata: _ListMeta = _ListMeta()
    items: tuple[_Item, ...] = ()


class _Pods(msgspec.Struct):
    items: tuple[Pod, ...] = ()


async def metadata_of(client: ApiClient, resource: Resource[Any], labels: str | None = None) -> list[ObjectMeta]:
    """Metadata of all objects of a kind, from the API server. Raises ApiError."""
    found: list[ObjectMeta] = []
    token = ""
    while True:
        params: Params = {"labelSelector": labels, "limit": PAGE, "continue": token or None}
        page = msgspec.json.decode(await client.request("GET", resource.path(), params=params), type=_List)
        found += [item.metadata for item in page.items]
        token = page.metadata.continue_
        if not token:
            return found


async def caught_up(client: ApiClient, informer: Informer[Any], clock: Clock, labels: str | None = None) -> None:
    """Return once the informer shows everything (with these labels) at least as new as the API server had it when
    asked, or will not."""
    until = clock.monotonic() + PATIENCE_SECONDS
    while clock.monotonic() < until:
        try:
            behind = sum(_behind(informer, meta) for meta in await metadata_of(client, informer.resource, labels))
        except ApiError as error:
            log.warning("cannot tell whether an informer is up to date", informer=informer.name, error=str(error))
        else:
            if not behind:
                return
            log.info("waiting for an informer to catch up", informer=informer.name, objects=behind)
        await clock.sleep(AGAIN_SECONDS)
    log.warning("going on with an informer that is not up to date", informer=informer.name)


def _behind(informer: Informer[Any], meta: ObjectMeta) -> bool:
    seen = informer.get(meta.key)
    return seen is None or version(seen.metadata.resource_version) < version(meta.resource_version)


def doubtful(seen: Observation) -> bool:
    """Whether something is missing that the status, or a pod, says was there: either it is gone, or its informer is
    behind the others, and what follows from the one must not be done for the other."""
    status, run, refused = seen.job.status, run_of(seen.job), seen.refused
    active = seen.was_starting or (status.phase is not None and status.phase.active)
    if any(deleting(pod) and not pod.ended and seen.nodes.get(name) is None for name, pod in _placed(seen)):
        return True
    if seen.batch is None and refused is not None and refused.server_trouble:
        return True  # the Job may have been created all the same, and its informer be behind
    if seen.batch is None:
        mine = any(pod.metadata.annotations.get(names.ANNOTATION_RUN) == run for pod in seen.pods)
        return active or (mine and not (status.phase and status.phase.finished))
    if not active or accounting.run_start(status) is None:
        return False
    uid = seen.batch.metadata.uid
    members = sum((owner := pod.metadata.controller) is not None and owner.uid == uid for pod in seen.pods)
    return members < seen.job.spec.parallelism


async def exists(client: ApiClient, key: str) -> bool:
    """Whether there is a ScavengerJob `namespace/name`. That its informer does not show it proves nothing: it leaves
    out what it cannot read, such as what a newer admitter has written, and may be behind. Raises ApiError."""
    namespace, _, name = key.partition("/")
    return await _get(client, SCAVENGERJOBS, _Item, namespace, name) is not None


async def confirmed(client: ApiClient, seen: Observation) -> Observation:
    """The same with its Job, its pods and the nodes that are missing as the API server has them. Raises ApiError."""
    meta = seen.job.metadata
    batch = await _get(client, JOBS, Job, meta.namespace, meta.name)
    params: Params = {"labelSelector": f"{names.LABEL_JOB}={meta.name}"}
    body = await client.request("GET", PODS.path(meta.namespace), params=params)
    pods = msgspec.json.decode(body, type=_Pods).items
    found = replace(seen, batch=batch, pods=pods)
    nodes = dict(seen.nodes)
    for name, _ in _placed(found):
        if nodes.get(name) is None:
            nodes[name] = await _get(client, NODES, Node, None, name)
    return replace(found, nodes=nodes)


def _placed(seen: Observation) -> Iterator[tuple[str, Pod]]:
    for pod in seen.pods:
        if pod.spec.node_name:
            yield pod.spec.node_name, pod


async def _get(client: ApiClient, resource: Resource[Any], kind: type[Any], namespace: str | None, name: str) -> Any:
    try:
        return msgspec.json.decode(await client.get(resource, namespace, name), type=kind)
    except NotFound:
        return None
