"""The control plane and fake nodes: needs no rights, only the built programs."""

from __future__ import annotations

import json
import signal
import socket
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from scavenger_cluster import Cluster, ClusterError, CommandError, PortBusyError, wait_for
from scavenger_cluster.cli import main
from scavenger_cluster.errors import ComponentFailedError
from scavenger_cluster.ports import is_free
from scavenger_cluster.process import identify
from scavenger_cluster.services import responds

from .traces import traces, untouched

pytestmark = pytest.mark.timeout(600)

# The usual grace of 50 s is long to wait for in a test; much less, and nodes whose lease kwok renews every 10 s go.
QUICK = {"kcm": ["--node-monitor-grace-period=30s", "--node-monitor-period=1s"]}


@pytest.fixture(scope="module")
def fakes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster("it-fakes", tmp_path_factory.mktemp("cluster") / "fakes")
    cluster.up("fake:4", fake_cpu="4", fake_memory="8Gi", fake_pods=50, arguments=QUICK)
    yield cluster
    cluster.down()
    assert not any(traces(cluster).values())


def pod(name: str, *, finalizers: list[str] | None = None, **annotations: str) -> str:
    prefix = "kwok.scavenger.dev/"
    notes = {prefix + key.replace("_", "-"): value for key, value in annotations.items()}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "annotations": notes, "finalizers": finalizers or []},
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 2,
                "containers": [{"name": "main", "image": "none"}],
            },
        }
    )


def get(cluster: Cluster, kind: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(cluster.kubectl("get", kind, name, "-o", "json"))
    return found


def phase(cluster: Cluster, name: str) -> str:
    return str(get(cluster, "pod", name)["status"].get("phase"))


def reaches(cluster: Cluster, name: str, wanted: str, timeout: float = 120) -> None:
    wait_for(f"{name} to be {wanted}", lambda: phase(cluster, name) == wanted, timeout=timeout)


def gone(cluster: Cluster, name: str) -> Callable[[], bool]:
    return lambda: not cluster.kubectl("get", "pod", name, "--ignore-not-found")


def pids(cluster: Cluster) -> dict[str, int | None]:
    return {part.name: part.pid for part in cluster.status()}


def test_fake_nodes_have_the_size_asked_for(fakes: Cluster) -> None:
    node = get(fakes, "node", "fake-004")
    assert node["status"]["allocatable"]["cpu"] == "4"
    assert node["status"]["allocatable"]["memory"] == "8Gi"
    assert node["status"]["allocatable"]["pods"] == "50"
    assert not node["spec"].get("taints")


def test_a_job_on_fake_nodes_runs_until_its_time_is_over(fakes: Cluster) -> None:
    template = json.loads(pod("unused", run_seconds="2"))
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "two-seconds"},
        "spec": {
            "template": {
                "metadata": {"annotations": template["metadata"]["annotations"]},
                "spec": template["spec"],
            }
        },
    }
    fakes.apply(json.dumps(job))
    fakes.kubectl("wait", "--for=condition=Complete", "job/two-seconds", "--timeout=110s")


def test_a_pod_stays_running_unless_told_otherwise_and_can_fail(fakes: Cluster) -> None:
    fakes.apply(pod("stays"))
    reaches(fakes, "stays", "Running")
    fakes.apply(pod("fails", run_seconds="1", exit_code="3"))
    reaches(fakes, "fails", "Failed")
    ended = get(fakes, "pod", "fails")["status"]["containerStatuses"][0]["state"]["terminated"]
    assert ended["exitCode"] == 3
    assert phase(fakes, "stays") == "Running"
    fakes.kubectl("delete", "pod", "stays", "fails", "--wait=false")


