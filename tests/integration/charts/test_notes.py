"""What helm says after an installation, typed on the cluster, for each combination that changes what it says."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from scavenger_cluster import Cluster, service_images, stack
from scavenger_testing.waiting import wait

from .conftest import ROOT, SYSTEM, Helm, get
from .shell import Shell

pytestmark = [pytest.mark.long, pytest.mark.real, pytest.mark.cpu, pytest.mark.timeout(900)]
CHART = ROOT / "charts" / "scavenger"
CERTIFICATE = "board-certificate"
TOKEN = "scavenger-board.settings.access=token"
COMBINATIONS = {
    "as README": (SYSTEM, ()),
    "another namespace": ("scavenging", ()),
    "quotas left to the webhook": (SYSTEM, ("scavenger-webhook.admission.quotas=true",)),
    "no webhook": (SYSTEM, ("components.webhook=false",)),
    "no board": (SYSTEM, ("components.board=false",)),
    "board for users": (SYSTEM, (TOKEN, f"scavenger-board.page.tls.secretName={CERTIFICATE}")),
    "a second scheduler": (SYSTEM, ("components.scheduler=true",)),
}
"""The namespace of the release and values, by what an administrator chose."""
ENDLESS = ("kubectl get sj --watch", "kubectl sj board --open")
"""Commands that go on until they are interrupted; that of the board opens a browser. Other tests look at both."""


@pytest.fixture(scope="module")
def images(cluster: Cluster) -> None:
    service_images.load(cluster)
    stack.build_images(cluster)


@pytest.fixture
def placed(cluster: Cluster, helm: Helm, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Helm]:
    """helm into the namespace of the combination, which has a certificate for the board and is gone afterwards."""
    helm.namespace, _ = COMBINATIONS[request.node.callspec.params["combination"]]
    cluster.kubectl("delete", "namespace", SYSTEM, "--timeout=110s", timeout=120)
    cluster.kubectl("create", "namespace", helm.namespace)
    key, certificate = tmp_path / "tls.key", tmp_path / "tls.crt"
    sign = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=board")
    subprocess.run([*sign, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    files = (f"--cert={certificate}", f"--key={key}")
    cluster.kubectl("create", "secret", "tls", CERTIFICATE, "-n", helm.namespace, *files)
    yield helm
    cluster.kubectl("delete", "namespace", helm.namespace, "--ignore-not-found", "--timeout=110s", timeout=120)


@pytest.mark.parametrize("combination", COMBINATIONS)
@pytest.mark.usefixtures("images")
def test_what_helm_says_to_type_works(cluster: Cluster, placed: Helm, combination: str, tmp_path: Path) -> None:
    namespace, values = COMBINATIONS[combination]
    words = ("--set=global.image.registry=localhost", *(f"--set={value}" for value in values))
    said = placed("install", "scavenger", str(CHART), "--wait", "--timeout=300s", *words)
    (tmp_path / "bin").mkdir()
    shell = Shell(cluster, placed, tmp_path / "bin")
    typed = commands(said)
    assert any("doctor --install" in command for command in typed), said
    for command in typed:
        text = re.sub(r"\bCHART\b", str(CHART), command).replace("busybox:1.37", stack.COUNTER_IMAGE)
        if not command.startswith(ENDLESS):
            shell.paste(text)
    running = ("get", "sj", "first", "-n", "default", "-o=jsonpath={.status.phase}")
    wait("the first job to run", lambda: cluster.kubectl(*running) == "Running", 120, placed.describe)
    named = re.findall(r"at the Service (\S+?)\.\n", said)
    assert (TOKEN in values) == bool(named), said
    services = {one["metadata"]["name"] for one in get(cluster, "services", "-n", namespace)["items"]}
    assert services.issuperset(named)
    cluster.kubectl("delete", "sj", "first", "-n", "default", "--timeout=110s", timeout=120)
    placed("uninstall", "scavenger", "--wait")


def commands(said: str) -> list[str]:
    """What the notes say to type: indented lines, and the sentence that ends with one."""
    _, _, notes = said.partition("NOTES:\n")
    indented = re.findall(r"^  (\w.*(?:\n    .*)*)", notes, re.MULTILINE)
    return [*indented, *re.findall(r"helm show crds CHART \|.*", notes)]
