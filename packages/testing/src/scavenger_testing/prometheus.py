"""How a test starts a Prometheus of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from scavenger_cluster.ports import any_free_port


def command(program: Path, configuration: dict[str, Any], folder: Path) -> tuple[list[str], str]:
    """What to run for a Prometheus with this configuration, which keeps its files in the folder; and its URL."""
    file = folder / "prometheus.yml"
    file.write_text(yaml.safe_dump(configuration))
    address = f"127.0.0.1:{any_free_port()}"
    words = [f"--config.file={file}", f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address={address}"]
    return [str(program), *words], f"http://{address}"
