"""Which jobs have to leave one node so that a pending pod fits: the choice of the scheduler plugin, in Python.

The plugin is in Go, as kube-scheduler loads nothing else, so this is the one decision that the simulator restates:
services/scheduler/pkg/preemption, choice.go and victims.go, as far as requests of CPU and memory and the number of pods
are concerned. A test compares both on random cases. Names and order follow the original, so that the two can be read
side by side.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cmp_to_key
from typing import Final

MAX_VISITS: Final = 1 << 17
EXACT_UP_TO: Final = 20
MAX_VISITS_BEYOND: Final = 1 << 12

PROTECTED, AT_RISK, NEWLY_BROKEN, REMOVALS = range(4)
_CRITERIA: Final = 4

Amounts = tuple[int, int, int]
"""Millicores, bytes, pods."""

Price = tuple[float, float, float, float]
"""What the end of jobs costs, by criterion."""

_FREE: Final[Price] = (0.0, 0.0, 0.0, 0.0)


@dataclass(slots=True)
class Share:
    """What one job has on one node.

    seconds: CPU time at risk of the whole gang, in core-seconds, 0 where it is lost. lost: a pod of it is going
    already. protected: non-preemptible. pods: requests of those of its pods that are on the node, and their names.
    staying: how many of them, the first ones, are not on their way out. started: of the youngest.
    """

    key: str
    seconds: float
    lost: bool
    protected: bool
    pods: list[tuple[Amounts, str]]
    staying: int
    started: float
    amounts: Amounts = field(init=False)

    def __post_init__(self) -> None:
        each = [amounts for amounts, _ in self.pods]
        self.amounts = (sum(a[0] for a in each), sum(a[1] for a in each), len(each))

    @property
    def price(self) -> Price:
        """What its end costs."""
        if self.lost:
            return 0.0, 0.0, 0.0, float(self.staying)
        return float(self.protected), self.seconds, 1.0, float(self.staying)


def importance(share: Share) -> tuple[bool, bool, bool, float, float, str]:
    """The order of who keeps its place: jobs that have something to lose before broken ones, and these before what is
    leaving; non-preemptible ones; more at risk; started earlier; by name."""
    return share.lost, share.staying == 0, not share.protected, -share.seconds, share.started, share.key


def choose_victims(shares: Sequence[Share], needed: Amounts, spare: Amounts) -> tuple[list[Share], list[str]] | None:
    """The jobs on a node that leave enough room and lose the least, and those of their pods that have to go.

    Args:
        shares: of the jobs that may go.
        needed: what is missing for the pod, 0 where nothing is.
        spare: what is free, less what the pod asks for; negative where that is missing.

    Returns:
        Jobs, the most important first, and names of pods. None where all of them together are not enough.
    """
    total = [sum(share.amounts[r] for share in shares) for r in range(3)]
    if any(total[r] < needed[r] for r in range(3)):
        return None
    ordered = sorted(shares, key=importance)
    off = Selection(needed, ordered).cheapest()
    broken = [share for share, gone in zip(ordered, off, strict=True) if gone]
    pods = [pod for share in broken for pod in share.pods]
    if len(pods) == 1:
        return broken, [pods[0][1]]
    left = [spare[r] + sum(amounts[r] for amounts, _ in pods) for r in range(3)]
    names = []
    for amounts, name in pods:
        if all(left[r] >= amounts[r] for r in range(3)):
            for r in range(3):
                left[r] -= amounts[r]
        else:
            names.append(name)
    return broken, names


def at_least(needed: Amounts, shares: Sequence[Share]) -> tuple[bool, float] | None:
    """A lower bound of what ending a shortage by these jobs loses: whether a non-preemptible one has to go, and
    core-seconds. None where all of them together cannot end it."""
    selection = Selection(needed, shares)
    seconds = selection.at_least(AT_RISK, 0, selection.missing, 1.0)
    return None if seconds is None or not shares else (selection.needs_protected() > 0, seconds)


def compare_figures(a: float, b: float) -> int:
    """Figures that were only added up in another order are equal."""
    if abs(a - b) <= 1e-6 + 1e-9 * b:
        return 0
    return -1 if a < b else 1


def _compare(a: Price, b: Price) -> int:
    for x, y in zip(a, b, strict=True):
        difference = compare_figures(x, y)
        if difference:
            return difference
    return 0


def _plus(a: Price, b: Price) -> Price:
    return min(1.0, a[0] + b[0]), a[1] + b[1], a[2] + b[2], a[3] + b[3]


class Selection:
    """The search for the cheapest jobs that end a shortage: a minimum knapsack for each resource that is short, by
    branch and bound. The jobs are numbered by importance, the most important first.

    Args:
        needed: what is missing, by resource.
        shares: of the jobs that may go.
    """

    def __init__(self, needed: Amounts, shares: Sequence[Share]) -> None:
        short = [r for r in range(3) if needed[r] > 0]
        self.prices = [share.price for share in shares]
        self.missing = [needed[r] for r in short]
        self._amounts = [[share.amounts[r] for share in shares] for r in short]
        self._orders: dict[tuple[int, int], list[int]] = {}
        self._left: list[int] = []
        self._broken: list[bool] = []
        self._best: list[bool] = []
        self._worth = _FREE
        self._visits = 0
        self._limit = MAX_VISITS if len(shares) <= EXACT_UP_TO else MAX_VISITS_BEYOND
        # Of equals the best is the one that keeps the most important jobs, so another has to be cheaper.
        self._in_order = False

    def cheapest(self) -> list[bool]:
        """Which jobs go. All of them together have to be enough."""
        self._start(self._by_importance(), in_order=True)
        dense = self._by_density()
        if _compare(self._price_of(dense), self._worth) < 0:
            self._start(dense, in_order=False)
        self._search(0, _FREE)
        return self._best

    def _start(self, best: list[bool], *, in_order: bool) -> None:
        self._best, self._worth, self._in_order = best, self._price_of(best), in_order
        self._left, self._broken = list(self.missing), [False] * len(self.prices)

    def _price_of(self, broken: list[bool]) -> Price:
        paid = _FREE
        for i, gone in enumerate(broken):
            if gone:
                paid = _plus(paid, self.prices[i])
        return paid

    # --- branch and bound ---

    def _search(self, following: int, paid: Price) -> None:
        """Decide about the jobs from `following` on: keeping one comes first, so that of equal choices the one that
        keeps the most important jobs is found first."""
        if self._visits >= self._limit:
            return
        self._visits += 1
        if all(amount <= 0 for amount in self._left):
            self._settle(paid)
            return
        if following == len(self.prices) or not self._promising(following, paid):
            return
        self._search(following + 1, paid)
        if self._helps(following):
            self._take(following, 1)
            self._search(following + 1, _plus(paid, self.prices[following]))
            self._take(following, -1)

    def _settle(self, paid: Price) -> None:
        difference = _compare(paid, self._worth)
        if difference < 0 or (difference == 0 and not self._in_order):
            self._best, self._worth, self._in_order = list(self._broken), paid, True

    def _take(self, i: int, sign: int) -> None:
        self._broken[i] = sign > 0
        for r, amounts in enumerate(self._amounts):
            self._left[r] -= sign * amounts[i]

    def _helps(self, i: int) -> bool:
        return any(left > 0 and self._amounts[r][i] > 0 for r, left in enumerate(self._left))

    def _promising(self, following: int, paid: Price) -> bool:
        for criterion in range(_CRITERIA):
            least = self.at_least(criterion, following, self._left, self._worth[PROTECTED])
            if least is None:
                return False
            total = paid[criterion] + least
            if criterion == PROTECTED:
                total = min(1.0, total)
            difference = compare_figures(total, self._worth[criterion])
            if difference:
                return difference < 0
        return not self._in_order

    def at_least(self, criterion: int, following: int, left: Sequence[int], may_protected: float) -> float | None:
        """A lower bound, by one criterion, of what ending the rest of the shortage by jobs from `following` on costs,
        non-preemptible ones only where `may_protected` is 1: per resource that of a knapsack whose items may be cut.
        None where they cannot end it."""
        least = 0.0
        for r, short in enumerate(left):
            missing, total, amounts = short, 0.0, self._amounts[r]
            if missing <= 0:
                continue
            for i in self._order(criterion, r):
                if i < following or self.prices[i][PROTECTED] > may_protected:
                    continue
                if amounts[i] >= missing:
                    total += self.prices[i][criterion] * missing / amounts[i]
                    missing = 0
                    break
                total += self.prices[i][criterion]
                missing -= amounts[i]
            if missing > 0:
                return None
            least = max(least, total)
        if criterion == AT_RISK:
            return least
        counted = float(math.ceil(least - 1e-6))
        return min(1.0, counted) if criterion == PROTECTED else counted

    def _order(self, criterion: int, resource: int) -> list[int]:
        """The jobs that have something of a resource, by price per amount, cheapest first."""
        known = self._orders.get((criterion, resource))
        if known is None:
            amounts, prices = self._amounts[resource], self.prices

            def compare(a: int, b: int) -> int:
                for k in range(criterion, _CRITERIA):
                    x, y = prices[a][k] * amounts[b], prices[b][k] * amounts[a]
                    if x != y:
                        return -1 if x < y else 1
                return b - a

            known = sorted((i for i, amount in enumerate(amounts) if amount > 0), key=cmp_to_key(compare))
            self._orders[criterion, resource] = known
        return known

    # --- where the search begins ---

    def _by_importance(self) -> list[bool]:
        """Jobs keep their places, the most important first, as long as enough room is left."""
        broken = [True] * len(self.prices)
        left = [short - sum(amounts) for short, amounts in zip(self.missing, self._amounts, strict=True)]
        self._give_back(broken, left)
        return broken

    def _by_density(self) -> list[bool]:
        """One resource after the other, jobs are taken by price per amount, cheapest first; one that ends the shortage
        together with those taken is a candidate, the others are taken; the cheapest candidate wins."""
        broken, left = [False] * len(self.prices), list(self.missing)
        may_protected = self.needs_protected()
        for r in range(len(left)):
            for i in self._densest(r, left[r], broken, may_protected) if left[r] > 0 else ():
                broken[i] = True
                for other, amounts in enumerate(self._amounts):
                    left[other] -= amounts[i]
        self._give_back(broken, left)
        return broken

    def needs_protected(self) -> float:
        """1 where preemptible jobs alone do not end the shortage, else 0."""
        kept = [price[PROTECTED] == 0 for price in self.prices]
        enough = [
            sum(amount for amount, ok in zip(amounts, kept, strict=True) if ok) >= missing
            for amounts, missing in zip(self._amounts, self.missing, strict=True)
        ]
        return 0.0 if all(enough) else 1.0

    def _densest(self, resource: int, missing: int, broken: list[bool], may_protected: float) -> list[int]:
        taken: list[int] = []
        best: list[int] = []
        paid, worth, amounts = _FREE, _FREE, self._amounts[resource]
        for i in self._order(AT_RISK, resource):
            if broken[i] or self.prices[i][PROTECTED] > may_protected:
                continue
            total = _plus(paid, self.prices[i])
            if amounts[i] < missing:
                taken.append(i)
                paid = total
                missing -= amounts[i]
            elif not best or _compare(total, worth) < 0:
                best, worth = [*taken, i], total
        return best

    def _give_back(self, broken: list[bool], left: list[int]) -> None:
        """Broken jobs keep their places that are not needed, the most important first. left: what there is too much of
        is negative."""
        for i, gone in enumerate(broken):
            if gone and all(left[r] + amounts[i] <= 0 for r, amounts in enumerate(self._amounts)):
                broken[i] = False
                for r, amounts in enumerate(self._amounts):
                    left[r] += amounts[i]
