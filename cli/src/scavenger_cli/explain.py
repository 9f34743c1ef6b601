"""Why a job is where it is, in plain words, with the figures, and what would help. Pure: facts in, explanation out."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from scavenger_api import names
from scavenger_api.main_container import GOES_FIRST
from scavenger_api.quantity import readable_amounts
from scavenger_api.reasons import InterruptionReason, WaitReason
from scavenger_api.rules.image import registry_of
from scavenger_api.states import ConditionType, Phase
from scavenger_api.times import parse_time
from scavenger_domain.ailments import some
from scavenger_domain.last_word import as_of, silent
from scavenger_domain.pod_ends import PROVEN_WITHIN, ended_at, succeeded
from scavenger_domain.pulls import NO_IMAGE
from scavenger_domain.requests import above_request
from scavenger_kube.kinds import Pod, Waiting

from scavenger_cli import objects
from scavenger_cli.advice import command, remedies
from scavenger_cli.details import cpu_time_label
from scavenger_cli.facts import Cause, Explanation, Facts, Finding
from scavenger_cli.figures import loads, over_share, total_requests
from scavenger_cli.remedies import INSTALL
from scavenger_cli.usage import usage_text
from scavenger_cli.words import age, cpu_time, ordinal, percent, plural, short_amount, span, spell

_EXIT_CODE: Final = re.compile(r"exited with code (\d+)")

EXIT_CODES: Final = {
    126: "the command cannot be executed: check its permissions, and whether it is for the processors of the node",
    127: "the command was not found: check spec.command, spec.args and the image",
    134: "the program aborted (SIGABRT)",
    137: "it was killed (SIGKILL)",
    139: "the program crashed (SIGSEGV)",
    143: "it ended on a SIGTERM that did not come from outside the pod",
}
"""Exit codes that say more than `failed`; 128 + n is signal n."""

_LOOK: Final = "ask an administrator to look: kubectl -n scavenger-system logs deploy/scavenger-admitter"


def explain(facts: Facts) -> Explanation:
    """The explanation of a job's state. Total: there is one for every job."""
    job = facts.job
    if job.metadata.deletion_timestamp is not None:
        return dated(facts, _deleting(facts))
    if job.phase in objects.QUEUED or not job.phase:
        return _queued(facts)
    by_phase: dict[str, Callable[[Facts], Explanation]] = {
        Phase.STARTING: _starting,
        Phase.RUNNING: _running,
        Phase.SUSPENDED: _suspended,
        Phase.COMPLETED: _completed,
        Phase.FAILED: _failed,
    }
    return dated(facts, by_phase.get(job.phase, _queued)(facts))


def dated(facts: Facts, found: Explanation) -> Explanation:
    """The explanation of a job that is not over; where the admitter does not look, as of when, and what helps."""
    finished = facts.job.phase in objects.FINISHED and facts.job.metadata.deletion_timestamp is None
    if finished or not facts.admitter_known or not silent(facts.admitter_seen, facts.now):
        return found
    said = as_of("the admitter", facts.admitter_seen, facts.now)
    return Explanation(
        Cause.ADMITTER_SILENT, f"{found.headline}, {said}", found.findings, (_LOOK, f"install it: {INSTALL}")
    )


# --- queued -----------------------------------------------------------------------------------------------------


def _queued(facts: Facts) -> Explanation:
    job = facts.job
    cause, text, helps = _silent(facts) or _published(facts)
    queued = job.in_line_since or parse_time(job.metadata.creation_timestamp)
    since = f" for {span((facts.now - queued).total_seconds())}" if queued is not None else ""
    interrupted = job.phase == Phase.INTERRUPTED
    state = "was interrupted and has been queued again" if interrupted else "has been waiting"
    findings = [
        *_interruption(facts),
        *_levels(facts),
        *_room(facts),
        *_refusing(facts),
        *_line(facts),
        *_queue_share(facts),
    ]
    if cause == Cause.ADMITTER_SILENT and job.status.message:
        findings.append(Finding("it last said", job.status.message))
    return Explanation(
        cause, f"{job.name} {state}{since}: {text}", (*findings, *_warnings(facts), *_unread(facts)), helps
    )


