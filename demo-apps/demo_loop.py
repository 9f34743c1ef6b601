"""The third story: the closed loop, watched in a small table.

Six jobs that burn CPU fill a node of one core; an ordinary pod begins to burn; the load passes the upper level and
exactly enough of them leave. What the table shows is what the regulator publishes and what the pods carry.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from demo_stage import Stage, console, say, until
from rich.live import Live
from rich.table import Table
from scavenger_api.names import LABEL_PREEMPTION_CLASS, LEVELS_CONFIGMAP, SYSTEM_NAMESPACE
from scavenger_cluster import stack

JOBS = 6
BURN = ["python3", "-c", "while True: pass"]
SETTINGS = {
    # Faster than in earnest, and levels that suit one core: 6 jobs of 0.1, with what the node itself uses, are below
    # the lower one, and so are 4 of them beside the burst; all 6 and the burst are far above the upper one, so that a
    # machine that holds them back for others tells the same story.
    **stack.FIXED_LEVELS,
    "SCAVENGER_MAX_AGE": "60",
    "SCAVENGER_INITIAL_LOWER": "76",
    "SCAVENGER_INITIAL_ADMISSION": "78",
    "SCAVENGER_INITIAL_UPPER": "80",
}
COLUMNS = ("time", "load", "levels", "state", "preemptible", "running", "classes", "interrupted")


class Watch:
    """The table: a row for every change. On a terminal it is redrawn in place, elsewhere each row is a line."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.began = time.monotonic()
        self.rows: list[tuple[str, ...]] = []
        self.live = Live(self.table(), console=console, refresh_per_second=2) if console.is_terminal else None

    def __enter__(self) -> Watch:
        if self.live is not None:
            self.live.start()
        else:
            say(" | ".join(COLUMNS), "b")
        return self

    def __exit__(self, *_: object) -> None:
        if self.live is not None:
            self.live.stop()

    def table(self) -> Table:
        """What has been seen so far."""
        table = Table(*COLUMNS, title="the closed loop: cpu in percent of what the node offers")
        for row in self.rows:
            table.add_row(*row)
        return table

    def look(self) -> dict[str, str]:
        """Look once, add a row if anything changed, and return what the regulator publishes."""
        published = levels(self.stage)
        row = _row(published, self.stage)
        if row is not None and (not self.rows or row != self.rows[-1][1:]):
            self.rows.append((f"{time.monotonic() - self.began:.0f} s", *row))
            if self.live is not None:
                self.live.update(self.table(), refresh=True)
            else:
                say(" | ".join(self.rows[-1]))
        return published

    def until(self, what: str, condition: Callable[[dict[str, str]], Any]) -> None:
        """Watch until it has come about; DemoError when it does not in time."""

        def seen() -> bool:
            time.sleep(0.8)
            return bool(condition(self.look()))

        until(what, seen, timeout=150)


def levels(stage: Stage) -> dict[str, str]:
    """The data of the ConfigMap; empty before the regulator has measured."""
    path = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/configmaps/{LEVELS_CONFIGMAP}"
    return dict((stage.cluster.client.find(path) or {}).get("data") or {})


def in_phase(stage: Stage, phase: str) -> list[str]:
    """The names of the jobs in a phase."""
    return sorted(name for name, status in stage.jobs().items() if status.get("phase") == phase)


def _row(published: dict[str, str], stage: Stage) -> tuple[str, ...] | None:
    if "load.cpu" not in published:
        return None
    classes = [pod["metadata"]["labels"].get(LABEL_PREEMPTION_CLASS) for pod in stage.pods()]
    return (
        f"{float(published['load.cpu']):.0f}",
        " ".join(f"{float(published[f'{name}.cpu']):.0f}" for name in ("lower", "admission", "upper")),
        published["state"],
        f"{float(published['preemptiblePercentage']):.0f} %",
        str(len(in_phase(stage, "Running"))),
        f"{classes.count('preemptible')} + {classes.count('non-preemptible')}",
        " ".join(in_phase(stage, "Interrupted")) or "-",
    )


def burner(name: str) -> dict[str, Any]:
    """A ScavengerJob that uses all of a tenth of a core."""
    resources = {"requests": {"cpu": "100m", "memory": "32Mi"}}
    spec = {"image": stack.COUNTER_IMAGE, "command": BURN, "resources": resources, "terminationGracePeriodSeconds": 1}
    return {"apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerJob", "metadata": {"name": name}, "spec": spec}


def burst() -> dict[str, Any]:
    """An ordinary pod that uses all of 0.3 cores."""
    resources = {"requests": {"cpu": "300m", "memory": "32Mi"}, "limits": {"cpu": "300m", "memory": "32Mi"}}
    container = {"name": "main", "image": stack.COUNTER_IMAGE, "command": BURN, "resources": resources}
    spec = {"terminationGracePeriodSeconds": 1, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "burst"}, "spec": spec}


def tell(stage: Stage) -> None:
    """Fill, burst, evict. Raises DemoError when it does not come about."""
    say("the closed loop: regulator and prioritizer join the admitter; from here on real use counts, not requests")
    stack.start(stage.cluster, ["regulator", "prioritizer"], SETTINGS)
    with Watch(stage) as watch:
        watch.until("a first measurement", lambda seen: seen.get("state") == "Filling")
        stage.apply(*(burner(f"burn{number}") for number in range(JOBS)))
        watch.until("all run", lambda _: len(in_phase(stage, "Running")) == JOBS)
        watch.until("the load shows them", lambda seen: float(seen.get("load.cpu", "nan")) >= 0.9 * JOBS * 10)
        stage.apply(burst())
        watch.until("the load passes the upper level", lambda seen: seen.get("state") == "Evicting")
        watch.until(
            "enough have left",
            lambda seen: seen.get("state") not in (None, "Evicting") and in_phase(stage, "Interrupted"),
        )
    left = {name: status for name, status in stage.jobs().items() if status.get("interruptedCount")}
    lost = sum(status["lostCPUSeconds"] for status in left.values())
    say(
        f"{len(left)} of {JOBS} jobs had to leave, those with the least CPU time at risk; {lost:.0f} CPU-seconds were "
        "lost, and the ordinary pod was never touched",
        "green",
    )
