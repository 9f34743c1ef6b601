"""Bodies that are meant to take long or much memory are turned away, or answered in a few words."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest
from scavenger_testing.hostile_bodies import FAMILIES, subject
from scavenger_webhook import app as app_module
from scavenger_webhook.app import MUTATE_PODS, OFF_LOOP_BYTES, SUBJECTS, VALIDATE_JOBS, Limits
from scavenger_webhook.core.body import has_more_values
from scavenger_webhook.core.review import MAX_ITEMS, MAX_PROBLEMS, review

from .builders import job, pod, raw
from .test_app import call, check_answer, dumped

PATHS = {kind: path for path, kind in SUBJECTS.items()}


@pytest.mark.parametrize("size", [2**12, 2**18])
@pytest.mark.parametrize("what", FAMILIES)
async def test_whatever_is_in_it_the_answer_is_short(what: str, size: int) -> None:
    sent = FAMILIES[what](size)
    status, body = await call(PATHS[subject(what)], [sent])
    assert status in (200, 400, 413)
    assert len(json.dumps(body)) < 2**16
    if status != 200:
        assert body["error"]
        return
    check_answer(body, "u")
    causes = body["response"].get("status", {}).get("details", {}).get("causes", [])
    assert len(causes) <= MAX_PROBLEMS


@pytest.mark.parametrize(
    ("body", "values"),
    [
        (b"[]", 1),
        (b"[1]", 1),
        (b"[1,2,3]", 3),
        (b'{"a":1,"b":[1,2]}', 3),
        (b'["a,b",3]', 2),
        (b'["a,b","c,d",5,"e"]', 4),
        (b'["a\\",b","c"]', 2),
        (b'["\\\\","c,"]', 2),
    ],
)
def test_values_are_counted_outside_of_strings(body: bytes, values: int) -> None:
    assert not has_more_values(body, values)
    assert values == 1 or has_more_values(body, values - 1)


def test_where_most_values_would_have_to_be_in_strings_they_are_not_looked_for() -> None:
    body = json.dumps(["," * 10] * 5).encode()
    assert not has_more_values(body, 30)
    assert has_more_values(body, 20)


async def test_more_values_than_a_job_can_have_are_not_parsed() -> None:
    status, body = await call(VALIDATE_JOBS, [dumped(raw("scavengerjobs", job(more=[0] * 30_000)))])
    assert (status, body["error"]) == (413, "at most 20000 values in lists and objects")


async def test_the_field_with_too_many_entries_is_named() -> None:
    env = [{"name": f"A{n}"} for n in range(MAX_ITEMS + 1)]
    status, body = await call(VALIDATE_JOBS, [dumped(raw("scavengerjobs", job(env=env)))])
    assert status == 200
    (cause,) = body["response"]["status"]["details"]["causes"]
    assert cause["field"] == "spec.env"
    assert cause["message"].startswith(f"more than {MAX_ITEMS} entries; ")


async def test_large_bodies_are_looked_at_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []

    def noting(*words: Any) -> Any:
        threads.append(threading.current_thread())
        return review(*words)

    monkeypatch.setattr(app_module, "review", noting)
    for annotation in ("x", "x" * OFF_LOOP_BYTES):
        status, body = await call(
            MUTATE_PODS, [dumped(raw("pods", pod(priority=0) | {"metadata": {"annotations": {"a": annotation}}}))]
        )
        assert status == 200
        assert body["response"]["allowed"]
    assert [thread is threading.main_thread() for thread in threads] == [True, False]


async def test_of_too_much_at_once_the_last_is_turned_away_and_what_was_held_is_let_go() -> None:
    limits, part = Limits(max_held=3 * 2**18), b" " * 2**18
    application = app_module.create_app(_nobody, limits)
    waiting = [asyncio.ensure_future(call(MUTATE_PODS, [part], ends="hang", app=application)) for _ in range(3)]
    await asyncio.sleep(0)
    await asyncio.sleep(0.01)
    status, body = await call(MUTATE_PODS, [part], app=application)
    assert (status, body["error"]) == (503, "too many large requests at once; try again")
    for one in waiting:
        one.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    status, _ = await call(MUTATE_PODS, [part], app=application)
    assert status == 400, "there is room again"


async def _nobody(_request: Any) -> None:
    return None
