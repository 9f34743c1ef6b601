from __future__ import annotations

import base64
import json
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from scavenger_kube import kubeconfig
from scavenger_kube.endpoint import KubeconfigError, Tls, environment_proxy
from scavenger_kube.kubeconfig import choose, load, merge, plain

from .conftest import certificate

SERVER = "https://10.0.0.1:6443"


def config(user: dict[str, Any] | None = None, cluster: dict[str, Any] | None = None, **context: str) -> dict[str, Any]:
    return {
        "current-context": "main",
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u", **context}}],
        "clusters": [{"name": "c", "cluster": {"server": SERVER, **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
    }


def write(path: Path, content: Any) -> str:
    path.write_text(yaml.safe_dump(content))
    return str(path)


def credentials(user: dict[str, Any], base: Path) -> tuple[str | None, Tls | None]:
    found = plain(choose(merge([(base / "k", config(user))])))
    return found.authorization, found.tls


@pytest.fixture(autouse=True)
def _nothing_around(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)


def test_what_a_context_says(tmp_path: Path) -> None:
    cluster = {"server": f"{SERVER}/", "tls-server-name": "api.example", "proxy-url": "http://proxy:3128"}
    found = load(write(tmp_path / "k", config({"token": "t"}, cluster, namespace="lab")))
    assert (found.server, found.namespace, found.authorization) == (SERVER, "lab", "Bearer t")
    assert (found.server_name, found.proxy) == ("api.example", "http://proxy:3128")
    assert found.tls is not None
    assert found.tls.context().check_hostname


def test_several_files_are_one_and_the_first_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = write(tmp_path / "first", {"contexts": [{"name": "lab", "context": {"cluster": "c", "namespace": "n1"}}]})
    other = config(cluster={"server": "http://second:80"})
    other["contexts"].append({"name": "lab", "context": {"cluster": "other"}})
    second = write(tmp_path / "second", other)
    monkeypatch.setenv("KUBECONFIG", f"{first}:{tmp_path / 'missing'}:{second}")
    found = load(context="lab")
    assert (found.server, found.namespace, found.tls) == ("http://second:80", "n1", None)
    assert list(kubeconfig.merged().contexts) == ["lab", "main"]


def test_home_is_the_default(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    write(tmp_path / ".kube" / "config", config())
    assert load().namespace == "default"


@pytest.mark.parametrize(
    ("user", "header"),
    [
        ({}, None),
        ({"token": "abc"}, "Bearer abc"),
        ({"tokenFile": "token"}, "Bearer from-file"),
        ({"username": "ada", "password": "x"}, "Basic " + base64.b64encode(b"ada:x").decode()),
    ],
)
def test_credentials(tmp_path: Path, user: dict[str, Any], header: str | None) -> None:
    (tmp_path / "token").write_text("from-file\n")
    assert credentials(user, tmp_path) == (header, Tls())


def plugin(path: Path, answer: str) -> str:
    path.write_text(
        f'#!/bin/sh\n[ "$EXTRA" = 1 ] || exit 9\necho "$KUBERNETES_EXEC_INFO" > {path}.asked\necho \'{answer}\'\n'
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_a_plugin_is_asked(tmp_path: Path) -> None:
    command = plugin(tmp_path / "login", json.dumps({"status": {"token": "fresh"}}))
    spec = {
        "command": command,
        "env": [{"name": "EXTRA", "value": "1"}],
        "apiVersion": "client.authentication.k8s.io/v1",
    }
    assert credentials({"exec": spec}, tmp_path) == ("Bearer fresh", Tls())
    asked = json.loads((tmp_path / "login.asked").read_text())
    assert (asked["kind"], asked["apiVersion"]) == ("ExecCredential", "client.authentication.k8s.io/v1")
    with pytest.raises(KubeconfigError, match="gave no credentials"):
        credentials({"exec": {"command": command}}, tmp_path)  # without EXTRA it exits 9


def test_a_client_certificate(tmp_path: Path) -> None:
    certificate(tmp_path, "ada")
    data = base64.b64encode((tmp_path / "cert").read_bytes()).decode()
    user = {"client-certificate-data": data, "client-key": "key"}
    found = load(write(tmp_path / "k", config(user, {"certificate-authority": "cert"})))
    assert found.tls is not None
    assert found.tls.context().cert_store_stats()["x509"] == 1
    (tmp_path / "key").write_text("no key")
    with pytest.raises(KubeconfigError, match="cannot be used"):
        load(str(tmp_path / "k"))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([1], "is not a kubeconfig"),
        ({}, "no current-context"),
        ({**config(), "current-context": "gone"}, "no context gone"),
        (config(cluster={"server": "10.0.0.1"}), "has the server"),
        (config({"auth-provider": {"name": "gcp"}}), "auth-provider"),
        (config({"tokenFile": "/nowhere"}), "/nowhere, which the kubeconfig points at, cannot be read"),
        (config({"exec": {"command": "no-such-login"}}), "no-such-login of the kubeconfig is not installed"),
        (config(cluster={"certificate-authority-data": "AAAA"}), "certificate in the kubeconfig cannot be used"),
        ({**config(), "clusters": []}, "which the kubeconfig does not have"),
    ],
)
def test_what_cannot_be_used_is_said(tmp_path: Path, content: Any, words: str) -> None:
    with pytest.raises(KubeconfigError, match=words):
        load(write(tmp_path / "k", content))


def test_nothing_found() -> None:
    with pytest.raises(KubeconfigError, match="no kubeconfig found") as caught:
        load()
    assert "--kubeconfig" in caught.value.remedy


def test_inside_a_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    (folder / "token").write_text("pod-token")
    (folder / "namespace").write_text("lab")
    (folder / "ca.crt").write_bytes(Path(certificate(tmp_path, "api")[0]).read_bytes())
    monkeypatch.setattr(kubeconfig, "IN_CLUSTER", folder)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    found = load()
    assert (found.server, found.authorization, found.namespace) == ("https://[fd00::1]:443", "Bearer pod-token", "lab")


def test_skipping_verification() -> None:
    found = plain(choose(merge([(Path("k"), config(cluster={"insecure-skip-tls-verify": True}))])))
    assert found.tls is not None
    assert not found.tls.context().check_hostname


def test_what_a_plugin_is_told_and_answers(tmp_path: Path) -> None:
    answer = {"status": {"token": "fresh", "expirationTimestamp": "2030-01-01T00:00:00Z"}}
    certificate(tmp_path, "api")
    spec = {
        "command": plugin(tmp_path / "login", json.dumps(answer)),
        "env": [{"name": "EXTRA", "value": "1"}],
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "interactiveMode": "Never",
        "provideClusterInfo": True,
    }
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}
    cluster = {"certificate-authority": "cert", "tls-server-name": "api", "extensions": [extension]}
    content = config({"exec": spec}, cluster)
    found = load(write(tmp_path / "k", content))
    assert found.expires == datetime(2030, 1, 1, tzinfo=UTC).timestamp()
    told = json.loads((tmp_path / "login.asked").read_text())
    assert told["apiVersion"] == spec["apiVersion"]
    assert told["spec"] == {
        "interactive": False,
        "cluster": {
            "server": SERVER,
            "tls-server-name": "api",
            "certificate-authority-data": base64.b64encode((tmp_path / "cert").read_bytes()).decode(),
            "config": {"audience": "a"},
        },
    }


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"status": {}}, "neither a token nor a certificate"),
        ({"status": {"clientCertificateData": "x"}}, "neither a token nor a certificate with its key"),
        ({"apiVersion": "client.authentication.k8s.io/v1beta1", "status": {"token": "t"}}, "answers in .*v1beta1"),
        ([], "gave no credentials"),
    ],
)
def test_plugins_that_answer_nonsense(tmp_path: Path, answer: Any, words: str) -> None:
    spec = {"command": plugin(tmp_path / "login", json.dumps(answer)), "env": [{"name": "EXTRA", "value": "1"}]}
    with pytest.raises(KubeconfigError, match=words):
        credentials({"exec": spec}, tmp_path)


