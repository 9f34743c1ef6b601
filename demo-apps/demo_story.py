"""The story: two teams fill the cluster, share it, leave at once for a regular pod, and lose nothing.

What is told is what was seen: each step waits for it, and where it does not come about the demo fails.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from demo_install import Services
from demo_stage import (
    BIO,
    CHEM,
    NAMESPACES,
    SHOP,
    DemoError,
    Size,
    Stage,
    console,
    deployment,
    ordinary,
    say,
    until,
)
from rich.markup import escape
from rich.table import Table
from scavenger_api.names import LABEL_JOB
from scavenger_api.reasons import InterruptionReason, WaitReason

WORK: Final = 120
"""Seconds that most jobs compute, all their runs together: when the rush comes, few come to their end by themselves."""
LATE: Final = 55
"""The same of those that do not fit at first."""
SWEEP: Final = 30
"""The same of the job on reclaimed capacity."""
BIO_JOBS: Final = 11
LOG_GONE: Final = "log is gone"
AT_FIRST: Final = 6
"""Of the jobs of team biology, those that fit."""
SOON: Final = {WaitReason.QUEUED.value, WaitReason.NEXT_CYCLE.value, WaitReason.STARTING.value}
"""Reasons to wait of jobs that may start in a moment."""
AT_ONCE: Final = 4
"""Commands."""
OFFICE_UNITS: Final = 2
FOR_JOBS: Final = 8
"""Twentieths of the cluster that ordinary workloads leave to be requested: less than what team biology would have."""
OFFICE: Final = """
import time
while True:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        pass
    time.sleep(20)
"""
"""Busy for twenty seconds, and idle for as long."""
PLAIN: Final = """
import time
total = 0
for step in range(150):
    total += step
    print(f"step={step}", flush=True)
    time.sleep(0.1)
print(f"event=complete result={total} expected={sum(range(150))} recomputed=0", flush=True)
"""
"""A program that writes no checkpoints."""
PLAIN_JOB: Final = "plain"
IDLE: Final = "import signal, time; signal.signal(signal.SIGTERM, lambda *_: exit(0)); time.sleep(3600)"


# --- who is there ---


def prepare(stage: Stage) -> None:
    """Namespaces, two queues, and regular workloads: one that is idle, and one that comes and goes."""
    for namespace in NAMESPACES:
        stage.run("kubectl", "create", "namespace", namespace)
    stage.shell("kubectl", "sj", "queue", "create", BIO, "--weight=1")
    stage.shell("kubectl", "sj", "queue", "create", CHEM, "--weight=2")
    office = Size.of(OFFICE_UNITS * stage.unit)
    # What is requested is the load where nobody measures it.
    asks = office.cpu / OFFICE_UNITS if stage.measured else office.cpu
    spare = sum(stage.free().values()) - asks * office.pods - FOR_JOBS * stage.unit
    if spare <= stage.unit:
        raise DemoError("too much of the CPU of this cluster is requested already: no capacity is left for jobs")
    reserved = Size.of(spare)
    stage.apply(
        SHOP,
        deployment("office", office.pods, ordinary("office", stage.image, asks, [OFFICE], office.cpu)),
        deployment("reserved", reserved.pods, ordinary("reserved", stage.image, reserved.cpu, [IDLE])),
    )
    stage.ready(SHOP, "office", "reserved")
    say(
        f"regular workloads: [b]office[/b] uses up to {office.pods * office.cpu}m CPU, on and off; [b]reserved[/b] "
        f"requests {reserved.pods * reserved.cpu}m, and uses none of it"
    )


# --- jobs ---


def submit(stage: Stage, team: str, name: str, size: Size, seconds: int, *options: str, shown: bool = True) -> None:
    """A job that counts for so many seconds, keeps its CPU busy, and saves its state on a claim of its own."""
    words = [*run(stage, team, name), f"--cpu={size.cpu}m", "--memory=48Mi", "--interruption-after=20s", "--grace=5"]
    words += options
    if size.pods > 1:
        words.append(f"--parallelism={size.pods}")
    if stage.real:
        words += with_claim(stage, team, name, "10Mi")
    words += ["--", "run", f"--seconds={seconds}", f"--steps={20 * seconds * size.pods}", "--spin"]
    stage.run(*words, shown=shlex.join(words) if shown else "")


def run(stage: Stage, team: str, name: str) -> list[str]:
    """The beginning of each command that submits a job."""
    return ["kubectl", "sj", "run", name, f"--namespace={team}", f"--queue={team}", f"--image={stage.image}"]


def with_claim(stage: Stage, team: str, name: str, storage: str) -> tuple[str, ...]:
    """Options for a job with a claim of its own, which is made here."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}
    stage.apply(team, claim)
    return f"--pvc={name}:/data", "--fs-group=65532"


