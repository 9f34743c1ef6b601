"""Lists of what is in the images: complete, without repetitions, and the same whenever they are made."""

from __future__ import annotations

import tomllib

import pytest

from tools import sbom

pytestmark = pytest.mark.slow


def test_of_a_program_in_go() -> None:
    made = sbom.go_document("app", "1.0", ["b.example/m v1", "", "a.example/n/v2 v2.1", "b.example/m v1"])

    assert [(c["name"], c["version"], c["purl"]) for c in made["components"]] == [
        ("a.example/n/v2", "v2.1", "pkg:golang/a.example/n/v2@v2.1"),
        ("b.example/m", "v1", "pkg:golang/b.example/m@v1"),
    ]
    assert made["metadata"]["component"] == {"type": "application", "bom-ref": "app", "name": "app", "version": "1.0"}
    assert made["dependencies"] == [{"ref": "app", "dependsOn": [c["bom-ref"] for c in made["components"]]}]
    assert (made["bomFormat"], made["specVersion"]) == ("CycloneDX", "1.5")


@pytest.mark.parametrize("service", sbom.SERVICES)
def test_of_a_service_what_the_lockfile_has_and_nothing_of_developers(service: str) -> None:
    made = sbom.of_service(service)
    names = {component["name"] for component in made["components"]}
    locked = {(p["name"], p.get("version")) for p in tomllib.loads((sbom.ROOT / "uv.lock").read_text())["package"]}

    assert {(c["name"], c["version"]) for c in made["components"]} <= locked
    assert {"scavenger-runtime", "aiohttp", "pydantic"} <= names
    assert not {"pytest", "mypy", "pip-audit", "scavenger-testing"} & names
    assert made == sbom.of_service(service)
