"""What services keep of ScavengerJobs of which they read little."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import msgspec
import pytest
from scavenger_api import names
from scavenger_board import facts as board
from scavenger_domain.unit import unit_of
from scavenger_kube.scavenger_kinds import ScavengerJob
from scavenger_prioritizer import facts as prioritizer
from scavenger_regulator import facts as regulator
from scavenger_runtime.kept_jobs import requests_alone
from scavenger_testing.builders import scavengerjob_dict

REQUESTS = {"requests": {"cpu": "1500m", "memory": "1Gi", "nvidia.com/gpu": "2"}}
STATUS = {"runningTimestamps": ["2026-01-01T00:00:00Z"], "lastCheckpointTimestamp": "2026-01-01T00:05:00Z"}


def templated(containers: list[dict[str, Any]], **pod: Any) -> dict[str, Any]:
    """A job with a pod template."""
    made = scavengerjob_dict(phase="Running", status=STATUS, template={"spec": {"containers": containers, **pod}})
    made["spec"].update(image=None, resources={})
    made["metadata"].update(annotations={names.ANNOTATION_LAST_CHECKPOINT: "2026-01-01T00:07:00Z", "note": "x"})
    return made


@pytest.mark.parametrize(
    "made",
    [
        scavengerjob_dict(cpu="250m", phase="Waiting"),
        scavengerjob_dict(status={**STATUS, "preemption": {"class": "NonPreemptible"}}, suspend=True),
        templated([{"name": "a", "resources": REQUESTS}, {"name": "b", "resources": {"limits": {"cpu": "1"}}}]),
        templated([{"name": "a"}], initContainers=[{"name": "i", "resources": REQUESTS}], overhead={"cpu": "7m"}),
        templated([{"name": "a", "resources": {"requests": {"cpu": "much"}}}]),
    ],
)
def test_all_that_is_read_of_a_job_is_kept(made: dict[str, Any]) -> None:
    job, shown = msgspec.convert(made, ScavengerJob), msgspec.convert(made, board.Job)
    kept = requests_alone(job)
    assert prioritizer.job_facts(kept) == prioritizer.job_facts(job)
    assert unit_of(kept) == unit_of(job)
    assert regulator.gang_facts(kept, unit_of(kept), ()) == regulator.gang_facts(job, unit_of(job), ())
    assert board.job_facts(requests_alone(shown)) == board.job_facts(shown)


def test_a_job_takes_little_however_large_its_template_and_its_metadata_are() -> None:
    made = templated(
        [{"name": f"c{number}", "resources": {"limits": {"cpu": "1"}}} for number in range(2_000)],
        tolerations=[{"key": str(number)} for number in range(5_000)],
    )
    made["metadata"].update(labels={f"label-{n}": "" for n in range(5_000)}, annotations={"note": "x" * 200_000})
    body = msgspec.json.encode(made)
    decoder = msgspec.json.Decoder(ScavengerJob)
    tracemalloc.start()
    try:
        kept = [requests_alone(decoder.decode(body))]  # fills the decoder's cache of short keys, which others may empty
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        kept.append(requests_alone(decoder.decode(body)))
        gc.collect()
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert kept[1].spec.requests["cpu"] == 2_000_000
    assert used < 50_000, "beside what is kept once for all"
