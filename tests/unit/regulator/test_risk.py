"""CPU time at risk of a gang, as the regulator computes it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from scavenger_regulator.core.eviction.risk import RiskRules, at_risk

from .builders import NOW, ago, gang, pod


@pytest.mark.parametrize(
    ("started", "facts", "seconds"),
    [
        (100, {}, 160),  # the start-up cost until the first checkpoint
        (1799, {}, 1859),
        (1800, {}, 0),  # a checkpoint is due: cheap again
        (1900, {}, 100),
        (4000, {}, 400),  # never more than an interval, whatever is hidden
        (1000, {"checkpoint": ago(30)}, 30),
        (1000, {"start_over": ago(200), "checkpoint": ago(30)}, 30),
        (1000, {"checkpoint": ago(-30)}, 1060),  # from the future
        (1000, {"checkpoint": ago(2000)}, 1060),  # of the last run
        (1000, {"pod_checkpoint": ago(50)}, 50),
        (-500, {}, 60),  # started in the future: another machine's clock
    ],
)
def test_cpu_time_at_risk(started: float, facts: dict[str, Any], seconds: float) -> None:
    job = gang("job", started, pods=2, pod_requests={"cpu": 1.5}, **facts)
    assert at_risk(job, NOW, RiskRules(60)).cpu_seconds == seconds * 3


def test_members_that_have_finished_run_again() -> None:
    """They are interrupted with the gang; and what they reported is part of its checkpoint."""
    done = pod("done", requests={"cpu": 1.5}, checkpoint=ago(40), index=1)
    job = gang("job", 1000, pod_requests={"cpu": 1.5}, pod_checkpoint=ago(30), pod_index=0, parallelism=2)
    assert at_risk(replace(job, finished=(done,)), NOW, RiskRules(60)).cpu_seconds == 40 * 3
    unreported = replace(done, checkpoint=None)
    found = at_risk(replace(job, finished=(unreported,)), NOW, RiskRules(60))
    assert found.cpu_seconds == 30 * 3, "the first member's counts"
    reclaimed = replace(job, pods=(replace(job.pods[0], reclaimed=True),), finished=(replace(done, reclaimed=True),))
    assert at_risk(reclaimed, NOW, RiskRules(60)).cpu_seconds == 40 * 1.5


def test_without_a_recorded_start_the_youngest_pod_says_it() -> None:
    job = replace(gang("job", pods=2), started=None)
    assert at_risk(job, NOW, RiskRules(0)).cpu_seconds == 1200
    assert at_risk(replace(job, pods=(pod("new", running_since=None),)), NOW, RiskRules(0)).cpu_seconds == 0


@pytest.mark.parametrize(
    ("started", "reclaimed", "known", "seconds"),
    [
        (300, True, 12.0, 12 + 60 * 12 / 300),  # a restart costs what it is used to use, as for the prioritizer
        (300, True, None, 300 + 60),  # nobody watched: an estimate
        (300, False, 12.0, 300 + 60),  # a guarantee keeps others from using it, whatever it uses
        (2000, True, 12.0, 12),  # after the first start-over
        (2000, True, 0.0, 0),
    ],
)
def test_at_risk_of_reclaimed_capacity_is_what_was_used(
    started: float, reclaimed: bool, known: float | None, seconds: float
) -> None:
    asked = []

    def cpu_time(uid: str, since: datetime, until: datetime) -> float | None:
        asked.append((uid, since, until))
        return known

    found = at_risk(gang("job", started, pod_reclaimed=reclaimed), NOW, RiskRules(60), cpu_time)
    assert found.cpu_seconds == pytest.approx(seconds)
    assert asked == ([("pod-job-0", found.since, NOW)] if reclaimed else [])
