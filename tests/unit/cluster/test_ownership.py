"""Whose data folder it is: what `up` makes its own, what `down` deletes, and what neither ever touches."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from scavenger_cluster import (
    Cluster,
    ClusterError,
    MissingRequirementError,
    cgroups,
    network,
    ownership,
    ports,
    requirements,
)
from scavenger_cluster import cluster as cluster_module
from scavenger_cluster.layout import Layout
from scavenger_cluster.options import data_dir_of
from scavenger_cluster.process import Identity, ProcessTable, Program, mark, namesakes
from scavenger_cluster.state import ClusterState, Registry, write_json
from scavenger_cluster.waiting import wait_for

pytestmark = pytest.mark.slow

# Not that of another process: namesakes are looked for on the whole machine, and the next worker runs these tests too.
NAME = f"unit-owner-{os.getpid()}"


@pytest.fixture(autouse=True)
def _name_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests of this file may run beside each other, in forks of one process that has read it."""
    monkeypatch.setattr(sys.modules[__name__], "NAME", f"unit-owner-{os.getpid()}")


MARKER = ".scavenger-cluster"


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user of our own, on a machine without control groups and without Go: `up` ends after its decisions."""
    for variable, folder in (("HOME", "home"), ("XDG_STATE_HOME", "state"), ("SCAVENGER_CACHE", "cache")):
        monkeypatch.setenv(variable, str(tmp_path / folder))
    monkeypatch.setattr(cgroups, "ROOT", tmp_path / "no-cgroups")
    monkeypatch.setattr(network, "busy_slots", lambda name, slots: [])
    monkeypatch.setattr(network, "remove_network", lambda name: None)
    monkeypatch.setattr(ports, "is_free", lambda address, port: True)
    monkeypatch.setattr(requirements, "obstacles", lambda: ["not root"])
    monkeypatch.setattr(cluster_module, "ensure_tools", no_go)


def no_go(*_: object) -> None:
    raise MissingRequirementError("no Go here")


def bring_up(cluster: Cluster) -> None:
    """As far as it goes without Go: the folder is the cluster's own, and what it is to become is decided."""
    with pytest.raises(MissingRequirementError, match="no Go here"):
        cluster.up("none")


def contents(folder: Path) -> dict[str, str | None]:
    found = sorted(folder.rglob("*"))
    return {str(path.relative_to(folder)): path.read_text() if path.is_file() else None for path in found}


def no_marker(folder: Path) -> None:
    (folder / "thesis.txt").write_text("years of work")


def lock_of_somebody_else(folder: Path) -> None:
    (folder / "lock").write_text("not one of ours, which are empty")


def another_cluster(folder: Path) -> None:
    (folder / MARKER).write_text(json.dumps({"cluster": "another"}))


def another_user(folder: Path) -> None:
    (folder / MARKER).write_text(json.dumps({"cluster": NAME, "uid": os.geteuid() + 1}))


def broken_marker(folder: Path) -> None:
    (folder / MARKER).write_bytes(b"\xff")


def cluster_without_marker(folder: Path) -> None:
    ClusterState(name=NAME, slot=0, ports={}, bind_address="127.0.0.1").save(folder / "state.json")
    (folder / "lock").touch()


