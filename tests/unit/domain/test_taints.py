"""Which taints keep a pod away."""

from __future__ import annotations

import pytest
from scavenger_api.podspec import Toleration as SpecToleration
from scavenger_domain.taints import blocking, lasting, of_resources, spell_taint, tolerates
from scavenger_kube.kinds import Taint, Toleration

TOLERATION_CASES = [
    (Toleration(key="a", operator="Equal", value="1", effect="NoSchedule"), True),
    (Toleration(key="a", value="1"), True),
    (Toleration(key="a", operator="Exists"), True),
    (Toleration(operator="Exists"), True),
    (Toleration(key="a", operator="Exists", effect="NoExecute"), False),
    (Toleration(key="a", operator="Equal", value="2"), False),
    (Toleration(key="b", operator="Exists"), False),
    (Toleration(key="a", operator="Gt", value="0"), False),
]


@pytest.mark.parametrize(("toleration", "covered"), TOLERATION_CASES)
def test_tolerations(toleration: Toleration, covered: bool) -> None:
    taint = Taint(key="a", value="1", effect="NoSchedule")
    assert tolerates([toleration], taint) is covered
    assert tolerates([Toleration(key="other"), toleration], taint) is covered
    assert not tolerates([], taint)


def test_what_is_absent_in_a_spec_is_none() -> None:
    """Tolerations of a ScavengerJob, as its model has them."""
    taint = Taint(key="a", effect="NoSchedule")
    assert tolerates([SpecToleration(key="a")], taint)
    assert not tolerates([SpecToleration(key="a", value="1")], taint)


def test_which_taints_keep_pods_away_and_which_pass() -> None:
    soft = Taint(key="soft", effect="PreferNoSchedule")
    hard = Taint(key="hard", value="1", effect="NoExecute")
    cordon = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
    silent = Taint(key="node.kubernetes.io/unreachable", effect="NoExecute")
    assert blocking((soft, hard, cordon, silent)) == (hard, cordon, silent)
    assert lasting((soft, hard, cordon, silent)) == (hard,)
    assert [spell_taint(taint) for taint in (hard, cordon)] == [
        "hard=1:NoExecute",
        "node.kubernetes.io/unschedulable:NoSchedule",
    ]


@pytest.mark.parametrize(
    ("taint", "covered"),
    [
        (Taint(key="nvidia.com/gpu", value="present", effect="NoSchedule"), True),
        (Taint(key="nvidia.com/gpu", value="", effect="NoSchedule"), True),
        (Taint(key="nvidia.com/gpu", value="", effect="NoExecute"), False),
        (Taint(key="amd.com/gpu", value="", effect="NoSchedule"), False),
        (Taint(key="cpu", value="", effect="NoSchedule"), False),
        (Taint(key="attachable.kubernetes.io/x", value="", effect="NoSchedule"), False),
    ],
)
def test_who_asks_for_a_resource_tolerates_the_taint_of_its_nodes(taint: Taint, covered: bool) -> None:
    """As kube-apiserver's plugin ExtendedResourceToleration has it."""
    asked = ("cpu", "memory", "nvidia.com/gpu", "attachable.kubernetes.io/x")
    assert tolerates(of_resources(asked), taint) is covered
