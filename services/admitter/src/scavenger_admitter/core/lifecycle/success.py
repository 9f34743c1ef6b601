"""Whether an exit with 0 is final.

Most programs end with 0 when they are told to stop, and a machine that goes down tells all of them before a controller
marks its node. So a success is final when its node shows life some seconds after it, or when the program says that it
is done (docs/designs/0002-what-is-an-interruption.md). Only the verdict waits: the pod has ended, and its capacity is
free.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from scavenger_domain.checkpoints import says_finished
from scavenger_domain.pod_ends import PROVEN_WITHIN, ended_at, main_status
from scavenger_kube import kinds

SHOWS_LIFE_AFTER: Final = 5.0
"""Seconds after its end until which the node of a success has to show life, by default."""


@dataclass(frozen=True, slots=True)
class Success:
    """A pod whose program ended with 0, where nothing proves yet that it was done.

    Attributes:
        uid: of the pod.
        node: that it was on.
        at: when its program ended, by the clock of its node.
        version: of the pod, as it was judged.
    """

    uid: str
    node: str
    at: datetime
    version: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What this process knows of successes. Lost with it, and found again.

    Attributes:
        required: whether a success has to be proven.
        proven: uids of pods whose nodes have shown life since.
        asked: since when this process looks for it, by uid, by its own clock.
        open: those that the last look has found open, by uid.
        given_up: no admitter will look for it any more.
    """

    required: bool = False
    proven: Collection[str] = frozenset()
    asked: Mapping[str, datetime] = field(default_factory=dict)
    open: Mapping[str, Success] = field(default_factory=dict)
    given_up: bool = False

    def unproven(self, done: Iterable[kinds.Pod]) -> list[Success]:
        """Those of pods that succeeded which may have been told to stop. One whose end was not seen is believed: its
        kubelet has reported it later."""
        if not self.required:
            return []
        ends = ((pod, ended_at(pod)) for pod in done if pod.metadata.uid not in self.proven and not _says_so(pod))
        return [
            Success(pod.metadata.uid, pod.spec.node_name, at, pod.metadata.resource_version)
            for pod, at in ends
            if at is not None
        ]

    def still_open(
        self,
        pod: kinds.Pod,
        nodes: Mapping[str, kinds.Node | None],
        reboots: Mapping[str, datetime],
        now: datetime,
    ) -> Success | None:
        """The success of a pod that was judged before, where nothing is known since that decides it; else None. Of an
        array thousands may be open, and each is judged when there is news of it."""
        one = self.open.get(pod.metadata.uid)
        if one is None or one.version != pod.metadata.resource_version or one.uid in self.proven:
            return None
        gone = one.node in nodes and nodes[one.node] is None
        rebooted = (at := reboots.get(one.node)) is not None and at > one.at
        return None if gone or rebooted or now >= self.until(one, now) else one

    def until(self, success: Success, now: datetime) -> datetime:
        """When it counts as an interruption if nothing has proven it. Clocks of nodes may be ahead."""
        if self.given_up:
            return now
        since = self.asked.get(success.uid, now)
        return min(max(success.at, since), now) + PROVEN_WITHIN


BELIEVED: Final = Evidence()
"""An exit with 0 is final."""


def _says_so(pod: kinds.Pod) -> bool:
    main = main_status(pod)
    return main is not None and main.state.terminated is not None and says_finished(main.state.terminated.message)
