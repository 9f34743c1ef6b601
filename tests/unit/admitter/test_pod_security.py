"""Jobs that ask for what their namespace does not allow."""

from __future__ import annotations

import pytest
from scavenger_admitter.core.lifecycle.actions import CreateJob
from scavenger_api.job import Phase
from scavenger_domain.pod_security import Level

from . import builders as b
from .test_lifecycle import states

ROOT = {"runAsUser": 0, "securityContext": {"allowPrivilegeEscalation": True}}


@pytest.mark.parametrize("phase", [None, Phase.WAITING, Phase.INTERRUPTED])
@pytest.mark.parametrize("granted", [False, True])
def test_a_job_that_asks_for_what_its_namespace_does_not_allow_waits_and_says_so(
    phase: Phase | None, granted: bool
) -> None:
    outcome = b.decide(b.seen(b.job(phase, spec=ROOT), 5, units=int(granted)))
    assert outcome.status.phase is (phase or Phase.WAITING)
    assert not outcome.candidate
    assert outcome.actions == ()
    assert outcome.quiet_until is None
    assert states(outcome.status)["Admitted"] == "False:PodSecurity"
    assert outcome.status.message is not None
    for part in ("spec.runAsUser: 0 is root", "spec.securityContext.allowPrivilegeEscalation: ", "the job again"):
        assert part in outcome.status.message


def test_it_is_in_line_as_soon_as_the_namespace_allows_it() -> None:
    job = b.job(spec=ROOT)
    held = b.decide(b.seen(job, 5))
    later = b.decide(b.seen(b.written(job, held.status), 50, level=Level.BASELINE))
    assert later.candidate
    assert states(later.status)["Admitted"] == "False:Queued"
    assert later.status.message == "queued for admission"
    assert later.status.queued_timestamp == held.status.queued_timestamp


def test_a_job_is_started_as_its_namespace_has_it_now() -> None:
    for level in Level:
        outcome = b.decide(b.seen(b.job(Phase.WAITING), 5, units=1, level=level))
        assert outcome.actions == (CreateJob(b.place(0), 0, level),)


def test_a_start_under_way_goes_on_whatever_its_namespace_allows_by_now() -> None:
    outcome = b.decide(b.seen(b.job(Phase.WAITING, spec=ROOT), 5, posted=1))
    assert states(outcome.status)["Admitted"] == "False:Queued"
