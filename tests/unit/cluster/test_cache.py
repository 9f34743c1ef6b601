"""What builds leave in the cache: said, and removed, and nothing else with it."""

from __future__ import annotations

from pathlib import Path

import pytest
from scavenger_cluster import cache
from scavenger_cluster.state import Registry


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SCAVENGER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "cache"


def built(folder: Path) -> None:
    for name in ("bin/0123/kubelet", "images/a.tar", "gate.json"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x" * 100_000)


def test_it_says_how_much_is_where_and_how_it_goes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cache.describe() == f"nothing that was built is in {folder}"
    built(folder)
    assert set(cache.sizes()) == {"bin", "images"}
    assert all(used >= 100_000 for used in cache.sizes().values())
    assert f"stays in {folder} (0.0 GB)" in cache.describe()
    assert "make clean-cache" in cache.describe()
    assert cache.main([]) == 0
    assert "programs of Kubernetes" in capsys.readouterr().out


def test_it_removes_what_builds_make_again_and_keeps_the_rest(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    built(folder)
    assert cache.main(["--clear"]) == 0
    assert {path.name for path in folder.iterdir()} - set(cache.LOCKS) == {"gate.json"}
    assert f"GB from {folder}" in capsys.readouterr().out


def test_it_removes_nothing_while_a_cluster_runs_it(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    built(folder)
    (tmp_path / "data").mkdir()
    (tmp_path / "state" / "scavenger").mkdir(parents=True)
    Registry(tmp_path / "state" / "scavenger" / "clusters.json").add("mine", tmp_path / "data", 0)
    assert cache.main(["--clear"]) == 1
    assert "mine" in capsys.readouterr().err
    assert (folder / "bin/0123/kubelet").exists()
