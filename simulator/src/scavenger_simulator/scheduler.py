"""Where a pending ordinary pod goes, and who has to go for it: kube-scheduler with the project's plugin.

What is restated of the plugin is the order of nodes (score.go, bound.go); the choice on one node is `victims`. Nodes
are filtered by requests of CPU, memory and pods, and scored as NodeResourcesFit does by default, least allocated first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from scavenger_simulator.victims import Amounts, Share, at_least, choose_victims

MAX_FEASIBLE_SHARE: Final = 50
"""Percent of the nodes that are looked at for a place, less one for each 125 nodes, and no less than 5:
kube-scheduler's percentageOfNodesToScore."""
MIN_FEASIBLE: Final = 100
SECONDS_RESOLUTION: Final = 1e-3
"""What scores of nodes resolve of a core-second, being integers."""


def feasible_nodes(nodes: int) -> int:
    """After how many nodes with room the search for a better one ends (`numFeasibleNodesToFind` of kube-scheduler)."""
    if nodes < MIN_FEASIBLE:
        return nodes
    share = max(5, MAX_FEASIBLE_SHARE - nodes // 125)
    return max(MIN_FEASIBLE, nodes * share // 100)


def wait_for(unsaved: float, cores: float, longest: float, full_from: float) -> float:
    """Seconds that a pod waits before non-preemptible jobs go for it (`waitFor` of the plugin).

    Args:
        unsaved: core-seconds that the jobs would lose.
        cores: what the pod requests.
        longest: seconds that it waits at most.
        full_from: unsaved seconds, for each core that it requests, from which it waits that long.
    """
    worth = full_from * cores
    return longest if unsaved >= worth else longest * unsaved / worth


@dataclass(frozen=True, slots=True)
class NodeOutlook:
    """A node that may make room. needed: what is missing there, 0 where nothing is. spare: free less asked for."""

    index: int
    shares: Sequence[Share]
    needed: Amounts
    spare: Amounts


@dataclass(frozen=True, slots=True)
class Preemption:
    """Where room is made, and how: jobs that are broken by it (those that are lost already among them), the pods that
    have to go, and whether each of them stays until it is told to."""

    index: int
    broken: tuple[Share, ...]
    pods: tuple[str, ...]

    @property
    def newly_broken(self) -> tuple[Share, ...]:
        """The jobs that lose something."""
        return tuple(share for share in self.broken if not share.lost)


def choose_node(outlooks: Iterable[NodeOutlook]) -> Preemption | None:
    """The node on which room costs least; None where no node can make it.

    No non-preemptible job where others are enough, then least CPU time at risk over the whole gangs, then fewest jobs,
    fewest pods that are not leaving, fewest pods, and the most recently started. Nodes whose lower bound is above the
    best one found are not tried: the result is that of trying all.
    """
    bounded = []
    for outlook in outlooks:
        bound = at_least(outlook.needed, outlook.shares)
        if bound is not None:
            bounded.append((bound, outlook.index, outlook))
    bounded.sort(key=lambda entry: entry[:2])
    best: tuple[tuple[int, int, int, int, int, float, int], Preemption] | None = None
    for (protected, seconds), index, outlook in bounded:
        if best is not None and (protected, round(seconds / SECONDS_RESOLUTION)) > best[0][:2]:
            break
        found = choose_victims(outlook.shares, outlook.needed, outlook.spare)
        if found is None:
            continue
        score = (*_score(*found), index)
        if best is None or score < best[0]:
            best = score, Preemption(index, tuple(found[0]), tuple(found[1]))
    return best[1] if best is not None else None


def choose_node_by_pods(outlooks: Iterable[NodeOutlook]) -> Preemption | None:
    """The node on which kube-scheduler makes room by itself, where all pods that may go have one priority; None where
    no node can make it.

    On each node those that started last go (`SelectVictimsOnNode`: all go, then one after the other is let back in,
    the oldest first). Of the nodes, that with fewest victims, then that whose oldest victim is the youngest
    (`pickOneNodeForPreemption`).
    """
    best: tuple[tuple[int, float, int], Preemption] | None = None
    for outlook in outlooks:
        left = [outlook.spare[r] + sum(share.amounts[r] for share in outlook.shares) for r in range(3)]
        if min(left) < 0:
            continue
        gone: list[str] = []
        broken: dict[str, Share] = {}
        for share in sorted(outlook.shares, key=lambda share: (share.started, share.key)):
            for amounts, name in share.pods:
                if all(left[r] >= amounts[r] for r in range(3)):
                    left = [left[r] - amounts[r] for r in range(3)]
                else:
                    gone.append(name)
                    broken[share.key] = share
        score = (len(gone), -min(share.started for share in broken.values()), outlook.index)
        if best is None or score < best[0]:
            best = score, Preemption(outlook.index, tuple(broken.values()), tuple(gone))
    return best[1] if best is not None else None


def _score(broken: Sequence[Share], pods: Sequence[str]) -> tuple[int, int, int, int, int, float]:
    names = set(pods)
    protected, seconds, jobs, staying, earliest = 0, 0.0, 0, 0, float("inf")
    for share in broken:
        gone = [name for _, name in share.pods if name in names]
        if not gone:
            continue
        earliest = min(earliest, share.started)
        staying += sum(1 for _, name in share.pods[: share.staying] if name in names)
        if not share.lost:
            protected = max(protected, int(share.protected))
            seconds += share.seconds
            jobs += 1
    return protected, round(seconds / SECONDS_RESOLUTION), jobs, staying, len(names), -earliest
