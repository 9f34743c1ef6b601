"""What really happened to the containers of jobs, written down by the world and not by services.

Each pod of a job has a `Life`: when it was created, began, was told to go and by whom, how it ended, and when it was no
more. From the lives of a run follows what the run may count as (the table in `Ledger.ways`), and from that the least
and the most that a status may say, at every moment and not only at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, NamedTuple

from scavenger_admitter.core.lifecycle.leftover_pods import ABANDONED_AFTER
from scavenger_api import names
from scavenger_api.indexes import parse_counts, parse_indexes
from scavenger_api.job import Capacity, ScavengerJobSpec
from scavenger_api.reasons import FailureReason
from scavenger_api.times import parse_time
from scavenger_domain.pod_ends import FINAL_DELETE_SLACK
from scavenger_testing.clock import START
from scavenger_testing.store import Entry, Store

from tests.simulation.system import kubelet
from tests.simulation.system.adopted import as_array, asked_of, is_adopted, is_enough, is_gang, saved_code_of
from tests.simulation.system.specs import tasks_of
from tests.unit.admitter.harness import Object

NEVER: Final = datetime.max.replace(tzinfo=START.tzinfo)
SAME_MOMENT: Final = timedelta(seconds=2)
"""The API has whole seconds: of two moments that are no further apart nobody knows which was first."""
UNPROVED: Final = timedelta(seconds=30)
"""After its end a success may still lack a sign of life of its node."""
CLEARED_AT_ONCE: Final = timedelta(seconds=6)
"""A deletion so soon after an end may have brought it about (`scavenger_domain.pod_ends.FINAL_DELETE_SLACK`, and the
rounding of times)."""
NODE_IN_DOUBT: Final = timedelta(seconds=150)
"""Before a node falls silent, or after: a container that ended may have ended with it (docs/designs/0002)."""
SETTLED: Final = timedelta(seconds=30)
"""In which services react where nothing is in the way."""
IN_VAIN: Final = 3
"""Starts of all pods of a job that fail, as where an image cannot be pulled: each waits longer than the last."""
BOOKED_WITHIN: Final = timedelta(seconds=2)
"""By which more may be booked of a pod than it existed: starts and ends are whole seconds."""
BY_CONTAINERS: Final = (FailureReason.FAILED, FailureReason.POD_FAILURE_POLICY)
"""Why a job is Failed of which a container has failed."""
BY_START: Final = (FailureReason.NOT_FOUND, FailureReason.INVALID_REFERENCE, FailureReason.INVALID_IMAGE_NAME)
"""Why a job is Failed whose start cannot succeed."""
BY_OWN_WORD: Final = {
    FailureReason.DEADLINE_EXCEEDED: "activeDeadlineSeconds",
    FailureReason.NO_PROGRESS: "progressDeadlineIntervals",
}
"""Why a job is Failed that says so itself, and in which field of its spec."""


class By(StrEnum):
    """Who ended a container, or told its pod to go."""

    OTHERS = "by others"
    """A user, a drain, the scheduler."""
    MACHINE = "by its machine"
    """Power, a reboot."""
    SERVICES = "by services"
    """The admitter or the regulator, or controllers in consequence of what these did."""


class Way(StrEnum):
    """What the end of a run is counted as."""

    COMPLETED = "completed"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    NOTHING = "nothing"
    """Of a run that never was, that its own user ended, or that saved its state and left."""


@dataclass(slots=True)
class Life:
    """A pod of a job, from its creation until it is no more.

    Attributes:
        uid: of the pod.
        run: of its Job, by uid.
        task: index of its task; None for a job without tasks.
        node: where it runs, as soon as it is bound.
        created: when the API server had it.
        began: when the container of its program started; None for one that has not.
        shown: whether anybody who looks at the pod still sees when that was.
        ended: when that container ended, whether anybody could see it or not; None for one that runs.
        itself: whether it ended by itself, with `code`.
        code: exit code.
        saved: whether it said by that code that its state is saved, and that it is not done.
        told: when it, or its Job, was told to go, or its machine ended it.
        told_itself: the same without its Job.
        by: who did that.
        stays: whether it went on by that: its Job was taken from it, and it was told itself later, or never.
        ceased: when the API server had it no more.
        last_told: when others told it to go last: a drain evicts what is being deleted, and is what counts then.
        moved: whether the last DELETE of its kubelet has moved the moment in which it was told to go: whoever looks now
            sees that of its end.
        evicted: whether it was marked as disrupted before anybody asked for its deletion.
        doubted: until when a deletion may have ended its container, as far as anybody can see: until the last container
            beside it ended, where that was within a grace period.
        cleared: when it was deleted after its end.
        seen_told: since when the API server shows that it was told to go, or that it ended.
        seen_over: since when it shows that it ended, or no longer shows it.
    """

    uid: str
    run: str
    task: int | None
    created: datetime
    node: str = ""
    began: datetime | None = None
    shown: bool = False
    ended: datetime | None = None
    itself: bool = False
    code: int = 0
    saved: bool = False
    told: datetime | None = None
    told_itself: datetime | None = None
    by: By | None = None
    stays: bool = False
    ceased: datetime | None = None
    last_told: datetime | None = None
    moved: bool = False
    evicted: bool = False
    doubted: datetime | None = None
    cleared: datetime | None = None
    seen_told: datetime = NEVER
    seen_over: datetime = NEVER

    @property
    def hidden(self) -> bool:
        """Whether nobody who looks at it sees when it was told to go."""
        return self.stays or self.moved

    def until(self, now: datetime) -> datetime:
        """Until when it computes for its job; where nobody saw the end, until it was no more."""
        ended = self.ended if self.shown else None
        told = (self.last_told or self.told) if self.by is not By.MACHINE and not self.hidden else None
        return min(one for one in (told, ended, self.ceased, now) if one is not None)


@dataclass(slots=True)
class Truth:
    """What is known of a ScavengerJob.

    Attributes:
        asked: what each of its pods asks for, in thousandths.
        reclaimed: whether its CPU time is booked as it was used, and not as it was asked for.
        saved_code: by which its program says that its state is saved.
        reports: whether a run fails that reports no checkpoint.
        runs: its lives, by the uid of their Job.
        places: those of its runs, by the uid of their Job.
        running: places from which a status said that it was Running.
        widths: how many tasks of an array may run at a time, and since when.
        suspensions: how often its user suspended it.
        suspended: since when it is; None for one that is not.
        failed: when it was Failed first.
        adopted: whether it is a Job of a user. One that fails counts the pods that it deletes among its failures.
        enough: when a rule of its successPolicy was met. What ends after that, or was not judged by then, is not
            counted.
    """

    asked: Mapping[str, int] = field(default_factory=dict)
    reclaimed: bool = False
    saved_code: int | None = None
    reports: bool = False
    runs: dict[str, dict[str, Life]] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    running: set[str] = field(default_factory=set)
    widths: list[tuple[datetime, int]] = field(default_factory=list)
    suspensions: int = 0
    suspended: datetime | None = None
    failed: datetime | None = None
    adopted: bool = False
    enough: datetime | None = None

    @property
    def lives(self) -> Iterator[Life]:
        """Of all runs."""
        for lives in self.runs.values():
            yield from lives.values()


class End(NamedTuple):
    """The end of a run.

    Attributes:
        ways: what it may be counted as.
        seen: since when the API server shows it.
    """

    ways: set[Way]
    seen: datetime


class Ledger:
    """All lives. The world says of each end how it came; the rest is read from what is stored.

    Args:
        store: of the API server.
        alone: whether services have no reason to interrupt anybody: nobody is short of capacity.

    Attributes:
        truths: by the uid of the ScavengerJob.
        silent: when which node fell silent.
        booted: when which machine started again.
        announced: nodes of which somebody said that they go.
        away: when there was no admitter: from when, until when.
        old_kubelets: whether kubelets do not say which generation of a pod they knew.
        uninstalled: when the hook of an uninstallation began and ended, one after the other.
    """

    def __init__(self, store: Store, *, alone: bool) -> None:
        self._store = store
        self._own = {Way.NOTHING} if alone else {Way.INTERRUPTED, Way.NOTHING}
        self._read = 0
        self._owners: dict[str, str] = {}
        self._lives: dict[str, Life] = {}
        self._ends: dict[str, tuple[datetime, int | None, bool]] = {}
        self._orders: dict[str, tuple[datetime, By, bool]] = {}
        self.truths: dict[str, Truth] = {}
        self.silent: list[tuple[str, datetime]] = []
        self.booted: list[tuple[str, datetime]] = []
        self.announced: set[str] = set()
        self.uninstalled: list[datetime] = []
        self.away: list[tuple[datetime, datetime]] = []
        self.old_kubelets = False

    # --- what the world writes down -----------------------------------------------------------------

    def leave(self, now: datetime) -> None:
        """All admitters end."""
        self.away.append((now, NEVER))

    def return_(self, now: datetime) -> None:
        """There is an admitter again."""
        self.away[-1] = (self.away[-1][0], now)

    def end(self, pod: Object, at: datetime, code: int | None = None, *, killed: bool = False) -> None:
        """The container of its program ends: by itself with this code, or as it was told to (None).

        Args:
            pod: of a job.
            at: when.
            code: exit code.
            killed: whether its own limits end it, or it never started: then no code says that its state is saved.
        """
        self._ends.setdefault(pod["metadata"]["uid"], (at, code, killed))

    def order(self, pod: Object, at: datetime, by: By = By.OTHERS, *, stays: bool = False) -> None:
        """It, or its Job, is told to go by others than services, or its machine ends it. stays: only its Job is, and
        the pod goes on until it is told itself."""
        uid = pod["metadata"]["uid"]
        self._orders.setdefault(uid, (at, by, stays))
        if (life := self._lives.get(uid)) is None:
            return
        if not stays:
            life.last_told, life.by, life.stays = at, by if life.stays else life.by, False
            life.told_itself = life.told_itself or at
        if life.told is None:  # a Job may go, and its pods be held
            life.told, life.by, life.stays, life.seen_told = at, by, stays, min(life.seen_told, at)

    def read(self, now: datetime) -> None:
        """Take in what has been stored since."""
        history = self._store.history
        for entry in history[self._read :]:
            take = _READERS.get(entry.kind.plural)
            if take is not None and entry.kind.api_version in ("v1", "batch/v1", names.API_VERSION):
                take(self, entry, now)
        self._read = len(history)

    def _read_job(self, entry: Entry, now: datetime) -> None:
        if (job := entry.new) is None:
            return
        uid = job["metadata"]["uid"]
        if is_adopted(job):
            self._owners[uid] = uid
            self._read_adopted(job, entry.old or job, now)
            return
        if (owner := _controller(job)) == "":
            return
        self._owners[uid] = owner
        place = job["metadata"].get("annotations", {}).get(names.ANNOTATION_RUN, "")
        self.truths.setdefault(owner, Truth()).places[uid] = place

    def _read_adopted(self, job: Object, old: Object, now: datetime) -> None:
        """A Job of a user, which is the run of all its pods as well."""
        truth, seen = self.truths.setdefault(job["metadata"]["uid"], Truth(adopted=True)), as_array(job)
        truth.asked, truth.saved_code = asked_of(job), saved_code_of(job)
        if seen["status"].get("phase") == "Failed" and truth.failed is None:
            truth.failed = now
        if truth.enough is None and is_enough(job):
            truth.enough = now
        if is_gang(job):
            if seen["status"].get("phase") == "Running":
                truth.running.add(seen["status"]["queuedTimestamp"])
        else:
            truth.widths.append((now, seen["spec"]["array"]["maxRunning"]))
        suspended = bool(job["spec"].get("suspend"))
        truth.suspensions += suspended > bool(old["spec"].get("suspend"))
        truth.suspended = (truth.suspended or now) if suspended else None

    def _read_scavenger_job(self, entry: Entry, now: datetime) -> None:
        if (job := entry.new) is None:
            return
        uid, status = job["metadata"]["uid"], job.get("status") or {}
        truth = self.truths.setdefault(uid, Truth())
        if not truth.asked:
            spec = ScavengerJobSpec.model_validate(job["spec"])
            truth.asked, truth.saved_code = spec.requests, spec.saved_exit_code
            truth.reports = spec.progress_deadline_intervals is not None
            truth.reclaimed = spec.capacity is Capacity.RECLAIMED
        if status.get("phase") == "Running":
            truth.running.add(status["queuedTimestamp"])
        if status.get("phase") == "Failed" and truth.failed is None:
            truth.failed = now
        if (array := job["spec"].get("array")) is not None:
            truth.widths.append((now, array.get("maxRunning") or tasks_of(array)))
        suspended = bool(job["spec"].get("suspend"))
        truth.suspensions += suspended > bool((entry.old or job)["spec"].get("suspend"))
        truth.suspended = (truth.suspended or now) if suspended else None

    def _read_pod(self, entry: Entry, now: datetime) -> None:
        pod = entry.new or entry.old
        if pod is None or names.LABEL_JOB not in pod["metadata"].get("labels", {}):
            return
        uid, meta = pod["metadata"]["uid"], pod["metadata"]
        life = self._lives.get(uid)
        if life is None:
            run, task = self._run(pod), meta["labels"].get(names.LABEL_TASK)
            created = parse_time(meta.get("creationTimestamp")) or now
            life = Life(uid, run, None if task is None else int(task), created)
            self._lives[uid] = life
            self.truths.setdefault(self._owners.get(run, ""), Truth()).runs.setdefault(run, {})[uid] = life
        self._follow(life, pod, now)
        if entry.new is None:
            life.ceased, life.seen_over = now, min(life.seen_over, now)

    def _run(self, pod: Object) -> str:
        """The uid of its Job, which is that of one run or of an array. With the place in the queue for the gang of a
        user, whose Job has all runs."""
        owner, meta = _controller(pod), pod["metadata"]
        if names.LABEL_KIND not in meta["labels"] or names.LABEL_TASK in meta["labels"]:
            return owner
        place = meta["annotations"][names.ANNOTATION_RUN]
        run = f"{owner}/{place}"
        self._owners[run] = self._owners.get(owner, "")
        self.truths.setdefault(self._owners[run], Truth()).places[run] = place
        return run

    def _follow(self, life: Life, pod: Object, now: datetime) -> None:
        """What is stored of a pod. Only the container of its program counts, whatever others do."""
        meta, state = pod["metadata"], kubelet.main_state(pod)
        life.node = pod["spec"].get("nodeName", "")
        if state and "waiting" not in state:
            at = parse_time((state.get("running") or state["terminated"]).get("startedAt"))
            life.shown = at is not None and at >= START
            life.seen_over = min(life.seen_over, now) if "terminated" in state else NEVER
            life.began = life.began or (at if life.shown else None)
        if pod["status"].get("phase") in ("Failed", "Succeeded"):  # a node refuses pods that have no containers yet
            life.seen_over = min(life.seen_over, now)
        if life.told is None and life.uid in self._orders:
            life.told, life.by, life.stays = self._orders[life.uid]
            life.told_itself = None if life.stays else life.told
        stamp = parse_time(meta.get("deletionTimestamp"))
        if (life.told is None or life.stays) and stamp is not None and "terminated" not in state:
            told = min(now, stamp - timedelta(seconds=meta.get("deletionGracePeriodSeconds") or 0))
            if life.told is None:  # else it is cleared away
                life.told, life.by = told, By.SERVICES
            life.last_told, life.told_itself, life.stays = told, life.told_itself or told, False
        if "terminated" in state and meta.get("deletionGracePeriodSeconds") == 0:
            life.moved = True
        marks = {one["type"] for one in pod["status"].get("conditions", ())}
        life.evicted = life.evicted or ("DisruptionTarget" in marks and stamp is None)
        if "terminated" in state:
            life.doubted = _doubted(pod, state["terminated"])
            life.cleared = life.cleared or stamp
        if "terminated" in state or "deletionTimestamp" in meta:
            life.seen_told = min(life.seen_told, now)
        if life.ended is None and life.uid in self._ends:
            life.ended, code, killed = self._ends[life.uid]
            life.itself, life.code = code is not None, code or 0
            truth = self.truths[self._owners.get(life.run, "")]
            life.saved = bool(code) and not killed and code == truth.saved_code

    # --- what follows ----------------------------------------------------------------------------------

    def begun(self, uid: str) -> dict[str, list[Life]]:
        """The lives of each run of a ScavengerJob that ever began, by the uid of its Job."""
        truth = self.truths.get(uid, Truth())
        found = {run: [one for one in lives.values() if one.began is not None] for run, lives in truth.runs.items()}
        return {run: lives for run, lives in found.items() if lives}

    def recorded(self, uid: str) -> set[str]:
        """The runs, by the uid of their Jobs, that a status said were Running."""
        truth = self.truths.get(uid, Truth())
        return {run for run, place in truth.places.items() if place in truth.running}

    def ways(self, life: Life) -> set[Way]:
        """What the end of a pod may be counted as: the one table of what is certain, and of what is not.

        | what happened | counts as |
        |---|---|
        | it never began, or nothing has ended it | nothing |
        | its container ended by itself: with 0, with another code | completed, failed |
        | it ended by itself with the code that says that its state is saved | nothing |
        | its node did not admit it, or its runtime could not start it | nothing |
        | its container could not start, and its image or its command is to blame | failed, or nothing |
        | it was over its own limits: of memory, of storage | failed |
        | its kubelet ended it, for want of what others need | interrupted |
        | others told it to go, or its machine ended it | interrupted |
        | its Job was taken from it or suspended, and it goes on | interrupted, or nothing so far |
        | services told it to go before it had ended | interrupted, or nothing: they had their reasons |
        | it ended by itself, and was told to go before, or in the same moment | that, or interrupted |
        | it ended by itself, and was told to go before a container beside it ended, within a grace period | the same |
        | it ended by itself, and its node fell silent about then | that, or interrupted |
        | it ended by itself with 0, and its machine booted before that was proved | completed, or interrupted |
        | it ended by itself, and was deleted at once, where kubelets do not say what they knew | that, or interrupted |
        | it ended by itself with 0, and an uninstallation came before that was proved | completed, or interrupted |
        | it goes on, on a node whose end was announced | nothing, or interrupted: the status is written first |
        | it goes on, and the hook of an uninstallation runs | the same |
        """
        if life.began is None and life.ended is None:
            return {Way.NOTHING}
        found = {Way.NOTHING} if life.began is None or life.saved else set[Way]()
        if life.itself and not life.saved:
            found.add(Way.FAILED if life.code else Way.COMPLETED)
        ended = life.ended or NEVER
        doubted = max(life.doubted or ended, ended)
        if life.told is not None and (not life.itself or life.told - doubted <= SAME_MOMENT):
            found |= {Way.INTERRUPTED} if life.by is not By.SERVICES else self._own
            if life.stays and not life.itself:
                found.add(Way.NOTHING)
        if life.itself and any(name == life.node and abs(at - ended) <= NODE_IN_DOUBT for name, at in self.silent):
            found.add(Way.INTERRUPTED)
        if (
            life.itself
            and not life.code
            and any(name == life.node and ended <= at <= self._unproved_until(ended) for name, at in self.booted)
        ):
            found.add(Way.INTERRUPTED)
        if life.itself and not life.code and any(ended <= at <= ended + NODE_IN_DOUBT for at in self.uninstalled):
            found.add(Way.INTERRUPTED)
        if life.itself and self.old_kubelets and life.cleared is not None and life.cleared - ended <= CLEARED_AT_ONCE:
            found.add(Way.INTERRUPTED)
        goes = life.node in self.announced or len(self.uninstalled) % 2 == 1
        if life.began is not None and life.ended is None and life.told is None and goes:
            found |= {Way.INTERRUPTED, Way.NOTHING}
        return found or {Way.NOTHING}

    def _unproved_until(self, ended: datetime) -> datetime:
        """Until when a success may not be proved. Admitters that are away look for no signs of life."""
        until = ended + UNPROVED
        for gone, back in self.away:
            if gone <= until:
                until = max(until, back + UNPROVED if back < NEVER else NEVER)
        return until

    def ways_of_run(self, uid: str, run: str, parallelism: int) -> set[Way]:
        """The same of a run of a gang: what came first decides, and nothing is counted of one that is not on record."""
        truth = self.truths[uid]
        lives = list(truth.runs[run].values())
        found = set[Way]().union(*map(self.ways, lives))
        whole = len(lives) >= parallelism and all(life.began is not None for life in lives)
        if not whole or not all(life.itself and life.code == 0 for life in lives):
            found.discard(Way.COMPLETED)
        left = min((life.ended or NEVER for life in lives if life.itself and life.code), default=NEVER)
        others = min((life.told_itself or NEVER for life in lives), default=NEVER)
        if Way.FAILED in found and left - others > SAME_MOMENT:
            found.discard(Way.FAILED)
        doubted = any(Way.INTERRUPTED in self.ways(life) for life in lives if life.itself)
        # A member that fails shortly before the machine of another one boots or falls silent may have failed for that.
        doubted = doubted or any(
            name == life.node and timedelta(0) <= at - left <= NODE_IN_DOUBT
            for life in lives
            if not life.itself
            for name, at in (*self.booted, *self.silent)
        )
        if others - left > SAME_MOMENT and not doubted:
            found.discard(Way.INTERRUPTED)
        if truth.places.get(run) not in truth.running or not whole or truth.suspensions > 0:
            found.add(Way.NOTHING)
        return found or {Way.NOTHING}

    def failures(self, uid: str) -> int:
        """How often containers of a ScavengerJob have failed at most: of a gang once in each run."""
        truth = self.truths.get(uid, Truth())
        failed = [life for life in truth.lives if Way.FAILED in self.ways(life)]
        return len({life.run if life.task is None else life.uid for life in failed})

    def booked(self, job: Object) -> dict[str, float]:
        """Useful and lost seconds of a core, unless it is booked as it was used, and of each device that the job asks
        for, as its status says."""
        status, truth = job.get("status") or {}, self.truths[job["metadata"]["uid"]]
        found = dict[str, float]()
        if not truth.reclaimed:
            seconds = status.get("usefulCPUSeconds", 0.0) + status.get("lostCPUSeconds", 0.0)
            found["core"] = seconds / (truth.asked["cpu"] / 1000)
        for device in (name for name in truth.asked if "/" in name):
            found[device] = sum(status.get(one, {}).get(device, 0.0) for one in ("usefulSeconds", "lostSeconds"))
        return found

    # --- what a status may say --------------------------------------------------------------------------

    def judge(self, job: Object, counted_until: datetime) -> None:
        """Hold the status of a job to what happened: it counts each end at most once, and as what it may be; and all
        that was to be seen by a moment. Raises AssertionError."""
        status, uid = job.get("status") or {}, job["metadata"]["uid"]
        if uid not in self.truths or not status:
            return
        counts, array = _counts(job), "array" in job["spec"]
        ends = self._ends_of_tasks(uid) if array else self._ends_of_runs(uid, job["spec"]["parallelism"])
        where = f"{job['metadata']['name']}: {status}: {ends}"
        for way, count in counts.items():
            most = sum(way in one.ways for one in ends)
            assert count <= most, f"{_beyond(way, status)}, {count} times of {most}: {where}"
        for way in counts.keys() - {Way.COMPLETED}:
            least = sum(one.ways == {way} and one.seen <= counted_until for one in ends)
            assert counts[way] >= least, f"{way} {least} times, of which {counts[way]} are counted: {where}"
        counted = sum(counts.values())
        assert counted <= len(ends), f"{counted} ends of {len(ends)} {'pods' if array else 'runs'}: {where}"

    def _ends_of_tasks(self, uid: str) -> list[End]:
        """A task is judged when its container has surely ended."""
        truth = self.truths[uid]
        return [End(self.ways_of_task(life, uid), life.seen_over) for life in truth.lives]

    def ways_of_task(self, life: Life, uid: str) -> set[Way]:
        """An eviction counts that came before its deletion, whoever asked for that. Else the ends of an array that was
        suspended are its own user's doing, or nobody's, and those after a failure are nobody's."""
        found, truth = self.ways(life), self.truths[uid]
        if truth.reports and life.told is not None and life.by is By.SERVICES:  # it reported no checkpoint
            found = {*found, Way.FAILED}
        if self._was_uninstalled(life):
            found = {*found, Way.NOTHING}
        if truth.adopted and truth.failed is not None and (life.ended or NEVER) >= truth.failed:
            found = {*found, Way.FAILED}
        if truth.enough is not None and life.seen_over >= truth.enough - NODE_IN_DOUBT:
            found = {*found, Way.NOTHING}
        if (truth.suspensions == 0 or life.evicted) and truth.failed is None:
            return found
        stopped = truth.suspended is not None and life.told is not None and life.told >= truth.suspended
        if stopped and life.by is By.SERVICES and not (life.itself or life.evicted):
            return {Way.NOTHING}
        return {*found, Way.NOTHING}

    def _was_uninstalled(self, life: Life) -> bool:
        """Whether the hook of an uninstallation has released the pod before it was shown to end: of such a task nothing
        is counted, and it starts again."""
        return any(life.created <= at <= life.seen_over for at in self.uninstalled)

    def _ends_of_runs(self, uid: str, parallelism: int) -> list[End]:
        """A gang is judged when its first member is told to go, wherever that is."""
        runs = self.truths[uid].runs.items()
        seen = {run: min(life.seen_told for life in lives.values()) for run, lives in runs}
        return [End(self.ways_of_run(uid, run, parallelism), at) for run, at in seen.items()]

    def judge_starts(self, job: Object) -> None:
        """No storms of pods: two for each end that services did not bring about, and one for each task or member of the
        first start and of each after a suspension; and few that come to nothing. Raises AssertionError."""
        truth, spec = self.truths.get(job["metadata"]["uid"]), job["spec"]
        if truth is None:
            return
        size = tasks_of(spec["array"]) if "array" in spec else spec["parallelism"]
        lives = list(truth.lives)
        ends = sum(life.itself or life.by in (By.OTHERS, By.MACHINE) for life in lives)
        again = truth.suspensions + len(self.uninstalled) // 2
        most = 2 * ends + size * (1 + again + IN_VAIN)
        assert len(lives) <= most, f"{len(lives)} pods for {ends} ends, more than {most}: {job['metadata']['name']}"

    def judge_array(self, job: Object, now: datetime, free_since: datetime) -> None:
        """No more tasks run at a time than may, but for those that wait for nodes that do not answer, and a start that
        cannot succeed fails no array that computes. Services see what they need since `free_since`. Raises
        AssertionError."""
        truth = self.truths.get(job["metadata"]["uid"])
        if truth is None or "array" not in job["spec"]:
            return
        alive = [life for life in truth.lives if self._has_place(life, now)]
        first = min((life.created for life in alive), default=now)
        most = max(width for _, width in _since(truth.widths, first - SETTLED))
        blind = free_since + SETTLED > first
        assert blind or len(alive) <= most, f"{len(alive)} tasks run at a time, of {most}: {job}: {alive}"
        if truth.failed == now and why_failed(job) in BY_START and now - free_since > SETTLED:
            computing = [life for life in alive if life.began and now - life.began > SETTLED and not life.told]
            assert not computing, f"an array fails that computes: {job}: {computing}"

    def _has_place(self, life: Life, now: datetime) -> bool:
        """Whether the pod of a task counts as one that runs."""
        if life.seen_over is not NEVER or (life.told is not None and not life.node):
            return False
        lost = any(name == life.node for name, _ in self.silent)
        return not lost or life.told is None or now - life.told < ABANDONED_AFTER - SAME_MOMENT

    def judge_books(self, job: Object, now: datetime, seen_until: datetime) -> None:
        """No more is booked than its pods existed: core-seconds, and seconds of devices. Of an end after `seen_until`
        services may not have heard, and what is due by the clock is booked until they do. Raises AssertionError."""
        if job["metadata"]["uid"] not in self.truths:
            return
        lives = [life for life in self.truths[job["metadata"]["uid"]].lives if life.began is not None]
        known = ((life, end if (end := life.until(now)) <= seen_until else now) for life in lives)
        most = sum(((end - life.created) + BOOKED_WITHIN).total_seconds() for life, end in known)
        for what, seconds in self.booked(job).items():
            assert seconds <= most, f"{seconds} {what}-seconds are booked of {most}: {job}: {lives}"


