"""How often a job is looked at, and planned, until it runs: counted exactly, in virtual time."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from scavenger_admitter.core.lifecycle import confirmed
from scavenger_admitter.core.lifecycle.observation import Observation, Outcome
from scavenger_admitter.job_record import JobRecord
from scavenger_admitter.reconciler import Reconciler
from scavenger_admitter.writer import SCAVENGERJOBS
from scavenger_api.job import ScavengerJob, ScavengerJobStatus
from scavenger_testing import scavengerjob_dict

from . import builders as b
from .harness import NS, Harness, empty_harness, runs

JOBS = 8


class Looks:
    """Counts, by job; copies of statuses of all jobs together."""

    def __init__(self) -> None:
        self.copies = 0
        self.begun: Counter[str] = Counter()
        self.plans: Counter[str] = Counter()

    @property
    def most(self) -> tuple[int, int]:
        """The most looks, and the most plans, of any job."""
        return max(self.begun.values()), max(self.plans.values())


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    counted, look, plan = Looks(), Reconciler.reconcile, confirmed._plan
    copy = ScavengerJobStatus.model_copy

    def copied(self: ScavengerJobStatus, **options: Any) -> ScavengerJobStatus:
        counted.copies += 1
        return copy(self, **options)

    async def reconcile(self: Reconciler, key: str) -> object:
        counted.begun[key] += 1
        return await look(self, key)

    def planned(observed: Observation) -> Outcome:
        counted.plans[observed.seen.job.key] += 1
        return plan(observed)

    monkeypatch.setattr(ScavengerJobStatus, "model_copy", copied)
    monkeypatch.setattr(Reconciler, "reconcile", reconcile)
    monkeypatch.setattr(confirmed, "_plan", planned)
    return counted


async def start(c: Harness, jobs: int) -> None:
    for n in range(jobs):
        c.submit(f"j{n}")
    for n in range(jobs):
        await runs(c, f"j{n}", limit=300)


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, JOBS])
async def test_a_start_is_three_looks_and_three_plans(looks: Looks, jobs: int) -> None:
    """It is queued, it is created, it runs."""
    async with empty_harness() as c:
        c.node()
        admitter = c.admitter(explain_after=5.0)
        await c.until(lambda: admitter.admitting)
        await start(c, jobs)
        await c.pass_time(3)
        assert looks.most == (3, 3)
        assert looks.copies <= 14 * jobs, "of statuses: 31 before changes were put together"
        assert len(c.writes()) == 3 * jobs


@pytest.mark.slow
async def test_what_waits_for_its_turn_is_not_planned_before(looks: Looks) -> None:
    async with empty_harness() as c:
        c.node()
        admitter = c.admitter(explain_after=60.0, write_rate=2.0, pressed_write_rate=2.0)
        await c.until(lambda: admitter.admitting)
        await start(c, JOBS)
        assert looks.most[1] == 3
        assert len(c.writes()) == 3 * JOBS


@pytest.mark.slow
async def test_a_job_that_waits_for_its_turn_is_suspended_at_once(looks: Looks) -> None:
    async with empty_harness() as c:
        c.node()
        admitter = c.admitter(explain_after=60.0, write_rate=0.1, pressed_write_rate=0.1)
        await c.until(lambda: admitter.admitting)
        for n in range(JOBS):
            c.submit(f"j{n}")
        await c.pass_time(5)
        late = f"j{JOBS - 1}"
        assert c.jobs_ever(late) == 0
        c.api.edit(SCAVENGERJOBS, NS, late, lambda o: o["spec"].update(suspend=True))
        await c.until(lambda: c.phase(late) == "Suspended", limit=1200)
        assert c.jobs_ever(late) == 0


# --- what a watch shows of a write whose answer is yet to come ---


def version(number: int) -> ScavengerJob:
    found = ScavengerJob.model_validate(scavengerjob_dict("a", namespace=NS))
    return found.model_copy(update={"metadata": found.metadata.model_copy(update={"resource_version": str(number)})})


def test_the_watch_shows_a_write_before_its_answer() -> None:
    record = JobRecord()
    with record.writing():
        assert not record.shows(version(7))
    record.wrote(version(7), b.at(0))
    assert not record.overlooked
    assert record.shows(version(8))


def test_what_others_write_meanwhile_is_seen_when_the_write_is_answered() -> None:
    record = JobRecord()
    with record.writing():
        assert not record.shows(version(6))
        assert not record.shows(version(7))
        assert not record.shows(version(8))
    record.wrote(version(7), b.at(0))
    assert record.overlooked, "8 is by somebody else, and later"
    assert not record.overlooked, "it is told once"
    failed = JobRecord()
    with failed.writing():
        failed.shows(version(7))
    assert failed.overlooked, "whether 7 is the write nobody knows"
    assert failed.shows(None), "it is gone"
