"""Throttle before evict: slow preemptible jobs down while it may still help, before anybody has to go.

In the Speculative state the CPU of preemptible pods is shrunk by in-place resize to a share of what their job
asked for; under `lower` they get it back. ScopeState is left alone: a process does not give it up because its
limit fell. So are pods on reclaimed capacity: they request nothing that could be given to others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from scavenger_api.levels import LevelsState

from scavenger_regulator.core.snapshot import Gang, PodFacts

MIN_CORES = 0.01


@dataclass(frozen=True, slots=True)
class ThrottleRules:
    """enabled: off by default. share: of its CPU that a throttled pod keeps, 0..1. max_resizes: per
    period."""

    enabled: bool = False
    share: float = 0.5
    max_resizes: int = 100


@dataclass(frozen=True, slots=True)
class Resize:
    """Set requests and limits of a container's CPU to `cores`."""

    gang: Gang
    pod: PodFacts
    container: str
    cores: float


def plan_resizes(
    state: LevelsState, gangs: Iterable[Gang], infeasible_nodes: Collection[str], rules: ThrottleRules
) -> tuple[Resize, ...]:
    """Which containers to shrink or to give their CPU back, at most `max_resizes`.

    Nodes that answered Infeasible are left alone, and so is everybody while Evicting (victims leave anyway)
    or Blind. A job that has become non-preemptible gets its CPU back in any of the other states.
    """
    if not rules.enabled or state in (LevelsState.EVICTING, LevelsState.BLIND):
        return ()
    found: list[Resize] = []
    for gang in gangs:
        if not gang.running or gang.stopping:
            continue
        for pod in gang.pods:
            if pod.deletion_deadline is None and pod.running_since is not None and pod.node not in infeasible_nodes:
                found.extend(_resizes(state, gang, pod, rules))
    return tuple(found[: rules.max_resizes])


def _resizes(state: LevelsState, gang: Gang, pod: PodFacts, rules: ThrottleRules) -> Iterable[Resize]:
    if pod.refused_resize or pod.reclaimed or gang.cores <= 0:
        return
    throttled = state is LevelsState.SPECULATIVE and pod.preemptible
    target = max(MIN_CORES, gang.cores * rules.share) if throttled else gang.cores
    for container, cores in pod.resizable.items():
        if abs(cores - target) >= 0.001:
            yield Resize(gang, pod, container, target)
