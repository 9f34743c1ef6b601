"""What the regular pods of a node have used lately: a histogram that forgets, small enough for thousands of nodes.

Per node and resource, the use as a share of what the node can allocate is counted in equal buckets whose weights halve
every `half_life`, as the Vertical Pod Autoscaler's recommender does it (autoscaler/vertical-pod-autoscaler/pkg/
recommender/util/decaying_histogram.go). One sample weighs 1 when it is taken, so the sum of the weights is the number
of samples that still count: a node that was not watched for long has to be learned again.

All nodes together are one compressed text: a byte per bucket, relative to the fullest one.
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import accumulate
from typing import Any, Final

VERSION: Final = 1
BUCKETS: Final = 40
"""Of 2.5 % of the node each."""

FULL: Final = 255
"""The weight of the fullest bucket, as it is kept."""

SAME_ROOM: Final = 0.001
"""A share by which the size of a node may differ and still be the same."""

MAX_PACKED: Final = 64 * 1024 * 1024
"""Bytes that a kept text may unfold to; more was not written by us."""


@dataclass(slots=True)
class Profile:
    """The use of one resource on one node. half_life: seconds. `room`: what the node can allocate, in cores or
    bytes."""

    half_life: float
    room: float = 0.0
    _weights: list[float] = field(default_factory=lambda: [0.0] * BUCKETS)
    _last: float = -math.inf
    """Time of the newest sample, in seconds since the epoch."""

    @property
    def samples(self) -> float:
        """How many samples still count."""
        return sum(self._weights)

    def add(self, at: datetime, use: float, room: float) -> bool:
        """Take a sample in, in cores or bytes; False where it is no number, negative, or no newer than the last one.

        After a clock was set back, samples count again once the lost time has been made up, or at once when it was more
        than the half-life.
        """
        moment = at.timestamp()
        if not (math.isfinite(use) and use >= 0 and math.isfinite(room) and room > 0):
            return False
        if moment <= self._last and self._last - moment <= self.half_life:
            return False
        self._resize(room)
        if moment > self._last > -math.inf:
            kept = 0.5 ** ((moment - self._last) / self.half_life)
            self._weights = [weight * kept for weight in self._weights]
        self._last = moment
        self._weights[min(BUCKETS - 1, int(BUCKETS * use / room))] += 1.0
        return True

    def _resize(self, room: float) -> None:
        """A node that has grown or shrunk: what its pods used stays, its share changes."""
        if self.room > 0 and abs(room - self.room) > SAME_ROOM * self.room:
            old, scale = self._weights, self.room / room
            self._weights = [0.0] * BUCKETS
            for bucket, weight in enumerate(old):
                self._weights[min(BUCKETS - 1, int((bucket + 0.5) * scale))] += weight
        self.room = room

    def percentile(self, percent: float) -> float:
        """The use, in cores or bytes, that was not exceeded `percent` of the time, interpolated within its bucket; 0
        without a sample."""
        total = self.samples
        if total <= 0:
            return 0.0
        wanted = total * min(100.0, max(0.0, percent)) / 100
        share = 1.0
        for bucket, until in enumerate(accumulate(self._weights)):
            weight = self._weights[bucket]
            if weight > 0 and until >= wanted:
                share = (bucket + 1 - (until - wanted) / weight) / BUCKETS
                break
        return self.room * min(1.0, share)

    @property
    def stdev(self) -> float:
        """Standard deviation of the use, in cores or bytes."""
        total = self.samples
        if total <= 0:
            return 0.0
        mean = sum((i + 0.5) * weight for i, weight in enumerate(self._weights)) / total
        square = sum((i + 0.5 - mean) ** 2 * weight for i, weight in enumerate(self._weights)) / total
        return self.room * math.sqrt(square) / BUCKETS

    def usual(self, percent: float) -> float:
        """What has to be expected of the regular pods, in cores or bytes: the percentile plus one deviation."""
        return min(self.room, self.percentile(percent) + self.stdev)

    # --- kept across restarts ------------------------------------------------------------------------------

    def dump(self) -> list[Any]:
        """As JSON values: time, capacity, samples, and the buckets as bytes."""
        fullest = max(self._weights) or 1.0
        packed = bytes(round(FULL * weight / fullest) for weight in self._weights)
        return [round(self._last), self.room, round(self.samples, 2), base64.b64encode(packed).decode()]

    @classmethod
    def load(cls, dumped: Any, half_life: float, now: datetime) -> Profile:
        """What `dump` wrote, as far as it makes sense; else empty. Never raises."""
        profile = cls(half_life)
        try:
            last, room, samples = (float(value) for value in dumped[:3])
            packed = base64.b64decode(dumped[3], validate=True)
        except (KeyError, TypeError, ValueError, IndexError):
            return profile
        total = sum(packed)
        sane = math.isfinite(room) and room > 0 and math.isfinite(samples) and samples > 0
        if not sane or len(packed) != BUCKETS or not total or not last <= now.timestamp() + half_life:
            return profile
        profile.room, profile._last = room, last
        profile._weights = [samples * weight / total for weight in packed]
        return profile


@dataclass(slots=True)
class Profiles:
    """The profiles of all nodes. half_life: seconds."""

    half_life: float
    nodes: dict[str, dict[str, Profile]] = field(default_factory=dict)
    """Node → resource → profile."""

    def add(self, node: str, resource: str, at: datetime, use: float, room: float) -> bool:
        """Take a sample in; as `Profile.add`."""
        profiles = self.nodes.setdefault(node, {})
        if resource not in profiles:
            profiles[resource] = Profile(self.half_life)
        return profiles[resource].add(at, use, room)

    def get(self, node: str, resource: str) -> Profile | None:
        """The profile, None of a node never seen."""
        return self.nodes.get(node, {}).get(resource)

    def keep(self, nodes: Collection[str]) -> None:
        """Forget all other nodes."""
        for gone in self.nodes.keys() - set(nodes):
            del self.nodes[gone]

    def dump(self, limit: int) -> str:
        """All of them as one text of at most `limit` bytes; nodes that do not fit are learned again after a restart."""
        names = sorted(self.nodes)
        while True:
            dumped = {name: {r: p.dump() for r, p in self.nodes[name].items() if p.samples > 0} for name in names}
            plain = json.dumps({"version": VERSION, "nodes": dumped}, separators=(",", ":"))
            text = base64.b64encode(zlib.compress(plain.encode())).decode()
            if len(text) <= limit or not names:
                return text if len(text) <= limit else ""
            names = names[: len(names) * limit // len(text) * 9 // 10]

    @classmethod
    def load(cls, text: str | None, half_life: float, nodes: Collection[str], now: datetime) -> Profiles:
        """What `dump` wrote of these nodes, as far as it makes sense. Never raises."""
        profiles = cls(half_life)
        dumped = _unpacked(text)
        for name in nodes:
            one = dumped.get(name)
            if isinstance(one, dict):
                profiles.nodes[name] = {r: Profile.load(values, half_life, now) for r, values in one.items()}
        return profiles


def _unpacked(text: str | None) -> Mapping[str, Any]:
    try:
        unfold = zlib.decompressobj()
        parsed = json.loads(unfold.decompress(base64.b64decode(text or "", validate=True), MAX_PACKED))
    except (ValueError, RecursionError, zlib.error):
        return {}
    if not isinstance(parsed, dict) or parsed.get("version") != VERSION:
        return {}
    nodes = parsed.get("nodes")
    return nodes if isinstance(nodes, dict) else {}
