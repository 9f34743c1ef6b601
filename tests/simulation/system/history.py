"""A history that a seed decides: two replicas of the admitter, and everything that goes wrong around them.

Watches fall behind, answers are lost, processes are killed, pods evicted and jobs replaced. In histories with odd seeds
the admitter creates the pods of its Jobs; in the others some replicas do, as while the setting changes.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import uuid
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping, MutableMapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar, cast

import orjson
import structlog
from scavenger_admitter.core import snapshots
from scavenger_admitter.core.lifecycle.leftover_pods import ABANDONED_AFTER
from scavenger_admitter.informers import SCAVENGERQUEUES
from scavenger_admitter.writer import SCAVENGERJOBS
from scavenger_api import names
from scavenger_api.indexes import indexes_of, parse_indexes
from scavenger_api.job import ScavengerJobSpec
from scavenger_api.reasons import FailureReason
from scavenger_api.times import format_time, parse_time
from scavenger_domain.soundness import CHECKS
from scavenger_kube.errors import ApiError
from scavenger_kube.resources import (
    CONFIGMAPS,
    JOBS,
    NAMESPACES,
    NODES,
    PERSISTENTVOLUMECLAIMS,
    PODS,
    SECRETS,
    Resource,
)
from scavenger_runtime.election import LeadershipLost
from scavenger_testing import FakeApi, patches, scavengerjob_dict
from scavenger_testing.clock import START
from scavenger_testing.store import Entry
from scavenger_testing.virtual_loop import LoopClock, VirtualLoop, run_virtually

from tests.simulation.system import kubelet
from tests.simulation.system.ledger import BY_START, NEVER, By, Ledger, Life, Way, by_own_word, why_failed
from tests.simulation.system.specs import CLAIM, OTHER, SAVED, SETTINGS, TOKEN, TOLERATED, job_spec, tasks_of
from tests.unit.admitter.harness import NS, Harness, Instance, Object, Process, Skewed, _ended

JOBS_AT_MOST = 4
WATCHED = (PODS, JOBS, SCAVENGERJOBS)
SETTINGS_OF_ADMITTERS: Final = {"snapshot_image": "example.org/snapshot:1", "allowed_tolerations": (TOLERATED,)}
OFFICE: Final = "office"
TENANTS: Final = (NS, OFFICE)
"""The namespaces of jobs."""
REFERENCES: Final = ((CONFIGMAPS, SETTINGS), (SECRETS, TOKEN), (PERSISTENTVOLUMECLAIMS, CLAIM))
"""What jobs refer to, in each of them."""
HANGS = 0.02
"""Of the requests that fail; each takes as long as the client waits."""
ALWAYS = 1_000_000
RENEW_OFTEN_EVERY = 4
"""One history in so many renews its Leases as often as by default, which is most of all requests."""
SPARES_GANGS_EVERY = 3
"""In one history of so many, admitters interrupt no gangs for the shares of other queues, as by default."""
OLD_KUBELETS_EVERY = 5
"""In one history of so many, kubelets are older than Kubernetes 1.34 and do not say which generation they observed."""
KUBELETS_WRITE: Final = frozenset({"phase", "containerStatuses"})
"""Fields of the status of a pod that has a node which nobody but its kubelet writes."""
LONGEST_TURN: Final = timedelta(seconds=10)
LAST_DELETE_AFTER: Final = timedelta(seconds=1)
"""From the end of the containers of a deleted pod until its kubelet has cleaned up, and sends its last DELETE."""
BOOKED_WITHIN = 30.0
"""Seconds by which what is booked of a run may differ from what its pods had: watches lag, and requests fail."""
COUNTED_WITHIN = timedelta(seconds=150)
"""An end is counted where nothing is in the way: a node that may be lost is waited for, two minutes."""
BOOTS = 25.0
"""Seconds from the moment in which a machine falls silent until its kubelet reports again, at least."""
GRACE = 30
"""Seconds that a pod has to end."""
OVER: Final = ("Completed", "Failed")
ENDED_TASKS: Final = ("completedIndexes", "failedIndexes")
DEVICE: Final = "example.org/device"
"""What every other job has one of in each pod. Nodes have more than anybody can use."""
NO_POD: Set[str] = set(OVER)
AIMED: Mapping[str, Set[str]] = {
    "evict": NO_POD,
    "delete_job": set(),
    "replace": set(),
    "suspend": set(),
    "move": {"Starting", "Running", *OVER},
    "finish": {"", "Waiting", "Starting", "Interrupted", "Suspended", *OVER},
    "hold": set(),
    "reboot": NO_POD,
    "drain": NO_POD,
    "lose_node": NO_POD,
    "power_off": NO_POD,
    "shut_down": NO_POD,
    "return_in_place": NO_POD,
    "crash": NO_POD,
    "delete_one": set(),
    "edit_array": set(),
    "rewrite_status": {""},
    "forge_event": set(),
    "edit_priority": set(),
    "save": NO_POD,
    "end_beside": NO_POD,
    "force": NO_POD,
    "orphan": set(),
    "suspend_batch": set(),
    "evict_for_node": NO_POD,
    "exceed_limit": NO_POD,
}
"""What happens to some jobs, and not to all there are, and in which phases it can happen to none.

All pods of a job that is over have ended, but for one on a node that was lost for longer than a history lasts. The CRD
lets no job change its queue once it has a Job. Only jobs that are Running are told to finish.

In all other phases a job may have pods and a Job. New and Waiting: it has started, and its status does not say so yet,
or an earlier job of its name, or a start that failed, is ending. Interrupted and Suspended: its run is ending.
"""
DEFAULTS: Final = {
    "queue",
    "priority",
    "parallelism",
    "interruption_after",
    "termination_grace_period_seconds",
    "suspend",
    "capacity",
}
"""Fields of a ScavengerJob's spec with a default in the CRD."""
ALL = {"GET", "POST", "PUT", "PATCH", "DELETE"}
OFTEN = (("PATCH", "/scavengerjobs"), ("DELETE", "/jobs"))

OF_THE_KILLED: Final = ("Session is closed",)
"""What is left of a process says so: its connections go before its tasks have ended."""

FAILURES = (AssertionError, TimeoutError)
"""What a history raises that fails."""

H = TypeVar("H", bound="History")


@dataclass(frozen=True)
class Stop:
    """How a pod ends that was told to: when, on the monotonic clock, and with which exit code."""

    at: float
    code: int


