"""Queues that are for some namespaces only, the admitter as a whole: who waits, and what labels change."""

from __future__ import annotations

from functools import partial

import pytest
from scavenger_admitter.informers import SCAVENGERQUEUES
from scavenger_admitter.writer import SCAVENGERJOBS
from scavenger_api.reasons import WaitReason
from scavenger_kube.resources import JOBS, NAMESPACES
from scavenger_testing.builders import scavengerjob_dict

from .harness import NS, Harness, empty_harness, runs


def namespace(c: Harness, **labels: str) -> None:
    c.api.put(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NS, "labels": labels}})


def queue(c: Harness, **labels: str) -> None:
    spec = {"weight": 1, "namespaceSelector": {"matchLabels": labels}}
    c.api.put(
        SCAVENGERQUEUES, {"apiVersion": "v1", "kind": "ScavengerQueue", "metadata": {"name": "own"}, "spec": spec}
    )


def waits_for(c: Harness, name: str) -> str:
    found = [one for one in c.status(name).get("conditions", ()) if one["type"] == "Admitted"]
    return found[0]["reason"] if found else ""


async def test_a_job_waits_until_its_queue_selects_its_namespace_and_labels_interrupt_nobody() -> None:
    async with empty_harness() as c:
        c.node()
        namespace(c, team="red")
        queue(c, team="blue")
        c.admitter()
        c.submit("a", queue="own")
        await c.until(lambda: waits_for(c, "a") == WaitReason.NAMESPACE_NOT_SELECTED)
        assert "is not for jobs of namespace lab" in c.status("a")["message"]

        namespace(c, team="blue")
        await runs(c, "a")

        namespace(c, team="red")
        c.submit("b", queue="own")
        await c.until(lambda: waits_for(c, "b") == WaitReason.NAMESPACE_NOT_SELECTED)
        await c.pass_time(10)
        assert c.phases() == {"a": "Running", "b": "Waiting"}
        c.succeed("a")
        await c.until(lambda: c.phase("a") == "Completed")

        queue(c, team="red")
        await runs(c, "b")


async def test_a_namespace_that_is_not_known_is_selected_by_no_selector() -> None:
    async with empty_harness() as c:
        c.node()
        queue(c, team="blue")
        c.admitter()
        c.submit("a", queue="own")
        c.submit("b")
        await runs(c, "b")
        await c.until(lambda: waits_for(c, "a") == WaitReason.NAMESPACE_NOT_SELECTED)


async def test_namespaces_of_a_queue_take_turns_as_soon_as_it_says_so() -> None:
    async with empty_harness() as c:
        c.node(cpu="10")
        turns: dict[str, object] = {"apiVersion": "v1", "kind": "ScavengerQueue", "metadata": {"name": "default"}}
        c.api.put(SCAVENGERQUEUES, {**turns, "spec": {"weight": 1}})
        c.admitter()
        c.submit("first", cpu="6")
        await runs(c, "first")
        for name in ("second", "third"):
            c.submit(name, cpu="6")
            await c.until(partial(waits, c, name))
        c.api.put(SCAVENGERJOBS, scavengerjob_dict("late", namespace="other", created=c.stamp(), cpu="3"))
        c.api.put(SCAVENGERJOBS, scavengerjob_dict("later", namespace="other", created=c.stamp(), cpu="3"))
        await c.pass_time(10)
        c.succeed("first")
        await runs(c, "second")
        assert c.api.get(JOBS, "other", "late") is None, "who came first has everything"

        c.api.put(SCAVENGERQUEUES, {**turns, "spec": {"weight": 1, "perNamespace": {"weights": {"other": 2}}}})
        await c.pass_time(2)
        c.succeed("second")
        await c.until(lambda: c.api.get(JOBS, "other", "late") is not None)
        await c.until(lambda: c.api.get(JOBS, "other", "later") is not None)
        assert c.phase("third") == "Waiting"


@pytest.mark.parametrize("array", [False, True])
async def test_the_place_of_a_job_is_lent_once_to_one_of_a_higher_priority(array: bool) -> None:
    """A namespace may not pass others again and again by one old job of a low priority."""
    async with empty_harness() as c:
        c.node(cpu="1.5")
        c.admitter()
        c.submit("first")
        await runs(c, "first")
        c.submit("old", **({"array": {"tasks": 2}} if array else {}))
        await c.until(partial(waits, c, "old"))
        c.api.put(SCAVENGERJOBS, scavengerjob_dict("other", namespace="other", created=c.stamp()))
        await c.pass_time(1)
        c.submit("urgent", priority=1)
        await c.until(partial(waits, c, "urgent"))
        c.succeed("first")
        await runs(c, "urgent")  # they have exchanged their places

        c.submit("again", priority=1)
        await c.until(partial(waits, c, "again"))
        c.succeed("urgent")
        await c.until(lambda: c.api.get(JOBS, "other", "other") is not None)
        assert (c.phase("old"), c.phase("again")) == ("Waiting", "Waiting")


def waits(c: Harness, name: str) -> bool:
    return c.phase(name) == "Waiting"
