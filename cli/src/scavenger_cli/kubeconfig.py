"""Where the API server is and who we are: the kubeconfig as kubectl reads it, without a client library.

kubernetes_asyncio knows all of this as well, and costs two seconds at every start of a command. What kubectl supports
is supported here, except for the legacy `auth-provider` that Kubernetes 1.26 removed.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from scavenger_cli.exits import CliError

DEFAULT_PATH: Final = "~/.kube/config"
IN_CLUSTER: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
EXEC_TIMEOUT: Final = 120.0
"""Seconds a credential plugin may take; it may ask the user to log in."""

Entry: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Endpoint:
    """One API server and how to speak to it.

    server: base URL. authorization: value of the header, None for none. namespace: of the context, `default` where it
    names none. tls: None for plain HTTP. server_name: the name its certificate must bear, None for the one of the URL.
    proxy: URL of the HTTP proxy on the way, None to look at the environment.
    """

    server: str
    authorization: str | None = None
    namespace: str = "default"
    tls: ssl.SSLContext | None = None
    server_name: str | None = None
    proxy: str | None = None


def load(kubeconfig: str | None = None, context: str | None = None) -> Endpoint:
    """The endpoint of a context of `kubeconfig`, else $KUBECONFIG, else ~/.kube/config, else the pod's service account.

    Raises CliError where there is none, or where what is there cannot be used.
    """
    paths = _paths(kubeconfig)
    given = kubeconfig or os.environ.get("KUBECONFIG")
    if not given and context is None and "KUBERNETES_SERVICE_HOST" in os.environ and not paths[0].is_file():
        return _in_cluster()
    if kubeconfig and not paths[0].is_file():
        raise CliError(f"there is no kubeconfig {kubeconfig}", "check the path after --kubeconfig")
    if not any(path.is_file() for path in paths):
        where = " or ".join(str(path) for path in paths)
        raise CliError(
            f"no kubeconfig found: {where} does not exist",
            "point at one with --kubeconfig or KUBECONFIG; in this repository `make up` prints the line to paste",
        )
    merged = merge([(path, _read(path)) for path in paths if path.is_file()])
    return endpoint(merged, context)


def contexts(kubeconfig: str | None = None) -> list[str]:
    """The names of all contexts. Raises CliError for a kubeconfig that cannot be read."""
    files = [(path, _read(path)) for path in _paths(kubeconfig) if path.is_file()]
    return list(merge(files).contexts)


def _paths(kubeconfig: str | None) -> list[Path]:
    given = kubeconfig or os.environ.get("KUBECONFIG")
    return [Path(part).expanduser() for part in (given or DEFAULT_PATH).split(os.pathsep) if part]


@dataclass(frozen=True)
class Merged:
    """Several kubeconfigs as one: the first to name something decides, as with kubectl."""

    current: str
    contexts: Mapping[str, Entry]
    clusters: Mapping[str, tuple[Path, Entry]]
    users: Mapping[str, tuple[Path, Entry]]


def merge(files: Sequence[tuple[Path, Entry]]) -> Merged:
    """Merge kubeconfigs; relative paths in an entry keep the folder of the file they came from."""
    contexts: dict[str, Entry] = {}
    clusters: dict[str, tuple[Path, Entry]] = {}
    users: dict[str, tuple[Path, Entry]] = {}
    for path, content in files:
        for one in content.get("contexts") or ():
            contexts.setdefault(one["name"], one.get("context") or {})
        for one in content.get("clusters") or ():
            clusters.setdefault(one["name"], (path.parent, one.get("cluster") or {}))
        for one in content.get("users") or ():
            users.setdefault(one["name"], (path.parent, one.get("user") or {}))
    current = next((str(c["current-context"]) for _, c in files if c.get("current-context")), "")
    return Merged(current, contexts, clusters, users)


def endpoint(merged: Merged, context: str | None = None) -> Endpoint:
    """The endpoint of a context, the current one by default. Raises CliError."""
    name = context or merged.current
    if not name:
        raise CliError("the kubeconfig has no current-context", f"choose one with --context: {_known(merged.contexts)}")
    if name not in merged.contexts:
        raise CliError(f"the kubeconfig has no context {name}", f"there are: {_known(merged.contexts)}")
    chosen = merged.contexts[name]
    if chosen.get("cluster") not in merged.clusters:
        raise CliError(
            f"context {name} names the cluster {chosen.get('cluster')!r}, which the kubeconfig does not have"
        )
    cluster_base, cluster = merged.clusters[chosen["cluster"]]
    user_base, user = merged.users.get(chosen.get("user", ""), (Path(), {}))
    server = str(cluster.get("server") or "").rstrip("/")
    if not server.startswith(("http://", "https://")):
        raise CliError(f"cluster {chosen['cluster']} has the server {server!r}", "write a URL, as https://host:6443")
    authorization, certificate = credentials(user, user_base, server)
    return Endpoint(
        server=server,
        authorization=authorization,
        namespace=chosen.get("namespace") or "default",
        tls=_tls(cluster, cluster_base, certificate) if server.startswith("https") else None,
        server_name=cluster.get("tls-server-name"),
        proxy=cluster.get("proxy-url"),
    )


@dataclass(frozen=True)
class ClientCertificate:
    """Certificate and key, PEM."""

    certificate: bytes
    key: bytes


def credentials(user: Entry, base: Path, server: str) -> tuple[str | None, ClientCertificate | None]:
    """The authorization header and the client certificate of a user entry; runs its plugin. Raises CliError."""
    if "auth-provider" in user:
        raise CliError(
            "the kubeconfig uses auth-provider, which Kubernetes 1.26 removed", "use the provider's exec plugin instead"
        )
    certificate = _pair(_bytes(user, "client-certificate", base), _bytes(user, "client-key", base))
    if "exec" in user:
        return _plugin(user["exec"], base, server, certificate)
    if user.get("tokenFile"):
        return f"Bearer {_file(base / str(user['tokenFile'])).decode().strip()}", certificate
    if user.get("token"):
        return f"Bearer {user['token']}", certificate
    if user.get("username"):
        login = f"{user['username']}:{user.get('password', '')}".encode()
        return f"Basic {base64.b64encode(login).decode()}", certificate
    return None, certificate


def _plugin(
    spec: Entry, base: Path, server: str, certificate: ClientCertificate | None
) -> tuple[str | None, ClientCertificate | None]:
    """Credentials from a plugin (client-go credential plugins, client.authentication.k8s.io)."""
    command = str(spec.get("command") or "")
    program = str(base / command) if os.sep in command and not Path(command).is_absolute() else command
    version = spec.get("apiVersion", "client.authentication.k8s.io/v1")
    interactive = spec.get("interactiveMode") != "Never" and sys.stdin.isatty()
    about: Entry = {"interactive": interactive}
    if spec.get("provideClusterInfo"):
        about["cluster"] = {"server": server}
    request = {"apiVersion": version, "kind": "ExecCredential", "spec": about}
    extra = {str(one["name"]): str(one["value"]) for one in spec.get("env") or ()}
    try:
        done = subprocess.run(
            [program, *map(str, spec.get("args") or ())],
            env={**os.environ, **extra, "KUBERNETES_EXEC_INFO": json.dumps(request)},
            stdout=subprocess.PIPE,
            timeout=EXEC_TIMEOUT,
            check=True,
        )
        status = json.loads(done.stdout)["status"]
    except FileNotFoundError:
        remedy = spec.get("installHint") or "install it, or choose another context"
        raise CliError(f"the credential plugin {command} of the kubeconfig is not installed", str(remedy)) from None
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError) as error:
        raise CliError(f"the credential plugin {command} gave no credentials: {error}", "log in again") from error
    pair = _pair((status.get("clientCertificateData") or "").encode(), (status.get("clientKeyData") or "").encode())
    token = status.get("token")
    return (f"Bearer {token}" if token else None), pair or certificate


def _in_cluster() -> Endpoint:
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    host = f"[{host}]" if ":" in host else host
    namespace = _file(IN_CLUSTER / "namespace").decode().strip()
    token = _file(IN_CLUSTER / "token").decode().strip()
    tls = ssl.create_default_context(cadata=_file(IN_CLUSTER / "ca.crt").decode())
    return Endpoint(f"https://{host}:{port}", f"Bearer {token}", namespace or "default", tls)


def _tls(cluster: Entry, base: Path, certificate: ClientCertificate | None) -> ssl.SSLContext:
    authority = _bytes(cluster, "certificate-authority", base)
    try:
        context = ssl.create_default_context(cadata=authority.decode() if authority else None)
        # Python 3.13 asks for extensions that the authorities of many clusters do not have; kubectl does not.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if cluster.get("insecure-skip-tls-verify"):
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if certificate is not None:
            _load(context, certificate)
    except (ssl.SSLError, ValueError) as error:
        raise CliError(
            f"a certificate in the kubeconfig cannot be used: {error}", "fetch the kubeconfig anew"
        ) from error
    return context


def _load(context: ssl.SSLContext, pair: ClientCertificate) -> None:
    """Python's ssl takes files only: one that nobody else may read, for as long as it is being read."""
    with tempfile.NamedTemporaryFile(prefix="kubectl-sj-") as file:
        file.write(pair.certificate + b"\n" + pair.key)
        file.flush()
        context.load_cert_chain(file.name)