def _silent(facts: Facts) -> tuple[str, str, tuple[str, ...]] | None:
    """No component is there to say why the job waits, or to start it: cause, text and what helps."""
    if not facts.admitter_known:
        return None
    if facts.admitter_seen is None and not facts.job.phase:
        install = f"install it: {INSTALL}"
        return Cause.ADMITTER_SILENT, "no admitter runs in this cluster, so nothing is ever started", (install,)
    if facts.admitter_seen is not None and silent(facts.admitter_seen, facts.now):
        silence = age(facts.admitter_seen, facts.now)
        return Cause.ADMITTER_SILENT, f"the admitter has given no sign of life for {silence}", (_LOOK,)
    return None


def _published(facts: Facts) -> tuple[str, str, tuple[str, ...]]:
    """What the condition Admitted says: reason, message and what helps."""
    job, wait = facts.job, ("wait a moment, and ask again",)
    if not job.phase:
        return Cause.NOT_SEEN_YET, "the admitter has written nothing of it yet, as it does after a few seconds", wait
    admitted = job.condition(ConditionType.ADMITTED)
    if admitted is None:
        return Cause.NOT_SAID, job.status.message or "the admitter has not said why", wait
    if admitted.reason == WaitReason.QUEUED:
        return admitted.reason, f"it is queued{_place(facts)}", remedies(admitted.reason, facts)
    # An admitter before this version wrote no message into the condition.
    text = admitted.message or job.status.message or admitted.reason
    return admitted.reason, text, remedies(admitted.reason, facts)


def _place(facts: Facts) -> str:
    return f", {objects.position(facts.job, facts.line, facts.queues or ())}" if facts.line else ""


def _interruption(facts: Facts) -> list[Finding]:
    """The last interruption: who, when, and what it cost."""
    status = facts.job.status
    if facts.job.phase != Phase.INTERRUPTED or not status.interrupted_timestamps:
        return []
    when = age(status.interrupted_timestamps[-1], facts.now)
    reason = facts.job.reason("Interrupted")
    words = interruption(reason)
    findings = [Finding("interrupted", f"{when} ago, for the {ordinal(status.interrupted_count)} time: {words}")]
    if status.lost_cpu_seconds:
        total = status.lost_cpu_seconds + status.useful_cpu_seconds
        lost = 100.0 * status.lost_cpu_seconds / total
        findings.append(Finding("lost so far", f"{cpu_time(status.lost_cpu_seconds)} of CPU time ({percent(lost)})"))
    return findings


def interruption(reason: str) -> str:
    """A reason of the condition Interrupted in words, to follow a colon."""
    known = InterruptionReason.of(reason)
    if known is None or not known.__doc__:
        return reason or "for a reason that is not on record"
    return known.__doc__[0].lower() + known.__doc__[1:].removesuffix(".")


def _levels(facts: Facts) -> list[Finding]:
    closed = facts.levels.closed if facts.levels is not None else ""
    where = f" of pool {facts.pool}" if facts.pool else ""
    findings = [Finding("new jobs", f"none start on nodes{where}: {closed}" if where else f"none start: {closed}")]
    findings = findings if closed else []
    admitted = facts.job.condition(ConditionType.ADMITTED)
    for name, load in loads(facts).items():
        what = "requests" if load.by_requests else "load"
        # The admitter has counted the job in already, with all that it knows: a second figure would be another one.
        told = (
            admitted is not None and admitted.status == "False" and f"{name} load{where} would be" in admitted.message
        )
        text = f"{percent(load.now)} now{'' if told else f', {percent(load.with_job)} with this job'}; "
        findings.append(Finding(f"{name} {what}{where}", f"{text}new jobs start below {percent(load.admission)}"))
    return findings


