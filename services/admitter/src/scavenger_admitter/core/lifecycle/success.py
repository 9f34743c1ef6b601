"""Whether an exit with 0 is final.

Most programs end with 0 when they are told to stop, and a machine that goes down tells all of them before anybody marks
its node. So a success is final when its node shows life some seconds after it, or when the program says that it is done
(docs/designs/0002-what-is-an-interruption.md). Only the verdict waits: the pod has ended, and its capacity is free.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from scavenger_domain.checkpoints import says_finished
from scavenger_domain.pod_ends import ended_at, main_status
from scavenger_kube import kinds

PROVEN_WITHIN: Final = timedelta(minutes=2)
"""A success is waited for no longer. A kubelet renews the Lease of its node every 10 s, and a node counts as not ready
after 50 s."""


@dataclass(frozen=True, slots=True)
class Success:
    """A pod whose program ended with 0, where nothing proves yet that it was done.

    Attributes:
        uid: of the pod.
        node: that it was on.
        at: when its program ended, by the clock of its node.
    """

    uid: str
    node: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Evidence:
    """What this process knows of successes. Lost with it, and found again.

    Attributes:
        required: whether a success has to be proven.
        proven: uids of pods whose nodes have shown life since.
        asked: since when this process looks for it, by uid, by its own clock.
    """

    required: bool = False
    proven: Collection[str] = frozenset()
    asked: Mapping[str, datetime] = field(default_factory=dict)

    def unproven(self, done: Iterable[kinds.Pod]) -> list[Success]:
        """Those of pods that succeeded which may have been told to stop. One whose end nobody saw is believed: its
        kubelet has reported it later."""
        if not self.required:
            return []
        ends = ((pod, ended_at(pod)) for pod in done if pod.metadata.uid not in self.proven and not _says_so(pod))
        return [Success(pod.metadata.uid, pod.spec.node_name, at) for pod, at in ends if at is not None]

    def until(self, success: Success, now: datetime) -> datetime:
        """When it counts as an interruption if nothing has proven it. Clocks of nodes may be ahead."""
        since = self.asked.get(success.uid, now)
        return min(max(success.at, since), now) + PROVEN_WITHIN


BELIEVED: Final = Evidence()
"""An exit with 0 is final."""


def _says_so(pod: kinds.Pod) -> bool:
    main = main_status(pod)
    return main is not None and main.state.terminated is not None and says_finished(main.state.terminated.message)
