"""How the demo gets the services onto its cluster, and off it again: by helm, as anybody would.

On nodes that run no containers the services are processes of this machine instead; the story is the same.
"""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Final, Protocol

from demo_stage import NAMESPACES, SHOP, DemoError, Stage, say
from scavenger_api.names import SYSTEM_NAMESPACE
from scavenger_cluster import Cluster, stack
from scavenger_cluster.ports import any_free_port

FIRST: Final = ("crds", "base")
SERVICES: Final = ("admitter", "prioritizer", "webhook", "board", "regulator")
"""Each works without the others. The regulator comes when the others are up: it learns from what it sees."""
REGULATOR: Final = "regulator"
SCHEDULER: Final = "scheduler"
OWN_SCHEDULER: Final = "scavenger-scheduler"
"""As pods name the one of that chart."""
WAIT: Final = ("--wait", "--timeout=240s")
SMALL: Final = ("--set=replicas=1", "--set=resources.requests.cpu=10m", "--set=resources.requests.memory=64Mi")
"""One replica of each, which asks for little: the node of the demo has one core."""
SETTINGS: Final[Mapping[str, str]] = {
    # Faster than in earnest. New figures come every ten seconds at best, and levels are stale after three periods.
    "period": "5s",
    "maxAge": "60s",
    "historyWindow": "10m",
    "historyMinSamples": "3",
    "levelStep": "3",
    "cooldown": "5s",
    # While pods come and go, no measurement is exact; one in a quiet moment is enough here.
    "reclaimedMinSamples": "1",
    "reclaimedStep": "30",
    # Of so few measurements the 95th percentile is the largest, of when everything was started.
    "reclaimedPercentile": "60",
}
"""Of the regulator: it measures every few seconds, and has learnt after a minute what takes half an hour."""
ADMITTER: Final[Mapping[str, str]] = {
    # Of requests, before there is a regulator. Many are for nothing here.
    "fallbackAdmissionPercent": "95",
    "explainAfter": "2s",
}
"""Of the admitter: up to where jobs start at first, and how soon it says why one does not."""


DEFINITIONS: Final = ("scavengerjobs.scavenger.dev", "scavengerqueues.scavenger.dev")


class Services(Protocol):
    """The services on a cluster."""

    def install(self, stage: Stage) -> None:
        """Have all run but the regulator. DemoError says what did not come up, and what its pods say."""

    def measure(self, stage: Stage) -> None:
        """Have the regulator run, too."""

    def board(self, stage: Stage) -> AbstractContextManager[str]:
        """The address of the board's page, for as long as the context lasts."""

    def uninstall(self, stage: Stage) -> None:
        """Leave nothing of them."""