def test_a_deleted_pod_fails_first_and_goes_when_nobody_holds_it(fakes: Cluster) -> None:
    fakes.apply(pod("held", finalizers=["test.scavenger.dev/hold"]))
    reaches(fakes, "held", "Running")
    fakes.kubectl("delete", "pod", "held", "--wait=false")
    reaches(fakes, "held", "Failed")
    found = get(fakes, "pod", "held")
    ended = found["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"]
    assert ended >= found["metadata"]["deletionTimestamp"], "it had its grace time"
    fakes.kubectl("patch", "pod", "held", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    wait_for("the pod to go", gone(fakes, "held"), timeout=120)


def test_a_pod_may_exit_cleanly_when_stopped(fakes: Cluster) -> None:
    hold = ["test.scavenger.dev/hold"]
    fakes.apply(pod("polite", finalizers=hold, stop_seconds="1", stop_exit_code="0"))
    reaches(fakes, "polite", "Running")
    fakes.kubectl("delete", "pod", "polite", "--wait=false")
    reaches(fakes, "polite", "Succeeded")
    fakes.kubectl("patch", "pod", "polite", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')


def test_up_again_keeps_what_runs(fakes: Cluster) -> None:
    before = pids(fakes)
    fakes.up()
    assert pids(fakes) == before


def test_up_after_a_crash_starts_what_died_and_keeps_the_data(fakes: Cluster) -> None:
    fakes.kubectl("create", "namespace", "survivor")
    before = pids(fakes)
    for component in ("etcd", "kube-apiserver", "kwok"):
        fakes.component_kill(component)
    assert {part.name for part in fakes.status() if part.state == "dead"} == {"etcd", "kube-apiserver", "kwok"}
    fakes.up()
    after = pids(fakes)
    assert all(after.values())
    assert after["kube-scheduler"] == before["kube-scheduler"]
    assert "survivor" in fakes.kubectl("get", "namespaces")


def test_without_the_scheduler_pods_wait(fakes: Cluster) -> None:
    fakes.component_stop("scheduler")
    fakes.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=110s")
    fakes.apply(pod("waits"))
    assert phase(fakes, "waits") == "Pending"
    assert not get(fakes, "pod", "waits")["spec"].get("nodeName")
    fakes.component_start("scheduler")
    reaches(fakes, "waits", "Running")


def test_the_scheduler_has_the_plugin_unless_it_is_to_be_as_it_comes(fakes: Cluster) -> None:
    def program() -> str:
        identity = fakes.processes.running("kube-scheduler")
        assert identity is not None
        return Path(Path(f"/proc/{identity.pid}/cmdline").read_text().partition("\0")[0]).name

    assert program() == "scavenger-scheduler"
    fakes.up(scheduler="stock")
    assert program() == "kube-scheduler"
    fakes.apply(pod("by-stock"))
    reaches(fakes, "by-stock", "Running")
    fakes.up()
    assert program() == "kube-scheduler"
    with pytest.raises(ComponentFailedError, match=r"(?s)kube-scheduler.*nonPreemptableWait"):
        fakes.use_scheduler("plugin", {"nonPreemptableWait": "1s"})
    fakes.use_scheduler("plugin", {})
    assert program() == "scavenger-scheduler"
    fakes.apply(pod("by-plugin"))
    reaches(fakes, "by-plugin", "Running")
    fakes.component_kill("scheduler")
    fakes.component_start("scheduler")
    assert program() == "scavenger-scheduler"


@pytest.mark.long
def test_a_fake_node_can_die_and_come_back(fakes: Cluster) -> None:
    fakes.node_stop("fake-002")
    fakes.kubectl("wait", "--for=condition=Ready=Unknown", "node/fake-002", "--timeout=110s")
    fakes.node_start("fake-002")
    assert "NotReady" not in fakes.kubectl("get", "node", "fake-002")


@pytest.mark.long
def test_fewer_nodes_and_more(fakes: Cluster) -> None:
    fakes.up("fake:60")
    assert len(fakes.kubectl("get", "nodes", "-o", "name").split()) == 60
    fakes.up("fake:4")
    assert len(fakes.kubectl("get", "nodes", "-o", "name").split()) == 4


SERVER = """
import http.server, os, sys

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"{os.environ['KUBECONFIG']} {os.environ['EXTRA']}".encode())

print("serving", flush=True)
address = (os.environ["SCAVENGER_HEALTH_ADDRESS"], int(os.environ["SCAVENGER_HEALTH_PORT"]))
http.server.HTTPServer(address, Handler).serve_forever()
"""


def test_services_run_under_their_own_account_and_side_by_side(fakes: Cluster) -> None:
    with pytest.raises(ClusterError, match="ServiceAccount scavenger-system/scavenger-tester"):
        fakes.service_start("tester")
    fakes.kubectl("create", "namespace", "scavenger-system")
    fakes.kubectl("create", "serviceaccount", "scavenger-tester", "--namespace=scavenger-system")
    command = [sys.executable, "-c", SERVER]
    first = fakes.service_start("tester", environment={"EXTRA": "1"}, command=command)
    second = fakes.service_start("tester", instance=2, environment={"EXTRA": "2"}, command=command)
    answers = []
    for service in (first, second):
        with urllib.request.urlopen(f"{service.url}/healthz") as response:
            answers.append(response.read().decode().split())
    assert [extra for _, extra in answers] == ["1", "2"]
    config = Path(answers[0][0])
    assert config.stat().st_mode & 0o077 == 0
    who = fakes.kubectl(f"--kubeconfig={config}", "auth", "whoami")
    assert "system:serviceaccount:scavenger-system:scavenger-tester" in who
    again = fakes.service_start("tester", environment={"EXTRA": "1"}, command=command)
    assert again.pid == first.pid
    fakes.service_stop("tester", instance=2, grace=0)
    with pytest.raises(ClusterError, match="not running"):
        fakes.service("tester", instance=2)
    assert fakes.service("tester").pid == first.pid
    assert "serving" in fakes.service_logs("tester")
    fakes.service_stop("tester")
    assert identify(first.pid) is None


def test_a_service_that_ends_shows_the_end_of_its_log(fakes: Cluster) -> None:
    fakes.kubectl("create", "serviceaccount", "scavenger-broken", "--namespace=scavenger-system")
    command = [sys.executable, "-c", "raise SystemExit('out of cheese')"]
    with pytest.raises(ClusterError, match="out of cheese"):
        fakes.service_start("broken", command=command)


def test_a_service_that_is_killed_comes_back_and_one_that_is_stopped_stays_away(
    fakes: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    fakes.kubectl("create", "serviceaccount", "scavenger-phoenix", "--namespace=scavenger-system")
    process, command = "service/phoenix", [sys.executable, "-c", SERVER]
    first = fakes.service_start("phoenix", environment={"EXTRA": "1"}, command=command)
    assert first.restarts == 0
    fakes.service_kill("phoenix")
    wait_for("another process", lambda: pids(fakes)[process] not in (None, first.pid), timeout=120)
    again = fakes.service("phoenix")
    assert (again.port, again.restarts) == (first.port, 1)
    wait_for("it to answer", lambda: responds(f"{again.url}/healthz"), timeout=120)
    counted = {part.name: part.restarts for part in fakes.status()}
    assert (counted[process], counted["etcd"]) == (1, None)
    assert main(["--name", fakes.name, "status"]) == 0
    assert "RESTARTS" in capsys.readouterr().out
    assert "supervisor: ended by signal 9 (Killed), starting again in 1 s" in fakes.service_logs("phoenix")
    kept = fakes.service_start("phoenix", environment={"EXTRA": "1"}, command=command)
    assert (kept.pid, kept.restarts) == (again.pid, 1)
    supervisor = fakes.processes.leader(process)
    assert supervisor is not None
    fakes.service_stop("phoenix")
    assert not supervisor.alive(), "nobody is left to start it again"
    assert identify(again.pid) is None
    assert process not in pids(fakes)


@pytest.mark.long
def test_two_clusters_live_side_by_side(fakes: Cluster, tmp_path: Path) -> None:
    other = Cluster("it-other", tmp_path / "other")
    try:
        other.up("none")
        assert set(other.state.ports.values()).isdisjoint(fakes.state.ports.values())
        assert other.state.slot != fakes.state.slot
        other.kubectl("create", "namespace", "only-here")
        with pytest.raises(CommandError, match="not found"):
            fakes.kubectl("get", "namespace", "only-here")
    finally:
        other.down()
    wait_for("the other to be ready", fakes.client.ready, timeout=120)
    assert not any(traces(other).values())


def test_a_busy_port_is_named_with_its_holder_and_the_option(tmp_path: Path) -> None:
    cluster = Cluster("it-busy", tmp_path / "busy")
    # Below those that the kernel gives to connections: of these the next one may be taken by anybody.
    port = next(base for base in range(25_000, 32_000, 20) if all(is_free("0.0.0.0", base + n) for n in range(10)))
    with socket.create_server(("127.0.0.1", port)), pytest.raises(PortBusyError) as refusal:
        cluster.up("none", port_base=port)
    message = str(refusal.value)
    assert f"port {port}" in message
    assert "--port-base" in message
    assert "pytest" in message or "python" in message
    assert not any(traces(cluster).values())


@pytest.mark.long
def test_a_component_that_cannot_start_shows_the_end_of_its_log(tmp_path: Path) -> None:
    cluster = Cluster("it-broken", tmp_path / "broken")
    try:
        with pytest.raises(ClusterError, match=r"kube-apiserver ended\n.*kube-apiserver.log[\s\S]*no-such-flag"):
            cluster.up("none", arguments={"apiserver": ["--no-such-flag"]})
    finally:
        cluster.down()


@pytest.mark.long
def test_down_after_a_crash_with_half_of_it_missing(tmp_path: Path) -> None:
    before = untouched()
    cluster = Cluster("it-crash", tmp_path / "crash")
    cluster.up("fake:1")
    cluster.component_kill("kube-apiserver")
    for file in (*cluster.layout.run.iterdir(), cluster.layout.state):
        file.unlink()
    assert traces(cluster)["processes"]
    cluster.down()
    assert not any(traces(cluster).values())
    cluster.down()
    assert not any(traces(cluster).values())
    assert untouched() == before


@pytest.mark.long
def test_kept_data_is_there_after_the_next_up(tmp_path: Path) -> None:
    cluster = Cluster("it-kept", tmp_path / "kept")
    try:
        cluster.up("none")
        cluster.kubectl("create", "namespace", "kept")
        cluster.down(keep_data=True)
        assert not traces(cluster)["processes"]
        cluster.up()
        assert "kept" in cluster.kubectl("get", "namespaces")
    finally:
        cluster.down()


def test_a_recycled_pid_is_never_killed(fakes: Cluster) -> None:
    """A pid file whose start time is not that of the process with this pid belongs to nobody."""
    record = fakes.layout.run / "stranger.json"
    mine = identify(1)
    assert mine is not None
    fields = {"pid": 1, "start_ticks": mine.start_ticks + 1, "boot_id": mine.boot_id}
    record.write_text(json.dumps({"name": "stranger", "digest": "", **fields}))
    assert fakes.processes.running("stranger") is None
    fakes.component_kill("stranger")
    fakes.processes.stop("stranger")
    assert not record.exists()


def test_the_command_line(fakes: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--name", fakes.name, "kubeconfig"]) == 0
    assert capsys.readouterr().out.strip() == str(fakes.kubeconfig)
    assert main(["--name", fakes.name, "status"]) == 0
    out = capsys.readouterr().out
    assert "kube-apiserver" in out
    assert "running" in out
    assert main(["--name", "it-nobody", "status"]) == 1
    assert "there is no cluster it-nobody" in capsys.readouterr().err
    assert main(["--name", "it-nobody", "down"]) == 0


def test_interrupting_leaves_other_processes_alone(fakes: Cluster) -> None:
    """Components have a session of their own: Ctrl-C in the terminal that ran `up` does not reach them."""
    identity = fakes.processes.running("kube-scheduler")
    assert identity is not None
    fields = Path(f"/proc/{identity.pid}/stat").read_text().rpartition(")")[2].split()
    session = int(fields[3])
    assert session == identity.pid
    assert signal.SIGINT  # what a terminal sends to its own session only
