"""Why a job is where it is, in plain words, with the figures, and what would help. Pure: facts in, explanation out."""

from __future__ import annotations

import re
from typing import Final

from scavenger_api import names
from scavenger_api.times import parse_time
from scavenger_runtime.kinds import Pod

from scavenger_cli import objects
from scavenger_cli.details import cpu_time_label
from scavenger_cli.facts import Cause, Explanation, Facts, Finding
from scavenger_cli.obstacles import Obstacle, command, loads, obstacles, over_share, total_requests, waits_since
from scavenger_cli.words import age, cpu_time, ordinal, percent, plural, quantities, short_amount, span, spell

_EXIT_CODE: Final = re.compile(r"exited with code (\d+)")

EXIT_CODES: Final = {
    126: "the command is there and cannot be executed: check its permissions",
    127: "the command was not found: check spec.command, spec.args and the image",
    134: "the program aborted (SIGABRT)",
    137: "it was killed (SIGKILL)",
    139: "the program crashed (SIGSEGV)",
    143: "it ended on SIGTERM that nobody outside had sent to the pod",
}
"""Exit codes that say more than `failed`; 128 + n is signal n."""

INTERRUPTIONS: Final = {
    "Preempted": "the scheduler gave its room to an ordinary pod",
    "Evicted": "somebody evicted a pod of it through the API",
    "AboveUpperLevel": "the load of the cluster had reached the upper level, and this job had least to lose",
    "YieldAtCheckpoint": "it had just written a checkpoint, and others were waiting for the room",
    "KubeletEvicted": "its node ran short of a resource, and the kubelet ended it",
    "Starved": "it was starved: for 10 minutes it used less than 20 % of its CPU (unless set otherwise), on a node "
    "that no longer offered the room",
    "NodeMemory": "its node was short of memory, and it gave way before the kubelet had to choose",
    "NodeDrained": "its node was drained or tainted",
    "NodeLost": "its node was lost",
    "NodeShutdown": "its node was shut down",
    "Deleted": "somebody deleted a pod of it",
    "JobDeleted": "somebody deleted its Job",
    "Reclaimed": "another queue was under its share and took its room back",
}
"""The reasons of the condition Interrupted, in words."""


SAID_BY_FIGURES: Final = (
    Cause.ADMISSION_LEVEL,
    Cause.NO_PLACE,
    Cause.NO_RECLAIMED_CAPACITY,
    Cause.NODES_CLOSED,
    Cause.OVER_SHARE,
)
"""Causes that the figures below the headline show as well; the admitter's own figures may be newer."""


def explain(facts: Facts) -> Explanation:
    """The explanation of a job's state. Total: there is one for every job."""
    job = facts.job
    if job.metadata.deletion_timestamp is not None:
        return _deleting(facts)
    if job.phase in objects.QUEUED or not job.phase:
        return _queued(facts)
    by_phase = {
        objects.STARTING: _starting,
        objects.RUNNING: _running,
        objects.SUSPENDED: _suspended,
        objects.COMPLETED: _completed,
        objects.FAILED: _failed,
    }
    return by_phase.get(job.phase, _queued)(facts)


# --- in line ----------------------------------------------------------------------------------------------------


def _queued(facts: Facts) -> Explanation:
    found = list(obstacles(facts))
    first = found[0] if found else _turn(facts)
    job = facts.job
    queued = parse_time(job.status.queued_timestamp or job.metadata.creation_timestamp)
    since = waits_since(facts, queued)
    interrupted = job.phase == objects.INTERRUPTED
    state = "was interrupted and has been in line again" if interrupted else "has been waiting"
    headline = f"{job.name} {state}{since}: {first.text}"
    others = [other for other in found[1:] if other.cause not in SAID_BY_FIGURES]
    findings = [*_interruption(facts), *(Finding("also", other.text) for other in others)]
    findings += [*_levels(facts), *_room(facts), *_line(facts), *_queue_share(facts), *_said(facts, first)]
    return Explanation(first.cause, headline, (*findings, *_unread(facts)), tuple(r for r in first.remedies if r))


def _turn(facts: Facts) -> Obstacle:
    """Nothing is in the way that can be seen from here."""
    if not facts.job.phase:
        return Obstacle(Cause.NOT_SEEN_YET, "the admitter has not looked at it yet", ("wait a moment, and ask again",))
    if _says_why(facts.job.status.message):  # it knows what it has just started, and what others are about to take
        return Obstacle(Cause.AS_THE_ADMITTER_SAYS, facts.job.status.message, ())
    place = facts.line
    if place is not None and place[0] > 1:
        ahead = plural(place[0] - 1, "job") + (" is" if place[0] == 2 else " are")
        text = f"{ahead} before it in queue {facts.job.spec.queue}, and it should start soon"
    else:
        text = "nothing is in its way, and it should start in a moment"
    blind = ("what could not be read may hide the reason: ask an administrator",) if facts.unreadable else ()
    return Obstacle(Cause.IN_LINE, text, ("wait: " + command(facts.job, "wait", "--for=running"), *blind))


