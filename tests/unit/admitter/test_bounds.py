"""The administrator's bounds hold for jobs that no webhook has seen."""

from __future__ import annotations

from typing import Any

import pytest

from .harness import Harness, empty_harness, harness, runs

TOLERATION = {"tolerations": [{"key": "control-plane", "operator": "Exists"}]}
LONG = {"interruptionAfter": "3h"}


def admitted(c: Harness, name: str) -> Any:
    return next((one["reason"] for one in c.status(name).get("conditions", ()) if one["type"] == "Admitted"), None)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (TOLERATION, "spec.tolerations[0].key: it tolerates taints 'control-plane'"),
        ({"tolerations": [{"operator": "Exists"}]}, "it tolerates every taint, as it names no key"),
        (LONG, "spec.interruptionAfter: 3h is more than the 1h that the administrator allows"),
        ({**TOLERATION, "array": {"tasks": 3}}, "spec.tolerations[0].key: it tolerates taints 'control-plane'"),
    ],
    ids=["a taint", "every taint", "a long interval", "an array"],
)
async def test_a_job_beyond_them_is_held_and_says_why(spec: dict[str, Any], said: str) -> None:
    async with harness(max_interruption_after=3600) as c:
        c.submit("beyond", **spec)
        c.submit("within")
        await runs(c, "within")
        await c.until(lambda: admitted(c, "beyond") == "BeyondMaxima")
        assert said in c.status("beyond")["message"]
        assert c.jobs_ever("beyond") == 0


async def test_a_message_names_few_of_many_tolerations() -> None:
    async with harness() as c:
        c.submit("beyond", tolerations=[{"key": f"{number}.example.com/taint"} for number in range(32)])
        await c.until(lambda: admitted(c, "beyond") == "BeyondMaxima")
        message = c.status("beyond")["message"]
        assert "and 29 more" in message
        assert len(message) < 1000


async def test_a_job_within_them_runs() -> None:
    async with harness(max_interruption_after=3 * 3600, allowed_tolerations=("control-plane",)) as c:
        c.submit("within", **TOLERATION, **LONG)
        await runs(c, "within")


async def test_a_running_job_runs_on_when_bounds_become_less_and_starts_no_more() -> None:
    async with empty_harness() as c:
        c.node()
        before = c.admitter(allowed_tolerations=("*",))
        c.submit("a", **TOLERATION)
        await runs(c, "a")
        await before.kill()
        c.admitter()
        await c.pass_time(10)
        assert c.phase("a") == "Running"
        c.delete_pod(c.pods("a")[0])
        await c.until(lambda: admitted(c, "a") == "BeyondMaxima")
        assert c.jobs_ever("a") == 1
