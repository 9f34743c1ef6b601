"""The files of the demo applications beside their programs: manifests that the API takes, images of what is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from scavenger_cli.lint.check import check
from scavenger_cluster import stack
from scavenger_domain.pod_security import Level

DEMOS = stack.ROOT / "demo-apps"
MANIFESTS = [path for name in ("job", "gang", "array") for path in sorted(DEMOS.glob(f"*/{name}.yaml"))]


@pytest.mark.parametrize("file", MANIFESTS, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_manifests_are_taken_and_mount_what_is_there(file: Path) -> None:
    objects = list(yaml.safe_load_all(file.read_text()))
    claims = {one["metadata"]["name"] for one in objects if one["kind"] == "PersistentVolumeClaim"}
    jobs = [one for one in objects if one["kind"] == "ScavengerJob"]
    assert jobs
    for job in jobs:
        assert check(job, Level.RESTRICTED) == ([], [])
        assert {mount["name"] for mount in job["spec"]["persistentVolumeClaims"]} <= claims
        assert (job["spec"].get("parallelism", 1) > 1) == (file.stem == "gang")
        assert ("array" in job["spec"]) == (file.stem == "array")


@pytest.mark.parametrize("name", sorted(stack.PROGRAMS))
def test_images_are_built_from_what_their_containerfiles_copy(name: str) -> None:
    copied = re.findall(r"^COPY (\S+) ", (DEMOS / name / "Containerfile").read_text(), re.MULTILINE)
    assert tuple(copied) == stack.PROGRAMS[name]
    for part in copied:
        assert (stack.ROOT / part).is_file() or (stack.ROOT / part / "__init__.py").is_file()
