"""What the provisioner does on the disk: folders of claims, and no others, whatever a volume says."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import pytest
from scavenger_cluster.api import ApiClient
from scavenger_cluster.layout import Layout
from scavenger_cluster.plan import ports_from
from scavenger_cluster.provisioner import Provisioner
from scavenger_cluster.state import ClusterState
from scavenger_cluster.storage import CLAIMS, SELECTED_NODE, STORAGE, VOLUMES, volume_of

Object = dict[str, Any]


class Api:
    """Claims and volumes, as an API server has them."""

    def __init__(self) -> None:
        self.objects: dict[str, list[Object]] = {CLAIMS: [], VOLUMES: []}

    def get(self, path: str) -> Object:
        return {"items": list(self.objects[path])}

    def create_all(self, path: str, bodies: Iterable[Object]) -> None:
        known = {one["metadata"]["name"] for one in self.objects[path]}
        self.objects[path] += [body for body in bodies if body["metadata"]["name"] not in known]

    def delete(self, path: str) -> None:
        kind, _, name = path.rpartition("/")
        self.objects[kind] = [one for one in self.objects[kind] if one["metadata"]["name"] != name]


def claim(uid: str) -> Object:
    return {
        "metadata": {"name": uid, "namespace": "n", "uid": uid, "annotations": {SELECTED_NODE: "node1"}},
        "spec": {
            "storageClassName": STORAGE,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "data")


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def provisioner(layout: Layout, api: Api, monkeypatch: pytest.MonkeyPatch) -> Provisioner:
    monkeypatch.setattr("scavenger_cluster.provisioner.ApiClient", lambda server, pki: cast(ApiClient, api))
    state = ClusterState(name="test", slot=2, ports=ports_from(21040), bind_address="127.0.0.1", real=1)
    return Provisioner(state, layout)


def test_a_claim_gets_one_folder_that_goes_with_it(provisioner: Provisioner, api: Api, layout: Layout) -> None:
    api.objects[CLAIMS] = [claim("1")]
    provisioner.step()
    provisioner.step()  # before the claim is bound
    (volume,) = api.objects[VOLUMES]
    folder = Path(volume["spec"]["local"]["path"])
    assert folder == layout.node("node1") / "volumes" / "pvc-1"
    assert folder.stat().st_mode & 0o777 == 0o777
    (folder / "state").write_text("saved")

    api.objects[CLAIMS] = []
    provisioner.step()
    assert (folder / "state").exists()  # as long as the API server says nothing of its end
    volume["status"] = {"phase": "Released"}
    provisioner.step()
    assert not folder.exists()
    assert api.objects[VOLUMES] == []


@pytest.mark.parametrize("named", ["{other}/pvc-1", "{data}/nodes/node1/volumes", "{data}/nodes/node1/volumes/pvc-2"])
def test_no_other_folder_is_deleted(
    provisioner: Provisioner, api: Api, layout: Layout, tmp_path: Path, named: str
) -> None:
    others = [tmp_path / "other" / "pvc-1", layout.node("node1") / "volumes" / "pvc-2"]
    for folder in others:
        folder.mkdir(parents=True)
    volume = volume_of(claim("1"), Path(named.format(other=tmp_path / "other", data=layout.root)))
    api.objects[VOLUMES] = [{**volume, "status": {"phase": "Released"}}]
    provisioner.step()
    assert api.objects[VOLUMES] == []
    assert all(folder.is_dir() for folder in others)


def test_of_a_link_only_the_link_could_go(provisioner: Provisioner, api: Api, layout: Layout, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    folder = layout.node("node1") / "volumes" / "pvc-1"
    folder.mkdir(parents=True)
    (folder / "link").symlink_to(tmp_path / "other")
    api.objects[VOLUMES] = [{**volume_of(claim("1"), folder), "status": {"phase": "Released"}}]
    (tmp_path / "other" / "file").touch()
    provisioner.step()
    assert not folder.exists()
    assert (tmp_path / "other" / "file").exists()
