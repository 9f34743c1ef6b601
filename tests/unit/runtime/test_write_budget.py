from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scavenger_runtime.observer import LONGEST_COUNTED, RequestMetrics
from scavenger_runtime.write_budget import BURST_SECONDS, EXPLAIN_SHARE, SHARE, Pressure, Urgency, WriteBudget
from scavenger_testing import VirtualClock
from scavenger_testing.clock import settle

EXPLAIN, START, COUNT, CANCEL = Urgency


class Writers:
    """Writes that wait for their turn, and the order in which they had it."""

    def __init__(self, clock: VirtualClock, rate: float = 10.0, pressed_rate: float = 2.0) -> None:
        self.clock = clock
        self.budget = WriteBudget(clock, rate=rate, pressed_rate=pressed_rate)
        self.served: list[str] = []
        self.at: list[float] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}

    def write(self, name: str, urgency: Urgency = COUNT) -> None:
        self.tasks[name] = asyncio.create_task(self._write(name, urgency))

    async def _write(self, name: str, urgency: Urgency) -> None:
        await self.budget.take(urgency)
        self.served.append(name)
        self.at.append(self.clock.monotonic())

    async def emptied(self) -> None:
        """Nothing is left of what an idle time has saved."""
        while self.budget.try_take(COUNT):
            pass
        await settle()

    async def close(self) -> None:
        for task in self.tasks.values():
            task.cancel()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)
        await self.clock.advance(5)


@asynccontextmanager
async def writers(rate: float = 10.0, pressed_rate: float = 2.0) -> AsyncIterator[Writers]:
    made = Writers(VirtualClock(), rate, pressed_rate)
    try:
        yield made
    finally:
        await made.close()


async def test_a_write_does_not_wait_while_there_is_budget() -> None:
    async with writers() as w:
        for number in range(5):
            w.write(str(number))
        await settle()
        assert w.served == list("01234")
        assert w.clock.monotonic() == 0


async def test_writes_come_at_the_rate_once_the_burst_is_used_up() -> None:
    async with writers(rate=10) as w:
        await w.emptied()
        for number in range(20):
            w.write(str(number))
        await w.clock.advance(1)
        assert len(w.served) == 10
        await w.clock.advance(1)
        assert len(w.served) == 20
        gaps = [later - earlier for earlier, later in zip(w.at, w.at[1:], strict=False)]
        assert gaps == pytest.approx([0.1] * 19)


async def test_an_idle_time_saves_no_more_than_a_burst() -> None:
    async with writers(rate=10) as w:
        await w.clock.advance(1000)
        for number in range(20):
            w.write(str(number))
        await settle()
        assert len(w.served) == 10 * BURST_SECONDS


async def test_the_more_urgent_goes_first_and_equals_in_the_order_they_came() -> None:
    async with writers() as w:
        await w.emptied()
        for name, urgency in (("e", EXPLAIN), ("s", START), ("c1", COUNT), ("c2", COUNT)):
            w.write(name, urgency)
        await w.clock.advance(2)
        assert w.served == ["c1", "c2", "s", "e"]


async def test_nobody_overtakes_who_waits_for_the_same() -> None:
    async with writers() as w:
        await w.emptied()
        w.write("first")
        await settle()
        w.clock.jump(0.1)  # there is budget for one again, and the first has not been told yet
        w.write("second", COUNT)
        w.write("third")
        await settle()
        assert w.served == ["first"]


async def test_the_least_urgent_has_its_turn_while_urgent_ones_keep_coming() -> None:
    async with writers(rate=10) as w:
        await w.emptied()
        w.write("explain", EXPLAIN)
        for number in range(40):
            w.write(f"count-{number}", COUNT)
        await w.clock.advance(SHARE / 10)
        assert "explain" in w.served
        assert len(w.served) == SHARE


@given(
    urgencies=st.lists(st.sampled_from([EXPLAIN, START, COUNT]), min_size=1, max_size=40),
    given_up=st.sets(st.integers(0, 39)),
)
def test_every_turn_comes_within_the_bound_and_none_is_lost(urgencies: list[Urgency], given_up: set[int]) -> None:
    async def scenario() -> None:
        async with writers(rate=10) as w:
            await w.emptied()
            for number, urgency in enumerate(urgencies):
                w.write(str(number), urgency)
            await settle(60)
            left = [str(number) for number in range(len(urgencies)) if number not in given_up]
            for number in given_up:
                if str(number) in w.tasks:
                    w.tasks[str(number)].cancel()
            await w.clock.advance(len(left) / 10 + 0.05)
            assert sorted(w.served, key=int) == left
            for name in left:
                before = sum(int(other) < int(name) for other in left)
                assert w.served.index(name) < (before + 1) * SHARE
            by_urgency = [[n for n in w.served if urgencies[int(n)] is urgency] for urgency in Urgency]
            assert all(names == sorted(names, key=int) for names in by_urgency)

    asyncio.run(scenario())


