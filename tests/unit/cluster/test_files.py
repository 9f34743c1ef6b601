"""What is written for other programs: arguments, configuration, certificates, images."""

from __future__ import annotations

import io
import ipaddress
import json
import os
import re
import signal
import subprocess
import tarfile
import threading
import tomllib
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from scavenger_cluster import (
    build,
    cgroups,
    dns,
    images,
    kubeconfig,
    kwok,
    network,
    node_config,
    other_version,
    ports,
    scheduler,
    teardown,
    waiting,
)
from scavenger_cluster.build import TOOLS, go_dir, go_numbers, module_dir, needed_go
from scavenger_cluster.certificates import control_plane_certificates, ensure_certificates, node_certificate
from scavenger_cluster.control_plane import COMPONENTS, full_name, probe, program, tool_of
from scavenger_cluster.errors import ClusterError, WaitTimeoutError
from scavenger_cluster.images import archive_names, context_key, normalized, oci_archive
from scavenger_cluster.layout import Layout
from scavenger_cluster.plan import ports_from
from scavenger_cluster.state import ClusterState
from scavenger_cluster.waiting import wait_for

LAYOUT = Layout(Path("/data"))
MANIFESTS = Path(__file__).resolve().parents[3] / "manifests" / "scheduler"


def state_of(real: int = 0, slot: int = 1) -> ClusterState:
    address = f"10.89.{slot}.1" if real else "127.0.0.1"
    return ClusterState(name="test", slot=slot, ports=ports_from(21020), bind_address=address, real=real)


def arguments(component: str, state: ClusterState) -> dict[str, str]:
    tools = {tool_of(name, state): Path("/bin") / name for name in COMPONENTS}
    words = program(component, state, LAYOUT, tools).argv
    assert words[0] == f"/bin/{component}"
    return dict(word.removeprefix("--").partition("=")[::2] for word in words[1:])


def test_the_api_server_with_and_without_real_nodes() -> None:
    fake, real = arguments("kube-apiserver", state_of()), arguments("kube-apiserver", state_of(real=1))
    assert fake["advertise-address"] == "127.0.0.1"
    assert fake["endpoint-reconciler-type"] == "none"
    assert real["advertise-address"] == "10.89.1.1"
    assert real["endpoint-reconciler-type"] == "lease"
    assert real["authorization-mode"] == "Node,RBAC"
    assert real["requestheader-client-ca-file"] != real["client-ca-file"]
    assert real["service-cluster-ip-range"] == "10.97.0.0/16"


def test_a_cluster_of_ipv6_has_no_address_of_ipv4_but_loopback() -> None:
    state = state_of(real=1)
    state.ipv6 = True
    state.bind_address = state.subnets.host
    found = arguments("kube-apiserver", state)
    assert state.server == state.inner_server == "https://[fd5c:a7e0:1::1]:21020"
    assert (found["bind-address"], found["advertise-address"]) == ("fd5c:a7e0:1::1", "fd5c:a7e0:1::1")
    assert found["service-cluster-ip-range"] == "fd5c:a7e0:1:1::/112"
    assert probe("metrics-server", state, LAYOUT).url == "https://[fd5c:a7e0:1::1]:21026/readyz"
    assert yaml.safe_load(node_config.kubelet_config(state, LAYOUT, "node1"))["address"] == "::"
    assert yaml.safe_load(node_config.kube_proxy_config(state, LAYOUT, "node1"))["clusterCIDR"] == "fd5c:a7e0:1:2::/64"
    pods = json.loads(node_config.cni_config(state.subnets.node_pods(1)))["plugins"][0]["ipam"]
    assert pods["ranges"] == [[{"subnet": "fd5c:a7e0:1:2:1::/80"}]]
    assert pods["routes"] == [{"dst": "::/0"}]
    assert dns.corefile(state, Path("/k")).count("ip6.arpa") == 2
    own = next(spec for spec in control_plane_certificates(state) if spec.name == "kube-apiserver")
    assert {"fd5c:a7e0:1::1", "fd5c:a7e0:1:1::1"} <= set(own.addresses)
    written = [*found.values(), dns.corefile(state, Path("/k")), json.dumps(pods)]
    assert set(re.findall(r"\d+\.\d+\.\d+\.\d+", "\n".join(written))) <= {"127.0.0.1"}


