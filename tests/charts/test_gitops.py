"""docs/gitops.md: the chart takes the values of the page, and the health of jobs is told for phases that there are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from scavenger_api.job import Phase
from scavenger_testing.manifests import documents

from . import renders

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/gitops.md").read_text()
BLOCKS: list[dict[str, Any]] = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]


def block(kind: str) -> dict[str, Any]:
    return next(one for one in BLOCKS if one.get("kind") == kind)


def rendered(helm: Path, values: dict[str, Any], *words: str, again: bool = False) -> list[dict[str, Any]]:
    command = ("template", "scavenger", ROOT / "charts/scavenger", "--namespace=scavenger-system", "--values=-")
    done = (renders.run_again if again else renders.run)(helm, *command, *words, stdin=yaml.safe_dump(values))
    assert done.returncode == 0, done.stderr
    return documents(done.stdout)


def test_argo_cd_renders_the_same_objects_again_and_no_key(helm: Path) -> None:
    values = block("Application")["spec"]["source"]["helm"]["valuesObject"]
    first = rendered(helm, values, "--include-crds")
    assert first == rendered(helm, values, "--include-crds", again=True), "or each sync would change something"
    kinds = {(one["kind"], one["metadata"]["name"]) for one in first}
    assert ("CustomResourceDefinition", "scavengerjobs.scavenger.dev") in kinds
    assert ("Certificate", "scavenger-webhook") in {(kind, name) for kind, name in kinds}
    assert "Secret" not in {kind for kind, _ in kinds}
    assert not any(kind == "MutatingWebhookConfiguration" for kind, _ in kinds), "class: nothing looks at pods"


def test_what_cert_manager_writes_is_where_argo_cd_is_told_to_ignore_it(helm: Path) -> None:
    spec = block("Application")["spec"]
    (ignored,) = spec["ignoreDifferences"]
    injected = [
        one
        for one in rendered(helm, spec["source"]["helm"]["valuesObject"])
        if "cert-manager.io/inject-ca-from" in one["metadata"].get("annotations", {})
    ]
    assert injected
    assert {(one["apiVersion"].partition("/")[0], one["kind"]) for one in injected} == {
        (ignored["group"], ignored["kind"])
    }


def test_flux_has_all_values_that_a_release_needs(helm: Path) -> None:
    values = block("HelmRelease")["spec"]["values"]
    # helm finds the authority in a cluster; a rendering has to be given one
    assert rendered(helm, values, "--set=scavenger-webhook.admission.caBundle=bm9uZQ==")


@pytest.mark.parametrize("tool", ["Argo CD", "Flux"])
def test_health_is_told_by_phases_that_there_are(tool: str) -> None:
    if tool == "Argo CD":
        lua = next(one for one in BLOCKS if any(name.startswith("resource.customizations") for name in one))
        told = re.findall(r'(\w+) = "(\w+)"', next(iter(lua.values())))
        assert {health for _, health in told} == {"Healthy", "Degraded", "Suspended"}
        named = {phase for phase, _ in told}
    else:
        (checks,) = next(one for one in BLOCKS if "healthCheckExprs" in one)["healthCheckExprs"]
        named = set(re.findall(r"== '(\w+)'", f"{checks['current']} {checks['failed']}"))
    assert named <= {phase.value for phase in Phase}
    assert {"Completed", "Failed"} <= named