async def test_a_turn_that_is_not_used_goes_to_the_next() -> None:
    async with writers(rate=1) as w:
        await w.emptied()
        w.write("a")
        w.write("b")
        await settle()
        w.clock.jump(1)
        for _ in range(10):
            await asyncio.sleep(0)
            if w.budget._given:  # the budget has given the turn to a, who is cancelled before it wakes
                break
        assert w.served == []
        w.tasks["a"].cancel()
        await settle()
        assert w.served == ["b"]


async def test_one_token_wakes_one_waiter() -> None:
    async with writers(rate=10) as w:
        await w.emptied()
        for number in range(100):
            w.write(str(number))
        await settle(150)
        slept = w.clock._sleepers
        assert len(slept) == 1, "one timer for all"
        for turn in range(1, 6):
            await w.clock.advance(0.1)
            assert len(w.served) == turn


# --- explanations ---


@asynccontextmanager
async def slow(latency: list[float], rate: float = 100.0) -> AsyncIterator[Writers]:
    """An API server that takes so long for a write."""
    clock = VirtualClock()
    made = Writers(clock, rate)
    made.budget = WriteBudget(clock, rate=rate, pressed_rate=rate, latency=lambda: latency[0])
    try:
        yield made
    finally:
        await made.close()


async def test_explanations_come_as_fast_as_the_api_server_answers_and_nothing_else_waits_for_them() -> None:
    latency = [0.25]
    async with slow(latency) as w:
        for number in range(10):
            w.write(f"e{number}", EXPLAIN)
        await settle()
        assert w.served == ["e0"]
        w.write("s", START)
        await settle()
        assert w.served == ["e0", "s"], "there is budget for it, however many explanations wait"
        await w.clock.advance(3 * EXPLAIN_SHARE * 0.25 + 0.01)
        assert w.served == ["e0", "s", "e1", "e2", "e3"]
        latency[0] = 0.0
        await w.clock.advance(EXPLAIN_SHARE * 0.25 + 0.2)
        assert len(w.served) == 11, "it answers at once again"


async def test_a_start_without_budget_does_not_wait_for_the_next_explanation() -> None:
    async with slow([10.0], rate=10) as w:
        await w.emptied()
        w.write("e", EXPLAIN)
        await w.clock.advance(0.15)
        assert w.served == ["e"]
        w.write("e2", EXPLAIN)
        await w.emptied()
        w.write("s", START)
        await w.clock.advance(0.15)
        assert w.served == ["e", "s"]


# --- what comes with a turn ---


async def test_what_belongs_to_a_turn_is_not_waited_for_and_others_wait_longer() -> None:
    async with writers(rate=10) as w:
        await w.emptied()
        w.budget.spend(3)
        w.write("next")
        await w.clock.advance(0.35)
        assert w.served == []
        await w.clock.advance(0.06)
        assert w.served == ["next"]


async def test_however_large_a_gang_was_the_next_one_does_not_wait_for_all_of_it() -> None:
    async with writers(rate=10) as w:
        w.budget.spend(1000)
        w.write("count", COUNT)
        await w.clock.advance(BURST_SECONDS + 0.11)
        assert w.served == ["count"]


async def test_the_rest_of_a_gang_does_not_wait_for_a_turn() -> None:
    async with writers(rate=10, pressed_rate=2) as w:
        w.budget.observe("lab/pod", pressure=True)
        w.budget.spend(1000)
        w.write("count", COUNT)
        for number in range(3):
            w.write(f"cancel-{number}", CANCEL)
        await settle()
        assert w.served == ["cancel-0", "cancel-1", "cancel-2"]
        await w.clock.advance(BURST_SECONDS + 0.6)
        assert w.served[3:] == ["count"], "what they owe is bounded"


async def test_a_turn_that_is_given_back_is_the_next_one_s() -> None:
    async with writers() as w:
        await w.emptied()
        w.write("a")
        await settle()
        assert w.served == []
        w.budget.give_back()
        await settle()
        assert w.served == ["a"]


# --- pressure ---


async def test_under_pressure_writes_come_at_the_lower_rate_until_it_ends() -> None:
    async with writers(rate=10, pressed_rate=2) as w:
        w.budget.observe("lab/pod", pressure=True)
        await w.emptied()
        for number in range(12):
            w.write(str(number))
        await w.clock.advance(1)
        assert len(w.served) == 2
        w.budget.observe("lab/pod", pressure=False)
        await w.clock.advance(1)
        assert len(w.served) >= 8
        assert w.budget.affordable(1) == pytest.approx(10, abs=5)


async def test_what_an_idle_time_has_saved_is_not_for_a_time_of_pressure() -> None:
    async with writers(rate=100, pressed_rate=2) as w:
        w.budget.observe("lab/pod", pressure=True)
        for number in range(50):
            w.write(str(number))
        await settle(100)
        assert len(w.served) == 1