@pytest.mark.parametrize("component", ["kube-controller-manager", "kube-scheduler"])
def test_client_limits_are_out_of_the_way(component: str) -> None:
    found = arguments(component, state_of())
    assert (found["kube-api-qps"], found["kube-api-burst"]) == ("1000", "2000")


def test_own_arguments_come_last_and_components_are_marked() -> None:
    state = state_of()
    state.arguments = {"kube-scheduler": ["--v=5"]}
    wanted = program("kube-scheduler", state, LAYOUT, {"scavenger-scheduler": Path("/bin/x")})
    assert wanted.argv[-1] == "--v=5"
    assert (wanted.env["SCAVENGER_CLUSTER"], wanted.env["SCAVENGER_CLUSTER_DATA"]) == ("test", "/data")
    assert "KUBECONFIG" not in wanted.env


def test_the_scheduler_is_the_one_with_the_plugin_unless_said_otherwise() -> None:
    tools = {name: Path("/bin") / name for name in ("scavenger-scheduler", "kube-scheduler")}
    state = state_of()
    plugin = program("kube-scheduler", state, LAYOUT, tools)
    state.scheduler = "stock"
    stock = program("kube-scheduler", state, LAYOUT, tools)
    assert plugin.argv[0] == "/bin/scavenger-scheduler"
    assert stock.argv[0] == "/bin/kube-scheduler"
    assert set(plugin.argv[1:]) - set(stock.argv[1:]) == {"--config=/data/config/kube-scheduler.yaml"}
    assert plugin.name == stock.name == "kube-scheduler"


def test_the_plugin_takes_the_place_of_default_preemption() -> None:
    wanted = yaml.safe_load((MANIFESTS / "default/config.yaml").read_text())
    found = yaml.safe_load(scheduler.configuration(Path("/k"), wanted["profiles"][0]["pluginConfig"][0]["args"]))
    assert found["profiles"] == wanted["profiles"]
    assert found["clientConnection"] == {"kubeconfig": "/k", "qps": 1000, "burst": 2000}
    assert found["leaderElection"] == {"leaderElect": False}


def test_the_plugin_has_the_rights_of_the_manifests() -> None:
    documents = yaml.safe_load_all((MANIFESTS / "default/rbac.yaml").read_text())
    shipped_role, shipped_binding, of_settings, settings_binding = documents
    (role_path, role), (binding_path, binding) = scheduler.rights().items()
    assert role["rules"] == [*shipped_role["rules"], *of_settings["rules"]]
    assert binding["subjects"] == shipped_binding["subjects"] == settings_binding["subjects"]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    for path, body in ((role_path, role), (binding_path, binding)):
        assert path.endswith(f"/{body['kind'].lower()}s/{body['metadata']['name']}")


def test_short_names() -> None:
    assert [full_name(name) for name in ("apiserver", "kcm", "etcd")] == [
        "kube-apiserver",
        "kube-controller-manager",
        "etcd",
    ]


def test_every_component_listens_on_a_port_of_its_own() -> None:
    state = state_of(real=1)
    listening = [arguments(name, state).get("secure-port") for name in COMPONENTS]
    numbers = [number for number in listening if number]
    assert len(numbers) == len(set(numbers)) == 4


