"""The command line by itself: what it is installed with, and the files that are made of it."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import subprocess
import tarfile
from pathlib import Path

import pytest

from tools import cli_file

pytestmark = pytest.mark.slow

JOB = {
    "apiVersion": "scavenger.dev/v1alpha1",
    "kind": "ScavengerJob",
    "metadata": {"name": "sim"},
    "spec": {
        "image": "app:1",
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
        "persistentVolumeClaims": [{"name": "state", "mountPath": "/state"}],
    },
}
ALLOWED = {
    *("scavenger_cli", "scavenger_api", "scavenger_domain", "scavenger_kube"),
    *("msgspec", "pyyaml", "urllib3", "pysocks"),
    *("pydantic", "pydantic_core", "annotated_types", "typing_extensions", "typing_inspection"),
    *("typer", "shellingham", "annotated_doc", "rich", "markdown_it_py", "mdurl", "pygments"),
}
"""What a user of the command line has to trust. Nothing of it is there for services only."""


@pytest.mark.timeout(240)
def test_in_an_empty_environment_it_needs_nothing_that_only_services_do(tmp_path: Path) -> None:
    packages = cli_file.install(tmp_path / "environment")
    installed = {re.split(r"-\d", path.name)[0].lower() for path in packages.glob("*.dist-info")}
    assert installed <= ALLOWED
    file = tmp_path / "job.json"
    file.write_text(json.dumps(JOB))
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    for words, output in (
        (("kubectl-sj", "lint", str(file)), f"{file}: ScavengerJob sim: ok\n"),
        (("kubectl-scavenger", "version", "--client"), "Client: "),
        (("kubectl_complete-sj", "des"), "describe\tShow all details of jobs.\n:4\n"),
    ):
        command = [str(tmp_path / "environment" / "bin" / words[0]), *words[1:]]
        done = subprocess.run(command, capture_output=True, text=True, env=variables, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(output)


@pytest.mark.parametrize(("machine", "named"), [("x86_64", "amd64"), ("aarch64", "arm64"), ("riscv64", "riscv64")])
def test_every_machine_has_a_name(monkeypatch: pytest.MonkeyPatch, machine: str, named: str) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert cli_file.architecture() == named


def test_an_archive_is_the_same_whenever_it_is_made(tmp_path: Path) -> None:
    program, text = tmp_path / cli_file.NAME, tmp_path / "LICENSE"
    program.write_text("#!/bin/sh\n")
    text.write_text("free")
    first = cli_file.archive([program, text], tmp_path / "a.tar.gz")
    os.utime(program, (1, 1))
    assert cli_file.archive([program, text], tmp_path / "b.tar.gz") == first
    assert hashlib.sha256((tmp_path / "a.tar.gz").read_bytes()).hexdigest() == first
    with tarfile.open(tmp_path / "a.tar.gz") as tar:
        assert [(one.name, one.mode) for one in tar.getmembers()] == [("kubectl-sj", 0o755), ("LICENSE", 0o644)]


def test_what_krew_reads() -> None:
    manifest = cli_file.krew_manifest("1.2.3", "https://example.org/a.tar.gz", "0" * 64, "linux", "amd64")
    spec = manifest["spec"]
    assert (manifest["metadata"]["name"], spec["version"]) == ("sj", "v1.2.3")
    assert len(spec["shortDescription"]) <= 50, "krew's index takes no longer one"
    (only,) = spec["platforms"]
    assert only["selector"] == {"matchLabels": {"os": "linux", "arch": "amd64"}}
    assert (only["uri"], only["sha256"], only["bin"]) == ("https://example.org/a.tar.gz", "0" * 64, "kubectl-sj")
    assert [one["from"] for one in only["files"]] == ["kubectl-sj", "LICENSE"]
