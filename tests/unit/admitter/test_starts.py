"""Starts as the reconcile makes them: from a grant to the Job, and what becomes of one that fails."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
from scavenger_admitter.core.admission.shape import Shape
from scavenger_admitter.core.admission.snapshot import Candidate
from scavenger_admitter.core.lifecycle.actions import CreateJob
from scavenger_admitter.core.lifecycle.confirmed import Confirmed
from scavenger_admitter.core.lifecycle.observation import Outcome
from scavenger_admitter.core.manifest import service_manifest
from scavenger_admitter.create_limiter import CreateLimiter
from scavenger_admitter.informers import SCAVENGERQUEUES
from scavenger_admitter.writer import SCAVENGERJOBS, Writer
from scavenger_api import names
from scavenger_api.job import Phase, ScavengerJob
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import AlreadyExists
from scavenger_kube.resources import JOBS, NODES, SERVICES
from scavenger_runtime.events import EventRecorder
from scavenger_testing import FakeApi, VirtualClock, eventually, scavengerjob_dict

from . import builders as b
from .builders import Woken
from .harness import NS, Harness, empty_harness, harness, runs
from .test_controller import ALWAYS, QUOTA, status_body

pytestmark = pytest.mark.slow

WEBHOOK = 'admission webhook "guard.example.com" denied the request: '
POLICY = (
    "jobs.batch \"a\" is forbidden: ValidatingAdmissionPolicy 'images' with binding 'images' denied request: nobody"
    " knows where this image comes from"
)
TERMINATING = (
    'jobs.batch "a" is forbidden: unable to create new content in namespace lab because it is being terminated'
)


def posts(c: Harness) -> int:
    return c.api.count("POST", "/jobs")


def room(c: Harness) -> set[str]:
    """The jobs whose room is held."""
    return {key for one in c._admitters for key in one.admitter._state.assumed_starts.runs}


def admitted(c: Harness, name: str) -> tuple[str, str]:
    found = next((one for one in c.status(name).get("conditions", ()) if one["type"] == "Admitted"), None)
    return (found["status"], found["reason"]) if found else ("", "")


def reason(c: Harness, name: str) -> str:
    return admitted(c, name)[1]


# --- what is written --------------------------------------------------------------------------------------------------


def a_job(parallelism: int = 1) -> ScavengerJob:
    obj = scavengerjob_dict("a", namespace="ns", parallelism=parallelism, status={"phase": "Waiting"})
    return ScavengerJob.model_validate(obj)


def a_writer(client: ApiClient, clock: VirtualClock) -> Writer:
    return Writer(client, EventRecorder(client, "test", clock=clock), max_grace_seconds=300)


async def test_a_start_is_a_job_that_says_which_run_it_is() -> None:
    async with FakeApi() as api:
        writer = a_writer(api.client(), VirtualClock())
        await writer.create(a_job(), b.confirmed(CreateJob("the run", 3)))
        job = api.get(JOBS, "ns", "a")
        assert job is not None
        assert job["metadata"]["annotations"] == {"scavenger.dev/run": "the run", "scavenger.dev/restarts": "3"}
        with pytest.raises(AlreadyExists):
            await writer.create(a_job(), b.confirmed(CreateJob("another", 3)))


@pytest.mark.parametrize("restarts", [0, 1])
@pytest.mark.parametrize("there", [True, False])
async def test_the_service_of_a_gang_comes_first_and_one_that_is_there_is_fine(restarts: int, there: bool) -> None:
    async with FakeApi() as api:
        job = a_job(2)
        if there:
            api.put(SERVICES, service_manifest(job) or {})
        await a_writer(api.client(), VirtualClock()).create(job, b.confirmed(CreateJob("r", restarts)))
        assert [made["metadata"]["name"] for made in api.list(JOBS)] == ["a"]
        assert api.get(SERVICES, "ns", "sj-a") is not None
        order = [request.path.rpartition("/")[2] for request in api.requests if request.method == "POST"]
        assert order == (["jobs"] if there and restarts else ["services", "jobs"])


async def test_a_job_that_meets_a_changing_quota_is_sent_again() -> None:
    async with FakeApi() as api:
        api.fail(409, times=2, reason="Conflict", methods={"POST"})
        await a_writer(api.client(), VirtualClock()).create(a_job(), b.confirmed(CreateJob("r", 0)))
        assert len(api.list(JOBS)) == 1


# --- who creates when -------------------------------------------------------------------------------------------------


def a_line(clock: VirtualClock, *, each: int, most: int, window: int = 500) -> tuple[CreateLimiter, list[str]]:
    """Slots, and those called."""
    wakeups = Woken()
    return CreateLimiter(clock, wakeups, each=each, most=most, window=window), wakeups.keys


def join(slots: CreateLimiter, key: str, queued_at: int = 0, interrupted: int = 0) -> None:
    candidate = Candidate(
        key, "uid", "default", Shape.of({"cpu": 1000}), interrupted_count=interrupted, queued_at=queued_at
    )
    slots.enqueue(key, candidate.order)


def test_no_namespace_has_all_the_slots() -> None:
    clock = VirtualClock()
    slots, called = a_line(clock, each=2, most=3)
    for name in "abc":
        join(slots, f"slow/{name}")
    assert called == ["slow/a", "slow/b"]
    assert [slots.may_create(f"slow/{name}") for name in "abc"] == [True, True, False]
    for name in "ab":
        slots.start(f"slow/{name}")
    assert (slots.in_flight(), slots.queued_behind_hanging()) == (3, [])
    clock.jump(2)
    slots.skip_hanging()
    assert (slots.in_flight(), slots.queued_behind_hanging()) == (0, ["slow/c"])
    for name in "ab":
        join(slots, f"other/{name}")
    assert called[2:] == ["other/a", "other/b"], "creates that hang take no slots from others"
    assert slots.in_flight() == 2
    join(slots, "third/a")
    slots.release("slow/a")
    assert len(called) == 5
    slots.release("other/a")
    assert sorted(called[2:]) == ["other/a", "other/b", "slow/c", "third/a"]
    assert not slots.queued_behind_hanging()


def test_creates_of_one_namespace_hang_also_where_it_may_have_all_the_slots() -> None:
    clock = VirtualClock()
    slots, _ = a_line(clock, each=100, most=2)
    for name in "abc":
        join(slots, f"slow/{name}")
    for name in "ab":
        slots.start(f"slow/{name}")
    clock.jump(2)
    assert slots.queued_behind_hanging() == ["slow/c"]


def test_jobs_are_called_by_their_places_in_line() -> None:
    """Whoever looks in between, as an event about it came, does not pass those before it."""
    slots, called = a_line(VirtualClock(), each=1, most=3)
    for place, name in enumerate("abcd"):
        join(slots, f"ns/{name}", place)
    join(slots, "ns/c", 2)
    assert not any(slots.may_create(f"ns/{name}") for name in "bcd")
    slots.release("ns/b")  # its grant was taken back
    for name in "ac":
        slots.start(f"ns/{name}")
        slots.release(f"ns/{name}")
    assert called == ["ns/a", "ns/c", "ns/d"]


def test_whoever_is_granted_late_does_not_stand_behind_those_granted_before() -> None:
    """A first grant was not made use of, as a status could not be written; another job was interrupted just now."""
    slots, called = a_line(VirtualClock(), each=1, most=3)
    for place in range(10, 500):
        join(slots, f"ns/{place}", place)
    join(slots, "ns/first-grant-unused", 3)
    join(slots, "ns/interrupted", 1000, interrupted=1)
    for _ in range(3):
        slots.release(called[-1])
    assert called == ["ns/10", "ns/interrupted", "ns/first-grant-unused", "ns/11"]


def test_of_a_namespace_only_so_many_are_granted_from_one_on_that_is_not_answered() -> None:
    """Else they pass it, however many that are: with each answer there is room for another."""
    clock = VirtualClock()
    slots, _ = a_line(clock, each=2, most=3, window=4)
    for name in "abcd":
        assert slots.has_capacity("ns")
        join(slots, f"ns/{name}", ord(name))
    for name in "ba":
        slots.start(f"ns/{name}")
    for name in "bcd":
        assert not slots.has_capacity("ns")
        assert slots.saturated_namespaces() == {"ns": 0.0}
        slots.release(f"ns/{name}")
    assert not slots.has_capacity("ns"), "all but the first are answered"
    assert slots.has_capacity("other")
    clock.jump(1.9)
    assert not slots.has_capacity("ns")
    clock.jump(0.1)
    slots.skip_hanging()
    assert slots.has_capacity("ns")
    slots.release("ns/a")
    assert slots.saturated_namespaces() == {}


def test_a_grant_that_is_not_made_use_of_keeps_nobody_waiting() -> None:
    slots, _ = a_line(VirtualClock(), each=1, most=1, window=3)
    for name in "abc":
        join(slots, f"ns/{name}", ord(name))
    slots.release("ns/b")
    join(slots, "ns/c", ord("c"))  # has its grant already
    assert not slots.has_capacity("ns")
    slots.release("ns/a")
    slots.release("ns/c")
    join(slots, "ns/b", ord("b"))
    assert slots.has_capacity("ns")


async def test_a_job_whose_create_takes_its_time_is_not_passed_by_all_behind_it() -> None:
    async with empty_harness() as c:
        c.admitter(max_starts_per_cycle=5, admission_interval=0.05)
        c.lost = {"j03"}
        for number in range(30):
            c.submit(f"j{number:02}")
        await c.until(lambda: set(c.phases().values()) == {"Waiting"})
        c.node()  # 70 cores
        c.api.put(SCAVENGERJOBS, scavengerjob_dict("a", namespace="other", created=c.stamp()))
        await c.until(lambda: "a" in c.starts(), step=0.1)
        await c.pass_time(1.5, step=0.1)
        assert sorted(c.starts()) == ["a", "j00", "j01", "j02", "j04", "j05", "j06", "j07"], "of its namespace four"
        await c.arrive("j03")
        await c.until(lambda: len(c.starts()) == 31, limit=20)


async def test_nobody_waits_for_long_for_a_create_that_hangs() -> None:
    async with empty_harness() as c:
        c.node()
        c.admitter(max_starts_per_cycle=5)
        c.lost = {"j03"}
        for number in range(30):
            c.submit(f"j{number:02}")
        await c.until(lambda: len(c.starts()) == 29, limit=20)


async def test_creates_that_hang_in_one_namespace_keep_no_other_waiting() -> None:
    async with empty_harness() as c:
        c.node()  # 70 cores
        c.admitter(workers=8, concurrent_starts=2)
        hung = [f"h{number:02}" for number in range(30)]
        c.lost = set(hung)
        for name in hung:
            c.submit(name)
        await c.pass_time(1, step=0.1)
        c.api.put(SCAVENGERJOBS, scavengerjob_dict("a", namespace="other", created=c.stamp(), cpu="45"))
        await c.until(lambda: "a" in c.starts(), limit=5)
        await c.pass_time(3)
        assert len(room(c)) <= 2 + 1, "those being created, and the one that runs"


async def test_jobs_behind_creates_that_hung_start_when_the_api_server_answers_again() -> None:
    """Their grants were taken back meanwhile, nothing happens to them that would have them looked at, and they keep
    their order."""
    async with empty_harness() as c:
        c.node()  # 70 cores
        c.admitter(concurrent_starts=2)
        names = [f"h{number:02}" for number in range(30)]
        c.lost = set(names)
        for name in names:
            c.submit(name)
        await c.until(lambda: len(room(c)) == 30, step=0.1)
        await c.until(lambda: len(room(c)) == 2, step=0.1)
        c.submit("last")
        await c.until(lambda: reason(c, "h29") == "CreationUnanswered")
        await c.arrive(*names)
        await c.until(lambda: {*names, "last"} <= set(c.starts()), limit=5)
        assert "last" in c.starts()[-2:], "two are created at once"


async def test_a_job_whose_status_is_on_its_way_when_its_grant_is_taken_back_stays_in_line() -> None:
    """Its reconcile has seen the grant, and takes the job out of the line when the status is written."""
    async with empty_harness() as c:
        c.node()  # 70 cores
        c.admitter(concurrent_starts=2)
        names = [f"h{number:02}" for number in range(30)]
        c.lost = {*names, "h20/status"}
        for name in names:
            c.submit(name)
        await c.until(lambda: len(room(c)) == 30, step=0.1)
        await c.until(lambda: len(room(c)) == 2, step=0.1)
        assert c.phases()["h20"] == "", "that it waits is being written"
        await c.arrive("h20/status")
        await c.until(lambda: c.phases()["h20"] == "Waiting")
        await c.arrive(*names)
        await c.until(lambda: set(names) <= set(c.starts()), limit=5)


def test_creates_that_hang_take_no_slots_from_other_namespaces() -> None:
    clock = VirtualClock()
    slots, called = a_line(clock, each=2, most=3)
    for namespace in ("a", "b", "c", "d"):
        for name in ("1", "2"):
            join(slots, f"{namespace}/{name}")
    for key in called:
        slots.start(key)
    assert len(called) == 3
    clock.jump(3)
    slots.skip_hanging()
    assert len(called) == 6
    for key in called[:3]:
        slots.release(key)
    assert len(called) == 6, "those had no slots any more"
    slots.release(called[3])
    assert len(called) == 7


async def test_what_hangs_in_one_namespace_keeps_no_other_waiting() -> None:
    async with harness() as c:
        c.submit("a")
        await runs(c, "a")
        for number in range(100):
            job = scavengerjob_dict(f"s{number}", namespace="slow", created=c.stamp(), queue="none")
            c.api.put(SCAVENGERJOBS, job)
        c.api.hang(times=ALWAYS, methods={"PATCH"}, path="/namespaces/slow/scavengerjobs/")
        await c.pass_time(10)
        assert c.api.count("PATCH", "/namespaces/slow/") >= 30
        c.delete_pod(c.pods("a")[0])
        assert await c.until(lambda: c.status("a")["interruptedCount"] == 1) < 1


async def test_nobody_waits_for_creates_that_hang_of_jobs_that_are_deleted() -> None:
    async with empty_harness() as c:
        c.node()
        c.admitter(concurrent_starts=2)
        c.lost = {"a", "b"}
        for name in "abc":
            c.submit(name)
        await c.until(lambda: reason(c, "c") == "CreationUnanswered")
        for name in "ab":
            c.api.remove(SCAVENGERJOBS, NS, name)
        await c.until(lambda: c.starts() == ["c"], limit=10)


async def test_a_job_that_fell_out_of_the_line_is_back_within_a_minute() -> None:
    """Whatever mistake it was: nothing happens to the job, and no cycle sees it."""
    async with empty_harness() as c:
        admitter = c.admitter().admitter
        c.submit("a")
        await c.until(lambda: c.phase("a") == "Waiting")
        await c.pass_time(10)
        admitter._state.delete_candidate(f"{NS}/a")
        c.node()
        await c.pass_time(5)
        assert c.starts() == []
        await c.until(lambda: c.starts() == ["a"], limit=60)


# --- failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "reason", "words"),
    [
        (500, "InternalError", 'Internal error occurred: failed calling webhook "guard.example.com": EOF'),
        (413, "RequestEntityTooLarge", WEBHOOK + "too large"),
        (400, "BadRequest", WEBHOOK + 'configmap "settings" not found'),
        (422, "Invalid", POLICY),
        (403, "Forbidden", POLICY),
    ],
)
async def test_a_create_that_fails_for_ever_keeps_nobody_from_starting(status: int, reason: str, words: str) -> None:
    async with empty_harness() as c:
        c.node(cpu="3")  # room for one: 70 % of 3 is 2.1
        c.admitter()
        c.api.fail(status, times=ALWAYS, methods={"POST"}, path="/lab/jobs", body=status_body(status, reason, words))
        c.submit("a", cpu="2")
        await c.until(lambda: words in c.status("a").get("message", ""), limit=15)
        assert c.phase("a") == "Waiting"
        assert admitted(c, "a") == ("False", "CreationRefused")
        assert room(c) == set()
        c.api.put(SCAVENGERJOBS, scavengerjob_dict("b", namespace="other", created=c.stamp(), cpu="2"))
        await c.until(lambda: "b" in c.starts(), limit=15)
        c.api.remove(SCAVENGERJOBS, "other", "b")
        c.api.remove(JOBS, "other", "b")
        await c.pass_time(600, step=5)
        assert 4 <= posts(c) <= 12, "the delay grows"
        assert c.phase("a") == "Waiting"
        c.api.heal()
        await runs(c, "a", limit=330)
        assert c.jobs_ever("a") == 1


async def test_a_create_that_is_never_answered_clearly_keeps_nobody_from_starting() -> None:
    async with empty_harness() as c:
        c.node(cpu="3")
        c.admitter()
        body = status_body(500, "", "etcdserver: request timed out")
        c.api.fail(500, times=ALWAYS, methods={"POST"}, path="/lab/jobs", body=body)
        c.submit("a", cpu="2")
        await c.until(lambda: "request timed out" in c.status("a").get("message", ""), limit=15)
        c.api.put(SCAVENGERJOBS, scavengerjob_dict("b", namespace="other", created=c.stamp(), cpu="2"))
        await c.until(lambda: "b" in c.starts(), limit=30)
        await c.pass_time(600, step=5)
        assert posts(c) <= 12, "the delay grows"


async def test_an_answer_that_says_nothing_of_the_job_keeps_its_place_once() -> None:
    async with harness() as c:
        words = status_body(500, "InternalError", "Internal error occurred: out of order")
        c.api.fail(500, times=2, methods={"POST"}, path="/jobs", body=words)
        c.submit("a")
        await c.until(lambda: "out of order" in c.status("a").get("message", ""), limit=5)
        place = c.status("a")["queuedTimestamp"]
        created = c.api.get(SCAVENGERJOBS, NS, "a")
        assert created is not None
        assert place[:19] == created["metadata"]["creationTimestamp"][:19]
        await c.until(lambda: c.status("a")["queuedTimestamp"] != place, limit=10)
        await runs(c, "a", limit=20)


@pytest.mark.parametrize(
    ("status", "reason", "words", "causes"),
    [
        (403, "Forbidden", TERMINATING, ["NamespaceTerminating"]),
        (403, "Forbidden", TERMINATING, []),
        (404, "NotFound", 'namespaces "lab" not found', []),
    ],
)
async def test_nothing_is_tried_for_ever_in_a_namespace_that_goes(
    status: int, reason: str, words: str, causes: list[str]
) -> None:
    async with harness() as c:
        details: dict[str, Any] = {"causes": [{"reason": cause, "message": words} for cause in causes]}
        body = orjson.dumps({"kind": "Status", "code": status, "reason": reason, "message": words, "details": details})
        c.api.fail(status, times=ALWAYS, methods={"POST"}, path="/jobs", body=body)
        c.submit("a")
        await c.until(lambda: "its namespace is gone or being deleted" in c.status("a").get("message", ""), limit=5)
        assert words in c.status("a")["message"]
        assert admitted(c, "a") == ("False", "CreationRefused")
        assert room(c) == set()
        await c.pass_time(280, step=5)
        assert posts(c) == 1


async def test_a_quota_on_jobs_is_called_a_quota() -> None:
    async with harness() as c:
        c.api.fail(403, methods={"POST"}, path="/jobs", body=status_body(403, "Forbidden", QUOTA))
        c.submit("a")
        await c.until(lambda: "quota" in c.status("a").get("message", ""), limit=2)
        assert c.status("a")["message"].startswith("the start failed: the Job cannot be created within the")
        assert admitted(c, "a") == ("False", "QuotaExceeded")


@pytest.mark.parametrize("trouble", ["drop", "lost"])
async def test_without_an_answer_the_room_is_held_until_it_is_known_what_became_of_it(trouble: str) -> None:
    async with harness() as c:
        c.kubelet = False
        c.api.drop(methods={"POST"}, path="/jobs", after_write=trouble == "lost")
        c.submit("a")
        await c.until(lambda: posts(c) == 1)
        await c.pass_time(5)
        assert room(c) == {"lab/a"}
        await c.until(lambda: c.phase("a") == "Starting", limit=20)
        assert c.jobs_ever("a") == 1
        assert posts(c) == (1 if trouble == "lost" else 2)


async def test_one_refusal_stops_nobody_else() -> None:
    async with harness() as c:
        c.api.fail(422, methods={"POST"}, path="/jobs", body=status_body(422, "Invalid", 'Job.batch "a" is invalid'))
        for name in "abc":
            c.submit(name)
        await c.until(lambda: sorted(c.phases().values()) == ["Failed", "Running", "Running"], limit=5)


async def test_the_delay_after_failures_outlives_the_process() -> None:
    async with empty_harness() as c:
        c.node()
        first = c.admitter()
        refusal = status_body(403, "Forbidden", POLICY)
        c.api.fail(403, times=ALWAYS, methods={"POST"}, path="/jobs", body=refusal)
        c.submit("a")
        await c.until(lambda: posts(c) == 5, limit=100)  # at 0, 5, 15, 35 and 75 s
        await c.pass_time(2)
        await first.kill()
        c.admitter()
        await c.pass_time(70)
        assert posts(c) == 5, "80 s from the fifth"
        await c.until(lambda: posts(c) == 6, limit=30)
        await c.pass_time(150)
        assert posts(c) == 6, "and 160 s from the sixth"


# --- what happens meanwhile -------------------------------------------------------------------------------------------


async def test_a_job_that_is_deleted_while_starting_is_written_gives_its_room_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with empty_harness() as c:
        c.node(cpu="3")
        admitter = c.admitter().admitter
        c.kubelet = False
        writer, informers = admitter._reconciler._writer, admitter._informers
        real = writer.write_status

        async def write(job: ScavengerJob, decided: Confirmed[Outcome]) -> ScavengerJob:
            written = await real(job, decided)
            if job.metadata.name == "a" and decided.value.status.phase is Phase.STARTING:
                c.api.remove(SCAVENGERJOBS, NS, "a")
                await eventually(lambda: informers.job("lab/a") is None)
            return written

        monkeypatch.setattr(writer, "write_status", write)
        c.submit("a", cpu="2")
        await c.until(lambda: c.jobs_ever("a") == 1 and "a" not in c.phases())
        await c.pass_time(1)
        assert room(c) == set()
        c.kubelet = True
        c.submit("b", cpu="2")
        await runs(c, "b", limit=10)


@asynccontextmanager
async def granted_job() -> AsyncIterator[Harness]:
    """A job that room is held for, and that does not create its Job until this is left."""
    async with empty_harness() as c:
        admitter = c.admitter()
        c.submit("a")
        await c.until(lambda: c.phase("a") == "Waiting")
        slots, woken = admitter.admitter._limiter, Woken()
        wakeups, slots._wakeups = slots._wakeups, woken
        c.node()
        await c.until(lambda: woken.keys)
        assert room(c) == {"lab/a"}
        slots._wakeups = wakeups
        yield c
        assert posts(c) == 0
        assert room(c) == set()


async def test_a_job_that_is_suspended_after_it_was_granted_is_not_started() -> None:
    async with granted_job() as c:
        c.api.edit(SCAVENGERJOBS, NS, "a", lambda o: o["spec"].update(suspend=True))
        await c.until(lambda: c.phase("a") == "Suspended")


async def test_a_job_that_changes_its_queue_after_it_was_granted_needs_room_of_that_queue() -> None:
    async with granted_job() as c:
        queue = {"apiVersion": names.API_VERSION, "kind": "ScavengerQueue", "metadata": {"name": "small"}}
        c.api.put(SCAVENGERQUEUES, {**queue, "spec": {"weight": 1, "quota": {"cpu": 0}}})
        c.api.edit(SCAVENGERJOBS, NS, "a", lambda o: o["spec"].update(queue="small"))
        await c.pass_time(30)


# --- room that is kept ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["a pod", "the Job"])
async def test_a_gang_whose_member_is_deleted_has_its_room_again(how: str) -> None:
    async with empty_harness() as c:
        c.node(cpu="3")  # 70 % of 3 is 2.1
        c.admitter()
        c.submit("a", parallelism=2, cpu="1")
        await runs(c, "a")
        c.submit("b", cpu="1", queue="default")
        await c.pass_time(2)
        assert c.phase("b") == "Waiting"
        c.kubelet = False
        pods = c.pods("a")
        if how == "a pod":
            c.delete_pod(pods[0])
        else:
            await c.user().delete(JOBS, NS, "a")
        await c.until(lambda: c.phase("a") == "Interrupted")
        c.end(c.pods("a")[0], 137)
        await c.pass_time(20)
        assert c.starts() == ["a"], "one pod of it is still stopping"
        c.kubelet = True
        await runs(c, "a", limit=10)
        assert c.starts() == ["a", "a"]
        assert c.phase("b") == "Waiting"


@pytest.mark.parametrize("set_back", [0.0, 3600.0])
async def test_room_is_not_kept_for_ever(set_back: float) -> None:
    async with empty_harness() as c:
        c.node(cpu="3")
        c.admitter()
        c.submit("a", parallelism=2, cpu="1")
        await runs(c, "a")
        c.submit("b", cpu="1")
        c.kubelet = False  # one pod is stuck
        c.delete_pod(c.pods("a")[0])
        await c.until(lambda: c.phase("a") == "Interrupted")
        c.end(c.pods("a")[0], 137)
        await c.pass_time(1)
        c.clock.skew = -set_back
        took = await c.until(lambda: "b" in c.starts(), limit=150)
        assert 80 <= took <= 110, "the grace period and a minute"


# --- clocks -----------------------------------------------------------------------------------------------------------


async def test_a_clock_that_is_set_back_delays_no_start() -> None:
    async with harness() as c:
        c.api.fail(403, methods={"POST"}, path="/jobs", reason="Forbidden")
        c.submit("a")
        await c.until(lambda: "the start failed" in str(c.status("a").get("message")))
        c.clock.skew = -3600.0
        assert await runs(c, "a", limit=30) < 10


async def test_a_successor_whose_clock_was_set_back_delays_no_start() -> None:
    async with empty_harness() as c:
        c.node()
        first = c.admitter()
        c.api.fail(403, methods={"POST"}, path="/jobs", reason="Forbidden")
        c.submit("a")
        await c.until(lambda: "the start failed" in str(c.status("a").get("message")))
        await first.kill()
        c.clock.skew = -3600.0
        c.admitter()
        assert await runs(c, "a", limit=400) <= 305


def cordon(c: Harness, *, closed: bool) -> None:
    c.api.edit(NODES, None, "n1", lambda node: node["spec"].update(unschedulable=closed))


async def test_newcomers_pass_nobody_as_the_clock_of_a_successor_is_behind() -> None:
    async with empty_harness() as c:
        c.node(cpu="2")  # one at a time
        cordon(c, closed=True)
        first = c.admitter(skew=60.0)
        c.submit("a")
        await c.until(lambda: c.phase("a") == "Waiting")
        await first.kill()
        c.admitter()
        c.submit("b")
        await c.until(lambda: c.phase("b") == "Waiting")
        cordon(c, closed=False)
        await runs(c, "a")
        c.succeed("a")
        await runs(c, "b")
        assert c.starts() == ["a", "b"]


async def test_interrupted_jobs_pass_nobody_as_the_clock_of_a_successor_is_behind() -> None:
    async with empty_harness() as c:
        c.node(cpu="4")
        first = c.admitter(skew=60.0)
        for name in ("a", "b"):
            c.submit(name)
            await runs(c, name)
        await c.pass_time(20)
        cordon(c, closed=True)
        c.delete_pod(c.pods("a")[0])
        await c.until(lambda: c.status("a")["interruptedCount"] == 1)
        await c.pass_time(2)
        await first.kill()
        c.admitter()
        c.delete_pod(c.pods("b")[0])
        await c.until(lambda: c.status("b")["interruptedCount"] == 1)
        await c.pass_time(2)
        c.node(cpu="2")
        await runs(c, "a")
        c.succeed("a")
        await runs(c, "b")
        assert c.starts() == ["a", "b", "a", "b"]


# --- what a namespace refuses -----------------------------------------------------------------------------------------


async def test_jobs_over_the_quota_of_their_namespace_are_tried_one_at_a_time() -> None:
    async with empty_harness() as c:
        c.node(cpu="1000")
        c.admitter(start_backoff=5.0, start_backoff_max=60.0)
        c.api.fail(403, times=ALWAYS, methods={"POST"}, path="/lab/jobs", body=status_body(403, "Forbidden", QUOTA))
        for number in range(60):
            c.submit(f"j{number}")
        await c.pass_time(120)
        before = posts(c)
        await c.pass_time(600, step=5)
        assert 2 <= posts(c) - before <= 12, "once a minute, however many wait"
        other = scavengerjob_dict("other", namespace="free", created=c.stamp())
        c.api.put(SCAVENGERJOBS, other)
        c.submit("kind", cpu="2")
        await c.until(lambda: c.api.get(JOBS, "free", "other") is not None, limit=30)
        await c.until(lambda: posts(c) > before, limit=30)
        c.api.heal()
        await c.until(lambda: set(c.phases().values()) == {"Running"}, limit=120)


@pytest.mark.parametrize("taken_over", [False, True])
async def test_trouble_of_the_api_server_holds_back_no_kind_of_job(*, taken_over: bool) -> None:
    async with empty_harness() as c:
        c.node(cpu="1000")
        first = c.admitter(start_backoff=5.0, start_backoff_max=300.0)
        words = status_body(503, "ServiceUnavailable", "the server is currently unable to handle the request")
        c.api.fail(503, times=ALWAYS, methods={"POST"}, path="/lab/jobs", body=words)
        for number in range(20):
            c.submit(f"j{number}")
        await c.until(lambda: posts(c) >= 60, limit=120)
        assert {reason(c, f"j{number}") for number in range(20)} == {"CreationFailed"}
        if taken_over:
            await first.kill()
            c.admitter(start_backoff=5.0, start_backoff_max=300.0)
            await c.pass_time(20)
        c.api.heal()
        await c.until(lambda: set(c.phases().values()) == {"Running"}, limit=45)


async def test_a_successor_does_not_ask_again_for_every_job() -> None:
    async with empty_harness() as c:
        c.node(cpu="1000")
        first = c.admitter()
        c.api.fail(403, times=ALWAYS, methods={"POST"}, path="/lab/jobs", body=status_body(403, "Forbidden", QUOTA))
        for number in range(60):
            c.submit(f"j{number}")
        await c.pass_time(120)
        await first.kill()
        before = posts(c)
        c.admitter()
        await c.pass_time(60)
        assert posts(c) - before <= 15
