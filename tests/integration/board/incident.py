"""An incident, as the API server and Prometheus tell of it: the load is above its upper level, jobs leave, others wait.

All times hang on one moment, `began`, shortly before the test begins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Final

from scavenger_api import names
from scavenger_api.ledger import Ledger
from scavenger_api.levels import LevelsState, PublishedLevels, ResourceLevels
from scavenger_api.reasons import InterruptionReason, WaitReason
from scavenger_api.times import format_micro_time, format_time
from scavenger_board.core.recorded import LEVELS, LOAD, MOMENT, REGULAR, STATE
from scavenger_board.facts import EVENTS, JOBS, POOL_LABELS, QUEUES, ZONE_LABEL
from scavenger_domain import interruptions
from scavenger_domain.nodes import Marks
from scavenger_kube.resources import CONFIGMAPS, LEASES, NODES, PODS, Resource
from scavenger_kube.resources import JOBS as BATCH_JOBS
from scavenger_testing.builders import adopted_job_dict, configmap_dict, node_dict, pod_dict, scavengerjob_dict
from scavenger_testing.fake_api import FakeApi

Object = dict[str, Any]

GPU: Final = "nvidia.com/gpu"
GPU_POOL: Final = Marks(((f"{GPU}=present:NoSchedule", GPU),), (GPU,)).pool()

NODE_METRICS: Final = Resource("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", False, dict)
SYSTEM: Final = names.SYSTEM_NAMESPACE
PREEMPTOR: Final = "web/checkout-5"
FULLEST: Final = "node-07"
SILENT: Final = names.PRIORITIZER
PAST_LOAD: Final = 0.62
"""Of the CPU an hour ago, as Prometheus has it."""


def queue(name: str, weight: int, allocated: str, deserved: str, **jobs: int) -> Object:
    """A ScavengerQueue with its status; shares of cpu, and of what none of its jobs asks for."""
    deserves = {"cpu": deserved, "ephemeral-storage": "400Gi"}
    status = {"state": "Open", "jobs": jobs, "allocated": {"cpu": allocated}, "deserved": deserves}
    return {"metadata": {"name": name, "uid": f"queue-{name}"}, "spec": {"weight": weight}, "status": status}


def event(name: str, about: Object, reason: str, message: str, at: datetime, related: Object | None = None) -> Object:
    """An Event, as services and scheduler write them."""
    stamp = {"lastTimestamp": format_time(at)} if related is None else {"eventTime": format_micro_time(at)}
    meta = {"name": name, "namespace": about.get("namespace", "default"), "creationTimestamp": format_time(at)}
    return {
        "metadata": meta,
        "involvedObject": about,
        "reason": reason,
        "message": message,
        "type": "Normal",
        **stamp,
        **({"related": related} if related else {}),
    }


def admitted(reason: str, message: str) -> list[Object]:
    """Conditions of a job that waits."""
    return [{"type": "Admitted", "status": "False", "reason": reason, "message": message}]


def levels(now: datetime, cpu: float, state: LevelsState, message: str) -> dict[str, str]:
    """data of the ConfigMap, observed just now."""
    resources = {"cpu": ResourceLevels(cpu, 70.0, 80.0, 85.0), "memory": ResourceLevels(40.0, 70.0, 80.0, 85.0)}
    admit = state is LevelsState.FILLING
    return PublishedLevels(state, 100.0, admit, 20.0, now, 10.0, resources, message=message).to_data()


class Incident:
    """The objects in a fake API server. `beat` keeps alive what lives."""

    silent: str | None = SILENT
    prometheus = True
    cpu = 91.0
    settings: ClassVar[Mapping[str, str]] = {"cluster-name": "north", "docs-url": "https://docs.example.com/scavenger"}

    def __init__(self, api: FakeApi, began: datetime) -> None:
        self.api = api
        self.began = began
        self.fill()
        self.beat(datetime.now(UTC))

    def fill(self) -> None:
        """Put all objects that do not change."""
        self._put_nodes()
        self._put_queues()
        self._put_waiting()
        self._put_departures()

    def levels(self, now: datetime) -> dict[str, str] | None:
        """data of the ConfigMap; None for no ConfigMap."""
        return levels(now, self.cpu, LevelsState.EVICTING, "evicting down to the lower level")

    def ago(self, **span: float) -> datetime:
        """A moment before it began."""
        return self.began - timedelta(**span)

    def beat(self, now: datetime) -> None:
        """What services write every few seconds: levels, and Leases of all but the one that is silent."""
        found = self.api.get(CONFIGMAPS, SYSTEM, names.LEVELS_CONFIGMAP)
        made = found or configmap_dict(names.LEVELS_CONFIGMAP, namespace=SYSTEM)
        if (data := self.levels(now)) is not None:
            self.api.put(CONFIGMAPS, {**made, "data": data})
        for name in (names.ADMITTER, names.REGULATOR, names.PRIORITIZER, names.SCHEDULER):
            renewed = self.ago(minutes=9) if name == self.silent else now
            spec = {"holderIdentity": f"{name}-0", "renewTime": format_micro_time(renewed)}
            self.api.put(
                LEASES, {"metadata": {"name": name, "namespace": SYSTEM, "uid": f"lease-{name}"}, "spec": spec}
            )

    def interrupted(
        self, name: str, at: datetime, cause: InterruptionReason, lost: float, detail: str = "", **status: Any
    ) -> Object:
        """A job that has left, with the admitter's Event about it."""
        pod = "" if cause in interruptions.WITHOUT_A_POD else f"{name}-0-abcde"
        sentence = interruptions.tell(cause, pod, detail, lost, at_most=False)
        conditions = admitted(WaitReason.ADMIT_FALSE, "the regulator admits no new jobs for now (admit is false)")
        conditions.append({"type": "Interrupted", "status": "True", "reason": cause.value})
        job = self.job(
            name,
            "Interrupted",
            conditions=conditions,
            interruptedCount=1,
            queuedTimestamp=format_micro_time(at),
            runningTimestamps=[format_time(at - timedelta(hours=2))],
            interruptedTimestamps=[format_time(at)],
            lostCPUSeconds=lost,
            **status,
        )
        about = {"kind": "ScavengerJob", "namespace": "lab", "name": name, "uid": job["metadata"]["uid"]}
        told = event(f"{name}.left", about, interruptions.EVENT_REASON, sentence, at + timedelta(seconds=2))
        self.api.put(EVENTS, told)
        return job

    def job(self, name: str, phase: str, *, queue: str = "lab", cpu: str = "4", **status: Any) -> Object:
        """A ScavengerJob of namespace `lab`, three hours old."""
        made = scavengerjob_dict(
            name,
            namespace="lab",
            uid=f"uid-{name}",
            queue=queue,
            cpu=cpu,
            memory="2Gi",
            phase=phase,
            status=status,
            created=format_time(self.ago(hours=3)),
        )
        return self.api.put(JOBS, made)

    def crowd(self, nodes: int, jobs: int) -> None:
        """So many more nodes and jobs; of the jobs every other one runs."""
        for number in range(nodes):
            self.api.put(NODES, node(f"more-{number:04}", number))
            use = f"{(number * 7919) % 16}"  # anything from idle to full
            pod = pod_dict(
                f"pod-{number}", namespace="web", node=f"more-{number:04}", cpu=use, phase="Running", priority=0
            )
            self.api.put(PODS, pod)
        held = admitted(WaitReason.ADMIT_FALSE, "the regulator admits no new jobs for now (admit is false)")
        for number in range(jobs):
            runs = number % 2 == 0
            began = {"runningTimestamps": [format_time(self.ago(minutes=30))]} if runs else {"conditions": held}
            self.job(f"many-{number:04}", "Running" if runs else "Waiting", cpu="1", **began)

    def _put_nodes(self) -> None:
        for number in range(1, 13):
            name = f"node-{number:02}"
            self.api.put(NODES, node(name, number, unschedulable=number == 12))
            ordinary = pod_dict(
                f"web-{number}", namespace="web", node=name, cpu="6", memory="16Gi", phase="Running", priority=0
            )
            self.api.put(PODS, ordinary)
            used = {"cpu": "15200m" if name == FULLEST else "9", "memory": "20Gi"}
            self.api.put(NODE_METRICS, {"metadata": {"name": name}, "timestamp": "", "window": "", "usage": used})
        for number, name in ((1, "trains"), (2, "renders"), (7, "simulates")):
            self.job(
                name,
                "Running",
                cpu="8",
                runningTimestamps=[format_time(self.ago(minutes=ago)) for ago in (150, 50)],
                interruptedTimestamps=[format_time(self.ago(minutes=70))],
                interruptedCount=1,
                lastCheckpointTimestamp=format_time(self.ago(minutes=4)) if number != 2 else None,
                preemption={"class": "preemptible", "runningPriority": 14400.0},
            )
            labels = {names.LABEL_JOB: name}
            run = pod_dict(f"{name}-0-fghij", namespace="lab", node=f"node-{number:02}", cpu="8", labels=labels)
            self.api.put(PODS, run | {"status": {"phase": "Running"}})
        self.api.put(PODS, pod_dict("checkout-6", namespace="web", cpu="8", phase="Pending"))

    def _put_queues(self) -> None:
        self.api.put(QUEUES, queue("lab", 1, "24", "12", running=3, waiting=1, interrupted=3))
        self.api.put(QUEUES, queue("guest", 2, "0", "24", waiting=1))

    def _put_waiting(self) -> None:
        message = "with it, the CPU load would be 93.0 %; new jobs start below 80.0 %"
        queued = format_micro_time(self.ago(minutes=40))
        conditions = admitted(WaitReason.ADMISSION_LEVEL, message)
        self.job("folds", "Waiting", conditions=conditions, queuedTimestamp=queued)
        held = admitted(WaitReason.ADMIT_FALSE, "the regulator admits no new jobs for now (admit is false)")
        self.job("guests-job", "Waiting", queue="guest", conditions=held, queuedTimestamp=queued)

    def _put_departures(self) -> None:
        at = self.ago(minutes=12)
        self.interrupted("docks", at, InterruptionReason.PREEMPTED, 5400.0)
        victim = {"kind": "Pod", "namespace": "lab", "name": "docks-0-abcde", "uid": "uid-of-a-pod"}
        namespace, _, name = PREEMPTOR.partition("/")
        whom = {"kind": "Pod", "namespace": namespace, "name": name, "uid": "uid-of-whom"}
        words = f"Freed capacity on node node-03 for pod {PREEMPTOR}: 5400 CPU-seconds of unsaved work in its job"
        self.api.put(EVENTS, event("docks.for", victim, interruptions.PREEMPTED_BY, words, at, whom))
        self.interrupted("aligns", self.ago(minutes=5), InterruptionReason.ABOVE_UPPER_LEVEL, 1800.0)
        self.interrupted("sorts", self.ago(minutes=95), InterruptionReason.NODE_LOST, 90000.0)
        about = {"kind": "ConfigMap", "namespace": SYSTEM, "name": names.LEVELS_CONFIGMAP, "uid": "levels"}
        self.api.put(EVENTS, event("evicting", about, "Evicting", "cpu 91 %; state Evicting", self.ago(minutes=6)))


