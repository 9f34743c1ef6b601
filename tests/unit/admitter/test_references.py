"""What the pods of a job need is looked for before it takes capacity."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import REGISTRY
from scavenger_admitter.lookups import KEPT, Lookups
from scavenger_admitter.writer import SCAVENGERJOBS
from scavenger_api.times import parse_time
from scavenger_kube.resources import CONFIGMAPS, JOBS, PERSISTENTVOLUMECLAIMS, PODS, SECRETS, Resource
from scavenger_runtime.write_budget import WriteBudget
from scavenger_testing import VirtualClock, scavengerjob_dict

from . import builders as b
from .harness import NS, Harness, empty_harness, harness, runs

pytestmark = pytest.mark.slow

CLAIM: dict[str, Any] = {"persistentVolumeClaims": [{"name": "data", "mountPath": "/data"}]}
CONFIG: dict[str, Any] = {"configMaps": [{"name": "how", "mountPath": "/how"}]}
ABSENT = 'persistentvolumeclaim "data" not found'
EVERYTHING = ("persistentvolumeclaims", "configmaps", "secrets")
ALWAYS = 10**6


def put(c: Harness, resource: Resource[Any], name: str) -> None:
    c.api.put(
        resource, {"apiVersion": "v1", "kind": resource.kind, "metadata": {"name": name, "namespace": NS}, "data": {}}
    )


async def test_a_job_without_its_claim_is_failed_without_a_job() -> None:
    async with harness() as c:
        c.submit("a", **CLAIM)
        await c.until(lambda: c.phase("a") == "Failed")
        assert c.status("a")["message"] == ABSENT
        assert c.jobs_ever("a") == 0
        put(c, PERSISTENTVOLUMECLAIMS, "data")
        c.submit("b", **CLAIM)
        await runs(c, "b")


SECRET: dict[str, Any] = {"secrets": [{"name": "how", "mountPath": "/how"}]}


@pytest.mark.parametrize("mounts", [CLAIM, CONFIG], ids=["claim", "configmap"])
async def test_a_job_that_refers_to_nothing_spends_no_pod_and_is_failed_once(mounts: dict[str, Any]) -> None:
    async with harness() as c:
        c.submit("a", **mounts)
        await c.pass_time(600, step=5)
        assert c.phase("a") == "Failed"
        assert c.status("a")["message"].endswith("not found")
        assert c.jobs_ever("a") == 0
        assert len(c.events("Failed")) == 1


async def test_what_is_created_moments_after_its_job_is_no_failure() -> None:
    """As `kubectl apply -f FOLDER` may do it."""
    async with harness() as c:
        c.submit("a", **CONFIG)
        await c.until(lambda: "not found" in c.status("a").get("message", ""))
        assert c.phase("a") == "Waiting"
        put(c, CONFIGMAPS, "how")
        await runs(c, "a")


async def test_absences_of_several_runs_are_not_added_up() -> None:
    """Who writes an object again deletes it for a moment."""
    async with harness() as c:
        c.submit("a", **CONFIG)
        for _ in range(3):
            await c.pass_time(20)
            assert c.phase("a") in ("Waiting", "Interrupted")
            put(c, CONFIGMAPS, "how")
            await runs(c, "a")
            c.api.remove(CONFIGMAPS, NS, "how")
            c.delete_pod(c.pods("a")[0])
            await c.until(lambda: c.phase("a") != "Running")


async def test_tasks_whose_configmap_is_deleted_later_spend_one_pod_and_those_that_run_go_on() -> None:
    async with harness() as c:
        put(c, CONFIGMAPS, "how")
        c.submit("a", array={"tasks": 3, "maxRunning": 2}, **CONFIG)
        await c.until(lambda: len([pod for pod in c.pods("a") if pod["status"].get("phase") == "Running"]) == 2)
        c.api.remove(CONFIGMAPS, NS, "how")
        c.kubelet = False
        ended, runs_on = c.pods("a")
        c.end(ended)
        absent = 'MountVolume.SetUp failed for volume "v" : configmap "how" not found'
        told = set()
        for _ in range(120):
            for pod in c.pods("a"):
                uid = pod["metadata"]["uid"]
                if pod["status"].get("phase") == "Pending" and uid not in told:
                    told.add(uid)
                    c.event(pod, "FailedMount", absent)
            await c.pass_time(10, step=5)
        assert len(told) == 1
        assert 'configmap "how" not found' in c.status("a")["message"]
        assert c.phase("a") == "Running"
        assert runs_on["metadata"]["uid"] in {pod["metadata"]["uid"] for pod in c.pods("a")}
        c.end(next(pod for pod in c.pods("a") if pod["metadata"]["uid"] == runs_on["metadata"]["uid"]))
        await c.pass_time(400, step=10)
        assert c.phase("a") == "Failed"


@pytest.mark.parametrize(("checked", "phase"), [(EVERYTHING, "Failed"), (EVERYTHING[:2], "Running"), ((), "Running")])
async def test_of_what_may_not_be_read_nobody_knows(checked: tuple[str, ...], phase: str) -> None:
    async with harness(checked_references=checked) as c:
        c.submit("a", **SECRET)
        await c.until(lambda: c.phase("a") == phase)
        put(c, SECRETS, "how")
        c.submit("b", **SECRET)
        await runs(c, "b")


async def test_without_the_right_to_read_them_the_start_shows_it() -> None:
    async with harness() as c:
        c.api.fail(403, times=ALWAYS, methods={"GET"}, path="/persistentvolumeclaims", reason="Forbidden")
        c.submit("a", **CLAIM)
        await runs(c, "a")


async def test_a_job_that_waits_is_told_after_a_minute_and_when_it_is_there() -> None:
    async with empty_harness() as c:
        c.node("n1", cpu="4")
        c.admitter()
        c.submit("large", cpu="9", **CLAIM)
        await c.pass_time(30)
        assert ABSENT not in c.status("large")["message"]
        await c.pass_time(40)
        assert ABSENT in c.status("large")["message"]
        put(c, PERSISTENTVOLUMECLAIMS, "data")
        await c.pass_time(620, step=10)
        assert c.phase("large") == "Waiting"
        assert ABSENT not in c.status("large")["message"]
        assert not c.api.stored(JOBS)


async def test_jobs_whose_status_waits_for_its_turn_are_not_looked_at_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A busy API server leaves no turn to explanations, so jobs have no status after a minute in line."""
    async with empty_harness() as c:
        c.node("n1", cpu="10")
        c.admitter()
        put(c, PERSISTENTVOLUMECLAIMS, "data")
        c.submit("first", cpu="5")
        await runs(c, "first")
        monkeypatch.setattr(WriteBudget, "_may_explain", lambda _: False)
        for number in range(3):
            c.submit(f"j{number}", cpu="5", **CLAIM)
        before = _looks()
        await c.pass_time(200, step=10)
        assert {c.phase(f"j{number}") for number in range(3)} == {""}
        assert _looks() - before < 30