def _doubted(pod: Object, main: Object) -> datetime | None:
    """When the last container of a pod ended, where what ended it may have ended that of its program as well: a kubelet
    that reports the end of the pod may have known of a deletion that came between (docs/designs/0002)."""
    ends = [one["state"].get("terminated", {}).get("finishedAt") for one in pod["status"]["containerStatuses"]]
    last, end = max(at for one in ends if (at := parse_time(one)) is not None), parse_time(main["finishedAt"])
    grace = timedelta(seconds=pod["spec"].get("terminationGracePeriodSeconds", 0)) + FINAL_DELETE_SLACK
    return last if end is not None and last <= end + grace else None


def _beyond(way: Way, status: Object) -> str:
    """In words, that a status counts more than there was."""
    if way is Way.FAILED and status["phase"] == "Failed":
        return "a job is Failed"
    return "no run was left alone to its end" if way is Way.COMPLETED else f"{way} more often than it ran"


def _since(widths: list[tuple[datetime, int]], first: datetime) -> list[tuple[datetime, int]]:
    """Those in force at this moment or later."""
    return [one for one, (until, _) in zip(widths, [*widths[1:], (NEVER, 0)], strict=True) if until >= first]


def why_failed(job: Object) -> FailureReason | None:
    """Why its status says that it failed; None where it does not."""
    status = job.get("status") or {}
    said = [one["reason"] for one in status.get("conditions", ()) if one["type"] == "Succeeded"]
    return FailureReason.of(said[0]) if said and status.get("phase") == "Failed" else None