def test_certificates_are_kept_until_an_address_changes(tmp_path: Path) -> None:
    fake, real = control_plane_certificates(state_of()), control_plane_certificates(state_of(real=1))
    ensure_certificates(tmp_path, fake)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    ensure_certificates(tmp_path, fake)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    ensure_certificates(tmp_path, [*real, node_certificate("node1", "10.89.1.11")])
    after = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert after["ca.crt"] == before["ca.crt"]
    assert after["admin.crt"] == before["admin.crt"]
    server = x509.load_pem_x509_certificate((tmp_path / "kube-apiserver.crt").read_bytes())
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {str(address) for address in names.get_values_for_type(x509.IPAddress)} == {
        "127.0.0.1",
        "10.89.1.1",
        "10.97.0.1",
    }
    assert {"kubernetes", "kubernetes.default.svc", "localhost"} <= set(names.get_values_for_type(x509.DNSName))
    kubelet = x509.load_pem_x509_certificate((tmp_path / "kubelet-node1.crt").read_bytes())
    assert kubelet.subject.rfc4514_string() == "CN=system:node:node1,O=system:nodes"
    front = x509.load_pem_x509_certificate((tmp_path / "front-proxy-client.crt").read_bytes())
    assert front.issuer != server.issuer
    assert all(path.stat().st_mode & 0o077 == 0 for path in tmp_path.glob("*.key"))


def test_a_kubeconfig_is_private(tmp_path: Path) -> None:
    authority = tmp_path / "ca.crt"
    authority.write_text("pem")
    text = kubeconfig.render("c", "https://127.0.0.1:1", authority, {"token": "t"})
    path = tmp_path / "deep/kubeconfig"
    kubeconfig.write_private(path, text)
    stamp = path.stat().st_mtime_ns
    kubeconfig.write_private(path, text)
    assert path.stat().st_mtime_ns == stamp
    assert path.stat().st_mode & 0o777 == 0o600
    assert yaml.safe_load(text)["users"][0]["user"] == {"token": "t"}


def test_node_configuration() -> None:
    kubelet = yaml.safe_load(node_config.kubelet_config(state_of(real=1), LAYOUT, "node1"))
    assert kubelet["cgroupRoot"] == "/", "of a namespace of its own"
    assert kubelet["imageGCHighThresholdPercent"] == 100
    proxy = yaml.safe_load(node_config.kube_proxy_config(state_of(real=1), LAYOUT, "node1"))
    assert proxy["conntrack"]["maxPerCore"] == 0
    network = json.loads(node_config.cni_config("10.113.1.0/24"))
    assert network["plugins"][0]["ipam"]["ranges"] == [[{"subnet": "10.113.1.0/24"}]]
    for restrict in (True, False):
        text = node_config.containerd_config(cni_config="/c", cni_plugins="/p", registries="/r", restrict_oom=restrict)
        cri = tomllib.loads(text)["plugins"]["io.containerd.grpc.v1.cri"]
        assert cri["restrict_oom_score_adj"] is restrict
        assert cri["registry"] == {"config_path": "/r"}
    hosts = tomllib.loads(node_config.registry_hosts("10.89.1.1:5000"))
    assert hosts["server"] == "http://10.89.1.1:5000", "or containerd asks the registry of that name after all"
    assert list(hosts["host"]) == [hosts["server"]]


def test_kwok_configuration_is_what_its_description_says() -> None:
    stages = {stage["metadata"]["name"]: stage["spec"] for stage in yaml.safe_load_all(kwok.configuration())}
    assert set(stages) == {"node-ready", "node-heartbeat", "pod-run", "pod-end", "pod-stop", "pod-go"}
    assert stages["pod-go"]["next"] == {"delete": True}
    assert kwok.STOP_SECONDS in stages["pod-stop"]["delay"]["durationFrom"]["expressionFrom"]
    node = kwok.fake_node("f", cpu="4", memory="8Gi", pods=9, taint=True, now="2026-01-01T00:00:00Z")
    assert node["status"]["allocatable"]["pods"] == "9"
    assert node["metadata"]["annotations"] == {"kwok.x-k8s.io/node": "fake"}
    assert node["spec"]["taints"][0]["effect"] == "NoSchedule"


def test_a_lease_that_is_taken_away_is_renewed_at_that() -> None:
    """Otherwise the node lifecycle controller waits for the news of it for ever, and no node is ever found silent."""
    now = "2026-01-01T00:00:00.000001Z"
    assert kwok.stop_lease(now)["spec"] == {
        "holderIdentity": kwok.STOPPED,
        "leaseDurationSeconds": 315_360_000,
        "renewTime": now,
    }