def _pair(certificate: bytes, key: bytes) -> ClientCertificate | None:
    return ClientCertificate(certificate, key) if certificate and key else None


def _bytes(entry: Entry, name: str, base: Path) -> bytes:
    """What `NAME-data` holds, or else the file `NAME` points at; empty without either."""
    data = entry.get(f"{name}-data")
    if data:
        try:
            return base64.b64decode(data, validate=False)
        except (binascii.Error, ValueError) as error:
            raise CliError(f"{name}-data in the kubeconfig is not base64", "fetch the kubeconfig anew") from error
    return _file(base / str(entry[name])) if entry.get(name) else b""


def _file(path: Path) -> bytes:
    try:
        return path.expanduser().read_bytes()
    except OSError as error:
        raise CliError(f"{path}, which the kubeconfig points at, cannot be read: {error.strerror}") from error


def _read(path: Path) -> Entry:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        content = yaml.load(path.read_bytes(), Loader=loader)
    except (OSError, yaml.YAMLError) as error:
        raise CliError(f"the kubeconfig {path} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise CliError(f"{path} is not a kubeconfig", "point at one with --kubeconfig or KUBECONFIG")
    return content


def _known(contexts: Mapping[str, Entry]) -> str:
    return ", ".join(sorted(contexts)) or "none"
