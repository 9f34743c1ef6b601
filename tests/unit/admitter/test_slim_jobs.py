"""Of a large spec a part is kept: what admission reads. A spec that is too large is told and never started."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scavenger_admitter.core.adopted.ledger import write_ledger
from scavenger_admitter.core.adopted.work import AdoptedJob
from scavenger_admitter.core.manifest import pod_labels
from scavenger_admitter.facts import candidate, shape_of
from scavenger_admitter.slim_jobs import DECODED_BYTES, KEPT_BYTES, size_of, slim, slim_adopted
from scavenger_admitter.writer import SCAVENGERJOBS
from scavenger_api.array import ArrayStatus
from scavenger_api.indexes import format_indexes, set_of
from scavenger_api.job import MAX_PARALLELISM, Phase, ScavengerJob, ScavengerJobSpec, ScavengerJobStatus
from scavenger_api.names import CONDITION_LEDGER, LABEL_QUEUE, MAX_PODS_BYTES, MAX_SPEC_BYTES
from scavenger_api.rules.size import spec_bytes
from scavenger_api.rules.snapshot import snapshot_problems
from scavenger_api.rules.template import MAX_PLACING_BYTES, start_problems
from scavenger_kube.decode import ModelDecoder
from scavenger_kube.resources import JOBS
from scavenger_testing.builders import adopted_job_dict, scavengerjob_dict

from . import builders as b
from .harness import NS, empty_harness, runs
from .test_adopted_jobs import adopting, state, written
from .test_queue_controller import queue


def variables(size: int, count: int = 4) -> list[dict[str, Any]]:
    """So many variables of so many bytes together, and one that refers to a Secret."""
    secret = {"secretKeyRef": {"name": "token", "key": "token"}}
    return [
        *({"name": f"V{number}", "value": "x" * (size // count)} for number in range(count)),
        {"name": "TOKEN", "valueFrom": secret},
    ]


def test_what_admission_reads_is_kept_of_a_large_spec() -> None:
    spec = {"env": variables(100_000), "args": ["y" * 50_000], "nodeSelector": {"disk": "ssd"}, "parallelism": 3}
    job = b.job(spec=spec)
    kept = slim(job)
    assert spec_bytes(kept.spec) < 1_000
    assert size_of(kept) == spec_bytes(job.spec) > 150_000
    assert (kept.spec.placed_by, kept.spec.node_selector, kept.spec.parallelism) == (
        job.spec.placed_by, job.spec.node_selector, job.spec.parallelism)  # fmt: skip
    assert [variable.name for variable in kept.spec.env or ()] == ["TOKEN"]


def test_a_small_spec_is_kept_as_it_is_without_labels_and_annotations() -> None:
    job = b.job()
    assert slim(job) is job
    meta = job.metadata.model_copy(update={"annotations": {"spec-bytes": "7", "note": "x" * 200_000}})
    kept = slim(job.model_copy(update={"metadata": meta}))
    assert (kept.metadata.annotations, kept.spec, size_of(kept)) == ({}, job.spec, None)


def test_a_spec_that_has_not_changed_stays_the_same_object() -> None:
    first = slim(b.job())
    assert first.spec.requests, "worked out once"
    again = b.job()
    assert again.spec is not first.spec
    meta = again.metadata.model_copy(update={"resource_version": "2", "labels": {"a": "b"}})
    kept = slim(again.model_copy(update={"metadata": meta}), first)
    assert kept.spec is first.spec
    assert (kept.metadata.resource_version, kept.metadata.labels) == ("2", {})
    changed = b.job(spec={"parallelism": 7})
    assert slim(changed, first).spec is changed.spec
    large = b.job(spec={"env": variables(100_000)})
    assert size_of(slim(large, slim(large))) == spec_bytes(large.spec)


@pytest.mark.parametrize("large", [{"env": variables(100_000)}, {"env": variables(1_000)}], ids=["part", "whole"])
def test_what_was_kept_of_a_spec_stays_where_it_is_not_read_again(large: dict[str, Any]) -> None:
    """No annotation of a user says how large the spec was."""
    given = scavengerjob_dict("a", **large)
    given["metadata"] |= {"uid": "u", "generation": 1, "resourceVersion": "7"}
    whole = ScavengerJob.model_validate(given)
    kept = slim(whole)
    given["metadata"] |= {"resourceVersion": "8", "annotations": {"spec-bytes": "5"}}
    given["status"] = {"phase": "Waiting"}
    decoder = ModelDecoder(ScavengerJob)
    again = slim(decoder.next_version(msgspec.json.encode(given), kept), kept)
    assert again.spec is kept.spec
    assert (size_of(again), again.status.phase) == (size_of(kept), "Waiting")
    assert slim(decoder.next_version(msgspec.json.encode(given), again), kept) == again, "as it was written"
    assert again == slim(ScavengerJob.model_validate(given), kept)


def test_a_job_that_is_read_in_one_piece_is_read_whole() -> None:
    """The queue of an adopted Job is a label of it."""
    given = adopted_job_dict("a", queue="q")
    given["metadata"]["resourceVersion"] = "7"
    before = AdoptedJob.model_validate(given)
    given["metadata"] |= {"resourceVersion": "8", "labels": {LABEL_QUEUE: "other"}}
    found = ModelDecoder(AdoptedJob).next_version(msgspec.json.encode(given), before)
    assert (before.spec.queue, found.spec.queue) == ("q", "other")


def test_nothing_large_is_left_of_a_spec_that_is_too_large() -> None:
    mounts = [
        {"name": "n" * 250, "mountPath": f"/{number}" + "p" * 1000, "subPath": "s" * 1000} for number in range(60)
    ]
    whole = {"env": variables(200_000), "configMaps": mounts, "secrets": [], "command": ["c" * 100_000]}
    job = b.job(spec=whole)
    assert spec_bytes(job.spec) > MAX_SPEC_BYTES
    assert spec_bytes(slim(job).spec) < KEPT_BYTES


# --- templates ----------------------------------------------------------------------------------

ROOM = MAX_SPEC_BYTES - 2_000
"""Bytes for what repeats in a template, so that the spec is as large as it may be."""


def many(size: int, one: Callable[[int], dict[str, Any]]) -> list[dict[str, Any]]:
    """As many of these as have so many bytes together."""
    found: list[dict[str, Any]] = []
    while (size := size - len(msgspec.json.encode(one(len(found)))) - 1) > 0:
        found.append(one(len(found)))
    return found


def templated(size: int, where: str, one: Callable[[int], dict[str, Any]]) -> dict[str, Any]:
    """A ScavengerJob with a template of so many bytes of these in a field of the pod, or of its container."""
    pod: dict[str, Any] = {"containers": [{"name": "main", "image": "i", "resources": {"requests": AMOUNTS}}]}
    kind, _, field = where.partition(".")
    into = pod if kind == "pod" else pod["containers"][0]
    into[field] = many(size, one)
    made = scavengerjob_dict(template={"spec": pod})
    made["spec"].update(image=None, resources=None)
    return made


LARGE: dict[str, tuple[str, Callable[[int], dict[str, Any]]]] = {
    "mounts": ("container.volumeMounts", lambda number: {"name": "v", "mountPath": f"/{number}"}),
    "tolerations": ("pod.tolerations", lambda number: {"key": str(number)}),
    "variables": ("container.env", lambda number: {"name": f"E{number}", "valueFrom": {"fieldRef": {}}}),
    "nothing": ("pod.hostAliases", lambda number: {}),
    "volumes": ("pod.volumes", lambda number: {"name": f"v{number}", "configMap": {"name": f"c{number}"}}),
    "containers": ("pod.initContainers", lambda number: {"name": f"c{number}"}),
}
"""Lists of which a template may have as many as fit."""


@pytest.mark.parametrize(
    ("kind", "size"),
    [
        ("mounts", ROOM),
        ("nothing", ROOM),
        *((kind, KEPT_BYTES - 2_000) for kind in LARGE),
        *((kind, DECODED_BYTES - 1_000) for kind in LARGE),
    ],
)
def test_no_template_takes_much_more_memory_than_its_json_may_have(kind: str, size: int) -> None:
    """As objects, it would take up to 9 MiB."""
    others = [templated(2 * DECODED_BYTES - 10 * number, *LARGE["nothing"]) for number in range(2)]
    tracemalloc.start()
    try:
        kept = _listed(templated(size, *LARGE[kind]))
        read(kept[0])
        for other in _listed(*others):  # then those are decoded that were read last
            read(other)
        del other
        gc.collect()
        with_it, _ = tracemalloc.get_traced_memory()
        kept.clear()
        gc.collect()
        without, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert with_it - without < 1.1 * MAX_SPEC_BYTES


def _listed(*jobs: dict[str, Any]) -> list[ScavengerJob]:
    """What is kept of the jobs on one page."""
    body = msgspec.json.encode({"metadata": {"resourceVersion": "1"}, "items": jobs})
    return [slim(job) for job in ModelDecoder(ScavengerJob).page(body).items]


@pytest.mark.parametrize("kind", LARGE)
def test_a_template_that_has_not_changed_stays_the_same_object(kind: str) -> None:
    job = ScavengerJob.model_validate(templated(ROOM, *LARGE[kind]))
    again = ScavengerJob.model_validate({**templated(ROOM, *LARGE[kind]), "status": {"message": "later"}})
    first = slim(job)
    kept = slim(again, first)
    assert kept.spec is first.spec
    assert (kept.status.message, size_of(kept)) == ("later", size_of(first))
    other = ScavengerJob.model_validate(templated(ROOM - 100, *LARGE[kind]))
    assert slim(other, first).spec != first.spec


def test_little_is_left_of_a_template_that_is_too_large() -> None:
    """Whatever it is that makes it large; its job waits, and is told why."""
    amounts = {**AMOUNTS, **{f"example.com/{number}": "1" for number in range(20_000)}}
    containers = [{"name": f"c{n}", "image": "i" * 5_000, "resources": {"requests": amounts}} for n in range(2)]
    spec = {"image": None, "resources": None, "mainContainer": "c1", "template": {"spec": {"containers": containers}}}
    job = b.job(spec=spec)
    kept = slim(job)
    assert (size_of(kept) or 0) > MAX_SPEC_BYTES
    assert spec_bytes(kept.spec) < DECODED_BYTES
    assert kept.spec.main_name == "c1"


async def test_a_template_that_is_too_large_is_told_and_not_started() -> None:
    async with empty_harness() as c:
        c.node()
        c.admitter()
        made = templated(MAX_SPEC_BYTES, *LARGE["mounts"])
        c.submit("large", image=None, resources=None, template=made["spec"]["template"])
        await c.until(lambda: "bytes as JSON are more than" in c.status("large").get("message", ""))
        assert c.phase("large") == "Waiting"
        assert c.jobs_ever("large") == 0


async def test_a_job_that_is_placed_by_too_much_fails() -> None:
    """The admitter keeps that of all jobs that wait, and compares it."""
    async with empty_harness() as c:
        c.node()
        c.admitter()
        made = templated(MAX_PLACING_BYTES, *LARGE["tolerations"])
        c.submit("many", image=None, resources=None, template=made["spec"]["template"])
        await c.until(lambda: c.phase("many") == "Failed")
        assert f"more than the {MAX_PLACING_BYTES} that a job may be placed by" in c.status("many")["message"]


async def test_a_large_template_goes_into_the_job() -> None:
    async with empty_harness() as c:
        c.node()
        c.admitter()
        made = templated(ROOM, *LARGE["mounts"])
        c.submit("large", image=None, resources=None, template=made["spec"]["template"])
        await runs(c, "large")
        whole = c.api.get(JOBS, NS, "large")
        assert whole is not None
        there = whole["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]
        assert there == made["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]


async def test_the_whole_spec_goes_into_the_job() -> None:
    async with empty_harness() as c:
        c.node()
        c.admitter()
        c.submit("a", env=variables(100_000))
        await runs(c, "a")
        whole = c.api.get(JOBS, NS, "a")
        assert whole is not None
        env = whole["spec"]["template"]["spec"]["containers"][0]["env"]
        assert sum(len(variable.get("value", "")) for variable in env) > 100_000


async def test_a_job_starts_in_the_queue_whose_capacity_it_was_granted() -> None:
    """The whole spec is read when the Job is created: by then its user may have moved it."""
    async with empty_harness() as c:
        for name in ("a", "b"):
            queue(c, name)
        c.admitter()
        c.submit("large", queue="a", env=variables(100_000))
        await c.until(lambda: c.phase("large") == "Waiting")
        c.api.hold_watches(SCAVENGERJOBS)
        c.api.edit(SCAVENGERJOBS, NS, "large", lambda job: job["spec"].update(queue="b"))
        c.node()
        await c.pass_time(5)
        assert c.jobs_ever("large") == 0
        c.api.release_watches(SCAVENGERJOBS)
        await runs(c, "large")
        assert {pod["metadata"]["labels"][LABEL_QUEUE] for pod in c.pods("large")} == {"b"}


@pytest.mark.parametrize(
    "fields", [{"env": variables(MAX_SPEC_BYTES + 1)}, {"env": variables(30_000), "parallelism": 9999}]
)
async def test_a_spec_that_is_too_large_is_told_and_not_started(fields: dict[str, Any]) -> None:
    async with empty_harness() as c:
        c.node()
        c.admitter()
        c.submit("large", **fields)
        c.submit("small")
        await runs(c, "small")
        await c.until(lambda: "bytes as JSON are more than" in c.status("large").get("message", ""))
        admitted = next(one for one in c.status("large")["conditions"] if one["type"] == "Admitted")
        assert admitted["reason"] == "SpecTooLarge"
        assert c.jobs_ever("large") == 0


def test_the_most_pods_of_a_spec_whose_size_is_not_noted_are_not_too_large() -> None:
    assert KEPT_BYTES * MAX_PARALLELISM <= MAX_PODS_BYTES


# --- what rules read is the same ----------------------------------------------------------------

READ = [
    name
    for name, kind in vars(ScavengerJobSpec).items()
    if isinstance(kind, property | cached_property) and name not in ("written_template", "program")
]
"""All that a spec says of itself, but for the text of its containers, which goes into the Job as a whole."""


def read(job: ScavengerJob) -> Mapping[str, object]:
    """All that admission and lifecycle read of a job."""
    spec = job.spec
    return {
        **{name: getattr(spec, name) for name in READ},
        **{kind: spec.references(kind) for kind in ("configmap", "secret", "persistentvolumeclaim")},
        "labels": pod_labels(job),
        "shape": shape_of(job),
        "candidate": candidate(job, 0),
        "problems": [*start_problems(spec), *snapshot_problems(spec)],
    }


def some(**fields: Any) -> st.SearchStrategy[dict[str, Any]]:
    """Any of these fields, each of them there or not."""
    return st.fixed_dictionaries({}, optional={name: st.sampled_from(values) for name, values in fields.items()})


APART = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}
ZONE = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
REFERS = [
    {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
    {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}},
    {"name": "C", "value": "x" * 5000},
]
AMOUNTS = {"cpu": "1", "memory": "1Gi"}
CONTAINERS = some(
    image=["i:1", "j"],
    command=[["run"], []],
    env=[REFERS, REFERS[:1], []],
    envFrom=[[{"secretRef": {"name": "whole"}}], [{"configMapRef": {"name": "w", "optional": True}}]],
    resources=[{"requests": AMOUNTS}, {"limits": {**AMOUNTS, "nvidia.com/gpu": "2"}}],
    volumeMounts=[[{"name": "state", "mountPath": "/s"}], [{"name": "state", "mountPath": "/s", "readOnly": True}]],
    restartPolicy=["Always"],
    securityContext=[{"runAsUser": 7}],
)
PODS = some(
    nodeSelector=[{"disk": "ssd"}],
    tolerations=[[{"key": "k", "operator": "Exists"}]],
    affinity=[
        {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [APART]}},
        {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ZONE}},
    ],
    volumes=[
        [{"name": "state", "persistentVolumeClaim": {"claimName": "p"}}],
        [{"name": "c", "configMap": {"name": "v"}}, {"name": "e", "ephemeral": {}}],
        [{"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}],
    ],
    serviceAccountName=["robot"],
    serviceAccount=["old"],
    terminationGracePeriodSeconds=[7],
    overhead=[{"cpu": "1"}],
    resources=[{"requests": {"cpu": "3", "memory": "2Gi"}}],
    runtimeClassName=["gvisor"],
    topologySpreadConstraints=[[{"maxSkew": 1}]],
    schedulingGates=[[{"name": "a/b"}]],
    hostNetwork=[True],
)
MARKS = st.none() | some(labels=[{"app": "a"}, {"scavenger.dev/x": "y"}], annotations=[{"a": "b"}])
AROUND = some(
    parallelism=[1, 3],
    capacity=["Reclaimed"],
    snapshot=[{"volume": "state", "every": "1m"}],
    interruptionAfter=["5m"],
    checkpointExitCode=[9],
)


@given(pod=PODS, first=CONTAINERS, init=st.none() | CONTAINERS, marks=MARKS, around=AROUND)
def test_all_that_is_read_of_a_template_is_kept_of_a_large_one(
    pod: dict[str, Any],
    first: dict[str, Any],
    init: dict[str, Any] | None,
    marks: dict[str, Any] | None,
    around: dict[str, Any],
) -> None:
    containers = [{"name": "one", "image": "i", "args": ["y" * KEPT_BYTES], **first}]
    inits = [{"name": "init", "image": "i", **init}] if init is not None else []
    template = {"metadata": marks, "spec": {**pod, "containers": containers, "initContainers": inits}}
    job = b.job(spec={**around, "image": None, "resources": None, "template": template})
    assert size_of(slim(job)) is not None
    assert read(slim(job)) == read(job)


SHORT = some(
    command=[["run"]],
    env=[REFERS, REFERS[:1]],
    envFrom=[[{"secretRef": {"name": "whole"}}]],
    nodeSelector=[{"disk": "ssd"}],
    tolerations=[[{"key": "k", "operator": "Exists"}]],
    configMaps=[[{"name": "v", "mountPath": "/v"}]],
    secrets=[[{"name": "v", "mountPath": "/w"}]],
    persistentVolumeClaims=[[{"name": "state", "mountPath": "/s"}]],
    serviceAccountName=["robot"],
)


@given(fields=SHORT, around=AROUND)
def test_all_that_is_read_of_a_short_form_is_kept_of_a_large_one(
    fields: dict[str, Any], around: dict[str, Any]
) -> None:
    job = b.job(spec={**fields, **around, "args": ["y" * KEPT_BYTES]})
    assert size_of(slim(job)) is not None
    assert read(slim(job)) == read(job)


# --- Jobs of users ------------------------------------------------------------------------------

MEBIBYTE = 2**20
MOST_OF_A_JOB = 128 * 1024
"""Bytes that the admitter keeps of a Job, whatever its user writes."""
HOSTILE: dict[str, Callable[[], dict[str, Any]]] = {
    "a template of 1 MiB": lambda: adopted_job_dict(pod={"containers": [program(variables(MEBIBYTE))]}),
    "annotations of 256 KiB": lambda: marked(annotations={f"example.org/{n}": "x" * 1000 for n in range(256)}),
    "labels of 1 MiB": lambda: marked(labels={f"example.org/{n}": "x" * 63 for n in range(MEBIBYTE // 80)}),
    "10,000 completions": lambda: half_done(10_000),
}
"""Jobs as large as the API server takes them, as it has them."""


def program(env: list[dict[str, Any]]) -> dict[str, Any]:
    return {"name": "work", "image": "i", "resources": {"requests": AMOUNTS}, "env": env}


def marked(**marks: dict[str, str]) -> dict[str, Any]:
    made = adopted_job_dict()
    for kind, entries in marks.items():
        made["metadata"][kind] = {**made["metadata"].get(kind, {}), **entries}
    return made


def half_done(completions: int) -> dict[str, Any]:
    """Every other one is done, and the ledger has all that it has space for."""
    made = adopted_job_dict(completions=completions, parallelism=100, completionMode="Indexed")
    others = format_indexes(set_of(range(1, completions, 2)))
    array = ArrayStatus(failed_indexes=others, interrupted_indexes=others)
    ledger = write_ledger(ScavengerJobStatus(phase=Phase.RUNNING, message="m" * 4096, array=array))
    said = {"type": CONDITION_LEDGER, "status": "False", "reason": "Running", "message": ledger}
    done = ",".join(map(str, range(0, completions, 2)))
    made["status"] = {"succeeded": completions // 2, "completedIndexes": done, "conditions": [said]}
    return made


@pytest.mark.parametrize("kind", HOSTILE)
def test_of_a_hostile_job_of_a_user_little_is_kept(kind: str) -> None:
    body = msgspec.json.encode({"metadata": {"resourceVersion": "1"}, "items": [HOSTILE[kind]()]})
    gc.collect()
    tracemalloc.start()
    try:
        kept = [slim_adopted(job) for job in ModelDecoder(AdoptedJob).page(body).items]
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < MOST_OF_A_JOB, held
    assert kept[0].adopted
    assert kept[0].spec.queue == "default"


async def test_a_job_of_a_user_that_is_too_large_is_told_and_not_started() -> None:
    async with adopting() as c:
        c.submit_job("a", pod={"containers": [program(variables(MEBIBYTE))]})
        await c.until(lambda: "bytes as JSON are more than" in c.ledger_of("a").get("say", ""))
        assert (state(c), c.pods("a")) == ("Waiting", [])
        since = len(c.writes())
        await c.pass_time(60)
        assert written(c, since) == []
