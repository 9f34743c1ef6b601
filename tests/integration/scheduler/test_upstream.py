"""Kubernetes' own tests of preemption have the same outcome with the plugin in the place of DefaultPreemption."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from tests.integration.scheduler import upstream

pytestmark = pytest.mark.long

DIFFERENCES: Final[dict[str, str]] = {}
"""What ends otherwise with the plugin, as `package/Test/case`, and why. docs/scheduler.md has the same list."""

PART: Final = "|".join(
    (
        "TestAsyncPreemption",
        "TestPreemptionRespects",
        "TestDeferredResizePodPreemption",
        "TestPodGroupPreemptionStatus",
        "TestPodGroupPreemption$/Binding",
        "TestCompositePodGroupPreemption/Binding",
    )
)
"""What is run every time: what the plugin does itself, and takes no more than a minute."""


def check(outcome: upstream.Outcome, at_least: int) -> None:
    assert outcome.in_place, f"the plugin was never made:\n{outcome.said}"
    unexpected = {name: said for name, said in outcome.failed.items() if name not in DIFFERENCES}
    assert not unexpected, "\n".join(f"{name}\n{said[-6000:]}" for name, said in unexpected.items())
    assert outcome.failed.keys() == DIFFERENCES.keys(), "differs from upstream no longer"
    assert len(outcome.passed) >= at_least, outcome.said


@pytest.mark.timeout(1800)  # the first time the tests have to be built
def test_a_part_of_kubernetes_own_tests(tmp_path: Path) -> None:
    """As if there were scavenger pods: the plugin decides all of it."""
    check(upstream.run(upstream.prepare(tmp_path, short_cut=False), PART, ("", "/podgroup")), at_least=28)


@pytest.mark.skipif("SCAVENGER_UPSTREAM" not in os.environ, reason="takes ten minutes each: make test-upstream")
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("short_cut", [True, False], ids=["without-scavenger-pods", "as-if-there-were-some"])
def test_all_of_kubernetes_own_tests(short_cut: bool, tmp_path: Path) -> None:
    check(upstream.run(upstream.prepare(tmp_path, short_cut=short_cut)), at_least=390)