@pytest.fixture
def v1(tmp_path: Path) -> Path:
    """Control groups as cgroup v1 shows them."""
    for name in ("cpu", "memory"):
        (tmp_path / "v1" / name).mkdir(parents=True)
    (tmp_path / "v1/cpu/cpu.shares").write_text("1024")
    return tmp_path / "v1"


@pytest.fixture
def v2(tmp_path: Path) -> Path:
    """Control groups as cgroup v2 shows them."""
    (tmp_path / "v2").mkdir()
    (tmp_path / "v2/cgroup.controllers").write_text("cpu memory")
    (tmp_path / "v2/cgroup.subtree_control").write_text("")
    return tmp_path / "v2"


def test_cgroups_on_both_versions(v1: Path, v2: Path) -> None:
    assert cgroups.hierarchies(v1) == [v1 / "cpu", v1 / "memory"]
    assert cgroups.hierarchies(v2) == [v2]
    assert cgroups.cpu_hierarchies(v1) == [v1 / "cpu"]
    assert cgroups.cpu_hierarchies(v2) == [v2]
    assert cgroups.cpu_hierarchies(v1 / "nothing") == []
    group = cgroups.node_group("c", "node1")
    for root in (v1, v2):
        cgroups.create(group, root)
    assert (v1 / "memory/scavenger/nodes/c/node1").is_dir()
    assert (v2 / "scavenger/nodes/c/node1").is_dir()
    assert (v2 / "cgroup.subtree_control").read_text() == cgroups.V2_CONTROLLERS
    cgroups.kill(group, v1)
    cgroups.remove(cgroups.cluster_group("c"), v1)
    assert not (v1 / "memory/scavenger/nodes/c").exists()
    cgroups.remove(cgroups.cluster_group("nobody"), v1)
    cgroups.remove_empty(v1)
    assert not (v1 / "memory/scavenger").exists()
    assert (v1 / "memory").is_dir()


def test_frozen_groups_are_let_run_before_they_are_killed(tmp_path: Path) -> None:
    pod = tmp_path / "freezer" / "g" / "pod"
    pod.mkdir(parents=True)
    (pod / "freezer.state").write_text("FROZEN")
    (pod / "cgroup.freeze").write_text("1")
    with subprocess.Popen(["sleep", "60"]) as process:
        (pod / "cgroup.procs").write_text(f"{process.pid}\n")
        (tmp_path / "freezer" / "g" / "cgroup.procs").touch()
        reaper = threading.Thread(target=lambda: (process.wait(), (pod / "cgroup.procs").write_text("")))
        reaper.start()
        cgroups.kill("/g", tmp_path)
        reaper.join()
    assert process.returncode == -signal.SIGKILL
    assert (pod / "freezer.state").read_text() == "THAWED"
    assert (pod / "cgroup.freeze").read_text() == "0"


def test_who_does_not_die_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "KILL_SECONDS", 0.1)
    group = tmp_path / "cpu" / "g"
    group.mkdir(parents=True)
    with subprocess.Popen(["sleep", "60"]) as process:
        (group / "cgroup.procs").write_text(f"{process.pid}\n")  # a file that nobody clears
        with pytest.raises(ClusterError, match=rf"cgroup /g to die after 0.1 s: {process.pid} \(\S+, Z \(zombie\)\)"):
            cgroups.kill("/g", tmp_path)


def test_control_planes_have_as_much_claim_to_cpu_as_all_pods_together(v1: Path, v2: Path) -> None:
    for root, name, usual in ((v1 / "cpu", "cpu.shares", 1024), (v2, "cpu.weight", 100)):
        for group in ("scavenger/control", "scavenger/nodes/c/node1/system"):
            (root / group).mkdir(parents=True)
        for group in ("scavenger", "scavenger/control", "scavenger/nodes", "scavenger/nodes/c/node1/system"):
            (root / group / name).write_text("7")
        top = v1 if root == v1 / "cpu" else v2
        assert cgroups.ensure_control_group(top) == [root]
        cgroups.claim(cgroups.daemons_group("c", "node1"), cgroups.SYSTEM_SHARES, top)
        claims = {group: int((root / group / name).read_text()) for group in ("scavenger/control", "scavenger/nodes")}
        assert set(claims.values()) == {usual}
        assert (root / "scavenger" / name).read_text() == str(4 * usual)
        assert (root / "scavenger/nodes/c/node1/system" / name).read_text() == str(4 * usual)


