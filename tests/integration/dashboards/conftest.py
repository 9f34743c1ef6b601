"""All services on a control plane with fake nodes, and a real Prometheus that sees what happens there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from scavenger_cluster import Cluster, stack
from scavenger_testing.cluster_names import cluster_name

from .prometheus import Prometheus, running
from .scenario import CPUS, NODES, Scenario
from .state_metrics import exporting

SETTINGS: Final = {
    "PYTEST_CURRENT_TEST": "",  # or every test would have another environment
    "SCAVENGER_LEASE_DURATION": "60",
    "SCAVENGER_RENEW_DEADLINE": "50",
    "SCAVENGER_RETRY_PERIOD": "1",
    "SCAVENGER_START_BACKOFF": "1",
    # The regulator decides every two seconds, by requests, as fake nodes measure nothing; all jobs are preemptible.
    "SCAVENGER_PERIOD": "2",
    "SCAVENGER_MAX_AGE": "60",
    "SCAVENGER_HISTORY_MIN_SAMPLES": "100000",
    "SCAVENGER_LEVEL_STEP": "0",
    "SCAVENGER_FLOOR": "100",
}


@dataclass(frozen=True)
class Played:
    """The scenario, which is over, and the Prometheus that has watched it."""

    scenario: Scenario
    prometheus: Prometheus


@pytest.fixture(scope="package")
def played(prometheus_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    """A cluster with all services, on which the scenario has been played."""
    cluster = Cluster(cluster_name("it-dashboards"), report=lambda line: None)
    try:
        cluster.up(f"fake:{NODES}", fake_cpu=str(CPUS), fake_memory="32Gi", fake_pods=50)
        stack.install(cluster)
        stack.start(cluster, stack.SERVICES, SETTINGS)
        folder = tmp_path_factory.mktemp("prometheus")
        with (
            exporting(cluster, folder) as exporter,
            running(prometheus_program, cluster, stack.SERVICES, exporter, folder) as prometheus,
        ):
            scenario = Scenario(cluster, prometheus)
            scenario.play()
            yield Played(scenario, prometheus)
    finally:
        cluster.down()
