"""Why an array, or one of its tasks, is where it is, with the figures and what would help. Pure, like `explain`."""

from __future__ import annotations

from dataclasses import replace

from scavenger_api import names
from scavenger_api.indexes import all_of, lowest, parse_counts, parse_indexes, set_of
from scavenger_api.states import Phase
from scavenger_api.task_numbers import format_tasks
from scavenger_api.times import micros
from scavenger_domain import unit
from scavenger_domain.gang import PER_CPU_SECOND, moment, task_index
from scavenger_domain.pod_reading import read
from scavenger_domain.unit import Unit
from scavenger_kube.kinds import ContainerStatus, Pod

from scavenger_cli.advice import command
from scavenger_cli.explain import (
    account,
    dated,
    exit_hint,
    explain,
    losses,
    pod_troubles,
    start_remedies,
    under_way,
    what_fits,
)
from scavenger_cli.facts import Cause, Explanation, Facts, Finding
from scavenger_cli.objects import Job, program_of
from scavenger_cli.words import age, plural, span

SHOWN_TASKS = 5
"""Tasks whose commands are spelled out."""


def retries_of(job: Job) -> dict[int, int]:
    """How often each task started again because its program failed."""
    return parse_counts(job.status.array.retries_used)


def state_of(pod: Pod) -> str:
    """What a task does whose pod has not ended, in one word."""
    if pod.metadata.deletion_timestamp is not None:
        return "Ending"
    return "Running" if runs(pod) else "Starting"


def runs(pod: Pod) -> bool:
    """Whether the program of a pod runs."""
    return read(pod).computes


def _program(pod: Pod) -> ContainerStatus | None:
    return next((one for one in pod.status.container_statuses if one.name == program_of(pod)), None)


def unit_of(facts: Facts, pod: Pod) -> Unit:
    """The task that a pod is of."""
    seen = read(pod, facts.shared.resource_weights)
    return unit.task_of(facts.job.unit, seen, (seen,))


def unsaved(facts: Facts, pod: Pod) -> float:
    """Core-seconds of work that a task loses if its pod goes now; accelerators count as in `Job.unsaved`."""
    return _core_seconds(facts, pod, 0, facts.job.unit.interval)


def at_risk(facts: Facts, pod: Pod) -> float:
    """Core-seconds by which a task is ranked, as in `Job.at_risk`."""
    return _core_seconds(facts, pod, facts.shared.startup_cost, facts.shared.trusted_interval)


def _core_seconds(facts: Facts, pod: Pod, startup_cost: int, trusted: int) -> float:
    task, now = unit_of(facts, pod), micros(facts.now)
    if not task.running:
        return 0.0
    if any(member.past for member in task.members):
        return task.at_risk(now, startup_cost, trusted).cost / PER_CPU_SECOND
    return facts.job.core_seconds(task.time_at_risk(now, startup_cost, trusted), facts.shared.resource_weights)


def explain_job(facts: Facts) -> Explanation:
    """The explanation of a job of any shape. One with a single task is explained by it while it runs, and where it
    failed."""
    job = facts.job
    if job.spec.array is None:
        return explain(facts)
    if not job.alone:
        return explain_array(facts)
    of_task = job.phase in (Phase.STARTING, Phase.RUNNING) or _exit_code(next(iter(facts.pods), None)) is not None
    return explain_task(facts, 0) if of_task else explain(facts)


# --- an array ---


def explain_array(facts: Facts) -> Explanation:
    """The explanation of an array as a whole."""
    job = facts.job
    if job.metadata.deletion_timestamp is not None:
        return explain(facts)
    if job.phase == Phase.FAILED and job.status.array.failed:
        return _tasks_failed(facts)
    if job.phase in (Phase.STARTING, Phase.RUNNING):
        return dated(facts, _array_runs(facts))
    found = explain(facts)
    return Explanation(found.cause, found.headline, (_progress(job), *found.findings), found.remedies)


def _progress(job: Job) -> Finding:
    status, size = job.status.array, _size(job)
    counts = ((status.completed, "completed"), (status.failed, "failed"), (status.running, "running"))
    told = [f"{count:,} {what}" for count, what in counts if count]
    left = 0 if job.phase in (Phase.COMPLETED, Phase.FAILED) else _waiting(job).bit_count()
    if left:
        told.append(f"{left:,} waiting")
    return Finding("tasks", f"{size:,}: {', '.join(told)}")