def of_claims(number: int, count: int) -> dict[str, Any]:
    """A template that mounts so many claims, which only the job of this number has; it waits, as it is too large."""
    asked = {"requests": {"cpu": "9", "memory": "1Gi"}}
    claims = [f"c-{number}-{one}" for one in range(count)]
    volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
    container = {"name": "main", "image": "example.org/app:1", "resources": asked}
    return {"image": None, "resources": None, "template": {"spec": {"containers": [container], "volumes": volumes}}}


def gets(c: Harness, namespace: str = "") -> int:
    """Requests for single claims."""
    under = f"/namespaces/{namespace}/persistentvolumeclaims/" if namespace else "/persistentvolumeclaims/"
    return sum(request.method == "GET" and under in request.path for request in c.api.requests)


async def test_a_job_that_refers_to_too_many_objects_is_failed_and_nothing_is_looked_for() -> None:
    async with empty_harness() as c:
        c.node("n1", cpu="4")
        c.admitter()
        for number in range(3):
            c.submit(f"j{number}", **of_claims(number, 1000))
        await c.pass_time(75)
        assert gets(c) == 0
        assert set(c.phases().values()) == {"Failed"}
        assert "the pods need 1000 claims, ConfigMaps and Secrets, more than the 64" in c.status("j0")["message"]


async def test_each_object_is_looked_for_once_for_all_jobs_that_wait() -> None:
    async with empty_harness() as c:
        c.node("n1", cpu="4")
        c.admitter()
        for number in range(20):
            c.submit(f"j{number}", **of_claims(0, 3))
        await c.pass_time(75)
        assert ABSENT.replace("data", "c-0-1") in c.status("j19")["message"]
        assert gets(c) == 3


