"""Where things are on disk."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path


def cache_dir() -> Path:
    """Return the folder for what is expensive to make and shared by all clusters: programs and images."""
    if chosen := os.environ.get("SCAVENGER_CACHE"):
        return Path(chosen).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "scavenger"


def state_dir() -> Path:
    """Return the folder that holds the data folders of all clusters of this user."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state").absolute() / "scavenger"


@dataclasses.dataclass(frozen=True)
class Layout:
    """The data folder of one cluster."""

    root: Path

    @property
    def state(self) -> Path:
        """What `up` decided: slot, ports, nodes."""
        return self.root / "state.json"

    @property
    def marker(self) -> Path:
        """Says whose folder this is (see `ownership`)."""
        return self.root / ".scavenger-cluster"

    @property
    def lock(self) -> Path:
        """Held by whoever changes the cluster."""
        return self.root / "lock"

    @property
    def run(self) -> Path:
        """Pid files."""
        return self.root / "run"

    @property
    def logs(self) -> Path:
        """One log per component."""
        return self.root / "logs"

    @property
    def pki(self) -> Path:
        """Certificates and keys."""
        return self.root / "pki"

    @property
    def config(self) -> Path:
        """Kubeconfigs and configuration files of components."""
        return self.root / "config"

    @property
    def etcd(self) -> Path:
        """The database."""
        return self.root / "etcd"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.root / "kubeconfig"

    @property
    def kubectl_cache(self) -> Path:
        """What kubectl remembers of this API server; another cluster may get the same port later."""
        return self.root / "kubectl-cache"

    def node(self, name: str) -> Path:
        """Return the folder of a real node."""
        return self.root / "nodes" / name

    @property
    def admission_configuration(self) -> Path:
        """How the API server calls webhooks; an input of its process by its name."""
        return self.config / "kube-apiserver.admission.yaml"

    def component_kubeconfig(self, name: str) -> Path:
        """Return the kubeconfig of a component or service."""
        return self.config / f"{name}.kubeconfig"
