"""Where the API server is and who we are: the kubeconfig as kubectl reads it, or the service account of the pod.

One reading for services and commands. `choose` merges the files, picks the context, asks a plugin, and refuses what is
not supported. What is left are plain values, which `load` turns into an Endpoint; for services kubernetes_asyncio does
that last step (`credentials`), which a command cannot wait for: it takes two seconds to import.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import quote

from scavenger_kube.endpoint import Endpoint, KubeconfigError, Tls
from scavenger_kube.overrides import NONE, Overrides

DEFAULT_PATH: Final = "~/.kube/config"
IN_CLUSTER: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
EXEC_TIMEOUT: Final = 120.0
"""Seconds a credential plugin may take; it may ask the user to log in."""
EXEC_VERSIONS: Final = tuple(f"client.authentication.k8s.io/{version}" for version in ("v1", "v1beta1"))
EXEC_PAIR: Final = {"client-certificate-data": "clientCertificateData", "client-key-data": "clientKeyData"}
"""Where a plugin's answer has what a kubeconfig has as the former."""
TOKEN_FILE_SECONDS: Final = 60.0
"""How long the token of a file is used before the file is read again: the kubelet rotates those of pods."""
PATHS: Final = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
TOKEN_MARKS: Final = "!#$&'*+-.^_`|~"
"""What stands as it is in a header's name, beside letters and digits; `%` escapes the rest."""

Entry: TypeAlias = dict[str, Any]


def load(kubeconfig: str | None = None, context: str | None = None, overrides: Overrides = NONE) -> Endpoint:
    """The endpoint of a context of `kubeconfig`, else $KUBECONFIG, else ~/.kube/config, else the pod's service account.

    overrides: what is to be used in the place of what is found there; with a server in it, nothing need be found. May
    run a plugin. Raises KubeconfigError where there is none, or where what is there cannot be used.
    """
    found = any(_readable(path) for path in _paths(kubeconfig))
    if not found and overrides.server and not kubeconfig:
        return plain(choose(Merged("", {}, {}, {}), context, overrides))
    if in_pod(kubeconfig, context) and not found:
        return service_account(overrides)
    return plain(choose(read(kubeconfig), context, overrides))


def in_pod(kubeconfig: str | None, context: str | None) -> bool:
    """Whether nothing is said about the cluster but that this is one of its pods."""
    named = kubeconfig or os.environ.get("KUBECONFIG") or context
    return not named and "KUBERNETES_SERVICE_HOST" in os.environ


def service_account(overrides: Overrides = NONE) -> Endpoint:
    """The endpoint of a pod, by its service account. Raises KubeconfigError."""
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    host = f"[{host}]" if ":" in host else host
    token, authority, namespace = (_file(IN_CLUSTER / name) for name in ("token", "ca.crt", "namespace"))
    if not token.strip() or not authority.strip():
        raise KubeconfigError(f"the token or the ca.crt in {IN_CLUSTER} is empty", "mount a service account token")
    context = {"cluster": "pod", "user": "pod", "namespace": namespace.decode().strip()}
    cluster = {"server": f"https://{host}:{port}", "certificate-authority": str(IN_CLUSTER / "ca.crt")}
    user = {"tokenFile": str(IN_CLUSTER / "token")}
    return plain(choose(Merged("pod", {"pod": context}, {"pod": cluster}, {"pod": user}), None, overrides))


def merged(kubeconfig: str | None = None) -> Merged:
    """All that the kubeconfigs name; nothing where there is none. Raises KubeconfigError for one of no use."""
    return merge([(path, _read(path)) for path in _paths(kubeconfig) if _readable(path)])


def read(kubeconfig: str | None = None) -> Merged:
    """What the kubeconfigs say: `kubeconfig`, else $KUBECONFIG, else ~/.kube/config. Raises KubeconfigError."""
    paths = _paths(kubeconfig)
    found = [path for path in paths if _readable(path)]
    if not found and kubeconfig:
        raise KubeconfigError(f"there is no kubeconfig {kubeconfig}", "check the path after --kubeconfig")
    if not found:
        raise KubeconfigError(
            f"no kubeconfig found: {' or '.join(map(str, paths))} does not exist",
            "point at one with --kubeconfig or KUBECONFIG",
        )
    return merge([(path, _read(path)) for path in found])


