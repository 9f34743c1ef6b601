"""Beside kubectl itself, on the same API server: what flags and forms of output come to is the same."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from .conftest import Sj


class Both:
    """The same words for both programs."""

    def __init__(self, sj: Sj) -> None:
        self.sj = sj

    def kubectl(self, *words: str) -> str:
        command = [*self.sj.cluster.kubectl_command, "-n", self.sj.namespace, *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def ours(self, *words: str) -> str:
        done = self.sj.run(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def both(sj: Sj) -> Both:
    """Three jobs that stay as they are."""
    small = ("--image", "none", "--suspended")
    red = ("--label", "example.com/team=red")
    sj("run", "job-10", *small, "--cpu", "2", "--memory", "1Gi", *red, "--", "first", "second one", "3")
    sj("run", "job-9", *small, "--cpu", "500m", "--memory", "2Gi", "--parallelism", "2")
    sj("run", "other", *small, "--cpu", "1", "--memory", "512Mi", "--node-selector", "disk=ssd")
    sj("wait", "job-10", "job-9", "other", "--for=suspended", "--timeout", "120s")
    return Both(sj)


def test_the_same_words_come_to_the_same(both: Both) -> None:
    kubectl, ours = both.kubectl, both.ours
    assert ours("list", "-o", "name") == kubectl("get", "scavengerjobs", "-o", "name")
    for form, read in (("json", json.loads), ("yaml", yaml.safe_load)):
        assert read(ours("list", "-o", form))["items"] == read(kubectl("get", "sj", "-o", form))["items"]
        assert read(ours("get", "other", "-o", form)) == read(kubectl("get", "sj", "other", "-o", form))
    for option, value in (
        ("--field-selector", "metadata.name=job-9"),
        ("--field-selector", "status.phase=Suspended,metadata.name!=other"),
        ("-l", "example.com/team=red"),
    ):
        chosen = (option, value, "-o", "name")
        assert ours("list", *chosen) == kubectl("get", "sj", *chosen), value


def test_who_asks(both: Both, tmp_path: Path) -> None:
    sj = both.sj
    refused = sj.refused(1, "--as", "ada", "--as-group", "night", "list")
    assert refused[0] == f"error: ada may not list scavengerjobs in namespace {sj.namespace}"
    assert sj("--as", "ada", "--as-group", "system:masters", "list", "-o", "name") == sj("list", "-o", "name")
    server = yaml.safe_load(sj.cluster.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    empty = tmp_path / "empty"
    empty.write_text("")
    line = ("--kubeconfig", str(empty), "--server", server, "--insecure-skip-tls-verify", "--token", "wrong", "list")
    assert sj.refused(1, *line)[0] == "error: the API server does not accept the credentials of this kubeconfig"


def test_a_selector_that_the_server_does_not_know(both: Both) -> None:
    refused = both.sj.refused(1, "list", "--field-selector", "spec.image=none")
    assert "field label not supported: spec.image" in refused[0]
    assert refused[1].endswith("metadata.name, metadata.namespace, spec.queue, status.phase")