class Charts:
    """By helm. registry: of the images. pull: their policy."""

    def __init__(self, registry: str, pull: str = "IfNotPresent") -> None:
        self._images = (f"--set=global.image.registry={registry}", f"--set=image.pullPolicy={pull}")

    def install(self, stage: Stage) -> None:
        """One after the other what all need, then all others at once."""
        stage.shell("kubectl", "create", "namespace", SYSTEM_NAMESPACE)
        for chart in FIRST:
            self._install(stage, chart)
        charts = [chart for chart in (*SERVICES, *([SCHEDULER] if stage.scheduler else [])) if chart != REGULATOR]
        with ThreadPoolExecutor(len(charts)) as pool:
            for done in [pool.submit(self._install, stage, chart) for chart in charts]:
                done.result()
        say(f"installed: {', '.join((*FIRST, *charts))}; their pods are ready", "green")

    def measure(self, stage: Stage) -> None:
        """By its chart."""
        self._install(stage, REGULATOR)

    def _install(self, stage: Stage, chart: str) -> None:
        name = f"scavenger-{chart}"
        words = ["helm", "upgrade", "--install", name, f"charts/{name}", f"--namespace={SYSTEM_NAMESPACE}", *WAIT]
        words += self._options(stage, chart)
        try:
            stage.run(*words, shown=f"helm upgrade --install {name} charts/{name} -n {SYSTEM_NAMESPACE} --wait …")
        except DemoError as error:
            raise DemoError(f"{error}\n{troubles(stage)}") from None

    def _options(self, stage: Stage, chart: str) -> list[str]:
        if chart in FIRST:
            return []
        settings = settings_of(chart, stage)
        reclaimed = ["--set=reclaimed.enabled=true"] if chart == REGULATOR and stage.measured else []
        return [
            *self._images,
            *SMALL,
            *reclaimed,
            *(f"--set=settings.{key}={value}" for key, value in settings.items()),
        ]

    @contextmanager
    def board(self, stage: Stage) -> Iterator[str]:
        """By `kubectl sj board`, which forwards a port to its pod."""
        words = ("kubectl", "sj", "board", "--port=0")
        say(f"$ {' '.join(words)}", "bold")
        with subprocess.Popen(words, env=dict(stage.environment), stdout=subprocess.PIPE, text=True) as forwarding:
            try:
                assert forwarding.stdout is not None
                found = re.match(r"The board: (\S+)", forwarding.stdout.readline())
                if found is None:
                    raise DemoError(f"kubectl sj board ended with {forwarding.wait()}")
                yield found[1]
            finally:
                forwarding.send_signal(signal.SIGINT)

    def uninstall(self, stage: Stage) -> None:
        """In the opposite order; then the definitions, and with them all jobs, and the namespaces."""
        stage.run("kubectl", "delete", "namespace", SHOP, "--ignore-not-found", "--wait=false")
        for chart in (SCHEDULER, *reversed(SERVICES), *reversed(FIRST)):
            name = f"scavenger-{chart}"
            words = ("helm", "uninstall", name, f"--namespace={SYSTEM_NAMESPACE}", "--wait", "--ignore-not-found")
            stage.run(*words, shown=f"helm uninstall {name} -n {SYSTEM_NAMESPACE} --wait")
        stage.shell("kubectl", "delete", "crd", *DEFINITIONS, "--ignore-not-found")
        stage.shell("kubectl", "delete", "namespace", SYSTEM_NAMESPACE, *NAMESPACES, "--ignore-not-found")


class Processes:
    """As processes of this machine, on the embedded cluster: its fake nodes run no pod."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._port = any_free_port()

    def install(self, stage: Stage) -> None:
        """Definitions, roles and the rest of the manifests, then the processes."""
        stack.install(self._cluster)
        stack.start(self._cluster, ["admitter"], environment_of("admitter", stage))
        stack.start(self._cluster, ["prioritizer", "webhook"])
        stack.start(self._cluster, ["board"], {"SCAVENGER_PORT": str(self._port)})
        say("admitter, prioritizer, webhook and board run as processes, each with the rights of its chart", "green")

    def measure(self, stage: Stage) -> None:
        """As a process as well."""
        stack.start(self._cluster, [REGULATOR], environment_of(REGULATOR, stage))

    @contextmanager
    def board(self, stage: Stage) -> Iterator[str]:
        """Its page, on this machine."""
        yield f"http://localhost:{self._port}/"

    def uninstall(self, stage: Stage) -> None:
        """They go with the cluster."""


def settings_of(service: str, stage: Stage) -> Mapping[str, str]:
    """By the names of its chart."""
    if service == "admitter":
        return {**ADMITTER, "snapshotImage": stage.snap} if stage.snap else ADMITTER
    if service != REGULATOR:
        return {}
    return SETTINGS if stage.measured else {**SETTINGS, "source": "requests"}


def environment_of(service: str, stage: Stage) -> dict[str, str]:
    """The same by the names of its environment."""
    return {f"SCAVENGER_{snake(name)}": value for name, value in settings_of(service, stage).items()}


def snake(name: str) -> str:
    """`maxAge` as its environment variable ends: `MAX_AGE`."""
    return re.sub(r"(?=[A-Z])", "_", name).upper()


def troubles(stage: Stage) -> str:
    """What the pods of the services say that are not ready, as `ImagePullBackOff` and why."""
    lines = []
    for pod in stage.pods(SYSTEM_NAMESPACE):
        for container in (pod.get("status") or {}).get("containerStatuses", ()):
            state = (container.get("state") or {}).get("waiting") or (container.get("state") or {}).get("terminated")
            if state:
                lines.append(f"  {pod['metadata']['name']}: {state.get('reason')}: {state.get('message', '')}")
    return "\n".join(lines)
