"""A terminal beside the cluster."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scavenger_cluster import Cluster

from .conftest import ROOT, Helm


class Shell:
    """Pastes commands of a page, in the root of the repository, with the helm and the kubectl of the cluster.

    folder: for links to these, and a kubeconfig of its own, in which a namespace can be chosen.
    """

    def __init__(self, cluster: Cluster, helm: Helm, folder: Path) -> None:
        for name, program in (("helm", helm.program), ("kubectl", cluster.kubectl_command[0])):
            (folder / name).symlink_to(program)
        self.cluster = cluster
        self.helm = helm
        path = os.pathsep.join((str(folder), str(Path(sys.executable).parent), os.environ["PATH"]))
        self.environment = helm.environment | {
            "PATH": path,
            "KUBECONFIG": str(shutil.copy(cluster.kubeconfig, folder / "kubeconfig")),
            "KUBECACHEDIR": str(cluster.layout.kubectl_cache),
        }

    def paste(self, commands: str, *instead: tuple[str, str], folder: Path = ROOT) -> str:
        """Run them, and return what they print. instead: words of the page, and what stands for them here."""
        for word, meant in instead:
            assert word in commands, f"{word!r} is not in {commands!r}"
            commands = commands.replace(word, meant)
        started = time.monotonic()
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands],
            cwd=folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        self.cluster.report(f"{commands.strip()} … {time.monotonic() - started:.1f} s")
        assert done.returncode == 0, f"{commands}\n{done.stdout}{done.stderr}\n{self.helm.describe()}"
        return done.stdout

    @contextmanager
    def meanwhile(self, *command: str) -> Iterator[subprocess.Popen[str]]:
        """A command that goes on until it is interrupted, as by Ctrl-C."""
        with subprocess.Popen(command, env=self.environment, stdout=subprocess.PIPE, text=True) as process:
            try:
                yield process
            finally:
                process.send_signal(signal.SIGINT)
