"""What runs on a cluster follows from its state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scavenger_cluster import components
from scavenger_cluster.components import Components
from scavenger_cluster.layout import Layout
from scavenger_cluster.plan import ports_from
from scavenger_cluster.process import ProcessTable
from scavenger_cluster.state import ClusterState
from scavenger_cluster.storage import CLASS, storage_class


class Api:
    """Objects by path, as an API server has them."""

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {CLASS: storage_class(), "/other": {}}

    def delete(self, path: str) -> None:
        self.objects.pop(path, None)


def test_without_real_nodes_there_is_no_class_that_nobody_provisions_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Claims would wait for their volume for ever, and take the class of an earlier `up` for the default."""
    api = Api()
    monkeypatch.setattr(components.Components, "client", api)
    layout = Layout(tmp_path)
    state = ClusterState(name="test", slot=2, ports=ports_from(21040), bind_address="127.0.0.1", fake=3)
    Components(state, layout, ProcessTable(layout.run, layout.logs), lambda line: None).start_storage()
    assert set(api.objects) == {"/other"}