def _array_runs(facts: Facts) -> Explanation:
    job = facts.job
    alive = [pod for pod in facts.pods if not pod.ended and pod.metadata.deletion_timestamp is None]
    running = [pod for pod in alive if runs(pod)]
    waiting = _waiting(job) & ~set_of(found for pod in alive if (found := task_index(pod)) is not None)
    findings = [_progress(job)]
    if running:
        lost, risk = (sum(of(facts, pod) for pod in running) for of in (unsaved, at_risk))
        findings += losses(lost, risk, "in all, lost if all tasks go now")
    if len(alive) > len(running):
        findings.append(Finding("starting", plural(len(alive) - len(running), "task")))
    findings += pod_troubles(facts, alive)
    remedies: tuple[str, ...] = ()
    if job.status.array.failed:
        findings.append(Finding("failed", _few(job, parse_indexes(job.status.array.failed_indexes))))
        remedies = _after_failure(facts, parse_indexes(job.status.array.failed_indexes))
    if waiting:
        held, helps = _held(facts, len(alive), waiting)
        findings += held
        remedies = (*helps, *remedies)
    headline = (
        f"{job.name} runs {len(running):,} of {plural(_size(job) - _over(job).bit_count(), 'task')} that have not ended"
    )
    cause = Cause.RUNNING if running else Cause.STARTING
    return Explanation(cause, headline, (*findings, *under_way(facts)), remedies)


def _held(facts: Facts, alive: int, waiting: int) -> tuple[list[Finding], tuple[str, ...]]:
    """Why no further task starts, and what helps. alive: tasks that have a pod."""
    job, most = facts.job, facts.job.spec.array.max_running if facts.job.spec.array is not None else None
    what = plural(waiting.bit_count(), "task")
    if most is not None and alive >= most:
        field, kind, more = "maxRunning", "sj", f'"array":{{"maxRunning":{2 * most}}}'
        if job.adopted:
            field, kind, more = "parallelism", "job", f'"parallelism":{2 * most or 1}'
        patch = f"kubectl patch {kind} {job.name} --type merge -p '{{\"spec\":{{{more}}}}}'"
        space = f" -n {job.namespace}" if job.namespace else ""
        return [Finding("waiting", f"{what}, as {field} is {most:,}")], (f"raise it: {patch}{space}",)
    return [Finding("waiting", f"{what}, for capacity"), *what_fits(facts)], ("wait: they start one after the other",)


def _tasks_failed(facts: Facts) -> Explanation:
    job, failed = facts.job, parse_indexes(facts.job.status.array.failed_indexes)
    when = age(job.status.finished_timestamp, facts.now)
    headline = f"{job.name} failed{f' {when} ago' if when else ''}: {job.status.message}"
    findings = (_progress(job), *account(facts))
    return Explanation(Cause.TASKS_FAILED, headline, findings, _after_failure(facts, failed))


def _after_failure(facts: Facts, failed: int) -> tuple[str, ...]:
    job = facts.job
    first = lowest(failed, 1).bit_length() - 1
    again = f"when it is corrected, start failed tasks again: {command(job, 'retry')}"
    if job.adopted:  # an index that failed never starts again
        again = f"when it is corrected, `{command(job, 'delete')}`, and create the Job again"
    return (f"read what one said: {task_command(job, 'logs', first)}", again)


def task_command(job: Job, verb: str, index: int) -> str:
    """A command about one task that can be pasted into a shell as it is."""
    space = f" -n {job.namespace}" if job.namespace else ""
    return f"kubectl sj {verb} '{job.task_name(index)}'{space}"


def _few(job: Job, indexes: int) -> str:
    text = format_tasks(job.numbers, lowest(indexes, SHOWN_TASKS))
    more = indexes.bit_count() - SHOWN_TASKS
    return text + (f" and {more:,} more" if more > 0 else "")


def _size(job: Job) -> int:
    return len(job.numbers)


def _over(job: Job) -> int:
    status = job.status.array
    return parse_indexes(status.completed_indexes) | parse_indexes(status.failed_indexes)


def _waiting(job: Job) -> int:
    """The tasks that neither ended nor run, as of the last write of the status."""
    return all_of(_size(job)) & ~(_over(job) | parse_indexes(job.status.array.running_indexes))


# --- a task ---


def explain_task(facts: Facts, index: int) -> Explanation:
    """The explanation of one task. facts: with the pods of all, or of this one where the array is over."""
    job = facts.job
    if job.metadata.deletion_timestamp is not None:
        return explain(facts)
    pods = sorted((pod for pod in facts.pods if task_index(pod) == index), key=lambda pod: pod.ended)
    pod = pods[0] if pods else None
    name, status = job.task_name(index), job.status.array
    if parse_indexes(status.completed_indexes) >> index & 1 or (pod and pod.status.phase == "Succeeded"):
        return Explanation(Cause.COMPLETED, f"{name} completed{_ended(facts, pod)}", tuple(_of_runs(facts, index, pod)))
    if parse_indexes(status.failed_indexes) >> index & 1:
        return _task_failed(facts, index, pod)
    if pod is not None and not pod.ended:
        return dated(facts, _task_runs(facts, index, pod))
    return dated(facts, _task_waits(facts, index, pod))


