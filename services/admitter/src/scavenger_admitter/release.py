"""Before the admitter is uninstalled: adopted Jobs become regular Jobs (`scavenger_domain.release`).

What adopts goes first, while the admitter still runs. Then all Jobs are released side by side. This runs under an
account of its own: the admitter may create and change no Jobs of users.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

import msgspec
from scavenger_api import names
from scavenger_domain.adopted import adopted
from scavenger_domain.release import LABEL_OF, End, ReleaseError, Request, Target, finished, release
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import ApiError, look_says_more
from scavenger_kube.kinds import Pod
from scavenger_kube.resources import JOBS, MERGE_PATCH, Resource
from scavenger_runtime.clock import Clock, SystemClock
from scavenger_runtime.logging import configure_logging, get_logger
from scavenger_runtime.paging import PagedList

from scavenger_admitter.settings import AdmitterSettings

ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
BINDINGS: Final = tuple(
    f"{ADMISSION}/mutatingadmissionpolicybindings/scavenger-adopt-{which}" for which in ("labelled", "all")
)
ADOPTING: Final = ".jobs.scavenger.dev"
"""How the names of the webhook's entries end that adopt Jobs."""
API_SERVERS_SEE_IT: Final = 5.0
"""Seconds until all API servers adopt no more."""
AT_ONCE: Final = 8
"""Jobs that are released at the same time."""

WEBHOOK_KIND: Final = Resource(
    "admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", False, dict
)

log = get_logger(__name__)


def pod_of(found: Mapping[str, Any]) -> Pod:
    """A pod, as the rules of its end read one."""
    return msgspec.convert(found, Pod, strict=False)


async def carry_out(client: ApiClient, clock: Clock, target: Target) -> End:
    """Send the requests of a release.

    Args:
        client: to send them with.
        clock: by which time passes.
        target: the Job.

    Raises:
        ReleaseError: something is in the way.
        ApiError: the API server refuses.
    """
    steps, answer = release(target), None
    while True:
        try:
            step = steps.send(answer)
        except StopIteration as end:
            return End(end.value)
        if isinstance(step, Request):
            answer = await _send(client, step)
        else:
            answer = None
            await clock.sleep(step.seconds)


async def _send(client: ApiClient, step: Request) -> Mapping[str, Any] | None:
    """The answer; None where the object is not there, or where the next look says more."""
    kind = MERGE_PATCH if step.method == "PATCH" else None
    try:
        body = await client.request(step.method, step.path, body=step.body, content_type=kind)
    except ApiError as error:
        if not look_says_more(error, step.method):
            raise
        return None
    found: Mapping[str, Any] = msgspec.json.decode(body)
    return found


async def adopt_no_more(client: ApiClient) -> None:
    """Delete what adopts Jobs: the bindings of the policy, and the entries of the webhook. Raises ApiError."""
    for path in BINDINGS:
        await _send(client, Request("DELETE", path))
    found = await _send(client, Request("GET", WEBHOOK_KIND.path(name=names.WEBHOOK)))
    if found is None:
        return
    entries = found.get("webhooks") or []
    kept = [one for one in entries if not one["name"].endswith(ADOPTING)]
    if len(kept) < len(entries):
        meta = {"resourceVersion": found["metadata"]["resourceVersion"]}
        await client.merge_patch(WEBHOOK_KIND, None, names.WEBHOOK, {"metadata": meta, "webhooks": kept})


async def release_all(client: ApiClient, clock: Clock, system_namespace: str, wait: timedelta) -> list[str]:
    """Release all adopted Jobs, the oldest first. Returns the keys of those that stay, as no admitter will run them.

    Args:
        client: to read and write with.
        clock: by which time passes.
        system_namespace: of the admitter.
        wait: for so long their pods may run. Jobs of controllers are waited for as long.

    Raises:
        ApiError: the API server refuses to say which there are.
    """
    await adopt_no_more(client)
    await clock.sleep(API_SERVERS_SEE_IT)
    until = clock.now() + wait
    turns, left = asyncio.Semaphore(AT_ONCE), list[str]()

    async def one(namespace: str, name: str) -> None:
        async with turns:
            patience = max(timedelta(0), until - clock.now())
            target = Target(namespace, name, pod_of, clock.now, system_namespace, patience)
            try:
                end = await carry_out(client, clock, target)
            except (ApiError, ReleaseError) as error:
                log.warning("left an adopted Job", job=f"{namespace}/{name}", why=str(error))
                left.append(f"{namespace}/{name}")
                return
        log.info("released", job=f"{namespace}/{name}", outcome=end.value)
        if end is End.LEFT:
            left.append(f"{namespace}/{name}")

    await asyncio.gather(*(one(*key) for key in await _unreleased(client)))
    return left


async def _unreleased(client: ApiClient) -> list[tuple[str, str]]:
    """Namespace and name of the Jobs that are adopted and have not ended, or whose release was broken off."""
    found: dict[tuple[str, str], str] = {}
    for job in await _jobs(client):
        meta, of = job["metadata"], (job["metadata"].get("labels") or {}).get(LABEL_OF)
        if of is not None or (adopted(job) and not finished(job)):
            found.setdefault((meta["namespace"], of or meta["name"]), meta["creationTimestamp"])
    return sorted(found, key=lambda key: (found[key], key))


async def _jobs(client: ApiClient) -> list[dict[str, Any]]:
    jobs: list[dict[str, Any]] = []
    pages, token = PagedList(client, JOBS.path(), {}), ""
    while True:
        page = msgspec.json.decode(await pages.page(token or None))
        jobs += page["items"]
        token = (page.get("metadata") or {}).get("continue") or ""
        if not token:
            return jobs


async def _run(settings: AdmitterSettings, wait: timedelta) -> int:
    async with await ApiClient.connect(kubeconfig=settings.kubeconfig, context=settings.context) as client:
        left = await release_all(client, SystemClock(), settings.namespace, wait)
    for key in left:
        log.warning("no component runs this Job any more", job=key)
    return 0


def release_jobs(settings: AdmitterSettings, wait: timedelta) -> int:
    """Release all adopted Jobs; returns the exit code. wait: for so long their pods may run."""
    configure_logging(names.ADMITTER, level=settings.log_level, format=settings.log_format)
    return asyncio.run(_run(settings, wait))