def test_who_watches_a_cluster_is_among_the_control_planes_for_as_long(v1: Path) -> None:
    (v1 / "cpu/scavenger/control").mkdir(parents=True)
    (v1 / "cpu/cgroup.procs").touch()
    own = v1 / "cpu" / cgroups.own_group(v1 / "cpu", v1).strip("/")
    own.mkdir(parents=True, exist_ok=True)
    with cgroups.cpu_claim(v1):
        assert (v1 / "cpu/scavenger/control/cgroup.procs").read_text() == str(os.getpid())
    assert (own / "cgroup.procs").read_text() == str(os.getpid())
    assert not (v1 / "memory/scavenger").exists(), "memory is nobody's concern here"
    with cgroups.cpu_claim(v1 / "nothing"):
        pass


def test_a_group_that_cannot_be_joined_is_no_error(v1: Path) -> None:
    (v1 / "cpu/scavenger/control/cgroup.procs").mkdir(parents=True)
    with cgroups.cpu_claim(v1):
        pass


def test_a_program_is_started_inside_a_group(tmp_path: Path) -> None:
    folders = [tmp_path / controller for controller in ("cpu", "memory")]
    for folder in folders:
        (folder / "g").mkdir(parents=True)
        (folder / "g/cgroup.procs").touch()
    words = cgroups.joining("/g", ["echo", "it's  running"], folders)
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout == "it's  running\n"
    assert [(folder / "g/cgroup.procs").read_text() for folder in folders] == ["0\n", "0\n"]


def test_listening_sockets_are_found_in_the_kernels_table() -> None:
    table = (
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
        "   0: 0100007F:5208 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 111 1\n"
        "   1: 0100007F:5208 0100007F:A000 01 00000000:00000000 00:00000000 00000000     0        0 222 1\n"
    )
    assert ports.listening_inodes(21000, [table]) == ["111"]
    assert ports.listening_inodes(21001, [table]) == []


def test_networks_in_use_rule_out_slots() -> None:
    routes = [
        {"dst": "default", "dev": "eth0"},
        {"dst": "10.89.1.0/24", "dev": "podman1"},
        {"dst": "10.0.0.0/8", "dev": "tun0"},
        {"dst": "10.89.2.0/24", "dev": "mine"},
        {"dst": "fe80::/64", "dev": "eth0"},
    ]
    assert network.networks(routes, ignore="mine") == [ipaddress.IPv4Network("10.89.1.0/24")]


def test_mounts_below_a_folder_innermost_first() -> None:
    table = (
        "tmpfs /data tmpfs rw 0 0\ntmpfs /data/a\\040b/c tmpfs rw 0 0\n"
        "tmpfs /database tmpfs rw 0 0\nproc /proc proc rw 0 0\n"
    )
    assert teardown.mounts_below(Path("/data"), table) == [Path("/data/a b/c"), Path("/data")]


def test_a_folder_is_removed_whole_and_nothing_that_links_in_it_lead_to(tmp_path: Path) -> None:
    kept, node = tmp_path / "kept", tmp_path / "node"
    kept.mkdir()
    (kept / "file").write_text("mine")
    for number in range(40):
        layer = node / "snapshots" / str(number) / "fs" / "empty"
        layer.mkdir(parents=True)
        (layer.parent / "file").write_bytes(b"x")
        (layer.parent / "file").chmod(0)
        (layer.parent / "folder").symlink_to(kept)
        (layer.parent / "link").symlink_to(kept / "file")
    os.mkfifo(node / "fifo")
    teardown.remove_folder(node)
    teardown.remove_folder(node)  # which is gone
    assert list(tmp_path.iterdir()) == [kept]
    assert (kept / "file").read_text() == "mine"


def test_an_archive_is_reproducible_and_knows_its_name(tmp_path: Path) -> None:
    first, second = (oci_archive("localhost/x/y:1", b"layer", {"Entrypoint": ["/y"]}) for _ in range(2))
    assert first == second
    archive = tmp_path / "x.tar"
    archive.write_bytes(first)
    assert archive_names(archive) == ["localhost/x/y:1"]


