"""The provisioner of the StorageClass of real nodes: a process of the cluster, with the administrator's rights.

python -m scavenger_cluster.provisioner DATA_FOLDER      run by `up` where there are real nodes
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from pathlib import Path
from typing import Final

from scavenger_kube.errors import ApiError

from scavenger_cluster.api import ApiClient
from scavenger_cluster.layout import Layout
from scavenger_cluster.state import ClusterState, load_state
from scavenger_cluster.storage import CLAIMS, VOLUMES, due, folders, name_of, node_of, released, volume_of

RETRY_SECONDS: Final = 1.0
RESYNC_SECONDS: Final = 60.0
WATCH_SECONDS: Final = 300


class Provisioner:
    """Brings folders and volumes to what the claims say. Whatever was done half, the next time does the rest."""

    def __init__(self, state: ClusterState, layout: Layout) -> None:
        self._layout = layout
        self._nodes = state.nodes.real_names
        self._client = ApiClient(state.server, layout.pki)
        self._changed = threading.Event()

    def run(self) -> None:
        """Work until the process ends."""
        for path in (CLAIMS, VOLUMES):
            threading.Thread(target=self._follow, args=(path,), daemon=True).start()
        while True:
            self._changed.wait(RESYNC_SECONDS)
            self._changed.clear()
            try:
                self.step()
            except ApiError as error:
                say(f"tried again: {error}")
                self._changed.set()
                time.sleep(RETRY_SECONDS)

    def step(self) -> None:
        """Provision what is due, and delete what was released. Raises ApiError."""
        for claim in due(self._client.get(CLAIMS)["items"], self._nodes):
            folder = folders(self._layout, node_of(claim)) / name_of(claim)
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o777)  # pods of any user may write to it, as to a new disk of the cloud with an fsGroup
            self._client.create_all(VOLUMES, [volume_of(claim, folder)])
            say(f"provisioned {claim['metadata']['namespace']}/{claim['metadata']['name']}: {folder}")
        for volume in released(self._client.get(VOLUMES)["items"]):
            folder = Path(volume["spec"]["local"]["path"])
            # Whoever may write PersistentVolumes could name any folder.
            if folder.name == volume["metadata"]["name"] and folder.parent in self._parents():
                shutil.rmtree(folder, ignore_errors=True)
            self._client.delete(f"{VOLUMES}/{volume['metadata']['name']}")
            say(f"deleted {folder}")

    def _parents(self) -> list[Path]:
        return [folders(self._layout, node) for node in self._nodes]

    def _follow(self, path: str) -> None:
        """Say when something of that path has changed: a watch begins with all there is."""
        while True:
            try:
                self._client.watch(path, self._changed.set, seconds=WATCH_SECONDS)
            except ApiError as error:
                say(f"watched again: {error}")
            time.sleep(RETRY_SECONDS)


def say(line: str) -> None:
    """One line of the log."""
    sys.stderr.write(f"{line}\n")


def main(data: Path) -> None:
    """Provision for the cluster that has its data there."""
    layout = Layout(data)
    state = load_state(layout.state)
    if state is None:
        raise SystemExit(f"{data} holds no cluster")
    Provisioner(state, layout).run()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
