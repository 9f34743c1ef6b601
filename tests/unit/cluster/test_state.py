from __future__ import annotations

from pathlib import Path

import pytest
from scavenger_cluster import network, ports, requirements
from scavenger_cluster.errors import ClusterError, MissingRequirementError
from scavenger_cluster.layout import Layout, cache_dir, state_dir
from scavenger_cluster.options import UpOptions, choose_nodes, data_dir_of, decide
from scavenger_cluster.plan import NodePlan, ports_from
from scavenger_cluster.state import ClusterState, Registry, load_state, read_json


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    monkeypatch.setattr(network, "busy_slots", lambda name, slots: [])
    monkeypatch.setattr(ports, "is_free", lambda address, port: True)
    return Registry(tmp_path / "clusters.json")


def state_of(**changes: object) -> ClusterState:
    state = ClusterState(name="test", slot=2, ports=ports_from(21040), bind_address="127.0.0.1")
    for name, value in changes.items():
        setattr(state, name, value)
    return state


def test_state_survives_the_disk_and_unknown_fields(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    assert load_state(path) is None
    state = state_of(real=2, arguments={"kubelet": ["--v=4"]})
    state.save(path)
    assert load_state(path) == state
    path.write_text(path.read_text().replace('"slot"', '"from_the_future": 1,\n"slot"'))
    assert load_state(path) == state
    path.write_text("{broken")
    assert load_state(path) is None


def test_the_registry_forgets_clusters_whose_folder_is_gone(tmp_path: Path) -> None:
    registry = Registry(tmp_path / "clusters.json")
    for slot, name in enumerate(("one", "two")):
        (tmp_path / name).mkdir()
        registry.add(name, tmp_path / name, slot)
    assert registry.free_slots("three")[0] == 2
    assert registry.free_slots("three", busy=[2, 3])[0] == 4
    assert registry.free_slots("one")[0] == 0
    (tmp_path / "one").rmdir()
    assert registry.free_slots("three")[0] == 0
    assert registry.data_dir("two") == tmp_path / "two"
    registry.remove("two")
    assert not registry.path.exists()


def test_two_clusters_get_different_slots_and_ports(registry: Registry, tmp_path: Path) -> None:
    states = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        state = decide(name, UpOptions(), NodePlan(fake=1), Layout(folder), registry)
        registry.add(name, folder, state.slot)
        states.append(state)
    assert states[0].slot != states[1].slot
    assert set(states[0].ports.values()).isdisjoint(states[1].ports.values())


def test_busy_addresses_and_ports_are_passed_over(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "busy_slots", lambda name, slots: [0])
    monkeypatch.setattr(ports, "is_free", lambda address, port: port != 21025)
    assert decide("new", UpOptions(), NodePlan(), Layout(tmp_path), registry).slot == 2


def test_what_was_decided_stays_unless_asked_otherwise(registry: Registry, tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    first = decide("c", UpOptions(fake_cpu="8", arguments={"kcm": ["--v=2"]}), NodePlan(fake=1), layout, registry)
    first.save(layout.state)
    again = decide("c", UpOptions(), NodePlan(fake=1), layout, registry)
    assert again == first
    assert again.arguments == {"kube-controller-manager": ["--v=2"]}
    moved = decide("c", UpOptions(port_base=30000), NodePlan(fake=1), layout, registry)
    assert moved.ports == ports_from(30000)
    assert moved.fake_cpu == "8"


def test_the_scheduler_stays_what_it_was_and_a_misspelt_one_is_refused(registry: Registry, tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    assert decide("c", UpOptions(), NodePlan(), layout, registry).scheduler == "plugin"
    wait = {"nonPreemptibleWait": "6s"}
    decide("c", UpOptions(scheduler="stock", scheduler_args=wait), NodePlan(), layout, registry).save(layout.state)
    again = decide("c", UpOptions(), NodePlan(), layout, registry)
    assert (again.scheduler, again.scheduler_args) == ("stock", wait)
    with pytest.raises(ClusterError, match="--scheduler plug: expected plugin or stock"):
        decide("c", UpOptions(scheduler="plug"), NodePlan(), layout, registry)


def test_the_api_server_listens_where_its_clients_are(registry: Registry, tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    fake = decide("c", UpOptions(), NodePlan(fake=1), layout, registry)
    real = decide("c", UpOptions(), NodePlan(real=1), layout, registry)
    assert fake.bind_address == "127.0.0.1"
    assert real.bind_address == real.subnets.host
    everywhere = decide("c", UpOptions(bind_address="0.0.0.0"), NodePlan(real=1), layout, registry)
    assert everywhere.server == f"https://127.0.0.1:{everywhere.ports['kube-apiserver']}"
    with pytest.raises(ClusterError, match="--bind-address"):
        decide("c", UpOptions(bind_address="192.0.2.1"), NodePlan(real=1), layout, registry)


def test_fake_nodes_are_tainted_only_beside_real_ones(registry: Registry, tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    assert not decide("c", UpOptions(), NodePlan(fake=1), layout, registry).fake_taint
    assert decide("c", UpOptions(), NodePlan(real=1, fake=1), layout, registry).fake_taint
    assert not decide("c", UpOptions(fake_taint=False), NodePlan(real=1, fake=1), layout, registry).fake_taint


def test_a_cluster_keeps_to_ipv6_and_has_real_nodes_then(registry: Registry, tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    decide("c", UpOptions(ipv6=True), NodePlan(real=1), layout, registry).save(layout.state)
    again = decide("c", UpOptions(), NodePlan(real=2), layout, registry)
    assert again.bind_address == again.subnets.host == "fd5c:a7e0::1"
    for wrong, plan in (
        (UpOptions(ipv6=False), NodePlan(real=1)),
        (UpOptions(), NodePlan(real=1, fake=1)),
        (UpOptions(), NodePlan()),
    ):
        with pytest.raises(ClusterError, match="--ipv6"):
            decide("c", wrong, plan, layout, registry)
    with pytest.raises(ClusterError, match="it has to be fd5c:a7e0::1"):
        decide("c", UpOptions(bind_address="0.0.0.0"), NodePlan(real=1), layout, registry)


def test_metrics_of_fake_nodes_are_refused(registry: Registry, tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="--metrics"):
        decide("c", UpOptions(metrics=True), NodePlan(fake=1), Layout(tmp_path), registry)


def test_auto_falls_back_with_one_line_and_real_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "obstacles", list)
    monkeypatch.setattr(requirements, "missing_node_packages", lambda: ["runc"])
    said: list[str] = []
    assert choose_nodes(UpOptions(install=False), None, said.append) == NodePlan(fake=3)
    assert len(said) == 1
    assert "apt-get install runc" in said[0]
    with pytest.raises(MissingRequirementError, match="runc"):
        choose_nodes(UpOptions(nodes="real", install=False), None, said.append)
    assert choose_nodes(UpOptions(), state_of(fake=7), said.append) == NodePlan(fake=7)


def test_a_name_belongs_to_one_folder(tmp_path: Path) -> None:
    registry = Registry(tmp_path / "clusters.json")
    (tmp_path / "here").mkdir()
    registry.add("c", tmp_path / "here", 0)
    assert data_dir_of("c", None, registry, tmp_path / "default") == tmp_path / "here"
    assert data_dir_of("d", None, registry, tmp_path / "default") == tmp_path / "default"
    with pytest.raises(ClusterError, match="already exists"):
        data_dir_of("c", tmp_path / "there", registry, tmp_path / "default")


def test_folders_follow_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCAVENGER_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert cache_dir() == tmp_path / "cache/scavenger"
    assert state_dir() == tmp_path / "state/scavenger"
    monkeypatch.setenv("SCAVENGER_CACHE", str(tmp_path / "mine"))
    assert cache_dir() == tmp_path / "mine"


def test_json_that_is_no_object_reads_as_empty(tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text("[1]")
    assert read_json(tmp_path / "list.json") == {}