def _interruption(facts: Facts) -> list[Finding]:
    """The last interruption: who, when, and what it cost."""
    status = facts.job.status
    if facts.job.phase != objects.INTERRUPTED or not status.interrupted_timestamps:
        return []
    when = age(status.interrupted_timestamps[-1], facts.now)
    reason = facts.job.reason("Interrupted")
    words = INTERRUPTIONS.get(reason, reason or "for a reason that is not on record")
    findings = [Finding("interrupted", f"{when} ago, for the {ordinal(status.interrupted_count)} time: {words}")]
    if status.lost_cpu_seconds:
        total = status.lost_cpu_seconds + status.useful_cpu_seconds
        lost = 100.0 * status.lost_cpu_seconds / total
        findings.append(Finding("lost so far", f"{cpu_time(status.lost_cpu_seconds)} of CPU time ({percent(lost)})"))
    return findings


def _levels(facts: Facts) -> list[Finding]:
    findings = []
    for name, load in loads(facts).items():
        what = "requests" if load.by_requests else "load"
        text = f"{percent(load.now)} now, {percent(load.with_job)} with this job; new jobs start below "
        findings.append(Finding(f"{name} {what}", text + percent(load.admission)))
    return findings


def _room(facts: Facts) -> list[Finding]:
    room, spec = facts.room, facts.job.spec
    needs = f"{spec.parallelism} pods of {spell(spec.requests)}" if spec.parallelism > 1 else spell(spec.requests)
    findings = [Finding("it needs", needs)]
    if room is None or room.open == 0:
        return findings
    if room.largest_free is not None:
        free = spell({name: room.largest_free.amounts.get(name, 0) for name in spec.requests})
        label = "largest offer left" if spec.reclaimed else "largest free place"
        findings.append(Finding(label, f"{free} (node {room.largest_free.node})"))
    nodes = plural(room.open, "node")
    fit = plural(room.places, "such pod") if room.places else "no such pod"
    findings.append(Finding("room now", f"for {fit} on {nodes} it may use"))
    return findings


def _line(facts: Facts) -> list[Finding]:
    if facts.line is None:
        return []
    place, number = facts.line
    return [Finding("place in line", f"{ordinal(place)} of {number} in queue {facts.job.spec.queue}")]


def _queue_share(facts: Facts) -> list[Finding]:
    queue = facts.queue
    if queue is None or not queue.status.deserved:
        return []
    allocated, deserved = quantities(queue.status.allocated), quantities(queue.status.deserved)
    parts = [
        f"{short_amount(name, allocated.get(name, 0))} of {short_amount(name, share)} {name}"
        for name, share in deserved.items()
    ]
    over = " (over its share)" if over_share(queue) else ""
    return [Finding("queue's share", f"uses {', '.join(parts)}{over}")]


def _said(facts: Facts, first: Obstacle) -> list[Finding]:
    """The admitter's own sentence, where it adds to what was found here."""
    message = facts.job.status.message
    if first.cause not in SAID_BY_FIGURES or not _says_why(message):
        return []
    return [Finding("admitter", message)]


def _says_why(message: str) -> bool:
    """Whether the admitter has said more than that the job is in line."""
    return bool(message) and not message.startswith("in line") and "; in line to start again" not in message


def _unread(facts: Facts) -> list[Finding]:
    return [Finding("not permitted", f"to read {what}") for what in facts.unreadable]


# --- under way --------------------------------------------------------------------------------------------------


def _starting(facts: Facts) -> Explanation:
    job, pods = facts.job, _present(facts)
    running = sum(pod.status.phase == "Running" for pod in pods)
    scheduled = sum(bool(pod.spec.node_name) for pod in pods)
    number = job.spec.parallelism
    findings = [Finding("pods", f"{scheduled} of {number} placed on nodes, {running} running"), *_pod_troubles(pods)]
    if job.status.message not in ("", "starting"):
        findings.append(Finding("admitter", job.status.message))
    return Explanation(
        Cause.STARTING,
        f"{job.name} is starting: it counts as Running when all {plural(number, 'pod')} run",
        tuple(findings),
        ("wait: a start that does not come off is taken back by itself, after 10 minutes at the latest",),
    )


def _present(facts: Facts) -> list[Pod]:
    return [pod for pod in facts.pods if not pod.ended and pod.metadata.deletion_timestamp is None]


def _pod_troubles(pods: list[Pod]) -> list[Finding]:
    """What pods say of themselves while they do not run; each sentence once."""
    said: dict[str, str] = {}
    for pod in pods:
        for condition in pod.status.conditions:
            if condition.type == "PodScheduled" and condition.status == "False":
                said.setdefault(condition.message, pod.metadata.name)
        for container in pod.status.container_statuses:
            waiting = container.state.waiting
            if waiting is not None and waiting.reason not in ("", "ContainerCreating", "PodInitializing"):
                words = f"{waiting.reason}: {waiting.message}" if waiting.message else waiting.reason
                said.setdefault(words, pod.metadata.name)
    return [Finding(f"pod {name}", words) for words, name in list(said.items())[:3]]