def _readable(path: Path) -> bool:
    """Whether there is something to read: a file, a pipe, /dev/null."""
    return path.exists() and not path.is_dir()


def _paths(kubeconfig: str | None) -> list[Path]:
    given = kubeconfig or os.environ.get("KUBECONFIG")
    return [Path(part).expanduser() for part in (given or DEFAULT_PATH).split(os.pathsep) if part]


# --- several files, one context ---------------------------------------------------------------------


@dataclass(frozen=True)
class Merged:
    """Several kubeconfigs as one: the first to name something decides, as with kubectl. Paths are absolute."""

    current: str
    contexts: Mapping[str, Entry]
    clusters: Mapping[str, Entry]
    users: Mapping[str, Entry]


def merge(files: Sequence[tuple[Path, Entry]]) -> Merged:
    """Merge kubeconfigs; relative paths in an entry start at the folder of the file they came from."""
    named: dict[str, dict[str, Entry]] = {"context": {}, "cluster": {}, "user": {}}
    for path, content in files:
        for kind, entries in named.items():
            for one in content.get(f"{kind}s") or ():
                if not isinstance(one, dict) or not isinstance(one.get(kind) or {}, dict) or not one.get("name"):
                    raise KubeconfigError(f"one of the {kind}s in {path} has no name or is none: {kind}s[].name")
                entries.setdefault(str(one["name"]), _absolute(one.get(kind) or {}, path.parent.absolute()))
    current = next((str(c["current-context"]) for _, c in files if c.get("current-context")), "")
    return Merged(current, named["context"], named["cluster"], named["user"])


def _absolute(entry: Entry, base: Path) -> Entry:
    """An entry without what is empty, its paths starting at `base`; a plugin's only where it is no bare name."""
    entry = {name: value for name, value in entry.items() if value not in (None, "")}
    entry |= {name: str(base / str(entry[name])) for name in PATHS if name in entry}
    if isinstance(plugin := entry.get("exec"), dict) and os.sep in (command := str(plugin.get("command") or "")):
        entry["exec"] = {**plugin, "command": str(base / command)}
    return entry


@dataclass(frozen=True)
class Chosen:
    """What a context comes to: entries in which paths are absolute and plugins and token files have been asked.

    user: at most a `token`, a `username` with `password`, and a client certificate. expires: as for Endpoint.
    """

    cluster: Entry
    user: Entry
    namespace: str
    impersonation: tuple[tuple[str, str], ...]
    expires: float | None

    def endpoint(self, authorization: str | None, authority: bytes, certificate: bytes, key: bytes) -> Endpoint:
        """The endpoint, given what the entries hold. Raises KubeconfigError for a certificate or proxy of no use."""
        tls = Tls(authority, certificate, key, verify=not self.cluster.get("insecure-skip-tls-verify"))
        return Endpoint(
            server=self.cluster["server"],
            authorization=authorization,
            namespace=self.namespace,
            tls=tls if self.cluster["server"].startswith("https:") else None,
            server_name=self.cluster.get("tls-server-name"),
            proxy=self.cluster.get("proxy-url"),
            impersonation=self.impersonation,
            expires=self.expires,
        ).checked()


def choose(merged: Merged, context: str | None = None, overrides: Overrides = NONE) -> Chosen:
    """What a context, the current one by default, comes to; runs its plugin. Raises KubeconfigError."""
    chosen = _context(merged, context, overrides)
    name = overrides.cluster or chosen.get("cluster") or ""
    if name not in merged.clusters and (name or not overrides.server):
        who = "--cluster" if overrides.cluster else f"context {context or merged.current}"
        remedy = f"there are: {', '.join(sorted(merged.clusters)) or 'none'}"
        raise KubeconfigError(f"{who} names the cluster {name!r}, which the kubeconfig does not have", remedy)
    cluster = overrides.on_cluster(merged.clusters.get(name, {}))
    cluster["server"] = str(cluster.get("server") or "").rstrip("/")
    if not cluster["server"].startswith(("http://", "https://")):
        what = "--server is" if overrides.server else f"cluster {name} has the server"
        raise KubeconfigError(f"{what} {cluster['server']!r}", "write a URL, as https://host:6443")
    user, expires = _asked(overrides.on_user(merged.users.get(chosen.get("user", ""), {})), cluster)
    return Chosen(cluster, user, chosen.get("namespace") or "default", tuple(_impersonation(user)), expires)


