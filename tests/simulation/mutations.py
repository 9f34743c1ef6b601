"""Bugs that `make simulate-bugs` puts into the services on purpose, each with a history that finds it.

Each is a race that there has been, or a rule that a change could break. A bug that no history finds shows that the
faults or what is asserted are too weak.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final
from unittest import mock

from scavenger_admitter.core.admission.view.assumed_starts import AssumedStarts
from scavenger_admitter.core.admission.view.object_facts import PodFacts
from scavenger_admitter.core.admission.view.state import ClusterState
from scavenger_admitter.core.admission.view.waiting_jobs import WaitingJobs
from scavenger_admitter.core.adopted import book
from scavenger_admitter.core.lifecycle import accounting, finished, leftover_pods, start_failures
from scavenger_admitter.core.lifecycle.books import endings, many
from scavenger_admitter.core.lifecycle.books.endings import Endings
from scavenger_admitter.core.lifecycle.books.tasks import Tasks
from scavenger_admitter.core.lifecycle.confirmed import confirm_creation
from scavenger_admitter.core.lifecycle.observation import Asked
from scavenger_admitter.core.lifecycle.pods_seen import PodsSeen
from scavenger_admitter.core.lifecycle.run import Run
from scavenger_admitter.core.lifecycle.termination import find_termination
from scavenger_admitter.core.lifecycle.verdict import Removed
from scavenger_api.job import ScavengerJobSpec
from scavenger_api.quantity import amounts
from scavenger_api.reasons import InterruptionReason, WaitReason
from scavenger_api.times import parse_time
from scavenger_domain.gang import line_order
from scavenger_domain.nodes import leaving
from scavenger_domain.pod_ends import Exit, Removal, deleting
from scavenger_kube import kinds
from scavenger_regulator.core import scope
from scavenger_regulator.core.eviction import plan as plan_of_evictions
from scavenger_regulator.core.eviction.candidates import candidates
from scavenger_runtime.reconcile import Result
from scavenger_webhook.core.verdict import ACCEPTED

from tests.simulation.system import situations
from tests.simulation.system.adopting import Adopting
from tests.simulation.system.history import FAILURES, History, simulate
from tests.simulation.system.world import World

ENDS: Final = "scavenger_domain.pod_ends"
READING: Final = "scavenger_domain.pod_reading"
LIFECYCLE: Final = "scavenger_admitter.core.lifecycle"
ADMITTER: Final = "scavenger_admitter"
VIEW: Final = "scavenger_admitter.core.admission.view"
ELECTION: Final = "scavenger_runtime.election"
REGULATOR: Final = "scavenger_regulator"


@dataclass(frozen=True)
class Bug:
    """Something to be wrong.

    Attributes:
        name: what is wrong.
        shows: the situation in which it shows.
        says: what a history says that finds it. One that fails for another reason has not.
        instead: what stands in the place of each of these, by its path.
    """

    name: str
    shows: type[History]
    says: str
    instead: Mapping[str, Any]

    @contextlib.contextmanager
    def put_in(self) -> Iterator[None]:
        """The services have it."""
        with contextlib.ExitStack() as stack:
            for path, wrong in self.instead.items():
                stack.enter_context(mock.patch(path, wrong))
            yield


def by_limits(spec: ScavengerJobSpec) -> float:
    """CPU that the gang may use, in cores, as far as its fields say it."""
    most = spec.resources.most() if spec.resources is not None else {}
    return amounts(most).get("cpu", 0) * spec.parallelism / 1000


def always(value: Any) -> Callable[..., Any]:
    """A function that says the same of everything."""
    return lambda *_, **__: value


def soon(value: Any) -> Callable[..., Any]:
    """The same as a coroutine."""

    async def said(*_: Any, **__: Any) -> Any:
        return value

    return said


async def decide_creation_unasked(_: Any, seen: Any, *__: Any) -> Any:
    """Take what the watch shows of the pods for all there are."""
    return confirm_creation(replace(seen, seen=replace(seen.seen, asked=Asked.PODS)))


def ended_when_told(pod: kinds.Pod, _: Any) -> bool:
    """Take a pod that was told to stop for one that has ended."""
    return pod.ended or deleting(pod)


def ended_on_lost_nodes(pod: kinds.Pod, nodes: Mapping[str, kinds.Node | None]) -> bool:
    """Take a pod on a node that is not ready for one that has ended."""
    node = nodes.get(pod.spec.node_name)
    return pod.ended or (deleting(pod) and (node is None or not node.ready))


def surely_ended(wrong: Callable[..., bool]) -> dict[str, Any]:
    """In all modules that ask."""
    modules = ("leftover_pods", "checkpointed", "books.task_pods", "managed")
    return {f"{LIFECYCLE}.{module}.surely_ended": wrong for module in modules}


def cleared_with_its_job(clear: Callable[..., Any]) -> Callable[..., Any]:
    """Leave each pod to whoever deletes its Job."""

    def wrong(pod: kinds.Pod, nodes: Any, _: str | None) -> Any:
        owner = pod.metadata.controller
        return clear(pod, nodes, owner.uid if owner is not None else None)

    return wrong


def high_at_once(note_high: Callable[..., Any]) -> Callable[..., Any]:
    """Count one sample for as many as it takes."""

    def wrong(state: Any, reading: Any, levels: Any, rules: Any) -> Any:
        noted = note_high(state, reading, levels, rules)
        return replace(noted, high={r: samples and rules.cpu_samples for r, samples in noted.high.items()})

    return wrong


def again_at_once(*waits: float | None) -> Result:
    """Look again at once where something is due that was done already."""
    return Result(requeue_after=min((wait for wait in waits if wait is not None), default=None))


def first_come(_: int, queued_at: Any, uid: str, priority: int = 0) -> Any:
    """Line up by the time of queueing alone."""
    return line_order(0, queued_at, uid, priority)


def twice(gaps_of: Callable[..., dict[str, float]]) -> Callable[..., dict[str, float]]:
    """Close gaps that are twice as large."""

    def wrong(snapshot: Any) -> dict[str, float]:
        return {resource: 2 * gap for resource, gap in gaps_of(snapshot).items()}

    return wrong


def forgotten(end: Callable[..., None]) -> Callable[..., None]:
    """Count no failure of a container."""

    def wrong(draft: Any, found: Any) -> None:
        end(draft, found)
        draft.set(retries=None)

    return wrong


def any_that_ended(pod: kinds.Pod) -> Any:
    """Take whatever container has ended for the program."""
    statuses = pod.status.container_statuses
    return next((one for one in statuses if one.state.terminated is not None), statuses[0] if statuses else None)


def first_word(apply: Callable[..., None]) -> Callable[..., None]:
    """Keep the priority that a job had when it began to wait."""

    def wrong(waiting: Any, candidate: Any) -> None:
        old = waiting.get(candidate.key)
        apply(waiting, candidate if old is None else replace(candidate, priority=old.priority))

    return wrong


def left_alone(clear: Callable[..., Any]) -> Callable[..., Any]:
    """Leave pods that belong to nobody to themselves."""

    def wrong(pod: kinds.Pod, nodes: Any, job_uid: str | None) -> Any:
        return None if pod.metadata.controller is None else clear(pod, nodes, job_uid)

    return wrong


def as_written(_: Any, resources: dict[str, Any]) -> dict[str, Any]:
    """Leave the resources of a container as they are, whatever capacity they are for."""
    return resources


def by_what_is_written(_: kinds.Pod, requested: Any, end: Any, __: Any) -> bool:
    """Take the time of a deletion for when somebody asked for it, though the last DELETE of a kubelet moves it."""
    return end is None or bool(requested <= end)


def checked_as_well(stop: Callable[..., None]) -> Callable[..., None]:
    """Ask when a pod that is told to stop is to be looked at."""

    def wrong(plan: Any) -> None:
        stop(plan)
        if plan.draft.status.removing:
            plan.draft.wakeups.append(0.0)

    return wrong


def blamed(refusal_problem: Callable[..., Any]) -> Callable[..., Any]:
    """Take trouble of the API server for a refusal."""

    def wrong(*words: Any) -> Any:
        return replace(refusal_problem(*words), reason=WaitReason.CREATION_REFUSED)

    return wrong


def failed_from_outside(found: Endings, index: int, run: Run, ended: Exit) -> None:
    """Take the failure of a task for an interruption."""
    removal = Removal(ended.at, ended.at, InterruptionReason.DELETED, ended.pod, disruption=False)
    found._interrupted(index, run, Removed(removal, removal.at))


def says_nothing(run_of_task: Callable[..., Run]) -> Callable[..., Run]:
    """Take each exit code of a task for a failure, but for 0."""
    return lambda *words: replace(run_of_task(*words), checkpoint_exit_code=None)


def seen_when_back(find: Callable[..., Any]) -> Callable[..., Any]:
    """Say nothing of a run that ends on a node that is not ready."""

    def wrong(run: Any, nodes: Mapping[str, kinds.Node | None], *more: Any) -> Any:
        found = find(run, nodes, *more)
        there = [nodes.get(pod.spec.node_name) for pod in run.pods]
        away = any(node is not None and not node.ready for node in there)
        return None if away and isinstance(found, Removed) else found

    return wrong


def longer(span: Callable[..., float]) -> Callable[..., float]:
    """Book some seconds more of all that is booked."""

    def wrong(*between: Any) -> float:
        seconds = span(*between)
        return seconds + 20.0 if seconds else seconds

    return wrong


def still_interrupted(end: Callable[..., None]) -> Callable[..., None]:
    """Leave a task that ended among those that were interrupted."""

    def wrong(tasks: Tasks, index: int, **how: bool) -> None:
        before = tasks.interrupted
        end(tasks, index, **how)
        tasks.interrupted |= before

    return wrong


def twice_given_back(allocate: Callable[..., None]) -> Callable[..., None]:
    """Give a queue back twice what a pod of it had."""
    return lambda state, pod, times: allocate(state, pod, 2 * times if times < 0 else times)


def of_any_grant(starts: AssumedStarts, pod: PodFacts) -> Any:
    """Take a pod of an array for one of whatever grant is assumed: all of them have the same run."""
    assumed = starts._assumed.get(pod.job, {}).values()
    return next((start for start in assumed if start.grant.run == pod.run), None)


def released_by_any(release: Callable[..., None]) -> Callable[..., None]:
    """Release the capacity of a grant by the binding of a pod of an earlier one."""

    def wrong(starts: AssumedStarts, pod: PodFacts) -> None:
        with mock.patch.object(AssumedStarts, "_start_of", of_any_grant):
            release(starts, pod)

    return wrong


def left_where_it_is(apply: Callable[..., None]) -> Callable[..., None]:
    """Leave a pod in its bucket that was told to stop, or whose container has ended."""

    def wrong(seen: PodsSeen, old: kinds.Pod | None, new: kinds.Pod | None) -> None:
        if old is None or new is None:
            apply(seen, old, new)

    return wrong


def all_may_go(find: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """Take all jobs for preemptible."""
    return lambda *words, **more: [replace(one, preemptible=True) for one in find(*words, **more)]


def interrupted_as_well(count: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Count the interruptions of a Job among its failures."""

    def wrong(job: Any, status: Any, *more: Any, **over: bool) -> dict[str, Any]:
        found = count(job, status, *more, **over)
        return {**found, "failed": (found["failed"] or 0) + status.interrupted_count or None}

    return wrong


