"""The pairs of docs/move-a-job.md: what comes out is the pod of the Job before, but for what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from scavenger_admitter.core.manifest import job_manifest
from scavenger_api.job import ScavengerJob
from scavenger_api.rules.template import OVERRIDDEN
from scavenger_cli.lint.check import check
from scavenger_domain.pod_security import Level

PAGE = (Path(__file__).parents[3] / "docs" / "move-a-job.md").read_text()
EXAMPLES = PAGE.partition("## Before and after")[2]
BLOCKS = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", EXAMPLES, re.DOTALL)]
PAIRS = list(zip(BLOCKS[::2], BLOCKS[1::2], strict=True))
NAMES = [after["metadata"]["name"] for _, after in PAIRS]


def test_there_are_five() -> None:
    assert len(PAIRS) == 5


@pytest.mark.parametrize("after", [after for _, after in PAIRS], ids=NAMES)
def test_what_comes_after_is_a_good_job_without_warnings(after: dict[str, Any]) -> None:
    assert check(after, Level.RESTRICTED) == ([], [])


@pytest.mark.parametrize(("before", "after"), [pair for pair in PAIRS if "template" in pair[1]["spec"]])
def test_the_pod_is_the_one_before(before: dict[str, Any], after: dict[str, Any]) -> None:
    made = job_manifest(ScavengerJob.model_validate(after), restarts=0, run="r", max_grace_seconds=300)
    wanted, pod = before["spec"]["template"], made["spec"]["template"]

    assert wanted.get("metadata", {}).get("labels", {}).items() <= pod["metadata"]["labels"].items()
    for field, value in wanted["spec"].items():
        if field in ("containers", "initContainers"):
            for container, one in zip(value, pod["spec"][field], strict=True):
                assert container.items() <= one.items()
        elif field not in OVERRIDDEN:
            assert pod["spec"][field] == value


@pytest.mark.parametrize("field", OVERRIDDEN)
def test_what_the_admitter_overrides_is_listed(field: str) -> None:
    assert f"`{field}`" in PAGE.partition("## Which container")[0]