@pytest.mark.parametrize(
    "fill",
    [no_marker, lock_of_somebody_else, another_cluster, another_user, broken_marker, cluster_without_marker],
)
@pytest.mark.parametrize(
    "command",
    [Cluster.up, Cluster.down, lambda cluster: cluster.down(keep_data=True), lambda c: c.service_start("admitter")],
    ids=["up", "down", "keep", "service"],
)
def test_a_folder_of_somebody_else_stays_exactly_as_it_was(
    tmp_path: Path, fill: Callable[[Path], None], command: Callable[[Cluster], None]
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    fill(folder)
    before = folder.stat().st_mtime_ns, {path: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(ClusterError, match=rf"--data-dir {folder}\b"):
        command(Cluster(NAME, folder))
    assert (folder.stat().st_mtime_ns, {path: path.read_bytes() for path in folder.iterdir()}) == before


def test_nothing_of_a_folder_of_somebody_else_is_ended(tmp_path: Path) -> None:
    table = ProcessTable(tmp_path / "folder/run", tmp_path / "folder/logs")
    identity = table.start(Program("sleeper", ("sleep", "60"), {"PATH": os.environ["PATH"]}))
    try:
        with pytest.raises(ClusterError, match="--data-dir"):
            Cluster(NAME, tmp_path / "folder").down()
        assert identity.alive()
    finally:
        table.stop("sleeper", grace=0)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for command in (Cluster.up, Cluster.down):
        with pytest.raises(ClusterError, match=r"--data-dir .*not a folder"):
            command(Cluster(NAME, tmp_path / "file"))


@pytest.mark.parametrize("found", ["absent", "empty", "only a lock"])
def test_up_marks_a_new_or_empty_folder_and_down_deletes_it(tmp_path: Path, found: str) -> None:
    """Only a lock: an `up` that was killed when it had just made the folder."""
    folder = tmp_path / "deep/folder"
    if found != "absent":
        folder.mkdir(parents=True)
    if found == "only a lock":
        (folder / "lock").touch()
    cluster = Cluster(NAME, folder)
    bring_up(cluster)
    assert json.loads((folder / MARKER).read_text())["cluster"] == NAME
    (folder / "etcd/member").mkdir(parents=True)
    (folder / "etcd/link").symlink_to(tmp_path)
    (folder / "link").symlink_to(tmp_path)
    cluster.down()
    assert not folder.exists()
    assert cluster.registry.clusters() == {}
    assert tmp_path.is_dir()
    cluster.down()
    assert not folder.exists()


def test_up_that_fails_before_it_has_decided_anything_leaves_what_it_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ports, "is_free", lambda address, port: False)
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "empty", tmp_path / "a/b/c"):
        with pytest.raises(ClusterError, match="no room"):
            Cluster(NAME, folder).up("none")
    assert contents(tmp_path / "empty") == {}
    assert not (tmp_path / "a").exists()


def test_the_marker_is_there_before_anything_else_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[set[str]] = []

    def killed(*_: object) -> None:
        found.append(set(contents(tmp_path / "folder")))
        raise KeyboardInterrupt

    monkeypatch.setattr(cluster_module, "choose_nodes", killed)
    with pytest.raises(KeyboardInterrupt):
        Cluster(NAME, tmp_path / "folder").up()
    assert found == [{"lock", MARKER}]
    assert not (tmp_path / "folder").exists()


@pytest.mark.parametrize("found", ["absent", "empty", "only a lock", "lock and half a marker"])
def test_down_without_a_cluster_is_quiet_and_leaves_nothing(tmp_path: Path, found: str) -> None:
    folder = tmp_path / "deep/folder"
    if found != "absent":
        folder.mkdir(parents=True)
    if "lock" in found:
        (folder / "lock").touch()
    if "half" in found:
        (folder / f"{MARKER}.new").write_text("{")
    Cluster(NAME, folder).down()
    assert folder.exists() == (found == "empty")
    assert (tmp_path / "deep").exists() == (found != "absent")


