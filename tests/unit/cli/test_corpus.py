"""How many of sixty templates `convert` expresses without losing meaning; of the others it says why, by name.

Meaning is what the Job that the admitter creates has in common with the one before: its pods, retries and deadline. A
CronJob counts as the Job that it makes. cpu and memory that a template leaves out come from its namespace, or have to
be added, as `convert` says. The label of a namespace decides what PodSecurity lets in.
"""

from __future__ import annotations

from typing import Any

import pytest
from scavenger_admitter.core.manifest import job_manifest
from scavenger_api.job import ScavengerJob
from scavenger_api.rules.template import OVERRIDDEN
from scavenger_cli.convert import converted
from scavenger_cli.exits import CliError
from scavenger_cli.lint.check import check
from scavenger_domain.pod_security import Level

from .corpus import ARRAYS, KINDS, SHARES, SIZE, Object, has, kind_of, templates

CORPUS = templates()
TO_ADD = "is mandatory; add it to resources.requests of a container"


def job_of(given: Object) -> tuple[Object, int]:
    """The Job that an object stands for, and its pods."""
    spec = given["spec"]
    if given["kind"] == "CronJob":
        spec = spec["jobTemplate"]["spec"]
    elif given["kind"] == "JobSet":
        spec = spec["replicatedJobs"][0]["template"]["spec"]
    elif given["kind"] == "PyTorchJob":
        master = spec["pytorchReplicaSpecs"]["Master"]
        return {**spec["runPolicy"], "template": master["template"]}, 4
    return spec, spec.get("completions", 1)


def loses(given: Object) -> str:
    """What is lost of an object's meaning; empty where nothing is."""
    try:
        made, _ = converted(given)
    except CliError as error:
        return str(error)
    problems = [one for one in check(made, Level.BASELINE)[0] if TO_ADD not in one.message]
    if problems:
        return "; ".join(f"{one.field}: {one.message}" for one in problems)
    job, pods = job_of(given)
    spec = ScavengerJob.model_validate(made).spec
    size = spec.array.tasks if spec.array is not None else spec.parallelism
    if (spec.backoff_limit or 0, spec.active_deadline_seconds, size) != (
        job["backoffLimit"], job.get("activeDeadlineSeconds"), pods):  # fmt: skip
        return "retries, deadline or pods"
    return missing(job["template"], pod_template(made))


def pod_template(made: Object, *, burstable: bool = False) -> Object:
    """Of the Job that the admitter creates. burstable: as the admitter does by default."""
    job, level = ScavengerJob.model_validate(made), Level.BASELINE
    found: Object = job_manifest(job, restarts=0, run="r", max_grace_seconds=300, level=level, burstable=burstable)
    template: Object = found["spec"]["template"]
    return template


def missing(wanted: Object, found: Object) -> str:
    """Fields of a template that another one has not, or otherwise."""
    for kind in ("labels", "annotations"):
        if not wanted.get("metadata", {}).get(kind, {}).items() <= found["metadata"][kind].items():
            return f"metadata.{kind}"
    for field, value in wanted["spec"].items():
        there = found["spec"].get(field)
        if field in ("containers", "initContainers"):
            if not all(own.items() <= one.items() for own, one in zip(value, there, strict=True)):
                return f"spec.{field}"
        elif field not in OVERRIDDEN and there != value:
            return f"spec.{field}"
    return ""


def test_the_corpus_has_the_shares_that_were_counted() -> None:
    assert len(CORPUS) == SIZE
    found = {feature: round(100 * sum(has(one, feature) for one in range(SIZE)) / SIZE) for feature in SHARES}
    assert {feature: abs(found[feature] - share) <= 1 for feature, share in SHARES.items()} == dict.fromkeys(
        SHARES, True
    )
    assert {kind_of(number) for number in range(SIZE)} == {"Job", *KINDS}
    assert {kind_of(number) for number in ARRAYS} == {"Job"}


def test_19_of_20_are_expressed_without_losing_meaning() -> None:
    lost = {given["metadata"]["name"]: text for given in CORPUS if (text := loses(given))}
    assert len(lost) <= SIZE // 20, lost
    refused = {f"work-{number}" for number in KINDS["MPIJob"]}
    assert lost.keys() == refused, "and nothing else"


def test_sizes_that_differ_are_kept_as_they_are_written() -> None:
    """With the millicore that makes equal ones Burstable, too."""
    refused, seen = {*KINDS["MPIJob"]}, 0
    for number, given in enumerate(CORPUS):
        if number in refused:
            continue
        made, _ = converted(given)
        wanted = job_of(given)[0]["template"]["spec"]
        found = pod_template(made, burstable=True)["spec"]
        for kind in ("containers", "initContainers"):
            for own, one in zip(wanted.get(kind, ()), found.get(kind, ()), strict=True):
                sides = own.get("resources", {})
                if len(sides) == 2 and sides["requests"] != sides["limits"]:
                    assert one["resources"] == sides
                    seen += 1
    assert seen >= SIZE * SHARES["requests below limits"] // 100 // 2


@pytest.mark.parametrize("given", [CORPUS[number] for number in KINDS["MPIJob"]])
def test_the_others_are_told_by_name(given: dict[str, Any]) -> None:
    with pytest.raises(CliError, match=r"spec\.mpiReplicaSpecs") as refused:
        converted(given)
    assert refused.value.remedy