@pytest.mark.parametrize(
    ("server", "environment", "proxy"),
    [
        ("https://api.example", {}, None),
        ("https://api.example", {"HTTP_PROXY": "http://p:1"}, None),
        ("http://api.example", {"HTTP_PROXY": "http://p:1"}, "http://p:1"),
        ("https://api.example", {"HTTPS_PROXY": "p:1", "https_proxy": "q:1"}, "http://p:1"),
        ("https://api.example", {"https_proxy": "socks5://p:1"}, "socks5://p:1"),
        ("https://127.0.0.1:6443", {"HTTPS_PROXY": "p:1"}, None),
        ("https://[::1]:6443", {"HTTPS_PROXY": "p:1"}, None),
        ("https://localhost", {"HTTPS_PROXY": "p:1"}, None),
        ("https://api.example", {"HTTPS_PROXY": "p:1", "NO_PROXY": "*"}, None),
        ("https://api.example", {"HTTPS_PROXY": "p:1", "NO_PROXY": "other, EXAMPLE"}, None),
        ("https://api.example", {"HTTPS_PROXY": "p:1", "no_proxy": ".example"}, None),
        ("https://example", {"HTTPS_PROXY": "p:1", "no_proxy": ".example"}, "http://p:1"),
        ("https://myexample", {"HTTPS_PROXY": "p:1", "no_proxy": "example"}, "http://p:1"),
        ("https://api.example", {"HTTPS_PROXY": "p:1", "no_proxy": "*.example"}, None),
        ("https://api.example:6443", {"HTTPS_PROXY": "p:1", "no_proxy": "example:6443"}, None),
        ("https://api.example", {"HTTPS_PROXY": "p:1", "no_proxy": "example:6443"}, "http://p:1"),
        ("https://api.example", {"HTTPS_PROXY": "p:1", "no_proxy": "example:443"}, None),
        ("https://10.1.2.3", {"HTTPS_PROXY": "p:1", "no_proxy": "10.0.0.0/8"}, None),
        ("https://11.1.2.3", {"HTTPS_PROXY": "p:1", "no_proxy": "10.0.0.0/8,nonsense/9"}, "http://p:1"),
        ("https://[fd00::1]:6443", {"HTTPS_PROXY": "p:1", "no_proxy": "fd00::/8"}, None),
        ("https://[fd00::1]:6443", {"HTTPS_PROXY": "p:1", "no_proxy": "fd00::1"}, None),
        ("https://[fd00::1]:6443", {"HTTPS_PROXY": "p:1", "no_proxy": "[fd00::1]:443"}, "http://p:1"),
        ("https://10.1.2.3", {"HTTPS_PROXY": "p:1", "no_proxy": "10.1.2.3:443"}, None),
    ],
)
def test_the_proxy_of_the_environment(server: str, environment: dict[str, str], proxy: str | None) -> None:
    """As golang.org/x/net/http/httpproxy has it."""
    assert environment_proxy(server, environment) == proxy
