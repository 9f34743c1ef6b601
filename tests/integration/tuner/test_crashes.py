"""A tuner that is killed at any of its writes, before or after it has taken effect: the end is always the same.

The database is real; the API server is the small one in memory, which is new for every history.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from scavenger_kube.client import ApiClient
from scavenger_kube.resources import Resource
from scavenger_runtime.clock import SystemClock
from scavenger_testing import FakeApi
from scavenger_tuner.controller import Tuner
from scavenger_tuner.core.trial import Configuration, Shape, Trial
from scavenger_tuner.database.reading import everything
from scavenger_tuner.database.store import Claim, Store, add
from scavenger_tuner.facts import SCAVENGER_JOBS, Job
from scavenger_tuner.settings import TunerSettings
from scavenger_tuner.writer import Writer
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from .programs import HOPELESS_SEED, LARGE_SEED, outcome

pytestmark = pytest.mark.long

T = TypeVar("T")

SEEDS = (LARGE_SEED, HOPELESS_SEED)
FOR_EVER = 3600.0


class Killed(BaseException):
    """The process is gone."""


class Fuse:
    """Counts the moments at which a process can die around a write, and has it die at one of them. at: 0 for never."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.passed = 0

    def burn(self) -> None:
        self.passed += 1
        if self.passed == self.at:
            raise Killed

    async def around(self, write: Coroutine[Any, Any, T]) -> T:
        try:
            self.burn()
        except Killed:
            write.close()
            raise
        done = await write
        self.burn()
        return done


class FusedStore(Store):
    def __init__(self, engine: AsyncEngine, owner: str, fuse: Fuse) -> None:
        super().__init__(engine, owner, FOR_EVER)
        self._fuse = fuse
        self._claims = 0

    async def claim(self, most: int) -> list[Claim]:
        self._claims += 1
        claiming = super().claim(most)  # from the second time on there is nothing left to take
        return await (self._fuse.around(claiming) if self._claims == 1 else claiming)

    async def begin(self, *args: Any) -> None:
        await self._fuse.around(super().begin(*args))

    async def cancel(self, *args: Any) -> None:
        await self._fuse.around(super().cancel(*args))

    async def fail(self, *args: Any) -> None:
        await self._fuse.around(super().fail(*args))

    async def succeed(self, *args: Any) -> None:
        await self._fuse.around(super().succeed(*args))


class FusedClient(ApiClient):
    fuse: Fuse

    async def create(self, resource: Resource[Any], namespace: str | None, obj: Any, **options: Any) -> bytes:
        return await self.fuse.around(super().create(resource, namespace, obj, **options))

    async def delete(self, resource: Resource[Any], namespace: str | None, name: str, **options: Any) -> bool:
        return await self.fuse.around(super().delete(resource, namespace, name, **options))


class Jobs:
    """An informer that is never behind."""

    def __init__(self, api: FakeApi) -> None:
        self._api = api

    def get(self, key: str) -> Job | None:
        namespace, name = key.split("/")
        found = self._api.get(SCAVENGER_JOBS, namespace, name)
        return None if found is None else msgspec.convert(found, Job)

    def items(self) -> Sequence[Job]:
        return [msgspec.convert(found, Job) for found in self._api.list(SCAVENGER_JOBS)]


class History:
    """Tuners, one after the other, until all is at its end."""

    def __init__(self, api: FakeApi, engine: AsyncEngine, folder: Path, **settings: int) -> None:
        self._settings = settings
        self.created: dict[str, set[str]] = defaultdict(set)
        self._api = api
        self._engine = engine
        self._folder = folder
        self._lives = 0

    def tuner(self, fuse: Fuse) -> tuple[Tuner, ApiClient]:
        """One more."""
        self._lives += 1
        settings = TunerSettings.model_validate(
            {"folder": self._folder, "too_large_after": 0.0, "max_cores": 1, **self._settings}
        )
        client = FusedClient(self._api.url)
        client.fuse = fuse
        tuner = Tuner(client, settings, FusedStore(self._engine, f"tuner-{self._lives}", fuse), SystemClock())
        tuner.jobs = Jobs(self._api)  # type: ignore[assignment]
        return tuner, client

    async def live(self, fuse: Fuse) -> bool:
        """One tuner until all is done; False where it was killed."""
        tuner, client = self.tuner(fuse)
        try:
            for _ in range(30):
                await tuner.claim()
                if not tuner.held:
                    return True
                for claim in list(tuner.held.values()):
                    await tuner.step(claim)
                self._play()
            raise AssertionError("it does not come to an end")
        except Killed:
            async with self._engine.begin() as connection:
                await connection.execute(
                    text(
                        "UPDATE configurations SET claimed_until = now() - interval '1 s' WHERE claimed_by IS NOT NULL"
                    )
                )
            return False
        finally:
            await client.close()

    def _play(self) -> None:
        for job in self._api.list(SCAVENGER_JOBS):
            name = job["metadata"]["name"]
            self.created[name].add(job["metadata"]["uid"])
            if not job.get("status"):
                status = outcome(self._folder, name)
                self._api.edit(SCAVENGER_JOBS, "default", name, partial(_give, status=status))


def _give(job: dict[str, Any], status: dict[str, Any]) -> None:
    job["status"] = status


