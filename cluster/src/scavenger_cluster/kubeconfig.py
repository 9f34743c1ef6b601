"""Kubeconfig files."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import yaml


def certificate_user(pki: Path, name: str) -> dict[str, str]:
    """Return a kubeconfig user that proves itself by a client certificate."""
    return {
        "client-certificate-data": _encoded(pki / f"{name}.crt"),
        "client-key-data": _encoded(pki / f"{name}.key"),
    }


def render(cluster: str, server: str, authority: Path, user: dict[str, str]) -> str:
    """Return the text of a kubeconfig with one cluster, one user and one context."""
    content: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": cluster,
        "clusters": [
            {
                "name": cluster,
                "cluster": {"server": server, "certificate-authority-data": _encoded(authority)},
            }
        ],
        "users": [{"name": cluster, "user": user}],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": cluster}}],
    }
    return yaml.safe_dump(content, sort_keys=False)


def of_any_server(user: dict[str, str]) -> str:
    """Return the text of a kubeconfig with which the API server shows one user to every webhook."""
    users = [{"name": "*", "user": user}]
    return yaml.safe_dump({"apiVersion": "v1", "kind": "Config", "users": users}, sort_keys=False)


def write_private(path: Path, text: str) -> None:
    """Write a file only its owner may read, atomically; an unchanged one is left alone."""
    if path.exists() and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    temporary.replace(path)


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
