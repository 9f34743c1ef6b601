from __future__ import annotations

import ipaddress

import pytest
from scavenger_cluster.errors import ClusterError
from scavenger_cluster.plan import (
    PORT_OFFSETS,
    PORTS_PER_CLUSTER,
    SLOTS,
    NodePlan,
    Subnets,
    check_name,
    link_name,
    parse_nodes,
    ports_from,
)


@pytest.mark.parametrize(
    ("text", "plan"),
    [
        ("real", NodePlan(real=1)),
        ("real:3", NodePlan(real=3)),
        ("fake", NodePlan(fake=3)),
        ("fake:20", NodePlan(fake=20)),
        ("real,fake:20", NodePlan(real=1, fake=20)),
        ("fake:2, real:2", NodePlan(real=2, fake=2)),
        ("none", NodePlan()),
    ],
)
def test_nodes_are_read(text: str, plan: NodePlan) -> None:
    assert parse_nodes(text, real_possible=False) == plan


def test_auto_is_what_is_possible() -> None:
    assert parse_nodes("auto", real_possible=True) == NodePlan(real=1)
    assert parse_nodes("auto", real_possible=False) == NodePlan(fake=3)
    assert parse_nodes("auto:2", real_possible=True) == NodePlan(real=2)
    assert parse_nodes("auto:2", real_possible=False) == NodePlan(fake=2)


@pytest.mark.parametrize("text", ["", "real:", "real:-1", "virtual:3", "real;fake", "fake:1000000"])
def test_nonsense_is_refused_naming_the_option(text: str) -> None:
    with pytest.raises(ClusterError, match="--nodes"):
        parse_nodes(text, real_possible=True)


def test_plans_name_their_nodes() -> None:
    plan = NodePlan(real=2, fake=2)
    assert [*plan.real_names, *plan.fake_names] == ["node1", "node2", "fake-001", "fake-002"]
    assert str(plan) == "real:2,fake:2"
    assert str(NodePlan()) == "none"


def test_no_two_slots_share_an_address() -> None:
    networks = [
        ipaddress.IPv4Network(network)
        for subnets in map(Subnets, range(SLOTS))
        for network in (subnets.nodes, subnets.services, subnets.pods, subnets.fake_pods)
    ]
    for index, network in enumerate(networks):
        assert not any(network.overlaps(other) for other in networks[index + 1 :])


def test_addresses_of_a_slot() -> None:
    subnets = Subnets(3)
    assert subnets.host == "10.89.3.1"
    assert subnets.node(2) == "10.89.3.12"
    assert subnets.api_service == "10.99.0.1"
    assert ipaddress.IPv4Network(subnets.node_pods(200)).subnet_of(ipaddress.IPv4Network(subnets.pods))
    assert Subnets(0).api_service == "10.96.0.1"


def test_addresses_of_ipv6_are_written_as_the_api_server_writes_them() -> None:
    ranges = []
    for subnets in (Subnets(slot, ipv6=True) for slot in range(SLOTS)):
        nodes, services, pods = map(ipaddress.IPv6Network, (subnets.nodes, subnets.services, subnets.pods))
        node_pods = [ipaddress.IPv6Network(subnets.node_pods(number)) for number in (1, 16, 200)]
        ranges += [nodes, services, *node_pods]
        written = (subnets.host, subnets.node(1), subnets.node(200), subnets.api_service, subnets.dns_service)
        assert [str(ipaddress.IPv6Address(each)) for each in written] == list(written)
        assert {ipaddress.ip_address(each) in nodes for each in written[:3]} == {True}
        assert ipaddress.ip_address(subnets.api_service) == services[1], "the first address that is given away"
        assert ipaddress.ip_address(subnets.dns_service) in services
        assert services.prefixlen >= 108, "an API server refuses a larger range"
        assert all(each.subnet_of(pods) for each in node_pods)
    assert all(network.is_private for network in ranges)
    for index, network in enumerate(ranges):
        assert not any(network.overlaps(other) for other in ranges[index + 1 :])


def test_ports_of_one_cluster_fit_its_share() -> None:
    ports = ports_from(21000)
    assert ports["kube-apiserver"] == 21000
    assert len(set(ports.values())) == len(PORT_OFFSETS)
    assert max(ports.values()) - min(ports.values()) < PORTS_PER_CLUSTER


@pytest.mark.parametrize("name", ["", "Upper", "1st", "a/b", "x" * 31, "a b"])
def test_names_that_break_namespaces_are_refused(name: str) -> None:
    with pytest.raises(ClusterError, match="--name"):
        check_name(name)


def test_link_names_fit_the_kernel_and_differ() -> None:
    names = {link_name(f"cluster-{number}") for number in range(100)}
    assert len(names) == 100
    assert max(map(len, names)) <= 15