def test_a_docker_archive_names_its_images_and_a_nameless_one_is_refused(tmp_path: Path) -> None:
    for name, tags in (("named", ["app:1", "app:2"]), ("nameless", None)):
        content = json.dumps([{"RepoTags": tags}]).encode()
        info = tarfile.TarInfo("manifest.json")
        info.size = len(content)
        with tarfile.open(tmp_path / name, "w") as tar:
            tar.addfile(info, io.BytesIO(content))
    assert archive_names(tmp_path / "named") == ["docker.io/library/app:1", "docker.io/library/app:2"]
    with pytest.raises(ClusterError, match="no image with a name"):
        archive_names(tmp_path / "nameless")


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("app", "docker.io/library/app:latest"),
        ("team/app:1", "docker.io/team/app:1"),
        ("localhost/app", "localhost/app:latest"),
        ("registry.example.org:5000/app:1", "registry.example.org:5000/app:1"),
    ],
)
def test_image_names_are_completed_as_the_kubelet_does(short: str, full: str) -> None:
    assert normalized(short) == full


def test_the_key_of_a_context_covers_what_a_build_sees(tmp_path: Path) -> None:
    file = tmp_path / "Containerfile"
    file.write_text("FROM x")
    (tmp_path / "a.py").write_text("1")
    keys = [context_key(tmp_path, file, {})]
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__/a.pyc").write_text("junk")
    assert context_key(tmp_path, file, {}) == keys[0]
    (tmp_path / "a.py").write_text("2")
    keys.append(context_key(tmp_path, file, {}))
    (tmp_path / "a.py").chmod(0o755)
    keys.append(context_key(tmp_path, file, {}))
    (tmp_path / "link").symlink_to("a.py")
    keys.append(context_key(tmp_path, file, {}))
    keys.append(context_key(tmp_path, file, {"VERSION": "2"}))
    assert len(set(keys)) == 5