@pytest.mark.long
async def test_a_namespace_with_many_claims_does_not_keep_others_from_being_told() -> None:
    async with empty_harness() as c:
        c.node("n1", cpu="4")
        c.admitter()
        for number in range(200):
            c.submit(f"j{number}", **of_claims(number, 64))
        await c.pass_time(1)
        other = scavengerjob_dict("large", namespace="other", created=c.stamp(), cpu="9", **CLAIM)
        c.api.put(SCAVENGERJOBS, other)

        def told() -> bool:
            found = c.api.get(SCAVENGERJOBS, "other", "large")
            return found is not None and ABSENT in found.get("status", {}).get("message", "")

        took = await c.until(told, limit=120)
        assert took < 75
        before = gets(c)
        await c.pass_time(10)
        assert 100 < gets(c) - before <= 210
        assert gets(c, "other") == 1


async def test_a_job_that_waits_asks_at_most_twenty_times_an_hour() -> None:
    """However many objects it refers to. What was found longest ago is asked for first."""
    async with empty_harness() as c:
        c.node("n1", cpu="4")
        c.admitter()
        c.submit("many", **of_claims(0, 64))
        c.submit("few", **of_claims(1, 2))
        before = c.api.requests[:0]
        for hour in range(5):
            c.api.requests[:] = before
            await c.pass_time(3600, step=120)
            assert 10 <= gets(c) - 12 <= 20, hour
        message = c.status("many")["message"]
        assert all(f'"c-0-{one}" not found' in message for one in range(64))
        put(c, PERSISTENTVOLUMECLAIMS, "c-1-0")
        await c.pass_time(620, step=10)
        assert '"c-1-0" not found' not in c.status("few")["message"]
        assert '"c-1-1" not found' in c.status("few")["message"]


async def test_starts_of_a_namespace_look_for_so_many_objects_in_a_second() -> None:
    """None of their claims is there, so that they are Failed, after a look at each."""
    async with harness() as c:
        for number in range(20):
            spec = of_claims(number, 64)
            spec["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1", "memory": "1Gi"}}
            c.submit(f"j{number}", **spec)
        await c.pass_time(5, step=0.5)
        assert gets(c) < 300 + 5 * 100 + 8 * 128
        await c.until(lambda: set(c.phases().values()) == {"Failed"}, limit=90)


def test_what_was_found_is_remembered_until_it_is_asked_for_again_and_of_bounded_many() -> None:
    clock = VirtualClock()
    lookups = Lookups(clock)
    for number in range(KEPT + 10):
        lookups.note("configmap", "lab", str(number), absent=True)
    assert lookups.absent("configmap", "lab", "9") is None
    assert lookups.absent("configmap", "lab", "10") is True
    assert lookups.is_fresh("configmap", "lab", "10")
    assert lookups.starts.left("lab") > 100
    assert lookups.starts.left("other") < 0
    clock.jump(60)
    assert not lookups.is_fresh("configmap", "lab", "10")
    assert lookups.absent("configmap", "lab", "10") is True


def test_what_was_found_longest_ago_is_asked_for_first() -> None:
    clock = VirtualClock()
    lookups, wanted = Lookups(clock), [("configmap", f"{number:02}") for number in range(12)]

    def look() -> list[str]:
        chosen = lookups.look("lab/a", "lab", wanted).chosen
        for kind, name in chosen:
            lookups.note(kind, "lab", name, absent=False)
        lookups.waiting.asked("lab/a", len(chosen))
        return sorted(name for _, name in chosen)

    assert look() == [f"{number:02}" for number in range(8)]
    assert look() == []
    clock.jump(600)
    assert look() == ["08", "09"]
    clock.jump(3600)
    assert look() == ["00", "01", "02", "03", "04", "05", "10", "11"]


def _looks() -> float:
    """How often the loop has looked at a job that it is to look at again."""
    return (
        REGISTRY.get_sample_value("scavenger_reconciles_total", {"loop": "scavengerjobs", "outcome": "requeue"}) or 0.0
    )


@pytest.mark.parametrize("resource", [CONFIGMAPS, SECRETS], ids=lambda one: one.plural)
def test_what_may_be_absent_is_no_reference(resource: Resource[Any]) -> None:
    kind = resource.kind.lower()
    key, whole, volume = {
        "configmap": ("configMapKeyRef", "configMapRef", {"configMap": {"name": "c"}}),
        "secret": ("secretKeyRef", "secretRef", {"secret": {"secretName": "c"}}),
    }[kind]

    def of(**optional: bool) -> list[frozenset[str]]:
        env = [{"name": "A", "valueFrom": {key: {"name": "a", "key": "k", **optional}}}]
        env_from = [{whole: {"name": "b", **optional}}]
        volumes = [{"name": "v", **{field: {**source, **optional} for field, source in volume.items()}}]
        container = {"name": "main", "image": "i", "env": env, "envFrom": env_from}
        pod = {"containers": [container], "volumes": volumes}
        short = b.job(spec={"env": env, "envFrom": env_from})
        long = b.job(spec={"image": None, "resources": None, "template": {"spec": pod}})
        return [job.spec.references(kind) for job in (short, long)]

    assert of() == [{"a", "b"}, {"a", "b", "c"}]
    assert of(optional=False) == of()
    assert of(optional=True) == [set(), set()]