def fill(stage: Stage) -> None:
    """Team biology comes first, and takes what there is."""
    say(f"team [b]biology[/b] submits {BIO_JOBS} jobs of {stage.unit:.0f}m CPU, each with checkpoints on a volume")
    submit(stage, BIO, "bio-1", Size.of(stage.unit), WORK)

    def another(number: int) -> None:
        seconds = WORK if number <= AT_FIRST else LATE
        submit(stage, BIO, f"bio-{number}", Size.of(stage.unit), seconds, shown=False)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(another, range(2, BIO_JOBS + 1)))

    running = until("jobs of team biology run, and nothing more fits", lambda: filled(stage.jobs()))
    say(f"{len(running)} of them run, in {'real containers' if stage.real else 'pods on fake nodes'}", "green")
    waiting = stage.in_phase("Waiting")
    if waiting:
        why = stage.shell("kubectl", "sj", "why", waiting[0], "-n", BIO)
        say(escape(headline(why)))


def headline(why: str) -> str:
    """The sentence that `kubectl sj why` begins with, in one line."""
    return " ".join(why.partition("\n\n")[0].split())


def filled(jobs: dict[str, dict[str, Any]]) -> list[str]:
    """Those that run, once all of team biology do or wait for capacity; none before. Queued ones may start yet."""
    running = [name for name, status in jobs.items() if status.get("phase") == "Running"]
    waiting = [status for status in jobs.values() if status.get("phase") == "Waiting"]
    reasons = {one["reason"] for status in waiting for one in status["conditions"] if one["type"] == "Admitted"}
    settled = not waiting or reasons - SOON
    return sorted(running) if len(running) + len(waiting) == BIO_JOBS and settled else []


def share(stage: Stage) -> None:
    """Team chemistry comes, and gets what its queue deserves: as a gang, whole or not at all."""
    say("team [b]chemistry[/b] submits a gang of two pods: both run, or none. Its queue deserves two thirds")
    submit(stage, CHEM, "fold", Size.of(2 * stage.unit, at_least=2), WORK)
    until("the gang runs", lambda: stage.status("fold").get("phase") == "Running")
    gave = caused(stage, InterruptionReason.QUEUE_RECLAIMED)
    if not gave:
        raise DemoError("the gang runs, and no job of team biology was interrupted for it")
    say(f"the gang [b]fold[/b] runs: {names(gave)} left for it, with the least unsaved work", "green")
    say("interrupted jobs are next in their queue, and continue from their last checkpoint")
    console.print(stage.shell("kubectl", "sj", "queue", "list").rstrip())


def displace(stage: Stage) -> None:
    """A regular pod that fits on no node gets its capacity at once."""
    needs = max(stage.free().values()) + 1.5 * stage.unit
    spec = ordinary("web", stage.image, needs, [IDLE])
    if stage.scheduler:
        spec["schedulerName"] = stage.scheduler
    stage.apply(SHOP, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec})
    arrived = time.monotonic()
    say(f"a regular pod, [b]web[/b], arrives. It needs {needs:.0f}m CPU, which no node has free")
    until("the regular pod runs", lambda: stage.running("web"))
    say(f"web is Running, {time.monotonic() - arrived:.1f} s after it arrived", "green")
    left = until("a job left for it", lambda: caused(stage, InterruptionReason.PREEMPTED))
    say(f"{names(left)} left for it, with the least unsaved work", "yellow")
    time.sleep(3)
    without = stage.in_phase("Running")
    stage.shell("kubectl", "-n", SHOP, "delete", "pod", "web", "--wait=false")
    # Jobs that were interrupted earlier, as for the gang, run before those that left for the pod.
    until("an interrupted job runs again", lambda: resumed(stage, without))
    time.sleep(2)
    say(
        f"web is gone. Interrupted jobs run again from their last checkpoint: {names(resumed(stage, without))}", "green"
    )


def measure(stage: Stage, services: Services) -> None:
    """Until here requests counted, up to a fixed level; from here on real use does."""
    if not stage.measured:
        stage.scale("reserved", 0)  # what it requests would count as load
    services.measure(stage)
    until("the regulator has measured", lambda: "load.cpu" in stage.levels())
    what = "what pods really use" if stage.measured else "what pods request, as nothing measures what they use,"
    say(f"the regulator runs: from here on {what} counts, and jobs start up to levels that it learns", "green")


def reclaim(stage: Stage) -> bool:
    """A job on what others have requested and do not use; whether there can be one."""
    if not stage.measured:
        say("reclaimed capacity is left out: what pods really use is not known here", "yellow")
        return False
    free = sum(stage.free().values())
    say(
        f"all but {free:.0f}m CPU are requested. Team chemistry submits [b]sweep[/b] for CPU that the Deployment "
        "[b]reserved[/b] requests and does not use"
    )
    submit(stage, CHEM, "sweep", Size.of(stage.unit), SWEEP, "--reclaimed")
    return True


def names(found: Sequence[str]) -> str:
    """As in a sentence."""
    return " and ".join(filter(None, (", ".join(found[:-1]), *found[-1:])))


def caused(stage: Stage, cause: InterruptionReason) -> list[str]:
    """The jobs that are off their nodes for this cause, and not back yet."""
    found = []
    for name, status in stage.jobs().items():
        conditions = {one["type"]: one for one in status.get("conditions", ())}
        if (conditions.get("Interrupted") or {}).get("reason") == cause.value:
            found.append(name)
    return sorted(found)