def _room(facts: Facts) -> list[Finding]:
    room, spec = facts.room, facts.job.spec
    needs = f"{spec.parallelism} pods of {spell(spec.requests)}" if spec.parallelism > 1 else spell(spec.requests)
    findings = [Finding("it needs", needs)]
    if room is None or room.open == 0:
        return findings
    nodes = plural(room.open, "node")
    if facts.job.reason(ConditionType.ADMITTED) == WaitReason.NO_PLACE and room.places >= spec.parallelism:
        text = f"enough for {plural(room.places, 'such pod')} on {nodes} it may use, but held for others"
        return [*findings, Finding("free by requests", text)]
    if room.largest_free is not None and room.nearest is None:
        free = spell({name: room.largest_free.amounts.get(name, 0) for name in spec.requests})
        label = "largest offer left" if spec.reclaimed else "largest free place"
        findings.append(Finding(label, f"{free} (node {room.largest_free.node})"))
    if room.nearest is not None:
        left = spell({name: room.nearest.amounts.get(name, 0) for name in spec.requests})
        findings.append(Finding("nearest node", f"{room.nearest.node}: {left} left up to its own level"))
    fit = plural(room.places, "such pod") if room.places else "no such pod"
    findings.append(Finding("capacity now", f"for {fit} on {nodes} it may use"))
    return findings


def _refusing(facts: Facts) -> list[Finding]:
    """Nodes that the admitter does not use, though the scheduler would."""
    if not facts.shunned:
        return []
    said = facts.shunned[min(facts.shunned)]
    text = f"{some(facts.shunned)}: no job starts there for a while, as pods did not start: {said}"
    return [Finding("nodes left out", text)]


def _line(facts: Facts) -> list[Finding]:
    where = objects.position(facts.job, facts.line, facts.queues or ())
    return [Finding("position", where)] if where else []


def _queue_share(facts: Facts) -> list[Finding]:
    queue = facts.queue
    if queue is None or not queue.status.deserved:
        return []
    allocated, deserved = readable_amounts(queue.status.allocated), readable_amounts(queue.status.deserved)
    parts = [
        f"{short_amount(name, allocated.get(name, 0))} of {short_amount(name, share)} {name}"
        for name, share in deserved.items()
    ]
    over = " (over its share)" if over_share(queue) else ""
    return [Finding("queue's share", f"uses {', '.join(parts)}{over}")]


def what_fits(facts: Facts) -> list[Finding]:
    """What decides whether another pod of a job that runs can start: load, capacity and share."""
    return [*_levels(facts), *_room(facts), *_queue_share(facts), *_unread(facts)]


def _warnings(facts: Facts) -> list[Finding]:
    found = (("warning", facts.job.spec.suffers), ("snapshots", facts.snapshot_warning))
    return [Finding(label, text) for label, text in found if text]


def _unread(facts: Facts) -> list[Finding]:
    return [Finding("not permitted", f"to read {what}") for what in facts.unreadable]


# --- under way --------------------------------------------------------------------------------------------------


def _starting(facts: Facts) -> Explanation:
    job, pods = facts.job, _present(facts)
    running = sum(pod.status.phase == "Running" for pod in pods)
    scheduled = sum(bool(pod.spec.node_name) for pod in pods)
    number = job.spec.parallelism
    placed = Finding("pods", f"{scheduled} of {number} placed on nodes, {running} running")
    findings = [placed, *pod_troubles(facts, pods)]
    if job.status.message not in ("", "starting"):
        findings.append(Finding("admitter", job.status.message))
    return Explanation(
        Cause.STARTING,
        f"{job.name} is starting: it counts as Running when all {plural(number, 'pod')} run",
        tuple(findings),
        start_remedies(pods),
    )


def _present(facts: Facts) -> list[Pod]:
    return [pod for pod in facts.pods if not pod.ended and pod.metadata.deletion_timestamp is None]


def pod_troubles(facts: Facts, pods: list[Pod]) -> list[Finding]:
    """What pods say of themselves while they do not run; each sentence once. pods: of these facts."""
    said: dict[str, str] = {}
    for pod in pods:
        for condition in pod.status.conditions:
            if condition.type == "PodScheduled" and condition.status == "False":
                said.setdefault(condition.message, pod.metadata.name)
        for container, waiting in _waiting(pod):
            words = f"{waiting.reason}: {waiting.message}" if waiting.message else waiting.reason
            pull = _pull(facts, pod, container) if waiting.reason in NO_IMAGE else ""
            said.setdefault(pull + words, pod.metadata.name)
    return [Finding(f"pod {name}", words) for words, name in list(said.items())[:3]]


def _waiting(pod: Pod) -> list[tuple[str, Waiting]]:
    """Containers that wait for more than their turn, and why."""
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    found = [(one.name, one.state.waiting) for one in statuses if one.state.waiting is not None]
    return [(name, one) for name, one in found if one.reason not in ("", "ContainerCreating", "PodInitializing")]