def _context(merged: Merged, context: str | None, overrides: Overrides) -> Entry:
    """The context by its name; without any, that of no name where a server is given."""
    known = ", ".join(sorted(merged.contexts)) or "none"
    name = context or merged.current
    if not name and overrides.server:
        return {}
    if not name:
        raise KubeconfigError("the kubeconfig has no current-context", f"choose one with --context: {known}")
    if name not in merged.contexts:
        raise KubeconfigError(f"the kubeconfig has no context {name}", f"there are: {known}")
    return merged.contexts[name]


def plain(chosen: Chosen) -> Endpoint:
    """The endpoint, read by ourselves. Raises KubeconfigError."""
    user = chosen.user
    authorization = f"Bearer {user['token']}" if "token" in user else None
    if authorization is None and "username" in user:
        login = f"{user['username']}:{user['password']}".encode()
        authorization = f"Basic {base64.b64encode(login).decode()}"
    pair = _bytes(user, "client-certificate"), _bytes(user, "client-key")
    return chosen.endpoint(authorization, _bytes(chosen.cluster, "certificate-authority"), *pair)


# --- users --------------------------------------------------------------------------------------------


def _impersonation(user: Entry) -> Iterator[tuple[str, str]]:
    """The headers of `as` and what belongs to it (k8s.io/client-go/transport, impersonatingRoundTripper)."""
    groups, extra = user.get("as-groups") or (), user.get("as-user-extra") or {}
    if not user.get("as"):
        if groups or extra or user.get("as-uid"):
            raise KubeconfigError(
                "as-uid, as-groups or as-user-extra is set without as, which names the user",
                "add --as NAME, or as: NAME to the kubeconfig",
            )
        return
    yield "Impersonate-User", str(user["as"])
    if user.get("as-uid"):
        yield "Impersonate-Uid", str(user["as-uid"])
    for group in groups:
        yield "Impersonate-Group", str(group)
    for name, values in extra.items():
        header = f"Impersonate-Extra-{quote(str(name).lower(), safe=TOKEN_MARKS)}"
        for value in values:
            yield header, str(value)


def _asked(user: Entry, cluster: Entry) -> tuple[Entry, float | None]:
    """A user's entry after its plugin or its token file has been asked, and when to ask again."""
    if "auth-provider" in user:
        raise KubeconfigError(
            "the kubeconfig uses auth-provider, which Kubernetes 1.26 removed", "use the provider's exec plugin instead"
        )
    if "exec" in user:
        answer, expires = _plugin(user["exec"], cluster)
        rest = {name: value for name, value in user.items() if name not in ("exec", "token", "tokenFile", "username")}
        if "client-certificate-data" in answer:
            rest = {name: value for name, value in rest.items() if not name.startswith("client-")}
        return rest | answer, expires
    if "tokenFile" in user:
        token = _file(Path(user["tokenFile"])).decode().strip()
        return {**user, "token": token}, time.time() + TOKEN_FILE_SECONDS
    return {"password": "", **user}, None


