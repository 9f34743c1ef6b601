"""After an answer of the API server nothing is decided on caches that are older (docs/designs/0019)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from scavenger_kube.kinds import ObjectMeta

from scavenger_admitter.core.lifecycle.observation import Seen
from scavenger_admitter.facts import version


@dataclass(slots=True)
class Heard:
    """The last answer about the Job and the pods of one ScavengerJob, as far as caches do not show it yet.

    A cache may still show a pod that was counted and is gone. It must not count again.
    """

    _versions: dict[str, int | None] = field(default_factory=dict)
    """By uid; None for what is gone."""

    def hear(self, shown: Seen, answer: Seen) -> None:
        """Keep an answer. shown: what caches showed when the API server was asked."""
        there = {meta.uid: version(meta.resource_version) for meta in _metas(answer)}
        self._versions = {meta.uid: None for meta in _metas(shown)} | there

    def newer_than(self, shown: Seen) -> bool:
        """Whether caches are older than the last answer. shown: what they show now."""
        if not self._versions:
            return False
        now = {meta.uid: version(meta.resource_version) for meta in _metas(shown)}
        self._versions = {uid: at for uid, at in self._versions.items() if _missed(at, now.get(uid))}
        return bool(self._versions)


def _metas(seen: Seen) -> Iterator[ObjectMeta]:
    if seen.batch is not None:
        yield seen.batch.metadata
    for pod in seen.every_pod:
        yield pod.metadata


def _missed(heard: int | None, shown: int | None) -> bool:
    return shown is not None if heard is None else shown is None or shown < heard
