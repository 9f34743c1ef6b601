"""What is measured, and what has to be known beside it: last figures, terminations, CPU time, the source's history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from scavenger_api import names
from scavenger_domain.requests import on_reclaimed_capacity
from scavenger_kube.kinds import Pod
from scavenger_runtime.clock import Clock
from scavenger_runtime.informer import Change
from scavenger_runtime.logging import get_logger
from scavenger_runtime.usage import Sample, UsageMeter

from scavenger_regulator import metrics
from scavenger_regulator.core.history import Figures
from scavenger_regulator.core.snapshot import Figure, Gang, Measurement, RecentTermination, Snapshot
from scavenger_regulator.facts import ended_at
from scavenger_regulator.sources import Source, SourceError

ASK_HISTORY_EVERY: Final = timedelta(minutes=10)
REMEMBER_TERMINATIONS: Final = timedelta(minutes=15)

log = get_logger(__name__)


class Measurements:
    """Asks the source, and remembers what the next answers leave out.

    history: mean and deviation of the cluster's regular load as the source keeps them itself, by resource; None where
    it does not.
    """

    def __init__(self, source: Source, clock: Clock) -> None:
        self.history: dict[str, Figures] | None = None
        self._source = source
        self._clock = clock
        self._history_asked_at: datetime | None = None
        self._recent_terminations: list[RecentTermination] = []
        self._figures: dict[str, Mapping[str, Figure]] = {}
        self._meter = UsageMeter()

    async def measure(self) -> Measurement:
        """What the source says now; where it fails, a measurement that says why."""
        name = self._source.name
        try:
            measurement = await self._source.measure()
        except SourceError as error:
            metrics.MEASUREMENTS.labels(name, "failed").inc()
            return Measurement(failed=str(error))
        metrics.MEASUREMENTS.labels(name, "done").inc()
        return replace(measurement, source=name)

    async def ask_history(self) -> None:
        """From a source that keeps one itself, now and then; while it does not answer, the last answer holds."""
        now = self._clock.now()
        if self._history_asked_at is not None and now - self._history_asked_at < ASK_HISTORY_EVERY:
            return
        self._history_asked_at = now
        try:
            self.history = await self._source.history()
        except SourceError as error:
            log.warning("no history", source=self._source.name, error=str(error))

    def with_last_figures(self, measurement: Measurement, gangs: Iterable[Gang]) -> Measurement:
        """The measurement with figures of pods by their UIDs.

        A pod that is leaving may drop out of a metric before it is gone, and its use is still in the load: its last
        figures stay until they are too old, each until there is a newer one of the same metric.
        """
        if measurement.failed:
            return measurement
        pods = [pod for gang in gangs for pod in gang.pods]
        found = measurement.by_life(pods, self._clock.now())
        leaving = [pod.uid for pod in pods if pod.deletion_deadline is not None]
        last = {uid: {**before, **found.pods.get(uid, {})} for uid in leaving if (before := self._figures.get(uid))}
        self._figures = {**found.pods, **last}
        return replace(found, pods=dict(self._figures))

    # --- terminations -------------------------------------------------------------------------------------

    def on_pod(self, change: Change[Pod]) -> None:
        """Note the termination of a scavenger pod: deleted, or ended."""
        old, new = change.old, change.new
        if old is None or old.ended or not (new is None or new.ended) or not old.spec.node_name:
            return
        figures = self._figures.pop(old.metadata.uid, None)
        if figures and names.LABEL_JOB in old.metadata.labels:
            use = {resource: figure.value for resource, figure in figures.items()}
            at = ended_at(new or old) or self._clock.now()
            self._recent_terminations.append(RecentTermination(old.spec.node_name, use, at, on_reclaimed_capacity(old)))

    def recent_terminations(self, now: datetime) -> tuple[RecentTermination, ...]:
        """Those that the figures may still contain; older ones are forgotten."""
        self._recent_terminations = [t for t in self._recent_terminations if now - t.at <= REMEMBER_TERMINATIONS]
        return tuple(self._recent_terminations)

    def forget_terminations(self) -> None:
        """Those before this process leads: only what is measured from then on counts."""
        self._recent_terminations.clear()

    # --- CPU time -----------------------------------------------------------------------------------------

    def add_cpu_time(self, snapshot: Snapshot) -> None:
        """Add up what pods on reclaimed capacity use."""
        pods = [pod for gang in snapshot.gangs for pod in gang.pods if pod.reclaimed]
        for pod in pods:
            figure = snapshot.measurement.of(pod).get("cpu")
            if figure is not None:
                self._meter.observe(Sample(pod.uid, figure.value, figure.at.timestamp(), figure.window))
        self._meter.keep({pod.uid for pod in pods})

    def cpu_time(self, uid: str, since: datetime, until: datetime) -> float | None:
        """As `core.snapshot.CpuTime`."""
        return self._meter.cpu_seconds(uid, since.timestamp(), until.timestamp())