def test_an_interrupted_down_can_be_called_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "folder"
    cluster = Cluster(NAME, folder)
    bring_up(cluster)
    (folder / "etcd/member").mkdir(parents=True)
    (folder / "pki").mkdir()
    delete, interruptions = shutil.rmtree, iter([True])

    def interrupted(path: Path) -> None:
        if next(interruptions, False):
            raise KeyboardInterrupt
        delete(path)

    monkeypatch.setattr(shutil, "rmtree", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cluster.down()
    assert (folder / MARKER).exists()
    with pytest.raises(ClusterError, match=rf"--name {NAME}"):
        Cluster("other", folder).down()
    Cluster(NAME).down()
    assert not folder.exists()


@pytest.mark.parametrize("unlinked", ["lock", MARKER])
def test_a_down_interrupted_at_the_very_end_can_be_called_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unlinked: str
) -> None:
    folder = tmp_path / "folder"
    cluster = Cluster(NAME, folder)
    bring_up(cluster)
    unlink = Path.unlink

    def killed(path: Path, missing_ok: bool = False) -> None:
        if path == folder / unlinked:
            raise KeyboardInterrupt
        unlink(path, missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", killed)
        with pytest.raises(KeyboardInterrupt):
            cluster.down()
    assert folder.exists()
    cluster.down()
    assert not folder.exists()


def test_kept_data_keeps_the_marker(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    cluster = Cluster(NAME, folder)
    bring_up(cluster)
    (folder / "etcd").mkdir()
    (folder / "logs").mkdir()
    cluster.down(keep_data=True)
    assert {path.name for path in folder.iterdir()} == {MARKER, "lock", "etcd", "state.json"}
    bring_up(cluster)
    cluster.down()
    assert not folder.exists()


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "disk")
    cluster = Cluster(NAME, link)
    bring_up(cluster)
    assert cluster.data_dir == tmp_path / "disk"
    assert (tmp_path / "disk" / MARKER).exists()
    Cluster(NAME, link).down()
    assert not (tmp_path / "disk").exists()
    Cluster(NAME, link).down()
    assert not (tmp_path / "disk").exists()


def test_a_name_belongs_to_one_folder_however_it_is_written(tmp_path: Path) -> None:
    registry = Registry(tmp_path / "clusters.json")
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    registry.add("c", tmp_path / "link", 0)
    for given in (None, tmp_path / "link", tmp_path / "disk", tmp_path / "x/../disk"):
        assert data_dir_of("c", given, registry, tmp_path / "default") == tmp_path / "disk"
    with pytest.raises(ClusterError, match=rf"already exists in {tmp_path / 'link'}.*--data-dir {tmp_path / 'there'}"):
        data_dir_of("c", tmp_path / "there", registry, tmp_path / "default")


@pytest.mark.parametrize("folder", ["home", ".", "state", "state/scavenger", "cache"])
def test_what_holds_more_than_a_cluster_is_never_its_folder(tmp_path: Path, folder: str) -> None:
    """Even when it is empty, or somebody put a marker there."""
    (tmp_path / "home").mkdir()
    given = tmp_path / folder
    for marked in (False, True):
        if marked:
            write_json(given / MARKER, {"cluster": NAME})
        before = contents(tmp_path)
        for command in (Cluster.up, Cluster.down):
            with pytest.raises(ClusterError, match="--data-dir"):
                command(Cluster(NAME, given))
        assert contents(tmp_path) == before


def test_the_root_folder_is_never_a_clusters() -> None:
    """Asked of the one who decides, which changes nothing: a `down` that fails this test would be the last one."""
    with pytest.raises(ClusterError, match="--data-dir /: "):
        ownership.check(Layout(Path("/")), NAME)


def test_a_folder_inside_that_of_another_cluster_is_refused(tmp_path: Path) -> None:
    """The `down` of the one would delete the other."""
    outer = Cluster(NAME, tmp_path / "outer")
    bring_up(outer)
    before = contents(tmp_path / "outer")
    with pytest.raises(ClusterError, match=rf"--data-dir {tmp_path / 'outer/a/b'}\b"):
        Cluster("inner", tmp_path / "outer/a/b").up("none")
    assert contents(tmp_path / "outer") == before


def test_what_is_mounted_in_the_folder_is_not_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "folder"
    cluster = Cluster(NAME, folder)
    bring_up(cluster)
    (folder / "disk").mkdir()
    (folder / "disk/thesis.txt").write_text("years of work")
    table = tmp_path / "mounts"
    table.write_text(f"/dev/sdb1 {folder}/disk ext4 rw 0 0\n")
    monkeypatch.setattr("scavenger_cluster.teardown.MOUNTS", table)
    with pytest.raises(ClusterError, match=f"{folder}/disk"):
        cluster.down()
    assert (folder / "disk/thesis.txt").exists()
    assert (folder / MARKER).exists()


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Identity]:
    """A part of a real node of a cluster of this name, whose folder is another one."""
    table = ProcessTable(tmp_path / "run", tmp_path / "logs")
    env = {"PATH": os.environ["PATH"], **mark(NAME, tmp_path / "elsewhere", "node1/containerd")}
    identity = table.start(Program("sleeper", ("sleep", "60"), env))
    # For as long as `env` is becoming `sleep` the kernel shows no environment, and so no mark.
    wait_for("it sleeps", lambda: Path(f"/proc/{identity.pid}/cmdline").read_bytes().startswith(b"sleep"), timeout=20)
    yield identity
    table.stop("sleeper", grace=0)


