"""The eviction API takes no protected pod at any moment, however late the disruption controller is.

A model of three parts that see each other's writes late: the API server (pods, spec and status of one budget), the
disruption controller with its caches, and the prioritizer, which writes labels and the budget. The rules of the first
two are those of `pkg/registry/core/pod/storage/eviction.go` and `pkg/controller/disruption/disruption.go`.

The second half plays the same with budgets that are met, and has the histories in which these fail
(docs/designs/0030-budgets-that-are-met.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random

import pytest
from scavenger_prioritizer.facts import BUDGET_SPEC

from tests.unit.effort import examples

STEPS = 60
PODS = ("a", "b", "c")


@dataclass(frozen=True)
class Pod:
    """What a budget sees of a running pod. covered: its labels are those that the budget selects."""

    ready: bool = True
    covered: bool = False


@dataclass(frozen=True)
class Status:
    """Of the budget, as the disruption controller wrote it last."""

    observed: int = 0
    current: int = 0
    desired: int = 0
    allowed: int = 0


@dataclass
class Cluster:
    """The API server, and the caches of the disruption controller: a prefix of the changes of pods."""

    minimum: int
    generation: int = 1
    status: Status = Status()
    history: list[dict[str, Pod]] = field(default_factory=lambda: [dict.fromkeys(PODS, Pod())])
    pods_seen: int = 0
    generation_seen: int = 0

    @property
    def pods(self) -> dict[str, Pod]:
        return self.history[-1]

    @property
    def covered(self) -> int:
        return sum(pod.covered for pod in self.pods.values())

    def change(self, name: str, pod: Pod) -> None:
        self.history.append({**self.pods, name: pod})

    def set_ready(self, name: str, ready: bool) -> None:
        self.change(name, Pod(ready, self.pods[name].covered))

    def set_covered(self, name: str, covered: bool) -> None:
        self.change(name, Pod(self.pods[name].ready, covered))

    def set_minimum(self, minimum: int) -> None:
        if minimum != self.minimum:
            self.minimum, self.generation = minimum, self.generation + 1

    # --- the disruption controller ---

    def see_pods(self, upto: int | None = None) -> None:
        self.pods_seen = len(self.history) - 1 if upto is None else min(upto, len(self.history) - 1)

    def count(self) -> None:
        """One sync: counts what the caches hold. A write that names an older version of the budget is refused."""
        if self.generation_seen != self.generation:
            return
        pods = self.history[self.pods_seen].values()
        current = sum(pod.covered and pod.ready for pod in pods)
        allowed = max(0, current - self.minimum) if any(pod.covered for pod in pods) else 0
        self.status = Status(self.generation, current, self.minimum, allowed)

    # --- the eviction API ---

    def evictable(self, name: str) -> bool:
        """Whether an eviction of this running pod succeeds now."""
        pod, status = self.pods[name], self.status
        if not pod.covered:
            return True
        if not pod.ready and status.current >= status.desired > 0:
            return True  # and whether that status is of the present spec is not asked
        return status.observed >= self.generation and status.allowed > 0

    def exposed(self) -> set[str]:
        return {name for name, pod in self.pods.items() if pod.covered and self.evictable(name)}


class OneBudget:
    """What the prioritizer does: the budget says the same at all times."""

    def protect(self, cluster: Cluster, name: str) -> None:
        cluster.set_covered(name, True)

    def expose(self, cluster: Cluster, name: str) -> None:
        cluster.set_covered(name, False)

    def adapt(self, cluster: Cluster) -> None:
        pass


class MetBudget(OneBudget):
    """As many as are protected: raised before a label is set, lowered when the pods are no longer counted."""

    def protect(self, cluster: Cluster, name: str) -> None:
        if not cluster.pods[name].covered:
            cluster.set_minimum(max(cluster.minimum, cluster.covered + 1))
            cluster.set_covered(name, True)

    def adapt(self, cluster: Cluster) -> None:
        status, wanted = cluster.status, cluster.covered
        if wanted < cluster.minimum and status.observed == cluster.generation and status.current <= wanted:
            cluster.set_minimum(wanted)


def play(seed: int, minimum: int, prioritizer: OneBudget) -> str | None:
    """A history of this seed; the moment at which the eviction API takes a protected pod, or None."""
    random, cluster, told = Random(seed), Cluster(minimum), []

    def see_some() -> None:
        cluster.see_pods(random.randint(cluster.pods_seen, len(cluster.history) - 1))

    def see_budget() -> None:
        cluster.generation_seen = random.randint(cluster.generation_seen, cluster.generation)

    def of_a_pod(act: Callable[[str], None]) -> None:
        act(random.choice(PODS))

    moves: dict[str, Callable[[], None]] = {
        "protect": lambda: of_a_pod(lambda name: prioritizer.protect(cluster, name)),
        "expose": lambda: of_a_pod(lambda name: prioritizer.expose(cluster, name)),
        "adapt": lambda: prioritizer.adapt(cluster),
        "ready": lambda: of_a_pod(lambda name: cluster.set_ready(name, not cluster.pods[name].ready)),
        "see pods": see_some,
        "see budget": see_budget,
        "count": cluster.count,
    }
    for _ in range(STEPS):
        move = random.choice(sorted(moves))
        moves[move]()
        told.append(move)
        if cluster.exposed():
            return f"seed {seed}: {cluster.exposed()} after {told}, {cluster.status}"
    return None


def first_failure(minimum: int, prioritizer: OneBudget, seeds: Iterable[int]) -> str | None:
    return next((told for seed in seeds if (told := play(seed, minimum, prioritizer)) is not None), None)


def test_at_no_moment_is_a_protected_pod_evicted() -> None:
    minimum = BUDGET_SPEC["minAvailable"]
    assert first_failure(minimum, OneBudget(), range(examples(1000))) is None


@pytest.mark.parametrize("minimum", [1, 2, 3])
def test_a_budget_that_can_be_met_fails(minimum: int) -> None:
    """The model finds it, so that a smaller number in the budget does not go unnoticed."""
    assert first_failure(minimum, OneBudget(), range(200)) is not None


def test_a_budget_that_follows_the_pods_fails() -> None:
    assert first_failure(0, MetBudget(), range(200)) is not None


def followed(*names: str) -> tuple[Cluster, MetBudget]:
    """A budget over these ready pods that is met, and the controller knows it."""
    cluster, prioritizer = Cluster(0), MetBudget()
    for name in names:
        prioritizer.protect(cluster, name)
    cluster.see_pods()
    cluster.generation_seen = cluster.generation
    cluster.count()
    assert cluster.status.current == cluster.status.desired == len(names)
    assert not cluster.exposed()
    return cluster, prioritizer


def test_a_met_budget_lets_a_pod_go_that_has_just_become_unready() -> None:
    """The eviction API asks the last count, which is older than the pod's condition. No order of writes avoids that."""
    cluster, _ = followed("a")
    cluster.set_ready("a", False)
    assert cluster.exposed() == {"a"}
    cluster.see_pods()
    cluster.count()
    assert not cluster.exposed(), "once the controller has seen it"


def test_a_raised_budget_lets_an_unready_pod_go_until_it_is_counted() -> None:
    """That the budget is raised before the label helps ready pods only: for others no generation is compared."""
    cluster, prioritizer = followed("a")
    cluster.set_ready("b", False)
    prioritizer.protect(cluster, "b")
    assert cluster.minimum == 2
    assert cluster.exposed() == {"b"}


def test_a_budget_lowered_by_the_count_of_healthy_pods_lets_a_ready_pod_go() -> None:
    """One pod less was counted because another was unready, and not because the label was gone."""
    cluster, prioritizer = followed("a", "b")
    cluster.set_ready("a", False)
    cluster.see_pods()
    cluster.count()
    cluster.set_ready("a", True)
    ready_again = len(cluster.history) - 1
    prioritizer.expose(cluster, "b")
    prioritizer.adapt(cluster)
    assert cluster.minimum == 1
    cluster.generation_seen = cluster.generation
    cluster.see_pods(ready_again)  # and not yet that b is preemptible
    cluster.count()
    assert cluster.exposed() == {"a"}