# --- what is mounted and may not be read ------------------------------------------------------------------------------

NOT_MOUNTED = 'MountVolume.SetUp failed for volume "v" : secret "how" not found'


def mounts(c: Harness, name: str, *, there: bool = False, says: str = NOT_MOUNTED) -> set[str]:
    """Play kubelets for the pods of a job that wait. Returns the UIDs of those.

    Args:
        c: the harness.
        name: of the job.
        there: whether volumes and sandbox are.
        says: the message of FailedMount; empty for none.
    """
    waiting = [pod for pod in c.pods(name) if pod["status"].get("phase") == "Pending"]
    for pod in [pod for pod in waiting if "deletionTimestamp" in pod["metadata"]]:
        c.api.edit(PODS, NS, pod["metadata"]["name"], lambda obj: obj.update(status={"phase": "Failed"}))
        waiting.remove(pod)
    for pod in waiting:

        def taken(obj: dict[str, Any]) -> None:
            obj["spec"]["nodeName"] = "n1"
            obj["status"] = {
                "phase": "Pending",
                "startTime": obj["status"].get("startTime") or c.stamp(),
                "conditions": [{"type": "PodReadyToStartContainers", "status": str(there)}],
                "containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "ContainerCreating"}}}],
            }

        c.api.edit(PODS, NS, pod["metadata"]["name"], taken)
        if says:
            c.event(pod, "FailedMount", says, uid=pod["metadata"]["uid"])
    return {pod["metadata"]["uid"] for pod in waiting}


async def wait_in_vain(c: Harness, name: str, seconds: float, **said: Any) -> set[str]:
    """Let time pass in which pods of a job wait for their Secret; returns the UIDs of those that did."""
    pods: set[str] = set()
    for _ in range(int(seconds / 5)):
        pods |= mounts(c, name, **said)
        await c.pass_time(5, step=5)
    return pods


async def test_a_job_whose_secret_does_not_exist_is_failed_after_two_starts() -> None:
    async with harness() as c:
        c.kubelet = False
        c.submit("a", **SECRET)
        spent = await wait_in_vain(c, "a", 900)
        assert c.phase("a") == "Failed"
        assert c.status("a")["message"].startswith('secret "how" not found')
        assert len(spent) == 2
        assert c.jobs_ever("a") == 2
        assert len(c.events("Failed")) == 1
        finished = parse_time(c.status("a")["finishedTimestamp"])
        assert finished is not None
        assert (c.clock.now() - finished).total_seconds() > 900 - 300, "within five minutes"


async def test_a_start_that_waits_for_a_secret_says_so_and_goes_on_when_it_is_there() -> None:
    async with harness() as c:
        c.kubelet = False
        c.submit("a", **SECRET)
        spent = await wait_in_vain(c, "a", 100)
        assert c.phase("a") == "Starting"
        assert 'secret "how" not found' in c.status("a")["message"]
        c.kubelet = True
        await runs(c, "a")
        assert {pod["metadata"]["uid"] for pod in c.pods("a")} == spent


async def test_a_secret_that_comes_between_two_starts_has_the_job_run_and_is_two_starts_later_missing_again() -> None:
    async with harness() as c:
        c.kubelet = False
        c.submit("a", **SECRET)
        await wait_in_vain(c, "a", 120)
        await c.until(lambda: c.phase("a") == "Waiting", limit=30)
        assert c.status("a")["message"] == 'the start failed: secret "how" not found'
        c.kubelet = True
        await runs(c, "a")
        await c.pass_time(120)
        c.delete_pod(c.pods("a")[0])
        c.tick()
        c.kubelet = False
        spent = await wait_in_vain(c, "a", 180)
        assert len(spent) == 2
        assert c.phase("a") in ("Waiting", "Starting", "Interrupted")
        spent |= await wait_in_vain(c, "a", 300)
        assert c.phase("a") == "Failed"
        assert len(spent) == 2


