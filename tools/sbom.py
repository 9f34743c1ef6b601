"""What is in each image, and in the command line, as CycloneDX 1.5: dist/sbom/<component>.cdx.json.

    python tools/sbom.py

Of what is in Python it is what `uv.lock` has for them, without what only developers need; of the programs in Go the
modules that its program is built from. What the base image of the Python services brings is not in it: that is said by
whoever publishes the base.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
OUTPUT: Final = ROOT / "dist" / "sbom"
SERVICES: Final = ("admitter", "regulator", "prioritizer", "webhook", "board")
IN_GO: Final = {"scheduler": ROOT / "services" / "scheduler", "snapshot": ROOT / "snapshot"}
COMPONENTS: Final = (*SERVICES, *IN_GO, "tuner", "cli")
MODULE: Final = (
    "{{with .Module}}{{if not .Main}}{{with .Replace}}{{.Path}} {{.Version}}{{else}}{{.Path}} {{.Version}}{{end}}"
    "{{end}}{{end}}"
)
"""For `go list`: path and version of the module that a package is from, the one that is really taken."""


def of_service(service: str) -> dict[str, Any]:
    """The runtime dependencies of a package in Python. Raises subprocess.CalledProcessError."""
    words = ["export", "--quiet", "--frozen", "--no-dev", "--preview-features=sbom-export", "--format=cyclonedx1.5"]
    command = [str(ROOT / "tools" / "uv"), *words, f"--package=scavenger-{service}"]
    made: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, cwd=ROOT).stdout)
    # Builds of it are reproducible.
    made.pop("serialNumber", None)
    made["metadata"].pop("timestamp", None)
    return made


def of_program(component: str) -> dict[str, Any]:
    """The modules in a program in Go. Raises subprocess.CalledProcessError."""
    name = f"scavenger-{component}"
    command = ["go", "list", "-deps", "-f", MODULE, f"./cmd/{name}"]
    environment = os.environ | {"GOFLAGS": "-mod=readonly", "GOWORK": "off", "CGO_ENABLED": "0"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=IN_GO[component], env=environment)
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    return go_document(name, version, done.stdout.splitlines())


def go_document(name: str, version: str, modules: Iterable[str]) -> dict[str, Any]:
    """A program and the modules in it. modules: `path version`, in any order and any number of times."""
    components = []
    for line in sorted({line for line in modules if line}):
        path, _, release = line.partition(" ")
        purl = f"pkg:golang/{path}@{release}"
        components.append({"type": "library", "bom-ref": purl, "name": path, "version": release, "purl": purl})
    about = {"type": "application", "bom-ref": name, "name": name, "version": version}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": about},
        "components": components,
        "dependencies": [{"ref": name, "dependsOn": [component["bom-ref"] for component in components]}],
    }


def write(component: str, into: Path) -> Path:
    """Write one of COMPONENTS into a folder; the file. Raises OSError and subprocess.CalledProcessError."""
    document = of_program(component) if component in IN_GO else of_service(component)
    file = into / f"{component}.cdx.json"
    file.write_text(json.dumps(document, indent=2) + "\n")
    return file


def main() -> int:
    """Write them all; 1 where one cannot be made."""
    OUTPUT.mkdir(parents=True, exist_ok=True)
    for component in COMPONENTS:
        try:
            file = write(component, OUTPUT)
        except (OSError, subprocess.CalledProcessError) as error:
            sys.stderr.write(f"error: {error}\n{getattr(error, 'stderr', '') or ''}\n")
            return 1
        sys.stdout.write(f"{file.relative_to(ROOT)}: {len(json.loads(file.read_text())['components'])} components\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
