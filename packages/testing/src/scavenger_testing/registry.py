"""A registry for what a test publishes, pulls or installs."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from scavenger_cluster.build import ensure_tools
from scavenger_cluster.ports import any_free_port
from scavenger_cluster.state import ANY_ADDRESS

from scavenger_testing.waiting import wait


@contextmanager
def serving(folder: Path, *addresses: str) -> Iterator[int]:
    """Run a registry without TLS, on the same port of each of these addresses of this machine; yield the port.

    Args:
        folder: where it keeps what is pushed; it must exist.
        addresses: at each of them it shows the same.
    """
    program = ensure_tools(["registry"], print)["registry"]
    port = any_free_port(ANY_ADDRESS)
    with ExitStack() as stack:
        for address in addresses:
            settings = folder / f"{address}.yaml"
            settings.write_text(json.dumps(_settings(folder, f"{address}:{port}")))
            log = stack.enter_context((folder / f"{address}.log").open("wb"))  # an error is also what it does not have
            words = [str(program), "serve", str(settings)]
            process = subprocess.Popen(words, env={"OTEL_TRACES_EXPORTER": "none"}, stdout=log, stderr=log)
            stack.callback(process.wait, timeout=20)
            stack.callback(process.terminate)
        for address in addresses:
            say = (folder / f"{address}.log").read_text
            wait("the registry to answer", partial(_answers, f"{address}:{port}"), describe=say)
        yield port


def _settings(folder: Path, address: str) -> dict[str, object]:
    return {
        "version": 0.1,
        "log": {"level": "error", "accesslog": {"disabled": True}},
        "storage": {"filesystem": {"rootdirectory": str(folder / "content")}},
        "http": {"addr": address},
    }


def _answers(address: str) -> bool:
    with urllib.request.urlopen(f"http://{address}/v2/", timeout=5):
        return True