def _running(facts: Facts) -> Explanation:
    job, now = facts.job, facts.now
    since = span((now - job.started_at).total_seconds()) if job.started_at is not None else "a moment"
    findings = [Finding("at risk", f"{cpu_time(job.at_risk(now))} of CPU time, if it had to go now")]
    if job.spec.reclaimed:
        findings.append(Finding("capacity", "Reclaimed: it may use what others requested and leave idle"))
    class_ = job.status.preemption.class_
    if class_ == names.PREEMPTIBLE:
        findings.append(Finding("class", "preemptible: among those that go first when an ordinary pod needs the room"))
    elif class_:
        findings.append(Finding("class", "non-preemptible: others go first"))
    if (safe := job.safe_until(now)) is not None:
        due = (job.spec.checkpoint_interval - (now - safe)).total_seconds()
        unsafe = span((now - safe).total_seconds())
        findings.append(Finding("checkpoint", f"{unsafe} of work since the last; next within {span(due)}"))
    if job.status.interrupted_count:
        last = age(job.status.interrupted_timestamps[-1], now) if job.status.interrupted_timestamps else "some time"
        findings.append(Finding("interrupted", f"{plural(job.status.interrupted_count, 'time')}, last {last} ago"))
    if facts.levels is not None and facts.levels.levels is not None:
        findings.append(Finding("cluster", f"{facts.levels.levels.state}; kubectl sj levels shows the load"))
    return Explanation(Cause.RUNNING, f"{job.name} has been running for {since}", tuple(findings))


def _suspended(facts: Facts) -> Explanation:
    job = facts.job
    name = f"{job.name} is suspended, by spec.suspend: it is not in line and uses nothing"
    if not job.spec.suspend:
        return Explanation(Cause.SUSPENDED, f"{job.name} was suspended and is about to line up again")
    return Explanation(Cause.SUSPENDED, name, (), (command(job, "resume"),))


def _completed(facts: Facts) -> Explanation:
    job = facts.job
    when = age(job.status.finished_timestamp, facts.now)
    return Explanation(Cause.COMPLETED, f"{job.name} completed {when} ago", tuple(_account(facts)))


def _account(facts: Facts) -> list[Finding]:
    status = facts.job.status
    useful, lost = cpu_time(status.useful_cpu_seconds), cpu_time(status.lost_cpu_seconds)
    times = plural(status.interrupted_count, "interruption")
    return [Finding(cpu_time_label(facts.job), f"{useful} useful, {lost} lost to {times}")]


# --- over -------------------------------------------------------------------------------------------------------


def _failed(facts: Facts) -> Explanation:
    job = facts.job
    message = job.status.message or "the admitter left no message"
    when = age(job.status.finished_timestamp, facts.now)
    code = _EXIT_CODE.search(message)
    findings = tuple(_account(facts)) if job.status.running_timestamps else ()
    headline = f"{job.name} failed{f' {when} ago' if when else ''}: {message}"
    again = f"then `{command(job, 'delete')}` and submit it again: a failed job is never retried by itself"
    if code is None:
        return Explanation(Cause.FAILED_TO_START, headline, findings, (_missing_remedy(message), again))
    logs = "read what it said: " + command(job, "logs")
    hint = _exit_hint(int(code[1]), message)
    if hint:
        findings = (Finding(f"exit code {code[1]}", hint), *findings)
    return Explanation(Cause.FAILED_BY_EXIT, headline, findings, (logs, *_exit_remedy(message), again))


def _exit_hint(code: int, message: str) -> str:
    if "OOMKilled" in message:
        return "it used more memory than it asked for"
    if code in EXIT_CODES:
        return EXIT_CODES[code]
    return f"it ended on signal {code - 128}" if 128 < code < 160 else ""


def _exit_remedy(message: str) -> tuple[str, ...]:
    return ("ask for more memory in resources.requests",) if "OOMKilled" in message else ()


def _missing_remedy(message: str) -> str:
    if "not found" in message:
        return "create what is missing, or correct its name in the manifest"
    if "image name" in message:
        return "correct spec.image"
    return "correct the manifest"


def _deleting(facts: Facts) -> Explanation:
    job = facts.job
    left = [pod for pod in facts.pods if not pod.ended]
    findings = [
        Finding(
            f"pod {pod.metadata.name}", f"still there{f' on node {pod.spec.node_name}' if pod.spec.node_name else ''}"
        )
        for pod in left[:3]
    ]
    since = age(job.metadata.deletion_timestamp, facts.now)
    asked = spell(total_requests(facts))
    return Explanation(
        Cause.DELETING,
        f"{job.name} is being deleted, since {since}; it gives back {asked} when its pods have ended",
        tuple(findings),
        ("wait: pods get their grace period to write a last checkpoint",),
    )
