"""Gives throttled jobs their CPU back before the regulator goes for good: no other component would."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from scavenger_api import names
from scavenger_kube.client import ApiClient
from scavenger_kube.resources import PODS
from scavenger_runtime.clock import Clock, SystemClock
from scavenger_runtime.informer import Informer
from scavenger_runtime.jobs_seen import SCAVENGERJOBS
from scavenger_runtime.logging import configure_logging, get_logger

from scavenger_regulator.core.throttle import Resize, restored
from scavenger_regulator.facts import gangs
from scavenger_regulator.settings import RegulatorSettings
from scavenger_regulator.writer import ResizeOutcome, in_order, resize

ROUNDS: Final = 5
"""Attempts at a pod whose resize failed."""
ROUND_SECONDS: Final = 2.0

log = get_logger(__name__)


async def restore(client: ApiClient, clock: Clock | None = None) -> int:
    """Resize all throttled pods to what their jobs ask for. Returns how many were.

    Raises:
        RuntimeError: where resizes go on failing. Pods that cannot be resized are left as they are.
        ApiError: when the API server refuses.
    """
    clock, wanted, done = clock or SystemClock(), await _throttled(client), 0
    for _ in range(ROUNDS):
        outcomes = await in_order([partial(resize, client, one) for one in wanted])
        done += outcomes.count(ResizeOutcome.DONE)
        if ResizeOutcome.FAILED not in outcomes:
            return done
        await clock.sleep(ROUND_SECONDS)
        failed = {one.pod.uid for one, got in zip(wanted, outcomes, strict=True) if got is ResizeOutcome.FAILED}
        wanted = [one for one in await _throttled(client) if one.pod.uid in failed]
    raise RuntimeError(f"{len(wanted)} throttled pods could not be resized")


async def _throttled(client: ApiClient) -> Sequence[Resize]:
    """What all jobs lack at this moment."""
    jobs = Informer(client, SCAVENGERJOBS)
    pods = Informer(client, PODS, label_selector=names.LABEL_JOB)
    informers: Sequence[Informer[Any]] = (jobs, pods)
    tasks = [asyncio.ensure_future(informer.run()) for informer in informers]
    try:
        await asyncio.gather(*(informer.wait_synced() for informer in informers))
        return restored(gangs(jobs.items(), pods.items()))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _run(settings: RegulatorSettings) -> int:
    async with await ApiClient.connect(kubeconfig=settings.kubeconfig, context=settings.context) as client:
        count = await restore(client)
    log.info("uninstalled", restored_pods=count)
    return 0


def uninstall(settings: RegulatorSettings) -> int:
    """Clean up; returns the exit code."""
    configure_logging(names.REGULATOR, level=settings.log_level, format=settings.log_format)
    return asyncio.run(_run(settings))