def _plugin(spec: Entry, cluster: Entry) -> tuple[Entry, float | None]:
    """Credentials from a plugin (client-go credential plugins, client.authentication.k8s.io)."""
    command, version = str(spec.get("command") or ""), spec.get("apiVersion", EXEC_VERSIONS[0])
    if version not in EXEC_VERSIONS:
        remedy = f"use a plugin that speaks {' or '.join(EXEC_VERSIONS)}"
        raise KubeconfigError(f"the credential plugin {command} has the apiVersion {version}", remedy)
    mode = spec.get("interactiveMode", "IfAvailable")
    interactive = mode != "Never" and sys.stdin is not None and sys.stdin.isatty()
    if mode == "Always" and not interactive:
        remedy = "run it from a terminal, or choose another context"
        raise KubeconfigError(
            f"the credential plugin {command} has interactiveMode Always: it needs a terminal", remedy
        )
    about: Entry = {"interactive": interactive}
    if spec.get("provideClusterInfo"):
        about["cluster"] = _cluster_info(cluster)
    request = {"apiVersion": version, "kind": "ExecCredential", "spec": about}
    extra = {str(one["name"]): str(one["value"]) for one in spec.get("env") or ()}
    try:
        done = subprocess.run(
            [command, *map(str, spec.get("args") or ())],
            env={**os.environ, **extra, "KUBERNETES_EXEC_INFO": json.dumps(request)},
            stdin=None if interactive else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            timeout=EXEC_TIMEOUT,
            check=True,
        )
        answer = json.loads(done.stdout)
        if answer.get("apiVersion", version) != version:
            raise ValueError(f"it answers in {answer['apiVersion']}, the kubeconfig says {version}")
        return _answered(answer["status"])
    except FileNotFoundError:
        hint = spec.get("installHint") or "install it, or choose another context"
        raise KubeconfigError(
            f"the credential plugin {command} of the kubeconfig is not installed", str(hint)
        ) from None
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise KubeconfigError(
            f"the credential plugin {command} gave no credentials: {error}", "log in again"
        ) from error


def _answered(status: Entry) -> tuple[Entry, float | None]:
    """The status of an ExecCredential as an entry, and when it expires."""
    answer: Entry = {"token": status["token"]} if status.get("token") else {}
    pair = {name: status.get(field) or "" for name, field in EXEC_PAIR.items()}
    if all(pair.values()):
        answer |= {name: base64.b64encode(pem.encode()).decode() for name, pem in pair.items()}
    if not answer or any(pair.values()) != all(pair.values()):
        raise ValueError("its status has neither a token nor a certificate with its key")
    expires = status.get("expirationTimestamp")
    return answer, None if not expires else datetime.fromisoformat(expires).timestamp()


def _cluster_info(cluster: Entry) -> Entry:
    """What a plugin with provideClusterInfo is told (client.authentication.k8s.io Cluster)."""
    names = ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url", "disable-compression")
    about = {name: cluster[name] for name in names if name in cluster}
    if authority := _bytes(cluster, "certificate-authority"):
        about["certificate-authority-data"] = base64.b64encode(authority).decode()
    for one in cluster.get("extensions") or ():
        if one.get("name") == "client.authentication.k8s.io/exec":
            about["config"] = one.get("extension")
    return about


# --- files --------------------------------------------------------------------------------------------


def _bytes(entry: Entry, name: str) -> bytes:
    """What `NAME-data` holds, or else the file `NAME` points at; empty without either."""
    if f"{name}-data" not in entry:
        return _file(Path(entry[name])) if name in entry else b""
    try:
        return base64.b64decode(entry[f"{name}-data"], validate=False)
    except (binascii.Error, ValueError, TypeError) as error:
        raise KubeconfigError(f"{name}-data in the kubeconfig is not base64", "fetch the kubeconfig anew") from error


def _file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        message = f"{path}, which the kubeconfig points at, cannot be read: {error.strerror}"
        raise KubeconfigError(message) from error


def _read(path: Path) -> Entry:
    import yaml  # takes longer to load than all the rest

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        content = yaml.load(path.read_bytes(), Loader=loader)
    except (OSError, yaml.YAMLError) as error:
        raise KubeconfigError(f"the kubeconfig {path} cannot be read: {error}") from error
    if content is None:
        return {}  # an empty file says nothing, which with --server is enough
    if not isinstance(content, dict):
        raise KubeconfigError(f"{path} is not a kubeconfig", "point at one with --kubeconfig or KUBECONFIG")
    return content
