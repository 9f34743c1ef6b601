"""Of the parts of an object that tenants make as long as they like, a bounded part is kept."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from scavenger_api.names import ANNOTATION_LATENCY, ANNOTATION_RUN, FINALIZER
from scavenger_board.facts import BoardEvent
from scavenger_kube.kinds import Event, Job, ObjectMeta, ObjectReference, OwnerReference
from scavenger_kube.resources import JOBS
from scavenger_runtime.informer import Informer
from scavenger_runtime.kept_parts import MOST, MOST_TEXT, bounded, short_event
from scavenger_testing import FakeApi, eventually


def job(**meta: Any) -> Job:
    return Job(metadata=ObjectMeta(name="a", namespace="lab", uid="u", **meta))


def test_what_is_short_stays_the_same_object() -> None:
    short = job(annotations={"a": "b" * (MOST - 1)}, labels={"c": "d"}, finalizers=(FINALIZER,))
    assert bounded(short) is short


@pytest.mark.parametrize("field", ["annotations", "labels"])
def test_own_keys_and_short_ones_stay(field: str) -> None:
    """A tenant may make one of ours long as well, which then says nothing."""
    many = {f"example.com/{number:06}": "x" * 20 for number in range(20_000)}
    found = getattr(
        bounded(
            job(**{field: {**many, "z": "short", ANNOTATION_RUN: "now" * 50, ANNOTATION_LATENCY: "l" * MOST}})
        ).metadata,
        field,
    )
    assert found[ANNOTATION_RUN] == "now" * 50
    assert found["z"] == "short"
    assert ANNOTATION_LATENCY not in found
    assert MOST - 100 < sum(len(key) + len(value) for key, value in found.items()) <= MOST


def test_the_finalizer_and_the_owner_that_count_stay() -> None:
    others = tuple(f"example.com/{number:050}" for number in range(1000))
    owners = tuple(OwnerReference(name="o" * 200, uid=f"{number}", controller=number == 500) for number in range(1000))
    meta = bounded(job(finalizers=(*others, FINALIZER), owner_references=owners)).metadata
    assert FINALIZER in meta.finalizers
    assert len(meta.finalizers) < 300
    assert [one.uid for one in meta.owner_references] == ["500"]


@pytest.mark.parametrize("kind", [Event, BoardEvent])
def test_of_an_event_a_bounded_part_is_kept(kind: type[Event]) -> None:
    about = ObjectReference(kind="Pod", namespace="lab", name="p", uid="u")
    long = "m" * 10**6
    meta = ObjectMeta(name="e", namespace="lab", uid="u", resource_version="5", annotations={"a": long})
    event = kind(metadata=meta, involved_object=about, reason="FailedMount", message=long, last_timestamp="t")
    found = short_event(event)
    assert (found.metadata.key, found.metadata.resource_version, found.metadata.annotations) == ("lab/e", "5", {})
    assert (found.involved_object, found.reason, found.last_timestamp) == (about, "FailedMount", "t")
    assert found.message == "m" * MOST_TEXT
    nobody = short_event(kind(metadata=meta, involved_object=ObjectReference(name=long)))
    assert nobody.involved_object == ObjectReference()


async def test_informers_keep_no_more(api: FakeApi) -> None:
    """Of a list, and of a watch."""
    informer = Informer(api.client(), JOBS)
    long = {"example.com/a": "x" * 200_000}

    def put(name: str) -> None:
        api.put(JOBS, {"metadata": {"name": name, "namespace": "lab", "annotations": long}, "spec": {}})

    put("listed")
    task = asyncio.create_task(informer.run())
    await informer.wait_synced()
    put("watched")
    await eventually(lambda: len(informer) == 2)
    task.cancel()
    assert [one.metadata.annotations for one in informer.items()] == [{}, {}]