def _pull(facts: Facts, pod: Pod, container: str) -> str:
    """Which image a container cannot have, from where and with what login."""
    image = next((c.image for c in (*pod.spec.init_containers, *pod.spec.containers) if c.name == container), "")
    names_of = ", ".join(facts.pull_secrets)
    login = f"with the secret{'s' * (len(facts.pull_secrets) > 1)} {names_of}" if names_of else "without a secret"
    return f"image {image} of registry {registry_of(image)}, {login}: "


def start_remedies(pods: list[Pod]) -> tuple[str, ...]:
    """What helps pods that are starting."""
    wait = "wait: a start that fails is taken back by itself, after 10 minutes at the latest"
    if not any(one.reason in NO_IMAGE for pod in pods for _, one in _waiting(pod)):
        return (wait,)
    return (
        "see that the image exists, under this name and tag, and that nodes reach its registry",
        "where the registry wants a login: kubectl create secret docker-registry NAME --docker-server=REGISTRY, and "
        "name it in imagePullSecrets of a new job (docs/troubleshooting.md#the-image-cannot-be-pulled)",
        wait,
    )


def losses(unsaved: float, at_risk: float, when: str) -> list[Finding]:
    """What a run would lose, and its running priority where that is another figure.

    Args:
        unsaved: core-seconds of work.
        at_risk: core-seconds, as schedulers and services compare them.
        when: under which the work is lost.
    """
    lost, ranked = cpu_time(unsaved), cpu_time(at_risk)
    found = [Finding("unsaved work", f"{lost} of CPU time, {when}")]
    if ranked != lost:
        why = "with what a restart costs" if at_risk > unsaved else "as its promise is trusted"
        found.append(Finding("priority", f"{ranked} of CPU time, {why}: jobs that have less go first"))
    return found


def _running(facts: Facts) -> Explanation:
    job, now = facts.job, facts.now
    if (done := _all_done(facts)) is not None:
        return done
    since = span((now - job.started_at).total_seconds()) if job.started_at is not None else "a moment"
    findings = losses(
        job.unsaved(now, facts.shared.resource_weights, facts.pods),
        job.at_risk(now, facts.shared, facts.pods),
        "lost if it goes now",
    )
    if job.spec.reclaimed:
        findings.append(Finding("capacity", "Reclaimed: it may use what others requested and leave idle"))
    if job.preemption_class == names.PREEMPTIBLE:
        findings.append(
            Finding("class", "preemptible: among those that go first when a regular pod needs the capacity")
        )
    else:
        findings.append(Finding("class", "non-preemptible: others go first"))
    if (safe := job.safe_until(now)) is not None:
        due = (job.spec.checkpoint_interval - (now - safe)).total_seconds()
        unsafe = span((now - safe).total_seconds())
        findings.append(Finding("checkpoint", f"{unsafe} of work since the last; next within {span(due)}"))
    stalled = job.condition(ConditionType.STALLED)
    if stalled is not None and stalled.status == "True":
        findings.append(Finding("it seems to hang", f"{stalled.message}; {command(job, 'logs')} shows what it does"))
    return Explanation(Cause.RUNNING, f"{job.name} has been running for {since}", (*findings, *under_way(facts)))


def _all_done(facts: Facts) -> Explanation | None:
    """A job whose programs have all ended with 0, where only the verdict waits; None for any other."""
    job, done = facts.job, [pod for pod in _last_run(facts) if succeeded(pod)]
    ends = [at for pod in done if (at := ended_at(pod)) is not None]
    if job.spec.array is not None or len(done) < job.spec.parallelism or not ends:
        return None
    nodes = sorted({pod.spec.node_name for pod in done})
    where = f"node {nodes[0]} shows" if len(nodes) == 1 else f"the {len(nodes)} nodes of its pods show"
    findings = (
        Finding("why it waits", "a machine that goes down also has programs end with 0"),
        Finding("at the latest", f"{span(PROVEN_WITHIN.total_seconds())} after the end; without a sign it runs again"),
        Finding("capacity", "it is free, and counts in no quota"),
    )
    said = f"{job.name} ended {age(max(ends), facts.now)} ago with 0: it is Completed when {where} life"
    return Explanation(Cause.AWAITS_PROOF, said, findings)