def node(name: str, number: int, **fields: Any) -> Object:
    """A node of 16 cores in one of three zones and two pools."""
    made = node_dict(name, cpu="16", memory="64Gi", **fields)
    made["metadata"].setdefault("labels", {}).update(
        {ZONE_LABEL: f"north-{'abc'[number % 3]}", POOL_LABELS[0]: "batch" if number % 4 == 0 else "general"}
    )
    return made


class Filling(Incident):
    """Idle capacity is being filled, and nobody left in the last hour."""

    silent = None
    cpu = 58.0

    def fill(self) -> None:
        """Without departures."""
        self._put_nodes()
        self._put_queues()
        self._put_waiting()

    def levels(self, now: datetime) -> dict[str, str] | None:
        """Below the lower threshold."""
        return levels(now, self.cpu, LevelsState.FILLING, "")


class BothKinds(Filling):
    """An adopted Job has run two of its eight completions, and another waits."""

    settings: ClassVar[Mapping[str, str]] = {**Incident.settings, "adopt": "true"}

    def fill(self) -> None:
        """Beside ScavengerJobs."""
        super().fill()
        begun = (format_time(self.ago(minutes=90)), format_time(self.ago(minutes=20)))
        left = format_time(self.ago(minutes=35))
        ledger = Ledger(runs=begun, interrupted=2, interrupted_at=left, useful=21600, lost=900)
        self.batch_job("snakejob-assemble", "Running", ledger, completions=8, parallelism=2, succeeded=2, ready=2)
        self.batch_job("nightly-29415060", "Waiting", Ledger(why=WaitReason.QUEUE_SHARE, say="its queue has its share"))
        for task in (2, 3):
            labels = {names.LABEL_JOB: "snakejob-assemble", names.LABEL_TASK: str(task), names.LABEL_KIND: "Job"}
            run = pod_dict(f"snakejob-assemble-x000{task}", namespace="lab", node="node-04", cpu="2", labels=labels)
            self.api.put(PODS, run | {"status": {"phase": "Running"}})

    def batch_job(
        self, name: str, phase: str, ledger: Ledger, *, succeeded: int = 0, ready: int = 0, **spec: Any
    ) -> None:
        """A Job of namespace `lab` that the admitter has adopted, with its ledger."""
        created = format_time(self.ago(hours=2))
        made = adopted_job_dict(name, namespace="lab", queue="lab", cpu="2", created=created, uid=f"uid-{name}", **spec)
        noted = {"type": names.CONDITION_LEDGER, "status": "False", "reason": phase, "message": ledger.text}
        counts = {"succeeded": succeeded, "ready": ready, "active": ready}
        self.api.put(BATCH_JOBS, made | {"status": {**counts, "conditions": [noted | {"lastTransitionTime": created}]}})