@pytest.mark.parametrize(
    ("there", "says"),
    [(True, NOT_MOUNTED), (False, ""), (False, NOT_MOUNTED.replace('"how"', '"of-others"'))],
    ids=["sandbox", "silent", "another"],
)
async def test_events_alone_do_not_end_a_job_nor_a_start(there: bool, says: str) -> None:
    """A pod that pulls its image has its volumes, whatever somebody writes about it."""
    async with harness() as c:
        c.kubelet = False
        c.submit("a", **SECRET)
        spent = await wait_in_vain(c, "a", 500, there=there, says=says)
        assert len(spent) == 1
        await wait_in_vain(c, "a", 300, there=there, says=says)
        assert c.phase("a") in ("Waiting", "Starting")


async def test_an_event_about_a_pod_that_no_kubelet_has_says_nothing() -> None:
    async with harness() as c:
        c.kubelet = False
        c.submit("a", **SECRET)
        await c.until(lambda: c.pods("a"))
        for _ in range(60):
            c.event(c.pods("a")[0], "FailedMount", NOT_MOUNTED)
            await c.pass_time(5, step=5)
        assert c.phase("a") == "Starting"
        assert c.jobs_ever("a") == 1


async def test_a_gang_one_of_whose_pods_lacks_a_secret_is_failed() -> None:
    async with harness() as c:
        c.kubelet = False
        c.submit("a", parallelism=3, **SECRET)
        await wait_in_vain(c, "a", 600)
        assert c.phase("a") == "Failed"
        assert c.jobs_ever("a") == 2


async def an_array_without_its_secret(c: Harness) -> tuple[dict[str, Any], set[str]]:
    """An array one of whose tasks runs, and whose Secret is gone since; returns its pod, and the UIDs of others."""
    c.submit("a", array={"tasks": 9, "maxRunning": 4}, **SECRET)
    await c.until(lambda: len([pod for pod in c.pods("a") if pod["status"].get("phase") == "Running"]) == 4)
    c.kubelet, c.renews = False, True
    runs_on, *ended = c.pods("a")
    for pod in ended:
        c.end(pod)
    return runs_on, await wait_in_vain(c, "a", 600)


async def test_tasks_whose_secret_is_deleted_later_spend_two_starts_and_those_that_run_go_on() -> None:
    async with harness() as c:
        runs_on, spent = await an_array_without_its_secret(c)
        assert len(spent) == 6, "three at once, twice"
        assert c.phase("a") == "Running"
        assert 'secret "how" not found' in c.status("a")["message"]
        assert len(c.events("StartFailed")) <= 2
        assert runs_on["metadata"]["uid"] in {pod["metadata"]["uid"] for pod in c.pods("a")}
        c.end(next(pod for pod in c.pods("a") if pod["metadata"]["uid"] == runs_on["metadata"]["uid"]))
        await c.pass_time(60, step=2)
        assert c.phase("a") == "Failed"
        assert 'secret "how" not found' in c.status("a")["message"]
        assert c.status("a")["array"]["completed"] == 4


async def test_an_array_that_is_suspended_and_resumed_looks_for_its_secret_again() -> None:
    async with harness() as c:
        await an_array_without_its_secret(c)
        c.api.edit(SCAVENGERJOBS, NS, "a", lambda job: job["spec"].update(suspend=True))
        c.kubelet = True
        await c.until(lambda: c.phase("a") == "Suspended")
        c.api.edit(SCAVENGERJOBS, NS, "a", lambda job: job["spec"].update(suspend=False))
        await c.until(lambda: len([pod for pod in c.pods("a") if pod["status"].get("phase") == "Running"]) == 4)


async def test_no_reconcile_waits_for_what_is_asked_for_a_queued_job() -> None:
    """The one worker goes on with other jobs while the API server does not answer about a claim."""
    async with empty_harness() as c:
        c.node("n1", cpu="4")
        c.admitter(workers=1)
        c.submit("large", cpu="9", **CLAIM)
        await c.pass_time(50, step=5)
        c.api.hang(times=ALWAYS, methods={"GET"}, path="/persistentvolumeclaims")
        await c.until(lambda: gets(c) > 0)
        c.submit("b")
        await c.pass_time(1, step=0.1)
        assert c.phase("b") == "Running"
        c.api.heal()
        await c.pass_time(660, step=10)
        assert ABSENT in c.status("large")["message"]
