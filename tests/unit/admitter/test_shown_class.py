"""`status.preemption`: class and running priority of a run, by the marks of its pods, at no write of its own where that
can be (docs/designs/0024-what-was-asked-for.md, row 7)."""

from __future__ import annotations

from typing import Any

import pytest
from scavenger_admitter.core.lifecycle.running import SHOWN_EVERY
from scavenger_admitter.writer import SCAVENGERJOBS
from scavenger_api import names
from scavenger_api.job import Phase, Preemption
from scavenger_api.names import NON_PREEMPTIBLE, PREEMPTIBLE
from scavenger_kube.resources import PODDISRUPTIONBUDGETS, PODS

from . import builders as b
from .harness import NS, Harness, empty_harness, runs
from .test_writes import both, spoken

RUNNING = Phase.RUNNING
CORES = {"cpu": "2"}
LEAST = SHOWN_EVERY.total_seconds()


def shown(class_: str, figure: float | None) -> Preemption:
    return Preemption.model_validate({"class": class_, "runningPriority": figure})


def test_the_write_that_says_running_says_the_class() -> None:
    waiting = b.job(Phase.STARTING, job_name="job")
    outcome = b.decide(b.seen(waiting, 20, b.batch(), b.pod(started=10, class_=PREEMPTIBLE, requests=CORES)))
    assert outcome.status.phase is RUNNING
    assert outcome.status.preemption == shown(PREEMPTIBLE, 2 * (10 + 60)), "two cores, ten seconds and a restart"


def test_a_status_that_is_written_anyway_says_what_the_pods_say() -> None:
    job = b.job(RUNNING, running=[10], preemption=shown(PREEMPTIBLE, 140))
    pod = b.pod(class_=NON_PREEMPTIBLE, checkpoint=b.stamp(90), requests=CORES)
    outcome = b.decide(b.seen(job, 100, b.batch(), pod, last_write=b.at(20)))
    assert outcome.status.last_checkpoint_timestamp == b.at(90)
    assert outcome.status.preemption == shown(NON_PREEMPTIBLE, 2 * 10)


@pytest.mark.parametrize(("seconds", "written"), [(0, False), (LEAST - 1, False), (LEAST, True)])
def test_another_class_alone_is_written_two_minutes_after_the_last_status(seconds: float, written: bool) -> None:
    job = b.job(RUNNING, running=[10], preemption=shown(PREEMPTIBLE, 140), job_name="job")
    job = b.written(job, b.decide(b.seen(job, 20, b.batch(), b.pod(class_=PREEMPTIBLE))).status)
    seen = b.seen(job, 20 + seconds, b.batch(), b.pod(class_=NON_PREEMPTIBLE, requests=CORES), last_write=b.at(20))
    outcome = b.decide(seen)
    assert outcome.changed is written
    if written:
        assert outcome.status.preemption == shown(NON_PREEMPTIBLE, 2 * (LEAST + 10 + 60))
    else:
        assert outcome.requeue_after is not None
        assert outcome.requeue_after <= LEAST - seconds
    same = b.seen(job, 20 + seconds, b.batch(), b.pod(class_=PREEMPTIBLE, requests=CORES), last_write=b.at(20))
    assert not b.decide(same).changed, "the figure alone is worth no write: it is computed where it is shown"


def test_a_job_of_which_nothing_is_said_is_preemptible() -> None:
    job = b.job(RUNNING, running=[10], job_name="job")
    job = b.written(job, b.decide(b.seen(job, 20, b.batch(), b.pod())).status)
    job = job.model_copy(update={"status": job.status.model_copy(update={"preemption": None})})
    assert not b.decide(b.seen(job, 500, b.batch(), b.pod(class_=PREEMPTIBLE))).changed
    assert b.decide(b.seen(job, 500, b.batch(), b.pod(class_=NON_PREEMPTIBLE))).changed


def test_a_gang_whose_pods_do_not_agree_keeps_the_class_that_is_shown() -> None:
    for known in (PREEMPTIBLE, NON_PREEMPTIBLE):
        job = b.job(RUNNING, running=[10], spec=b.gang(2), preemption=shown(known, 1), job_name="job")
        pods = [b.pod(0, class_=PREEMPTIBLE), b.pod(1, class_=NON_PREEMPTIBLE)]
        status = b.decide(b.seen(job, 100, b.batch(), *pods)).status
        assert status.preemption is not None
        assert status.preemption.class_ == known


RECLAIMED: dict[str, Any] = {
    "capacity": "Reclaimed",
    "resources": {"limits": {"cpu": "2", "memory": "1Gi"}},
}


