"""Following a gang across an interruption, with everything that can break on the way."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from scavenger_api.checkpoints import COMPLETION_INDEX
from scavenger_cli.access import Access
from scavenger_cli.exits import CliError
from scavenger_cli.follow import Change
from scavenger_cli.logs import Ended, Follow, Line, Selection, gone, notice, printed
from scavenger_testing import builders

from .cases import job
from .conftest import Answer, Request, Server, event, listed, status

NAMESPACE = "/api/v1/namespaces/lab/pods"
JOBS = "/apis/scavenger.dev/v1alpha1/namespaces/lab/scavengerjobs"


def pod(name: str, index: int = 0, *, ended: bool = False, started: bool = True, **fields: Any) -> dict[str, Any]:
    container = builders.terminated() if ended else builders.running()
    return builders.pod_dict(
        name,
        namespace="lab",
        uid=f"uid-{name}",
        phase="Succeeded" if ended else "Running" if started else "Pending",
        labels={COMPLETION_INDEX: str(index)},
        container_statuses=[container] if started else [],
        **fields,
    )


def scavenger_job(phase: str, **status_: Any) -> dict[str, Any]:
    return builders.scavengerjob_dict("sim", phase=phase, status=status_, namespace="lab", uid="uid-sim")


def stamped(second: int, text: str) -> bytes:
    return f"2026-01-05T12:00:{second:02}.000000000Z {text}".encode()


def follow(access: Access, selection: Selection | None = None) -> list[str]:
    """Lines as `index text`, notices as they are printed."""
    subject = job("sim", phase="Running", namespace="lab")
    seen: list[str] = []
    phase: str | None = None
    for item in Follow(access, subject, selection or Selection(), sleep=lambda seconds: None).items():
        if isinstance(item, Line):
            seen.append(f"{item.index} {item.text.decode()}")
        elif isinstance(item, Ended):
            seen.append(f"--- {item.pod}: {item.problem}")
        elif item.obj is not None:
            seen += [f"--- {said}"] if (said := notice(item.obj, phase)) else []
            phase = item.obj.phase
    return seen


def after(signal: threading.Event, lines: list[Any]) -> Iterator[Any]:
    """The lines, once the signal has been given."""
    assert signal.wait(10)
    yield from lines


def test_across_an_interruption(server: Server, access: Access) -> None:
    """Two pods; then the job is interrupted, and runs and completes in new ones."""
    interrupted, again, done = threading.Event(), threading.Event(), threading.Event()

    def log(name: str, lines: list[bytes], signal: threading.Event | None = None) -> None:
        def answer(request: Request) -> Answer:
            def stream() -> Iterator[bytes]:
                yield from lines
                if signal is not None:
                    signal.set()

            return Answer(lines=stream())

        server.on(f"{NAMESPACE}/{name}/log", answer)

    both = threading.Barrier(2, action=interrupted.set)
    for index, name in enumerate(("a-0", "a-1")):

        def first(request: Request, index: int = index) -> Answer:
            def stream() -> Iterator[bytes]:
                yield stamped(1, f"first run, step {index}")
                both.wait(10)

            return Answer(lines=stream())

        server.on(f"{NAMESPACE}/{name}/log", first, Answer(404, status(404, "NotFound", "pod is gone")))
    log("b-0", [stamped(5, "second run")], done)
    server.on(NAMESPACE, listed(pod("a-0", 0), pod("a-1", 1)), listed(pod("b-0", 0, ended=True)))
    server.on(NAMESPACE, lambda r: Answer(lines=after(again, [event("ADDED", pod("b-0", ended=True))])), watch=True)

    def job_events() -> Iterator[Any]:
        assert interrupted.wait(10)
        yield event("MODIFIED", scavenger_job("Interrupted", interruptedCount=1, message="pod a-0 was preempted"))
        again.set()
        yield event("MODIFIED", scavenger_job("Running", interruptedCount=1))
        assert done.wait(10)
        yield event("MODIFIED", scavenger_job("Completed", interruptedCount=1, message="completed"))

    server.on(JOBS, listed(scavenger_job("Running", message="running")))
    server.on(JOBS, lambda request: Answer(lines=job_events()), watch=True)
    seen = follow(access)
    said = [line for line in seen if line.startswith("---")]
    assert said == [
        "--- running",
        "--- interrupted for the 1st time: pod a-0 was preempted",
        "--- running again",
        "--- completed",
    ]
    assert sorted(line for line in seen if not line.startswith("---")) == [
        "0 first run, step 0",
        "0 second run",
        "1 first run, step 1",
    ]


def test_a_broken_log_goes_on_after_the_last_line(server: Server, access: Access) -> None:
    """sinceTime is exact to the second: what was printed in that second comes again, and is not printed again."""
    last = threading.Event()

    def rest(request: Request) -> Answer:
        last.set()
        return Answer(lines=[stamped(2, "two"), stamped(3, "three")])

    server.on(
        f"{NAMESPACE}/a-0/log",
        Answer(400, status(400, "BadRequest", "container is waiting to start")),
        Answer(lines=[stamped(1, "one"), stamped(2, "two")], cut=True),
        rest,
    )
    server.on(NAMESPACE, listed(pod("a-0")))
    server.on(NAMESPACE, lambda r: Answer(lines=after(last, [event("MODIFIED", pod("a-0", ended=True))])), watch=True)
    server.on(JOBS, listed(scavenger_job("Running")))
    server.on(JOBS, lambda r: Answer(lines=after(last, [event("MODIFIED", scavenger_job("Completed"))])), watch=True)
    assert [line for line in follow(access) if not line.startswith("---")] == ["0 one", "0 two", "0 three"]
    asked = [r.query.get("sinceTime") for r in server.asked(f"{NAMESPACE}/a-0/log")]
    assert asked[:3] == [None, None, "2026-01-05T12:00:02.000000000Z"]


def test_a_log_that_cannot_be_read_is_said(server: Server, access: Access) -> None:
    server.on(f"{NAMESPACE}/a-0/log", Answer(403, status(403, "Forbidden", "may not get pods/log")))
    server.on(NAMESPACE, listed(pod("a-0", ended=True)))
    server.on(NAMESPACE, Answer(lines=[]), watch=True)
    server.on(JOBS, listed(scavenger_job("Completed")))
    server.on(JOBS, Answer(lines=[]), watch=True)
    assert follow(access) == ["--- completed", "--- a-0: may not get pods/log"]


GONE = b"failed to try resolving symlinks in path: no such file or directory"


def test_the_kubelet_s_words_about_a_log_that_is_gone_are_no_line_of_it(server: Server, access: Access) -> None:
    """They come without a timestamp, in the place of the rest of the log or of all of it."""
    broken = Answer(lines=[stamped(1, "step 1"), GONE], cut=True)
    rest = Answer(lines=[stamped(1, "step 1"), stamped(2, "step 2"), GONE])
    server.on(f"{NAMESPACE}/a-0/log", broken, rest)
    server.on(f"{NAMESPACE}/a-1/log", Answer(lines=[GONE]))
    server.on(NAMESPACE, listed(pod("a-0", ended=True), pod("a-1", 1, ended=True)))
    server.on(NAMESPACE, Answer(lines=[]), watch=True)
    server.on(JOBS, listed(scavenger_job("Completed")))
    server.on(JOBS, Answer(lines=[]), watch=True)
    seen = follow(access)
    assert seen[0] == "--- completed"
    assert sorted(seen[1:]) == [f"--- a-1: {GONE.decode()}", "0 step 1", "0 step 2"]
    assert server.asked(f"{NAMESPACE}/a-0/log")[1].query["sinceTime"] == "2026-01-05T12:00:01.000000000Z"


def test_of_what_has_been_printed_a_log_that_is_gone_is_said(server: Server, access: Access) -> None:
    server.on(NAMESPACE, listed(pod("b-0", 0), pod("b-1", 1)))
    server.on(f"{NAMESPACE}/b-0/log", Answer(lines=[GONE]))
    server.on(f"{NAMESPACE}/b-1/log", Answer(lines=[stamped(1, "I am b-1")]))
    subject = job("sim", phase="Running", namespace="lab", parallelism=2)
    assert [line.text for line in printed(access, subject, Selection())] == [GONE, b"I am b-1"]


def test_one_member(server: Server, access: Access) -> None:
    for index in (0, 1):
        server.on(f"{NAMESPACE}/a-{index}/log", Answer(lines=[stamped(1, "hello")]))
    server.on(NAMESPACE, listed(pod("a-0", 0, ended=True), pod("a-1", 1, ended=True)))
    server.on(NAMESPACE, Answer(lines=[]), watch=True)
    server.on(JOBS, listed(scavenger_job("Completed")))
    server.on(JOBS, Answer(lines=[]), watch=True)
    seen = follow(access, Selection(index=1, tail=5, since=60, timestamps=True))
    assert seen == ["--- completed", "1 2026-01-05T12:00:01.000000000Z hello"]
    query = server.asked(f"{NAMESPACE}/a-1/log")[0].query
    assert (query["tailLines"], query["sinceSeconds"]) == ("5", "60")
    assert not server.asked(f"{NAMESPACE}/a-0/log")


def test_a_job_that_is_deleted_ends_it(server: Server, access: Access) -> None:
    server.on(NAMESPACE, listed())
    server.on(NAMESPACE, Answer(lines=[]), watch=True)
    server.on(JOBS, listed(scavenger_job("Waiting")))
    server.on(JOBS, Answer(lines=[event("DELETED", scavenger_job("Waiting"))]), watch=True)
    subject = job("sim", namespace="lab")
    items = list(Follow(access, subject, Selection()).items())
    assert isinstance(items[-1], Change)
    assert items[-1].type == "DELETED"


def test_what_has_been_printed(server: Server, access: Access) -> None:
    subject = job("sim", phase="Running", namespace="lab", parallelism=2)
    server.on(NAMESPACE, listed(pod("b-1", 1), pod("b-0", 0), pod("a-0", 0, deleted="2026-01-05T11:00:00Z")))
    for name in ("b-0", "b-1"):
        server.on(f"{NAMESPACE}/{name}/log", Answer(lines=[stamped(1, f"I am {name}")]))
    assert [line.text for line in printed(access, subject, Selection())] == [b"I am b-0", b"I am b-1"]


def test_nothing_has_been_printed(server: Server, access: Access) -> None:
    server.on(NAMESPACE, listed(pod("a-0", started=False)))
    with pytest.raises(CliError, match="no pod of sim has run that is still there") as caught:
        list(printed(access, job("sim", namespace="lab"), Selection()))
    assert "kubectl sj logs -f sim" in caught.value.remedy
    with pytest.raises(CliError, match="with index 7"):
        list(printed(access, job("sim", namespace="lab"), Selection(index=7)))


@pytest.mark.parametrize(
    ("count", "said"), [(0, None), (1, "the output of the interrupted run went"), (3, "of the 3 interrupted runs went")]
)
def test_the_output_of_interrupted_runs_is_gone(count: int, said: str | None) -> None:
    text = gone(job("sim", phase="Running", status={"interruptedCount": count}))
    assert text is None if said is None else text is not None and said in text
