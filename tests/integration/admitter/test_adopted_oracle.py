"""Adopted Jobs to which nothing happens from outside, and the same Jobs under the built-in Job controller: every status
that a client can see is the same, but for what is told (`oracle.TOLD`).
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import pytest
from scavenger_api import names
from scavenger_cluster import Cluster, kwok
from scavenger_domain.checkpoints import FINISHED
from scavenger_kube.errors import ApiError, NotFound
from scavenger_kube.resources import MERGE_PATCH

from . import oracle
from .conftest import ADOPT, Object, Place, namespace, start_admitter
from .oracle import Drawn, Step
from .recorder import Recorder
from .test_managed_jobs import finish, kubectl

pytestmark = pytest.mark.timeout(600)

PATIENCE: Final = 120.0
"""Seconds within which a Job comes to rest: after a failure the Job controller waits, and counts alone are written
every 10 s."""
LOOK_EVERY: Final = 0.4
SAMPLE: Final = 20
"""Jobs in the gate. They have everything that is to be compared."""
KNOWN: Final = 50
"""Jobs that have been compared ever since: the sample, and others."""
AT_ONCE: Final = 100
"""Jobs that are compared at a time."""


@pytest.fixture
def places(cluster: Cluster, recorder: Recorder, adopting: None) -> Iterator[tuple[Place, Place]]:
    """A namespace whose Jobs the built-in controller runs, and one whose Jobs are adopted."""
    start_admitter(cluster, **ADOPT)
    with namespace(cluster, recorder) as plain, namespace(cluster, recorder) as served:
        cluster.kubectl("label", "namespace", served.namespace, f"{names.LABEL_ADOPT}={names.ADOPT_LABELLED}")
        for one in (plain, served):
            one.wait_account()
        served.wait("Jobs to be adopted", lambda: is_adopted(served))
        yield plain, served
        for one in (plain, served):
            kubectl(one, "delete", "jobs", "--all", "--wait=false", "--cascade=background")


def is_adopted(place: Place) -> bool:
    """Whether a Job that asks for it would be adopted there."""
    asked = body("trial", {names.LABEL_QUEUE: names.DEFAULT_QUEUE}, {})
    try:
        found = place.cluster.client.request("POST", f"{place.path('jobs')}?dryRun=All", asked)
    except ApiError:
        return False
    return bool(found["spec"].get("managedBy") == names.MANAGED_BY_ADOPTER)


@dataclass
class Half:
    """A Job in one of the two namespaces."""

    place: Place
    name: str
    job: Object = field(default_factory=dict)
    pods: Sequence[Object] = ()

    @property
    def rests(self) -> bool:
        return bool(self.job) and oracle.at_rest(self.job, self.pods)

    @property
    def seen(self) -> Object:
        return oracle.seen(self.job, self.pods)

    def act(self, step: Step) -> None:
        """Have this happen."""
        if step.act == "end":
            for pod in oracle.alive(self.pods)[:1]:
                self.end(pod, step.value)
        else:
            change = {"parallelism": step.value} if step.act == "width" else {"suspend": step.act == "suspend"}
            path = f"{self.place.path('jobs')}/{self.name}"
            self.place.cluster.client.request("PATCH", path, {"spec": change}, MERGE_PATCH)

    def end(self, pod: Object, code: int = 0) -> None:
        """Its program ends; one that has done its work says so. A Job that fails deletes the others meanwhile."""
        with suppress(NotFound):
            finish(self.place, pod, code, "" if code else FINISHED)

    def end_all(self) -> None:
        """All programs that run do their work."""
        for pod in filter(oracle.runs, oracle.alive(self.pods)):
            self.end(pod)


class Pair:
    """A Job in both namespaces, and what happens to it."""

    def __init__(self, seed: int, drawn: Drawn, plain: Place, served: Place) -> None:
        self.drawn = drawn
        self.halves = (Half(plain, f"j{seed}"), Half(served, f"j{seed}"))
        self.steps = list(drawn.steps)
        self.since = time.monotonic()
        self.done = False
        self.ending = not drawn.ends
        """All its pods may end, or its deadline passes: only its end is compared."""
        self.found: list[str] = []
        """What differs."""
        self.compared = 0

    def look(self) -> None:
        """Go on where both are at rest."""
        if self.done:
            return
        ended = all(oracle.over(half.job) for half in self.halves)
        if not all(half.rests for half in self.halves) or (self.ending and not ended):
            self._wait()
            return
        plain, served = (half.seen for half in self.halves)
        self.compared += 1
        self.found += oracle.differences(plain, served)
        if self.found or ended:
            self.done = True
            return
        self.since = time.monotonic()
        if self.drawn.one_by_one and not self.steps:
            self.steps.append(Step("end"))
        if self.steps:
            step = self.steps.pop(0)
            for half in self.halves:
                half.act(step)
                half.job = {}  # what is known is from before
        else:
            self.ending = True

    def _wait(self) -> None:
        if self.ending and self.drawn.ends:
            for half in self.halves:
                half.end_all()
        if time.monotonic() - self.since > PATIENCE:
            rest = [half.rests for half in self.halves]
            self.found.append(f"after {PATIENCE:.0f} s at rest: built-in {rest[0]}, adopted {rest[1]}")
            self.done = True

    def told(self) -> str:
        """The Job and what happened, as YAML, and what is not the same."""
        lines = [*self.found, json.dumps({"spec": self.drawn.spec, "steps": [str(one) for one in self.drawn.steps]})]
        lines += [f"  {json.dumps(half.job.get('status'))}" for half in self.halves]
        return "\n".join([self.halves[0].name, *lines])


def body(name: str, labels: Object, spec: Object) -> Object:
    """A Job as its user writes it."""
    resources = {"requests": {"cpu": "50m", "memory": "16Mi"}}
    container = {"name": "work", "image": "none", "resources": resources}
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
    meta, stops = {"name": name, "labels": labels}, {kwok.STOP_EXIT_CODE: str(oracle.stops_with(spec))}
    template = {"metadata": {"annotations": stops}, "spec": pod}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {**spec, "template": template}}


def compare(plain: Place, served: Place, drawn: Iterable[tuple[int, Drawn]]) -> list[Pair]:
    """Play these Jobs in both namespaces, all at once."""
    pairs = [Pair(seed, one, plain, served) for seed, one in drawn]
    for place, labels in ((plain, {}), (served, {names.LABEL_QUEUE: names.DEFAULT_QUEUE})):
        bodies = [body(pair.halves[0].name, labels, pair.drawn.spec) for pair in pairs]
        place.cluster.client.create_all(place.path("jobs"), bodies)
    while not all(pair.done for pair in pairs):
        for at, place in enumerate((plain, served)):
            _show([pair.halves[at] for pair in pairs if not pair.done], place)
        for pair in pairs:
            pair.look()
        time.sleep(LOOK_EVERY)
    return pairs


def _show(halves: Sequence[Half], place: Place) -> None:
    """Look at Jobs and pods. The Jobs first: a pod that comes between is not at rest."""
    jobs, pods = {one["metadata"]["name"]: one for one in place.all("jobs")}, defaultdict[str, list[Object]](list)
    for pod in place.all("pods"):
        for owner in pod["metadata"].get("ownerReferences", ()):
            pods[owner["name"]].append(pod)
    for half in halves:
        half.job, half.pods = jobs.get(half.name, {}), pods[half.name]


def hold(pairs: Sequence[Pair]) -> None:
    """All are the same."""
    wrong = [pair.told() for pair in pairs if pair.found]
    assert not wrong, f"{len(wrong)} of {len(pairs)} differ:\n" + "\n\n".join(wrong)
    assert sum(pair.compared for pair in pairs) > len(pairs)


@pytest.mark.parametrize(
    "seeds", [range(SAMPLE), pytest.param(range(SAMPLE, KNOWN), marks=pytest.mark.long)], ids=["sample", "others"]
)
def test_jobs_are_seen_as_those_of_the_job_controller_are(places: tuple[Place, Place], seeds: range) -> None:
    hold(compare(*places, [(seed, oracle.draw(seed)) for seed in seeds]))


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("first", range(1000, 1500, AT_ONCE))
def test_five_hundred_jobs_are_seen_as_those_of_the_job_controller_are(places: tuple[Place, Place], first: int) -> None:
    """With more failures and more steps, which take longer. first: seed of these."""
    drawn = [(seed, oracle.draw(seed, failures=2, most=4)) for seed in range(first, first + AT_ONCE)]
    hold(compare(*places, drawn))


# --- of the oracle itself ---


def test_what_is_drawn_has_everything_that_is_to_be_compared() -> None:
    drawn = [oracle.draw(seed) for seed in range(SAMPLE)]
    fields = {name for one in drawn for name in one.spec}
    assert fields >= {
        "completions",
        "completionMode",
        "backoffLimit",
        "podFailurePolicy",
        "suspend",
        "activeDeadlineSeconds",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
        "successPolicy",
    }
    assert {step.act for one in drawn for step in one.steps} == {"end", "suspend", "resume", "width"}
    actions = {rule["action"] for one in drawn for rule in one.spec.get("podFailurePolicy", {}).get("rules", ())}
    assert actions >= {"FailJob", "Ignore", "Count"}
    assert any("completions" not in one.spec for one in drawn), "work queues"
    assert oracle.draw(7) == oracle.draw(7)


def test_a_job_that_nobody_has_looked_at_has_no_failed_indexes() -> None:
    """The Job controller says so before it creates a pod, and the admitter with its first status."""
    job: Object = {"metadata": {"name": "j", "namespace": "n"}, "spec": {"backoffLimitPerIndex": 0}}
    written = {"failedIndexes": "", "ready": 0, "startTime": "2026-01-02T00:00:00Z"}
    assert oracle.differences(oracle.seen({**job, "status": written}, []), oracle.seen(job, [])) == []
    assert oracle.differences(
        oracle.seen({**job, "status": written}, []), oracle.seen({**job, "status": {"ready": 0}}, [])
    )


@pytest.mark.parametrize(
    "change",
    [
        {"failed": 1},
        {"succeeded": 0},
        {"completedIndexes": "0"},
        {"completionTime": "2026-01-01T00:00:00Z"},
        {"conditions": []},
        {"uncountedTerminatedPods": {"failed": ["u"]}},
    ],
)
def test_what_is_not_the_same_is_found(change: Object) -> None:
    complete = {"type": "Complete", "status": "True", "reason": "CompletionsReached", "message": "done"}
    job: Object = {
        "metadata": {"name": "j", "namespace": "n"},
        "spec": {},
        "status": {
            "succeeded": 1,
            "startTime": "2026-01-02T00:00:00Z",
            "completionTime": "2026-01-02T01:00:00Z",
            "conditions": [complete],
        },
    }
    ledger = {"type": names.CONDITION_LEDGER, "status": "False", "reason": "Ended", "message": "{}"}
    told = {**job, "status": {**job["status"], "conditions": [complete, ledger]}}
    assert oracle.differences(oracle.seen(job, []), oracle.seen(told, [])) == []
    other = {**job, "status": {**job["status"], **change}}
    assert oracle.differences(oracle.seen(job, []), oracle.seen(other, []))