async def summary(url: str) -> Sequence[Any]:
    """What there is at the end, but for times and names."""
    return [
        (
            (row.seed, row.state, row.reason, row.claimed_by),
            [
                (one.number, one.state, one.reason, one.message, one.time_step, one.memory_mib, one.result)
                for one in attempts
            ],
        )
        for row, attempts in await everything(url)
    ]


async def test_killed_at_every_write(url: str, engine: AsyncEngine, tmp_path: Path) -> None:
    expected: Sequence[Any] = ()
    moments = at = 0
    while at <= moments:
        async with engine.begin() as connection:
            await connection.execute(text("TRUNCATE configurations, attempts RESTART IDENTITY"))
        await add(engine, "s", [Configuration("spce", 300, 300.0, seed, 1000, 2.0) for seed in SEEDS])
        async with FakeApi() as api:
            history = History(api, engine, tmp_path / str(at))
            fuse = Fuse(at)
            survived = await history.live(fuse)
            assert survived is (at == 0)
            assert survived or await history.live(Fuse(0))
            found = await summary(url)
            left = {job["metadata"]["name"] for job in api.list(SCAVENGER_JOBS)}
        if at == 0:
            moments, expected = fuse.passed, found
        assert found == expected, f"killed at moment {at} of {moments}"
        assert len(history.created) == sum(len(attempts) for _, attempts in expected)
        assert all(len(uids) == 1 for uids in history.created.values()), history.created
        (cancelled,) = history.created.keys() - left
        assert cancelled.startswith("tuner-1-")
        assert cancelled.endswith("-1")
        at += 1
    assert [(seed, state) for (seed, state, _, _), _ in expected] == [
        (LARGE_SEED, "Completed"),
        (HOPELESS_SEED, "Failed"),
    ]
    assert [[reason for _, _, reason, *_ in attempts] for _, attempts in expected] == [["TooLarge", ""], ["Invalid"]]
    # claim, begin (2), create (3), cancel, delete, fail (2), succeed
    assert moments == 2 * 11


async def test_a_job_that_is_refused_for_its_resources_is_tried_smaller(
    url: str, engine: AsyncEngine, tmp_path: Path
) -> None:
    """As the webhook refuses what is more than its queue may ever use."""
    await add(engine, "s", [Configuration("spce", 300, 300.0, 5, 1000, 2.0)])
    causes = [{"field": "spec.resources", "reason": "FieldValueForbidden", "message": "more than its quota"}]
    refusal = {"kind": "Status", "code": 422, "reason": "Invalid", "message": "more", "details": {"causes": causes}}
    async with FakeApi() as api:
        api.fail(422, methods={"POST"}, path="scavengerjobs", body=msgspec.json.encode(refusal))
        assert await History(api, engine, tmp_path).live(Fuse(0))

    ((_, attempts),) = await everything(url)
    assert [(one.state, one.reason, one.memory_mib) for one in attempts] == [
        ("Failed", "TooLarge", 256),
        ("Succeeded", "", 128),
    ]


async def test_what_was_seen_chooses_the_next_shape(url: str, engine: AsyncEngine, tmp_path: Path) -> None:
    """One at a time, so that each can learn of those before: both shapes are explored, then the better one is used."""
    await add(engine, "s", [Configuration("spce", 300, 300.0, seed, 1000, 2.0) for seed in range(5, 9)])
    async with FakeApi() as api:
        assert await History(api, engine, tmp_path, max_cores=2, concurrency=1).live(Fuse(0))

    shapes = [(one.ranks, one.threads) for _, attempts in await everything(url) for one in attempts]
    assert shapes == [(1, 1), (1, 2), (2, 1), (1, 1)]  # all yield the same in all: one core does most each


async def test_a_job_that_a_tuner_creates_too_late_is_deleted(url: str, engine: AsyncEngine, tmp_path: Path) -> None:
    """As one does that was frozen before the create, while others brought the attempt to its end.

    Jobs that go on as they should, that have ended, or that are another database's, stay.
    """
    await add(engine, "s", [Configuration("spce", 300, 300.0, LARGE_SEED, 1000, 2.0)])
    async with FakeApi() as api:
        history = History(api, engine, tmp_path)
        assert await history.live(Fuse(0))
        await add(engine, "s", [Configuration("spce", 300, 300.0, 5, 1000, 2.0)])
        tuner, client = history.tuner(Fuse(0))
        await tuner.claim()
        for _ in range(2):
            for claim in list(tuner.held.values()):
                await tuner.step(claim)
        stay = {job["metadata"]["name"] for job in api.list(SCAVENGER_JOBS)}
        (late,) = history.created.keys() - stay
        writer = Writer(client, TunerSettings().site())
        trial = Trial.of(Configuration("spce", 300, 300.0, LARGE_SEED, 1000, 2.0), Shape(1, 1))
        for name in (late, "tuner-1-00000000-1"):
            assert await writer.create(name, 1, trial)

        await tuner.sweep.run(tuner.jobs)
        assert len(api.list(SCAVENGER_JOBS)) == len(stay) + 2
        await tuner.sweep.run(tuner.jobs)
        left = {job["metadata"]["name"] for job in api.list(SCAVENGER_JOBS)}
        await client.close()

    assert len(stay) == 2
    assert left == {*stay, "tuner-1-00000000-1"}
