"""The status write: the commit of everything that the admitter decides."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from scavenger_admitter.core.lifecycle.actions import CreateJob, DeleteJob
from scavenger_admitter.core.lifecycle.observation import Outcome
from scavenger_admitter.writer import SCAVENGERJOBS, STATUS_FIELDS, Writer
from scavenger_api.array import ArrayStatus
from scavenger_api.job import Phase, Preemption, ScavengerJob, ScavengerJobStatus
from scavenger_kube.errors import Conflict, NotFound
from scavenger_runtime.events import EventRecorder
from scavenger_testing import FakeApi, VirtualClock, scavengerjob_dict

from . import builders as b

NS = "lab"
PREEMPTION = {"class": "non-preemptible", "runningPriority": 7}


class Place:
    """A writer, and the one job that it writes to."""

    def __init__(self, api: FakeApi, clock: VirtualClock) -> None:
        self.api = api
        client = api.client()
        self.writer = Writer(client, EventRecorder(client, "scavenger-admitter", clock=clock), max_grace_seconds=3600)

    def put(self, **status: Any) -> ScavengerJob:
        self.api.put(SCAVENGERJOBS, scavengerjob_dict("a", namespace=NS, status=status))
        return self.job()

    def job(self) -> ScavengerJob:
        return ScavengerJob.model_validate(self.api.get(SCAVENGERJOBS, NS, "a"))

    async def write(self, job: ScavengerJob, **changes: Any) -> ScavengerJob:
        outcome = Outcome(job.status.model_copy(update=changes), changed=True)
        return await self.writer.write_status(job, b.confirmed(outcome))


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    clock = VirtualClock()
    async with FakeApi(clock, listens=False) as api:
        yield Place(api, clock)


def test_every_field_is_the_admitters() -> None:
    assert set(STATUS_FIELDS) == set(ScavengerJobStatus.model_json_schema(by_alias=True)["properties"])


async def test_what_is_not_said_any_more_goes(place: Place) -> None:
    job = place.put(phase="Running", jobName="a", message="running", preemption=PREEMPTION, usefulCPUSeconds=3)
    written = await place.write(job, job_name=None, message=None, interrupted_count=1)
    found = place.api.get(SCAVENGERJOBS, NS, "a")
    assert found is not None
    assert {"jobName", "message"}.isdisjoint(found["status"])
    assert (found["status"]["preemption"], found["status"]["usefulCPUSeconds"]) == (PREEMPTION, 3)
    assert found["status"]["interruptedCount"] == 1
    assert written == place.job()


async def test_what_is_not_said_of_tasks_any_more_goes(place: Place) -> None:
    job = place.put(phase="Running", array={"progress": "1/2", "activeSince": "2026-01-05T08:00:00Z"})
    written = await place.write(job, array=ArrayStatus(progress="2/2"))
    assert written.status.array == ArrayStatus(progress="2/2")
    assert place.job().status.array == ArrayStatus(progress="2/2")


def test_of_tasks_only_what_is_known_to_go_may_be_left_out() -> None:
    """Whatever else may be None has to be named by the writer as well."""
    empty = {name for name, found in ArrayStatus.model_fields.items() if found.default is None}
    assert empty == {"active_since", "interruptions"}


async def test_what_somebody_else_wrote_into_our_fields_goes_too(place: Place) -> None:
    job = place.put(phase="Completed", finishedTimestamp="2026-01-05T08:00:00Z")
    await place.write(job, phase=Phase.RUNNING, finished_timestamp=None)
    assert place.job().status.finished_timestamp is None


async def test_what_an_older_prioritizer_wrote_meanwhile_is_not_lost(place: Place) -> None:
    job = place.put(phase="Running")
    place.api.edit(SCAVENGERJOBS, NS, "a", lambda o: o["status"].update(preemption=PREEMPTION))
    with pytest.raises(Conflict):
        await place.write(job, message="decided on an older version")
    again = await place.write(place.job(), message="decided anew")
    assert again.status.preemption is not None
    assert again.status.preemption.running_priority == 7


async def test_a_figure_that_is_not_known_any_more_goes(place: Place) -> None:
    job = place.put(phase="Running", preemption=PREEMPTION)
    await place.write(job, preemption=Preemption(class_="preemptible"))
    assert place.job().status.preemption == Preemption(class_="preemptible")


async def test_the_class_of_a_run_that_is_over_goes(place: Place) -> None:
    job = place.put(phase="Running", preemption=PREEMPTION)
    await place.write(job, phase=Phase.INTERRUPTED, preemption=None)
    assert place.job().status.preemption is None


async def test_a_later_job_of_the_same_name_is_not_written_to(place: Place) -> None:
    job = place.put(phase="Running")
    place.api.remove(SCAVENGERJOBS, NS, "a")
    with pytest.raises(NotFound):
        await place.write(job, message="gone")
    place.put()
    with pytest.raises(Conflict):
        await place.write(job, message="another")
    assert place.job().status.message is None


async def test_nothing_irreversible_is_written_that_is_not_confirmed(place: Place) -> None:
    job = place.put(phase="Running")
    before = place.api.store.version
    with pytest.raises(AttributeError):
        await place.writer.write_status(job, Outcome(job.status, changed=True))  # type: ignore[arg-type]
    with pytest.raises(AttributeError):
        await place.writer.create(job, CreateJob("the run", 0))  # type: ignore[arg-type]
    await place.writer.carry_out(job.key, (DeleteJob("uid", "not confirmed"),))  # type: ignore[arg-type]
    assert place.api.store.version == before
