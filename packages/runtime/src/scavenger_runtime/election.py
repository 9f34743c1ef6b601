"""Leader election by a Lease (coordination.k8s.io/v1): one of several replicas works, the others stand by.

Two rules keep two leaders apart, without trusting any wall clock:

- A candidate takes a Lease over only after it has *itself watched* it stay unchanged for the Lease's whole
  duration, on its own monotonic clock. What the Lease says about times is for people to read.
- The leader measures from the moment it *sent* the last renewal that succeeded. After `renew_deadline`
  seconds without another one it stops working, which is earlier than anyone can take over (`lease_duration`).

A Lease does not fence writes. A leader whose deadline has passed sends none any more, also where it was stopped and
goes on with what it had decided (`ServiceContext.lead`). One that it has sent may still be under way; optimistic
locking on the objects themselves covers that.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
import orjson
from scavenger_api.times import parse_time
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from scavenger_kube.resources import LEASES

from scavenger_runtime import metrics
from scavenger_runtime.clock import Clock, SystemClock, within
from scavenger_runtime.logging import get_logger
from scavenger_runtime.tasks import log_failure

RELEASE_SECONDS = 3.0
"""How long the release of the Lease may take at a graceful stop."""

JITTER = 0.2
"""Candidates wait up to that share longer than `retry_period`, so that they do not try in step."""

IS_LEADER = metrics.gauge("leader", "1 while this process leads.", ["lease"])

log = get_logger(__name__)


class LeadershipLost(Exception):  # noqa: N818 - not an error in the code
    """The Lease could not be renewed in time or another replica holds it. End the process: its caches and plans
    may be those of a leader that is no more."""


@dataclass(frozen=True, slots=True)
class _Observed:
    """A Lease as it was when it was last seen to change, and when that was on the own monotonic clock."""

    lease: dict[str, Any]
    at: float

    @property
    def spec(self) -> dict[str, Any]:
        spec = self.lease.get("spec")
        return spec if isinstance(spec, dict) else {}

    @property
    def holder(self) -> str:
        return str(self.spec.get("holderIdentity") or "")

    @property
    def transitions(self) -> int:
        return int(self.spec.get("leaseTransitions") or 0)

    @property
    def version(self) -> str:
        return str((self.lease.get("metadata") or {}).get("resourceVersion") or "")

    def expires(self, default: float) -> float:
        """When others may take over, on the own monotonic clock: the holder's own duration counts."""
        return self.at + float(self.spec.get("leaseDurationSeconds") or default)


