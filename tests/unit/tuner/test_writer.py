"""What is written to the API may be written again, and leaves what is there as it is."""

from __future__ import annotations

import pytest
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import Unavailable
from scavenger_testing import FakeApi
from scavenger_tuner.core.trial import Configuration, Shape, Trial
from scavenger_tuner.facts import PERSISTENT_VOLUME_CLAIMS, SCAVENGER_JOBS
from scavenger_tuner.settings import TunerSettings
from scavenger_tuner.writer import Writer

TRIAL = Trial(Configuration("spce", 500, 300.0, 7, 1000, 2.0), Shape(1, 1), 256)


@pytest.fixture
def writer(client: ApiClient) -> Writer:
    return Writer(client, TunerSettings(namespace="science").site())


async def test_a_claim_is_made_once(api: FakeApi, writer: Writer) -> None:
    await writer.ensure_claim("1Gi", "ReadWriteOnce", None)
    await writer.ensure_claim("9Gi", "ReadWriteMany", "fast")

    (claim,) = api.list(PERSISTENT_VOLUME_CLAIMS)
    assert claim["spec"]["resources"]["requests"]["storage"] == "1Gi"
    assert api.count("POST") == 1  # where a quota allows one claim, a second create is refused for that


async def test_a_claim_that_somebody_else_is_just_making(api: FakeApi, writer: Writer) -> None:
    api.drop(methods={"POST"}, after_write=True)
    with pytest.raises(Unavailable):
        await writer.ensure_claim("1Gi", "ReadWriteOnce", None)
    api.fail(404, methods={"GET"})
    await writer.ensure_claim("1Gi", "ReadWriteOnce", None)

    assert len(api.list(PERSISTENT_VOLUME_CLAIMS)) == 1


async def test_a_job_is_created_once(api: FakeApi, writer: Writer) -> None:
    assert await writer.create("tuner-1-abc-1", 1, TRIAL)
    before = api.get(SCAVENGER_JOBS, "science", "tuner-1-abc-1")
    assert not await writer.create("tuner-1-abc-1", 1, TRIAL)

    assert api.get(SCAVENGER_JOBS, "science", "tuner-1-abc-1") == before


async def test_a_job_is_deleted_and_one_that_is_gone_is_as_good(api: FakeApi, writer: Writer) -> None:
    await writer.create("tuner-1-abc-1", 1, TRIAL)
    await writer.delete("tuner-1-abc-1")
    await writer.delete("tuner-1-abc-1")

    assert api.list(SCAVENGER_JOBS) == []
