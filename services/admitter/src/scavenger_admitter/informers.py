"""The informers of the admitter, and what is looked up in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from scavenger_api import names
from scavenger_api.job import Capacity, Phase, ScavengerJob
from scavenger_api.levels import LevelsView
from scavenger_api.queue import ScavengerQueue
from scavenger_api.times import format_time
from scavenger_domain.node_affinity import LABEL_ARCHITECTURE, required_terms, selects_node
from scavenger_domain.pod_ends import held
from scavenger_domain.pod_security import Level, default_user, gets_token
from scavenger_domain.soundness import CHECKS
from scavenger_kube.client import ApiClient
from scavenger_kube.kinds import Event, Job, Node, ObjectMeta, ObjectReference, Pod
from scavenger_kube.resources import EVENTS, JOBS, NAMESPACES, NODES, PODS, scavenger_queues
from scavenger_runtime.cache import Change, by_node
from scavenger_runtime.clock import Clock
from scavenger_runtime.informer import Informer
from scavenger_runtime.kept_parts import short_event
from scavenger_runtime.kept_pods import without_details
from scavenger_runtime.service import ServiceContext
from scavenger_runtime.shared_settings import FollowedSettings, configmap_informer

from scavenger_admitter import metrics
from scavenger_admitter.core.lifecycle import limits
from scavenger_admitter.core.lifecycle.pods_seen import PodsSeen, Untouched, with_words
from scavenger_admitter.core.lifecycle.start_failures import Diagnosis, diagnose
from scavenger_admitter.facts import job_key, namespace_level, run_of
from scavenger_admitter.job_record import JobRecords
from scavenger_admitter.jobs_followed import batch_job, followed_jobs
from scavenger_admitter.last_words import LastWordsSeen
from scavenger_admitter.ordinary_waits import OrdinaryWaits
from scavenger_admitter.settings import AdmitterSettings

SCAVENGERQUEUES: Final = scavenger_queues(ScavengerQueue)


class Informers:
    """What the API server shows.

    Args:
        context: of the service; all informers run from now on.
        records: what this process knows of jobs beyond that.
    """

    def __init__(self, context: ServiceContext[AdmitterSettings], records: JobRecords) -> None:
        client, clock, add = context.client, context.clock, context.add_informer
        self._clock = clock
        self._records = records
        self._namespace = context.settings.namespace
        self._patience = timedelta(seconds=context.settings.start_timeout)
        self.jobs = followed_jobs(client, clock, records.written, adopt=context.settings.adopt)
        for followed in self.jobs.informers:
            add(followed)
        self.queues = add(Informer(client, SCAVENGERQUEUES, clock=clock))
        self.namespaces = add(Informer(client, NAMESPACES, clock=clock))
        self.batch = add(Informer(client, JOBS, clock=clock))
        self.pods = add(pod_informer(client, clock))
        self.nodes = add(Informer(client, NODES, clock=clock))
        self.reboots: dict[str, datetime] = {}
        """When nodes have rebooted last, as this process has seen or its predecessor has kept: no later than that, by
        the clock of the node."""
        self.arrays = PodsSeen(self._says_something)
        self.pods.add_handler(self._on_pod)
        self.nodes.add_handler(self._on_node)
        self.waits = OrdinaryWaits()
        # Only Events say why a start fails: the admitter follows those of three reasons, so that it need not search all
        # of them. A Secret that is missing is told apart without a right to read Secrets.
        self.failures = [
            add(
                Informer(
                    client,
                    EVENTS,
                    clock=clock,
                    name=name,
                    field_selector=fields,
                    indices={"about": _about},
                    transform=short_event,
                )
            )
            for name, fields in (
                ("failed-mounts", "involvedObject.kind=Pod,reason=FailedMount"),
                ("failed-attaches", "involvedObject.kind=Pod,reason=FailedAttachVolume"),
                ("failed-sandboxes", "involvedObject.kind=Pod,reason=FailedCreatePodSandBox"),
            )
        ]
        for informer in self.failures:
            informer.add_handler(self._on_failure)
        self.words = LastWordsSeen(client, self._namespace, clock)
        for said in self.words.informers:
            add(said)
        self.levels = add(configmap_informer(client, self._namespace, names.LEVELS_CONFIGMAP, clock))
        self.shared = FollowedSettings(client, context.settings, clock)
        """What all components read alike."""
        add(self.shared.informer)

    def _on_pod(self, change: Change[Pod]) -> None:
        self.arrays.apply(change.old, change.new)

    def _on_node(self, change: Change[Node]) -> None:
        self.arrays.apply_node(change.key, change.new, self.pods.by_index("node", change.key))

    def _on_failure(self, change: Change[Event]) -> None:
        about = change.obj.involved_object
        pod = self.pods.get(f"{about.namespace}/{about.name}") if about.kind == "Pod" else None
        if pod is not None and pod.metadata.uid == about.uid:
            self.arrays.apply(pod, pod)

    def _says_something(self, pod: Pod) -> bool:
        """Whether an Event says something of the start of a pod."""
        about = _identity("Pod", pod.metadata)
        return any(shown.by_index("about", about) for shown in self.failures)

    def job(self, key: str) -> ScavengerJob | None:
        """The newest known version of a job; a newcomer has its place in the queue already."""
        return self._records.newest(key, self.jobs.get(key))

    def batch_of(self, job: ScavengerJob) -> Job | None:
        """The batch/v1 Job of the name of a job, which is the job itself where it is adopted."""
        return batch_job(job) or self.batch.get(job.metadata.key)

    def level(self, namespace: str) -> Level:
        """What pods of scavenger jobs in the namespace keep to."""
        return namespace_level(self.namespaces.get(namespace))

    def gets_token(self, job: ScavengerJob) -> bool:
        """Whether the namespace of the job lets its pods have the token of their service account."""
        found = self.namespaces.get(job.metadata.namespace)
        return found is not None and gets_token(found.metadata.annotations, job.spec.account)

    def user(self, namespace: str) -> int | None:
        """The user id that pods of scavenger jobs in the namespace get which name none."""
        found = self.namespaces.get(namespace)
        return default_user(found.metadata.annotations) if found is not None else None

    def architectures(self, job: ScavengerJob) -> frozenset[str]:
        """The architectures of the nodes that a job may run on."""
        wanted, terms = job.spec.selected_nodes.items(), required_terms(job.spec.affinity)
        labels = (
            node.metadata.labels
            for node in self.nodes.items()
            if wanted <= node.metadata.labels.items() and selects_node(terms, node.metadata.name, node.metadata.labels)
        )
        return frozenset(found[LABEL_ARCHITECTURE] for found in labels if LABEL_ARCHITECTURE in found)

    def queue_label(self, job: ScavengerJob) -> str:
        """The label of its queue in metrics."""
        queue = job.spec.queue
        return metrics.queue_label(queue, () if self.queues.get(queue) is None else (queue,))

    def look(self, job: ScavengerJob, told: Iterable[str]) -> tuple[Sequence[Pod], Untouched | None]:
        """The pods of a job that a look reads one by one, those with last words included, and of an array the others.
        told: UIDs of pods that are to stop."""
        pods, untouched = self._look(job, told)
        said = self.said(job.key)
        if not said:
            return pods, untouched
        return with_words(pods, said), untouched.without(said) if untouched is not None else None

    def said(self, key: str) -> list[Pod]:
        """The pods of a ScavengerJob whose finalizer others took off, as their last words show them: they have gone, or
        another client's finalizer holds them. key: its `namespace/name`."""
        return [pod for pod in self.words.of(key) if not self._holds(pod)]

    def _holds(self, pod: Pod) -> bool:
        shown = self.pods.get(pod.metadata.key)
        return shown is not None and shown.metadata.uid == pod.metadata.uid and held(shown)

    def _look(self, job: ScavengerJob, told: Iterable[str]) -> tuple[Sequence[Pod], Untouched | None]:
        status, key = job.status, job.key
        stands = status.phase is Phase.SUSPENDED or (status.phase is not None and status.phase.finished)
        if job.spec.array is None or job.spec.suspend or stands or job.metadata.deletion_timestamp is not None:
            return self.pods.by_index("job", key), None
        if CHECKS.on:
            shown = self.pods.by_index("job", key)
            self.arrays.assert_sound(key, shown, self.nodes_of(shown))
        batch = self.batch_of(job)
        uid, late = batch.metadata.uid if batch is not None else "", format_time(self._clock.now() - self._patience)
        allowed = limits.without_progress(job.spec)
        silent = (self._clock.now() - allowed, self._clock.now()) if allowed is not None else None
        return self.arrays.view(key, run_of(job), uid, told, late, silent)

    def named_pods(self, key: str, pods: Iterable[str]) -> list[Pod]:
        """The pods of a ScavengerJob with these names, as far as they are shown. key: its `namespace/name`."""
        namespace = key.partition("/")[0]
        found = (self.pods.get(f"{namespace}/{name}") for name in pods)
        return [pod for pod in found if pod is not None and job_key(pod) == (key,)]

    def members(self, job: ScavengerJob) -> list[Pod]:
        """The pods of the run in progress; those of an earlier one may still be there."""
        run, pods = run_of(job), self.pods.by_index("job", job.key)
        return [pod for pod in pods if pod.metadata.annotations.get(names.ANNOTATION_RUN) == run]

    def running_on_reclaimed(self) -> Iterator[tuple[ScavengerJob, list[Pod]]]:
        """The jobs on reclaimed capacity that are known to run, with their pods."""
        for shown in self.jobs.items():
            job = self.job(shown.key) if shown.spec.capacity is Capacity.RECLAIMED else None
            if job is not None and job.status.phase is Phase.RUNNING:
                yield job, self.members(job)

    def any_runs(self) -> bool:
        """Whether a job is known to run."""
        return any(job.status.phase is Phase.RUNNING for job in self.jobs.items())

    def runs(self, pod: Pod) -> ScavengerJob | None:
        """The job that a pod is of, where that is known to run."""
        key = next(iter(job_key(pod)), "")
        job = self.job(key) if key else None
        return job if job is not None and job.status.phase is Phase.RUNNING else None

    def node_of(self, name: str) -> str:
        """The node of a scavenger pod, by `namespace/name`; empty for other pods, and before it has one."""
        pod = self.pods.get(name)
        return pod.spec.node_name if pod is not None and job_key(pod) else ""

    def is_held(self, name: str, uid: str) -> bool:
        """Whether a pod (`namespace/name`) is shown with our finalizer: its ending is still to be recorded."""
        shown = self.pods.get(name)
        return shown is not None and shown.metadata.uid == uid and names.FINALIZER in shown.metadata.finalizers

    def nodes_of(self, pods: Iterable[Pod]) -> dict[str, Node | None]:
        """The nodes that pods are on, by name; None for one that is not shown."""
        return {pod.spec.node_name: self.nodes.get(pod.spec.node_name) for pod in pods if pod.spec.node_name}

    def diagnosis(self, pods: Iterable[Pod]) -> Diagnosis:
        """What the Events on pods say of a start."""
        subjects = [_identity("Pod", pod.metadata) for pod in pods]
        return diagnose(event for shown in self.failures for one in subjects for event in shown.by_index("about", one))

    def jobs_with_held_pods(self) -> set[str]:
        """The jobs, existing or not, whose pods carry our finalizer."""
        held = {key for pod in self.pods.items() if names.FINALIZER in pod.metadata.finalizers for key in job_key(pod)}
        return held | self.words.jobs

    def levels_view(self) -> LevelsView:
        """What the regulator publishes at this moment."""
        published = self.levels.get(f"{self._namespace}/{names.LEVELS_CONFIGMAP}")
        return LevelsView.of(published.data if published else None, self._clock.now())


def pod_informer(client: ApiClient, clock: Clock) -> Informer[Pod]:
    """All pods; scavenger pods by `namespace/name` of their job, and by node."""
    return Informer(
        client, PODS, clock=clock, indices={"job": job_key, "node": _node_of_ours}, transform=without_details
    )


def _node_of_ours(pod: Pod) -> Iterable[str]:
    """The node of a scavenger pod."""
    return by_node(pod) if job_key(pod) else ()


def _about(event: Event) -> tuple[str, ...]:
    """The object that an Event is about; none where that lies in another namespace than the Event.

    A uid alone is no proof: an account that may write Events in one namespace can name the uid of an object of another.
    """
    about = event.involved_object
    return (_identity(about.kind, about),) if about.namespace == event.metadata.namespace else ()


def _identity(kind: str, of: ObjectMeta | ObjectReference) -> str:
    return f"{kind}/{of.namespace}/{of.name}/{of.uid}"