class Elector:
    """Takes part in the election for one Lease.

    identity: unique among the candidates. lease_duration: seconds after which others may take over from a
    leader that went silent. renew_deadline: seconds after which a leader that cannot renew gives up.
    retry_period: seconds between renewals, and between attempts of a candidate. Raises ValueError unless
    lease_duration > renew_deadline > retry_period.
    """

    def __init__(
        self,
        client: ApiClient,
        name: str,
        namespace: str,
        identity: str,
        *,
        lease_duration: float = 15.0,
        renew_deadline: float = 10.0,
        retry_period: float = 2.0,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        if not lease_duration > renew_deadline > retry_period > 0:
            raise ValueError("it must be that lease_duration > renew_deadline > retry_period > 0")
        if not identity:
            raise ValueError("identity must not be empty: an empty holder means that no replica leads")
        self.name = name
        self.namespace = namespace
        self.identity = identity
        self._client = client
        self._duration = lease_duration
        self._deadline = renew_deadline
        self._period = retry_period
        self._clock = clock or SystemClock()
        self._rng = rng or random.Random()
        self._observed: _Observed | None = None
        self._renewed_at = 0.0
        self._leading = False
        self._looked = False
        self.renewed_before: datetime | None = None
        """When the Lease had been renewed last as this process first looked at it; None where there was none. Another
        replica was at work until then."""
        self._log = log.bind(lease=f"{namespace}/{name}", identity=identity)
        IS_LEADER.labels(name).set(0)

    @property
    def is_leader(self) -> bool:
        """Whether this process leads now: it holds the Lease and its deadline has not passed."""
        return self._leading and self._clock.monotonic() < self._renewed_at + self._deadline

    @property
    def leader(self) -> str:
        """The holder last seen, empty for none (or nothing seen yet)."""
        return self._observed.holder if self._observed else ""

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait to be elected, then run `lead` until it ends, and release the Lease.

        When the leadership is lost, `lead` is cancelled and LeadershipLost raised. When this task is cancelled, `lead`
        is cancelled and may take its time to drain: the Lease is renewed meanwhile, and released after.
        """
        try:
            await self._acquire()
        except asyncio.CancelledError:
            if self._leading:  # elected a moment before
                self._set_leading(False)
                await self._release()
            raise
        leading = asyncio.create_task(_call(lead), name="leading")
        renewing = asyncio.create_task(self._renew_until_lost())
        try:
            await self._both(leading, renewing)
        except (LeadershipLost, asyncio.CancelledError):
            leading.add_done_callback(log_failure)
            raise
        finally:
            self._set_leading(False)
            renewing.cancel()
            leading.cancel()
            await asyncio.gather(renewing, return_exceptions=True)

    async def _both(self, leading: asyncio.Task[None], renewing: asyncio.Task[str]) -> None:
        """Until the work ends (then the Lease is released) or the leadership does (then the work is cancelled)."""
        cancelled = False
        while not leading.done() and not renewing.done():
            try:
                await asyncio.wait([leading, renewing], return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError:
                if cancelled:
                    raise
                cancelled = True
                leading.cancel()
        if not leading.done():
            await self._cut_off(leading)
            raise LeadershipLost(renewing.result())
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)
        await self._release()
        if cancelled:
            raise asyncio.CancelledError
        leading.result()

    async def _cut_off(self, leading: asyncio.Task[None]) -> None:
        """End the work of a leader that is none any more: one cancellation asks it to drain, the second ends that."""
        for _ in range(2):
            leading.cancel()
            await asyncio.sleep(0)
        await asyncio.wait({leading}, timeout=1.0)
        if not leading.done():
            self._log.error("the leading task does not end")

    # --- the Lease ----------------------------------------------------------------------------------

    async def _acquire(self) -> None:
        self._log.info("waiting to be elected")
        while True:
            try:
                if await within(self._clock, self._deadline, self._try_acquire()):
                    return
            except (ApiError, TimeoutError) as error:
                self._log.warning("cannot take part in the election", error=str(error))
            await self._clock.sleep(self._period * self._rng.uniform(1.0, 1.0 + JITTER))

    async def _try_acquire(self) -> bool:
        """Take the Lease if it has no holder, is ours, or has not changed for its whole duration."""
        before = self.leader
        try:
            self._observe(await self._request("GET"))
        except NotFound:
            self._observed = None
        held = self._observed
        if not self._looked:
            self._looked = True
            self.renewed_before = parse_time(str(held.spec.get("renewTime"))) if held is not None else None
        if self.leader != before and self.leader != self.identity:
            self._log.info("leader seen", leader=self.leader)
        if held is not None and held.holder not in ("", self.identity):
            if self._clock.monotonic() < held.expires(self._duration):
                return False
            self._log.info("leader went silent, taking over", leader=held.holder)
        sent_at = self._clock.monotonic()
        if not await self._write(self._claim(held)):
            return False
        self._renewed_at = sent_at
        self._set_leading(True)
        self._log.info("elected", transitions=self._observed.transitions if self._observed else 0)
        return True

    async def _renew_until_lost(self) -> str:
        """Renew every `retry_period`; returns why the leadership ended."""
        while True:
            await self._clock.sleep(self._period)
            left = self._renewed_at + self._deadline - self._clock.monotonic()
            if left <= 0:
                return f"not renewed for {self._deadline - left:.1f} s"
            sent_at = self._clock.monotonic()
            try:
                if await within(self._clock, left, self._renew()):
                    self._renewed_at = sent_at
                else:
                    return f"taken over by {self.leader or 'another replica'}"
            except (ApiError, TimeoutError) as error:
                self._log.warning("lease not renewed", error=str(error), seconds_left=round(left, 1))

    async def _renew(self) -> bool:
        """Write a new renewTime; where the Lease has changed, look whose it is. False: not ours any more."""
        held = self._observed
        if held is not None and await self._write(self._claim(held)):
            return True
        try:
            self._observe(await self._request("GET"))
        except NotFound:
            self._observed = None  # deleted by hand: it has no holder, so write it again
            return await self._write(self._claim(None))
        held = self._observed
        return held is not None and held.holder == self.identity and await self._write(self._claim(held))

    async def _release(self) -> None:
        """Leave the Lease to the next leader, at once."""
        try:
            if await within(self._clock, RELEASE_SECONDS, self._give_back()):
                self._log.info("lease released")
        except (ApiError, TimeoutError) as error:
            self._log.warning("lease not released, it will expire", error=str(error))

    async def _give_back(self) -> bool:
        """Whether the Lease was ours and has no holder now. It may not be as it was seen last: a renewal that was
        broken off may have been done."""
        if await self._write_vacant():
            return True
        self._observe(await self._request("GET"))
        return await self._write_vacant()

    async def _write_vacant(self) -> bool:
        held = self._observed
        if held is None or held.holder != self.identity:
            return False
        lease = self._claim(held)
        lease["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
        return await self._write(lease)

    def _claim(self, held: _Observed | None) -> dict[str, Any]:
        """The Lease with this process as its holder; a change of holder counts as a transition."""
        now = _micro_time(self._clock.now())
        spec: dict[str, Any] = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": max(1, math.ceil(self._duration)),
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": 0,
        }
        if held is None:
            metadata = {"name": self.name, "namespace": self.namespace}
            return {"apiVersion": LEASES.api_version, "kind": "Lease", "metadata": metadata, "spec": spec}
        same = held.holder == self.identity
        if same and held.spec.get("acquireTime"):
            spec["acquireTime"] = held.spec["acquireTime"]
        spec["leaseTransitions"] = held.transitions + (0 if same else 1)
        return {**held.lease, "spec": {**held.spec, **spec}}

    async def _write(self, lease: dict[str, Any]) -> bool:
        """Create or replace the Lease; False where another replica was faster."""
        try:
            if "resourceVersion" in lease["metadata"]:
                answer = await self._request("PUT", lease)
            else:
                answer = await self._request("POST", lease)
        except (Conflict, AlreadyExists, NotFound):
            return False
        self._observe(answer)
        return True

    async def _request(self, method: str, lease: dict[str, Any] | None = None) -> bytes:
        path = LEASES.path(self.namespace, None if method == "POST" else self.name)
        body = None if lease is None else msgspec.json.encode(lease)
        return await self._client.request(method, path, body=body, timeout=self._deadline, urgent=True)

    def _observe(self, body: bytes) -> None:
        """Note when the Lease was last seen to change: after the answer has come, so never before it was
        written.
        """
        seen = _Observed(orjson.loads(body), self._clock.monotonic())
        if self._observed is None or seen.version != self._observed.version:
            self._observed = seen

    def _set_leading(self, leading: bool) -> None:
        self._leading = leading
        IS_LEADER.labels(self.name).set(1 if leading else 0)


async def _call(lead: Callable[[], Awaitable[None]]) -> None:
    await lead()


def _micro_time(time: datetime) -> str:
    """As metav1.MicroTime is written."""
    return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