def test_a_pod_presses_for_a_limited_time_and_a_new_one_anew() -> None:
    pressure = Pressure(hold=30)
    assert not pressure.is_on(0)
    pressure.observe("a", pressure=True, now=0)
    pressure.observe("a", pressure=True, now=20)
    assert pressure.is_on(29)
    assert not pressure.is_on(30)
    pressure.observe("b", pressure=True, now=40)
    assert pressure.is_on(69)
    pressure.observe("b", pressure=False, now=50)
    assert not pressure.is_on(50)
    assert "a" in pressure
    pressure.observe("a", pressure=False, now=51)
    pressure.observe("a", pressure=True, now=60)
    assert pressure.is_on(61), "it waits again"


def test_a_namespace_presses_for_five_minutes_an_hour() -> None:
    """A pod that its owner makes again every 25 s; another namespace is not affected."""
    pressure, on = Pressure(), 0
    for second in range(2 * 3600):
        if second % 25 == 0:
            pressure.observe(f"lab/p{second // 25 - 1}", pressure=False, now=second)
            pressure.observe(f"lab/p{second // 25}", pressure=True, now=second)
        on += pressure.is_on(second)
        if second in (299, 301, 3500):
            assert pressure.is_on(second) == (second == 299)
    assert 570 <= on <= 601
    pressure.observe("other/p", pressure=True, now=7200)
    assert pressure.is_on(7229)
    assert not pressure.is_on(7231)


def test_pods_that_press_together_are_accounted_for_once() -> None:
    pressure = Pressure()
    for number in range(100):
        pressure.observe(f"lab/p{number}", pressure=True, now=number / 10)
    assert pressure.is_on(39)
    assert not pressure.is_on(40)
    for number in range(100):
        pressure.observe(f"lab/p{number}", pressure=False, now=50)
    pressure.observe("lab/last", pressure=True, now=60)
    assert pressure.is_on(89)
    assert sum(pressure._spent["lab"].values()) == pytest.approx(39.9)


def test_what_is_known_of_namespaces_is_forgotten_after_an_hour() -> None:
    pressure = Pressure()
    for number in range(1000):
        pressure.observe(f"n{number}/p", pressure=True, now=100 * number)
        assert pressure.is_on(100 * number + 29)
        pressure.observe(f"n{number}/p", pressure=False, now=100 * number + 29)
    assert len(pressure._spent) <= 38
    assert not pressure._since
    assert not pressure._on


def test_the_lower_rate_is_never_the_higher_one() -> None:
    budget = WriteBudget(VirtualClock(), rate=5, pressed_rate=20)
    budget.observe("a", pressure=True)
    assert budget.rate == 5


# --- what the API server bears ---


async def written_in(w: Writers, seconds: int) -> int:
    """How many writes have their turn in that time, of more than there can be."""
    before = len(w.served)
    for number in range(seconds * 50):
        w.write(f"{before}-{number}", START)
    for _ in range(seconds * 10):
        await w.clock.advance(0.1)
        await settle()
    return len(w.served) - before


@pytest.mark.parametrize(
    ("answered_in", "least", "most"),
    [
        (0.0, 140, 160),  # nobody has measured it
        (0.002, 400, 600),
        (0.02, 140, 160),
        (0.2, 140, 160),
    ],
)
async def test_more_is_written_where_the_api_server_answers_at_once(answered_in: float, least: int, most: int) -> None:
    """Ten a second at first; what was saved has been used up."""
    async with slow([answered_in], rate=10.0) as w:
        await w.emptied()
        assert least <= await written_in(w, 15) <= most
        assert w.budget.rate <= 40.0


async def test_a_slow_answer_takes_the_rate_back_to_what_was_set_and_no_lower() -> None:
    latency = [0.002]
    async with slow(latency, rate=10.0) as w:
        await w.emptied()
        await written_in(w, 15)
        assert w.budget.rate == 40.0
        latency[0] = 0.05
        await w.clock.advance(4)
        assert w.budget.rate == 10.0
        w.budget.observe("lab/regular", pressure=True)
        assert w.budget.rate == 10.0, "pressed_rate of this test"


async def test_the_burst_after_an_idle_time_is_that_of_the_rate_that_was_set() -> None:
    async with slow([0.002], rate=10.0) as w:
        await w.emptied()
        for number in range(300):
            w.write(str(number), START)
        for _ in range(200):
            await w.clock.advance(0.1)
        assert w.budget.rate == 40.0
        await w.clock.advance(60)
        taken = 0
        while w.budget.try_take(START):
            taken += 1
        assert taken == 10.0 * BURST_SECONDS


def test_a_refusal_counts_as_the_slowest_write() -> None:
    seen = RequestMetrics()
    seen.took("POST", 0.002)
    assert seen.write_seconds < 0.01
    seen.answered("POST", 429)
    assert seen.write_seconds == LONGEST_COUNTED