@dataclass(frozen=True)
class Alive:
    """A pod that may compute: of which Job it is, or itself of an array, since when, and when it was told to stop."""

    run: str
    begun: datetime
    told: datetime | None
    forced: bool = False
    """It was deleted with `--force` on a node that has been silent: by that users say that it has ended."""

    def abandoned(self, now: datetime) -> bool:
        """Whether a job without volumes starts again all the same, as the node of the pod stays lost."""
        return self.forced or (self.told is not None and now - self.told >= ABANDONED_AFTER - timedelta(seconds=1))


@dataclass
class Trouble:
    """What has been done to the pods, by uid.

    Attributes:
        stops: pods that were told to stop.
        suspended: when a ScavengerJob was first suspended, by the uid of the Job that it had.
        deprived: ScavengerJobs, by uid, that were there while something was missing that jobs refer to.
        removed: ScavengerJobs, by uid, that users or the end of their namespace deleted.
        rewritten: ScavengerJobs, by uid, whose status somebody wrote.
    """

    stops: dict[str, Stop] = field(default_factory=dict)
    suspended: dict[str, datetime] = field(default_factory=dict)
    deprived: set[str] = field(default_factory=set)
    removed: set[str] = field(default_factory=set)
    rewritten: set[str] = field(default_factory=set)


