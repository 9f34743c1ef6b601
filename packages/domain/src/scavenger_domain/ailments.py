"""Problems of a cluster that the CLI and the board find, each with its remedy.

No text has an age: it stays the same as long as the problem does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from scavenger_api import names
from scavenger_api.rules.image import tag_of

RUNBOOK: Final = "run the command of docs/runbooks.md#scavengernoleader"
MOST_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class Ailment:
    """A problem: what it is called, what it does, and what helps.

    Attributes:
        name: one word, which scripts may compare.
        text: what it does.
        remedy: what helps.
        advice: whether nothing is broken, so that an administrator may decide to leave it as it is.
    """

    name: str
    text: str
    remedy: str
    advice: bool = False


def stale_budgets(namespaces: Collection[str], *, led: bool) -> Iterator[Ailment]:
    """PodDisruptionBudgets that no component removes.

    Args:
        namespaces: where the prioritizer's budget exists.
        led: whether a prioritizer leads.
    """
    if namespaces and not led:
        yield Ailment(
            "StaleBudgets",
            f"PodDisruptionBudgets {names.DISRUPTION_BUDGET} in {some(namespaces)} refuse evictions, and no "
            "prioritizer leads that would remove them: drains hang",
            RUNBOOK,
        )


def foreign_budgets(namespaces: Collection[str]) -> Iterator[Ailment]:
    """PodDisruptionBudgets that keep the prioritizer from making its own.

    Args:
        namespaces: where one that is not the prioritizer's has its name.
    """
    if namespaces:
        yield Ailment(
            "BudgetNameTaken",
            f"PodDisruptionBudgets {names.DISRUPTION_BUDGET} in {some(namespaces)} are not the prioritizer's, which "
            "leaves them alone: evictions and the unmodified kube-scheduler do not spare non-preemptible jobs there",
            "create them under another name, and delete those",
        )


def stale_finalizers(pods: Collection[str], *, led: bool) -> Iterator[Ailment]:
    """Finalizers that no component takes off.

    Args:
        pods: keys of pods that have ended, are deleted, and have the finalizer.
        led: whether an admitter leads.
    """
    if pods and not led:
        text = f"the finalizer keeps pods that are deleted, and no admitter leads: {some(pods)}"
        yield Ailment("StaleFinalizers", text, RUNBOOK)


class Untouched(Enum):
    """What keeps an adopted Job from running. The value: that, and what helps."""

    NO_ADMITTER = "stand still, as no admitter leads", RUNBOOK
    OFF = "stand still, as adoption is off", "set global.adopt.enabled=true in the values of the charts"
    UNSEEN = "stand still, as the admitter does not run them", "look for their names in the log of the admitter"
    UNKNOWN = (
        "stand still, as no component runs a Job with their spec.managedBy and labels",
        "create them again without spec.managedBy, and with the label of a queue",
    )
    UNSERVED = (
        "may not start, as their namespace is not served: the API server refuses pods that ScavengerJobs cannot have",
        f"kubectl label namespace NAMESPACE {names.LABEL_ADOPT}={names.ADOPT_LABELLED}",
    )


def untouched_jobs(jobs: Mapping[Untouched, Collection[str]]) -> Iterator[Ailment]:
    """Adopted Jobs that no component runs.

    Args:
        jobs: keys of those that have not ended, by what keeps them from running.
    """
    for why, found in jobs.items():
        text, helps = why.value
        release = "" if why is Untouched.UNKNOWN else "; or make regular Jobs of them: kubectl sj release NAME"
        yield Ailment(
            "UntouchedJobs",
            f"adopted Jobs {text}: {some(found)}",
            f"{helps}{release}",
            advice=why is Untouched.UNSERVED,
        )


def half_released(jobs: Collection[str]) -> Iterator[Ailment]:
    """Jobs whose release was broken off. jobs: keys."""
    if jobs:
        yield Ailment(
            "HalfReleased",
            f"the release of Jobs was broken off, and suspended copies keep their counts: {some(jobs)}",
            "repeat kubectl sj release NAME",
        )


def no_measurement(reasons: Mapping[str, str]) -> Iterator[Ailment]:
    """Levels that let nothing start, because there is no measurement or it is too old.

    Args:
        reasons: `LevelsView.unmeasured_pools`: by pool, empty where there is a measurement.
    """
    for pool, reason in reasons.items():
        where = f" on nodes of pool {pool}" if pool else ""
        yield Ailment(
            "NoMeasurement",
            f"nothing new starts{where}: {reason}",
            "docs/runbooks.md#scavengerblind; kubectl top nodes shows whether metrics are served",
        )


def nodes_refuse_pods(shunned: Mapping[str, str], nodes: Collection[str] | None) -> Iterator[Ailment]:
    """Nodes on which no job starts for a while, as pods did not start there.

    Args:
        shunned: what each of them has said.
        nodes: those that there are; None where that is not known.
    """
    found = sorted(name for name in shunned if nodes is None or name in nodes)
    if found:
        yield Ailment(
            "NodesRefusePods",
            f"no job starts on {some(found)}, as pods did not start there: {shunned[found[0]]}",
            "repair or cordon the node: docs/runbooks.md#scavengernodesrefusepods",
        )


def versions_differ(images: Mapping[str, Iterable[str]]) -> Iterator[Ailment]:
    """Services of more than one version.

    Args:
        images: of each service, by its name. Those without a tag, known by a digest alone, are left out.
    """
    versions: dict[str, list[str]] = {}
    for service, found in sorted(images.items()):
        for tag in filter(None, map(tag_of, found)):
            versions.setdefault(tag, []).append(service)
    if len(versions) > 1:
        text = "; ".join(f"{version}: {some(services)}" for version, services in sorted(versions.items()))
        yield Ailment("VersionsDiffer", f"services run different versions: {text}", "upgrade all charts to one version")


def some(found: Iterable[str]) -> str:
    """The first few names, in order, and how many more there are."""
    listed = sorted(set(found))
    more = f" and {len(listed) - MOST_NAMED} more" if len(listed) > MOST_NAMED else ""
    return ", ".join(listed[:MOST_NAMED]) + more
