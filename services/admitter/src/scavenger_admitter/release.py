"""Carries out the release of adopted Jobs (`scavenger_domain.release`), where the admitter is uninstalled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from scavenger_domain.release import End, Request, Target, release
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import AlreadyExists, Conflict, NotFound, Unavailable
from scavenger_kube.kinds import Pod
from scavenger_kube.resources import MERGE_PATCH
from scavenger_runtime.clock import Clock


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
    except NotFound:
        return None
    except (AlreadyExists, Conflict, Unavailable):
        if step.method == "GET":
            raise
        return None
    found: Mapping[str, Any] = msgspec.json.decode(body)
    return found
