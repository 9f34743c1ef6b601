"""Whatever ends a pod, it counts alike for a job, a task of an array, an array of one and a job by a template.

The same lives are played for all of these, in one cluster and at the same moments. What is known to differ stands in
`DIFFERENCES`, and that list only shrinks.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from scavenger_admitter.writer import SCAVENGERJOBS
from scavenger_api import names
from scavenger_api.indexes import parse_counts
from scavenger_kube.resources import PODS
from scavenger_testing import running, terminated

from .harness import NS, Harness, Instance, Object, empty_harness

pytestmark = pytest.mark.slow

SEEDS: Final = 200
GATE: Final = 6
UNITS: Final = 3
LIMIT: Final = 2
"""Retries of each unit."""
DOUBTFUL: Final = ("killed", "memory")
DIFFERENCES: Final[dict[str, str]] = {
    "doubt, then suspended": "a job that is suspended while the fault of a node is possible counts no failure, "
    "and a task counts it",
    "booked to its end": "a job is booked until the request; a task until its end, where its kubelet's last DELETE "
    "has moved the request",
    "booked until it is seen": "an end that nobody saw is booked until the admitter looks, and it writes arrays later",
}
"""What does not count alike, and why. The first is not played; by the others sums may differ."""

SEEN_WITHIN: Final = 45
"""Seconds until an admitter looks that takes over."""

ASKED_WITHIN: Final = 2
"""Seconds between the requests that end two jobs at one limit: of a job the status is written before the request."""

ENDS: Final = (
    "completes",
    "fails",
    "killed",
    "memory",
    "evicted",
    "preempted",
    "deleted",
    "drained",
    "kubelet",
    "limit",
    "lost",
)
LIMITED_ENDS: Final = (*ENDS, "saves")
"""How a life ends: by itself with 0, with another code, by a signal, for memory; by the Eviction API, a scheduler, a
user and a taint manager; by its kubelet for the node, or for a limit of its own; and unseen, as the machine was off."""
DISRUPTIONS: Final = {
    "evicted": "EvictionByEvictionAPI",
    "preempted": "PreemptionByScheduler",
    "drained": "DeletionByTaintManager",
}
SHAPES: Final = ("job", "array", "alone", "twin")
OF_ONE: Final = ("job", "alone", "twin")
"""Those that keep to the limits of a job: the deadline of an array is for all its tasks, and so is FailJob."""
SAVED: Final = 85
"""`checkpointExitCode`, where a history has one."""
FAILED: Final = 3
"""With which programs fail."""
REQUESTS: Final = {"cpu": "1", "memory": "1Gi"}


@dataclass(frozen=True)
class End:
    """How one life of a unit ends. after: seconds from its start; code: of a program that was told to stop."""

    kind: str
    after: int
    code: int


@dataclass(frozen=True)
class Round:
    """Lives that begin together. suspended: seconds after the ends at which all are suspended; None: they are not."""

    ends: tuple[End, ...]
    suspended: int | None
    takeover: str


def limits(random: random.Random) -> Object:
    """Fields of a job that say what ends it, each in every other history."""
    rule = {"action": random.choice(("FailIndex", "Ignore", "FailJob", "Count"))}
    found: Object = {
        "checkpointExitCode": SAVED,
        "podFailurePolicy": {"rules": [{**rule, "onExitCodes": {"operator": "In", "values": [FAILED]}}]},
        "activeDeadlineSeconds": random.randrange(150, 400),
        "progressDeadlineIntervals": random.choice((2, 3)),
    }
    return {name: value for name, value in found.items() if random.random() < 0.5}


def rounds(random: random.Random, limited: Object) -> Iterator[Round]:
    """Endless; the units that are done are left out. limited: fields that limit a job."""
    kinds = LIMITED_ENDS if limited else ENDS
    while True:
        weights = [3 if kind == "completes" else 1 for kind in kinds]
        ends = tuple(
            End(random.choices(kinds, weights)[0], random.randrange(70, 150), random.choice((0, 1, 143)))
            for _ in range(UNITS)
        )
        suspended = random.randrange(0, 20) if random.random() < 0.5 else None
        doubtful = not {one.kind for one in ends}.isdisjoint(DOUBTFUL)
        if doubtful and "doubt, then suspended" in DIFFERENCES:
            suspended = None
        yield Round(ends, suspended, random.choice(("", "", "before", "after")))


@dataclass
class Play:
    """The cluster but for the admitter.

    Attributes:
        c: the API server.
        observes: whether kubelets write observedGeneration, as since Kubernetes 1.34.
        ends: how the present lives end, by unit.
        told: since when pods are told to stop, by uid.
        done: units that are over.
        shapes: that are played.
        limited: fields of a spec that limit a job.
    """

    c: Harness
    observes: bool
    shapes: tuple[str, ...] = SHAPES
    limited: Object = field(default_factory=dict)
    ends: tuple[End, ...] = ()
    told: dict[str, float] = field(default_factory=dict)
    done: set[int] = field(default_factory=set)
    grace: int = 5

    def submit(self) -> None:
        retried = {"backoffLimit": LIMIT, "interruptionAfter": "40s", "terminationGracePeriodSeconds": 30}
        retried |= self.limited
        for unit in range(UNITS):
            self.c.submit(f"job-{unit}", **retried)
            self.c.submit(f"alone-{unit}", array={"tasks": 1}, **retried)
            template = {"spec": {"containers": [{"name": "main", "image": "i", "resources": {"requests": REQUESTS}}]}}
            self.submit_template(f"twin-{unit}", template, retried)
        if "array" in self.shapes:
            self.c.submit("array", array={"tasks": UNITS}, **retried)

    def submit_template(self, name: str, template: Object, spec: Object) -> None:
        self.c.submit(name, template=template, **spec)

        def edit(job: Object) -> None:
            for field_name in ("image", "resources", "terminationGracePeriodSeconds"):
                job["spec"].pop(field_name, None)

        self.c.api.edit(SCAVENGERJOBS, NS, name, edit)

    def pods(self) -> Iterator[tuple[int, Object]]:
        """Of each unit, those that are there."""
        for pod in self.c.api.stored(PODS):
            name = pod["metadata"]["labels"][names.LABEL_JOB]
            text = pod["metadata"]["labels"].get(names.LABEL_TASK) if name == "array" else name.rpartition("-")[2]
            yield int(text or 0), pod

    def waiting(self) -> list[Object]:
        """Pods that have not run."""
        return [pod for _, pod in self.pods() if pod["status"].get("phase") == "Pending" and not _told(pod)]

    def all_wait(self) -> bool:
        self.stop()
        return len(self.waiting()) == len(self.shapes) * (UNITS - len(self.done))

    def begin(self) -> None:
        for pod in self.waiting():
            started = running(started=self.c.stamp())
            self.write(pod, {"phase": "Running", "startTime": self.c.stamp(), "containerStatuses": [started]})

    def write(self, pod: Object, status: Object) -> None:
        def edit(obj: Object) -> None:
            obj["spec"]["nodeName"] = "n1"
            obj["status"] = {**obj["status"], **status}
            if self.observes:
                obj["status"]["observedGeneration"] = obj["metadata"].get("generation", 1)

        self.c.api.edit(PODS, NS, pod["metadata"]["name"], edit)

    def finish(self, pod: Object, code: int, said: str = "", **more: Any) -> None:
        ended = terminated(code, finished=self.c.stamp(), reason=said)
        ended["state"]["terminated"]["startedAt"] = pod["status"]["startTime"]
        self.write(pod, {"phase": "Failed" if code else "Succeeded", "containerStatuses": [ended], **more})

    def end(self, unit: int) -> None:
        """The lives of a unit end, or are told to."""
        found = self.ends[unit]
        for one, pod in list(self.pods()):
            if one == unit and pod["status"].get("phase") == "Running" and not _told(pod):
                self.end_pod(pod, found)

    def end_pod(self, pod: Object, found: End) -> None:
        match found.kind:
            case "completes":
                self.finish(pod, 0)
            case "fails" | "saves":
                self.finish(pod, FAILED if found.kind == "fails" else SAVED, "Error")
            case "killed":
                self.finish(pod, 137, "Error")
            case "memory":
                self.finish(pod, 137, "OOMKilled")
            case "limit":
                said = 'Usage of EmptyDir volume "scratch" exceeds the limit "1Gi". '
                self.finish(pod, 137, "Error", phase="Failed", reason="Evicted", message=said)
            case "kubelet":
                by = [self.condition("TerminationByKubelet")]
                self.finish(pod, 137, "Error", reason="Evicted", message="The node was low on memory", conditions=by)
            case "lost":
                self.finish(pod, 255, "Unknown", phase="Failed")
            case kind:
                if kind in DISRUPTIONS:
                    self.write(pod, {"conditions": [self.condition(DISRUPTIONS[kind])]})
                self.c.api.delete(PODS, NS, pod["metadata"]["name"])

    def condition(self, reason: str) -> Object:
        return {"type": "DisruptionTarget", "status": "True", "reason": reason, "lastTransitionTime": self.c.stamp()}

    def stop(self) -> None:
        """Pods that were told to stop do so after a while, and their kubelets delete them for good."""
        now = self.c.clock.monotonic()
        for unit, pod in list(self.pods()):
            meta, phase = pod["metadata"], pod["status"].get("phase")
            if not _told(pod):
                continue
            since = self.told.setdefault(meta["uid"], now)
            if phase == "Running" and now >= since + self.grace:
                self.finish(pod, self.ends[unit].code, "Error" if self.ends[unit].code else "")
            elif phase == "Pending":
                self.write(pod, {"phase": "Failed"})
            elif phase in ("Succeeded", "Failed") and meta.get("deletionGracePeriodSeconds"):
                self.c.api.delete(PODS, NS, meta["name"], grace=0)

    async def pass_time(self, seconds: float, step: float = 1.0) -> None:
        until = self.c.clock.monotonic() + seconds
        while (left := until - self.c.clock.monotonic()) > 0.001:
            self.stop()
            await self.c.turn(min(step, left))

    def edit_all(self, **spec: Any) -> None:
        for job in list(self.c.api.stored(SCAVENGERJOBS)):
            self.c.api.edit(SCAVENGERJOBS, NS, job["metadata"]["name"], lambda obj: obj["spec"].update(spec))

    def note_done(self) -> None:
        phases = self.c.phases()
        self.done = {unit for unit in range(UNITS) if phases[f"job-{unit}"] in OVER}


OVER: Final = ("Completed", "Failed")


def _told(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def books(c: Harness, shape: str) -> dict[str, float]:
    """What the statuses of a shape say, taken together."""
    found = dict.fromkeys(("interrupted", "useful", "lost", "completed", "failed", "retries"), 0.0)
    for job in c.api.stored(SCAVENGERJOBS):
        name, status = job["metadata"]["name"], job.get("status") or {}
        if name.partition("-")[0] != shape:
            continue
        found["interrupted"] += status.get("interruptedCount", 0)
        found["useful"] += status.get("usefulCPUSeconds", 0)
        found["lost"] += status.get("lostCPUSeconds", 0)
        found["retries"] += status.get("retries", 0)
        array = status.get("array", {})
        found["retries"] += sum(parse_counts(array.get("retriesUsed", "")).values())
        if shape == "array":
            found["completed"] += array.get("completed", 0)
            found["failed"] += array.get("failed", 0)
        else:
            found["completed"] += status["phase"] == "Completed"
            found["failed"] += status["phase"] == "Failed"
    return {name: round(value, 3) for name, value in found.items()}


def alike(book: dict[str, float], job: dict[str, float], slack: int, early: int) -> bool:
    """Whether two books say the same. slack: seconds that a task may be booked for longer; early: for less time."""
    more = book["useful"] + book["lost"] - job["useful"] - job["lost"]
    counts = [{name: one[name] for name in one if name not in ("useful", "lost")} for one in (book, job)]
    exact = slack or all(book[name] == job[name] for name in ("useful", "lost"))
    return counts[0] == counts[1] and bool(exact) and -early <= more <= slack


async def play(seed: int, *, limited: bool = False) -> None:
    """One history. Raises AssertionError where shapes differ after a round. limited: with fields that limit a job."""
    chance = random.Random(seed)
    shapes = OF_ONE if limited else SHAPES
    async with empty_harness() as c:
        c.node()
        c.kubelet = False  # it is played here, and renews its Lease
        c.renews = True
        c.api.store.graceful_pods = True
        made = Play(c, bool(seed % 2), shapes, limits(chance) if limited else {})
        admitter: Instance = c.admitter()
        made.submit()
        slack = 0
        for one in rounds(chance, made.limited):
            made.ends = one.ends
            made.grace = chance.randrange(2, 28)
            await c.until(made.all_wait, limit=3600, step=1.0)
            made.begin()
            admitter = await play_round(made, one, admitter)
            await c.until(lambda: quiet(made), limit=3600, step=3.0)
            found = {shape: books(c, shape) for shape in shapes}
            # A pod is seen to end in the second after its grace period.
            slack += sum({"deleted": made.grace + 1, "lost": SEEN_WITHIN}.get(end.kind, 0) for end in one.ends)
            slack += (made.grace + 1) * UNITS if made.limited else 0  # a limit may end any of them
            early = ASKED_WITHIN if made.limited else 0
            differ = {shape: book for shape, book in found.items() if not alike(book, found["job"], slack, early)}
            assert not differ, f"seed {seed}, {one}: a job has {found['job']}, but {differ}"
            made.note_done()
            if len(made.done) == UNITS:
                assert set(c.phases().values()) <= set(OVER), c.phases()
                return


async def play_round(made: Play, one: Round, admitter: Instance) -> Instance:
    """The lives of a round end."""
    c, passed = made.c, 0
    gone = False
    for unit in sorted(set(range(UNITS)) - made.done, key=lambda unit: one.ends[unit].after):
        await made.pass_time(one.ends[unit].after - passed, step=1.0 if made.limited else 5.0)
        passed = one.ends[unit].after
        if one.takeover == "before" and not gone:
            await admitter.kill()
            gone = True
        made.end(unit)
    if one.suspended is not None:
        await made.pass_time(one.suspended)
        made.edit_all(suspend=True)
    if one.takeover == "after":
        await made.pass_time(1)
        await admitter.kill()
        gone = True
    if gone:
        await made.pass_time(40)
        admitter = c.admitter()
    if one.suspended is not None:
        await made.pass_time(60)
        made.edit_all(suspend=False)
    return admitter


def quiet(made: Play) -> bool:
    """Whether all lives are judged: every unit that goes on has a pod that waits, and those that were stopped have
    ended."""
    made.stop()
    jobs, waiting = made.c.api.stored(SCAVENGERJOBS), made.waiting()
    if any(_told(pod) and names.FINALIZER in pod["metadata"].get("finalizers", ()) for _, pod in made.pods()):
        return False
    return all(
        sum(pod["metadata"]["labels"][names.LABEL_JOB].partition("-")[0] == shape for pod in waiting)
        == _open(jobs, shape)
        for shape in made.shapes
    )


def _open(jobs: Any, shape: str) -> int:
    """Units of a shape that are not over."""
    found = 0
    for job in jobs:
        status = job.get("status") or {}
        if job["metadata"]["name"].partition("-")[0] != shape or status.get("phase") in OVER:
            continue
        array = status.get("array") or {}
        tasks = job["spec"]["array"]["tasks"] if "array" in job["spec"] else 1
        found += tasks - array.get("completed", 0) - array.get("failed", 0)
    return found


@pytest.mark.parametrize("seed", range(GATE))
async def test_an_end_counts_alike_whatever_it_ends(seed: int) -> None:
    await play(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(GATE, SEEDS))
async def test_an_end_counts_alike_in_more_histories(seed: int) -> None:
    await play(seed)


@pytest.mark.parametrize("seed", range(GATE // 2))
async def test_an_array_of_one_keeps_to_the_limits_of_a_job(seed: int) -> None:
    await play(seed, limited=True)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(GATE // 2, SEEDS))
async def test_an_array_of_one_keeps_to_the_limits_of_a_job_in_more_histories(seed: int) -> None:
    await play(seed, limited=True)
