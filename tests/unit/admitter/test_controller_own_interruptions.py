"""Whoever deletes pods of their own job gains nothing by it, the admitter as a whole."""

from __future__ import annotations

from datetime import timedelta

from scavenger_admitter.writer import SCAVENGERJOBS
from scavenger_api.times import format_micro_time
from scavenger_kube.resources import NODES
from scavenger_testing import scavengerjob_dict

from .harness import NS, Harness, empty_harness, runs


def cordon(c: Harness, *, closed: bool) -> None:
    c.api.edit(NODES, None, "n1", lambda node: node["spec"].update(unschedulable=closed))


async def interrupt(c: Harness, name: str) -> None:
    before = c.status(name)["interruptedCount"]
    c.delete_pod(c.pods(name)[0])
    await c.until(lambda: c.status(name)["interruptedCount"] > before)


async def test_what_its_user_deletes_is_counted_apart_and_a_drain_is_not() -> None:
    async with empty_harness() as c:
        c.node()
        c.admitter()
        c.submit("a")
        await runs(c, "a")
        for _ in range(2):
            await interrupt(c, "a")
            await runs(c, "a", limit=600)  # the pause after runs without progress grows
        cordon(c, closed=True)
        await interrupt(c, "a")
        cordon(c, closed=False)
        await runs(c, "a", limit=600)
        status = c.status("a")
        assert (status["interruptedCount"], status["ownInterruptedCount"]) == (3, 2)
        assert len(status["interruptedTimestamps"]) == 3


async def test_the_line_is_ordered_by_what_others_did() -> None:
    """Nothing is known of these jobs but their status, as after any restart."""
    async with empty_harness() as c:
        c.node(cpu="2")  # one at a time
        counts = {"own": (9, 9), "fresh": (0, 0), "drained": (1, 0), "both": (4, 2)}
        for place, (name, (count, own)) in enumerate(counts.items()):
            status = {
                "queuedTimestamp": format_micro_time(c.clock.now() + timedelta(microseconds=place)),
                "interruptedCount": count,
                "ownInterruptedCount": own,
            }
            phase = "Interrupted" if count else "Waiting"
            c.api.put(
                SCAVENGERJOBS, scavengerjob_dict(name, namespace=NS, created=c.stamp(), phase=phase, status=status)
            )
        c.admitter()
        for name in ("both", "drained", "own", "fresh"):
            await runs(c, name)
            c.succeed(name)
        assert c.starts() == ["both", "drained", "own", "fresh"]