def forgetting(write: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Name no pod that a status counts."""

    def wrong(job: Any, status: Any, *more: Any) -> dict[str, Any]:
        if status.array is not None:
            status = status.model_copy(update={"array": status.array.model_copy(update={"counted": ()})})
        return write(job, status, *more)

    return wrong


def rounded_down(jobs: int, percentage: float) -> int:
    """Expose one job fewer than the share asks for."""
    return int(jobs * percentage / 100)


BUGS: Final = (
    Bug(
        "a Job that a watch does not show is gone",
        situations.UnseenJob,
        "interrupted more often than it ran",
        {f"{LIFECYCLE}.confirmed._doubtful": always(False)},
    ),
    Bug(
        "a job that is suspended had not ended",
        situations.UnseenEnd,
        "what a program has done is done again",
        {f"{LIFECYCLE}.books.one.OneBook.final": always(False)},
    ),
    Bug(
        "a job starts again without a look at its pods",
        situations.UnseenPods,
        "lives twice",
        {f"{ADMITTER}.starter.decide_creation": decide_creation_unasked},
    ),
    Bug(
        "who has asked goes back to what a watch shows",
        situations.ShownTooLong,
        "interrupted more often than it ran",
        {f"{ADMITTER}.heard.Heard.newer_than": always(False)},
    ),
    Bug(
        "a new leader does not wait for its watches",
        situations.BlindTakeover,
        "lives twice",
        {f"{ADMITTER}.controller.caught_up": soon(None)},
    ),
    Bug("a pod that was told to stop has ended", situations.SilentNode, "lives twice", surely_ended(ended_when_told)),
    Bug(
        "a pod on a node that is not ready has ended",
        situations.SilentNode,
        "lives twice",
        surely_ended(ended_on_lost_nodes),
    ),
    Bug(
        "pods of a Job that a finalizer holds are left to the garbage collector",
        situations.HeldJob,
        "compute for nobody",
        {f"{LIFECYCLE}.leftover_pods._clear": cleared_with_its_job(leftover_pods._clear)},
    ),
    Bug(
        "a container that nobody saw end failed",
        situations.Rebooted,
        "a job is Failed",
        {f"{ENDS}.LOST_CONTAINER": ()},
    ),
    Bug(
        "a deleted pod ended by itself",
        situations.SlowStop,
        "no run was left alone",
        {f"{ENDS}._deleted": always(None)},
    ),
    Bug(
        "a look that is due asks for itself at once",
        situations.UnplacedTask,
        "no task lets time pass",
        {
            f"{ADMITTER}.reconciler._soonest": again_at_once,
            f"{LIFECYCLE}.books.many.ManyBook.enter_phase": checked_as_well(many.ManyBook.enter_phase),
        },
    ),
    Bug(
        "time is not booked",
        situations.LongRun,
        "core-seconds are booked",
        {f"{LIFECYCLE}.draft.Draft.spend": always(None)},
    ),
    Bug("a disruption is a deletion", situations.Drained, "not by name", {f"{ENDS}._disrupted": always(None)}),
    Bug(
        "a signal is a failure at once",
        situations.PowerOff,
        "a job is Failed",
        {f"{LIFECYCLE}.termination._suspects": always([])},
    ),
    Bug(
        "a lost node is no cause",
        situations.PowerOff,
        "a job is Failed",
        {f"{LIFECYCLE}.termination._lost": always("")},
    ),
    Bug(
        "a container that ended on a lost node runs",
        situations.PowerCut,
        "not all are Interrupted",
        {f"{LIFECYCLE}.termination._unreported": always([])},
    ),
    Bug(
        "pods keep the finalizer",
        situations.SlowStop,
        "TimeoutError: not within 600 s",
        {f"{LIFECYCLE}.{module}.held": always(False) for module in ("leftover_pods", "books.many", "books.task_pods")},
    ),
    Bug(
        "pods of an earlier job are of the run",
        situations.SamePlace,
        "interrupted more often than it ran",
        {f"{LIFECYCLE}.books.one._is_older": always(False)},
    ),
    Bug(
        "a leader that was stopped goes on writing",
        situations.StoppedLeader,
        "lives twice",
        {"scavenger_kube.client.ApiClient.fence": always(None)},
    ),
    Bug(
        "two replicas lead at once",
        situations.TwoCandidates,
        "several lead",
        {f"{ELECTION}._Observed.expires": always(0.0)},
    ),
    Bug(
        "a start gives its slot back never",
        situations.ManyStarts,
        "TimeoutError: not within 30 s",
        {f"{ADMITTER}.create_limiter.CreateLimiter.release": always(None)},
    ),
    Bug(
        "a create that hangs keeps its slot",
        situations.HangingCreate,
        "TimeoutError: not within 20 s",
        {f"{ADMITTER}.create_limiter.CreateLimiter.skip_hanging": always(None)},
    ),
    Bug(
        "a failed start is never tried again",
        situations.RefusedOnce,
        "TimeoutError: not within 40 s",
        {f"{ADMITTER}.attempt.Attempt.waits": always(())},
    ),
    Bug(
        "a job that no queue takes is let in",
        situations.Reviewed,
        "is let in",
        {"scavenger_webhook.core.review.review_created": always(ACCEPTED)},
    ),
    Bug(
        "an ordinary pod keeps a class below scavenger jobs",
        situations.Reviewed,
        "outranks no scavenger job",
        {"scavenger_webhook.core.pods._become": always(())},
    ),
    Bug(
        "a quota on pods counts scavenger pods",
        situations.Limited,
        "counts the wrong pods",
        {"scavenger_webhook.core.review.review_quota": always(ACCEPTED)},
    ),
    Bug(
        "old figures are believed",
        situations.OldFigures,
        "is not blind",
        {f"{REGULATOR}.settings.RegulatorSettings.believed": property(always(3600.0))},
    ),
    Bug(
        "one sample of the CPU evicts",
        situations.OneHotSample,
        "evicted for one sample",
        {f"{REGULATOR}.core.scope._note_high": high_at_once(scope._note_high)},
    ),
    Bug(
        "trouble of the API server is a refusal",
        situations.Outage,
        "TimeoutError: not within 5 s",
        {f"{LIFECYCLE}.start_failures.refusal_problem": blamed(start_failures.refusal_problem)},
    ),
    Bug(
        "the same room is given twice",
        situations.Crowd,
        "the same room was given twice",
        {f"{ADMITTER}.core.admission.placement.placement.Room._take": always(None)},
    ),
    Bug(
        "who was interrupted waits behind others",
        situations.Queued,
        "not in the order of the line",
        {f"{ADMITTER}.core.admission.snapshot.line_order": first_come},
    ),
    Bug(
        "what a job has had is not written down",
        situations.QueuedByServed,
        "not in the order of the line",
        {f"{LIFECYCLE}.draft.served_level": always(None)},
    ),
    Bug(
        "an array keeps its place while tasks of it start",
        situations.QueuedArray,
        "an array is more than one place",
        {f"{ADMITTER}.admission_feed.AdmissionFeed._place": always(0)},
    ),
    Bug(
        "the next leader gives an array its first place again",
        situations.QueuedArray,
        "an array is more than one place",
        {f"{LIFECYCLE}.books.many.ManyBook.place": None},
    ),
    Bug(
        "twice as much is evicted as it takes",
        situations.Overload,
        "where three are enough",
        {f"{REGULATOR}.core.eviction.plan._gaps": twice(plan_of_evictions._gaps)},
    ),
    Bug(
        "a program beside which a sidecar runs on has not ended",
        situations.Meshed,
        "TimeoutError: not within 120.0 s",
        {f"{LIFECYCLE}.books.{module}.over": always(False) for module in ("many", "task_pods")},
    ),
    Bug(
        "what ran when nobody knows ran since 1970",
        situations.RebootedTask,
        "core-seconds are booked",
        {f"{READING}.seen_time": parse_time},
    ),
    Bug(
        "failures are not counted",
        situations.Retried,
        "TimeoutError: not within 60.0 s",
        {f"{LIFECYCLE}.finished.end": forgotten(finished.end)},
    ),
    Bug(
        "no failure is final",
        situations.FinalFailure,
        "TimeoutError: not within 60.0 s",
        {f"{LIFECYCLE}.failure_policy.matching_rule": always(None)},
    ),
    Bug(
        "no failure of a task is final",
        situations.FinalFailureOfTask,
        "TimeoutError: not within 60.0 s",
        {f"{LIFECYCLE}.failure_policy.matching_rule": always(None)},
    ),
    Bug(
        "a task may report no checkpoint for ever",
        situations.HangingTask,
        "TimeoutError: not within 60.0 s",
        {f"{LIFECYCLE}.judge._hangs": always(None)},
    ),
    Bug(
        "a task that hung starts again",
        situations.HangingTask,
        "TimeoutError: not within 60.0 s",
        {f"{LIFECYCLE}.books.endings.Endings._hung": always(None)},
    ),
    Bug(
        "the time of tasks has no limit",
        situations.LongTasks,
        "TimeoutError: not within 60.0 s",
        {f"{LIFECYCLE}.limits.active_left": always(None)},
    ),
    Bug(
        "a task that saved its state starts again at once",
        situations.SavedAtOnce,
        "a pod is gone before its task may start again",
        {f"{LIFECYCLE}.books.many.ManyBook._rests": always(0.0)},
    ),
    Bug(
        "a task that saved its state has failed",
        situations.SavedTask,
        "failed more often than it ran",
        {f"{LIFECYCLE}.books.many.run_of_task": says_nothing(endings.run_of_task)},
    ),
    Bug(
        "a task that cannot start fails an array that computes",
        situations.MissingForOne,
        "an array fails that computes",
        {f"{LIFECYCLE}.books.many.ManyBook.computing": False},
    ),
    Bug(
        "a pod over its own limits was interrupted",
        situations.OverLimit,
        "interrupted more often than it ran, 1 times of 0",
        {f"{ENDS}._over_own_limit": always(False)},
    ),
    Bug(
        "a pod that a kubelet evicts for its node has failed",
        situations.EvictedForNode,
        "a job is Failed",
        {f"{ENDS}._disrupted": always(None), f"{ENDS}._ended_by_kubelet": always(None)},
    ),
    Bug(
        "a container beside the program has saved its state",
        situations.SavedBeside,
        "only a sidecar has ended",
        {f"{ENDS}.main_status": any_that_ended, f"{READING}.main_status": any_that_ended},
    ),
    Bug(
        "a job that is over stays for ever",
        situations.Expired,
        "TimeoutError: not within 60.0 s",
        {f"{LIFECYCLE}.finished.expire": always(None)},
    ),
    Bug(
        "a priority that is edited moves nobody",
        situations.Reordered,
        "not by priority",
        {f"{ADMITTER}.core.admission.view.waiting_jobs.WaitingJobs.apply": first_word(WaitingJobs.apply)},
    ),
    Bug(
        "pods that belong to nobody are left to themselves",
        situations.Orphaned,
        "TimeoutError: not within 120.0 s",
        {f"{LIFECYCLE}.leftover_pods._clear": left_alone(leftover_pods._clear)},
    ),
    Bug(
        "a deletion was asked for when its last DELETE came",
        situations.LastDelete,
        "no run was left alone",
        {f"{ENDS}._asked_in_time": by_what_is_written},
    ),
    Bug(
        "an own deletion is somebody else's",
        situations.SuspendedTasks,
        "interrupted more often than it ran",
        {f"{LIFECYCLE}.intents.Intents.of": always(None)},
    ),
    Bug(
        "pods are deleted before the status says why",
        situations.UnwrittenSuspension,
        "interrupted more often than it ran",
        {f"{LIFECYCLE}.confirmed.committed": always(True)},
    ),
    Bug(
        "a gang forgets that it has stopped its members",
        situations.StoppedPeer,
        "interrupted more often than it ran",
        {f"{LIFECYCLE}.books.one._intents": always({})},
    ),
    Bug(
        "a job on reclaimed capacity requests as others do",
        situations.Reclaiming,
        "takes what nobody reclaimed",
        {f"{ADMITTER}.core.manifest._placed": as_written},
    ),
    Bug(
        "pods of deleted jobs keep the finalizer",
        situations.DeletedNamespace,
        "TimeoutError: not within 120.0 s",
        {f"{LIFECYCLE}.leftover_pods.held": always(False)},
    ),
    # What only the ledger of containers, or an assertion inside a core, tells.
    Bug(
        "the failure of a task is an interruption",
        situations.TaskAgain,
        "interrupted more often than it ran",
        {f"{LIFECYCLE}.books.endings.Endings._failed": failed_from_outside},
    ),
    Bug(
        "an interruption is not counted while its node is away",
        situations.AwayForLong,
        "interrupted 1 times, of which 0 are counted",
        {f"{LIFECYCLE}.judge.find_termination": seen_when_back(find_termination)},
    ),
    Bug(
        "more is booked than pods existed",
        situations.LongRun,
        "core-seconds are booked of",
        {f"{LIFECYCLE}.accounting._span": longer(accounting._span)},
    ),
    Bug(
        "a job counts by its limits and not by its requests",
        situations.UnequalSides,
        "core-seconds are booked of",
        {f"{LIFECYCLE}.accounting.cores": by_limits},
    ),
    Bug(
        "a pod that was resized counts as its job asks for",
        situations.SlowedDown,
        "of a pod that was slowed down",
        {f"{LIFECYCLE}.accounting._sizes": always(())},
    ),
    Bug(
        "a task that completed is interrupted as well",
        situations.TaskAgain,
        "interruptedIndexes: tasks",
        {f"{LIFECYCLE}.books.tasks.Tasks.end": still_interrupted(Tasks.end)},
    ),
    Bug(
        "capacity is given back twice",
        situations.LongRun,
        "scavenged: ",
        {f"{ADMITTER}.core.admission.view.state.ClusterState._allocate": twice_given_back(ClusterState._allocate)},
    ),
    Bug(
        "an earlier grant holds no capacity while the next is assumed",
        situations.TwoGrants,
        "holds capacity 0 times",
        {f"{VIEW}.assumed_starts.AssumedStarts._start_of": of_any_grant},
    ),
    Bug(
        "a grant is released by the pods of an earlier one",
        situations.TwoGrants,
        "by pods of others",
        {f"{VIEW}.assumed_starts.AssumedStarts.release": released_by_any(AssumedStarts.release)},
    ),
    Bug(
        "a grant holds capacity and nobody calls its job",
        situations.LongRun,
        "is not in the limiter",
        {f"{ADMITTER}.create_limiter.CreateLimiter.enqueue": always(None)},
    ),
    Bug(
        "a pod stays in its bucket when it changes",
        situations.TaskAgain,
        "of lab/c",
        {f"{LIFECYCLE}.pods_seen.PodsSeen.apply": left_where_it_is(PodsSeen.apply)},
    ),
    Bug(
        "pods of a node that is about to go stay in their buckets",
        situations.GoingNode,
        "of lab/c",
        {f"{LIFECYCLE}.pods_seen.PodsSeen.apply_node": always(None)},
    ),
    Bug(
        "a stand-in takes a finalizer off and writes no last words",
        situations.AdmitterAway,
        "interrupted more often than it ran",
        {"scavenger_runtime.last_words.LastWords.write": soon(None)},
    ),
    Bug(
        "a run whose pods are gone has ended now",
        situations.GoneUnseen,
        "core-seconds are booked of",
        {f"{LIFECYCLE}.termination.Run.gone_since": lambda _, now: now},
    ),
    Bug(
        "an uninstallation leaves statuses as they are",
        situations.Reinstalled,
        "these run by their statuses",
        {f"{ADMITTER}.uninstall._write_statuses": soon(None)},
    ),
    Bug(
        "a container that is started again in the same pod goes on",
        situations.ReturnedInPlace,
        "interrupted 1 times, of which 0 are counted",
        {f"{ENDS}._life_before": always(None)},
    ),
    Bug(
        "an exit is forgotten with its kubelet",
        situations.ForgottenExit,
        "interrupted more often than it ran",
        {f"{ADMITTER}.observer.remembered": always({})},
    ),
    Bug(
        "a hint at the end of a node counts as its end",
        situations.HintedNode,
        "only may go",
        {f"{LIFECYCLE}.going_nodes.ends": lambda node, _: leaving(node)},
    ),
    Bug(
        "a victim is not preemptible",
        situations.OverloadAtOnce,
        "is not preemptible",
        {f"{REGULATOR}.core.scope.candidates": all_may_go(candidates)},
    ),
    Bug(
        "fewer jobs are preemptible than the share asks for",
        situations.LongRun,
        "is protected at",
        {"scavenger_prioritizer.core.plan.preemptible_count": rounded_down},
    ),
    Bug(
        "the default pool shuts all pools of nodes",
        situations.FullPool,
        "a full CPU pool keeps a job from idle devices",
        {f"{ADMITTER}.core.admission.load.LoadRule.nothing_starts": property(lambda rule: rule.shut)},
    ),
    Bug(
        "nobody tells pools of nodes apart",
        situations.FullPool,
        "the CPU pool is meant to be full",
        {f"{REGULATOR}.facts.pool_of": always("plain"), f"{VIEW}.object_facts.pool_of": always("plain")},
    ),
    Bug(
        "every exit with 0 is final",
        situations.ShutDown,
        "no run was left alone to its end",
        {f"{LIFECYCLE}.success.Evidence.unproven": always([])},
    ),
    Bug(
        "a Lease that is renewed after the next boot proves a success",
        situations.ShutDown,
        "no run was left alone to its end",
        {f"{ADMITTER}.success_evidence.BOOTS_WITHIN": timedelta(hours=1)},
    ),
    Bug(
        "no Lease proves a success",
        situations.EndsAlone,
        "interrupted more often than it ran",
        {f"{ADMITTER}.success_evidence.SuccessEvidence._proves": always(None)},
    ),
    Bug(
        "nobody remembers which node refuses pods",
        situations.RefusingNode,
        "beside a node that refuses pods",
        {
            f"{VIEW}.node_trust.NodeTrust._judge": always(None),
            f"{ADMITTER}.attempt.Attempt.hear_refusal": always(None),
        },
    ),
    Bug(
        "a program with snapshots starts without its key",
        situations.SavedTask,
        "a key of nobody",
        {f"{ADMITTER}.writer.Writer._see_to_key": soon(None)},
    ),
    Bug(
        "an interruption of a Job of a user is a failure to its clients",
        situations.DeletedPodOfJob,
        "failed more often than it ran",
        {f"{ADMITTER}.core.adopted.book._counts": interrupted_as_well(book._counts)},
    ),
    Bug(
        "a Job of a user forgets which pods it has counted",
        situations.HeldPodOfJob,
        "core-seconds are booked",
        {f"{ADMITTER}.core.adopted.plan.job_status": forgetting(book.job_status)},
    ),
)


def found_in(bug: Bug) -> str | None:
    """What the situation of a bug says of it; None where it does not find it."""
    return _said(bug, 1, bug.shows)


def found_by(bug: Bug, seeds: range) -> str | None:
    """Seed and system of the first random history that finds a bug, and what it says; None where none does."""
    for seed in seeds:
        for kind in (History, World, Adopting):
            if (said := _said(bug, seed, kind)) is not None:
                return f"seed {seed} ({kind.__name__}): {said}"
    return None


def _said(bug: Bug, seed: int, kind: type[History]) -> str | None:
    try:
        with bug.put_in():
            simulate(seed, kind)
    except FAILURES as error:
        said = f"{type(error).__name__}: {error}"
        return said if bug.says in said else None
    return None
