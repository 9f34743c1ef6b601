"""Pods that nobody looks at, since their classes rank them: when the chart chooses that, and what holds then."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from scavenger_cluster import Cluster, stack
from scavenger_testing.place import Object, Place

from .conftest import guard_classes, low_classes, start_webhook
from .test_faults import ORDINARY, ranks_of_deployment

BINDING = "scavenger-guard-priority-classes"
LOW: Object = {"metadata": {"name": "cheap"}, "value": -1500}
WARNING = "pods of this class do not outrank scavenger jobs, and are let in as they are until"


@pytest.fixture
def guard(cluster: Cluster, place: Place) -> Iterator[None]:
    """The guard on PriorityClasses, as it was afterwards."""
    guard_classes(cluster, place)
    yield
    guard_classes(cluster, place)


@pytest.fixture
def by_class(cluster: Cluster, place: Place) -> Iterator[None]:
    """Nobody looks at pods, and the webhook does not even run."""
    stack.rank_by_class(cluster)
    cluster.service_stop("webhook", grace=0)
    place.wait("pods are not sent", lambda: not place.items("mutatingwebhookconfigurations"))
    yield
    start_webhook(cluster)
    stack.rank_by_webhook(cluster)


def default(place: Place, name: str, *, there: bool) -> None:
    """Make it the default class or not. The API server, which allows one, may not have seen the last change yet."""
    patch = {"globalDefault": there}
    place.wait(f"{name}: {patch}", lambda: place.patch("priorityclasses", name, patch).allowed)


@pytest.mark.long
def test_the_chart_chooses_so_where_no_pod_can_be_as_low_as_scavenger_jobs(cluster: Cluster, place: Place) -> None:
    assert stack.ranks_pods(cluster) == "class"
    default(place, "ordinary-workload", there=False)
    assert stack.ranks_pods(cluster) == "policy", "no default class"
    foreign: Object = {"metadata": {"name": "theirs"}, "value": -999}
    assert place.create("priorityclasses", foreign).allowed
    default(place, "theirs", there=True)
    assert stack.ranks_pods(cluster) == "class", "a default class of the cluster's own"
    default(place, "theirs", there=False)
    place.delete("priorityclasses", "theirs")
    default(place, "scavenger-preemptible", there=True)
    assert stack.ranks_pods(cluster) == "policy", "a default class that does not outrank scavenger jobs"
    default(place, "scavenger-preemptible", there=False)
    default(place, "ordinary-workload", there=True)
    with low_classes(cluster, place, {"cheap": -1000}):
        assert stack.ranks_pods(cluster) == "policy", "a class from before the guard"
    assert stack.ranks_pods(cluster) == "class"


@pytest.mark.long
@pytest.mark.usefixtures("guard")
def test_the_chart_relies_on_a_guard_that_is_there_and_refuses(cluster: Cluster, place: Place) -> None:
    assert stack.ranks_pods(cluster) == "class"
    warns = '-p={"spec": {"validationActions": ["Warn"]}}'
    cluster.kubectl("patch", "validatingadmissionpolicybinding", BINDING, "--type=merge", warns)
    assert stack.ranks_pods(cluster) == "policy"
    stack.lift_guard(cluster, "priority-classes")
    assert stack.ranks_pods(cluster) == "policy"
    guard_classes(cluster, place)
    assert stack.ranks_pods(cluster) == "class"
    cluster.kubectl("delete", "validatingadmissionpolicy", BINDING)
    assert stack.ranks_pods(cluster) == "policy"


@pytest.mark.usefixtures("by_class")
def test_pods_have_the_rank_of_their_class(cluster: Cluster, place: Place) -> None:
    assert ranks_of_deployment(place, 2) == [ORDINARY] * 2
    place.delete("deployments", "web", "Foreground")
    place.wait("gone", lambda: not place.items("deployments") and not place.items("pods"))


@pytest.mark.usefixtures("by_class", "guard")
@pytest.mark.parametrize(
    "option", ["--set=guard.lowPriorityClasses={cheap}", "--set=guard.exemptGroups={system:masters}"]
)
def test_who_may_make_a_low_class_is_told_what_it_means(cluster: Cluster, place: Place, option: str) -> None:
    refused = place.try_create("priorityclasses", LOW)
    assert not refused.allowed
    assert refused.code == 422
    assert "value: -1500 does not outrank scavenger jobs" in refused.message
    text = stack.rendered("scavenger-base", cluster.report, option, templates=("guard-classes",))
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=text)
    place.wait("the class is let in", lambda: place.try_create("priorityclasses", LOW).allowed)
    # Policies and bindings are not seen at one moment.
    place.wait("there is a warning", lambda: place.try_create("priorityclasses", LOW).warnings)
    (warning,) = place.try_create("priorityclasses", LOW).warnings
    assert WARNING in warning
    other: Object = {"metadata": {"name": "other"}, "value": -1500}
    assert place.try_create("priorityclasses", other).allowed == ("exempt" in option)
    assert place.create("priorityclasses", LOW).allowed
    assert stack.ranks_pods(cluster) == "policy", "as the warning says, of the next upgrade"
    place.delete("priorityclasses", "cheap")
