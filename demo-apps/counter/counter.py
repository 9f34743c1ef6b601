#!/usr/bin/env python3
"""A long computation that can be interrupted at any moment, and proves afterwards that nothing was lost.

    counter.py run       compute, or go on computing where the last checkpoint was
    counter.py verify    combine the checkpoints of all indexes and compare with the expected result

The computation is a linear congruential generator: every step needs the one before it, so that no step can be left
out or done twice unnoticed. What comes out after n steps has a closed form (`leap`), so verifying takes no time and
shares no code path with computing. In a gang each index computes a range of the steps.

Nothing but the standard library is needed. Settings are flags or environment variables (`--steps` is COUNTER_STEPS);
SCAVENGER_INDEX, SCAVENGER_PARALLELISM, SCAVENGER_RESTARTS and SCAVENGER_CHECKPOINT_INTERVAL are those that a
scavenger job gives its containers.
"""

from __future__ import annotations

import argparse
import dataclasses
import fcntl
import hashlib
import json
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

MASK = 2**64 - 1
MULTIPLIER = 6364136223846793005  # Knuth, The Art of Computer Programming 2, 3.3.4: the MMIX generator
INCREMENT = 1442695040888963407

EXIT_UNFINISHED = 1
EXIT_OTHER_PARAMETERS = 2
EXIT_ALREADY_RUNNING = 75  # EX_TEMPFAIL
SIGNALS = (signal.SIGTERM, signal.SIGINT)
ON_SIGTERM = ("checkpoint-exit-0", "checkpoint-exit-1", "exit-1", "ignore")
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


# --- the computation, step by step and in closed form ---


class Leap(NamedTuple):
    """Any number of steps at once: the state x becomes ax + c, the sum of all states grows by px + q."""

    a: int
    c: int
    p: int
    q: int

    def then(self, other: Leap) -> Leap:
        """This leap followed by another one."""
        return Leap(
            other.a * self.a & MASK,
            (other.a * self.c + other.c) & MASK,
            (self.p + other.p * self.a) & MASK,
            (self.q + other.p * self.c + other.q) & MASK,
        )


STAND = Leap(1, 0, 0, 0)


def power(leap: Leap, times: int) -> Leap:
    """A leap taken `times` times, by squaring."""
    result = STAND
    while times:
        if times & 1:
            result = result.then(leap)
        leap = leap.then(leap)
        times >>= 1
    return result


def leap(steps: int, burn: int) -> Leap:
    """The closed form of `steps` steps of `burn` rounds each; the sum counts the state after each step."""
    rounds = power(Leap(MULTIPLIER, INCREMENT, 0, 0), burn)
    return power(Leap(rounds.a, rounds.c, rounds.a, rounds.c), steps)


def one_step(state: int, burn: int) -> int:
    """The state after the next step: `burn` rounds of the generator, one after the other."""
    for _ in range(burn):
        state = (state * MULTIPLIER + INCREMENT) & MASK
    return state


# --- what is to be computed, and how far it is ---


@dataclasses.dataclass(frozen=True)
class Task:
    """One index's share of the work. Checkpoints of another task are never continued."""

    seed: int
    steps: int
    burn: int
    index: int
    parallelism: int

    @property
    def first(self) -> int:
        """The first step of this index's range."""
        return self.steps * self.index // self.parallelism

    @property
    def last(self) -> int:
        """The end of the range, which is the first step of the next index."""
        return self.steps * (self.index + 1) // self.parallelism

    def start(self) -> int:
        """The state that the range begins with: what the indexes before this one end with."""
        before = leap(self.first, self.burn)
        return (before.a * self.seed + before.c) & MASK

    def outcome(self) -> tuple[int, int]:
        """State and sum that the range must end with, in closed form."""
        work, start = leap(self.last - self.first, self.burn), self.start()
        return (work.a * start + work.c) & MASK, (work.p * start + work.q) & MASK


@dataclasses.dataclass
class Progress:
    """How far a task is. `computed` counts every step ever made, also those that an interruption threw away."""

    step: int
    state: int
    sum: int
    computed: int = 0
    runs: int = 0

    def advance(self, burn: int) -> None:
        """Make one step."""
        self.state = one_step(self.state, burn)
        self.sum = (self.sum + self.state) & MASK
        self.step += 1
        self.computed += 1


# --- what survives the process ---


class OtherParametersError(Exception):
    """There is a checkpoint, but of another computation."""


