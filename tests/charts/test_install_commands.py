"""What the pages install and uninstall have to paste: in an order that works, into one namespace, and all undone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml
from scavenger_testing import pages
from scavenger_testing.manifests import documents

from . import renders

pytestmark = pytest.mark.timeout(900)  # helm may have to be built first

ROOT = Path(__file__).resolve().parents[2]
README, INSTALL, UNINSTALL = ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in ("install", "uninstall"))
RECORD = (
    f"#!{sys.executable} -IS"
    + """
import json, os, sys
with open(os.environ["RECORD"], "a") as record:
    record.write(json.dumps([os.path.basename(sys.argv[0]), *sys.argv[1:]]) + "\\n")
"""
)
Words = list[str]


def recorded(blocks: Iterable[str], folder: Path) -> list[Words]:
    """Every helm and kubectl that commands come to, in order."""
    for name in ("helm", "kubectl"):
        (folder / name).write_text(RECORD)
        (folder / name).chmod(0o755)
    record = folder / "record"
    environment = os.environ | {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "RECORD": str(record)}
    for block in blocks:
        subprocess.run(["bash", "-euo", "pipefail", "-c", block], cwd=ROOT, env=environment, check=True)
    return [json.loads(line) for line in record.read_text().splitlines()]


@pytest.fixture(scope="module")
def pasted(tmp_path_factory: pytest.TempPathFactory) -> list[Words]:
    """The commands of both pages: install, leave, and for good."""
    folder = tmp_path_factory.mktemp("pasted")
    places = (
        (INSTALL, "## One chart per component"),
        (UNINSTALL, "## A release for each chart"),
        (UNINSTALL, "## The CRDs, too"),
    )
    return recorded((block for page, heading in places for block in pages.blocks(page, heading)), folder)


def with_words(pasted: list[Words], *words: str) -> list[Words]:
    return [command for command in pasted if command[: len(words)] == list(words)]


def namespace(command: Words) -> str:
    return command[command.index("--namespace") + 1]


def test_the_namespace_is_made_first_and_everything_is_in_it(pasted: list[Words]) -> None:
    assert pasted[0][:3] == ["kubectl", "create", "namespace"]
    (made,) = {words[3] for words in with_words(pasted, "kubectl", "create", "namespace")}
    assert {namespace(words) for words in with_words(pasted, "helm")} == {made}
    assert pasted[-1] == ["kubectl", "delete", "namespace", made]


def test_charts_are_installed_in_order_and_uninstalled_in_the_opposite_one(pasted: list[Words]) -> None:
    installed = [words[3] for words in with_words(pasted, "helm", "upgrade", "--install")]
    left = [words[2] for words in with_words(pasted, "helm", "uninstall")]

    assert installed[:2] == ["scavenger-crds", "scavenger-base"]
    assert [name for name in reversed(left) if name in installed][:2] == installed[:2]
    charts = {path.parent.name for path in ROOT.glob("charts/*/Chart.yaml")} - {"scavenger-library", "scavenger"}
    assert set(left) == charts, "whoever has the optional ones is rid of them as well"
    for words in with_words(pasted, "helm", "uninstall"):
        assert "--ignore-not-found" in words
    definitions = {
        yaml.safe_load(file.read_text())["metadata"]["name"] for file in (ROOT / "manifests/crds").glob("*_*")
    }
    (deleted,) = with_words(pasted, "kubectl", "delete", "crd")
    assert set(deleted[3:]) == definitions


def test_every_chart_renders_with_the_words_of_the_page_and_pulls_from_the_registry_named_there(
    pasted: list[Words], helm: Path
) -> None:
    pulled: dict[str, set[str]] = {}
    for _, _, _, release, chart, *words in with_words(pasted, "helm", "upgrade", "--install"):
        assert Path(chart).name == release
        assert "--wait" in words
        given = (word for word in words if word != "--wait")
        done = renders.run(helm, "template", release, ROOT / chart, *given)
        assert done.returncode == 0, done.stderr
        pulled[release] = set(images(documents(done.stdout)))

    assert not pulled.pop("scavenger-crds") | pulled.pop("scavenger-base")
    for release, names in pulled.items():
        assert {name.rpartition(":")[0] for name in names} == {f"registry.example.com/{release.replace('-', '/')}"}


def images(node: Any) -> list[str]:
    """Every `image` in what is rendered."""
    if isinstance(node, dict):
        own = [node["image"]] if isinstance(node.get("image"), str) else []
        return own + [found for child in node.values() for found in images(child)]
    return [found for child in node for found in images(child)] if isinstance(node, list) else []


def test_a_heading_without_commands_is_no_page_to_test(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A\n\n## One\n\n```sh\na\n```\n\n### Below\n\n```sh\nb\n```\n\n## Two\n\n    c\n")
    assert pages.blocks(page, "## One") == ["a\n", "b\n"]
    assert pages.blocks(page, "### Below") == ["b\n"]
    with pytest.raises(ValueError, match="no commands under '## Two'"):
        pages.blocks(page, "## Two")
    with pytest.raises(ValueError, match="no heading '## Three'"):
        pages.blocks(page, "## Three")
    page.write_text("## One\n\n```sh\na\n```\n\n```yaml\nb: 1\n```\n\n## Two\n\n```sh\nc\n```\n")
    assert pages.blocks(page, "## One", "yaml") == ["b: 1\n"]
    with pytest.raises(ValueError, match="no yaml under '## Two'"):
        pages.blocks(page, "## Two", "yaml")
    for heading, scripts in (("## One", ["a\n"]), ("## Two", ["c\n"]), ("", ["a\n", "c\n"])):
        assert [block.script for block in pages.commands(page, (), heading)] == scripts