def test_the_first_image_is_built_into_an_empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """buildah makes no folder for what it pushes, and on a new machine nothing else has made it before."""

    def buildah(*words: str) -> str:
        if words[0] == "push":
            Path(words[2].split(":")[1]).write_text("archive")
        return ""

    monkeypatch.setenv("SCAVENGER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(images, "_buildah", buildah)
    monkeypatch.setattr(images, "_base_image", lambda report: "base")
    context = tmp_path / "context"
    context.mkdir()
    (context / "Containerfile").write_text("FROM scratch")
    archive = images.build_image("a/b:1", context, lambda line: None)
    assert archive.parent == tmp_path / "cache/images"
    assert archive.read_text() == "archive"


def test_the_programs_are_pinned() -> None:
    for tool in TOOLS.values():
        text = (module_dir(tool.module) / "go.mod").read_text()
        assert tool.package.startswith("./") or tool.package in text
    assert go_numbers(needed_go((go_dir() / "go.mod").read_text())) >= (1, 26)
    assert go_numbers("go1.26.8") > go_numbers("1.26") > go_numbers("go1.19.8")


def test_another_version_of_kubernetes_brings_the_modules_that_go_with_it() -> None:
    theirs = """module k8s.io/kubernetes
go 1.24.0
require (
\tgithub.com/google/cel-go v0.23.2
\tk8s.io/api v0.0.0
)
replace (
\tk8s.io/api => ./staging/src/k8s.io/api
\tk8s.io/kms => ./staging/src/k8s.io/kms
)
"""
    assert other_version.go_mod(theirs, "1.26.4", "v1.33.13", ["k8s.io/kubernetes/cmd/kubelet"]).split("\n\n") == [
        "module scavenger.dev/cluster/kubernetes",
        "go 1.26.4",
        "tool k8s.io/kubernetes/cmd/kubelet",
        "require k8s.io/kubernetes v1.33.13",
        "replace k8s.io/api => k8s.io/api v0.33.13\nreplace k8s.io/kms => k8s.io/kms v0.33.13\n",
    ]


def test_a_version_of_kubernetes_is_asked_for_as_its_tags_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(other_version.VARIABLE, raising=False)
    assert other_version.chosen("v1.37.1") == "v1.37.1"
    monkeypatch.setenv(other_version.VARIABLE, "v1.33.13")
    assert other_version.chosen("v1.37.1") == "v1.33.13"
    for wrong in ("1.33.13", "v1.33", "latest"):
        monkeypatch.setenv(other_version.VARIABLE, wrong)
        with pytest.raises(ClusterError, match="SCAVENGER_KUBERNETES"):
            other_version.chosen("v1.37.1")


def test_what_the_scheduler_shares_with_the_other_programs_is_compiled_once() -> None:
    """Another version of a module, or of Go's language, and its packages would be compiled again for the scheduler."""

    def pinned(module: str) -> dict[str, str]:
        text = (module_dir(module) / "go.mod").read_text()
        modules = dict(re.findall(r"^\t(\S+) (v\S+)", text.partition("\nreplace (")[0], re.MULTILINE))
        replaced = dict(re.findall(r"^\t(\S+) => (\S+ v\S+)", text, re.MULTILINE))
        return modules | replaced | {"go": needed_go(text)}

    programs, scheduler = pinned("."), pinned("scheduler")
    shared = programs.keys() & scheduler.keys()
    assert len(shared) > 100
    assert {name: scheduler[name] for name in shared} == {name: programs[name] for name in shared}


def test_programs_are_called_as_go_calls_them() -> None:
    outputs = {tool.name: tool.output for tool in TOOLS.values()}
    assert outputs.pop("etcd") == "server"  # go.etcd.io/etcd/server/v3
    assert all(name == output for name, output in outputs.items())
    assert TOOLS["pause"].link_flags == "./pause=-s -w"
    assert "k8s.io/kubernetes/cmd/kubelet=-s -w -X k8s.io/component-base/version.gitVersion=v1." in str(
        TOOLS["kubelet"].link_flags
    )


def test_the_scheduler_is_built_anew_when_its_source_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "module_dir", lambda module: tmp_path / module)
    for name in ("go.mod", "go.sum", "cmd/scavenger-scheduler/main.go", "pkg/preemption/plugin.go"):
        file = tmp_path / "scheduler" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    tool, go = TOOLS["scavenger-scheduler"], build.Go("go", "go1.26.0")
    folders = [go.cached(tool)]
    (tmp_path / "scheduler/pkg/preemption/plugin_test.go").write_text("a test is not part of the program")
    assert go.cached(tool) == folders[0]
    for name in ("pkg/preemption/plugin.go", "cmd/scavenger-scheduler/main.go", "go.sum"):
        (tmp_path / "scheduler" / name).write_text("changed")
        folders.append(go.cached(tool))
    folders.append(build.Go("go", "go1.26.1").cached(tool))
    assert len(set(folders)) == 5
    assert {folder.name for folder in folders} == {"scavenger-scheduler"}


def test_snap_is_pinned_and_no_part_of_a_cluster() -> None:
    folder = module_dir(build.SNAPSHOT.module)
    assert build.SNAPSHOT.name not in TOOLS
    assert build.SNAPSHOT.output == build.SNAPSHOT.name
    assert (folder / build.SNAPSHOT.package / "main.go").is_file()
    assert re.search(r"^\tgvisor\.dev/gvisor v0\.0\.0-\d{14}-[0-9a-f]{12}$", (folder / "go.mod").read_text(), re.M)


def test_waiting_ends_with_the_value_or_names_what_it_waited_for() -> None:
    now = [0.0]
    values = iter([None, None, "here"])

    def sleep(seconds: float) -> None:
        now[0] += seconds

    assert wait_for("it", lambda: next(values), timeout=10, interval=1, clock=lambda: now[0], sleep=sleep) == "here"
    assert now[0] == 2
    with pytest.raises(WaitTimeoutError, match="the moon after 5 s"):
        wait_for("the moon", lambda: False, timeout=5, interval=1, clock=lambda: now[0], sleep=sleep)
    assert now[0] == 7