class Store:
    """The files of one index: the checkpoint, the one before it, and how far the process really was.

    A checkpoint is written to the side, flushed to the disk and then renamed, so that a reader sees the old one or the
    new one; a checksum tells a torn one. The high-water mark is not flushed: it survives a killed process, which is all
    that counting the lost steps needs.
    """

    def __init__(self, folder: Path, task: Task) -> None:
        """Use `folder`, which all indexes may share."""
        self.task = task
        self.folder = folder
        self.current = checkpoint_file(folder, task.index)
        self.previous = self.current.with_suffix(".previous")
        self._mark = os.open(self.current.with_suffix(".mark"), os.O_RDWR | os.O_CREAT, 0o666)

    def lock(self) -> bool:
        """Claim the index for this process; False when another process computes it."""
        try:
            fcntl.flock(self._mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def save(self, progress: Progress) -> None:
        """Write a checkpoint."""
        payload = {"task": dataclasses.asdict(self.task), "progress": dataclasses.asdict(progress)}
        content = json.dumps({"payload": payload, "sha256": _checksum(payload)})
        temporary = self.current.with_suffix(".new")
        with temporary.open("w") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if self.current.exists():
            self.current.replace(self.previous)
        temporary.replace(self.current)
        folder = os.open(self.folder, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)

    def load(self) -> tuple[Progress, list[str]]:
        """The newest progress that can be read, and what was wrong with newer ones.

        The steps that were made after the checkpoint and are lost count as computed.

        Raises:
            OtherParametersError: when the checkpoint is one of another computation.
        """
        progress, problems = Progress(step=self.task.first, state=self.task.start(), sum=0), []
        for file in (self.current, self.previous):
            try:
                task, progress = read_checkpoint(file)
            except FileNotFoundError:
                continue
            except ValueError as error:
                problems.append(f"{file.name} is unreadable ({error})")
                continue
            if task != self.task:
                raise OtherParametersError(f"{file} belongs to {task}, not to {self.task}")
            break
        runs, reached = self._read_mark()
        progress.computed += max(0, reached - progress.step) if runs >= progress.runs else 0
        progress.runs = max(runs, progress.runs)
        return progress, problems

    def mark(self, progress: Progress) -> None:
        """Remember how far the process is, at hardly any cost."""
        os.pwrite(self._mark, f"{progress.runs:20d} {progress.step:20d}\n".encode(), 0)

    def _read_mark(self) -> tuple[int, int]:
        words = os.pread(self._mark, 42, 0).split()
        return (int(words[0]), int(words[1])) if len(words) == 2 else (0, 0)


def checkpoint_file(folder: Path, index: int) -> Path:
    """Where an index keeps its checkpoint."""
    return folder / f"counter-{index}.checkpoint"


def read_checkpoint(file: Path) -> tuple[Task, Progress]:
    """A checkpoint. Raises FileNotFoundError, and ValueError when it is torn or corrupt."""
    try:
        content = json.loads(file.read_bytes())
        payload = content["payload"]
        if content["sha256"] != _checksum(payload):
            raise ValueError("its checksum is wrong")
        return Task(**payload["task"]), Progress(**payload["progress"])
    except (KeyError, TypeError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError("it is not a whole checkpoint") from error


def _checksum(payload: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(payload, sort_keys=True).encode()).hexdigest()


# --- running ---


class Reporter:
    """One line per event on standard output; the last checkpoint also as the termination message of the container, and
    on request as an annotation on our own pod.
    """

    def __init__(self, task: Task, restarts: str, annotate: bool, termination_log: Path) -> None:
        """Name the index and the restart in every line."""
        self._where = f"index={task.index} restarts={restarts}"
        self._task = task
        self._annotating = annotate
        self._termination_log = termination_log

    def event(self, name: str, progress: Progress, **details: object) -> None:
        """Say what happened at which step."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        more = "".join(f" {key}={value}" for key, value in details.items())
        position = f"step={progress.step} of={self._task.last}"
        sys.stdout.write(f"{now} event={name} {self._where} {position}{more}\n")
        sys.stdout.flush()

    def checkpoint(self, progress: Progress, reason: str) -> None:
        """Report a checkpoint that has just been written."""
        self.event("checkpoint", progress, reason=reason)
        # With every checkpoint, and not only at the end: whoever is killed has said which was the last one.
        if self._termination_log.is_file():  # the kubelet makes it; elsewhere there is none
            self._termination_log.write_text(f"checkpoint={datetime.now(UTC).strftime('%Y-%m-%dT%H:%M:%S.%fZ')}\n")
        if not self._annotating:
            return
        try:
            annotate_pod("scavenger.dev/last-checkpoint", datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
        except Exception as error:  # whatever it is, it is not worth failing for
            self.event("not-annotated", progress, why=json.dumps(str(error)))


def annotate_pod(key: str, value: str) -> None:
    """Set an annotation on the pod this process runs in, with its service account. Raises what can go wrong."""
    import ssl  # these two take longer to load than all the rest, and few need them
    import urllib.request

    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    namespace = (SERVICE_ACCOUNT / "namespace").read_text().strip()
    pod = os.environ.get("POD_NAME") or os.environ["HOSTNAME"]
    request = urllib.request.Request(
        f"https://{f'[{host}]' if ':' in host else host}:{port}/api/v1/namespaces/{namespace}/pods/{pod}",
        data=json.dumps({"metadata": {"annotations": {key: value}}}).encode(),
        method="PATCH",
        headers={
            "Authorization": f"Bearer {(SERVICE_ACCOUNT / 'token').read_text().strip()}",
            "Content-Type": "application/merge-patch+json",
        },
    )
    context = ssl.create_default_context(cafile=str(SERVICE_ACCOUNT / "ca.crt"))
    with urllib.request.urlopen(request, timeout=2, context=context):
        pass


class Pace:
    """Spreads the steps over the wanted time, and notices signals between two steps."""

    def __init__(self, seconds_per_step: float, spin: bool) -> None:
        """Start the clock. With `spin` the processor is kept busy instead of idle between two steps."""
        self._per_step = seconds_per_step
        self._spin = spin
        self._due = time.monotonic()

    def signalled(self) -> bool:
        """Wait until the next step is due; True as soon as a signal to end is there."""
        self._due = max(self._due + self._per_step, time.monotonic() - self._per_step)
        while True:
            wait = max(0.0, self._due - time.monotonic())
            if signal.sigtimedwait(SIGNALS, 0 if self._spin else wait) is not None:
                return True
            if not self._spin or not wait:
                return False


class Run:
    """One life of the process: from the checkpoint to the end, or to the signal."""

    def __init__(self, options: argparse.Namespace, task: Task, store: Store) -> None:
        """Continue from what `store` holds."""
        self.options = options
        self.task = task
        self.store = store
        self.reporter = Reporter(task, options.restarts, options.annotate, options.termination_log)
        self.progress, problems = store.load()
        for problem in problems:
            self.reporter.event("fallback", self.progress, why=json.dumps(problem))

    def execute(self) -> int:
        """Compute until done; the exit code."""
        progress, options = self.progress, self.options
        if progress.step == self.task.last and progress.runs:
            self._say_result("already-complete")
            return 0
        lost = progress.computed - (progress.step - self.task.first)
        progress.runs += 1
        self.reporter.event("started" if progress.runs == 1 else "resumed", progress, computed_again=lost)
        self._checkpoint("start")
        pace = Pace(options.seconds / max(1, self.task.steps // self.task.parallelism), options.spin)
        next_checkpoint = time.monotonic() + options.checkpoint_every
        while progress.step < self.task.last:
            if progress.step == options.exit_at_step:
                self.reporter.event("failing", progress, code=options.exit_code)
                return int(options.exit_code)
            if pace.signalled() and (code := self._on_signal()) is not None:
                return code
            progress.advance(options.burn)
            self.store.mark(progress)
            if time.monotonic() >= next_checkpoint:
                self._checkpoint("interval")
                next_checkpoint = time.monotonic() + options.checkpoint_every
        self._checkpoint("end")
        self._say_result("complete")
        return 0

    def _on_signal(self) -> int | None:
        """What the program does when it is told to end; None to go on."""
        choice = self.options.on_sigterm
        self.reporter.event("sigterm", self.progress, then=choice)
        if choice == "ignore":
            return None
        if choice.startswith("checkpoint"):
            self._checkpoint("sigterm")
        return 0 if choice.endswith("0") else EXIT_UNFINISHED

    def _checkpoint(self, reason: str) -> None:
        self.store.save(self.progress)
        self.store.mark(self.progress)
        self.reporter.checkpoint(self.progress, reason)

    def _say_result(self, event: str) -> None:
        needed = self.task.last - self.task.first
        self.reporter.event(
            event,
            self.progress,
            result=f"{self.progress.state:016x}",
            expected=f"{self.task.outcome()[0]:016x}",
            sum=f"{self.progress.sum:016x}",
            recomputed=self.progress.computed - needed,
        )


def run(options: argparse.Namespace) -> int:
    """Compute this index's range; the exit code."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # taken between two steps, by Pace
    for number in SIGNALS:
        signal.signal(number, lambda *_: None)  # as process 1 we would not get signals left at their default
    task = Task(options.seed, options.steps, options.burn, options.index, options.parallelism)
    options.dir.mkdir(parents=True, exist_ok=True)
    store = Store(options.dir, task)
    if not store.lock():
        sys.stderr.write(f"another process computes index {task.index} in {options.dir}\n")
        return EXIT_ALREADY_RUNNING
    try:
        return Run(options, task, store).execute()
    except OtherParametersError as error:
        sys.stderr.write(f"{error}; use another folder or the same parameters\n")
        return EXIT_OTHER_PARAMETERS


# --- verifying ---


def verify(options: argparse.Namespace) -> int:
    """Check the checkpoints of all indexes against the closed form; 0 when all is done and right."""
    tasks: list[Task] = []
    wrong: list[str] = []
    computed = runs = total = 0
    for index in range(_parallelism(options.dir)):
        try:
            task, progress = read_checkpoint(checkpoint_file(options.dir, index))
        except (FileNotFoundError, ValueError) as error:
            wrong.append(f"index {index}: no checkpoint ({error})")
            continue
        tasks.append(task)
        wrong += _problems(index, task, progress, tasks[0])
        computed, runs, total = computed + progress.computed, runs + progress.runs, total + progress.sum
    needed = tasks[0].steps if tasks else 0
    sys.stdout.write(
        f"steps computed: {computed}, needed: {needed}, "
        f"recomputed after interruptions: {max(0, computed - needed)}\n"
        f"runs: {runs} in {len(tasks)} of {tasks[0].parallelism if tasks else 0} indexes\n"
    )
    if tasks and not wrong:
        sys.stdout.write(f"result: {total & MASK:016x}, as expected: every step counted exactly once\n")
    for line in wrong:
        sys.stdout.write(f"WRONG: {line}\n")
    return 1 if wrong else 0


def _parallelism(folder: Path) -> int:
    """How many indexes there are, by the first readable checkpoint; at least one, so that none is noticed."""
    for file in sorted(folder.glob("counter-*.checkpoint")):
        try:
            return read_checkpoint(file)[0].parallelism
        except ValueError:
            continue
    return 1


def _problems(index: int, task: Task, progress: Progress, like: Task) -> list[str]:
    found = []
    if task != dataclasses.replace(like, index=index):
        found.append(f"index {index}: computed {task}, the others {like}")
    if progress.step != task.last:
        found.append(f"index {index}: at step {progress.step} of {task.last}")
    elif (progress.state, progress.sum) != task.outcome():
        found.append(f"index {index}: {progress.state:016x} is not what these steps give")
    return found


# --- settings ---


def _parser(environ: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="counter.py", description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)

    def option(command: argparse.ArgumentParser, name: str, default: str, text: str, **more: object) -> None:
        value = environ.get(f"COUNTER_{name.upper().replace('-', '_')}", default)
        command.add_argument(f"--{name}", default=value, help=f"{text} (default {value})", **more)  # type: ignore[arg-type]

    interval = float(environ.get("SCAVENGER_CHECKPOINT_INTERVAL") or 20)
    compute = commands.add_parser("run", help="compute, or go on where the last checkpoint was")
    check = commands.add_parser("verify", help="combine the checkpoints and compare with the expected result")
    for command in (compute, check):
        option(command, "dir", "/data", "folder of the checkpoints, shared by all indexes", type=Path)
    option(compute, "steps", "600", "steps of all indexes together", type=int)
    option(compute, "seed", "1", "what the computation starts with", type=int)
    option(compute, "burn", "1000", "rounds of the generator per step", type=int)
    option(compute, "seconds", "60", "spread the steps over this time; 0: as fast as possible", type=float)
    option(compute, "checkpoint-every", str(interval / 2), "seconds between checkpoints", type=float)
    option(compute, "on-sigterm", ON_SIGTERM[0], "what to do when told to end", choices=ON_SIGTERM)
    option(compute, "termination-log", "/dev/termination-log", "where the last checkpoint is reported", type=Path)
    option(compute, "exit-at-step", "-1", "fail on our own when this step is reached", type=int)
    option(compute, "exit-code", "1", "exit code of that failure", type=int)
    for name, text in (
        ("spin", "keep the processor busy between steps"),
        ("annotate", "report checkpoints as an annotation on our own pod"),
    ):
        on = environ.get(f"COUNTER_{name.upper()}", "") not in ("", "0", "false")
        compute.add_argument(f"--{name}", action=argparse.BooleanOptionalAction, default=on, help=text)
    compute.set_defaults(
        index=int(environ.get("SCAVENGER_INDEX") or 0),
        parallelism=int(environ.get("SCAVENGER_PARALLELISM") or 1),
        restarts=environ.get("SCAVENGER_RESTARTS") or "0",
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; the exit code."""
    options = _parser(os.environ).parse_args(argv)
    return run(options) if options.command == "run" else verify(options)


if __name__ == "__main__":
    sys.exit(main())