class Pools(Incident):
    """The nodes without devices are full, and those with GPUs are idle."""

    def fill(self) -> None:
        """With four nodes of the other pool."""
        super().fill()
        for number in range(13, 17):
            made = node_dict(f"node-{number:02}", allocatable={"cpu": "16", "memory": "64Gi", "pods": "110", GPU: "4"})
            made["spec"]["taints"] = [{"key": GPU, "value": "present", "effect": "NoSchedule"}]
            self.api.put(NODES, made)

    def levels(self, now: datetime) -> dict[str, str] | None:
        """The default pool's, and those of the GPU pool."""
        idle = levels(now, 7.0, LevelsState.FILLING, "")
        return {**(super().levels(now) or {}), **{f"pool.{GPU_POOL}.{key}": text for key, text in idle.items()}}


class Empty(Incident):
    """A cluster on the day of the installation: no node, job or regulator, and no Prometheus."""

    prometheus = False

    def fill(self) -> None:
        """Nothing."""

    def levels(self, now: datetime) -> dict[str, str] | None:
        """Nobody publishes any."""
        return None


class Unmeasured(Incident):
    """No metrics API, no Prometheus, and a regulator that therefore knows no load."""

    prometheus = False

    def fill(self) -> None:
        """Without figures of nodes."""
        super().fill()
        for number in range(1, 13):
            self.api.remove(NODE_METRICS, None, f"node-{number:02}")

    def levels(self, now: datetime) -> dict[str, str] | None:
        """Blind."""
        return PublishedLevels(LevelsState.BLIND, period_seconds=10.0, message="no metrics API answers").to_data()


