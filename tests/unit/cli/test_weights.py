"""What a job has at risk, by the weights that the services go by."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from scavenger_api.times import format_time
from scavenger_testing.builders import configmap_dict, scavengerjob_dict

from .conftest import Answer, Run, Server, status

JOB = "/apis/scavenger.dev/v1alpha1/namespaces/lab/scavengerjobs/a"
SETTINGS = "/api/v1/namespaces/scavenger-system/configmaps/scavenger-settings"


@pytest.mark.parametrize(
    ("settings", "hours"),
    [
        pytest.param(Answer(body=configmap_dict(data={"resourceWeights": "nvidia.com/gpu=100"})), 100, id="as it says"),
        pytest.param(Answer(404, status(404, "NotFound")), 16, id="no such ConfigMap"),
        pytest.param(Answer(403, status(403, "Forbidden")), 16, id="it may not be read"),
        pytest.param(Answer(body=configmap_dict(data={"resourceWeights": "much"})), 16, id="nonsense"),
        pytest.param(Answer(body=configmap_dict()), 16, id="nothing of it"),
    ],
)
def test_the_weights_of_the_services_are_those_of_the_command_line(
    server: Server, sj: Run, settings: Answer, hours: int
) -> None:
    amounts = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}
    started = format_time(datetime.now(UTC) - timedelta(hours=1))
    job = scavengerjob_dict(
        "a",
        namespace="lab",
        phase="Running",
        interruption_after="2h",
        status={"runningTimestamps": [started]},
        resources={"requests": amounts, "limits": amounts},
    )
    server.on(JOB, Answer(body=job))
    server.on(SETTINGS, settings)
    code, out, _ = sj("get", "a")
    assert (code, f"lost, {hours}." in out) == (0, True), out
