"""What informers show may be old news, each of its own age. Where that matters, the API server itself is asked.

Three things would be wrong otherwise. What one informer does not show yet looks like something deleted: pods whose Job
the watch of Jobs has not brought so far are no orphans. Who takes over from another leader must not decide on what
was true before that one's last writes. And what cannot be undone, such as a start or a verdict, must not follow from
old news (docs/designs/0019-confirm-before-what-cannot-be-undone.md).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, Final

import msgspec
from scavenger_api import names
from scavenger_api.job import Phase
from scavenger_api.job_keys import parse_key
from scavenger_domain.pod_ends import held, moment
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import ApiError, NotFound
from scavenger_kube.kinds import Job, Node, ObjectMeta, Pod, Struct
from scavenger_kube.resources import JOBS, NODES, PODS, Item, Params, Resource
from scavenger_runtime.clock import Clock
from scavenger_runtime.informer import Informer
from scavenger_runtime.logging import get_logger
from scavenger_runtime.paging import PagedList

from scavenger_admitter.core.lifecycle import managed
from scavenger_admitter.core.lifecycle.actions import Creation
from scavenger_admitter.core.lifecycle.confirmed import Confirmed, confirm, confirm_creation, placed
from scavenger_admitter.core.lifecycle.observation import Asked, Observation, Outcome, Seen
from scavenger_admitter.core.lifecycle.pods_seen import with_words
from scavenger_admitter.facts import version
from scavenger_admitter.heard import Heard
from scavenger_admitter.writer import ADOPTED_JOBS, SCAVENGERJOBS, metadata_now, resource_of

AGAIN_SECONDS: Final = 0.5
PATIENCE_SECONDS: Final = 10.0
"""A watch that has not brought by then what the API server has is given up, and everything is listed."""

log = get_logger(__name__)


class _ListMeta(Struct, frozen=True, gc=False, rename={"continue_": "continue"}):
    continue_: str = ""


class _List(Struct, frozen=True, gc=False, rename="camel"):
    metadata: _ListMeta = _ListMeta()
    items: tuple[Item, ...] = ()


class _Phase(Struct, frozen=True, gc=False):
    phase: str = ""


class _Job(Struct, frozen=True, gc=False):
    metadata: ObjectMeta
    status: _Phase = _Phase()


class _Jobs(Struct, frozen=True, gc=False):
    metadata: _ListMeta = _ListMeta()
    items: tuple[_Job, ...] = ()


class _BatchJobs(msgspec.Struct):
    items: tuple[Job, ...] = ()


class _Nodes(msgspec.Struct):
    items: tuple[Node, ...] = ()


class _Pods(msgspec.Struct):
    items: tuple[Pod, ...] = ()


async def metadata_of(client: ApiClient, resource: Resource[Any], labels: str | None = None) -> list[ObjectMeta]:
    """Metadata of all objects of a kind, from the API server. Raises ApiError."""
    found: list[ObjectMeta] = []
    async for body in _pages(client, resource, labels):
        found += [item.metadata for item in msgspec.json.decode(body, type=_List).items]
    return found


async def active_jobs(client: ApiClient) -> list[ObjectMeta]:
    """Metadata of the ScavengerJobs that start or run, by their status. Raises ApiError."""
    found: list[ObjectMeta] = []
    async for body in _pages(client, SCAVENGERJOBS, None):
        jobs = msgspec.json.decode(body, type=_Jobs).items
        found += [job.metadata for job in jobs if job.status.phase in (Phase.STARTING, Phase.RUNNING)]
    return found


async def adopted_jobs(client: ApiClient) -> list[ObjectMeta]:
    """Metadata of the adopted Jobs that have not ended. Raises ApiError."""
    found: list[ObjectMeta] = []
    async for body in _pages(client, JOBS, names.LABEL_QUEUE):
        jobs = msgspec.json.decode(body, type=_BatchJobs).items
        ours = (job for job in jobs if job.spec.managed_by == names.MANAGED_BY_ADOPTER)
        found += [job.metadata for job in ours if not managed.has_ended(job)]
    return found


async def nodes_by_name(client: ApiClient) -> dict[str, Node | None]:
    """All nodes. Raises ApiError."""
    found: dict[str, Node | None] = {}
    async for body in _pages(client, NODES, None):
        found |= {node.metadata.name: node for node in msgspec.json.decode(body, type=_Nodes).items}
    return found


async def _pages(client: ApiClient, resource: Resource[Any], labels: str | None) -> AsyncIterator[bytes]:
    """All objects of a kind, in lists of some hundreds. Raises ApiError."""
    token = ""
    pages = PagedList(client, resource.path(), {"labelSelector": labels})
    while True:
        body = await pages.page(token or None)
        yield body
        token = msgspec.json.decode(body, type=_List).metadata.continue_
        if not token:
            return


async def caught_up(client: ApiClient, informer: Informer[Any], clock: Clock, labels: str | None = None) -> None:
    """Return once the informer shows every readable object (with this label) at least as new as the API server had it
    when first asked, and none that was gone by then. It does not give up: an informer that lists and watches cannot
    stay behind."""
    patience = clock.monotonic() + PATIENCE_SECONDS
    awaited: dict[str, str] | None = None
    gone = _shown(informer, labels)
    while True:
        try:
            there = {m.key: m.resource_version for m in await metadata_of(client, informer.resource, labels)}
        except ApiError as error:
            log.warning("cannot tell whether an informer is up to date", informer=informer.name, error=str(error))
        else:
            wanted = there if awaited is None else {key: awaited[key] for key in awaited.keys() & there.keys()}
            awaited = {key: needed for key, needed in wanted.items() if _behind(informer, key, needed)}
            gone = {one for one in gone & _shown(informer, labels) if one[0] not in there}
            if not awaited and not gone:
                return
            log.info("waiting for an informer to catch up", informer=informer.name, objects=len(awaited) + len(gone))
        if clock.monotonic() >= patience:
            patience = clock.monotonic() + PATIENCE_SECONDS
            log.warning("listing what a watch does not bring", informer=informer.name)
            informer.list_again()
        await clock.sleep(AGAIN_SECONDS)


def _shown(informer: Informer[Any], label: str | None) -> set[tuple[str, str]]:
    """The key and the uid of each object that is shown, with this label."""
    metas = (one.metadata for one in informer.items())
    all_have = label in (None, informer.label_selector)
    return {(meta.key, meta.uid) for meta in metas if all_have or label in meta.labels}


def _behind(informer: Informer[Any], key: str, needed: str) -> bool:
    if key in informer.unreadable:
        return False
    seen = informer.get(key)
    return seen is None or version(seen.metadata.resource_version) < version(needed)


async def decide(client: ApiClient, observed: Observation, heard: Heard) -> Confirmed[Outcome] | None:
    """What follows, from what the API server has where caches do not prove it, or are older than its last answer; None
    where there is a newer version of the ScavengerJob than this, or none any more. Raises ApiError."""
    if await _overtaken(client, observed.seen):
        return None
    if not heard.newer_than(observed.seen) and (found := confirm(observed)) is not None:
        return found
    asked = await with_run(client, observed.seen)
    heard.hear(observed.seen, asked)
    return confirm(replace(observed, seen=asked))


async def decide_creation(
    client: ApiClient, observed: Observation, heard: Heard, decided: Confirmed[Outcome]
) -> Confirmed[Creation | None]:
    """What is to be created for a job of which the API server has no pod that forbids it. decided: what was, a moment
    ago. Raises ApiError."""
    if not heard.newer_than(observed.seen) and (found := confirm_creation(observed, decided)) is not None:
        return found
    asked = await _with_pods(client, observed.seen)
    heard.hear(observed.seen, asked)
    found = confirm_creation(replace(observed, seen=asked))
    assert found is not None, "the pods were asked for"
    return found


async def _overtaken(client: ApiClient, seen: Seen) -> bool:
    """Whether there is a newer version of the ScavengerJob than this, or none any more. The API server is asked where a
    Job or a pod has a later place in the queue, as another process may have ended a run since. Raises ApiError."""
    job, known = seen.job.metadata, seen.job.status.queued_timestamp
    metas = [pod.metadata for pod in seen.pods] + ([seen.batch.metadata] if seen.batch is not None else [])
    if known is None or not any((place := moment(_place(meta))) is not None and place > known for meta in metas):
        return False
    found = await metadata_now(client, resource_of(seen.job), job.namespace, job.name)
    return found is None or version(found.resource_version) > version(job.resource_version)


def _place(meta: ObjectMeta) -> str:
    return meta.annotations.get(names.ANNOTATION_RUN, "")


async def exists(client: ApiClient, key: str) -> bool:
    """Whether there is the job of a key. That its informer does not show it proves nothing: it leaves
    out what it cannot read, such as what a newer admitter has written, and may be behind. Raises ApiError."""
    namespace, name, adopted = parse_key(key)
    return await metadata_now(client, ADOPTED_JOBS if adopted else SCAVENGERJOBS, namespace, name) is not None


async def with_run(client: ApiClient, seen: Seen) -> Seen:
    """The same with its Job, its pods and the nodes that are missing as the API server has them. Raises ApiError."""
    batch = await _get(client, JOBS, Job, seen.job.metadata.namespace, seen.job.metadata.name)
    return replace(await _with_pods(client, replace(seen, batch=batch)), asked=Asked.RUN)


async def _with_pods(client: ApiClient, seen: Seen) -> Seen:
    """The same with its pods and the nodes that are missing as the API server has them. Raises ApiError."""
    meta = seen.job.metadata
    of_kind = parse_key(seen.job.key).selector
    params: Params = {"labelSelector": f"{names.LABEL_JOB}={meta.name},{of_kind}"}
    body = await client.request("GET", PODS.path(meta.namespace), params=params)
    pods = msgspec.json.decode(body, type=_Pods).items
    carried = {pod.metadata.uid for pod in pods if held(pod)}
    said = tuple(pod for pod in seen.said if pod.metadata.uid not in carried)
    found = replace(seen, pods=with_words(pods, said), said=said, untouched=None, asked=Asked.PODS)
    nodes = dict(seen.nodes)
    for name, _ in placed(found):
        if nodes.get(name) is None:
            nodes[name] = await _get(client, NODES, Node, None, name)
    return replace(found, nodes=nodes)


async def _get(client: ApiClient, resource: Resource[Any], kind: type[Any], namespace: str | None, name: str) -> Any:
    try:
        return msgspec.json.decode(await client.get(resource, namespace, name), type=kind)
    except NotFound:
        return None