def test_a_namesake_is_seen(tmp_path: Path, elsewhere: Identity) -> None:
    def is_part_of_a_node(component: str) -> bool:
        return component.startswith("node")

    assert elsewhere.alive()
    assert namesakes(NAME, tmp_path / "here", component=is_part_of_a_node) == [tmp_path / "elsewhere"]
    assert namesakes(NAME, tmp_path / "here", component=lambda component: component == "etcd") == []
    assert namesakes(NAME, tmp_path / "elsewhere") == []
    assert namesakes("unit-nobody", tmp_path / "here") == []


@pytest.mark.skipif(os.geteuid() != 0, reason="without root there are no control groups to kill")
def test_down_ends_nothing_of_a_namesake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: Identity) -> None:
    """Control groups and networks are named after the cluster alone."""
    removed: list[str] = []
    monkeypatch.setattr(network, "remove_network", removed.append)
    root = tmp_path / "cgroup"
    monkeypatch.setattr(cgroups, "ROOT", root)
    monkeypatch.setattr(cgroups, "hierarchies", lambda *_: [root])
    group = root / cgroups.node_group(NAME, "node1").strip("/")
    group.mkdir(parents=True)
    (group / "cgroup.procs").write_text(f"{elsewhere.pid}\n")
    Cluster(NAME, tmp_path / "here").down()
    assert elsewhere.alive()
    assert group.is_dir()
    assert removed == []


def test_real_nodes_beside_those_of_a_namesake_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: Identity
) -> None:
    monkeypatch.setattr(requirements, "obstacles", list)
    monkeypatch.setattr(requirements, "missing_node_packages", list)
    with pytest.raises(ClusterError, match=rf"--name {NAME}\b.*{tmp_path / 'elsewhere'}"):
        Cluster(NAME, tmp_path / "here").up("real")
    assert not (tmp_path / "here").exists()
    assert elsewhere.alive()


def test_off_linux_up_says_so_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    cluster = Cluster(NAME, tmp_path / "folder")
    with pytest.raises(MissingRequirementError, match=r"Linux only.*docker-compose\.kind\.yml"):
        cluster.up()
    cluster.down()
    assert not (tmp_path / "folder").exists()
    write_json(tmp_path / "folder" / MARKER, {"cluster": NAME})
    with pytest.raises(MissingRequirementError, match="Linux only"):
        cluster.down()
    assert (tmp_path / "folder" / MARKER).exists()


def test_off_linux_there_is_help() -> None:
    """As on macOS, which has no /proc, no /sys and not all signals."""
    program = """
import signal, sys
def no_linux(event, arguments):
    if event == "open" and str(arguments[0]).startswith(("/proc", "/sys/")):
        raise FileNotFoundError(arguments[0])
del signal.sigtimedwait
sys.addaudithook(no_linux)
from scavenger_cluster.cli import main
main(["--help"])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "A real Kubernetes on this machine" in done.stdout
