"""What global flags change of a kubeconfig."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scavenger_kube.endpoint import KubeconfigError
from scavenger_kube.kubeconfig import choose, load, merge
from scavenger_kube.overrides import Overrides

CONFIG: dict[str, Any] = {
    "current-context": "main",
    "contexts": [{"name": "main", "context": {"cluster": "one", "user": "ada", "namespace": "lab"}}],
    "clusters": [
        {"name": "one", "cluster": {"server": "https://one:6443", "tls-server-name": "api"}},
        {"name": "two", "cluster": {"server": "https://two:6443", "certificate-authority-data": "AAAA"}},
    ],
    "users": [{"name": "ada", "user": {"as": "eve", "as-groups": ["night"], "exec": {"command": "no-such-login"}}}],
}


def chosen(**flags: Any) -> Any:
    return choose(merge([(Path("/home/k"), CONFIG)]), None, Overrides(token="t", **flags))


def test_a_token_stands_for_all_that_a_user_proves_himself_by() -> None:
    found = chosen()
    assert (found.user["token"], "exec" in found.user, found.namespace) == ("t", False, "lab")
    with pytest.raises(KubeconfigError, match="no-such-login"):
        choose(merge([(Path("/home/k"), CONFIG)]))


def test_another_server_has_another_name_in_its_certificate() -> None:
    assert chosen().cluster == {"server": "https://one:6443", "tls-server-name": "api"}
    assert chosen(server="https://three/").cluster == {"server": "https://three"}
    assert chosen(server="https://three", tls_server_name="x").cluster["tls-server-name"] == "x"


def test_whom_to_trust_is_replaced_as_a_whole() -> None:
    assert chosen(cluster="two", insecure_skip_tls_verify=True).cluster == {
        "server": "https://two:6443",
        "insecure-skip-tls-verify": True,
    }
    found = chosen(cluster="two", certificate_authority="/ca.pem").cluster
    assert found == {"server": "https://two:6443", "certificate-authority": "/ca.pem"}


def test_impersonation() -> None:
    assert chosen().impersonation == (("Impersonate-User", "eve"), ("Impersonate-Group", "night"))
    assert chosen(act_as="bob", act_as_uid="7", act_as_groups=("a", "b")).impersonation == (
        ("Impersonate-User", "bob"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
    )


@pytest.mark.parametrize(
    ("flags", "words"),
    [({"cluster": "nine"}, "--cluster names the cluster 'nine'"), ({"server": "host:1"}, "--server is 'host:1'")],
)
def test_what_cannot_be_meant(flags: dict[str, str], words: str) -> None:
    with pytest.raises(KubeconfigError, match=words):
        chosen(**flags)


def test_a_server_needs_no_kubeconfig(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    found = load(None, None, Overrides(server="http://localhost:8080", token="t"))
    assert (found.server, found.authorization, found.namespace) == ("http://localhost:8080", "Bearer t", "default")
    (tmp_path / "none").write_text("")
    assert load(None, None, Overrides(server="http://localhost:8080")).server == "http://localhost:8080"
    assert load("/dev/null", None, Overrides(server="http://localhost:8080")).server == "http://localhost:8080"
    with pytest.raises(KubeconfigError, match="no current-context"):
        load()
    with pytest.raises(KubeconfigError, match="without as"):
        load(None, None, Overrides(server="http://localhost:8080", act_as_groups=("g",)))
    with pytest.raises(KubeconfigError, match="no current-context"):
        load(None, None, Overrides(token="t"))


def test_in_a_pod_a_token_replaces_that_of_the_service_account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, text in {"token": "pod-token", "namespace": "lab", "ca.crt": "x"}.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr("scavenger_kube.kubeconfig.IN_CLUSTER", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    found = load(None, None, Overrides(token="mine", act_as="ada", insecure_skip_tls_verify=True))
    assert (found.server, found.authorization, found.namespace) == ("https://10.0.0.1:443", "Bearer mine", "lab")
    assert found.impersonation == (("Impersonate-User", "ada"),)
