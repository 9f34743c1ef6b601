"""The counter, as real processes: interrupted, torn, split, and always right in the end."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from scavenger_domain.checkpoints import stated_checkpoint

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).resolve().parents[3] / "demo-apps" / "counter" / "counter.py"
SPEC = importlib.util.spec_from_file_location("counter", PROGRAM)
assert SPEC is not None
assert SPEC.loader is not None
if TYPE_CHECKING:
    import counter as counter
else:
    counter = importlib.util.module_from_spec(SPEC)
    sys.modules["counter"] = counter
    SPEC.loader.exec_module(counter)

STEPS = 60
RUN = (sys.executable, "-S", "-E", str(PROGRAM), "run", "--termination-log=/nowhere")
SLOW = ("--seconds=60", "--checkpoint-every=1000")  # far from done when it is interrupted
FAST = ("--seconds=0",)


def start(folder: Path, *flags: str, index: int = 0, parallelism: int = 1, **environ: str) -> subprocess.Popen[str]:
    scavenger = {"SCAVENGER_INDEX": str(index), "SCAVENGER_PARALLELISM": str(parallelism)}
    return subprocess.Popen(
        [*RUN, f"--dir={folder}", f"--steps={STEPS}", "--burn=10", *flags],
        env={"PATH": os.environ["PATH"], **scavenger, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    output = process.communicate(timeout=50)[0]
    return process.returncode, output


def complete(folder: Path, *flags: str, index: int = 0, parallelism: int = 1, **environ: str) -> str:
    code, output = finish(start(folder, *FAST, *flags, index=index, parallelism=parallelism, **environ))
    assert code == 0, output
    return output


def wait_for(process: subprocess.Popen[str], event: str) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if f"event={event} " in line:
            return line
    raise AssertionError(f"no {event} before the end")


def verify(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = counter.main(["verify", f"--dir={folder}"])
    return code, capsys.readouterr().out


def value(name: str, text: str) -> str:
    found: list[str] = re.findall(rf"\b{name}[=:] ?(\S+?),?(?:\s|$)", text)
    return found[-1]


def interrupt_after_steps(folder: Path, number: int, *flags: str) -> tuple[int, str]:
    """Start, let it make at least one step beyond its first checkpoint, and send a signal."""
    process = start(folder, "--seconds=3", "--checkpoint-every=0.06", *flags)
    wait_for(process, "checkpoint")
    line = wait_for(process, "checkpoint")
    process.send_signal(number)
    code, rest = finish(process)
    return code, line + rest


# --- the closed form ---


@pytest.mark.parametrize(("seed", "steps", "burn"), [(1, 0, 5), (1, 1, 1), (7, 13, 3), (2**63, 100, 17), (5, 4, 0)])
def test_closed_form_is_what_the_steps_give(seed: int, steps: int, burn: int) -> None:
    progress = counter.Progress(step=0, state=seed, sum=0)
    for _ in range(steps):
        progress.advance(burn)

    assert (progress.state, progress.sum) == counter.Task(seed, steps, burn, 0, 1).outcome()


@pytest.mark.parametrize(("steps", "parallelism"), [(10, 3), (2, 5), (600, 7)])
def test_ranges_of_a_gang_join(steps: int, parallelism: int) -> None:
    tasks = [counter.Task(3, steps, 2, index, parallelism) for index in range(parallelism)]
    whole = counter.Task(3, steps, 2, 0, 1)

    assert [task.first for task in tasks[1:]] == [task.last for task in tasks[:-1]]
    assert [task.start() for task in tasks[1:]] == [task.outcome()[0] for task in tasks[:-1]]
    assert tasks[-1].outcome()[0] == whole.outcome()[0]
    assert sum(task.outcome()[1] for task in tasks) % 2**64 == whole.outcome()[1]


# --- one process ---


def test_uninterrupted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = complete(tmp_path)

    code, text = verify(tmp_path, capsys)
    assert code == 0
    assert f"steps computed: {STEPS}, needed: {STEPS}, recomputed after interruptions: 0" in text
    assert value("sum", output) == value("result", text)


def test_sigterm_then_resume_gives_the_same_result_and_recomputes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = complete(tmp_path / "whole")

    code, output = interrupt_after_steps(tmp_path / "part", signal.SIGTERM)
    resumed = complete(tmp_path / "part", SCAVENGER_RESTARTS="1")

    assert code == 0
    stopped = re.search(r"event=checkpoint .* step=(\d+) .* reason=sigterm", output)
    assert stopped is not None, output
    stopped_at = stopped.group(1)
    assert 0 < int(stopped_at) < STEPS
    assert f"event=resumed index=0 restarts=1 step={stopped_at} of={STEPS}" in resumed
    assert value("result", resumed) == value("result", whole)
    code, text = verify(tmp_path / "part", capsys)
    assert (code, value("interruptions", text), value("runs", text)) == (0, "0", "2")


def test_sigkill_then_resume_counts_what_was_done_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    process = start(tmp_path, "--seconds=1", "--checkpoint-every=1000")
    wait_for(process, "checkpoint")
    mark = tmp_path / "counter-0.mark"
    while int(mark.read_text().split()[1]) < 3:
        assert process.poll() is None
    process.kill()
    finish(process)
    reached = int(mark.read_text().split()[1])
    complete(tmp_path)

    code, text = verify(tmp_path, capsys)

    assert code == 0
    assert f"steps computed: {STEPS + reached}, needed: {STEPS}, recomputed after interruptions: {reached}" in text


def test_every_kill_is_counted_even_without_a_checkpoint_in_between(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for step in ("20", "10"):
        assert finish(start(tmp_path, *FAST, f"--exit-at-step={step}", "--exit-code=9"))[0] == 9
    complete(tmp_path)

    assert value("interruptions", verify(tmp_path, capsys)[1]) == "30"


@pytest.mark.parametrize(
    ("choice", "code", "checkpoint"),
    [("checkpoint-exit-0", 0, True), ("checkpoint-exit-1", 1, True), ("exit-1", 1, False)],
)
def test_ways_to_end(tmp_path: Path, choice: str, code: int, checkpoint: bool) -> None:
    process = start(tmp_path, *SLOW, COUNTER_ON_SIGTERM=choice)
    wait_for(process, "checkpoint")
    process.terminate()

    ended, output = finish(process)

    assert (ended, "reason=sigterm" in output) == (code, checkpoint)


@pytest.mark.parametrize(("choice", "fresh"), [("checkpoint-exit-0", True), ("exit-1", False)])
def test_the_last_checkpoint_is_the_last_line_of_the_termination_message(
    tmp_path: Path, choice: str, fresh: bool
) -> None:
    log = tmp_path / "termination-log"
    log.touch()
    process = start(tmp_path / "data", *SLOW, f"--on-sigterm={choice}", f"--termination-log={log}")
    while not log.read_text().endswith("\n"):
        assert process.poll() is None
    first = stated_checkpoint(log.read_text())
    process.terminate()
    finish(process)

    last = stated_checkpoint(log.read_text())

    assert first is not None
    assert last is not None
    assert first <= last <= datetime.now(UTC)
    assert (last > first) == fresh
    assert log.read_text().count("\n") == 1, "not one line for every checkpoint: 4096 bytes are kept"


def test_outside_a_container_there_is_no_termination_message(tmp_path: Path) -> None:
    log = tmp_path / "termination-log"
    complete(tmp_path / "data", f"--termination-log={log}")

    assert not log.exists()


def test_ignoring_sigterm(tmp_path: Path) -> None:
    process = start(tmp_path, "--seconds=0.3", "--on-sigterm=ignore")
    wait_for(process, "checkpoint")
    process.terminate()

    code, output = finish(process)

    assert (code, "event=sigterm" in output, "event=complete" in output) == (0, True, True)


def test_its_own_failure(tmp_path: Path) -> None:
    code, output = finish(start(tmp_path, *FAST, "--exit-at-step=5", "--exit-code=42"))

    assert (code, f"event=failing index=0 restarts=0 step=5 of={STEPS} code=42" in output) == (42, True)


def test_once_complete_it_stays_complete(tmp_path: Path) -> None:
    first = complete(tmp_path)

    again = complete(tmp_path)

    assert "event=already-complete" in again
    assert value("result", again) == value("result", first)


def test_keeping_the_processor_busy_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    complete(tmp_path, "--seconds=0.1", "--spin")

    assert verify(tmp_path, capsys)[0] == 0


def test_interval_is_half_of_what_the_job_allows() -> None:
    options = counter._parser({"SCAVENGER_CHECKPOINT_INTERVAL": "1800"}).parse_args(["run"])

    assert options.checkpoint_every == 900


# --- what can be wrong with the files ---


def torn(text: str) -> str:
    return text[: len(text) // 2]


def flipped(text: str) -> str:
    return text.replace('"step": 2', '"step": 3')


@pytest.mark.parametrize("damage", [torn, flipped, lambda text: "", lambda text: "[]", lambda text: "\0" * 99])
def test_corrupt_checkpoint_falls_back_to_the_one_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: Callable[[str], str]
) -> None:
    store = counter.Store(tmp_path, counter.Task(1, STEPS, 10, 0, 1))
    progress, _ = store.load()
    progress.runs = 1
    while progress.step < 25:
        progress.advance(10)
        if progress.step in (20, 25):
            store.save(progress)
    store.mark(progress)
    file = counter.checkpoint_file(tmp_path, 0)
    file.write_text(damage(file.read_text()))

    output = complete(tmp_path)

    assert "event=fallback" in output
    assert f"event=resumed index=0 restarts=0 step=20 of={STEPS}" in output
    code, text = verify(tmp_path, capsys)
    assert (code, value("interruptions", text)) == (0, "5")


def test_two_corrupt_checkpoints_start_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    finish(start(tmp_path, *FAST, "--exit-at-step=10"))
    for name in ("checkpoint", "previous"):
        (tmp_path / f"counter-0.{name}").write_text("nonsense")

    assert f"event=resumed index=0 restarts=0 step=0 of={STEPS} computed_again=10" in complete(tmp_path)
    assert verify(tmp_path, capsys)[0] == 0


def test_checkpoint_of_another_computation_is_not_continued(tmp_path: Path) -> None:
    complete(tmp_path)

    code, output = finish(start(tmp_path, *FAST, "--seed=2"))

    assert (code, "use another folder or the same parameters" in output) == (2, True)


def test_two_processes_never_compute_the_same_index(tmp_path: Path) -> None:
    process = start(tmp_path, *SLOW)
    wait_for(process, "checkpoint")

    code, output = finish(start(tmp_path, *FAST))

    assert (code, "another process computes index 0" in output) == (75, True)
    process.terminate()
    assert finish(process)[0] == 0


# --- gangs ---


def test_gang_with_one_interrupted_member(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = complete(tmp_path / "whole")
    gang = tmp_path / "gang"
    slow = start(gang, *SLOW, index=1, parallelism=3)
    wait_for(slow, "checkpoint")
    members = [start(gang, *FAST, index=index, parallelism=3) for index in (0, 2)]
    assert [finish(member)[0] for member in members] == [0, 0]
    slow.terminate()
    finish(slow)

    code, text = verify(gang, capsys)
    assert (code, "WRONG: index 1: at step" in text) == (1, True)

    for index in range(3):
        complete(gang, index=index, parallelism=3)
    code, text = verify(gang, capsys)
    assert code == 0
    assert value("result", text) == value("sum", whole)
    assert "in 3 of 3 indexes" in text


def test_verify_without_anything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = verify(tmp_path, capsys)

    assert (code, "WRONG: index 0: no checkpoint" in text) == (1, True)


def test_verify_notices_a_forged_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    complete(tmp_path)
    store = counter.Store(tmp_path, counter.Task(1, STEPS, 10, 0, 1))
    progress, _ = store.load()
    progress.sum ^= 1
    store.save(progress)

    assert verify(tmp_path, capsys)[0] == 1


# --- reporting to Kubernetes ---


def test_annotation_of_the_own_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, content in {"namespace": "lab\n", "token": "secret\n", "ca.crt": ""}.items():
        (tmp_path / name).write_text(content)
    sent: list[urllib.request.Request] = []

    def answer(request: urllib.request.Request, **_: Any) -> contextlib.AbstractContextManager[None]:
        sent.append(request)
        return contextlib.nullcontext()

    monkeypatch.setattr(counter, "SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setattr("ssl.create_default_context", lambda cafile: cafile)
    monkeypatch.setattr("urllib.request.urlopen", answer)
    for name, text in {"SERVICE_HOST": "fd00::1", "SERVICE_PORT": "443"}.items():
        monkeypatch.setenv(f"KUBERNETES_{name}", text)
    monkeypatch.setenv("POD_NAME", "counter-0-abc")

    counter.annotate_pod("scavenger.dev/last-checkpoint", "2026-01-02T03:04:05Z")

    request = sent[0]
    assert request.full_url == "https://[fd00::1]:443/api/v1/namespaces/lab/pods/counter-0-abc"
    assert request.get_method() == "PATCH"
    assert request.get_header("Authorization") == "Bearer secret"
    assert isinstance(request.data, bytes)
    assert json.loads(request.data) == {
        "metadata": {"annotations": {"scavenger.dev/last-checkpoint": "2026-01-02T03:04:05Z"}}
    }


def test_failing_to_annotate_is_not_fatal(tmp_path: Path) -> None:
    output = complete(tmp_path, "--annotate")

    assert output.count("event=not-annotated") == 2
    assert "event=complete" in output
