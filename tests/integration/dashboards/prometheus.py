"""A Prometheus that scrapes running services, out of Debian's package and without installing it."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from scavenger_cluster import Cluster
from scavenger_cluster.control_plane import SCHEDULER
from scavenger_testing.prometheus import command
from scavenger_testing.waiting import TIMEOUT, TRY_AGAIN, wait

RANGE: Final = "30m"
"""What Grafana puts in the place of `$__range`, and here of `$__rate_interval` as well: longer than any scenario, so
that all of it is seen however long it takes to ask."""

Sample = tuple[dict[str, str], float]


def filled(expression: str, variables: Mapping[str, str]) -> str:
    """An expression with the variables of a dashboard filled in."""
    text = expression.replace("$__rate_interval", RANGE).replace("$__range", RANGE)
    for variable, value in {"cluster": "", "namespace": ".*", **variables}.items():
        text = text.replace(f"${variable}", value)
    return text


def name(legend: str, labels: Mapping[str, str]) -> str:
    """What Grafana writes beside a series; without a legend, the values of its labels."""
    if legend == "__auto":
        return ", ".join(labels[key] for key in sorted(labels))
    return re.sub(r"{{(\w+)}}", lambda match: labels[match[1]], legend)


class Prometheus:
    """What the HTTP API at `url` answers."""

    def __init__(self, url: str) -> None:
        self.url = url

    def query(self, expression: str, **variables: str) -> list[Sample]:
        """The series of an instant query, with the variables of a dashboard filled in."""
        answer = self._get("query", query=filled(expression, variables))
        return [(series["metric"], float(series["value"][1])) for series in answer["result"]]

    def label_values(self, query: str) -> list[str]:
        """As Grafana answers `label_values(metric, label)`."""
        metric, label = re.findall(r"label_values\((\w+), (\w+)\)", query)[0]
        found: list[str] = self._get(f"label/{label}/values", **{"match[]": metric})
        return found

    def ready(self, targets: int) -> bool:
        """Whether it answers queries (503 while it still reads its own data), and so many targets have been scraped."""
        urllib.request.urlopen(f"{self.url}/-/ready", timeout=TIMEOUT).close()
        return sum(value for _, value in self.query("up")) == targets

    def has_scraped_since(self, moment: float) -> bool:
        """Whether every target has answered a scrape that began after that moment, in seconds since 1970."""
        targets = self.query("up")
        answered = self.query("timestamp(up) and up == 1")
        return len(answered) == len(targets) and all(at > moment for _, at in answered)

    def _get(self, path: str, **words: str) -> Any:
        """What it answers; OSError when it cannot now, so that whoever waits asks again."""
        body = urllib.parse.urlencode(words)
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{body}", timeout=TIMEOUT) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            if error.code in TRY_AGAIN:
                raise
            raise AssertionError(f"{words}: {error.read().decode()}") from error


def configuration(cluster: Cluster, services: tuple[str, ...], exporter: str) -> dict[str, Any]:
    """Scrapes every second; `job` is what a ServiceMonitor of the charts makes of it. exporter: kube-state-metrics."""
    jobs: list[dict[str, Any]] = [
        {
            "job_name": f"scavenger-{name}",
            "static_configs": [{"targets": [cluster.service(name).url.removeprefix("http://")]}],
        }
        for name in services
    ]
    pki = cluster.layout.pki
    tls = {"cert_file": str(pki / "admin.crt"), "key_file": str(pki / "admin.key"), "insecure_skip_verify": True}
    target = f"127.0.0.1:{cluster.state.ports[SCHEDULER]}"
    scheduler = {"scheme": "https", "tls_config": tls, "static_configs": [{"targets": [target]}]}
    jobs.append({"job_name": "scavenger-scheduler", **scheduler})
    jobs.append({"job_name": "kube-state-metrics", "static_configs": [{"targets": [exporter]}]})
    return {"global": {"scrape_interval": "1s"}, "scrape_configs": jobs}


@contextlib.contextmanager
def running(
    program: Path, cluster: Cluster, services: tuple[str, ...], exporter: str, folder: Path
) -> Iterator[Prometheus]:
    """A Prometheus that has scraped all services, the scheduler and kube-state-metrics once."""
    words, url = command(program, configuration(cluster, services, exporter), folder)
    with scraping(words, url, folder, len(services) + 2) as made:
        yield made


@contextlib.contextmanager
def scraping(words: list[str], url: str, folder: Path, targets: int) -> Iterator[Prometheus]:
    """The Prometheus of that command, once it has scraped so many targets."""
    with (folder / "prometheus.log").open("w") as log, subprocess.Popen(words, stdout=log, stderr=log) as process:
        made = Prometheus(url)
        try:
            wait("all targets scraped", lambda: made.ready(targets), TIMEOUT, (folder / "prometheus.log").read_text)
            yield made
        finally:
            process.terminate()
