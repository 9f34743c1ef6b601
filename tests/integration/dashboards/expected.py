"""What each query of each panel has to say at the end of the scenario, by the legend of its series."""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib.metadata import version
from typing import Final, TypeAlias

from .scenario import CPUS, NODES, Scenario

Expectation: TypeAlias = float | Callable[[float, Scenario], bool]
Expected: TypeAlias = tuple[dict[str, Expectation], bool]
"""Series by their names, and whether there are no others."""

GIB: Final = 2**30
MIB: Final = 2**20
CORES: Final = NODES * CPUS
ROOM: Final = NODES * 32 * GIB
ORDINARY: Final = 2 + 6
HARVESTED: Final = 5 * 4
USABLE: Final = 0.8 * CORES - ORDINARY
"""What scavenging may use, in cores: the admission level less what ordinary pods request."""
VERSION: Final = version("scavenger-runtime")
SERVICES: Final = ("admitter", "regulator", "prioritizer", "webhook")


def exactly(series: dict[str, Expectation]) -> Expected:
    return series, True


def among(series: dict[str, Expectation]) -> Expected:
    return series, False


def one(check: Expectation, name: str = "") -> list[Expected]:
    return [exactly({name: check})]


def summed(field: str, queue: str | None = None, unit: float = 1.0) -> Expectation:
    """As the statuses of the jobs have it; more than nothing."""

    def check(value: float, scenario: Scenario) -> bool:
        truth = scenario.total(field, queue) / unit
        return truth > 0 and math.isclose(value, truth, rel_tol=0.05)

    return check


def priced(value: float, scenario: Scenario) -> bool:
    truth = scenario.total("lostCPUSeconds") / scenario.total("usefulCPUSeconds")
    return math.isclose(value, truth, rel_tol=0.1)


def within(low: float, high: float) -> Expectation:
    return lambda value, _: low <= value <= high


SOME: Final = within(1e-9, math.inf)
NONE_OR_MORE: Final = within(0, math.inf)


def utilisation(load: float, ordinary: float) -> list[Expected]:
    levels = {"level: lower": 0.70, "level: admission": 0.80, "level: upper": 0.85}
    return [
        exactly({"with scavenging": load}),
        exactly({"regular workloads alone": ordinary}),
        exactly(dict(levels)),
        exactly({}),  # of other pools
    ]


def waits(high: float, *quantiles: str) -> list[Expected]:
    return [exactly({f"{quantile} waited less than": within(0, high)}) for quantile in quantiles]


def every(services: tuple[str, ...], check: Expectation) -> dict[str, Expectation]:
    return {f"scavenger-{name}": check for name in services}


ADMINISTRATOR: Final[dict[str, list[Expected]]] = {
    "Harvested core-hours": one(summed("usefulCPUSeconds", unit=3600)),
    "Lost core-hours": one(summed("lostCPUSeconds", unit=3600)),
    "Lost per harvested hour": one(priced),
    "Jobs running": one(5),
    "Regulator": one(1, "Filling"),
    "Preemptible": one(1, "default"),
    "CPU: utilisation and levels": utilisation((ORDINARY + HARVESTED) / CORES, ORDINARY / CORES),
    "Memory: utilisation and levels": utilisation(7 * 64 * MIB / ROOM, 2 * 64 * MIB / ROOM),
    "Cores of scavenger jobs, by queue": [among({"lab": 16, "guest": 4})],
    "Cores requested and not used, by queue": [exactly({"default": 0, "guest": 0, "lab": 0})],
    "Devices requested and not used, by queue": [exactly({})],  # no job has one
    "Running jobs, by class": [exactly({"preemptible": 5, "non-preemptible": 0})],
    "Interruptions by cause": [exactly({"Deleted": 1, "Preempted": 1, "QueueReclaimed": 1})],
    "Interruptions by queue and cause": [
        exactly({"Deleted, lab": 1, "Preempted, lab": 1, "QueueReclaimed, lab": 1}),
    ],
    "Displaced by the scheduler, by class": [exactly({"preemptible": 1, "non-preemptible": 0, "ordinary": 0})],
    "Evicted by the regulator, by reason": [
        exactly({"AboveUpperLevel": 0, "YieldAtCheckpoint": 0, "NodeMemory": 0}),
    ],
    "From queue to queue": one(1, "lab, guest"),
    "Waiting for capacity": one(1, "waiting"),
    "How long they waited": waits(300, "50%", "95%", "99%"),
    "Placed": one(2, "placed"),
}