def resumed(stage: Stage, without: Sequence[str]) -> list[str]:
    """The jobs that run now, were interrupted before, and are not among `without`."""
    interrupted = {name: status for name, status in stage.jobs().items() if status.get("interruptedCount")}
    return sorted(name for name, status in interrupted.items() if status["phase"] == "Running" and name not in without)


def interrupt(stage: Stage) -> None:
    """A program that writes no checkpoints runs on snapshots, and its pod is deleted."""
    if not stage.snap:
        return
    words = [*run(stage, CHEM, PLAIN_JOB), "--cpu=200m", "--memory=256Mi", "--interruption-after=30s", "--grace=20"]
    words += [*with_claim(stage, CHEM, PLAIN_JOB, "256Mi"), f"--snapshot={PLAIN_JOB}", "--command", "--"]
    program = ("python3", "-c", PLAIN)
    stage.run(*words, *program, shown=f"{shlex.join(words)} python3 -c …")
    until("a program without checkpoints computes", lambda: len(steps(stage, "Running")) > 10)
    stage.shell("kubectl", "-n", CHEM, "delete", "pod", f"--selector={LABEL_JOB}={PLAIN_JOB}", "--wait=false")


def steps(stage: Stage, phase: str) -> list[int]:
    """What the pod of that program has made, as its log has it; none where the job is in another phase."""
    if stage.status(PLAIN_JOB).get("phase") != phase or not stage.pods(CHEM, f"{LABEL_JOB}={PLAIN_JOB}"):
        return []
    lines = stage.run("kubectl", "sj", "logs", PLAIN_JOB, "-n", CHEM).splitlines()
    return [int(step) for line in lines if (step := ended(line).get("step"))]


def tell_continued(stage: Stage) -> None:
    """Its last pod has not begun anew, as far as its log is there. DemoError where it has."""
    made = steps(stage, "Completed")
    if 0 in made:
        raise DemoError(f"{PLAIN_JOB} was interrupted, and has begun anew")
    if made:
        say(f"{PLAIN_JOB} writes no checkpoints: a snapshot continued it in another pod at step {made[0]}", "green")


# --- the end ---


def finish(stage: Stage) -> None:
    """All jobs come to their end, with the right result."""
    if not stage.real:
        complete_fake(stage)
    until("all jobs are Completed", lambda: len(stage.in_phase("Completed")) == len(stage.jobs()), 240)
    if stage.snap:
        tell_continued(stage)
    table = Table("job", "pods", "interrupted", "CPU-seconds useful", "lost", "steps made again", "result")
    wrong, right_ones = [], 0
    for team in (CHEM, BIO):
        for job in stage.items(f"/apis/scavenger.dev/v1alpha1/namespaces/{team}/scavengerjobs"):
            row, right = line_of(stage, team, job)
            table.add_row(*row)
            wrong += [row[0]] if right is False else []
            right_ones += right is True
    console.print(table)
    if wrong:
        raise DemoError(f"the result of {names(wrong)} is wrong")
    if not right_ones:
        raise DemoError("no job has left a result to be seen")


def line_of(stage: Stage, team: str, job: dict[str, Any]) -> tuple[Sequence[str], bool | None]:
    """A job's line of the table, and whether its result is right; None where its log is gone."""
    name, status = job["metadata"]["name"], job["status"]
    row = [name, str(job["spec"].get("parallelism", 1)), str(status.get("interruptedCount", 0))]
    row += [f"{status.get('usefulCPUSeconds', 0):.1f}", f"{status.get('lostCPUSeconds', 0):.1f}"]
    if not stage.real:
        return [*row, "-", "not computed"], True
    left = stage.pods(team, f"{LABEL_JOB}={name}")
    if not left:  # told to leave in the second in which it had come to its end: its log went with the pod
        return [*row, "-", LOG_GONE], None
    ends = [ended(line) for line in stage.run("kubectl", "sj", "logs", name, "-n", team).splitlines()]
    results = [end for end in ends if end.get("event") in ("complete", "already-complete")]
    right = len(results) == len(left) and all(end["result"] == end["expected"] for end in results)
    again = sum(int(end.get("recomputed", 0)) for end in results)
    return [*row, str(again), "as expected" if right else "WRONG"], right


def ended(line: str) -> dict[str, str]:
    """The fields of a line that the counter has written."""
    return dict(word.partition("=")[::2] for word in line.split() if "=" in word)


def complete_fake(stage: Stage) -> None:
    """Mark the pods of all jobs as succeeded, until none is left: a fake node runs no program."""
    say("the jobs are marked Completed by this demo: a fake node runs no program", "yellow")

    succeeded = ("--subresource=status", "--type=merge", "-p", json.dumps({"status": {"phase": "Succeeded"}}))

    def all_marked() -> bool:
        for pod in stage.scavenger_pods():
            if pod["status"].get("phase") == "Running":
                name, user = pod["metadata"]["name"], pod["metadata"]["namespace"]
                stage.run("kubectl", "-n", user, "patch", "pod", name, *succeeded)
        return len(stage.in_phase("Completed")) == len(stage.jobs())

    until("all jobs are Completed", all_marked, 240)
