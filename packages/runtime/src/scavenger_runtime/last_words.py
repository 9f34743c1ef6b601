"""What pods said as they ended, kept for an admitter that is away.

A component that takes the admitter's finalizer off a pod writes first what the pod shows of its end, by its UID, into a
ConfigMap of its own in the system namespace. The admitter judges such a pod as if it were still there, and takes out
what it has counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from scavenger_api import names
from scavenger_domain.pod_ends import BY_KUBELETS, NEVER_SEEN, moment
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import Conflict, Forbidden, NotFound
from scavenger_kube.kinds import (
    Condition,
    ConfigMap,
    ContainerState,
    ContainerStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    PodStatus,
    Terminated,
)
from scavenger_kube.resources import CONFIGMAPS

from scavenger_runtime import metrics
from scavenger_runtime.logging import get_logger

MAX_BYTES: Final = 128 * 1024
"""Of all words in one ConfigMap."""
MAX_MESSAGE: Final = 1024
"""Characters of a message that are kept: the contract of checkpoints has one line."""
TRIES: Final = 3
KEPT: Final = ("batch.kubernetes.io/job-completion-index", "kubectl.kubernetes.io/default-container")
"""Labels and annotations that the judge reads, beside those of this project."""

UNWRITTEN: Final = metrics.counter(
    "last_words_unwritten_total", "Pods whose finalizer was removed and whose last words had no place.", ["reason"]
)

log = get_logger(__name__)


def word_of(pod: Pod) -> str:
    """What is kept of a pod, as JSON. Texts of tenants are cut, and labels and annotations of others are left out."""
    meta, status = pod.metadata, pod.status
    kept = Pod(
        metadata=ObjectMeta(
            name=meta.name,
            namespace=meta.namespace,
            uid=meta.uid,
            generation=meta.generation,
            creation_timestamp=meta.creation_timestamp,
            deletion_timestamp=meta.deletion_timestamp,
            deletion_grace_period_seconds=meta.deletion_grace_period_seconds,
            labels=_ours(meta.labels),
            annotations=_ours(meta.annotations),
            owner_references=meta.owner_references,
            finalizers=(names.FINALIZER,),
        ),
        spec=PodSpec(
            node_name=pod.spec.node_name,
            termination_grace_period_seconds=pod.spec.termination_grace_period_seconds,
            restart_policy=pod.spec.restart_policy,
        ),
        status=PodStatus(
            phase=status.phase,
            reason=status.reason,
            message=status.message[:MAX_MESSAGE],
            conditions=_conditions(status.conditions),
            container_statuses=tuple(map(_container, status.container_statuses)),
            observed_generation=status.observed_generation,
            start_time=status.start_time,
        ),
    )
    return msgspec.json.encode(kept).decode()


def _ours(texts: Mapping[str, str]) -> dict[str, str]:
    ours = f"{names.GROUP}/"
    return {name: text for name, text in texts.items() if name.startswith(ours) or name in KEPT}


def _conditions(conditions: Sequence[Condition]) -> tuple[Condition, ...]:
    """What disrupts it, and the last thing that its kubelet has reported: that may be all that is known of its end."""
    disrupted = tuple(one for one in conditions if one.type == "DisruptionTarget")
    reported = [one for one in conditions if one.type in BY_KUBELETS and one.last_transition_time]
    newest = max(reported, key=lambda one: moment(one.last_transition_time) or NEVER_SEEN, default=None)
    if newest is None:
        return disrupted
    return (*disrupted, Condition(newest.type, newest.status, last_transition_time=newest.last_transition_time))


def _container(status: ContainerStatus) -> ContainerStatus:
    """Of a container that its kubelet started again, the end before is what tells how the run ended."""
    return ContainerStatus(
        status.name,
        _state(status.state),
        restart_count=status.restart_count,
        last_state=_state(status.last_state),
    )


def _state(state: ContainerState) -> ContainerState:
    return state if state.terminated is None else ContainerState(terminated=_cut(state.terminated))


def _cut(ended: Terminated) -> Terminated:
    return replace(ended, message=ended.message[:MAX_MESSAGE])


def read_words(data: Mapping[str, str]) -> dict[str, Pod]:
    """The pods in a ConfigMap, by UID. What cannot be read is left out."""
    found = {}
    for uid, text in data.items():
        try:
            pod = msgspec.json.decode(text, type=Pod)
        except msgspec.DecodeError:
            continue
        if pod.metadata.uid == uid and pod.ended:
            found[uid] = pod
    return found


class LastWords:
    """The words that one component writes.

    Args:
        client: to read and write with.
        namespace: of the components.
        configmap: its name, of `names.LAST_WORDS`. The chart of the component makes it.
    """

    def __init__(self, client: ApiClient, namespace: str, configmap: str) -> None:
        self._client = client
        self._namespace = namespace
        self._configmap = configmap

    async def write(self, pods: Sequence[Pod]) -> None:
        """Keep the words of these pods, as far as there is space; the end of another one is what was seen of it last.

        Where the ConfigMap is missing, or may not be written, nothing is kept: drains go on all the same.

        Raises:
            ApiError: the API server cannot write it now.
        """
        for last in (False,) * (TRIES - 1) + (True,):
            try:
                return await self._try(pods)
            except (NotFound, Forbidden) as error:
                UNWRITTEN.labels("Refused").inc(len(pods))
                log.warning("cannot keep last words", configmap=self._configmap, pods=len(pods), error=str(error))
                return None
            except Conflict:  # the admitter has taken some out
                if last:
                    raise
        return None

    async def _try(self, pods: Sequence[Pod]) -> None:
        body = await self._client.get(CONFIGMAPS, self._namespace, self._configmap)
        found = msgspec.json.decode(body, type=ConfigMap)
        more, full = _fitting(pods, found.data)
        if more:
            patch: dict[str, Any] = {"metadata": {"resourceVersion": found.metadata.resource_version}, "data": more}
            await self._client.merge_patch(CONFIGMAPS, self._namespace, self._configmap, patch)
        if full:
            UNWRITTEN.labels("Full").inc(full)
            log.warning("no space for last words", configmap=self._configmap, pods=full)


def _fitting(pods: Iterable[Pod], data: Mapping[str, str]) -> tuple[dict[str, str], int]:
    """The words that are new and fit beside those that are there, and how many do not fit."""
    used = sum(len(uid) + len(text.encode()) for uid, text in data.items())
    more: dict[str, str] = {}
    full = 0
    for pod in pods:
        uid, text = pod.metadata.uid, word_of(pod)
        size = len(uid) + len(text.encode())
        if data.get(uid) == text:
            continue
        if used + size > MAX_BYTES:
            full += 1
            continue
        used += size
        more[uid] = text
    return more, full