RESEARCHER: Final[dict[str, list[Expected]]] = {
    "Jobs": [exactly({"Running": 4, "Interrupted": 2, "Completed": 1, "Waiting": 1, "Suspended": 1})],
    "CPU share": [exactly({"has": 16}), exactly({"deserves": USABLE / 3})],
    "Queued": one(3, "jobs"),
    "Tasks": [exactly({"waiting": 5, "running": 0, "completed": 0, "failed": 0})],
    # Before the first scrape all jobs had begun, but for those that came back.
    "How long jobs waited": [
        among({f"Restart: {quantile} waited less than": within(0, 900)}) for quantile in ("50%", "95%")
    ],
    "Why jobs wait": one(3, "QueueShare"),
    "Ended": [exactly({"Completed": 1, "Failed": 0})],
    "Interrupted, by cause": [exactly({"Deleted": 1, "Preempted": 1, "QueueReclaimed": 1})],
    "CPU time: useful and lost": [
        exactly({"useful": summed("usefulCPUSeconds", "lab")}),
        exactly({"lost": summed("lostCPUSeconds", "lab")}),
    ],
    "Started and interrupted most": [
        among({"starts: research/a": 2, "starts: research/b": 1, "starts: research/done": 1}),
        among({"interruptions: research/a": 1, "interruptions: research/b": 1}),
    ],
    "CPU: requested and used": [exactly({"requested": 16}), exactly({"used": 16})],
    "Memory: requested and used": [exactly({"requested": 4 * 64 * MIB}), exactly({"used": 4 * 64 * MIB})],
}

LEADING: Final = ("admitter", "regulator", "prioritizer")
BOARD_OF_SERVICES: Final[dict[str, list[Expected]]] = {
    "Leaders": [exactly(every(LEADING, 1))],
    "Replicas and versions": [exactly({f"scavenger-{name}, {VERSION}": 1 for name in SERVICES})],
    "Lag of the event loop, 99 %": [exactly(every(SERVICES, within(0, 30)))],
    "Keys and writes that wait": [among({"keys: scavengerjobs": NONE_OR_MORE}), among({"writes: start": NONE_OR_MORE})],
    "One round, 99 %": [
        exactly({name: within(0, 30)})
        for name in ("admission cycle", "regulator's period", "prioritizer's pass", "webhook's review")
    ],
    "Reconciles": [among({"success": SOME})],
    "Preemption attempts of the scheduler": [among({"preempted": 1, "no_candidate": SOME})],
    "Reviews of the webhook": [exactly({"allowed": 10, "changed": 0, "warned": 0, "refused": 0})],
    "Requests": [among({"scavenger-admitter 200": SOME, "scavenger-admitter 201": SOME})],
    "Duration, 99 %": [among({"POST": within(0, 30), "PATCH": within(0, 30)})],
    "Age of what the caches show": [among({"scavenger-admitter pods": within(0, 300)})],
    "Objects in the caches": [
        among({"scavenger-admitter scavengerjobs": 10, "scavenger-admitter scavengerqueues": SOME}),
    ],
    "Errors": [
        exactly({name: NONE_OR_MORE})
        for name in (
            "reconciles failed",
            "lists and watches",
            "handlers",
            "Events not written",
            "starts that failed",
            "prioritizer's passes",
            "measurements",
        )
    ],
    "Memory": [exactly(every(SERVICES, within(10 * MIB, 2 * GIB)))],
    "Webhook's certificate expires in": one(within(50 * 86400, 91 * 86400), "certificate"),
}

EXPECTED: Final = {
    (board, panel): queries
    for board, panels in (
        ("administrator", ADMINISTRATOR),
        ("researcher", RESEARCHER),
        ("services", BOARD_OF_SERVICES),
    )
    for panel, queries in panels.items()
}