def _last_run(facts: Facts) -> list[Pod]:
    """The pods of the Job that was created last; those of earlier runs may still be there."""
    newest = max(facts.pods, key=lambda pod: pod.metadata.creation_timestamp or "", default=None)
    owner = newest.metadata.controller if newest is not None else None
    return [pod for pod in facts.pods if owner is None or pod.metadata.controller == owner]


def under_way(facts: Facts, *, interruptions: bool = True) -> list[Finding]:
    """What is said of all that run: how often they were interrupted, and what the cluster does."""
    status, findings = facts.job.status, []
    if interruptions and status.interrupted_count:
        last = age(status.interrupted_timestamps[-1], facts.now) if status.interrupted_timestamps else "some time"
        findings.append(Finding("interrupted", f"{plural(status.interrupted_count, 'time')}, last {last} ago"))
    if facts.levels is not None and facts.levels.levels is not None:
        findings.append(Finding("cluster", f"{facts.levels.levels.state}; kubectl sj levels shows the load"))
    if so_far := usage_text(facts.job):
        findings.append(Finding("so far", so_far))
    return [*findings, *_use(facts), *_above_request(facts), *_warnings(facts)]


def _use(facts: Facts) -> list[Finding]:
    """What the pods use now of what they request, on average: how much is reserved and lies idle."""
    asked, parts = facts.job.spec.requests, []
    for name in names.LEVELS_RESOURCES:
        used = [use[name] for use in facts.pod_use.values() if name in use]
        if used and asked.get(name):
            mean = round(sum(used) / len(used))
            parts.append(f"{short_amount(name, mean)} of {short_amount(name, asked[name])} {name}")
    if not parts:
        return []
    pods = len(facts.pod_use)
    whose = "it requests, now" if pods == 1 else f"each of {plural(pods, 'pod')} requests, on average now"
    return [Finding("uses", f"{' and '.join(parts)} that {whose}")]


def _above_request(facts: Facts) -> list[Finding]:
    """The first pod that uses more than it requests, which the regulator evicts first among equals."""
    asked = facts.job.spec.requests
    for pod, used in sorted(facts.pod_use.items()):
        above = [name for name in ("cpu", "memory") if above_request(used.get(name, 0), asked.get(name, 0))]
        if above:
            parts = [f"{short_amount(n, used[n])} of {short_amount(n, asked[n])} {n} that it requests" for n in above]
            return [Finding("above its request", f"pod {pod} uses {' and '.join(parts)}: {GOES_FIRST}")]
    return []


def _suspended(facts: Facts) -> Explanation:
    job = facts.job
    name = f"{job.name} is suspended, by spec.suspend: it is not queued and uses nothing"
    if not job.spec.suspend:
        return Explanation(Cause.SUSPENDED, f"{job.name} was suspended and is about to line up again")
    return Explanation(Cause.SUSPENDED, name, (), (command(job, "resume"),))


def _completed(facts: Facts) -> Explanation:
    job = facts.job
    when = age(job.status.finished_timestamp, facts.now)
    return Explanation(Cause.COMPLETED, f"{job.name} completed {when} ago", (*account(facts), *_warnings(facts)))


def account(facts: Facts) -> list[Finding]:
    """What a job computed, and what of it was lost."""
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
    findings = (*account(facts), *_warnings(facts)) if job.status.running_timestamps else ()
    headline = f"{job.name} failed{f' {when} ago' if when else ''}: {message}"
    again = f"then `{command(job, 'delete')}` and submit it again: a failed job is never retried by itself"
    if code is None:
        return Explanation(Cause.FAILED_TO_START, headline, findings, (_missing_remedy(message), again))
    logs = "read what it said: " + command(job, "logs")
    hint = exit_hint(int(code[1]), message)
    if hint:
        findings = (Finding(f"exit code {code[1]}", hint), *findings)
    return Explanation(Cause.FAILED_BY_EXIT, headline, findings, (logs, *_exit_remedy(message), again))


def exit_hint(code: int, message: str) -> str:
    """What an exit code says more than that a program failed; empty where it says nothing. message: of the failure."""
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