def _task_runs(facts: Facts, index: int, pod: Pod) -> Explanation:
    job, now, state = facts.job, facts.now, state_of(pod)
    name, task = job.task_name(index), unit_of(facts, pod)
    findings = _of_runs(facts, index, pod)
    if state == "Ending":
        since = age(pod.metadata.deletion_timestamp, now)
        text = f"{name} has been told to stop, {since} ago, and has its grace period to write a last checkpoint"
        return Explanation(Cause.DELETING, text, tuple(findings), ("wait: it starts again in its turn",))
    if not task.running or task.started is None:
        placed = f"is starting on node {pod.spec.node_name}" if pod.spec.node_name else "waits for the scheduler"
        since = age(pod.metadata.creation_timestamp, now)
        helps = start_remedies([pod])
        headline = f"{name} {placed}, since {since}"
        return Explanation(Cause.STARTING, headline, (*findings, *pod_troubles(facts, [pod])), helps)
    safe = moment(task.safe_until(micros(now)))
    due = (job.spec.checkpoint_interval - (now - safe)).total_seconds()
    saved = f"{span((now - safe).total_seconds())} of work since the last; next within {span(due)}"
    class_ = pod.metadata.labels.get(names.LABEL_PREEMPTION_CLASS, names.PREEMPTIBLE)
    goes = "others go first" if class_ == names.NON_PREEMPTIBLE else "among those that regular pods take first"
    own = {name: use for name, use in facts.pod_use.items() if name == pod.metadata.name}
    findings += [
        *losses(unsaved(facts, pod), at_risk(facts, pod), "lost if it goes now"),
        Finding("class", f"{class_}: {goes}"),
        Finding("checkpoint", saved),
        *under_way(replace(facts, pod_use=own), interruptions=False),
    ]
    return Explanation(Cause.RUNNING, f"{name} has been running for {age(moment(task.started), now)}", tuple(findings))


def _task_failed(facts: Facts, index: int, pod: Pod | None) -> Explanation:
    name, code = facts.job.task_name(index), _exit_code(pod)
    with_code = f" with exit code {code}" if code is not None else ""
    findings = _of_runs(facts, index, pod)
    if code is not None and pod is not None and (hint := exit_hint(code, _exit_reason(pod))):
        findings.insert(0, Finding(f"exit code {code}", hint))
    headline = f"{name} failed{with_code}{_ended(facts, pod)}"
    helps = _after_failure(facts, 1 << index)
    if pod is None:
        helps = helps[1:]  # its pod is gone, and what it said with it
    return Explanation(Cause.FAILED_BY_EXIT, headline, tuple(findings), helps)


def _task_waits(facts: Facts, index: int, pod: Pod | None) -> Explanation:
    job, name = facts.job, facts.job.task_name(index)
    interrupted = parse_indexes(job.status.array.interrupted_indexes)
    mine = bool(interrupted >> index & 1)
    findings = _of_runs(facts, index, pod)
    if job.phase in (Phase.COMPLETED, Phase.FAILED):
        return Explanation(Cause.NOT_RUN, f"{name} did not end, and its array is {job.phase}", tuple(findings))
    waiting = _waiting(job) & ~(1 << index)
    below = waiting & all_of(index)
    ahead = below & interrupted if mine else below | waiting & interrupted
    findings.append(
        Finding("its turn", f"after {plural(ahead.bit_count(), 'task')} of {job.name}" if ahead else "next")
    )
    whole = explain_array(facts)
    rest = [one for one in whole.findings if one.label not in ("unsaved work", "failed", "interrupted", "lost so far")]
    state = "was interrupted, and waits" if mine else "waits"
    headline = f"{name} {state}: {whole.headline}"
    cause = whole.cause if whole.cause not in (Cause.RUNNING, Cause.STARTING) else Cause.TASK_WAITS
    helps = tuple(one for one in whole.remedies if "logs" not in one and "retry" not in one)
    return Explanation(cause, headline, (*findings, *rest), helps)


def _of_runs(facts: Facts, index: int, pod: Pod | None) -> list[Finding]:
    """What is known of the runs of a task: where, and how often it failed."""
    found = []
    if pod is not None and pod.spec.node_name:
        found.append(Finding("node", pod.spec.node_name))
    runs = []
    if again := retries_of(facts.job).get(index, 0):
        runs.append(f"started again {plural(again, 'time')}, as its program failed")
    if pod is not None and names.ANNOTATION_INTERRUPTED in pod.metadata.annotations:
        runs.append("the last run was interrupted")
    if runs:
        found.append(Finding("runs", "; ".join(runs)))
    return found


def _exit_code(pod: Pod | None) -> int | None:
    status = _program(pod) if pod is not None else None
    ended = status.state.terminated if status is not None else None
    return ended.exit_code if ended is not None else None


def _exit_reason(pod: Pod) -> str:
    status = _program(pod)
    return status.state.terminated.reason if status is not None and status.state.terminated is not None else ""


def _ended(facts: Facts, pod: Pod | None) -> str:
    status = _program(pod) if pod is not None else None
    ended = status.state.terminated if status is not None else None
    when = age(ended.finished_at, facts.now) if ended is not None else ""
    return f" {when} ago" if when else ""