def by_own_word(job: Object) -> bool:
    """Whether a job is Failed as it wants to be: whatever its containers do, it takes too long."""
    reason = why_failed(job)
    if "array" in job["spec"] and reason in (FailureReason.FAILED, FailureReason.TASKS_FAILED):
        reason = FailureReason.NO_PROGRESS  # of its tasks
    return reason in BY_OWN_WORD and BY_OWN_WORD[reason] in job["spec"]


def _counts(job: Object) -> dict[Way, int]:
    """The ends that a status counts; what it has given up counting is left out."""
    status, array = job["status"], job["spec"].get("array")
    found = {Way.INTERRUPTED: status.get("interruptedCount", 0)}
    if job["kind"] == "Job":
        failed = status["failed"] + status["ignoredFailures"]
        done = status["succeeded"] if array is not None else int(status["phase"] == "Completed")
        return {**found, Way.FAILED: failed, Way.COMPLETED: done}
    if array is None:
        failed = status.get("phase") == "Failed" and why_failed(job) in (None, *BY_CONTAINERS)
        found[Way.FAILED] = status.get("retries", 0) + status.get("ignoredFailures", 0) + failed
        found[Way.COMPLETED] = int(status.get("phase") == "Completed")
        return found
    sets = status.get("array", {})
    found[Way.COMPLETED] = parse_indexes(sets.get("completedIndexes", "")).bit_count()
    if not array.get("retry"):  # it clears what has failed
        retries = sum(parse_counts(sets.get("retriesUsed", "")).values())
        found[Way.FAILED] = parse_indexes(sets.get("failedIndexes", "")).bit_count() + retries
        found[Way.FAILED] += status.get("ignoredFailures", 0)
    return found


_READERS: Final[dict[str, Any]] = {
    "pods": Ledger._read_pod,
    "jobs": Ledger._read_job,
    "scavengerjobs": Ledger._read_scavenger_job,
}


def _controller(obj: Object) -> str:
    return next((str(owner["uid"]) for owner in obj["metadata"].get("ownerReferences", ())), "")
