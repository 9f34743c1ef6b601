"""What is kept of pods whose finalizer is taken off."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scavenger_api import names
from scavenger_api.removing import RemovalReason
from scavenger_domain.pod_ends import (
    deletion_requested,
    ended_at,
    first_started_at,
    last_report,
    last_words,
    over,
    own_exit,
    removal,
    restarted,
    start_error,
    started_at,
    succeeded,
)
from scavenger_kube.errors import Conflict
from scavenger_kube.kinds import Pod
from scavenger_kube.resources import CONFIGMAPS
from scavenger_runtime.last_words import MAX_BYTES, MAX_MESSAGE, LastWords, read_words, word_of
from scavenger_testing import FakeApi, VirtualClock
from scavenger_testing.builders import pod_dict, terminated

SYSTEM, NAME = names.SYSTEM_NAMESPACE, names.LAST_WORDS[names.REGULATOR]


def pod(number: int = 0, *, message: str = "", **more: Any) -> Pod:
    """A pod that has ended by itself."""
    made = pod_dict(f"p-{number}", namespace="lab", phase="Succeeded", node="n", **more)
    ended = terminated(0)
    ended["state"]["terminated"]["message"] = message
    made["metadata"]["uid"] = f"{number:08d}-0000-0000-0000-000000000000"
    made["status"]["containerStatuses"] = [ended]
    return msgspec.convert(made, Pod)


def configmap(api: FakeApi, data: dict[str, str] | None = None) -> None:
    meta = {"name": NAME, "namespace": SYSTEM}
    api.put(CONFIGMAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data or {}})


def data(api: FakeApi) -> dict[str, str]:
    found = api.get(CONFIGMAPS, SYSTEM, NAME)
    return dict(found.get("data") or {}) if found is not None else {}


def test_what_tenants_write_takes_little_space() -> None:
    long = "x" * 100_000
    said = pod(message=long, labels={"app": long, names.LABEL_JOB: "a"}, annotations={"note": long})
    word = word_of(said)
    assert len(word) < MAX_MESSAGE + 1000
    read = read_words({said.metadata.uid: word})[said.metadata.uid]
    assert read.metadata.labels == {names.LABEL_JOB: "a"}
    assert read.succeeded


def test_a_container_that_was_started_again_keeps_its_end_before() -> None:
    """That was the end of the run, whatever became of the container later."""
    said = pod(1)
    (main,) = said.status.container_statuses
    lost = msgspec.structs.replace(main, restart_count=1, last_state=main.state)
    again = msgspec.structs.replace(said, status=msgspec.structs.replace(said.status, container_statuses=(lost,)))
    read = read_words({said.metadata.uid: word_of(again)})[said.metadata.uid]
    assert restarted(read)
    assert first_started_at(read) == first_started_at(again)


def _stamp(second: int) -> str:
    return f"2026-01-05T08:{second // 60:02}:{second % 60:02}Z"


STAMPS = st.integers(0, 600).map(_stamp)
ENDS = st.fixed_dictionaries(
    {
        "exitCode": st.sampled_from([0, 3, 137, 143]),
        "reason": st.sampled_from(["Completed", "Error", "OOMKilled", "ContainerStatusUnknown", "StartError"]),
        "startedAt": STAMPS,
        "finishedAt": st.one_of(STAMPS, st.just("1970-01-01T00:00:00Z")),
        "message": st.sampled_from(["", "2026-01-05T08:01:00Z", "exec format error", "finished"]),
    }
)
STATES: st.SearchStrategy[dict[str, Any]] = st.one_of(
    ENDS.map(lambda end: {"terminated": end}), STAMPS.map(lambda at: {"running": {"startedAt": at}}), st.just({})
)
CONDITIONS = st.lists(
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(["Ready", "ContainersReady", "DisruptionTarget", "PodScheduled"]),
            "status": st.sampled_from(["True", "False"]),
            "reason": st.sampled_from(["TerminationByKubelet", "EvictionByEvictionAPI", "DeletionByPodGC"]),
            "message": st.just("said"),
            "lastTransitionTime": STAMPS,
        }
    ),
    max_size=3,
    unique_by=lambda one: str(one["type"]),
)


@st.composite
def ended_pods(draw: st.DrawFn) -> Pod:
    """Pods of jobs that have ended, of which each reader of an end may make something else."""
    made = pod_dict("p", namespace="lab", phase=draw(st.sampled_from(["Succeeded", "Failed"])), node="n")
    names_of = draw(st.sampled_from([("main",), ("main", "proxy")]))
    made["metadata"]["labels"] = {names.LABEL_JOB: "a", **draw(st.sampled_from([{}, {names.LABEL_KIND: "Job"}]))}
    made["metadata"]["generation"] = draw(st.sampled_from([1, 2]))
    if draw(st.booleans()):
        made["metadata"] |= {
            "deletionTimestamp": draw(STAMPS),
            "deletionGracePeriodSeconds": draw(st.sampled_from([0, 30])),
        }
    made["spec"]["restartPolicy"] = draw(st.sampled_from(["Never", "OnFailure"]))
    made["spec"]["containers"] = [{"name": name} for name in names_of]
    made["status"] |= {
        "reason": draw(st.sampled_from(["", "Evicted", "Terminated", "NodeLost"])),
        "message": draw(st.sampled_from(["", 'Usage of EmptyDir volume "v" exceeds the limit "1". '])),
        "startTime": draw(STAMPS),
        "observedGeneration": draw(st.sampled_from([0, 1, 2])),
        "conditions": draw(CONDITIONS),
        "containerStatuses": [
            {
                "name": name,
                "state": draw(STATES),
                "restartCount": draw(st.sampled_from([0, 0, 1])),
                "lastState": draw(STATES),
            }
            for name in names_of
        ],
    }
    return msgspec.convert(made, Pod)


READERS = (
    lambda pod: [removal(pod, intent) for intent in (None, RemovalReason.STARVED, RemovalReason.DELETED)],
    lambda pod: [last_words(pod, code) for code in (None, 143)],
    own_exit,
    succeeded,
    ended_at,
    last_report,
    first_started_at,
    started_at,
    restarted,
    start_error,
    over,
    deletion_requested,
)


@given(ended_pods())
def test_last_words_are_read_as_the_pod_itself(ended: Pod) -> None:
    """Whatever a verdict reads of a pod is kept: no reader needs another rule for words."""
    read = read_words({ended.metadata.uid: word_of(ended)})[ended.metadata.uid]
    assert [reader(read) for reader in READERS] == [reader(ended) for reader in READERS]


def test_what_cannot_be_read_is_left_out() -> None:
    mine = pod(1)
    other = msgspec.json.encode(msgspec.structs.replace(mine, status=type(mine.status)(phase="Running"))).decode()
    assert read_words({"a": "{", "b": word_of(mine), mine.metadata.uid: other}) == {}


async def test_there_is_a_limit_to_what_is_kept() -> None:
    async with FakeApi(VirtualClock(), listens=False) as api:
        configmap(api)
        words = LastWords(api.client(), SYSTEM, NAME)
        await words.write([pod(number, message="y" * 900) for number in range(300)])
        kept = data(api)
        size = sum(len(uid) + len(text) for uid, text in kept.items())
        assert MAX_BYTES - 2000 < size <= MAX_BYTES
        await words.write([pod(1000, message="y" * 900)])
        assert data(api) == kept


async def test_words_that_are_there_are_written_once() -> None:
    async with FakeApi(VirtualClock(), listens=False) as api:
        configmap(api)
        words = LastWords(api.client(), SYSTEM, NAME)
        for _ in range(3):
            await words.write([pod()])
        assert api.count("PATCH", NAME) == 1
        assert list(read_words(data(api))) == [pod().metadata.uid]


@pytest.mark.parametrize("refused", ["missing", "forbidden"])
async def test_drains_go_on_where_nothing_can_be_kept(refused: str) -> None:
    async with FakeApi(VirtualClock(), listens=False) as api:
        if refused == "forbidden":
            configmap(api)
            api.fail(403, reason="Forbidden", methods={"GET"}, path=NAME)
        await LastWords(api.client(), SYSTEM, NAME).write([pod()])
        assert data(api) == {}


async def test_another_write_comes_between() -> None:
    async with FakeApi(VirtualClock(), listens=False) as api:
        configmap(api)
        words = LastWords(api.client(), SYSTEM, NAME)
        api.fail(409, reason="Conflict", methods={"PATCH"}, path=NAME, times=2)
        await words.write([pod()])
        assert len(data(api)) == 1
        api.fail(409, reason="Conflict", methods={"PATCH"}, path=NAME, times=3)
        with pytest.raises(Conflict):
            await words.write([pod(1)])
