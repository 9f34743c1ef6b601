"""The last words of pods whose finalizer others took off while no admitter was there."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from scavenger_api import names
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import NotFound
from scavenger_kube.kinds import ConfigMap, Pod
from scavenger_kube.resources import CONFIGMAPS
from scavenger_runtime.clock import Clock
from scavenger_runtime.informer import Change
from scavenger_runtime.last_words import read_words
from scavenger_runtime.shared_settings import configmap_informer

from scavenger_admitter.facts import job_key


class LastWordsSeen:
    """What the ConfigMaps of the components hold, and what of it is counted.

    Args:
        client: to read and write with.
        namespace: of the components.
        clock: of the informers.

    Attributes:
        informers: one for each ConfigMap.
    """

    def __init__(self, client: ApiClient, namespace: str, clock: Clock) -> None:
        self._client = client
        self._namespace = namespace
        self._pods: dict[str, dict[str, Pod]] = {}
        self.informers = [configmap_informer(client, namespace, name, clock) for name in names.LAST_WORDS.values()]
        for informer in self.informers:
            informer.add_handler(self._on_change)

    def _on_change(self, change: Change[ConfigMap]) -> None:
        self._pods[change.obj.metadata.name] = read_words(change.new.data) if change.new is not None else {}

    def of(self, job: str) -> list[Pod]:
        """The pods of a ScavengerJob (`namespace/name`) with last words. Some may be shown as well."""
        return list({pod.metadata.uid: pod for pod in self._all() if job_key(pod) == (job,)}.values())

    @property
    def jobs(self) -> set[str]:
        """The ScavengerJobs of which pods have gone."""
        return {key for pod in self._all() for key in job_key(pod)}

    def _all(self) -> Iterable[Pod]:
        return (pod for pods in self._pods.values() for pod in pods.values())

    async def forget(self, uid: str) -> None:
        """Take out the words of a pod, which is counted. Raises ApiError.

        Nothing else is ever written under its UID than what it said as it ended, so this needs no resourceVersion.
        """
        for name, pods in self._pods.items():
            if uid in pods:
                with contextlib.suppress(NotFound):
                    await self._client.merge_patch(CONFIGMAPS, self._namespace, name, {"data": {uid: None}})
