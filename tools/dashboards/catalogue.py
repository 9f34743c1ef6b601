"""Every metric that a service of this repository shows, read from the code: name, type, labels and words."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Final

import scavenger_runtime
import yaml
from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.metrics import MetricWrapperBase

ROOT: Final = Path(__file__).resolve().parents[2]
RUNTIME: Final = "runtime"
SERVICES: Final = ("admitter", "regulator", "prioritizer", "webhook")
SCHEDULER: Final = "scheduler"
STATE_METRICS: Final = "kube-state-metrics"
STATE_METRICS_SOURCE: Final = ROOT / "charts" / "scavenger-base" / "files" / "state-metrics" / "scavenger.yaml"
SCHEDULER_SOURCE: Final = ROOT / "services" / "scheduler" / "pkg" / "preemption" / "metrics.go"

BOUNDS: Final = {
    "cause": "reasons of interruptions (docs/reasons.md)",
    "class": "`preemptible`, `non-preemptible`; of the scheduler's victims also `ordinary`",
    "code": "HTTP status, or the kind of failure of a connection",
    "component": "the service",
    "informer": "the lists a service follows",
    "job_name": "ScavengerJobs, only where kube-state-metrics is told to show them",
    "job_namespace": "namespaces with ScavengerJobs, only where kube-state-metrics is told to show them",
    "key": "keys of the ConfigMap `scavenger-settings`",
    "kind": "the kinds of write of the prioritizer",
    "lease": "the Lease of a service",
    "level": "`lower`, `admission`, `upper`",
    "loop": "the reconcile loops of a service",
    "method": "HTTP methods",
    "outcome": "a fixed list in the code",
    "phase": "phases of a job",
    "queue": "ScavengerQueues; `(unknown)` for jobs whose queue does not exist",
    "stage": "`admission` or `runtime`",
    "reason": "a fixed list in the code, or reasons of the API server",
    "receiver": "ScavengerQueues",
    "resource": "`cpu`, `memory`, and what else nodes offer; of the webhook the kinds it reviews",
    "result": "a fixed list in the code",
    "pool": "`default`, and at most 16 names of other pools of nodes; empty for a node",
    "scope": "`cluster`; with `--per-node` also the names of nodes, as long as they exist",
    "source": "where figures come from: a fixed list in the code",
    "state": "states of the regulator",
    "step": "steps of a rotation of certificates",
    "unit": "`core`, `byte`, `integer`, as of kube-state-metrics",
    "urgency": "a fixed list in the code",
    "version": "the version of the service",
    "start": "`First` or `Restart`",
}
"""By label: what bounds its values. A label that is not here is refused, as is one of a target (TARGET_LABELS)."""

TARGET_LABELS: Final = frozenset(
    {"job", "instance", "namespace", "pod", "service", "container", "endpoint", "node", "cluster"}
)
"""What Prometheus and its operator put on whatever they scrape, and `cluster`, by which several clusters are told
apart; a metric's own label of that name would be renamed."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric. name: as it is queried, of a histogram without `_bucket`. shown_by: a service, `runtime` for all of
    those written in Python, or kube-state-metrics."""

    name: str
    type: str
    labels: tuple[str, ...]
    help: str
    shown_by: str

    def series(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """The names that can be queried, each with its labels."""
        if self.type != "histogram":
            yield self.name, self.labels
            return
        yield f"{self.name}_bucket", (*self.labels, "le")
        yield f"{self.name}_sum", self.labels
        yield f"{self.name}_count", self.labels


FOREIGN: Final = (
    Metric("process_resident_memory_bytes", "gauge", (), "Memory of a process.", "prometheus_client"),
    Metric("up", "gauge", (), "1 for a target that answers.", "Prometheus"),
)
"""What dashboards and alerts use that no service of ours has made."""


def catalogue() -> list[Metric]:
    """All metrics of our own, by who shows them and by name."""
    found = list(_of_package(scavenger_runtime, RUNTIME))
    for service in SERVICES:
        found += _of_module(import_module(f"scavenger_{service}.metrics"), service)
    found += _of_go(SCHEDULER_SOURCE.read_text())
    found += _of_state_metrics(STATE_METRICS_SOURCE.read_text())
    return found


def problems(metrics: list[Metric]) -> list[str]:
    """What breaks the conventions of Prometheus (prometheus.io/docs/practices/naming), in words."""
    return [f"{metric.name}: {wrong}" for metric in metrics for wrong in _problems(metric)]


def _problems(metric: Metric) -> Iterator[str]:
    if not re.fullmatch(r"scavenger(_[a-z0-9]+)+", metric.name):
        yield "not scavenger_ and words in lower case"
    if (metric.type == "counter") != metric.name.endswith("_total"):
        yield "counters, and nothing else, end in _total"
    if metric.name.endswith(("_bucket", "_sum", "_count", "_info_total")):
        yield "ends as a part of a histogram does"
    if metric.type == "histogram" and not metric.name.endswith("_seconds"):
        yield "a histogram has a unit"
    odd = r"_(percent|percentage|points|milli\w*|ms|minutes|hours|kib|mib|gib|celsius_)(_|$)"
    if re.search(odd, metric.name):
        yield "units are seconds, bytes and ratios"
    if not metric.help.endswith("."):
        yield "its words are no sentence"
    for label in metric.labels:
        if label in TARGET_LABELS:
            yield f"label {label} belongs to the target"
        elif label not in BOUNDS:
            yield f"nothing in BOUNDS says what bounds label {label}"


def _of_package(package: ModuleType, shown_by: str) -> Iterator[Metric]:
    for module in pkgutil.iter_modules(package.__path__):
        yield from _of_module(import_module(f"{package.__name__}.{module.name}"), shown_by)


def _of_module(module: ModuleType, shown_by: str) -> list[Metric]:
    found = {_read(made, shown_by) for made in vars(module).values() if isinstance(made, MetricWrapperBase)}
    return sorted(found, key=lambda metric: metric.name)


def _read(made: MetricWrapperBase, shown_by: str) -> Metric:
    (about,) = made.describe()
    types = {Counter: "counter", Gauge: "gauge", Histogram: "histogram"}
    name = f"{about.name}_total" if isinstance(made, Counter) else about.name
    return Metric(name, types[type(made)], tuple(made._labelnames), about.documentation, shown_by)


_GO_METRIC: Final = re.compile(
    r"New(Counter|Gauge|Histogram)(?:Vec)?\(&metrics\.\w+Opts\{(.*?)\n\t\}(?:, \[\]string\{(.*?)\})?\)", re.DOTALL
)


def _of_go(source: str) -> list[Metric]:
    """The metrics of the scheduler's plugin, from its source."""
    subsystem = re.findall(r'const subsystem = "(\w+)"', source)[0]
    found = []
    for kind, options, labels in _GO_METRIC.findall(source):
        name = re.findall(r'Name:\s+"(\w+)"', options)[0]
        words = re.findall(r'"([^"]*)"', re.findall(r"Help:(.*?),\n", options, re.DOTALL)[0])
        names = tuple(re.findall(r'"(\w+)"', labels))
        found.append(Metric(f"{subsystem}_{name}", kind.lower(), names, "".join(words), SCHEDULER))
    return sorted(found, key=lambda metric: metric.name)


def _of_state_metrics(source: str) -> Iterator[Metric]:
    """The metrics of a CustomResourceStateMetrics configuration, from its text."""
    for resource in yaml.safe_load(source)["spec"]["resources"]:
        for made in resource["metrics"]:
            state = made["each"].get("stateSet", {}).get("labelName")
            labels = (*resource["labelsFromPath"], *([state] if state else []))
            name = f"{resource['metricNamePrefix']}_{made['name']}"
            yield Metric(name, "gauge", labels, made["help"], STATE_METRICS)
