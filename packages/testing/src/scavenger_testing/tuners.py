"""Tuners as processes of a test, with the rights of their service account and no more."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import yaml
from scavenger_cluster.waiting import KILL_SECONDS

from scavenger_testing.waiting import TIMEOUT

MANIFESTS: Final = Path(__file__).resolve().parents[4] / "demo-apps" / "tuner" / "manifests"
SETTINGS: Final[Mapping[str, str]] = {
    "claim-period": "500ms",
    "claim-ttl": "4s",
    "follow-period": "2s",
    "too-large-after": "0s",
    "health-address": "127.0.0.1",
    "health-port": "0",
}
"""Shorter waits than the defaults, so that a test of them takes seconds."""


def as_somebody(kubeconfig: Path, target: Path, user: str, *groups: str) -> Path:
    """A kubeconfig for acting as that account."""
    found = yaml.safe_load(kubeconfig.read_text())
    for entry in found["users"]:
        entry["user"].update({"as": user, **({"as-groups": list(groups)} if groups else {})})
    target.write_text(json.dumps(found))
    return target


def rights_in(rendered: str, namespace: str) -> str:
    """What the manifests of the tuner, rendered by kustomize, give its service account, for another namespace."""
    kinds = ("ServiceAccount", "Role", "RoleBinding")
    wanted = [each for each in yaml.safe_load_all(rendered) if each["kind"] in kinds]
    for each in wanted:
        each["metadata"]["namespace"] = namespace
        for subject in each.get("subjects", ()):
            subject["namespace"] = namespace
    assert len(wanted) == len(kinds)
    return yaml.safe_dump_all(wanted)


class Tuners:
    """Tuners as processes. `folder` holds their logs, and in `work` what they share with their jobs."""

    def __init__(
        self, kubeconfig: Path, namespace: str, folder: Path, url: str, settings: Mapping[str, str] | None = None
    ) -> None:
        """`settings`: flags by name, beside SETTINGS."""
        user = f"system:serviceaccount:{namespace}:tuner"
        self._folder = folder
        self._options = {
            **SETTINGS,
            "kubeconfig": str(as_somebody(kubeconfig, folder / "tuner", user)),
            "namespace": namespace,
            "folder": str(folder / "work"),
            "database-url": url,
            **(settings or {}),
        }
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, settings: Mapping[str, str] | None = None) -> None:
        """Start one under that name, which no other has had. settings: flags that it has in the place of others'."""
        flags = [f"--{key}={value}" for key, value in {**self._options, **(settings or {})}.items()]
        with self._log(name).open("wb") as log:
            self.running[name] = subprocess.Popen(
                [sys.executable, "-m", "scavenger_tuner", "run", f"--identity={name}", *flags],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def at_work(self, name: str) -> bool:
        """Whether it follows the cluster, and so would stop in good order when told to."""
        return '"synced"' in self._log(name).read_text(errors="replace")

    def has_claimed(self, name: str) -> bool:
        """Whether it has ever taken a configuration."""
        return '"claimed"' in self._log(name).read_text(errors="replace")

    def kill(self, name: str) -> None:
        """Kill one that runs with SIGKILL."""
        process = self.running.pop(name)
        assert process.poll() is None, self.logs()
        process.send_signal(signal.SIGKILL)
        process.wait(KILL_SECONDS)

    def stop(self) -> list[int]:
        """The exit codes of those that ran, told to stop."""
        for process in self.running.values():
            process.send_signal(signal.SIGTERM)
        codes = [process.wait(TIMEOUT) for process in self.running.values()]
        self.running.clear()
        return codes

    def close(self) -> None:
        """Leave none running."""
        for name in list(self.running):
            process = self.running.pop(name)
            process.kill()
            process.wait(KILL_SECONDS)

    def logs(self) -> str:
        """The end of what each has logged."""
        return "\n".join(
            f"{path.name}:\n{path.read_text(errors='replace')[-3000:]}" for path in sorted(self._folder.glob("*.log"))
        )

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"