class History(Harness):
    """A cluster in which everything goes wrong that a seed says."""

    steps = 40
    """How often something happens."""
    rests = 60
    """Seconds after which nothing changes any more once all jobs are Completed. 0: nobody waits for that."""
    reclaims = False
    """Whether there is anybody who offers reclaimed capacity."""
    alone = True
    """Whether nobody ends runs but who is played here."""
    machines: tuple[str, ...] = ("n1",)
    queues: tuple[str, ...] = (names.DEFAULT_QUEUE, OTHER)
    """Where jobs are moved to."""

    def __init__(self, api: FakeApi, clock: LoopClock, seed: int) -> None:
        super().__init__(api, clock)
        self.seed = seed
        self.api.store.graceful_pods = True
        self.random = random.Random(seed)
        self.met: Counter[tuple[str, str]] = Counter()
        """In which phases of jobs what has happened: of those that it was about, or of all where it is about none."""
        self.aimed: set[str] = set()
        """The jobs that the last step was about."""
        self.old_kubelets = seed % OLD_KUBELETS_EVERY == 0
        self.retry_period = 2.0 if seed % RENEW_OFTEN_EVERY == 0 else 5.0
        self.trouble = Trouble()
        self.ledger = Ledger(api.store, alone=self.alone)
        self.ledger.old_kubelets = self.old_kubelets
        self.replicas: list[Instance] = []
        self.born = self.submitted = 0
        self.clocks_stepped = self.machines_down = False
        self.loop = cast(VirtualLoop, asyncio.get_running_loop())
        self.paused: dict[str, float] = {}
        self.happened: list[str] = []
        self.said: Sequence[MutableMapping[str, Any]] = ()
        """What services have logged."""
        self._heard = 0
        self._free_since = self.clock.now()
        """Since when services can see all there is, and write."""
        self._blind_since = self._free_since
        """When they last began not to."""
        self.jobs_seen = 0
        """Writes to ScavengerJobs that were looked at."""
        self.owners: dict[str, str] = {}
        """The Job that each pod was made for, by uid: the garbage collector takes the references to one away whose pods
        are orphaned."""
        queue = {"apiVersion": names.API_VERSION, "kind": "ScavengerQueue", "metadata": {"name": OTHER}}
        self.api.put(SCAVENGERQUEUES, {**queue, "spec": {"weight": 1}})
        for namespace in TENANTS:
            self.api.put(NAMESPACES, {"metadata": {"name": namespace, "labels": {"team": namespace}}})
            for resource, name in REFERENCES:
                self.put_reference(resource, namespace, name)

    def put_reference(self, resource: Resource[Any], namespace: str, name: str) -> None:
        """An object that jobs refer to."""
        self.api.put(resource, {"metadata": {"name": name, "namespace": namespace}})

    def status(self, name: str) -> dict[str, Any]:
        found = (job for job in self.api.stored(SCAVENGERJOBS) if job["metadata"]["name"] == name)
        return next((dict(job.get("status") or {}) for job in found), {})

    async def quiet(self) -> None:
        """Time passes only when nobody has anything to do."""

    @property
    def digest(self) -> str:
        """Of every write there was, but of keys, which are random: two histories with the same one are the same."""
        history = [(e.version, e.new) for e in self.api.store.history if e.kind.plural != "secrets"]
        return hashlib.sha256(orjson.dumps(history)).hexdigest()[:16]

    def set_up(self) -> None:
        """What there is before anything goes wrong."""
        self.node(allocatable={"cpu": "100", "memory": "400Gi", "pods": "110", DEVICE: "100"})
        self.stand_by()
        self.stand_by()
        for name in ("a", "b"):
            self.submit(name)

    async def happen(self, skip: Set[int]) -> None:
        """Everything that goes wrong, but for some of the steps."""
        for number in range(self.steps):
            act = self.step(number)
            if number not in skip:
                await self.have(act)
            for _ in range(self.random.randint(1, 3)):
                await self.turn(self.random.choice((0.2, 1.0, 3.0, 8.0)))

    async def have(self, act: Callable[[], Any]) -> None:
        """This happens, and is noted."""
        before = self.phases()
        self.aimed.clear()
        if (done := act()) is not None:
            await done
        about = self.aimed if act.__name__ in AIMED else before
        self.met.update((act.__name__, phase) for phase in {before[name] for name in about if name in before})

    async def turn(self, seconds: float = 0.1) -> None:
        for identity in [one for one, until in self.paused.items() if until <= self.clock.monotonic()]:
            self.go_on(identity)
        await self.restart_what_ended()
        await super().turn(seconds)
        self.hold_now()

    def processes(self) -> Iterator[tuple[str, Process]]:
        """All of the services, each with the name of its service."""
        return ((names.ADMITTER, one) for one in self.replicas)

    def clocks(self) -> list[Skewed]:
        """Those of the processes, each of which may be wrong."""
        return [one.clock for one in self.replicas]

    def hold_now(self) -> None:
        """What holds at every moment: statuses say what happened, a job is Failed only for a reason and goes only when
        it is time, a service has one leader, and none has met what it does not expect, such as a decision that is not
        sound."""
        for entry in self.said[self._heard :]:
            self._expect(entry.get("exc_info"), entry["event"])
        self._heard = len(self.said)
        self.ledger.read(now := self.clock.now())
        if self.api.hampered or self.paused or not any(map(_leads, self.replicas)):
            if self._is_free(now):
                self._blind_since = now
            self._free_since = now
        for job in self.api.stored(SCAVENGERJOBS):
            if job["metadata"]["uid"] not in self.trouble.rewritten:
                self.hold_status(job, now - COUNTED_WITHIN if self._is_free(now) else START)
        written = self.api.written(SCAVENGERJOBS)
        for gone in (entry.old for entry in written[self.jobs_seen :] if entry.new is None and entry.old is not None):
            due = self.is_due(gone, by_any_clock=True)
            assert gone["metadata"]["uid"] in self.trouble.removed or due, f"a job is gone: {gone}"
        self.jobs_seen = len(written)
        self._hold_keys()
        leading = Counter(name for name, one in self.processes() if _leads(one))
        assert not leading or max(leading.values()) == 1, f"several lead: {leading}"

    def _is_free(self, now: datetime) -> bool:
        """Whether services have seen for a while what they need."""
        return now - self._free_since >= COUNTED_WITHIN

    def _hold_keys(self) -> None:
        """A pod whose program has snapshots finds the key of its own job."""
        jobs = {job["metadata"]["uid"] for job in self.api.stored(SCAVENGERJOBS)} - self.trouble.rewritten
        batches = {batch["metadata"]["uid"]: _controller(batch) for batch in self.api.stored(JOBS)}
        for pod in self.api.stored(PODS):
            owner = batches.get(_controller(pod))
            volumes = (one.get("secret", {}) for one in pod["spec"].get("volumes", ()) if one["name"] == snapshots.KEY)
            for volume in volumes if owner in jobs and not _deleting(pod) else ():
                found = self.api.get(SECRETS, _namespace(pod), volume["secretName"])
                assert _controller(found or {"metadata": {}}) == owner, f"a key of nobody: {pod}: {found}"

    def hold_status(self, job: Object, counted_until: datetime) -> None:
        """The status of a job says what happened, and all that was to be seen by a moment."""
        self.ledger.judge(job, counted_until)
        self.ledger.judge_array(job, self.clock.now(), self._free_since)
        if not self.clocks_stepped:  # else starts may seem to take too long at once
            self.ledger.judge_starts(job)
            now = self.clock.now()
            self.ledger.judge_books(job, now, now if self._is_free(now) else self._blind_since - COUNTED_WITHIN)
        fails = (job.get("status") or {}).get("phase") == "Failed"
        assert not fails or self.may_have_failed(job), f"a job is Failed: {job}"

    def _expect(self, error: object, where: str) -> None:
        """A service meets errors of the API server and the loss of its Lease, and nothing else."""
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        expected = error is None or isinstance(error, ApiError | LeadershipLost | bool) or str(error) in OF_THE_KILLED
        assert expected, f"a service fails: {where}: {type(error).__name__}: {error}"

    def may_have_failed(self, job: Object) -> bool:
        """Whether its containers have failed more often than it may try again, or its own word makes it fail."""
        uid, spec = job["metadata"]["uid"], job["spec"]
        if uid in self.trouble.deprived or by_own_word(job):
            return True
        return self.ledger.failures(uid) > (0 if _has_final_rule(job) else spec.get("backoffLimit", 0))

    def is_due(self, job: Object, *, by_any_clock: bool = False) -> bool:
        """Whether it is time for a finished job to go. by_any_clock: or was by a clock that was wrong."""
        ttl, finished = job["spec"].get("ttlSecondsAfterFinished"), job["status"].get("finishedTimestamp")
        if ttl is None or finished is None:
            return False
        at = parse_time(finished)
        wrong = by_any_clock and self.clocks_stepped
        return wrong or (at is not None and (self.clock.now() - at).total_seconds() >= ttl - 1)

    async def restart_what_ended(self) -> None:
        """The kubelet starts a process again that has ended, as one does that has lost its Lease."""
        for replica in [one for one in self.replicas if one.task.done()]:
            self.replicas.remove(replica)
            await self.end_process(replica)
            self.stand_by()

    async def close(self) -> None:
        self.go_on_all()
        await super().close()

    # --- the cluster --------------------------------------------------------------------------------

    def tick(self) -> None:
        super().tick()
        for pod in self.api.stored(PODS):
            self.owners.setdefault(pod["metadata"]["uid"], _controller(pod))
        for pod in self.api.stored(PODS):
            self._kubelet_reports(pod)
        self._collect_garbage()

    def reaches(self, pod: Object) -> bool:
        """Whether the kubelet of a pod works, if it has one."""
        return self.kubelet

    def _kubelet_reports(self, pod: Object) -> None:
        """A kubelet that is back says how pods ended that it had no time to report, and lets go of those that were to
        be deleted."""
        if not self.reaches(pod):
            return
        meta = pod["metadata"]
        if _over(pod) and not _ended(pod):
            codes = [one["state"]["terminated"]["exitCode"] for one in pod["status"]["containerStatuses"]]
            self._status(pod, phase="Failed" if any(codes) else "Succeeded")
        elif _ended(pod) and _deleting(pod):
            if not meta.get("finalizers"):
                self.api.remove(PODS, meta["namespace"], meta["name"])
            elif meta["deletionGracePeriodSeconds"]:
                self._delete_last(pod)

    def _delete_last(self, pod: Object) -> None:
        """The last DELETE of a kubelet moves the time of the first one. It comes a second after the end of containers,
        however rarely there are turns."""
        at, now = (_finished(pod) or START) + LAST_DELETE_AFTER, self.clock.now()
        if at <= now:
            meta, said = pod["metadata"], {"deletionTimestamp": format_time(at)}
            self.api.delete(PODS, meta["namespace"], meta["name"], grace=0)
            if now - at < LONGEST_TURN:
                self.api.edit(PODS, meta["namespace"], meta["name"], lambda one: one["metadata"].update(said))

    def _status(self, pod: Object, **fields: Any) -> None:
        """A kubelet that writes about containers says which generation of the pod it knew."""
        meta = pod["metadata"]
        now = self.api.get(PODS, meta["namespace"], meta["name"])
        if now is not None and not self.old_kubelets and now["spec"].get("nodeName") and KUBELETS_WRITE & fields.keys():
            fields["observedGeneration"] = now["metadata"]["generation"]
        super()._status(pod, **fields)

    def delete_pod(self, pod: Object, grace: int | None = None) -> None:
        """What `kubectl delete pod` does. grace: seconds; None: as the pod says."""
        self.api.delete(PODS, pod["metadata"]["namespace"], pod["metadata"]["name"], grace=grace)

    def _collect_garbage(self) -> None:
        """What the garbage collector does with a Job or a key whose ScavengerJob is gone, and with a pod whose Job is,
        such as one that was created late."""
        owners = {job["metadata"]["uid"] for job in self.api.stored(SCAVENGERJOBS)}
        for job in list(self.api.stored(JOBS)):
            if (owner := _controller(job)) and owner not in owners:
                self._remove_job(job)
        for secret in list(self.api.stored(SECRETS)):
            if (owner := _controller(secret)) and owner not in owners:
                self.api.remove(SECRETS, _namespace(secret), secret["metadata"]["name"])
        there = {job["metadata"]["uid"] for job in self.api.stored(JOBS)}
        for pod in list(self.api.stored(PODS)):
            if (owner := _controller(pod)) and owner not in there and not _deleting(pod):
                self.delete_pod(pod)

    def run(self, pod: Object) -> None:
        """The kubelet starts containers, one after the other where it has to."""
        meta, node = pod["metadata"], pod["spec"].get("nodeName") or self.binds_to

        def edit(obj: Object) -> None:
            obj["spec"]["nodeName"] = node
            obj["status"] = {**obj["status"], **kubelet.progress(obj, self.clock.now())}

        self.api.edit(PODS, meta["namespace"], meta["name"], edit)

    def end(self, pod: Object, code: int = 0) -> None:
        """A pod that was told to stop stops in its time. Of another one the program comes to its end, if it runs."""
        uid = pod["metadata"]["uid"]
        if _over(pod) or _ended(pod):
            return
        if _deleting(pod):
            stop = self.trouble.stops.setdefault(uid, self._stop(pod))
            if self.clock.monotonic() >= stop.at:
                self.ledger.end(pod, self.clock.now())
                self._status(pod, **kubelet.all_ended(pod, stop.code, self.clock.now(), message=self._last_words()))
        elif "running" in kubelet.main_state(pod):
            self.ledger.end(pod, self.clock.now(), 0)
            self._status(pod, **kubelet.program_ended(pod, 0, self.clock.now(), message=self._last_words()))

    def _last_words(self) -> str:
        return self.last_words.format(now=self.stamp())

    def _stop(self, pod: Object) -> Stop:
        """How it takes the signal: it may save its state, or not listen until it is killed."""
        grace = pod["metadata"].get("deletionGracePeriodSeconds") or 0
        seconds = self.random.uniform(0, 1.1 * grace)
        code = self.random.choice((0, 143, SAVED))
        killed = seconds >= grace
        return Stop(self.clock.monotonic() + min(seconds, grace), kubelet.KILLED if killed else code)

    def _pods_of(self, job: Object) -> list[Object]:
        return [pod for pod in self.api.stored(PODS) if self.owner(pod) == job["metadata"]["uid"]]

    def owner(self, pod: Object) -> str:
        """The uid of the Job that a pod was made for."""
        return _controller(pod) or self.owners.get(pod["metadata"]["uid"], "")

    # --- what happens -------------------------------------------------------------------------------

    def step(self, number: int) -> Callable[[], Any]:
        """What happens next. Each step has its own source of chance, so that others may be left out."""
        self.random = random.Random(f"{self.seed} {number}")
        act = self.random.choice(self.acts())
        self.happened.append(act.__name__)
        return act

    @classmethod
    def name_of(cls, seed: int, number: int) -> str:
        """What happens in a step."""
        return str(random.Random(f"{seed} {number}").choice(cls.acts(cls.__new__(cls))).__name__)

    def acts(self) -> list[Callable[[], Any]]:
        """What may happen, the more often the more often it is there."""
        often = (self.evict, self.fall_behind, self.lose)
        once = (self.submit_one, self.delete_job, self.replace, self.suspend, self.move, self.finish)
        machines = (self.lose_node, self.return_node, self.step_clock, self.kill, self.power_off)
        pauses, upon = (self.pause, self.pause), (self.one_upon_another,) * 6
        return [*often, *often, *once, self.catch_up, self.cut, self.lag, self.outage, *machines, *pauses, *upon]

    async def one_upon_another(self) -> None:
        """A start is not on record yet, or a run is ending, when something else happens to its pods or its Job."""
        await self.pass_time(BOOTS, step=5)
        self.recover()
        await self.pass_time(self.random.choice((4, 10, 20)), step=2)
        unheard = self.random.choice([*OFTEN, None])
        if unheard is not None:
            self.api.fail(500, times=self.random.randint(1, 4), methods={unheard[0]}, path=unheard[1])
        for act in (self.random.choice(self.begins()), self.random.choice(self.blows())):
            await self.have(act)
            if seconds := self.random.choice((0.0, 0.2, 1.0, 3.0)):
                await self.turn(seconds)

    def recover(self) -> None:
        """Jobs can run again."""
        self.return_node()
        for job in self.api.list(SCAVENGERJOBS):
            if job["spec"].get("suspend"):
                self._suspend(job, suspended=False)

    def begins(self) -> list[Callable[[], Any]]:
        """What starts or ends a run."""
        once = [self.submit_one, self.evict, self.delete_job, self.finish, self.replace_late]
        return [*once, self.suspend_one, self.suspend_one]

    def blows(self) -> list[Callable[[], Any]]:
        """What happens to pods and Jobs."""
        return [self.evict, self.delete_job, self.suspend, self.lose_node, self.power_off, self.kill]

    def pick(self, found: Sequence[Object]) -> Object:
        """One of these pods or Jobs. Each phase that a job of theirs is in is as likely, however rare it is."""
        phases, of = self.phases(), dict[str, list[Object]]()
        for one in found:
            of.setdefault(phases.get(_job(one), "of no job"), []).append(one)
        return self.random.choice(of[self.random.choice(sorted(of))])

    def pick_machine(self) -> str:
        """One on which there are pods, or any."""
        there = [pod for name in self.machines for pod in self.on(name)]
        return str(self.pick(there)["spec"]["nodeName"]) if there else self.random.choice(self.machines)

    def run_process(self, main: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """A process of a service begins."""
        return asyncio.create_task(main)

    def aim(self, obj: Object) -> None:
        """Something happens to a job, its Job or one of its pods."""
        self.aimed.add(_job(obj))

    def submit_one(self) -> None:
        if self.jobs() < JOBS_AT_MOST:
            namespace = self.random.choice((NS, NS, OFFICE))
            spec = job_spec(self.random)
            if not self.reclaims:
                spec.pop("capacity", None)
            self.submit_spec(f"j{len(self.happened)}", spec, namespace)

    def jobs(self) -> int:
        """How many there are, or are about to be."""
        return len(self.phases())

    def submit(self, name: str, **spec: Any) -> None:
        self.submit_spec(name, scavengerjob_dict(**spec)["spec"], NS)

    def submit_spec(self, name: str, spec: Object, namespace: str) -> None:
        """A user submits this one."""
        spec = patches.copied(spec)
        job = scavengerjob_dict(name, namespace=namespace, created=self.stamp(), uid=str(uuid.uuid4()))
        self.submitted += 1
        if self.submitted % 2:
            for amounts in spec.get("resources", {}).values():
                amounts[DEVICE] = "1"
        self.create({**job, "spec": defaulted(spec)})

    def create(self, job: Object) -> None:
        """A user creates this ScavengerJob."""
        self.api.put(SCAVENGERJOBS, job)

    def evict(self) -> None:
        living = [pod for pod in self.api.list(PODS) if pod["status"]["phase"] == "Running" and not _deleting(pod)]
        if living:
            self.take_away(self.pick(living))

    def take_away(self, pod: Object) -> None:
        """Somebody deletes a pod."""
        self.aim(pod)
        self.ledger.order(pod, self.clock.now())
        self.delete_pod(pod)

    def delete_job(self) -> None:
        if found := self.api.list(JOBS):
            self.remove_job(self.pick(found))

    def remove_job(self, job: Object) -> None:
        """Somebody deletes a Job, and its pods with it, unless somebody holds the Job."""
        self.aim(job)
        for pod in self._pods_of(job):
            self.ledger.order(pod, self.clock.now(), stays=True)
        self._remove_job(job)

    def _remove_job(self, job: Object) -> None:
        pods = self._pods_of(job)
        self.api.remove(JOBS, job["metadata"]["namespace"], job["metadata"]["name"])
        for pod in pods:
            if not _deleting(pod):
                self.delete_pod(pod)

    def replace(self) -> None:
        """`kubectl replace --force`."""
        if found := self.api.list(SCAVENGERJOBS):
            self.replace_one(self.random.choice(found))

    async def replace_late(self) -> None:
        """The same, before the garbage collector has seen that the first job is gone."""
        if not (working := self.with_jobs()):
            return
        job = self.random.choice(working)
        self.replace_one(job, collected=False)
        for _ in range(10):
            if self.api.get(SCAVENGERJOBS, _namespace(job), _job(job)) is None:
                await self.clock.advance(0.002)

    def replace_one(self, job: Object, *, collected: bool = True) -> None:
        """Another job has the name of this one, at once. collected: the Job of the first one is gone by then."""
        batch = self.batch_of(job)
        self.remove_scavengerjob(job)
        if batch is not None and collected:
            self.remove_job(batch)
        self.submit_spec(_job(job), job["spec"], _namespace(job))

    def remove_scavengerjob(self, job: Object) -> None:
        """A user deletes a job."""
        self.aim(job)
        self.trouble.removed.add(job["metadata"]["uid"])
        self.api.remove(SCAVENGERJOBS, _namespace(job), _job(job))

    def batch_of(self, job: Object) -> Object | None:
        """The batch/v1 Job with the name of a ScavengerJob."""
        return self.api.get(JOBS, _namespace(job), _job(job))

    def suspend(self) -> None:
        if found := self.api.list(SCAVENGERJOBS):
            self._suspend(self.random.choice(found), suspended=self.random.random() < 0.5)

    async def suspend_one(self) -> None:
        """A user suspends a job that has a Job, and may think better of it."""
        if working := self.with_jobs():
            job = self.random.choice(working)
            self._suspend(job, suspended=True)
            if self.random.random() < 0.5:
                await self.turn(self.random.choice((0.2, 1.0, 3.0)))
                self._suspend(job, suspended=False)

    def with_jobs(self) -> list[Object]:
        """The ScavengerJobs that have a Job."""
        return [job for job in self.api.list(SCAVENGERJOBS) if self.batch_of(job) is not None]

    def _suspend(self, job: Object, *, suspended: bool) -> None:
        self.aim(job)
        if suspended and (batch := self.batch_of(job)) is not None:
            self.trouble.suspended.setdefault(batch["metadata"]["uid"], self.clock.now())
        self.edit_spec(job, suspend=suspended)

    def edit_spec(self, job: Object, **fields: Any) -> None:
        """A user changes these fields."""
        self.api.edit(SCAVENGERJOBS, _namespace(job), _job(job), lambda one: one["spec"].update(fields))

    def move(self) -> None:
        """A job goes to another queue, as far as the rule of the CRD lets it."""
        if free := [job for job in self.api.list(SCAVENGERJOBS) if "jobName" not in job.get("status", {})]:
            queue = self.random.choice(self.queues)
            self.move_to(self.random.choice(free), queue)

    def move_to(self, job: Object, queue: str) -> None:
        """This job does."""
        self.aim(job)
        self.edit_spec(job, queue=queue)

    def finish(self) -> None:
        running = [name for name, phase in self.phases().items() if phase == "Running"]
        for pod in self.pods(self.random.choice(running)) if running else ():
            if pod["status"]["phase"] == "Running" and not _deleting(pod):
                self.aim(pod)
                self.end(pod)

    def fall_behind(self) -> None:
        self.api.hold_watches(self.random.choice(WATCHED))

    def catch_up(self) -> None:
        self.api.release_watches(*WATCHED)

    def lose(self) -> None:
        """A request fails, before or after it took effect."""
        method, path = self.random.choice(self.requests())
        chance = self.random.random()
        if chance < HANGS:
            self.api.hang(methods={method}, path=path)
        elif chance < 0.4:
            status = self.random.choice((403, 409, 429, 500))
            later = self.random.choice((1.0, 20.0)) if status == 429 else None
            self.api.fail(status, methods={method}, path=path, retry_after=later)
        else:
            self.api.drop(methods={method}, path=path, after_write=self.random.random() < 0.7)

    def requests(self) -> list[tuple[str, str]]:
        """Those that may fail."""
        return [("POST", "/jobs"), ("POST", "/pods"), ("PATCH", "/jobs"), *OFTEN]

    def lose_node(self) -> None:
        """A machine falls silent, and what runs on it is to be evicted."""
        name = self.pick_machine()
        self.fall_silent(name)
        for pod in self.on(name):
            self.aim(pod)
            if not _deleting(pod) and self.random.random() < 0.5:
                self.take_away(pod)

    def on(self, node: str) -> list[Object]:
        """The pods on a node that have not ended."""
        return [pod for pod in self.api.stored(PODS) if pod["spec"].get("nodeName") == node and not _ended(pod)]

    def working_on(self, node: str) -> list[Object]:
        """The pods of jobs on a node whose containers run."""
        mine = [pod for pod in self.on(node) if pod["metadata"]["namespace"] in TENANTS]
        return [pod for pod in mine if pod["status"]["phase"] == "Running" and not _over(pod)]

    def fall_silent(self, node: str) -> None:
        """Its kubelet reports nothing any more."""
        self.kubelet = False
        self._say_ready(node, "Unknown")

    def return_node(self) -> None:
        if not self.kubelet and self.has_booted("n1"):
            self._say_ready("n1", "True")
            self.kubelet = True

    def has_booted(self, node: str) -> bool:
        """Whether a silent machine has been away for as long as one is at least."""
        since = max(at for name, at in self.ledger.silent if name == node)
        return (self.clock.now() - since).total_seconds() >= BOOTS

    def _say_ready(self, name: str, status: str) -> None:
        if status == "Unknown":
            self.ledger.silent.append((name, self.clock.now()))
        condition = {"type": "Ready", "status": status, "lastTransitionTime": self.stamp()}
        self.api.edit(NODES, None, name, lambda node: node["status"].update(conditions=[condition]))

    def power_off(self) -> None:
        """A machine goes down: a signal ends what runs there. Its kubelet has time to report that, or has not.

        For how long a failure may be the fault of a node is judged by the wall clock, so no clock is set meanwhile.
        """
        if not self.clocks_stepped:
            self.machines_down = True
            name, reported = self.pick_machine(), self.random.random() < 0.5
            self.kill_containers(name, reported=reported)
            self.fall_silent(name)

    def kill_containers(self, name: str, *, reported: bool, codes: Sequence[int] = (kubelet.KILLED, 143)) -> None:
        """A signal ends what runs on a machine, and what was told to stop as well.

        Args:
            name: of the machine.
            reported: the kubelet writes phases, and not only the ends.
            codes: with which programs end.
        """
        for pod in self.working_on(name):
            self.aim(pod)
            code = self.random.choice(codes)
            phase = "Failed" if code else "Succeeded"
            self._kill(pod, code, phase if reported and self.reaches(pod) else "Running")

    def _kill(self, pod: Object, code: int, phase: str) -> None:
        self.end_by_machine(pod)
        now = self.clock.now()
        ended = {
            kind: [kubelet.ended(one, code, now) for one in pod["status"][kind]]
            for kind in ("containerStatuses", "initContainerStatuses")
            if kind in pod["status"]
        }
        self._status(pod, phase=phase, **ended)

    def end_by_machine(self, pod: Object) -> None:
        """Its machine ends what runs there."""
        self.ledger.end(pod, self.clock.now())
        self.ledger.order(pod, self.clock.now(), By.MACHINE)

    def step_clock(self) -> None:
        if not self.machines_down:
            self.clocks_stepped = True
            skew = self.random.choice((-3600, -60, 60, 600))
            self.random.choice(self.clocks()).skew = timedelta(seconds=skew)

    def lag(self) -> None:
        """Each watch is behind by another time from now on."""
        source = random.Random(self.random.random())
        self.api.lag_watches(lambda: source.choice((0.0, 0.0, 0.1, 2.0, 20.0)))

    async def outage(self) -> None:
        """The API server refuses everything for a while, or hangs."""
        if self.random.random() < 0.7:
            self.api.fail(503, times=ALWAYS, methods=ALL)
        else:
            self.api.hang(times=ALWAYS, methods=ALL)
        await self.pass_time(self.random.choice((3, 12, 40)))
        self.api.heal()

    def cut(self) -> None:
        self.random.choice((self.api.drop_watches, self.api.expire_watches))()

    async def kill(self) -> None:
        """A replica dies, and another one stands by."""
        await self.begin_something()
        await self.end_process(self.replicas.pop(self.random.randrange(len(self.replicas))))
        self.stand_by()

    async def end_process(self, process: Process) -> None:
        """A process ends at once."""
        if process.task.done() and not process.task.cancelled():
            self._expect(process.task.exception(), "ends")
        self.go_on(process.context.settings.identity)
        await process.kill()

    async def pause(self) -> None:
        """A process is stopped for a while, which may be longer than its Lease lasts, and then goes on."""
        seconds = self.random.choice((3.0, 12.0, 20.0, 60.0))
        _, process = self.random.choice(list(self.processes()))
        await self.begin_something()
        self.stop_process(process, seconds)

    async def begin_something(self) -> None:
        """Until services are in the middle of what follows, often between a look and a write."""
        self.tick()
        await self.clock.advance(self.random.uniform(0.0, 0.1))

    def stop_process(self, process: Process, seconds: float) -> None:
        """Nothing of a process runs for so long."""
        identity = process.context.settings.identity
        self.paused[identity] = self.clock.monotonic() + seconds
        self.loop.pause(identity)

    def go_on(self, identity: str) -> None:
        """A process that was stopped, if it was, runs again."""
        self.paused.pop(identity, None)
        self.loop.go_on(identity)

    def go_on_all(self) -> None:
        """All processes do."""
        for identity in list(self.paused):
            self.go_on(identity)

    def batches(self) -> list[Object]:
        """The Jobs of ScavengerJobs."""
        return self.api.list(JOBS)

    def stand_by(self, **settings: Any) -> None:
        self.born += 1
        identity = f"admitter-{self.born}"
        common = {
            "leader_elect": True,
            "retry_period": self.retry_period,
            "identity": identity,
            "reclaim_gangs": self.seed % SPARES_GANGS_EVERY != 1,
            **SETTINGS_OF_ADMITTERS,
        }
        chosen = {**common, **settings}
        self.replicas.append(self.loop.begin(identity, lambda: self.admitter(**chosen)))

    # --- the end ------------------------------------------------------------------------------------

    def calm(self) -> None:
        """Nothing goes wrong any more, and no job is suspended."""
        self.api.heal()
        self.api.lag_watches(float)
        self.catch_up()
        self.recover()
        self.go_on_all()
        for clock in self.clocks():
            clock.skew = timedelta()

    def settled(self, *phases: str) -> bool:
        return set(self.phases().values()) <= set(phases)

    def all_run(self) -> bool:
        """Whether every job runs or is over."""
        return self.settled("Running", *OVER)

    def all_done(self) -> bool:
        """Whether every job is over; whatever runs ends by itself on the way. The status may still speak of a run
        that somebody has just ended."""
        for name, phase in self.phases().items():
            if phase == "Running":
                self.succeed(name)
        return self.settled(*OVER) and not self.held()

    async def come_to_an_end(self) -> None:
        """In peace, until nothing is left to do. Raises TimeoutError."""
        await self.until(self.all_run, limit=1800, step=5)
        await self.until(self.all_done, limit=600, step=5)

    # --- what holds ---------------------------------------------------------------------------------

    def nobody_s(self, writes: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """Those of these writes that nobody needs while nothing happens."""
        return [(method, path) for method, path in writes if "/leases" not in path]

    def lives(self) -> Iterator[tuple[str, set[str]]]:
        """At every moment and for each name, the Jobs with pods that may compute. Of a task of an array: the pods."""
        alive: dict[str, dict[str, Alive]] = {}
        silent = {node for node, _ in self.ledger.silent}
        for entry in self.api.store.history:
            obj = entry.new or entry.old
            if _is_pod(entry) and obj is not None and names.LABEL_JOB in obj["metadata"].get("labels", {}):
                labels, uid = obj["metadata"]["labels"], obj["metadata"]["uid"]
                name, task = labels[names.LABEL_JOB], labels.get(names.LABEL_TASK)
                mine = alive.setdefault(name if task is None else f"{name}[{task}]", {})
                mine.pop(uid, None)
                if entry.new is not None and _computes(entry.new):
                    run = f"{self.owner(obj)}/{_run(obj)}" if task is None else uid
                    made, told = _time(obj, "creationTimestamp") or START, _time(obj, "deletionTimestamp")
                    forced = (
                        obj["metadata"].get("deletionGracePeriodSeconds") == 0 and obj["spec"]["nodeName"] in silent
                    )
                    mine[uid] = Alive(run, made, told, forced)
                last = max((life.begun for life in mine.values()), default=START)
                yield name, {life.run for life in mine.values() if not life.abandoned(last)}

    def check_runs(self, job: Object) -> None:
        """A job that is Completed ran to its end in a run that was left alone."""
        uid, parallelism = job["metadata"]["uid"], job["spec"]["parallelism"]
        ways = [self.ledger.ways_of_run(uid, run, parallelism) for run in self.ledger.begun(uid)]
        assert any(Way.COMPLETED in one for one in ways), f"no run was left alone to its end: {job}: {ways}"

    def check_books(self, job: Object) -> None:
        """Useful and lost is at least what the pods of a job had, from their start until somebody told them to go: of
        its CPU, and of its devices. Each pod of an array is a run of its own."""
        uid, parallelism = job["metadata"]["uid"], job["spec"]["parallelism"]
        runs, recorded, least = self.ledger.begun(uid), self.ledger.recorded(uid), 0.0
        if "array" in job["spec"]:
            runs = {life.uid: [life] for lives in runs.values() for life in lives if life.itself}
            recorded = set(runs)
        for run, lives in runs.items():
            if run in recorded and len(lives) == parallelism and all(life.shown for life in lives):
                together = min(map(self._left_alone_until, lives)) - max(life.began or START for life in lives)
                least += parallelism * max(0.0, together.total_seconds() - BOOKED_WITHIN)
        for what, seconds in self.ledger.booked(job).items():
            assert least <= seconds, f"{seconds} {what}-seconds are booked of {least}: {job}: {runs}"

    def _left_alone_until(self, life: Life) -> datetime:
        """When it ended, was told to, its job was suspended, or its node fell silent, whatever came first."""
        began = life.began or START
        silent = (at for name, at in self.ledger.silent if name == life.node and at >= began)
        suspended = self.trouble.suspended.get(life.run.partition("/")[0], NEVER)
        return min((life.until(self.clock.now()), life.told or NEVER, suspended, *silent))

    def check_statuses(self) -> None:
        """A job that is Completed stays so, and what the scheduler or an eviction took is called so."""
        pods, before, deleted_first = dict[str, Object](), dict[str, Object](), set[str]()
        for entry in self.api.store.history:
            if (new := entry.new) is None:
                continue
            if _is_pod(entry):
                pods[new["metadata"]["uid"]] = new
                if _deleting(new) and _disrupted(new) is NEVER:
                    deleted_first.add(new["metadata"]["uid"])
            elif entry.kind.plural == "scavengerjobs":
                uid, status = new["metadata"]["uid"], new.get("status") or {}
                old, before[uid] = before.get(uid, {}), status
                if uid in self.trouble.rewritten:
                    continue
                assert old.get("phase") not in _final(new) or status["phase"] == old["phase"], f"works again: {new}"
                more = status.get("interruptedCount", 0) > old.get("interruptedCount", 0)
                if more and "array" not in new["spec"]:
                    self._check_cause(old, new, pods, deleted_first)

    def _check_cause(self, old: Object, new: Object, pods: dict[str, Object], deleted_first: Set[str]) -> None:
        place, name = old.get("queuedTimestamp"), new["metadata"]["name"]
        mine = [pod for pod in pods.values() if pod["metadata"].get("labels", {}).get(names.LABEL_JOB) == name]
        told = [pod for pod in mine if _run(pod) == place and _deleting(pod)]
        said = {one["reason"] for one in new["status"]["conditions"] if one["type"] == "Interrupted"}
        disrupted = [
            pod for pod in told if pod["metadata"]["uid"] not in deleted_first and _disrupted(pod) is not NEVER
        ]
        assert not told or len(disrupted) < len(told) or "Deleted" not in said, f"not by name: {new['status']}: {told}"

    def check_others(self) -> None:
        """What holds at the end of jobs that are no ScavengerJobs."""

    def check_tasks(self, job: Object) -> None:
        """Of an array that is over each task succeeded in a pod, or failed as often as it may, unless it could not
        start, or a failure was final."""
        spec, status, reason = job["spec"]["array"], job["status"], why_failed(job)
        ways: dict[int, list[set[Way]]] = {}
        for life in self.ledger.truths[job["metadata"]["uid"]].lives:
            ways.setdefault(life.task or 0, []).append(self.ledger.ways_of_task(life, job["metadata"]["uid"]))
        sets, where = status["array"], f"{job['metadata']['name']}: {status}: {ways}"
        completed, failed = (set(indexes_of(parse_indexes(sets.get(one, "")))) for one in ENDED_TASKS)
        assert all(any(Way.COMPLETED in one for one in ways[task]) for task in completed), where
        final = _has_final_rule(job) or "progressDeadlineIntervals" in job["spec"]
        tries = 1 if final else 1 + job["spec"].get("backoffLimit", 0)
        assert all(sum(Way.FAILED in one for one in ways[task]) >= tries for task in failed), where
        if reason in BY_START:
            return
        stopped = reason in (FailureReason.DEADLINE_EXCEEDED, FailureReason.POD_FAILURE_POLICY)
        everything = len(completed) + len(failed) == tasks_of(spec)
        assert everything or stopped or (failed and spec.get("failFast")), where
        assert status["phase"] == ("Failed" if failed or stopped else "Completed"), where


def _has_final_rule(job: Object) -> bool:
    """Whether its podFailurePolicy may make a failure final."""
    rules = job["spec"].get("podFailurePolicy", {}).get("rules", ())
    return any(rule["action"] in ("FailJob", "FailIndex") for rule in rules)


def _final(job: Object) -> Set[str]:
    """The phases in which a job stays. Failed tasks of an array start again where its user wants that."""
    again = job["spec"].get("array", {}).get("retry", 0) > 0
    return {"Completed"} if again else set(OVER)


def _controller(pod: Object) -> str:
    """The uid of its owner, as it is written; empty where there is none."""
    return next((str(owner["uid"]) for owner in pod["metadata"].get("ownerReferences", ())), "")


def _namespace(obj: Object) -> str:
    return str(obj["metadata"]["namespace"])


def defaulted(spec: Object) -> Object:
    """The spec of a ScavengerJob with what the API server fills in."""
    return {
        **ScavengerJobSpec.model_validate({"image": "x", **spec}).model_dump(
            by_alias=True, mode="json", include=DEFAULTS
        ),
        **spec,
    }


def _time(obj: Object, field: str) -> datetime | None:
    return parse_time(obj["metadata"].get(field))


def _deleting(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _run(pod: Object) -> str:
    return str(pod["metadata"].get("annotations", {}).get(names.ANNOTATION_RUN, ""))


def _disrupted(pod: Object) -> datetime:
    """When an eviction or the scheduler marked it, or the end of time."""
    marks = [one for one in pod["status"].get("conditions", ()) if one["type"] == "DisruptionTarget"]
    return min((parse_time(one["lastTransitionTime"]) or NEVER for one in marks), default=NEVER)


def _began(pod: Object) -> datetime | None:
    """When its program started, if anybody knows."""
    state = kubelet.main_state(pod)
    return _seen((state.get("terminated") or state.get("running") or {}).get("startedAt"))


def _finished(pod: Object) -> datetime | None:
    """When its program ended, if it has and anybody saw it."""
    return _seen(kubelet.main_state(pod).get("terminated", {}).get("finishedAt"))


def _seen(stamp: str | None) -> datetime | None:
    """A moment of a container. A runtime that does not know it says 1970."""
    at = parse_time(stamp)
    return at if at is not None and at >= START else None


def _cores(pod: Object) -> float:
    """What it requests."""
    return kubelet.requested(pod, "cpu")


def _job(obj: Object) -> str:
    """The name of the ScavengerJob that an object is, or is part of."""
    meta = obj["metadata"]
    return str(meta.get("labels", {}).get(names.LABEL_JOB, meta["name"]))


def _over(pod: Object) -> bool:
    """Whether all its containers have ended, reported by a phase or not."""
    statuses = pod["status"].get("containerStatuses", ())
    return bool(statuses) and all("terminated" in one["state"] for one in statuses)


def _main_over(pod: Object) -> bool:
    """Whether the container of the program has ended, whatever others do."""
    return "terminated" in kubelet.main_state(pod)


def _leads(process: Process) -> bool:
    elector = process.context.elector
    return elector is not None and elector.is_leader


def _is_pod(entry: Entry) -> bool:
    return (entry.kind.api_version, entry.kind.plural) == ("v1", "pods")  # and no PodMetrics


def _computes(pod: Object) -> bool:
    return bool(pod["spec"].get("nodeName")) and not _ended(pod) and not _main_over(pod)


async def play(c: History, skip: Set[int]) -> None:
    """The history, and then peace until every job is over."""
    c.set_up()
    await c.pass_time(5)
    await c.happen(skip)
    await c.pass_time(BOOTS)
    c.calm()
    await c.come_to_an_end()
    if c.rests:
        await c.pass_time(c.rests, step=10)
        before = len(c.writes())
        await c.pass_time(60, step=5)
        assert not (more := c.nobody_s(c.writes()[before:])), f"written though nothing happens: {more}"


def simulate(seed: int, kind: type[H], skip: Set[int] = frozenset()) -> H:
    """Play one history of a kind from beginning to end.

    Args:
        seed: decides everything.
        kind: of which system.
        skip: numbers of steps in which nothing happens.

    Raises:
        AssertionError: something does not hold.
        TimeoutError: it does not come to its end.
    """
    CHECKS.on = True
    with structlog.testing.capture_logs() as said:
        return run_virtually(seed, lambda clock, _: _simulated(seed, clock, kind, skip, said))


async def _simulated(
    seed: int, clock: LoopClock, kind: type[H], skip: Set[int], said: Sequence[MutableMapping[str, Any]]
) -> H:
    async with FakeApi(clock, listens=False) as api:
        c = kind(api, clock, seed)
        c.said = said
        try:
            await play(c, skip)
        finally:
            await c.close()
    assert not c.loop.lost, f"nobody was told: {c.loop.lost}"
    c.hold_now()
    for name, living in c.lives():
        assert len(living) <= 1, f"{name} lives twice: {living}"
    for job in api.list(SCAVENGERJOBS):
        if job["metadata"]["uid"] in c.trouble.rewritten:
            continue
        c.ledger.judge(job, clock.now())
        if "array" in job["spec"]:
            c.check_tasks(job)
        elif job["status"].get("phase") == "Completed":
            c.check_runs(job)
        if not c.clocks_stepped:
            c.check_books(job)
    c.check_statuses()
    c.check_others()
    return c
