"""What the label of a namespace lets its scavenger jobs ask for, as it comes and goes."""

from __future__ import annotations

from typing import Any

from scavenger_kube.resources import JOBS, NAMESPACES

from .harness import NS, Harness, harness

CONTEXT = {"allowPrivilegeEscalation": True}


def label(c: Harness, level: str | None) -> None:
    labels = {} if level is None else {"scavenger.dev/pod-security": level}
    c.api.put(NAMESPACES, {"metadata": {"name": NS, "labels": labels}})


def admitted(c: Harness, name: str) -> str:
    return next((str(one["reason"]) for one in c.status(name).get("conditions", ()) if one["type"] == "Admitted"), "")


def security(c: Harness, name: str) -> Any:
    job = c.api.get(JOBS, NS, name)
    assert job is not None
    (main,) = job["spec"]["template"]["spec"]["containers"]
    return main.get("securityContext")


def token(c: Harness, name: str) -> Any:
    job = c.api.get(JOBS, NS, name)
    assert job is not None
    spec = job["spec"]["template"]["spec"]
    return spec["serviceAccountName"], spec["automountServiceAccountToken"]


def user_of(c: Harness, name: str) -> Any:
    job = c.api.get(JOBS, NS, name)
    assert job is not None
    return job["spec"]["template"]["spec"]["securityContext"]["runAsUser"]


async def test_a_job_waits_until_the_administrator_allows_what_it_asks_for() -> None:
    async with harness() as c:
        label(c, None)
        c.submit("root", securityContext=CONTEXT)
        c.submit("plain")
        await c.until(lambda: c.phase("plain") == "Running")
        await c.until(lambda: admitted(c, "root") == "PodSecurity")
        assert security(c, "plain")["runAsNonRoot"] is True
        assert "spec.securityContext.allowPrivilegeEscalation" in c.status("root")["message"]
        label(c, "baseline")
        await c.until(lambda: c.phase("root") == "Running")
        assert security(c, "root") == CONTEXT


async def test_a_running_job_runs_on_when_its_namespace_allows_less_and_is_not_started_again() -> None:
    async with harness() as c:
        label(c, "baseline")
        c.submit("root", securityContext=CONTEXT)
        await c.until(lambda: c.phase("root") == "Running")
        label(c, "restricted")
        await c.pass_time(10)
        assert c.phase("root") == "Running"
        c.delete_pod(c.pods("root")[0])
        await c.until(lambda: admitted(c, "root") == "PodSecurity")
        assert c.phase("root") == "Interrupted"
        assert c.jobs_ever("root") == 1


async def test_pods_get_the_token_of_an_account_that_the_namespace_names() -> None:
    note = {"scavenger.dev/service-accounts": "trainer"}
    async with harness() as c:
        c.api.put(NAMESPACES, {"metadata": {"name": NS, "annotations": note}})
        c.submit("trains", serviceAccountName="trainer")
        c.submit("other", serviceAccountName="other")
        await c.until(lambda: {c.phase("trains"), c.phase("other")} == {"Running"})
        assert [token(c, name) for name in ("trains", "other")] == [("trainer", True), ("other", False)]


async def test_pods_run_as_the_user_that_the_administrator_gives_their_namespace() -> None:
    async with harness() as c:
        c.api.put(NAMESPACES, {"metadata": {"name": NS, "annotations": {"scavenger.dev/run-as-user": "1000/50"}}})
        c.submit("plain")
        c.submit("own", runAsUser=7)
        await c.until(lambda: c.phase("plain") == c.phase("own") == "Running")
        assert (user_of(c, "plain"), user_of(c, "own")) == (1000, 7)