class Crowd(Incident):
    """Five thousand nodes."""

    def fill(self) -> None:
        """With two thousand jobs."""
        super().fill()
        self.crowd(5000, 2000)


def prometheus_answer(query: str, at: float) -> Sequence[Object]:
    """Series of an instant query: the load was lower then."""
    shares = {"cpu": PAST_LOAD, "memory": 0.3}
    levels = {"lower": 0.7, "admission": 0.8, "upper": 0.85}
    loads = [one(at, share, resource=resource) for resource, share in shares.items()]
    lines = [one(at, level, resource=name, level=word) for name in shares for word, level in levels.items()]
    found: dict[str, Sequence[Object]] = {
        LOAD: loads,
        LEVELS: lines,
        MOMENT["load"]: loads,
        MOMENT["levels"]: lines,
        REGULAR: [one(at, share, resource=name) for name, share in {"cpu": 0.45, "memory": 0.22}.items()],
        MOMENT["state"]: [one(at, 1, state="Filling")],
        MOMENT["admit"]: [one(at, 1)],
    }
    return found.get(query, ())


def one(at: float, value: float, **labels: str) -> Object:
    """A series of an instant query."""
    return {"metric": labels, "value": [at, str(value)]}


def prometheus_range(query: str, start: float, end: float, step: float, cpu: float) -> Sequence[Object]:
    """The same over a span: a slope of the load up to what it is now. cpu: percent of it."""
    times = [start + number * step for number in range(int((end - start) / step) + 1)]
    series = []
    if query == STATE:
        words = ["Filling" if at < end - 1200 else "Speculative" if at < end - 420 else "Evicting" for at in times]
        words = words if cpu > 70 else ["Filling"] * len(times)
        return [
            {
                "metric": {"state": word},
                "values": [[at, "1"] for at, one in zip(times, words, strict=True) if one == word],
            }
            for word in sorted(set(words))
        ]
    for then in prometheus_answer(query, end):
        last = float(then["value"][1])
        top = {"cpu": cpu / 100, "memory": 0.4}[then["metric"]["resource"]] if query == LOAD else last
        shares = [min(1.0, (at - start) / 3600) for at in times]
        values = [[at, f"{last + (top - last) * share:.4f}"] for at, share in zip(times, shares, strict=True)]
        series.append({"metric": then["metric"], "values": values})
    return series
