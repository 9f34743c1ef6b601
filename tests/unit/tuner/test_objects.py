"""The objects of an attempt are ones that the API takes, and their names follow from the database."""

from __future__ import annotations

from dataclasses import replace

import pytest
from scavenger_api.job import ScavengerJob
from scavenger_api.names import MAX_NAME_LENGTH
from scavenger_checkpoint import EXIT_SAVED
from scavenger_domain.pod_security import Level, breaches
from scavenger_tuner.core.objects import MAX_INSTANCE_LENGTH, job_name, scavenger_job, selector, volume_claim
from scavenger_tuner.core.trial import Configuration, Shape, Trial, expected_memory
from scavenger_tuner.settings import TunerSettings

SITE = TunerSettings(namespace="science").site()
TRIAL = Trial(Configuration("spce", 500, 300.0, 7, 1000, 2.0), Shape(2, 3), 384)


def test_a_job_as_the_contract_reads_it() -> None:
    body = scavenger_job(SITE, "tuner-5-abcdef01-2", 5, TRIAL)
    job = ScavengerJob.model_validate(body)

    assert job.key == "science/tuner-5-abcdef01-2"
    assert job.spec.requests == {"cpu": 6000, "memory": 384 * 2**20}
    assert job.spec.args == ("--ranks=2", "--threads=3")
    assert job.spec.persistent_volume_claims is not None
    (mount,) = job.spec.persistent_volume_claims
    assert (mount.name, mount.mount_path, mount.sub_path) == ("tuner", "/data", "tuner-5-abcdef01-2")
    assert job.spec.checkpoint_exit_code == EXIT_SAVED, "what the wrapper of its programs ends with"
    assert not list(breaches(job.spec, Level.RESTRICTED))
    selected = dict(part.split("=") for part in selector(SITE).split(","))
    assert selected.items() <= body["metadata"]["labels"].items()
    assert not any("scavenger.dev" in label for label in body["metadata"]["labels"])


def test_the_same_attempt_has_the_same_job() -> None:
    assert scavenger_job(SITE, "a", 5, TRIAL) == scavenger_job(SITE, "a", 5, replace(TRIAL))


def test_names() -> None:
    key = "abcdef0123456789abcdef0123456789"

    assert job_name("tuner", 5, key, 2) == "tuner-5-abcdef01-2"
    assert len(job_name("i" * MAX_INSTANCE_LENGTH, 10**17, key, 100)) <= MAX_NAME_LENGTH


@pytest.mark.parametrize(("storage_class", "expected"), [(None, {}), ("fast", {"storageClassName": "fast"})])
def test_a_claim(storage_class: str | None, expected: dict[str, str]) -> None:
    claim = volume_claim(SITE, "1Gi", "ReadWriteMany", storage_class)

    assert claim["metadata"]["name"] == "tuner"
    assert claim["spec"] == {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "1Gi"}},
        **expected,
    }


def test_memory_grows_with_ranks_and_molecules() -> None:
    small = Configuration("spce", 500, 300.0, 1, 1, 2.0)

    assert expected_memory(small, Shape(1, 1)) == 256
    assert expected_memory(small, Shape(4, 1)) == 448
    assert expected_memory(replace(small, molecules=40_000), Shape(1, 1)) == 1280


def test_the_document_of_a_configuration() -> None:
    assert TRIAL.configuration.document(3600.0) == {
        "model": "spce",
        "molecules": 500,
        "temperature": 300.0,
        "seed": 7,
        "time_step_fs": 2.0,
        "steps": 1000,
        "output_interval": 20,
        "wall_seconds": 3600.0,
    }


@pytest.mark.parametrize(("steps", "time_step", "interval"), [(250_000, 2.0, 500), (10**6, 0.5, 2000), (49, 2.0, 1)])
def test_frames_are_a_picosecond_apart_where_there_are_enough(steps: int, time_step: float, interval: int) -> None:
    assert Configuration("spce", 500, 300.0, 1, steps, time_step).output_interval == interval