@pytest.mark.parametrize(
    ("before", "figure", "written"),
    [(None, None, False), (None, 500, True), (500, 900, False), (500, 1100, True), (500, None, False)],
)
def test_on_reclaimed_capacity_the_figure_of_the_prioritizer_is_shown_when_it_has_doubled(
    before: int | None, figure: int | None, written: bool
) -> None:
    """It alone knows the real use, and nobody can compute the figure."""
    job = b.job(RUNNING, running=[10], spec=RECLAIMED, job_name="job")
    job = b.written(job, b.decide(b.seen(job, 20, b.batch(), b.pod(class_=PREEMPTIBLE, figure=before))).status)
    assert job.status.preemption == shown(PREEMPTIBLE, before)
    outcome = b.decide(b.seen(job, 200, b.batch(), b.pod(class_=PREEMPTIBLE, figure=figure), last_write=b.at(20)))
    assert outcome.changed is written
    if written:
        assert outcome.status.preemption == shown(PREEMPTIBLE, figure)


# --- both services ---


def class_of(c: Harness, name: str) -> str:
    return str(c.status(name)["preemption"]["class"])


def mark(c: Harness, name: str, class_: str) -> None:
    """As a prioritizer does."""
    pod = c.pods(name)[0]["metadata"]["name"]
    c.api.edit(PODS, NS, pod, lambda o: o["metadata"]["labels"].update({names.LABEL_PREEMPTION_CLASS: class_}))


@pytest.mark.slow
async def test_every_running_job_shows_its_class_and_what_it_has_at_risk() -> None:
    """Row 7 of 0024."""
    async with both() as c:
        for name in "abc":
            c.submit(name)
        for name in "abc":
            await runs(c, name)
        assert {class_of(c, name) for name in "abc"} == {PREEMPTIBLE}, "as soon as they run"
        assert all(c.status(name)["preemption"]["runningPriority"] >= 60 for name in "abc")
        await c.pass_time(120 + 12, step=4)  # they have something to lose, and a third stays preemptible
        label = names.LABEL_PREEMPTION_CLASS
        marks = {name: c.pods(name)[0]["metadata"]["labels"][label] for name in "abc"}
        assert sorted(marks.values()) == [NON_PREEMPTIBLE, NON_PREEMPTIBLE, PREEMPTIBLE]
        await c.pass_time(LEAST, step=4)
        assert {name: class_of(c, name) for name in "abc"} == marks


@pytest.mark.slow
async def test_a_job_of_a_minute_costs_no_write_of_its_class() -> None:
    async with both() as c:
        for name in "abc":
            c.submit(name)
        for name in "abc":
            await runs(c, name)
        await c.pass_time(60, step=4)
        for name in "abc":
            c.succeed(name)
        await c.until(lambda: set(c.phases().values()) == {"Completed"})
        await c.pass_time(30)
        assert len(spoken(c)) == 3 * 6
        assert c.api.list(PODDISRUPTIONBUDGETS) == []


@pytest.mark.slow
async def test_an_older_prioritizer_that_writes_the_status_as_well_does_no_harm() -> None:
    """It wrote the label first, then the class with its own figure. Neither corrects the other."""
    async with empty_harness() as c:
        c.node()
        c.admitter()
        c.submit("a")
        await runs(c, "a")
        before = len(c.writes())
        mark(c, "a", NON_PREEMPTIBLE)
        theirs = {"class": NON_PREEMPTIBLE, "runningPriority": 77}
        c.api.edit(SCAVENGERJOBS, NS, "a", lambda o: o["status"].update(preemption=theirs))
        await c.pass_time(3 * LEAST, step=4)
        assert c.writes()[before:] == []
        assert c.status("a")["preemption"] == theirs
        c.succeed("a")
        await c.until(lambda: c.phase("a") == "Completed")


@pytest.mark.slow
async def test_what_runs_counts_as_its_pods_say_before_its_status_does() -> None:
    """What may be taken back for another queue goes by the marks, not by the copy that is shown."""
    async with empty_harness() as c:
        c.node()
        instance = c.admitter()
        c.submit("a")
        await runs(c, "a")
        mark(c, "a", NON_PREEMPTIBLE)
        running = instance.admitter._state.running

        def preemptible() -> list[bool]:
            return [gang.job.preemptible for gang in running.gangs()]

        await c.until(lambda: preemptible() == [False])
        assert class_of(c, "a") == PREEMPTIBLE, "two minutes later at the latest"
        took = await c.until(lambda: class_of(c, "a") == NON_PREEMPTIBLE, limit=LEAST + 10)
        assert took >= LEAST - 10
