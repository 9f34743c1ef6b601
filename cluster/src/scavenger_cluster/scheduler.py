"""Which scheduler a cluster runs: kube-scheduler with the plugin of this repository, or as it comes.

The plugin's process is the component `kube-scheduler` like the unmodified one: same port, same user, same log.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from scavenger_cluster.api import ApiClient
from scavenger_cluster.build import KUBERNETES_VERSION, PINNED_KUBERNETES
from scavenger_cluster.errors import ClusterError

PLUGIN: Final = "plugin"
STOCK: Final = "stock"
PROGRAMS: Final = {PLUGIN: "scavenger-scheduler", STOCK: "kube-scheduler"}
"""The program to build, by what `--scheduler` says."""
DEFAULT: Final = PLUGIN if KUBERNETES_VERSION == PINNED_KUBERNETES else STOCK
"""A scheduler may not be newer than the API server."""

QPS: Final = 1000
BURST: Final = 2000
"""Client limits; the usual ones are otherwise what any measurement measures."""

_NAME: Final = "kube-scheduler:priorityclasses"
_RBAC: Final = "rbac.authorization.k8s.io"
_READ: Final = ["get", "list", "watch"]


def check_scheduler(kind: str) -> str:
    """Return what `--scheduler` says if it is one there is."""
    if kind not in PROGRAMS:
        raise ClusterError(f"--scheduler {kind}: expected {' or '.join(PROGRAMS)}")
    return kind


def configuration(kubeconfig: Path, arguments: Mapping[str, Any]) -> str:
    """Return the KubeSchedulerConfiguration with the plugin in the place of DefaultPreemption, as YAML.

    `arguments` are those of the plugin (docs/scheduler.md). Beside a configuration file kube-scheduler ignores its
    flags for the kubeconfig, the client limits and leader election, so they are here.
    """
    profile = {
        "schedulerName": "default-scheduler",
        "plugins": {
            "multiPoint": {
                "enabled": [{"name": "ScavengerPreemption"}],
                "disabled": [{"name": "DefaultPreemption"}],
            }
        },
        "pluginConfig": [{"name": "ScavengerPreemption", "args": dict(arguments)}],
    }
    return yaml.safe_dump(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(kubeconfig), "qps": QPS, "burst": BURST},
            "leaderElection": {"leaderElect": False},
            "profiles": [profile],
        },
        sort_keys=False,
    )


def rights() -> dict[str, dict[str, Any]]:
    """Return what the plugin may do beyond a kube-scheduler, whose user it is: path and object.

    They belong to the cluster and not to an installation on it, so they bear a name of their own.
    """
    metadata = {"name": _NAME}
    role = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": metadata,
        "rules": [
            {"apiGroups": ["scheduling.k8s.io"], "resources": ["priorityclasses"], "verbs": _READ},
            {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["scavenger-settings"], "verbs": _READ},
        ],
    }
    binding = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": _NAME},
        "subjects": [{"apiGroup": _RBAC, "kind": "User", "name": "system:kube-scheduler"}],
    }
    paths = (f"/apis/{_RBAC}/v1/{plural}/{_NAME}" for plural in ("clusterroles", "clusterrolebindings"))
    return dict(zip(paths, (role, binding), strict=True))


def grant(client: ApiClient) -> None:
    """Give the plugin its rights; without them it works with usual values, and complains."""
    for path, body in rights().items():
        client.apply(path, body)
